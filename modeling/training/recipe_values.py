"""How the values of a recipe are read: nested tables and `section.key=value` as typed dataclasses."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tomllib
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from summarily.support.errors import RecipeError
from summarily.support.suggestions import nearest


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of an error message: the nearest of the known names, if any is near."""
    near = nearest(name, known)
    return f"; did you mean {prefix}{near}?" if near else "."


def build(cls: type, values: Any, path: str) -> Any:
    """A dataclass of nested dictionaries; every key and type is checked, and `path` is where it stands in the file.

    Example:
        >>> @dataclasses.dataclass
        ... class Training:
        ...     steps: int = 1
        >>> build(Training, {"stepz": 3}, "training.")
        Traceback (most recent call last):
        summarily.support.errors.RecipeError: training.stepz is not a key of a recipe; did you mean training.steps?
    """
    where = path.rstrip(".")
    if not isinstance(values, Mapping):
        raise RecipeError(f"{where} is {values!r}; expected a table of keys.")
    hints = get_type_hints(cls)
    for key in values:
        if key not in hints:
            hint = did_you_mean(key, hints, path)
            raise RecipeError(f"{path}{key} is not a key of a recipe{hint}")
    for entry in dataclasses.fields(cls):
        required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if required and entry.name not in values:
            raise RecipeError(f"{path}{entry.name} is missing from the recipe.")
    return cls(**{key: _typed(value, hints[key], path + key) for key, value in values.items()})


def _typed(value: Any, hint: Any, path: str) -> Any:
    """`value` as the annotated type, or an error that names the key."""
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        if type(value) is hint:  # of an override, which was read before
            return value
        return build(hint, value, path + ".")  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        for choice in arguments:
            try:
                return _typed(value, choice, path)
            except RecipeError:
                continue
    elif origin is Literal:
        if value in arguments:
            return value
        choices = ", ".join(map(repr, arguments))
        raise RecipeError(
            f"{path} is {value!r}; choose one of {choices}{did_you_mean(str(value), arguments)}"
        )
    elif origin is dict and isinstance(value, Mapping):
        return {str(key): _typed(item, arguments[1], f"{path}.{key}") for key, item in value.items()}
    elif origin is list and isinstance(value, list):
        return [_typed(item, arguments[0], f"{path}[{i}]") for i, item in enumerate(value)]
    elif hint is Any:
        return value
    elif hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # of an int
            if math.isfinite(value):
                return float(value)
        raise RecipeError(f"{path} is {value!r:.60}; expected a finite number.")
    elif isinstance(hint, type) and type(value) is hint:
        return value
    raise RecipeError(f"{path} is {value!r} ({type(value).__name__}); expected {_type_name(hint)}.")


def _type_name(hint: Any) -> str:
    if isinstance(hint, type) and not get_args(hint):
        return "none" if hint is type(None) else hint.__name__
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_type_name(choice) for choice in get_args(hint))
    return str(hint).replace("typing.", "")


def set_value(cls: type, values: dict[str, Any], keys: list[str], text: str) -> None:
    """Put the override into the nested dictionaries of a `cls`, its text read as what the field expects.

    Example:
        >>> @dataclasses.dataclass
        ... class Training:
        ...     steps: int = 1
        >>> values = {}
        >>> set_value(Training, values, ["steps"], "3"); values
        {'steps': 3}
    """
    hint: Any = cls
    path = ""
    for key in keys:
        if dataclasses.is_dataclass(hint):
            hints = get_type_hints(hint)
            if key not in hints:
                raise RecipeError(f"{path}{key} is not a key of a recipe{did_you_mean(key, hints, path)}")
            hint = hints[key]
        elif get_origin(hint) is dict:
            hint = get_args(hint)[1]
        elif hint is not Any:
            raise RecipeError(f"{path.rstrip('.')} has no keys of its own; write {path.rstrip('.')}=value.")
        path += key + "."
    if dataclasses.is_dataclass(hint):
        raise RecipeError(
            f"{path.rstrip('.')} is a section; name one of its keys, such as {path}{next(iter(get_type_hints(hint)))}=value."
        )
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise RecipeError(f"{key} is not a table, so {'.'.join(keys)} cannot be set.")
    values[keys[-1]] = _parse(text, hint, ".".join(keys))


def _parse(text: str, hint: Any, path: str) -> Any:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if text.lower() == "none" and type(None) in choices:
        return None
    if text in ("True", "False"):
        text = text.lower()
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text  # a bare word is a string
    try:
        return _typed(value, hint, path)
    except RecipeError:
        if str in choices:
            return text  # a string that looks like a number, such as a revision
        raise
