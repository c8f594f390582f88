"""Options that several metrics have: what they take, what they refuse, and that none is dropped on its way."""

from __future__ import annotations

import math

import pytest

from summarily.metrics import encoding, load
from summarily.metrics.options import EncoderOptions, StopWords, at_least, between, flag, limit, one_of
from summarily.support import text, weights
from summarily.support.errors import InputError


def test_every_option_of_an_encoder_reaches_it_and_it_is_found_once(monkeypatch):
    seen = []
    monkeypatch.setattr(encoding, "encoder", lambda *given, **named: seen.append((given, named)) or "found")
    options = EncoderOptions("a", "b", "c", 4, "decoder", True, "bfloat16", 99, "d")
    assert options.encoder == options.encoder == "found"
    named = {
        "side": "decoder", "prefix_space": True, "dtype": "bfloat16", "token_budget": 99, "cache_folder": "d",
    }  # fmt: skip
    assert seen == [(("a", "b", "c", 4), named)]


def test_an_encoder_that_is_not_chosen_is_the_plain_one(monkeypatch):
    monkeypatch.setattr(encoding, "encoder", lambda *given, **named: (given, named))
    named = {
        "side": "encoder", "prefix_space": False, "dtype": "float32", "token_budget": None, "cache_folder": None,
    }  # fmt: skip
    assert EncoderOptions("a").encoder == (("a", None, None, None), named)


def test_weights_are_checked_in_the_revision_that_is_asked_for(monkeypatch):
    seen = []
    monkeypatch.setattr(weights, "check", lambda *given: seen.append(given))
    EncoderOptions("a", "b").check()
    assert seen == [("a", "b")]


def test_choices_are_taken_by_value_and_type():
    assert one_of("mode", "perl", ("google", "perl")) == "perl" and one_of("x", 1, (1, 2)) == 1
    assert flag("x", True) is True and flag("x", False) is False
    for value in (1, 0, "True", None, [True]):
        with pytest.raises(InputError, match=r"^x=.*; expected True or False\.$"):
            flag("x", value)
    with pytest.raises(InputError, match=r"^x=True; expected 1, 2 or 3\.$"):
        one_of("x", True, (1, 2, 3))


def test_whole_numbers_have_a_least_value():
    assert at_least("x", 1) == 1 and at_least("x", 0, 0) == 0 and at_least("x", 5, 5) == 5
    assert limit("x", None) is None and limit("x", 1) == 1 and limit("x", 3, 3) == 3
    for value, least in ((0, 1), (4, 5), (True, 1), (1.0, 1), ("1", 1), (None, 1)):
        with pytest.raises(InputError, match=rf"^x={value!r}; expected a whole number, at least {least}\.$"):
            at_least("x", value, least)
    with pytest.raises(InputError, match="at least 3"):
        limit("x", 2, 3)


def test_numbers_have_two_bounds_that_belong_to_them():
    assert [between("x", value, 0, 1) for value in (0, 1, 0.5)] == [0.0, 1.0, 0.5]
    assert type(between("x", 1, 0)) is float and between("x", 1e300, 0) == 1e300
    for value in (-1e-9, 1 + 1e-9, math.nan, math.inf, True, "0.5", None):
        with pytest.raises(InputError, match=r"; expected a number from 0 to 1\.$"):
            between("x", value, 0, 1)
    with pytest.raises(InputError, match=r"^x=-1; expected a number, at least 0\.$"):
        between("x", -1, 0)


def test_stop_words_have_a_name_for_signatures():
    assert StopWords.of(True).words == text.STOP_WORDS and StopWords.of(False).words == frozenset()
    assert StopWords.of(True).named() == text.STOP_WORDS_NAME and StopWords.of(False).named() == "none"
    own = StopWords.of(["The", "a"])
    assert own.words == {"the", "a"}
    # printf 'a\nthe' | sha256sum
    assert own.named() == "custom-2-11a3ae8f"
    assert StopWords.of(False).named(none="0") == "0"
    assert own.named(custom="{digest:.4}/{count}") == "11a3/2" and own.named(separator=" ") != own.named()
    for wrong in ("the", 3, [3], ["a", None]):
        with pytest.raises(InputError, match="expected True, False, or a collection of words"):
            StopWords.of(wrong)


GIVEN = {
    "model": "somebody/model", "revision": "v2", "device": "cpu", "max_length": 40, "dtype": "bfloat16",
    "token_budget": 99, "cache_folder": "here",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("bertscore", {"prefix_space": True}, {"prefix_space": True}),
        ("bertscore", {}, {}),
        ("bartscore", {"variant": "embedding", "side": "decoder"}, {"side": "decoder"}),
        ("moverscore", {}, {}),
    ],
)
def test_what_a_metric_is_told_about_its_encoder_it_passes_on(name, more, expected):
    assert load(name, **GIVEN, **more).reading == EncoderOptions(**GIVEN, **expected)


@pytest.mark.parametrize("name", ["bertscore", "bartscore", "moverscore"])
def test_what_it_is_not_told_stays_open(name):
    reading = load(name, model="somebody/model").reading
    expected = EncoderOptions("somebody/model", side=reading.side, prefix_space=reading.prefix_space)
    assert reading == expected and reading.dtype == "float32"
