"""Encoded texts that are kept for whoever asks next, bounded in bytes."""

from __future__ import annotations

import contextlib
import ctypes
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from summarily.metrics.encoding.encoded import Encoded

_TRIM_EVERY = 128 * 2**20
"""Bytes of states dropped between two requests to give memory back."""


@dataclass
class _Block:
    """Texts that went through the model together; their states are parts of one tensor per layer."""

    texts: set[str]
    bytes: int


class StateCache:
    """Encoded texts, bounded by the bytes of their states.

    The least recently used are dropped first, a whole batch at a time, because that is how memory is freed.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.bytes = 0
        self._dropped = 0
        self._items: dict[str, tuple[Encoded, _Block]] = {}
        self._blocks: OrderedDict[int, _Block] = OrderedDict()

    def get(self, text: str, layers: frozenset[int]) -> Encoded | None:
        encoded, block = self._items.get(text, (None, None))
        if encoded is None or block is None or not layers <= encoded.states.keys():
            return None
        self._blocks.move_to_end(id(block))
        return encoded

    def layers(self, text: str) -> frozenset[int]:
        """The layers kept of a text."""
        return frozenset(self._items[text][0].states) if text in self._items else frozenset()

    def put(self, batch: Sequence[tuple[str, Encoded]]) -> None:
        for text, _ in batch:
            self._forget(text)
        block = _Block({text for text, _ in batch}, sum(_size(encoded) for _, encoded in batch))
        self._items.update({text: (encoded, block) for text, encoded in batch})
        self._blocks[id(block)] = block
        self.bytes += block.bytes
        while self.bytes > self.limit and self._blocks:
            oldest = next(iter(self._blocks.values()))
            self._dropped += oldest.bytes
            for text in list(oldest.texts):
                self._forget(text)
        if self._dropped > _TRIM_EVERY:
            self._dropped = 0
            _give_memory_back()

    def _forget(self, text: str) -> None:
        if text in self._items:
            block = self._items.pop(text)[1]
            block.texts.remove(text)
            if not block.texts:
                self.bytes -= self._blocks.pop(id(block)).bytes

    def clear(self) -> None:
        self._items.clear()
        self._blocks.clear()
        self.bytes = 0


def _give_memory_back() -> None:
    """Ask the C library for the memory that was freed between what is still in use.

    glibc keeps it otherwise, in pieces that the next batch may not fit in, and a process that scores a large
    corpus would come to hold twice what it uses. It takes milliseconds. Elsewhere this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _size(encoded: Encoded) -> int:
    # 200 bytes per token is about what the lists of ids, tokens, offsets and flags take.
    return sum(state.nbytes for state in encoded.states.values()) + 200 * len(encoded)
