import doctest
import re
from collections import Counter
from itertools import combinations
from statistics import mean

import pytest

from summarily.support import sample
from summarily.support.sample import SYSTEMS, load_sample


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return load_sample()


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def count_sentences(text: str) -> int:
    return len(re.split(r'(?<=[.!?])"? (?=["A-Z])', text))


def unigram_f1(prediction: str, reference: str) -> float:
    predicted, expected = Counter(words(prediction)), Counter(words(reference))
    return 2 * (predicted & expected).total() / (predicted.total() + expected.total())


def outside(counts: dict[str, int], low: int, high: int) -> dict[str, int]:
    return {row_id: count for row_id, count in counts.items() if not low <= count <= high}


def test_there_are_36_rows_with_the_documented_keys(rows):
    assert len(rows) == 36
    assert all(list(row) == ["id", "source", "references", *SYSTEMS] for row in rows)


def test_ids_are_unique_slugs(rows):
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_every_text_is_one_clean_non_empty_line(rows):
    for row in rows:
        for text in (row["source"], *row["references"], *(row[system] for system in SYSTEMS)):
            assert isinstance(text, str)
            assert text and text == " ".join(text.split()), row["id"]


def test_twelve_rows_have_two_references_and_the_others_one(rows):
    assert Counter(len(row["references"]) for row in rows) == {1: 24, 2: 12}


def test_sources_have_110_to_190_words_in_6_to_10_sentences(rows):
    assert outside({row["id"]: len(row["source"].split()) for row in rows}, 110, 190) == {}
    assert outside({row["id"]: count_sentences(row["source"]) for row in rows}, 6, 10) == {}


def test_references_have_30_to_55_words_in_2_to_3_sentences(rows):
    references = {f"{row['id']} {i}": text for row in rows for i, text in enumerate(row["references"])}
    assert outside({name: len(text.split()) for name, text in references.items()}, 30, 55) == {}
    assert outside({name: count_sentences(text) for name, text in references.items()}, 2, 3) == {}


def test_good_summaries_have_2_to_3_sentences_and_copy_no_reference(rows):
    assert outside({row["id"]: count_sentences(row["good"]) for row in rows}, 2, 3) == {}
    assert [
        row["id"] for row in rows for text in row["references"] if unigram_f1(row["good"], text) > 0.9
    ] == []


def test_no_two_sources_are_alike(rows):
    # Unrelated English texts share function words: the closest two sources here reach 0.38.
    overlaps = {(a["id"], b["id"]): unigram_f1(a["source"], b["source"]) for a, b in combinations(rows, 2)}
    assert {pair: overlap for pair, overlap in overlaps.items() if overlap > 0.5} == {}


def test_unigram_overlap_orders_the_systems(rows):
    good, mediocre, broken = (
        mean(max(unigram_f1(row[system], text) for text in row["references"]) for row in rows)
        for system in SYSTEMS
    )
    assert good > mediocre + 0.1
    assert mediocre > broken + 0.1


def test_the_docstring_example_runs():
    assert doctest.testmod(sample) == doctest.TestResults(failed=0, attempted=4)
