"""What a user passes in is taken, or refused with the likely mistake."""

import collections
import re
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from summarily.support.errors import InputError, InputTypeError
from summarily.support.inputs import (
    check_types,
    checked_text,
    literal,
    parse_json,
    read_json,
    read_text,
    rows_of,
)


@pytest.mark.parametrize("values", [["a", "b"], ("a", "b"), (text for text in "ab"), {"a": 1, "b": 2}.keys()])
def test_rows_are_a_list_of_whatever_can_be_walked_through(values):
    assert rows_of("predictions", values) == ["a", "b"]


@pytest.mark.parametrize(
    "values, message",
    [
        ("text", "predictions is a str; did you mean [predictions]?"),
        (b"text", "predictions is a bytes; expected a list of str."),
        (bytearray(b"text"), "predictions is a bytearray; expected a list of str."),
        ({"a": 1}, "predictions is a dict; expected a list of str."),
        (collections.OrderedDict(a=1), "predictions is a OrderedDict; expected a list of str."),
        ({"a"}, "predictions is a set; expected a list of str."),
        (frozenset("a"), "predictions is a frozenset; expected a list of str."),
        (3, "predictions is a int; expected a list of str."),
        (None, "predictions is a NoneType; expected a list of str."),
    ],
)
def test_what_has_no_rows_is_refused(values, message):
    with pytest.raises(InputTypeError, match=f"^{re.escape(message)}$"):
        rows_of("predictions", values)


class Text(str):
    pass


@pytest.mark.parametrize("value", ["", "plain", "雪 fell", Text("own")])
def test_texts_are_plain_strings(value):
    found = checked_text("predictions[0]", value)
    assert found == value and type(found) is str


@pytest.mark.parametrize(
    "value, error, message",
    [
        ("ab\ud800c", InputError, r"^predictions\[0\] has a lone surrogate \('\\ud800'\) at character 2, "),
        (None, InputTypeError, r"^predictions\[0\] is None; expected a str\. Drop the row, or pass ''"),
        (b"x", InputTypeError, r"^predictions\[0\] is bytes; decode it first"),
        (bytearray(b"x"), InputTypeError, r"^predictions\[0\] is bytearray; decode it first"),
        (3.5, InputTypeError, r"^predictions\[0\] is a float \(3\.5\); expected a str\.$"),
        (["a"], InputTypeError, r"^predictions\[0\] is a list \(\['a'\]\); expected a str\.$"),
    ],
)
def test_what_is_no_text_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        checked_text("predictions[0]", value)


@pytest.mark.parametrize(
    "text, value",
    [
        ("0.5", 0.5), ("3", 3), ("-2", -2), ("true", True), ("False", False), ("NONE", None), ("[1, 2]", [1, 2]),
        ("'3'", "3"), ("google", "google"), ("a b", "a b"), ("", ""), ("1e", "1e"), ("x + 1", "x + 1"),
    ],
)  # fmt: skip
def test_options_of_the_command_line_are_values(text, value):
    found = literal(text)
    assert found == value and type(found) is type(value)


def test_what_is_nested_too_deeply_is_a_text():
    deep = "[" * 100_000
    assert literal(deep) == deep


@pytest.mark.parametrize(
    "text, message",
    [
        ("[1", "x.json is not JSON: Expecting ',' delimiter at column 3."),
        ('{"a": 1,\n "b" 2}', "x.json is not JSON: Expecting ':' delimiter at column 6 of line 2."),
        ('{"a": 1, "b": 2, "a": 3}', "x.json is not JSON that can be read: 'a' stands in it twice."),
        ("[" * 100_000, "x.json is not JSON that can be read: it is nested too deeply."),
    ],
)
def test_what_is_no_json_is_named_with_its_place(text, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        parse_json("x.json", text)


def test_files_of_json_and_text(tmp_path):
    file = tmp_path / "x.json"
    file.write_text('{"Zürich": [1, 2.5, null]}', encoding="utf-8")
    assert read_json(file) == read_json(file, dict) == {"Zürich": [1, 2.5, None]}
    with pytest.raises(InputError, match=r"x\.json holds a dict; expected a list\.$"):
        read_json(file, list)
    file.write_bytes(b"ab\xff")
    for read in (read_json, read_text):
        with pytest.raises(InputError, match=r"x\.json is not UTF-8 \(byte 2\); convert it first\.$"):
            read(file)


class Metric:
    def __init__(
        self, free=None, size: int = 1, share: float = 0.5, name: str | None = None, on: bool = True,
        types: Sequence[str] = (), words: bool | Collection[str] = True, rows: list[str] | None = None,
        options: dict[str, int] | None = None, old: "int | None" = None, model: str | Path = "m",
        kind: Literal["a"] = "a", anything: Any = None, later: "NotKnownHere" = None, none: None = None,  # noqa: F821
    ): ...  # fmt: skip


FITS = {
    "free": [1, "a", None],
    "size": [1, -1],
    "share": [0.5, 1],
    "name": ["a", None],
    "on": [True, False],
    "types": [["a"], ("a",), []],
    "words": [True, ["a"], ("a",)],
    "rows": [["a"], None],
    "options": [{}, {"a": 1}, None],
    "old": [1, None],
    "model": ["m", Path("m")],
    "kind": ["a", 3],
    "anything": [1, "a", None],
    "later": [1, "a"],
    "none": [None],
}
REFUSED = {
    "size": [1.5, "1", None, True, [1]],
    "share": ["0.5", None, False],
    "name": [1, True, ["a"]],
    "on": [1, "True", None, 0.0],
    "types": ["a", 3, None, {"a": 1}],
    "words": [1, None, 0.5],
    "rows": [("a",), "a", True],
    "options": [["a"], "a"],
    "old": ["1", True],
    "model": [3, None],
    "none": [0, ""],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in FITS for value in FITS[name]])
def test_a_value_of_its_type_is_taken(name, value):
    check_types(Metric, {name: value})


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name]])
def test_a_value_of_another_type_is_refused_by_name(name, value):
    message = rf"^{name} is {re.escape(repr(value))}, a {type(value).__name__}; expected .*\.$"
    with pytest.raises(InputTypeError, match=message):
        check_types(Metric, {name: value})


def test_every_option_is_looked_at_and_objects_are_not():
    good = {name: values[0] for name, values in FITS.items()}
    check_types(Metric, good)
    for name, values in REFUSED.items():
        with pytest.raises(InputTypeError, match=f"^{name} is "):
            check_types(Metric, {**good, name: values[0]})
    check_types(Metric, {"size": object(), "unknown": "refused elsewhere"})
    check_types(Metric, {})


def test_a_name_that_stands_twice_among_many_is_found_at_once():
    """Each name was counted anew: 30,000 of them took seconds, 200,000 would take minutes."""
    pairs = ", ".join(f'"a{number}": 1' for number in range(200_000))
    start = time.process_time()
    with pytest.raises(InputError, match="'a199999' stands in it twice"):
        parse_json("it", f'{{{pairs}, "a199999": 2}}')
    assert time.process_time() - start < 20
