"""What a piece of work cost: seconds, and the largest resident memory seen meanwhile."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
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


class Watch:
    """A thread that samples memory, every 20 ms, for whichever meter is running; one serves many in turn.

    An allocation that lives shorter than that may be missed.

    Example:
        >>> with Watch() as watch:
        ...     with watch.measure() as meter:
        ...         text = "a" * 1000
        >>> meter.seconds >= 0
        True
    """

    def __init__(self, interval: float = 0.02):
        self.interval = interval
        self._current: Meter | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self.interval):
            meter = self._current
            if meter is not None:
                meter.sample()

    @contextlib.contextmanager
    def measure(self) -> Iterator[Meter]:
        """Measure a block. Blocks of one watch follow each other; they do not nest."""
        meter = Meter()
        self._current = meter
        try:
            yield meter
        finally:
            self._current = None
            meter.stop()


class Meter:
    """What a block has cost: `seconds`, and `peak_memory` in bytes above what was resident before."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.peak_memory = 0
        self._resident = _resident()
        self._before = self._resident()
        self._start = time.perf_counter()

    def sample(self) -> None:
        self.peak_memory = max(self.peak_memory, self._resident() - self._before)

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._start
        self.sample()
