"""A score's name, which knows its direction: whoever ranks, stars or chooses asks it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value")


class Key(str):
    """The name of a score: a string that also says whether more of it is better.

    A plain name counts as one of which more is better; a `Key` made of a `Key` keeps its direction.

    Example:
        >>> distance = Key("vert_distance", higher_is_better=False)
        >>> distance == "vert_distance", distance.best([0.2, 0.1]), distance.label
        (True, 0.1, 'vert_distance (lower is better)')
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

    def best(self, values: Iterable[float]) -> float:
        """The best of the values."""
        return max(values, key=self.goodness)

    @property
    def note(self) -> str:
        """What to say after the name where a reader would take more for better."""
        return "" if self.higher_is_better else " (lower is better)"

    @property
    def label(self) -> str:
        return f"{self}{self.note}"


def keyed(columns: Mapping[str, Value], keys: Iterable[str]) -> dict[str, Value]:
    """`columns` under those of `keys` that have their names, for what was stored or computed under plain names.

    Example:
        >>> [key] = keyed({"loss": 1.0}, [Key("loss", higher_is_better=False)])
        >>> key.higher_is_better
        False
    """
    known = {key: key for key in keys}
    return {known.get(name, name): column for name, column in columns.items()}
