"""The study of APESO: its data, its table and its verdict."""

from __future__ import annotations

import argparse
import gzip
import json

import pytest

from summarily.metrics.apes.corpus import split_of
from summarily.modeling.apeso import study
from tests.modeling.small_study import SETTINGS, run_here, write_news


def article(i: int) -> dict:
    return {
        "id": f"{i}",
        "article": f"Story {i} is about town {i * 7}.",
        "highlights": [f"Town {i} .", "End ."],
    }


def test_the_test_articles_are_those_that_no_reader_has_seen():
    rows = list(study.pairs("cnndm_articles", map(article, range(400))))
    for row in rows:
        assert (row["split"] == "test") == (split_of(row["source"]) != "train")
    share = sum(row["split"] == "validation" for row in rows) / sum(row["split"] != "test" for row in rows)
    assert 0.03 < share < 0.12
    assert rows[3]["target"] == "Town 3 . End ."


def test_other_collections_only_train(tmp_path):
    bbc = {"id": "b", "article": "A. B.", "extractive_summary": "B."}
    reuters = {"id": 1, "body": "A. B.", "first_paragraph": "A."}
    assert next(study.pairs("bbc_news_summary", [bbc]))["split"] == "train"
    assert next(study.pairs("reuters_train", [reuters]))["target"] == "A."


def test_pairs_are_written_once(tmp_path):
    news = tmp_path / "source" / "news"
    news.mkdir(parents=True)
    contents = {
        "cnndm_articles": [article(i) for i in range(5)],
        "bbc_news_summary": [{"id": "b", "article": "A. B.", "extractive_summary": "B."}],
        "reuters_train": [{"id": 1, "body": "A. B.", "first_paragraph": "A."}],
    }
    for name, rows in contents.items():
        with gzip.open(news / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    study.prepare_pairs(tmp_path / "out", str(tmp_path / "source"))
    sizes = {}
    for name in (study.HIGHLIGHTS, study.ALL_NEWS):
        with gzip.open(tmp_path / "out" / name, "rt") as file:
            sizes[name] = len(file.readlines())
    assert sizes == {study.HIGHLIGHTS: 5, study.ALL_NEWS: 7}
    before = (tmp_path / "out" / study.ALL_NEWS).stat().st_mtime_ns
    study.prepare_pairs(tmp_path / "out", None)  # needs no data now
    assert (tmp_path / "out" / study.ALL_NEWS).stat().st_mtime_ns == before


def test_passages_leave_a_sentence_out_and_keep_the_split_of_their_article():
    source = " ".join(f"Sentence number {i} has seven words here." for i in range(28)) + " No."
    row = {"id": "a", "source": source, "target": "x", "split": "validation"}
    passages, singles = list(study.first_of_passages(row)), list(study.single_sentences(row))
    assert singles == list(study.single_sentences(row))
    assert len({pair["id"] for pair in passages + singles}) == len(passages + singles) == 12
    for passage in passages:
        assert passage["split"] == "validation" and len(passage["source"].split()) <= 55
        assert passage["target"].count(".") == 2 and passage["source"].startswith(passage["target"])
        assert len(passage["source"]) > len(passage["target"])
    for single in singles:
        assert single["source"] == single["target"] and single["target"] in source


def results(low: float, high: float) -> dict:
    row = {"rouge1": 0.3, "rouge2": 0.1, "rougeL": 0.2, "apes": 41.26, "apes_entities": 3, "words": 40}
    row |= {"apes_salient_entities": 1.5, "apes_interval": [40.0, 43.0]}
    test = {"difference": (low + high) / 2, "low": low, "high": high, "p_permutation": 0.0321}
    keys = ("apes", "apes_salient_entities", "rouge1")
    run = {"step": 9, "best_step": 8, "minutes": 1.0, "best_score": 4.5, "parameters": 1000}
    point = {"apes": 30.0, "rouge1": 0.25, "words": 40.4}
    points = {"beta": [point | {"beta": 0.5}], "gamma": [point | {"gamma": 2.0}, point | {"gamma": 5.0}]}
    return {
        "penalties": {"beta": 0.5, "gamma": 5.0, "points": points},
        "entities": {"area": 0.81, "salient": 0.3, "others": 0.1, "share": 0.05},
        "examples": 20, "questions": 77, "signatures": ["apes|reader:x"],
        "rows": dict.fromkeys(study.PAPER, row),
        "tests": {name: dict.fromkeys(keys, test) for name in study.SYSTEMS if name != "baseline"},
        "runs": dict.fromkeys((*study.STAGES, "baseline", "apeso"), run),
    }  # fmt: skip


def test_the_document_has_our_numbers_and_the_papers():
    text = study.document(results(1.0, 3.0))
    assert "| APESO | 41.3 (40.0 to 43.0) | 30.0 | 10.0 | 20.0 | 40 | 46.1, 40.2, 17.7, 37 |" in text
    assert "| source | 41.3 (40.0 to 43.0) |  |  |  | 40 | 61.1, -, -, - |" in text
    assert "77 questions about 20 held-out articles" in text and "apes|reader:x" in text
    assert "| APESO | +2.00 (+1.00 to +3.00) | 0.0321 |" in text
    assert "5.0% belong to salient entities" in text and "probability of 0.810" in text
    assert "| gamma 2 | 30.0 | 25.0 | 40 |  |" in text and "| gamma 5 | 30.0 | 25.0 | 40 | chosen |" in text


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1, 3, "claim holds"), (-3, -1, "does not hold"), (-1, 1, "neither confirmed nor refuted")],
)
def test_the_verdict_follows_the_interval(low, high, said):
    assert said in study.verdict(results(low, high))


def test_vectors_start_the_words_that_have_one(tmp_path):
    from summarily.modeling import PointerGeneratorConfig, PointerGeneratorForConditionalGeneration
    from summarily.modeling.training.recipe import TokenizerSection
    from summarily.modeling.training.tokenizers import train_tokenizer

    (tmp_path / "toy.txt").write_text("cat 1 2 3\ndog -1 0 1\n")
    tokenizer = train_tokenizer(["Cat dog unicorn"], TokenizerSection(kind="copy", min_frequency=1))
    model = PointerGeneratorForConditionalGeneration(
        PointerGeneratorConfig(vocab_size=len(tokenizer), embedding_size=3, hidden_size=4)
    )
    before = model.get_input_embeddings().weight.detach().clone()
    assert study.load_vectors(model, tokenizer, str(tmp_path / "toy.txt")) == 2
    after = model.get_input_embeddings().weight.detach()
    ids = dict(
        zip(
            ("Cat", "dog", "unicorn"), tokenizer.convert_tokens_to_ids(["Cat", "dog", "unicorn"]), strict=True
        )
    )
    assert (after[ids["unicorn"]] == before[ids["unicorn"]]).all() and (after[0] == 0).all()
    assert after[ids["Cat"]][2] / after[ids["Cat"]][0] == pytest.approx(3.0)


def test_the_study_trains_chooses_and_scores(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "BETAS", (0.5, 10.0))
    monkeypatch.setattr(study, "GAMMAS", (0.5, 10.0))
    monkeypatch.setattr(study, "SEARCH", {**study.SEARCH, "min_new_tokens": 4, "max_new_tokens": 6})
    started = run_here(monkeypatch, study)
    parser = argparse.ArgumentParser()
    study.add_arguments(parser)
    settings = [argument for override in SETTINGS for argument in ("--set", override)]
    folder = tmp_path / "out"
    options = parser.parse_args(
        ["--scale", "0.004", "--output", str(folder), "--data", write_news(tmp_path / "data"), *settings]
    )
    assert study.run(options) == 0
    assert started == [*study.STAGES, "baseline", "apeso"]
    stored = json.loads((folder / "study.json").read_text())
    assert set(study.SYSTEMS) < set(stored["rows"]) and stored["rows"]["gold summaries"]["rouge1"] == 1.0
    assert stored["penalties"]["beta"] in study.BETAS and len(stored["penalties"]["points"]["gamma"]) == 2
    assert 0 < stored["entities"]["area"] < 1 and 0 < stored["entities"]["share"] < 1
    assert (folder / "STUDY.md").read_text() in capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in (folder / "summaries").iterdir()}
    assert len(before) == len(study.SYSTEMS)
    assert study.run(options) == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "summaries").iterdir()} == before
    assert len(started) == len(study.STAGES) + 2, "finished runs are not run again"


def test_leads_are_the_first_sentences_of_long_passages():
    source = " ".join(f"Sentence number {i} has seven words here." for i in range(40))
    leads = list(study.first_of_passages({"id": "a", "source": source}, words=165, sentences=4))
    assert [lead["target"].count(".") for lead in leads] == [4, 4]
    short = list(study.first_of_passages({"id": "a", "source": source}, words=165, sentences=9, copied=20))
    assert {lead["target"].count(".") for lead in short} == {2}
    for lead in leads:
        assert lead["source"].startswith(lead["target"]) and len(lead["source"].split()) <= 165
