"""A text as an encoder saw it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, eq=False)
class Encoded:
    """One text as its encoder saw it: `ids`, `tokens`, `offsets` and `special` are as long as each state.

    Metrics that share an encoder get the same object for a text, so what one of them derives from it can be
    kept for the others in a `WeakKeyDictionary`.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]] | None
    """Character spans in the text, (0, 0) for special tokens; None if the tokenizer does not know them."""
    special: list[bool]
    """True for the tokens that were added around the text, such as [CLS]."""
    truncated: bool
    states: Mapping[int, torch.Tensor] = field(default_factory=dict, repr=False)
    """By layer: float tensor [length, hidden]."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_empty(self) -> bool:
        return all(self.special)


class States(Mapping[int, torch.Tensor]):
    """One text's rows of the layers of its batch.

    The tensor of a text is made when it is asked for. Kept, thousands of these small objects would stand
    between the large temporary ones of the model, and freed memory could not be used again.
    """

    __slots__ = ("_layers", "_rows")

    def __init__(self, layers: dict[int, torch.Tensor], start: int, end: int):
        self._layers = layers
        self._rows = slice(start, end)

    def __getitem__(self, layer: int) -> torch.Tensor:
        return self._layers[layer][self._rows]

    def __iter__(self) -> Iterator[int]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)
