"""A text as points: its sentences, with the points of their words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from summarily.metrics.encoding import Request


@dataclass(slots=True)
class Sentence:
    """The points of the words that are kept of a sentence, each once, with what identifies it, and its count."""

    text: str
    keys: list[Hashable]
    counts: NDArray[np.int64]
    points: NDArray[np.float64]
    size: int
    """How many words, repetitions included."""
    name: Callable[[Any], str]
    """From a key to the text of the word."""

    @property
    def words(self) -> list[str]:
        return [self.name(key) for key in self.keys]

    @property
    def key(self) -> Hashable:
        """Equal for sentences of the same words."""
        return "sentence", *zip(self.keys, self.counts.tolist(), strict=True)

    @property
    def mean(self) -> NDArray[np.float64]:
        return self.counts @ self.points / self.size


@dataclass(slots=True)
class Embedded:
    """A text's sentences that have a word left, and what was left out of it."""

    sentences: list[Sentence]
    out_of_vocabulary: int = 0
    truncated: bool = False
    is_known: bool = True
    """False if no word has a vector: then its points say nothing."""


class Embedder(ABC):
    """Turns texts into points."""

    @abstractmethod
    def embed(self, distinct: Collection[str]) -> dict[str, Embedded]:
        """The points of each text."""

    @abstractmethod
    def signature_fields(self) -> dict[str, Any]:
        """What the signature says about the points."""

    @abstractmethod
    def check(self) -> None:
        """Raise `MissingRequirement` if the weights are not here."""

    def requests(self, distinct: Collection[str]) -> list[Request]:
        """The encoder passes that `embed` will want."""
        return []
