"""The study of APESO: its runs, its table and its verdict."""

from __future__ import annotations

import argparse
import json
import lzma

import pytest

from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.studies.apeso import report as study_report
from summarily.studies.apeso import study
from summarily.studies.copying import learning_to_copy
from summarily.support.errors import InputError
from tests.modeling.tiny_t5 import T5_SIZES, tiny_t5
from tests.summarily.studies.small_study import SETTINGS, run_here, write_news

RUNS = ["baseline", "apeso", "baseline-settled", "apeso-settled"]


def results(low: float, high: float) -> dict:
    row = {"rouge1": 0.3, "rouge2": 0.1, "rougeLsum": 0.2, "apes": 41.26, "apes_entities": 3, "words": 40}
    row |= {"apes_salient_entities": 1.5, "apes_interval": [40.0, 43.0]}
    test = {"difference": (low + high) / 2, "low": low, "high": high, "p_permutation": 0.0321}
    keys = ("apes", "apes_salient_entities", "rouge1")
    run = {"step": 9, "best_step": 8, "minutes": 1.0, "best_score": 4.5, "parameters": 1000}
    point = {"apes": 30.0, "rouge1": 0.25, "words": 40.4}
    points = [point | {"beta": 0.5, "gamma": gamma} for gamma in (2.0, 5.0)]
    return {
        "penalties": {study.APESO: {"beta": 0.5, "gamma": 5.0, "points": points}},
        "entities": {"area": 0.81, "salient": 0.3, "others": 0.1, "share": 0.05},
        "examples": 20, "questions": 77, "signatures": ["apes|reader:x"],
        "rows": dict.fromkeys(study_report.PAPER, row),
        "tests": [
            {"system": name, "other": other, **dict.fromkeys(keys, test)} for name, other in study.COMPARED
        ],
        "deltas": [0.99, 0.9],
        "runs": dict.fromkeys((*study.STAGES, *RUNS), run),
    }  # fmt: skip


def test_the_document_has_our_numbers_and_the_papers():
    text = study_report.document(results(1.0, 3.0))
    assert "| APESO | 41.3 (40.0 to 43.0) | 30.0 | 10.0 | 20.0 | 40 | 46.1, 40.2, 17.7, 37 |" in text
    assert "| source | 41.3 (40.0 to 43.0) |  |  |  | 40 | 61.1, -, -, - |" in text
    assert "77 questions about 20 held-out articles" in text and "apes|reader:x" in text
    assert "| APESO | baseline | +2.00 (+1.00 to +3.00) | 0.0321 |" in text
    assert "| APESO | baseline, longer | +2.00 (+1.00 to +3.00) | 0.0321 |" in text
    assert "5.0% belong to salient entities" in text and "probability of 0.810" in text
    assert "| apeso | 0.5 | 2 | 30.0 | 25.0 | 40 |  |" in text
    assert "| apeso | 0.5 | 5 | 30.0 | 25.0 | 40 | chosen |" in text


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1, 3, "claim holds"), (-3, -1, "does not hold"), (-1, 1, "neither confirmed nor refuted")],
)
def test_the_verdict_follows_the_interval(low, high, said):
    assert (
        study_report.verdict(results(low, high)).count(said) == 2
    )  # than the baseline, and than the longer one


def write_cnndm(folder) -> str:
    """Invented articles in the published split; sources are longer than what is read in training."""
    place = folder / "news" / "cnndm"
    place.mkdir(parents=True)
    for split, count in (("validation", 4), ("test", 5)):
        with lzma.open(place / f"{split}.jsonl.xz", "wt") as file:
            for i in range(count):
                article = f"The bank of Oslo opened hall {i}. It rained in Bergen.\n\n" + "Nobody came. " * 10
                row = {
                    "id": f"{split}{i}",
                    "article": article,
                    "highlights": ["The bank of Oslo opened", "It rained"],
                }
                file.write(json.dumps(row) + "\n")
    return str(folder)


def tiny_news(folder) -> str:
    """A T5 that stands for the shipped summarizer."""
    section = TokenizerSection(kind="word", min_frequency=1, vocabulary_size=T5_SIZES["vocab_size"])
    tokenizer = train_tokenizer(
        ["The bank of Oslo opened hall . It rained . Nobody came"], section, max_length=30
    )
    tiny_t5(pad_token_id=0, eos_token_id=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_the_study_trains_chooses_and_scores(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "BETAS", (0.5, 10.0))
    monkeypatch.setattr(study, "GAMMAS", (0.5, 10.0))
    monkeypatch.setattr(study, "SEARCH", {**study.SEARCH, "min_new_tokens": 4, "max_new_tokens": 6})
    started = run_here(monkeypatch, study, learning_to_copy)
    parser = argparse.ArgumentParser()
    study.add_arguments(parser)
    settings = [argument for override in SETTINGS for argument in ("--set", override)]
    folder, beside = tmp_path / "out", ["--news", tiny_news(tmp_path / "tiny")]
    options = parser.parse_args(
        [
            "--scale",
            "0.004",
            "--output",
            str(folder),
            "--data",
            write_news(tmp_path / "data"),
            *settings,
            *beside,
        ]
    )
    assert study.run(options) == 0
    assert started == [*study.STAGES, *RUNS]
    stored = json.loads((folder / "study.json").read_text())
    news = stored["penalties"]["news"]
    assert news["gamma"] in study.GAMMAS and len(news["points"]) == 2
    assert [row["system"] for row in stored["tests"]][-1] == "news, entity penalty"
    assert set(study.NEWS) < set(stored["rows"])
    assert set(study.SYSTEMS) < set(stored["rows"]) and stored["rows"]["gold summaries"]["rouge1"] == 1.0
    chosen = stored["penalties"][study.APESO]
    assert chosen["beta"] in study.BETAS and chosen["gamma"] in study.GAMMAS and len(chosen["points"]) == 4
    assert stored["deltas"] == [0.998, 0.9], "each phase has its own"
    assert 0 < stored["entities"]["area"] < 1 and 0 < stored["entities"]["share"] < 1
    assert (folder / "STUDY.md").read_text() in capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in (folder / "summaries").iterdir()}
    ours = [path for path in before if not path.name.startswith("tiny-")]
    assert len(study.SYSTEMS) - 1 <= len(ours) <= len(study.SYSTEMS)  # gamma 0.5 may be the chosen one
    assert study.run(options) == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "summaries").iterdir()} == before
    assert len(started) == len(study.STAGES) + len(RUNS), "finished runs are not run again"
    given = [str(folder / run / "hub") for run in (study.BASELINE, study.APESO)]
    scored = tmp_path / "given"
    place = ["--output", str(scored), "--data", write_cnndm(tmp_path / "data")]
    options = parser.parse_args(["--models", *given, *place, "--articles", "3", "--no-news"])
    assert study.run(options) == 0
    assert len(started) == len(study.STAGES) + len(RUNS), "models that are given are not trained"
    stored = json.loads((scored / "study.json").read_text())
    assert stored["examples"] == 3 and stored["runs"] == {} and "news" not in stored["rows"]
    text = (scored / "STUDY.md").read_text()
    assert "recipes `pointer_generator` and `apeso`" in text and "## Runs" not in text
    options.models[0] = options.models[1]
    with pytest.raises(InputError, match="began with another start"):
        study.run(options)
