"""The study of our BLEURT: the pairs and signals it makes, and its two stages."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest
import torch

from summarily.cli import main
from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring
from summarily.modeling.training.recipe import load_recipe
from summarily.studies.bleurt import training
from summarily.support.errors import FileError
from summarily.support.sample import load_sample
from tests.metrics.tiny import checkpoint, texts

SMALL = [
    "training.max_steps=6",
    "training.evaluate_every=3",
    "training.checkpoint_every=3",
    "training.tensorboard=false",
    "batch.tokens=300",
    "rating.max_tokens=64",
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


def test_the_command_trains_both_stages_and_can_be_run_again(data, tmp_path, monkeypatch, capsys):
    calls = []

    def signals(pairs, names):
        calls.append(len(pairs))
        return [[float(len(pair.candidate) % (3 + n)) for n in range(len(names))] for pair in pairs]

    monkeypatch.setattr(training, "measure_signals", signals)
    changes = [
        f"bleurt_signals:{change}" for change in [*SMALL, f"model.config.encoder={checkpoint('bert')}"]
    ]
    changes += [f"bleurt_ratings:{change}" for change in [*SMALL, "rating.joined=4"]]
    command = ["study", "bleurt", "--data", str(data), "--output", str(tmp_path / "out"), "--pairs", "22"]
    for change in changes:
        command += ["--set", change]
    assert main(command) == 0
    first = BleurtForScoring.from_pretrained(tmp_path / "out/ratings/hub")
    assert first.config.outputs == 1 and first.config.adapter_rank == 24
    assert main(command) == 0
    assert calls == [22], "the signals are measured once"
    second = BleurtForScoring.from_pretrained(tmp_path / "out/ratings/hub")
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    capsys.readouterr()
    assert main([*command, "--set", "nonsense"]) == 2
    assert "--set nonsense" in capsys.readouterr().err
    assert main([*command, "--set", "bleurt:training.max_steps=1"]) == 2
    assert "there is no stage bleurt" in capsys.readouterr().err


def test_pairs_of_another_version_are_refused_with_a_sentence(data, tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text('["rouge1"]\n["a", "b", "drop", [0.5]]\n')
    with pytest.raises(FileError, match="lacks signals that the recipe names"):
        training.write_signals(file, data, ["rouge1"], 22, seed=0)


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
