"""BLEURT on summaries: duels within an article, whole sets held out, and the study's command."""

from __future__ import annotations

import itertools
import json

import pytest

from summarily.cli import main
from summarily.metrics.meta_evaluation.human import Judgements
from summarily.studies.bleurt import summaries
from summarily.support.sample import SYSTEMS, load_sample
from tests.metrics.bleurt.tiny_bleurt import tiny_bleurt
from tests.metrics.tiny import texts
from tests.modeling.training.test_cloze_corpus import write_rows


def judged(articles: int = 20, systems: int = 4) -> Judgements:
    """Summaries that say their article and system; of each article the first two are judged alike."""
    made = Judgements("mine", "overall")
    for article in range(articles):
        for system in range(systems):
            letter = chr(ord("a") + article)
            made.add(
                f"{letter} {system}", f"reference {letter}", max(1.0, system), letter, f"system {system}"
            )
    return made


def test_duels_are_of_one_article_and_of_different_judgements():
    mine = judged()
    human = dict(zip(mine.summaries, mine.human, strict=True))
    found = summaries.duels(mine, 100)
    assert len(found) == 20 * 5, "of six pairs one is a draw"
    for row in found:
        assert row["better"][0] == row["worse"][0] == row["reference"][-1]
        assert human[row["better"]] > human[row["worse"]]


def test_some_duels_of_an_article_are_drawn_and_articles_are_on_one_side():
    mine = judged()
    found = summaries.duels(mine, 3)
    assert found == summaries.duels(mine, 3) != summaries.duels(mine, 3, seed=1)
    sides = {
        split: {row["reference"] for row in found if row["split"] == split}
        for split in ("train", "validation")
    }
    assert len(sides["train"]) == 18 and len(sides["validation"]) == 2
    assert len(found) == 60


def test_articles_of_the_held_out_set_are_not_learned_from():
    mine, other = judged(4), Judgements("other", "overall")
    other.add("x", "REFERENCE b 12", 1.0, "1", "s")
    left = summaries.without(mine, other)
    assert set(left.inputs) == {"a", "c", "d"} and len(left) == 12
    assert len(left.summaries) == len(left.references) == len(left.systems) == 12
    assert len(mine) == 16, "the set itself stays as it is"


def test_correlations_are_by_article_and_the_same_articles_for_all():
    mine = judged(3, 4)
    right, wrong = list(mine.human), [-score for score in mine.human]
    wrong[:4] = [0.0] * 4
    found = summaries.by_article(mine, {"right": right, "wrong": wrong})
    assert found == {"right": [pytest.approx(1)] * 2, "wrong": [pytest.approx(-1)] * 2}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    rows = load_sample()[:9]
    for number, name in enumerate(("summeval", "realsumm", "chaganty")):
        own = rows[3 * number : 3 * number + 3]
        scores = ("relevance", "litepyramid_recall", "overall")
        judgements = [
            {
                "doc_id": str(i),
                "id": str(i),
                "cnndm_hash": "",
                "reference": row["references"][0],
                "system": system,
                "summary": row[system],
                "human": dict.fromkeys(scores, 3.0 - place),
            }
            for i, row in enumerate(own)
            for place, system in enumerate(SYSTEMS)
        ]
        documents = [
            {"doc_id": str(i), "source": row["source"], "references": row["references"]}
            for i, row in enumerate(own)
        ]
        if name == "chaganty":
            write_rows(folder / "human/chaganty_dev.jsonl.gz", judgements)
        else:
            write_rows(folder / f"human/{name}_docs.jsonl.gz", documents)
            write_rows(folder / f"human/{name}_summaries.jsonl.gz", judgements)
    write_rows(folder / "news/cnndm_test_references.jsonl.gz", [{"cnndm_hash": "x", "reference": "y"}])
    sentences = [text for text in texts() if text.strip()]
    for name in ("stsb_train", "stsb_dev"):
        write_rows(
            folder / f"paraphrase/{name}.jsonl.gz",
            [
                {"sentence1": a, "sentence2": b, "score": float(row % 6)}
                for row, (a, b) in enumerate(itertools.pairwise(sentences))
            ],
        )
    return folder


def test_the_study_holds_out_each_set_and_can_be_run_again(data, tmp_path, capsys, monkeypatch):
    command = ["study", "bleurt-summaries", "--data", str(data), "--output", str(tmp_path / "run")]
    command += ["--start", tiny_bleurt(whole=False), "--duels", "3"]
    for change in (
        "training.max_steps=2",
        "training.evaluate_every=1",
        "training.checkpoint_every=1",
        "training.tensorboard=false",
        "training.precision=fp32",
        "rating.max_tokens=64",
        "batch.tokens=300",
    ):
        command += ["--set", change]
    assert main(command) == 0
    report = (tmp_path / "run/STUDY.md").read_text()
    assert "| chaganty, overall | " in report and "BERTScore recall" in report
    assert str(tmp_path) not in report
    for held_out in summaries.SETS:
        measured = json.loads((tmp_path / f"run/measured-{held_out}.json").read_text())
        assert set(measured) == {"before", "after", summaries.PEER}
        learned = (tmp_path / f"run/duels-without-{held_out}.jsonl").read_text().splitlines()
        held = (tmp_path / "run/duels-all.jsonl").read_text().splitlines()
        assert set(learned) < set(held)
    assert (tmp_path / "run/all/hub/config.json").is_file()
    monkeypatch.setattr(summaries, "measured", lambda *_: pytest.fail("it is done already"))
    capsys.readouterr()
    assert main(command) == 0
