"""Salient tokens: whole names of the answers of cloze questions, and nothing else."""

from __future__ import annotations

import pytest

from summarily.modeling.apeso.data_apeso import mark, salient_spans, salient_tokens
from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.support.cloze.recognition import Mention

SOURCE = "Jack Wilshere of the Bank of England met Pele. Wilshere, one of many, left for Oslo."
SUMMARY = "Jack Wilshere met Pele . He works at the Bank of England ."
KNOWN = {"Jack Wilshere": "PERSON", "Bank of England": "ORG", "Pele": "PERSON", "Oslo": "GPE"}


def recognise(texts):
    return [[Mention(name, kind) for name, kind in KNOWN.items() if name in text] for text in texts]


def marked(kind: str, max_length: int | None = None, summary: str | list[str] = SUMMARY) -> list[str]:
    tokenizer = train_tokenizer(["the of met left"], TokenizerSection(kind=kind, min_frequency=1))
    (labels,) = salient_tokens(tokenizer, [SOURCE], [summary], max_length, recognise)
    encoding = tokenizer(SOURCE, truncation=max_length is not None, max_length=max_length)
    assert len(labels) == len(encoding.input_ids)
    offsets = encoding.encodings[0].offsets
    return [SOURCE[a:b] for label, (a, b) in zip(labels, offsets, strict=True) if label]


@pytest.mark.parametrize("kind", ["word", "copy"])
def test_whole_names_are_marked_and_not_every_of(kind):
    assert marked(kind) == ["Jack", "Wilshere", "Bank", "of", "England", "Pele", "Wilshere"]


def test_only_what_the_summary_mentions_is_salient():
    assert marked("copy", summary="Pele left .") == ["Pele"]
    assert marked("copy", summary="Somebody left .") == []


def test_several_references_are_asked_together():
    assert marked("copy", summary=["Pele left .", "So did Oslo ."]) == ["Pele", "Oslo"]


def test_what_is_cut_off_is_not_searched():
    assert marked("copy", max_length=4) == ["Jack", "Wilshere"]


def test_given_names_need_no_recogniser():
    def fail(texts):
        raise AssertionError("the names are known")

    spans = salient_spans(SOURCE, SUMMARY, names=["Pele"], recognise=fail)
    assert [SOURCE[a:b] for a, b in spans] == ["Pele"]


def test_marks_are_zero_or_one_where_spans_overlap():
    assert mark([(0, 3), (3, 6), (7, 9)], [(0, 4), (2, 6)]) == [1, 1, 0]
