"""Words, sentences and stop words."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarily.support.text import STOP_WORDS, STOP_WORDS_NAME, sentence_spans, sentences, word_texts, words

SENTENCES = {
    "abbreviated titles": (
        "Dr. Smith met Mrs. Jones. They left.",
        ["Dr. Smith met Mrs. Jones.", "They left."],
    ),
    "initials": ("J. K. Rowling wrote it. J. R. R. Tolkien did not.", 2),
    "decimals": ("It cost $3.50 then. It costs 4.75 now.", ["It cost $3.50 then.", "It costs 4.75 now."]),
    "an acronym before a name": ("The U.S. Senate met. It voted.", ["The U.S. Senate met.", "It voted."]),
    "an acronym that ends a sentence": (
        "He lives in the U.S. He works there.",
        ["He lives in the U.S.", "He works there."],
    ),
    "a company": ("Smith Inc. sold it. Jones Inc. The firm closed.", 3),
    "latin": ("Some cities, e.g. Oslo, froze. Others did not.", 2),
    "a number abbreviated": ("See No. 5 and Fig. 3 there. He said no. Nobody left.", 3),
    "quotes": (
        '"Why?" he asked. "Go!" Then he left.',
        ['"Why?" he asked.', '"Go!"', "Then he left."],
    ),
    "closing brackets": ("It rained (a lot.) Then it snowed.", ["It rained (a lot.)", "Then it snowed."]),
    "ellipsis": (
        "He waited... and waited. Then... Nothing.",
        ["He waited... and waited.", "Then...", "Nothing."],
    ),
    "list numbers": ("1. Buy milk. 2. Buy bread.", ["1. Buy milk.", "2. Buy bread."]),
    "a year at the end": ("It was 1999. Then came 2000.", ["It was 1999.", "Then came 2000."]),
    "tokenised text": ("snow fell . trains stood still .", ["snow fell .", "trains stood still ."]),
    "no capitals": ("snow fell. trains stood. mr. smith waited.", 3),
    "lines": ("Snow fell\nTrains stood", ["Snow fell", "Trains stood"]),
    "a wrapped line": ("Snow fell in\nthe city. It melted.", ["Snow fell in\nthe city.", "It melted."]),
    "blank lines": ("snow fell\n\nand Melted", ["snow fell", "and Melted"]),
    "chinese": ("我来了。你好！好", ["我来了。", "你好！", "好"]),
    "stray punctuation": ("Snow fell. . . Trains stood.", 2),
    "nothing": (" \n\t ", []),
    "no end": ("snow fell", ["snow fell"]),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_sentences_end_where_a_reader_would_end_them(case):
    text, expected = SENTENCES[case]
    found = sentences(text)
    assert (len(found) if isinstance(expected, int) else found) == expected, found


@given(st.text(st.sampled_from("ab1. .\n\"'!?()，。é"), max_size=40))
def test_sentences_lose_nothing_but_white_space(text):
    spans = sentence_spans(text)
    covered = "".join(text[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(text.split())
    assert all(start < end for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_words_are_lower_cased_letters_with_their_places():
    text = "Snow-bound Zürich's 2nd İstanbul_x"
    found = words(text)
    assert [word.text for word in found] == ["snow", "bound", "zürich", "s", "nd", "i̇stanbul", "x"]
    assert all(text[word.start : word.end].lower() == word.text for word in found)


def test_words_keep_their_combining_marks():
    assert word_texts("हिन्दी Ve\u0301lo") == ["हिन्दी", "ve\u0301lo"]
    assert word_texts("Ve\u0301lo") == ["ve\u0301lo"]


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_both_ways_to_get_words_agree(text):
    assert word_texts(text) == [word.text for word in words(text)]


def test_stop_words_are_named_by_their_number():
    assert f"summarily-en-{len(STOP_WORDS)}" == STOP_WORDS_NAME
    assert {"the", "of", "don", "t"} <= STOP_WORDS
    assert not {"snow", "right", "left", "said"} & STOP_WORDS
    assert all(word.islower() and word.isalpha() for word in STOP_WORDS)


@pytest.mark.parametrize("piece", [".", ". ", '"', ".'", "\n", "a. ", "1. ", "é. ((", " ", "The cat sat. "])
def test_time_is_linear_in_the_text(piece):
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        start = time.process_time()
        sentence_spans(text)
        words(text)
        word_texts(text)
        return time.process_time() - start

    # Quadratic time takes 64 times as long for 8 times the text, at every attempt; a busy machine does not.
    assert any(seconds(400_000) < 24 * max(seconds(50_000), 0.005) for _ in range(5))
