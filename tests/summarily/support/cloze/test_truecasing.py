"""Capitals for texts that have lost them, from texts of the same kind."""

from __future__ import annotations

from summarily.support.cloze.truecasing import Truecaser, restored


def test_truecasing_restores_names_and_leaves_the_rest():
    truecase = Truecaser(["The U.S. and Oslo met in May.", "We may go to Oslo, may we?", "Snow fell."])
    assert truecase("snow fell in oslo . it may stop .") == "Snow fell in Oslo . It may stop ."
    assert truecase("") == ""
    assert truecase("unknown words stay") == "Unknown words stay"


def test_only_texts_without_capitals_are_restored():
    cased = ["He met Angela Merkel in Oslo.", "all of it small, angela merkel too"]
    texts = ["angela merkel left", "Angela merkel left", "42", ""]
    assert restored(texts, cased) == ["Angela Merkel left", *texts[1:]]
    assert restored(texts[:1], texts[:1]) == ["Angela merkel left"], "a sentence begins with a capital"
