"""Checks of what a user passes in: rows and texts, with errors that guess the mistake."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import json
import os
import types
import typing
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
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
    except (
        ValueError,
        SyntaxError,
        MemoryError,
        RecursionError,
    ):  # the last two for what is nested too deeply
        return text


def check_types(kind: type, options: Mapping[str, Any]) -> None:
    """Refuse options whose type is not the one that the class' `__init__` names, where it names a plain one.

    Values that are not plain themselves (a `torch.device`, an array) are left to the class.

    Example:
        >>> class Metric:
        ...     def __init__(self, size: int | None = None): ...
        >>> check_types(Metric, {"size": "large"})
        Traceback (most recent call last):
        ...
        summarily.support.errors.InputTypeError: size is 'large', a str; expected int | None.
    """
    for name, parameter in inspect.signature(kind).parameters.items():
        plain = type(options.get(name)) in (str, int, float, bool, list, tuple, dict, type(None))
        if name not in options or not plain or parameter.annotation is inspect.Parameter.empty:
            continue
        hint = parameter.annotation
        if isinstance(hint, str):
            try:
                # Our own source, not the user's.
                hint = eval(hint, typing.cast(Any, kind).__init__.__globals__)
            except NameError:  # of a type that is imported for type checkers alone
                continue
        if not _fits(options[name], hint):
            value = options[name]
            raise InputTypeError(
                f"{name} is {value!r:.60}, a {type(value).__name__}; expected {parameter.annotation}."
            )


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value may have a type; of types that are not plain, anything does."""
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if isinstance(value, bool):
        return hint not in (str, int, float) and origin is None and hint is not list
    if hint is float:
        return isinstance(value, (int, float))
    kind = origin or hint
    if kind is collections.abc.Sequence:
        return isinstance(value, collections.abc.Sequence) and not isinstance(value, str)
    return isinstance(value, kind) if isinstance(kind, type) else True


def parse_json(where: str, text: str) -> Any:
    """The value of a JSON text, or an error that says what is wrong `where`.

    Example:
        >>> parse_json("the file", '{"a": 1}')
        {'a': 1}
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        line = f" of line {error.lineno}" if error.lineno > 1 else ""
        raise InputError(f"{where} is not JSON: {error.msg} at column {error.colno}{line}.") from None
    except RecursionError:
        raise InputError(f"{where} is not JSON that can be read: it is nested too deeply.") from None
    except ValueError as error:  # a name twice, or a number of thousands of digits
        raise InputError(f"{where} is not JSON that can be read: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"{twice[:60]!r} stands in it twice.")
    return found


def read_json(path: str | os.PathLike[str], kind: type | None = None) -> Any:
    """The value in a JSON file, of the type `kind` if that is given.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "result.json"
        >>> _ = file.write_text("[1")
        >>> read_json(file)
        Traceback (most recent call last):
        ...
        summarily.support.errors.InputError: ...result.json is not JSON: Expecting ',' delimiter at column 3.
    """
    value = parse_json(str(path), read_text(path))
    if kind is not None and not isinstance(value, kind):
        raise InputError(f"{path} holds a {type(value).__name__}; expected a {kind.__name__}.")
    return value


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file; an error names the file if it is not one."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); convert it first.") from None
