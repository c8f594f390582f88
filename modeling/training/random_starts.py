"""Where a document that is too long is cut: at the beginning, or anywhere (Gaskell 2020, Algorithm 1).

A document of N tokens loses all but L adjacent ones. The first of them is 0 (beginning starts) or drawn uniformly from
0..N - L, both ends included (random starts). Tokens are counted without special tokens, which are put around what is
left. The draw depends on the seed, the example's id and the epoch only, not on the order of examples or processes:

>>> [random_start(1000, 100, example_id=name) for name in ("paper 1", "paper 2", "paper 1")]
[262, 199, 262]
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from summarily.support.errors import InputError

STARTS = ("beginning", "random")


def random_start(length: int, room: int, *, example_id: str | int, seed: int = 0, epoch: int = 0) -> int:
    """The first token kept of a document of `length` tokens when there is room for `room`; 0 if all fit.

    Example:

    >>> random_start(80, 100, example_id=7)
    0
    """
    if room < 1:
        raise InputError(
            f"there is room for {room} tokens; leave room for at least one besides special tokens."
        )
    if length <= room:
        return 0
    key = hashlib.blake2b(str(example_id).encode(), digest_size=8).digest()
    generator = np.random.default_rng([seed, epoch, int.from_bytes(key, "big")])
    return int(generator.integers(length - room, endpoint=True))


def special_tokens_around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer puts before and behind a text."""
    probe = "a"
    inner = tokenizer(probe, add_special_tokens=False)["input_ids"]
    outer = tokenizer(probe)["input_ids"]
    for first in range(len(outer) - len(inner) + 1):
        if inner and outer[first : first + len(inner)] == inner:
            return outer[:first], outer[first + len(inner) :]
    raise InputError(
        f"{type(tokenizer).__name__} does not put its special tokens around a text: {inner} is not in {outer}."
    )


class TruncatedSource(NamedTuple):
    """What is left of a document: its tokens with special tokens, where it starts, and how long it was."""

    input_ids: list[int]
    start: int
    length: int


@dataclass
class StartTokenizer:
    """Tokenizes a document and cuts it to `max_length` tokens, special tokens included.

    Args:
        tokenizer: of transformers.
        starts: "beginning" or "random".
        seed: of the random starts.

    Example:

    >>> class Letters:
    ...     def __call__(self, text, add_special_tokens=True):
    ...         ids = [ord(letter) for letter in text]
    ...         return {"input_ids": [0, *ids, 2] if add_special_tokens else ids}
    >>> cut = StartTokenizer(Letters(), max_length=5, starts="random", seed=1)
    >>> source = cut("abcdefghij", example_id="x")
    >>> len(source.input_ids), source.input_ids[1] == ord("a") + source.start, source.length
    (5, True, 10)
    """

    tokenizer: Any
    max_length: int
    starts: str = "beginning"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_starts(self.starts)
        self._before, self._behind = special_tokens_around(self.tokenizer)

    def __call__(self, text: str, example_id: str | int, epoch: int = 0) -> TruncatedSource:
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        room = self.max_length - len(self._before) - len(self._behind)
        start = 0
        if self.starts == "random":
            start = random_start(len(tokens), room, example_id=example_id, seed=self.seed, epoch=epoch)
        kept = tokens[start : start + room]
        return TruncatedSource([*self._before, *kept, *self._behind], start, len(tokens))


def _check_starts(starts: str) -> None:
    if starts not in STARTS:
        raise InputError(f"starts={starts!r} is unknown; choose one of {', '.join(STARTS)}.")
