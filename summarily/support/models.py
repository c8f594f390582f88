"""Loaded models, one cache for the whole process: metrics, readers, recognisers and Spaces share it.

`get(key, load)` loads what is not there yet. The key holds all that tells one loaded thing from another: where its
weights are from (`weights.Resolved`, which names their content), the device and the type. Nobody keeps what it has got
beyond the work at hand, so that what is forgotten is freed, and loaded again when it is wanted.

What was not used for the longest time goes first, when all together take more than `limit` bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from summarily.support.processes import Lock

T = TypeVar("T")

SMALL = 64 * 2**20
"""Bytes counted for what does not tell its size: tokenizers, vocabularies, spaCy's pipelines."""


class ModelCache:
    """Loaded models by key, bounded in bytes. Safe to call from several threads.

    Args:
        limit: bytes of weights kept; by default half of the machine's memory. The last used stays, however large.

    Example:
        >>> cache = ModelCache(limit=100 * 2**20)
        >>> cache.get("first", lambda: "a model")
        'a model'
        >>> cache.get("second", lambda: "another") and len(cache)
        1
    """

    def __init__(self, limit: int | None = None):
        self._limit = limit
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = Lock()

    @property
    def limit(self) -> int:
        if self._limit is None:
            import psutil

            self._limit = psutil.virtual_memory().total // 2
        return self._limit

    def get(self, key: Hashable, load: Callable[[], T]) -> T:
        """What `load` returned for this key; threads that want the same wait for one of them to load it."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        if not entry.is_loaded:
            with entry.lock:
                if not entry.is_loaded:
                    self._load(key, entry, load)
        return entry.value

    def _load(self, key: Hashable, entry: _Entry, load: Callable[[], Any]) -> None:
        try:
            entry.value = load()
        except BaseException:
            with self._lock:
                if self._entries.get(key) is entry:
                    del self._entries[key]
            raise
        entry.bytes = _bytes_of(entry.value)
        entry.is_loaded = True
        with self._lock:
            loaded = [other for other in self._entries if self._entries[other].is_loaded and other != key]
            total = sum(one.bytes for one in self._entries.values())
            for other in loaded:
                if total <= self.limit:
                    break
                total -= self._entries.pop(other).bytes

    def values(self) -> list[Any]:
        """All that is loaded, the least recently used first."""
        with self._lock:
            return [entry.value for entry in self._entries.values() if entry.is_loaded]

    def forget(self) -> None:
        """Drop everything; what is in use lives until its user is done with it."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self.values())


class _Entry:
    def __init__(self) -> None:
        self.lock = Lock()
        self.is_loaded = False
        self.value: Any = None
        self.bytes = 0


def _bytes_of(value: Any) -> int:
    """The bytes of the weights of a model, or of what holds one (as `model`, or as the first of a tuple)."""
    value = value[0] if isinstance(value, tuple) else value
    model: Any = value if hasattr(value, "get_memory_footprint") else getattr(value, "model", None)
    return int(model.get_memory_footprint()) if hasattr(model, "get_memory_footprint") else SMALL


_models = ModelCache()

get = _models.get
values = _models.values
forget = _models.forget
