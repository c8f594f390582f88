"""The corpus of questions: collections, splits, copies left out, only questions that can be answered."""

from __future__ import annotations

import gzip
import json
import lzma

import pytest

from summarily.modeling.training.cloze_corpus import (
    COLLECTIONS,
    HUMAN_SETS,
    Article,
    articles,
    cloze_corpus,
    cnndm_article,
    load_articles,
    load_or_make,
    main,
    read_corpus,
    split_of,
    write_corpus,
)
from summarily.support.errors import InputError
from summarily.support.sample import load_sample

STORY = "Angela Merkel flew to Oslo. She met Jens Stoltenberg there. Stoltenberg thanked Merkel."


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def data_folder(folder):
    """The layout of the data, filled from the bundled sample."""
    rows = load_sample()
    write_rows(
        folder / "news/cnndm_articles.jsonl.gz",
        [{"article": row["source"], "highlights": row["references"]} for row in rows],
    )
    write_rows(folder / "news/bbc_news_summary.jsonl.gz", [{"article": STORY}, {"article": "Too short."}])
    lead, body = (
        "Angela Merkel met Jens Stoltenberg.",
        "Angela Merkel met Jens Stoltenberg. Stoltenberg is in Oslo.",
    )
    write_rows(
        folder / "news/reuters_train.jsonl.gz",
        [{"first_paragraph": lead, "body": body}, {"first_paragraph": "Other.", "body": body}],
    )
    write_rows(folder / "human/summeval_docs.jsonl.gz", [{"source": rows[0]["source"].upper()}])
    for name in HUMAN_SETS[1:]:
        write_rows(folder / f"human/{name}.jsonl.gz", [{"article": "Unrelated."}])
    return folder


def test_collections_become_passages_and_asked_sentences():
    found = list(
        articles("cnndm_articles", [{"article": STORY, "highlights": ["Merkel in Oslo", "They met ."]}])
    )
    assert found == [
        Article("cnndm_articles", STORY, "Merkel in Oslo\nThey met .", ("Merkel in Oslo They met .", STORY))
    ]
    reuters = [{"first_paragraph": "A b.", "body": "A b. C d."}, {"first_paragraph": "X.", "body": "A b."}]
    assert [a[1:3] for a in articles("reuters_train", reuters)] == [("C d.", "A b.")]
    with pytest.raises(InputError, match="there is no collection 'cnn'"):
        next(articles("cnn", [{}]))


def test_questions_can_be_answered_from_the_passage():
    asked = "Merkel met Stoltenberg in Norway."
    reading = next(cloze_corpus([Article("mine", STORY, asked, (asked, STORY))]))
    assert reading.asked == 3 and reading.answerable == 2, "Norway is not in the passage"
    assert {q.answer for q in reading.questions} <= set(reading.candidates)
    assert all(id in reading.names for q in reading.questions for id in [q.answer])
    assert "Merkel" not in reading.passage


def test_copies_and_the_articles_of_the_human_sets_are_left_out():
    one = Article("mine", STORY, "Merkel met Stoltenberg.", (STORY,))
    copy = one._replace(passage=STORY.replace("flew to", "flew  to").lower())
    assert len(list(cloze_corpus([one, copy]))) == 1
    assert list(cloze_corpus([one], unseen=[STORY.upper()])) == []


def test_splits_are_by_article_and_about_80_to_10_to_10():
    counts = dict.fromkeys(("train", "dev", "test"), 0)
    for number in range(2000):
        counts[split_of(f"Article number {number}.")] += 1
    assert 1520 < counts["train"] < 1680
    assert all(140 < counts[split] < 260 for split in ("dev", "test"))


def test_the_corpus_is_written_once_and_read_again(tmp_path, capsys):
    data = data_folder(tmp_path / "data")
    file = tmp_path / "out/cloze.jsonl.gz"
    main(["--data", str(data), "--output", str(file), "--cache", str(tmp_path / "cache")])
    assert "cnndm_articles" in capsys.readouterr().out
    readings = list(read_corpus(file))
    assert {reading.collection for reading in readings} == set(COLLECTIONS)
    assert len(readings) < len(load_sample()) + 2, "one article is in a human set"
    for reading in readings:
        assert reading.split == split_of_reading(reading, readings)
    written = file.read_bytes()
    load_or_make(file, None)
    write_corpus(readings, file)
    assert file.read_bytes() == written
    assert sum(len(list(read_corpus(file, split))) for split in ("train", "dev", "test")) == len(readings)


def split_of_reading(reading, readings):
    """The id is a hash of the passage, and the split follows from it."""
    number = int(reading.id[:8], 16) % 100
    return "train" if number < 80 else "dev" if number < 90 else "test"


def cnndm_folder(folder):
    """CNN/DailyMail in its published split, of stories that tell one name each; train-01 holds a copy of a test story."""
    data = data_folder(folder)
    names = {
        "test": ["Oslo", "Rome"],
        "validation": ["Paris"],
        "train-00": ["Berlin", "Madrid"],
        "train-01": ["Oslo", "Vienna"],
    }
    (data / "news/cnndm").mkdir()
    for name, places in names.items():
        rows = [
            {
                "article": f"{place} (CNN) -- Angela Merkel flew to {place} on Monday.\n\nJens Stoltenberg left.",
                "highlights": [f"Merkel in {place}", "Stoltenberg left ."],
            }
            for place in places
        ]
        with lzma.open(data / f"news/cnndm/{name}.jsonl.xz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return data


def test_the_published_split_is_kept_and_copies_of_held_out_articles_are_not_trained_on(tmp_path):
    data = cnndm_folder(tmp_path)
    found = [(a.split, a.passage.split()[4]) for a in load_articles(data, ["cnndm"], {"test": 1})]
    assert found == [
        ("test", "Oslo"),
        ("dev", "Paris"),
        ("train", "Berlin"),
        ("train", "Madrid"),
        ("train", "Vienna"),
    ]
    file = tmp_path / "out.jsonl.gz"
    options = ["--collections", "cnndm", "--articles", "train=1", "test=1"]
    main(["--data", str(data), "--output", str(file), *options])
    readings = list(read_corpus(file))
    assert [reading.split for reading in readings] == ["test", "dev", "train"]
    assert {reading.collection for reading in readings} == {"cnndm"}
    (data / "news/cnndm/validation.jsonl.xz").unlink()
    with pytest.raises(InputError, match=r"there is no file .*validation"):
        list(load_articles(data, ["cnndm"]))


def test_a_training_article_is_cut_between_paragraphs():
    row = {"article": "\n\n".join(["Ann won again . " * 50] * 5), "highlights": ["Ann won"]}
    assert len(cnndm_article(row, "train").passage.split()) == 400
    assert len(cnndm_article(row, "test").passage.split()) == 1000
