"""What the studies of the pointer-generator start from: pairs of news, and words with vectors."""

from __future__ import annotations

import gzip
import json

import pytest

from summarily.modeling.training.building import build_model, load_vectors
from summarily.modeling.training.cloze_corpus import split_of
from summarily.modeling.training.recipe import load_recipe
from summarily.studies.copying import news
from summarily.support.errors import RecipeError


def article(i: int) -> dict:
    return {
        "id": f"{i}",
        "article": f"Story {i} is about town {i * 7}.",
        "highlights": [f"Town {i} .", "End ."],
    }


def test_the_test_articles_are_those_that_no_reader_has_seen():
    rows = list(news.pairs("cnndm_articles", map(article, range(400))))
    for row in rows:
        assert (row["split"] == "test") == (split_of(row["source"]) != "train")
    share = sum(row["split"] == "validation" for row in rows) / sum(row["split"] != "test" for row in rows)
    assert 0.03 < share < 0.12
    assert rows[3]["target"] == "Town 3 . End ."


def test_other_collections_only_train(tmp_path):
    bbc = {"id": "b", "article": "A. B.", "extractive_summary": "B."}
    reuters = {"id": 1, "body": "A. B.", "first_paragraph": "A."}
    assert next(news.pairs("bbc_news_summary", [bbc]))["split"] == "train"
    assert next(news.pairs("reuters_train", [reuters]))["target"] == "A."


def test_pairs_are_written_once(tmp_path):
    collections = tmp_path / "source" / "news"
    collections.mkdir(parents=True)
    contents = {
        "cnndm_articles": [article(i) for i in range(5)],
        "bbc_news_summary": [{"id": "b", "article": "A. B.", "extractive_summary": "B."}],
        "reuters_train": [{"id": 1, "body": "A. B.", "first_paragraph": "A."}],
    }
    for name, rows in contents.items():
        with gzip.open(collections / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    news.prepare_pairs(tmp_path / "out", str(tmp_path / "source"))
    sizes = {}
    for name in (news.HIGHLIGHTS, news.ALL_NEWS):
        with gzip.open(tmp_path / "out" / name, "rt") as file:
            sizes[name] = len(file.readlines())
    assert sizes == {news.HIGHLIGHTS: 5, news.ALL_NEWS: 7}
    before = (tmp_path / "out" / news.ALL_NEWS).stat().st_mtime_ns
    news.prepare_pairs(tmp_path / "out", None)  # needs no data now
    assert (tmp_path / "out" / news.ALL_NEWS).stat().st_mtime_ns == before


def test_passages_leave_a_sentence_out_and_keep_the_split_of_their_article():
    source = " ".join(f"Sentence number {i} has seven words here." for i in range(28)) + " No."
    row = {"id": "a", "source": source, "target": "x", "split": "validation"}
    passages, singles = list(news.first_of_passages(row)), list(news.single_sentences(row))
    assert singles == list(news.single_sentences(row))
    assert len({pair["id"] for pair in passages + singles}) == len(passages + singles) == 12
    for passage in passages:
        assert passage["split"] == "validation" and len(passage["source"].split()) <= 55
        assert passage["target"].count(".") == 2 and passage["source"].startswith(passage["target"])
        assert len(passage["source"]) > len(passage["target"])
    for single in singles:
        assert single["source"] == single["target"] and single["target"] in source


def test_leads_are_the_first_sentences_of_long_passages():
    source = " ".join(f"Sentence number {i} has seven words here." for i in range(40))
    leads = list(news.first_of_passages({"id": "a", "source": source}, words=165, sentences=4))
    assert [lead["target"].count(".") for lead in leads] == [4, 4]
    short = list(news.first_of_passages({"id": "a", "source": source}, words=165, sentences=9, copied=20))
    assert {lead["target"].count(".") for lead in short} == {2}
    for lead in leads:
        assert lead["source"].startswith(lead["target"]) and len(lead["source"].split()) <= 165


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
    assert load_vectors(model, tokenizer, str(tmp_path / "toy.txt")) == 2
    after = model.get_input_embeddings().weight.detach()
    ids = dict(
        zip(
            ("Cat", "dog", "unicorn"), tokenizer.convert_tokens_to_ids(["Cat", "dog", "unicorn"]), strict=True
        )
    )
    assert (after[ids["unicorn"]] == before[ids["unicorn"]]).all() and (after[0] == 0).all()
    assert after[ids["Cat"]][2] / after[ids["Cat"]][0] == pytest.approx(3.0)
    (tmp_path / "none.vec").write_text("2 3\nhorse 1 2 3\ncow -1 0 1\n")  # fastText's form
    with pytest.raises(RecipeError, match="no vector for any word"):
        load_vectors(model, tokenizer, str(tmp_path / "none.vec"))
    (tmp_path / "wide.txt").write_text("cat 1 2 3 4\n")
    with pytest.raises(RecipeError, match=r"4 dimensions, .* model 3; set model\.config.embedding_size=4"):
        load_vectors(model, tokenizer, str(tmp_path / "wide.txt"))
    recipe = load_recipe(
        "apeso_news", [f"model.word_vectors={tmp_path / 'toy.txt'}", "model.config.embedding_size=3"]
    )
    started = build_model(recipe, tokenizer).get_input_embeddings().weight.detach()
    assert started[ids["Cat"]][2] / started[ids["Cat"]][0] == pytest.approx(3.0)
