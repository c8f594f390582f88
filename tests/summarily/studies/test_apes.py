"""The study runs, stores its parts, goes on where it was, and its numbers are what the tables say."""

from __future__ import annotations

import json

import numpy as np
import pytest

from summarily.cli import main
from summarily.metrics.apes.scorer import Apes
from summarily.studies.apes import experiments
from summarily.support.cloze.entities import Entities
from summarily.support.cloze.recognition import Mention
from summarily.support.sample import SYSTEMS, load_sample
from tests.modeling.training.test_cloze_corpus import cnndm_folder, write_rows


@pytest.fixture
def data(tmp_path):
    folder = cnndm_folder(tmp_path / "data")
    rows = load_sample()[:6]
    documents = [
        {"doc_id": str(i), "source": row["source"], "references": [row["references"][0], row["good"]]}
        for i, row in enumerate(rows)
    ]
    summaries = [
        {"doc_id": str(i), "system": system, "summary": row[system], "human": human}
        for i, row in enumerate(rows)
        for place, system in enumerate(SYSTEMS)
        for human in [
            dict.fromkeys(
                ("relevance", "consistency", "coherence", "fluency", "litepyramid_recall"), 3.0 - place
            )
        ]
    ]
    for name in ("summeval", "realsumm"):
        write_rows(folder / f"human/{name}_docs.jsonl.gz", documents)
        write_rows(folder / f"human/{name}_summaries.jsonl.gz", summaries)
    write_rows(folder / "human/frank_valid_docs.jsonl.gz", [{"article": "Unrelated."}])
    write_rows(
        folder / "news/cnndm_test_references.jsonl.gz", [{"reference": row["references"][0]} for row in rows]
    )
    return folder


def test_study_runs_and_goes_on_where_it_was(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "split_of", lambda text: "test")
    command = [
        "study",
        "apes",
        "--data",
        str(data),
        "--output",
        str(tmp_path / "run"),
        "--readers",
        "overlap",
    ]
    assert main([*command, "--parts", "rows,people", "--articles", "5"]) == 0
    printed = capsys.readouterr().out
    report = (tmp_path / "run/STUDY.md").read_text()
    assert "| gold | " in report and "rows-summeval-overlap: done" in printed
    assert "known quality: CNN/DailyMail's test split" in report
    assert "by number of references" in report and "in the article per different one" in report
    stored = json.loads((tmp_path / "run/people-summeval-overlap.json").read_text())
    assert set(stored["correlations"]) == {"relevance", "consistency", "coherence", "fluency"}
    assert set(stored["correlations"]["relevance"]) == {"first 1", "only 1", "first 2", "only 2"}

    monkeypatch.setattr(Apes, "read", lambda *_: pytest.fail("it is done already"))
    assert main([*command, "--parts", "rows,people", "--articles", "5"]) == 0
    assert "done" not in capsys.readouterr().out
    assert main([*command, "--parts", "everything"]) == 2


def test_entities_found_are_measured_against_a_judge(tmp_path, capsys):
    data = cnndm_folder(tmp_path / "data")
    command = ["study", "apes", "--data", str(data), "--output", str(tmp_path / "run"), "--parts", "entities"]
    assert main(command) == 2 and "needs --judge" in capsys.readouterr().err
    assert main([*command, "--judge", "spacy-small", "--judged", "5"]) == 0
    found = json.loads((tmp_path / "run/entities.json").read_text())
    assert found["references"] == 1
    assert found["found"]["as written, the reference alone"]["recall"] == 100, "it judges itself"
    assert "## Names that are found" in (tmp_path / "run/STUDY.md").read_text()


def test_recall_and_precision_are_of_mentions_that_touch():
    names = {
        "Ann Lee met Bob in Oslo.": ["Ann Lee", "Bob", "Oslo"],
        "Small Ann met Bob.": ["Ann"],
        "ann lee met bob in oslo.": [],
        "Ann lee met Bob in oslo.": ["Ann lee"],
    }
    document = experiments.Document("Small Ann met Bob.", "Ann Lee met Bob in Oslo.")

    def judge(texts):
        return [[Mention(name, "PERSON") for name in names[text]] for text in texts]

    def ours(texts):
        return [[Mention(name, "PERSON") for name in names[text] if name != "Bob"] for text in texts]

    found = experiments.entities_found([document], judge, ours)
    written = found["as written, the reference alone"]
    assert (written["recall"], written["precision"], written["mentions"]) == (pytest.approx(200 / 3), 100, 2)
    assert found["lower-cased, the reference alone"]["recall"] == 0
    assert found["lower-cased, and names of the source"]["mentions"] == 1
    assert found["lower-cased, and names and capitals of the source"]["mentions"] == 1


def test_shuffling_keeps_every_word_and_whole_names():
    names = Entities([Mention("Aaron Ramsey", "PERSON")])
    text = "A goal from Aaron Ramsey secured all three points ."
    mixed = experiments.shuffled(text, names, seed=1)
    assert sorted(mixed.split()) == sorted(text.split()) and mixed != text
    assert "Aaron Ramsey" in mixed
    assert mixed == experiments.shuffled(text, names, seed=1)


def test_summaries_of_known_quality():
    row = load_sample()[0]
    document = experiments.Document(row["source"], row["references"][0])
    rows = experiments.summaries_of_known_quality([document], None)
    assert rows["gold"] == [row["references"][0]] and rows["source"] == [row["source"]]
    assert row["source"].startswith(rows["lead 3"][0][:40])
    assert set(rows["shuffled gold, every word"][0].split()) == set(row["references"][0].split())
    scored = experiments.score_rows(Apes(reader="overlap"), [document] * 2, {"gold": rows["gold"] * 2})
    assert scored["gold"]["rouge1"] == pytest.approx(100) and scored["gold"]["apes"] >= 50


READ = {"correct": [[1, 2], [0, 0], [0, 1]], "asked": [[1, 3], [2, 0], [0, 2]], "density": [4.0, 2.0, None]}


def test_apes_of_some_references_pools_their_questions():
    found = experiments.apes_by_references(READ)
    assert found["first 1"][:2].tolist() == [100.0, 0.0] and np.isnan(found["first 1"][2])
    assert found["first 2"].tolist() == [75.0, 0.0, 50.0]
    assert found["only 2"].tolist()[::2] == [pytest.approx(200 / 3), 50.0] and np.isnan(found["only 2"][1])


def test_density_is_of_perfect_and_of_zero_summaries():
    assert experiments.density_by_score(READ) == {"perfect": (4.0, 1), "zero": (2.0, 1)}


def test_matrix_is_over_the_rows_that_all_score():
    found = experiments.matrix({"a": [1.0, 2.0, 3.0, float("nan")], "b": [3.0, 2.0, 1.0, 9.0]})
    assert np.allclose(found, [[1, -1], [-1, 1]])
