"""What a piece of work cost: seconds, and the largest resident memory seen meanwhile."""

from __future__ import annotations

import threading
import time
from types import TracebackType


class Meter:
    """Measures a block: `seconds`, and `peak_memory` in bytes above what was resident before.

    Memory is sampled every 10 ms by a thread, so an allocation that lives shorter may be missed.

    Example:
        >>> with Meter() as meter:
        ...     text = "a" * 1000
        >>> meter.seconds >= 0
        True
    """

    def __init__(self, memory: bool = True, interval: float = 0.01):
        self.memory = memory
        self.interval = interval
        self.seconds = 0.0
        self.peak_memory = 0

    def __enter__(self) -> Meter:
        if self.memory:
            import psutil

            self._process = psutil.Process()
            self._before = self._process.memory_info().rss
            self._done = threading.Event()
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        self._start = time.perf_counter()
        return self

    def _watch(self) -> None:
        while True:
            self.peak_memory = max(self.peak_memory, self._process.memory_info().rss - self._before)
            if self._done.wait(self.interval):
                return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.perf_counter() - self._start
        if self.memory:
            self._done.set()
            self._thread.join()
            self.peak_memory = max(self.peak_memory, self._process.memory_info().rss - self._before)
