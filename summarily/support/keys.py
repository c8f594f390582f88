"""A score's name, which knows its direction: whoever ranks, stars or chooses asks it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from summarily.support.errors import InputError
from summarily.support.suggestions import did_you_mean

Value = TypeVar("Value")


class Key(str):
    """The name of a score: a string that also says whether more of it is better.

    A plain name counts as one of which more is better; a `Key` made of a `Key` keeps its direction.

    Example:
        >>> distance = Key("vert_distance", higher_is_better=False)
        >>> distance == "vert_distance", distance.goodness(0.2), distance.label
        (True, -0.2, 'vert_distance (lower is better)')
    """

    higher_is_better: bool

    def __new__(cls, name: str, higher_is_better: bool | None = None) -> Key:
        key = super().__new__(cls, name)
        if higher_is_better is None:
            higher_is_better = getattr(name, "higher_is_better", True)
        key.higher_is_better = higher_is_better
        return key

    def __getnewargs__(self) -> tuple[str, bool]:  # type: ignore[override]
        return str(self), self.higher_is_better  # scores travel between processes

    def goodness(self, value: float) -> float:
        """The value, with its sign turned if less is better: of two values the greater one is the better."""
        return value if self.higher_is_better else -value

    @property
    def note(self) -> str:
        """What to say after the name where a reader would take more for better."""
        return "" if self.higher_is_better else " (lower is better)"

    @property
    def label(self) -> str:
        return f"{self}{self.note}"


def named(name: str, keys: Iterable[str], of: str) -> Key:
    """The one of the keys with this name, which knows its direction; `of` says whose keys they are.

    Example:
        >>> named("loss", [Key("loss", higher_is_better=False)], "a run").higher_is_better
        False
    """
    known = {str(key): Key(key) for key in keys}
    if str(name) not in known:
        raise InputError(f"{of} has no score {str(name)!r};{did_you_mean(name, known)}")
    return known[str(name)]


def keyed(columns: Mapping[str, Value], keys: Iterable[str]) -> dict[str, Value]:
    """`columns` under those of `keys` that have their names, for what was stored or computed under plain names.

    Example:
        >>> [key] = keyed({"loss": 1.0}, [Key("loss", higher_is_better=False)])
        >>> key.higher_is_better
        False
    """
    known = {key: key for key in keys}
    return {known.get(name, name): column for name, column in columns.items()}
