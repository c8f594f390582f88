"""Checks of what a user passes in: rows and texts, with errors that guess the mistake."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from summarily.support.errors import InputError, InputTypeError


def rows_of(name: str, values: Any) -> list[Any]:
    """The rows of one input as a list, or an error that guesses the mistake."""
    if isinstance(values, str):
        raise InputTypeError(f"{name} is a str; did you mean [{name}]?")
    if isinstance(values, (bytes, bytearray, Mapping, set, frozenset)) or not isinstance(values, Iterable):
        raise InputTypeError(f"{name} is a {type(values).__name__}; expected a list of str.")
    return list(values)


def checked_text(where: str, value: Any) -> str:
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{where} has a lone surrogate ({value[error.start]!r}) at character {error.start}, which "
                    f"no encoder can read; repair it with text.encode('utf-8', 'replace').decode('utf-8')."
                ) from None
        return str(value)
    if value is None:
        raise InputTypeError(f"{where} is None; expected a str. Drop the row, or pass '' for an empty text.")
    if isinstance(value, (bytes, bytearray)):
        raise InputTypeError(f"{where} is {type(value).__name__}; decode it first: value.decode('utf-8').")
    raise InputTypeError(f"{where} is a {type(value).__name__} ({value!r:.40}); expected a str.")


def literal(text: str) -> Any:
    """The value of an option given on the command line: a number, true, false, none, a list; else the text itself.

    Example:
        >>> literal("0.5"), literal("true"), literal("google")
        (0.5, True, 'google')
    """
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text.lower(), text))
    except (ValueError, SyntaxError):
        return text
