"""How our BLEURT is trained: its rows, its loss, and runs that go on as if they had never stopped."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from pathlib import Path

import pytest
import torch

from summarily.cli import main
from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring
from summarily.modeling.bleurt.tokenization_bleurt import PairTokenizer
from summarily.modeling.training.recipe import load_recipe
from summarily.studies.bleurt import training
from summarily.studies.bleurt.training import UNKNOWN, join_pairs, make_rows, rating_rows
from summarily.support.sample import load_sample
from tests.metrics.tiny import checkpoint, texts

SMALL = [
    "training.max_steps=6",
    "training.evaluate_every=3",
    "training.checkpoint_every=3",
    "training.tensorboard=false",
    "batch.tokens=300",
    "data.max_source_tokens=64",
    "data.limits.joined=4",
]


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path) -> Path:
    """The files of the recipes, with a few rows of our own."""
    folder = tmp_path / "data"
    sentences = [text for text in texts() if text.strip()]
    pairs = list(itertools.pairwise(sentences))
    write(
        folder / "paraphrase/stsb_train.jsonl.gz",
        [{"sentence1": a, "sentence2": b, "score": float(row % 6)} for row, (a, b) in enumerate(pairs)],
    )
    write(
        folder / "paraphrase/sick_train.jsonl.gz",
        [
            {"sentence1": a, "sentence2": b, "relatedness": str(1 + row % 5)}
            for row, (a, b) in enumerate(pairs)
        ],
    )
    sources = [row["source"] for row in load_sample()]
    for file, column in (
        ("news/bbc_news_summary", "article"),
        ("news/cnndm_articles", "article"),
        ("news/reuters_train", "body"),
        ("sentence/arxiv_abstract_title", "abstract"),
    ):
        write(folder / f"{file}.jsonl.gz", [{column: source} for source in sources])
    return folder


@pytest.fixture
def tokenizer() -> PairTokenizer:
    return PairTokenizer.from_pretrained(checkpoint("bert"))


def new_model() -> BleurtForScoring:
    torch.manual_seed(0)
    return BleurtForScoring.from_encoder(
        checkpoint("bert"), adapter_rank=2, pooling="pair", signals=["rouge1", "wms"]
    )


def test_ratings_are_brought_to_one_scale(data):
    found = training.rating_pairs(load_recipe("bleurt_ratings"), data)
    assert {round(score, 6) for _, _, score in found} == {0, 0.2, 0.4, 0.6, 0.8, 1, 0.25, 0.5, 0.75}


def test_a_joined_pair_has_the_mean_of_its_parts():
    pairs = [(f"first {n}", f"second {n}.", n / 9) for n in range(10)]
    for first, second, score in join_pairs(pairs, 20, random.Random(0)):
        numbers = [int(word.strip(".")) for word in first.split() if word.strip(".").isdigit()]
        assert 2 <= len(numbers) <= 4
        assert numbers == [int(word.strip(".")) for word in second.split() if word.strip(".").isdigit()]
        assert score == pytest.approx(sum(numbers) / len(numbers) / 9)
        assert first.count(".") == second.count(".") == len(numbers)


def test_what_is_held_out_is_not_trained_on(data, tokenizer):
    recipe = load_recipe("bleurt_ratings", SMALL)
    rows, held_out = rating_rows(recipe, data, tokenizer, signals=2)
    count = len(training.rating_pairs(recipe, data))
    assert len(held_out) == int(0.1 * count)  # too few for a joined row among them
    assert len(rows) == count - len(held_out) + 4
    assert all(row["labels"][1:] == [UNKNOWN, UNKNOWN] and 0 <= row["labels"][0] <= 1 for row in rows)
    again = rating_rows(recipe, data, tokenizer, signals=2)
    assert again == (rows, held_out)


def test_the_loss_is_a_sum_over_known_labels(tokenizer):
    model = new_model().eval()
    rows = make_rows(
        tokenizer, [("a", "b"), ("Snow fell.", "a")], [[0.5, UNKNOWN, 1.0], [UNKNOWN, 0.0, UNKNOWN]]
    )
    batch = training.collate(rows, tokenizer)
    with torch.no_grad():
        loss = training.squared_errors(model, batch, load_recipe("bleurt_ratings").training)
        logits = model(**{key: batch[key] for key in batch if key != "labels"}).logits
    expected = (logits[0, 0] - 0.5) ** 2 + (logits[0, 2] - 1) ** 2 + logits[1, 1] ** 2
    torch.testing.assert_close(loss, expected)


def run(folder: Path, data: Path, tokenizer: PairTokenizer, steps: int) -> BleurtForScoring:
    recipe = load_recipe("bleurt_ratings", [*SMALL, f"training.max_steps={steps}", "schedule.kind=constant"])
    rows, held_out = rating_rows(recipe, data, tokenizer, signals=2)
    model = new_model()
    assert training.run_stage(recipe, folder, model, rows, held_out, tokenizer)
    return model


def test_a_run_that_was_stopped_ends_as_one_that_was_not(data, tokenizer, tmp_path):
    straight = run(tmp_path / "straight", data, tokenizer, steps=6)
    run(tmp_path / "parts", data, tokenizer, steps=3)
    parts = run(tmp_path / "parts", data, tokenizer, steps=6)
    frozen = new_model()
    for name, tensor in straight.state_dict().items():
        assert torch.equal(tensor, parts.state_dict()[name]), name
        if name not in straight.own_state():
            assert torch.equal(tensor, frozen.state_dict()[name]), name
    assert any(tensor.abs().sum() for name, tensor in straight.own_state().items() if "adapter_up" in name)


def test_the_command_trains_both_stages_and_can_be_run_again(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "ENCODER", checkpoint("bert"))
    calls = []

    def signals(pairs, names):
        calls.append(len(pairs))
        return [[float(len(pair.candidate) % (3 + n)) for n in range(len(names))] for pair in pairs]

    monkeypatch.setattr(training, "measure_signals", signals)
    limits = [f"bleurt_signals:data.limits.{name}=5" for name in ("bbc", "cnndm", "reuters", "arxiv")]
    changes = [f"bleurt_signals:{change}" for change in SMALL[:6]] + [
        f"bleurt_ratings:{change}" for change in SMALL
    ]
    command = ["study", "bleurt", "--data", str(data), "--output", str(tmp_path / "out")]
    for change in limits + changes:
        command += ["--set", change]
    assert main(command) == 0
    first = BleurtForScoring.from_pretrained(tmp_path / "out/hub")
    assert first.config.outputs == 1 and first.config.adapter_rank == 24
    assert main(command) == 0
    assert calls == [20], "the signals are measured once"
    second = BleurtForScoring.from_pretrained(tmp_path / "out/hub")
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    capsys.readouterr()
    assert main([*command, "--set", "nonsense"]) == 2
    assert "--set nonsense" in capsys.readouterr().err


def test_signals_are_what_the_metrics_say():
    from summarily.metrics import load
    from summarily.studies.bleurt.perturbations import Pair

    for name in training.METRICS:
        load(name).check()
    pairs = [Pair("Snow fell in Oslo.", "Snow fell.", "drop"), Pair("Stocks fell.", "Stocks fell.", "same")]
    names = load_recipe("bleurt_signals").model.config["signals"]
    measured = training.measure_signals(pairs, names)
    assert measured[1] == pytest.approx([1.0] * len(names), abs=1e-5)
    assert measured[0][names.index("rouge1")] == pytest.approx(2 / 3)  # 2 of 2 and 2 of 4 words
