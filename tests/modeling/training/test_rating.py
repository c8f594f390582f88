"""Training of BLEURT: its rows, its loss, and runs that go on as if they had never stopped."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from summarily.modeling.bleurt.modeling_bleurt import UNKNOWN, BleurtForScoring
from summarily.modeling.bleurt.tokenization_bleurt import PairTokenizer
from summarily.modeling.training.recipe import PairSource, RatingSection, Recipe, load_recipe
from summarily.modeling.training.tasks.rating import (
    SHARPNESS,
    Rated,
    RatingTask,
    agreement,
    collate_pairs,
    divide,
    join_pairs,
    make_rows,
    read_pairs,
)
from summarily.modeling.training.train import train
from summarily.support.errors import InputError, RecipeError
from tests.metrics.tiny import checkpoint, texts

SIGNALS = ["rouge1", "wms"]


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Pairs that people rate from 1 to 5, and pairs with two signals."""
    folder = tmp_path_factory.mktemp("data")
    pairs = list(itertools.pairwise([text for text in texts() if text.strip()]))
    write(
        folder / "rated.jsonl.gz",
        [{"one": a, "two": b, "score": str(1 + row % 5)} for row, (a, b) in enumerate(pairs)],
    )
    write(
        folder / "signals.jsonl.gz",
        [
            {
                "reference": a, "candidate": b, "rouge1": row % 3, "wms": 0.1 * row,
                "split": "validation" if row < 4 else "train",
            }
            for row, (a, b) in enumerate(pairs)
        ],
    )  # fmt: skip
    write(
        folder / "duels.jsonl.gz",
        [
            {
                "reference": a, "better": f"{a} {b}", "worse": b, "split": "validation" if row < 4 else "train",
            }
            for row, (a, b) in enumerate(pairs)
        ],
    )  # fmt: skip
    return folder


PEOPLE = {
    "file": "rated.jsonl.gz",
    "reference": "one",
    "candidate": "two",
    "rating": "score",
    "low": 1.0,
    "high": 5.0,
}
METRICS = {"file": "signals.jsonl.gz", "split": "split"}
DUELS = {"file": "duels.jsonl.gz", "candidate": "better", "worse": "worse", "split": "split"}


def recipe(pairs=PEOPLE, steps=6, **sections) -> Recipe:
    config = {
        "encoder": checkpoint("bert"), "adapter_rank": 2, "adapter_alpha": 4, "pooling": "pair", "signals": SIGNALS,
    }  # fmt: skip
    values = {
        "model": {"name": "summarily-bleurt", "config": config},
        "rating": {"pairs": [pairs], "joined": 4, "max_tokens": 64},
        "batch": {"tokens": 300},
        "schedule": {"learning_rate": 1e-2},
        "training": {"max_steps": steps, "evaluate_every": 3, "checkpoint_every": 3, "tensorboard": False},
    }
    return Recipe.from_dict(values | sections)


@pytest.fixture(scope="module")
def tokenizer() -> PairTokenizer:
    return PairTokenizer.from_pretrained(checkpoint("bert"))


def new_model() -> BleurtForScoring:
    torch.manual_seed(0)
    return BleurtForScoring.from_encoder(checkpoint("bert"), adapter_rank=2, pooling="pair", signals=SIGNALS)


def test_ratings_are_brought_to_one_scale_and_signals_to_mean_0_and_deviation_1(data):
    people = read_pairs(PairSource(**PEOPLE), data, SIGNALS)
    assert {pair.labels[0] for pair in people} == {0, 0.25, 0.5, 0.75, 1}
    assert all(pair.labels[1:] == [UNKNOWN] * 2 and pair.held_out is None for pair in people)
    metrics = read_pairs(PairSource(**METRICS), data, SIGNALS)
    values = np.array([pair.labels for pair in metrics])
    assert (values[:, 0] == UNKNOWN).all() and sum(pair.held_out for pair in metrics) == 4
    np.testing.assert_allclose(values[:, 1:].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(values[:, 1:].std(0), 1)
    with pytest.raises(InputError, match="no column 'vert'"):
        read_pairs(PairSource(**METRICS), data, ["vert"])


def test_a_joined_pair_has_the_mean_of_its_parts():
    pairs = [Rated(f"first {n}", f"second {n}.", [n / 9, UNKNOWN]) for n in range(10)]
    for first, second, labels, *_ in join_pairs(pairs, 20, random.Random(0)):
        numbers = [int(word.strip(".")) for word in first.split() if word.strip(".").isdigit()]
        assert 2 <= len(numbers) <= 4
        assert numbers == [int(word.strip(".")) for word in second.split() if word.strip(".").isdigit()]
        assert labels == [pytest.approx(sum(numbers) / len(numbers) / 9), UNKNOWN]
        assert first.count(".") == second.count(".") == len(numbers)


def test_what_is_held_out_is_not_learned(data):
    section = RatingSection(joined=4)
    pairs = read_pairs(PairSource(**PEOPLE), data, SIGNALS)
    learned, held_out = divide(pairs, section, random.Random(0))
    assert len(held_out) == int(0.1 * len(pairs))  # too few for a joined row among them
    assert len(learned) == len(pairs) - len(held_out) + 4
    assert not {pair[:2] for pair in learned} & {pair[:2] for pair in held_out}
    assert divide(pairs, section, random.Random(0)) == (learned, held_out)
    named = read_pairs(PairSource(**METRICS), data, SIGNALS)
    assert divide(named, RatingSection(), random.Random(0)) == (named[4:], named[:4])


def test_the_loss_is_a_sum_over_known_labels(tokenizer):
    model = new_model().eval()
    pairs = [Rated("a", "b", [0.5, UNKNOWN, 1.0]), Rated("Snow fell.", "a", [UNKNOWN, 0.0, UNKNOWN])]
    batch = collate_pairs(tokenizer, make_rows(tokenizer, pairs, 64))
    with torch.no_grad():
        loss = RatingTask.loss(None, model, batch)
        logits = model(**{key: batch[key] for key in batch if key not in ("labels", "duels")}).logits
    expected = (logits[0, 0] - 0.5) ** 2 + (logits[0, 2] - 1) ** 2 + logits[1, 1] ** 2
    torch.testing.assert_close(loss, expected)


def test_a_duel_costs_what_its_outcome_surprises(tokenizer):
    model = new_model().eval()
    pairs = [Rated("Snow fell.", "Snow fell.", [], None, "a b"), Rated("a", "b", [0.5, UNKNOWN, UNKNOWN])]
    rows = make_rows(tokenizer, pairs, 64)
    batch = collate_pairs(tokenizer, rows)
    assert batch["duels"].tolist() == [[1, 2]] and batch["labels"].shape == (1, 3)
    assert len(rows[0]["input_ids"]) == batch["attention_mask"][1:].sum()
    with torch.no_grad():
        loss = RatingTask.loss(None, model, batch)
        logits = model(**{key: batch[key] for key in batch if key not in ("labels", "duels")}).logits
        alone = RatingTask.loss(None, model, collate_pairs(tokenizer, rows[:1]))
    surprise = torch.log1p(torch.exp(-SHARPNESS * (logits[1, 0] - logits[2, 0])))
    torch.testing.assert_close(loss, (logits[0, 0] - 0.5) ** 2 + surprise)
    torch.testing.assert_close(alone, surprise)


def test_duels_are_won_by_the_higher_score(tokenizer, monkeypatch):
    model = new_model()
    pairs = [
        Rated("a", "b b b", [], None, "b"),
        Rated("a", "b", [], None, "b b"),
        Rated("a", "b", [], None, "b"),
    ]

    def by_length(input_ids, attention_mask, **others):
        return type("Output", (), {"logits": attention_mask.sum(1, keepdim=True).float()})

    monkeypatch.setattr(model, "forward", by_length)
    found = agreement(model, make_rows(tokenizer, pairs, 64), tokenizer)
    assert found["won"] == pytest.approx(100 / 3), "a draw is not won"
    assert "spearman" not in found


def test_duels_are_learned_beside_ratings(data, tokenizer, tmp_path):
    pairs = [DUELS, PEOPLE]
    rating = {"pairs": pairs, "joined": 4, "max_tokens": 64}
    learned = recipe(rating=rating, steps=30, evaluation={"select": "won"}, batch={"tokens": 1200})
    result = train(learned, tmp_path / "run", data=data)
    assert 0 <= result.best_score <= 100
    rows = make_rows(tokenizer, read_pairs(PairSource(**DUELS), data, []), 64)
    after = BleurtForScoring.from_pretrained(tmp_path / "run/hub")
    assert agreement(after, rows, tokenizer)["won"] > agreement(new_model(), rows, tokenizer)["won"]
    assert after.config.outputs == 1


def test_agreement_is_over_what_every_row_has(tokenizer, monkeypatch):
    model = new_model()
    pairs = [Rated("a " * n, "b", [float(n), UNKNOWN, UNKNOWN]) for n in range(1, 6)]
    rows = make_rows(tokenizer, pairs, 64)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.fill_(2.0)
    found = agreement(model, rows, tokenizer)
    assert found["loss"] == pytest.approx(np.mean([(2.0 - n) ** 2 for n in range(1, 6)]))
    assert np.isnan(found["spearman"])  # constant answers have no order

    def by_length(input_ids, attention_mask, **others):
        return type("Output", (), {"logits": attention_mask.sum(1, keepdim=True).repeat(1, 3).float()})

    monkeypatch.setattr(model, "forward", by_length)
    assert agreement(model, rows, tokenizer)["spearman"] == pytest.approx(1.0)


def test_a_run_that_was_stopped_ends_as_one_that_was_not(data, tmp_path):
    train(recipe(), tmp_path / "straight", data=data)
    train(recipe(steps=3), tmp_path / "parts", data=data)
    train(recipe(), tmp_path / "parts", data=data)
    straight, parts = (
        BleurtForScoring.from_pretrained(tmp_path / run / "hub") for run in ("straight", "parts")
    )
    frozen = new_model()
    for name, tensor in straight.state_dict().items():
        assert torch.equal(tensor, parts.state_dict()[name]), name
        if name not in straight.own_state():
            assert torch.equal(tensor, frozen.state_dict()[name]), name
    assert any(tensor.abs().sum() for name, tensor in straight.own_state().items() if "adapter_up" in name)


def test_a_run_goes_on_from_another_and_keeps_the_outputs_that_it_taught(data, tmp_path):
    train(recipe(METRICS), tmp_path / "signals", data=data)
    first = BleurtForScoring.from_pretrained(tmp_path / "signals/hub")
    assert first.config.signals == SIGNALS
    assert "# the score and the signals" in (tmp_path / "signals/hub/README.md").read_text()
    second = recipe(model={"name": str(tmp_path / "signals/hub")}, hub={"dtype": "float16"})
    result = train(second, tmp_path / "ratings", data=data)
    assert result.scores == {} and not (tmp_path / "ratings/predictions.jsonl").exists()
    last = BleurtForScoring.from_pretrained(tmp_path / "ratings/hub")
    assert last.config.outputs == 1 and last.config.adapter_rank == 2
    text = (tmp_path / "ratings/hub/README.md").read_text()
    assert "# the score\n" in text and "rated" in text and "$" not in text and str(tmp_path) not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"name": "no/such/model"}}, "model.name is 'no/such/model'; expected 'summarily-bleurt'"),
        ({"rating": {"pairs": [{"file": "no.jsonl"}]}}, "there is no file"),
        ({"data": {"max_source_tokens": 64}}, "data.max_source_tokens is 64, but rating does not read it"),
        ({"batch": {"tokens": 32}}, r"must hold one example of rating.max_tokens = 64 tokens"),
        ({"evaluation": {"select": "rouge1"}}, "rating is chosen by 'loss' or 'spearman' or 'won'"),
        ({"evaluation": {"select": "won"}}, "no rating.pairs has duels"),
        ({"rating": {"pairs": [DUELS | {"rating": "score"}], "max_tokens": 64}}, "duels .* have no rating"),
        ({"rating": {"pairs": [DUELS | {"split": None}], "max_tokens": 64}}, "and need a split"),
        (
            {"rating": {"pairs": [DUELS], "max_tokens": 64}, "batch": {"tokens": 100}},
            "twice rating.max_tokens = 128",
        ),
    ],
)
def test_mistakes_are_named(change, message, data, tmp_path):
    with pytest.raises(RecipeError, match=message):
        train(recipe(**change), tmp_path / "run", data=data)


def test_the_recipes_of_the_package_say_what_they_did_when_the_study_trained():
    signals, ratings = load_recipe("bleurt_signals"), load_recipe("bleurt_ratings")
    assert load_recipe("bleurt_summaries").rating.has_duels
    assert (signals.task, ratings.task) == ("rating", "rating")
    assert signals.rating.max_tokens == ratings.rating.max_tokens == 256 and ratings.rating.joined == 1500
