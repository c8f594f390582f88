"""What a piece of work cost: seconds, and the largest resident memory seen meanwhile."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType


@functools.cache
def _resident() -> Callable[[], int]:
    """A function that tells the resident memory of this process in bytes, as cheaply as the system allows."""
    if os.path.exists("/proc/self/statm"):
        page = os.sysconf("SC_PAGE_SIZE")

        def from_proc() -> int:
            with open("/proc/self/statm", "rb", buffering=0) as file:
                return int(file.read().split()[1]) * page

        return from_proc
    import psutil

    process = psutil.Process()
    return lambda: int(process.memory_info().rss)


class Meter:
    """Measures a block: `seconds`, and `peak_memory` in bytes above what was resident before.

    Memory is sampled every 20 ms by a thread, so an allocation that lives shorter may be missed.

    Example:
        >>> with Meter() as meter:
        ...     text = "a" * 1000
        >>> meter.seconds >= 0
        True
    """

    def __init__(self, interval: float = 0.02):
        self.interval = interval
        self.seconds = 0.0
        self.peak_memory = 0

    def __enter__(self) -> Meter:
        self._resident = _resident()
        self._before = self._resident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._start = time.perf_counter()
        return self

    def _sample(self) -> None:
        self.peak_memory = max(self.peak_memory, self._resident() - self._before)

    def _watch(self) -> None:
        while not self._done.wait(self.interval):
            self._sample()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.perf_counter() - self._start
        self._done.set()
        self._thread.join()
        self._sample()
