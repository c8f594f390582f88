"""What a piece of work cost: seconds, and the largest resident memory seen meanwhile."""

from __future__ import annotations

import atexit
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

    Memory is sampled every 20 ms, so an allocation that lives shorter may be missed.

    Example:
        >>> with Meter() as meter:
        ...     text = "a" * 1000
        >>> meter.seconds >= 0
        True
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.peak_memory = 0

    def __enter__(self) -> Meter:
        self._resident = _resident()
        self._before = self._resident()
        _sampler(os.getpid()).add(self)
        self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.perf_counter() - self._start
        _sampler(os.getpid()).remove(self)
        self.sample()

    def sample(self) -> None:
        self.peak_memory = max(self.peak_memory, self._resident() - self._before)


class _Sampler:
    """A thread that samples for all running meters. It is started once: a thread per meter costs more than many
    a block that is measured."""

    interval = 0.02

    def __init__(self) -> None:
        self.meters: set[Meter] = set()
        self.wanted = threading.Event()
        self.stopped = False
        self.thread = threading.Thread(target=self._run, daemon=True, name="summarily-memory")
        self.thread.start()
        # A thread that still runs while the interpreter is taken down can abort the process.
        atexit.register(self.stop)

    def stop(self) -> None:
        self.stopped = True
        self.wanted.set()
        if self.thread.is_alive():
            self.thread.join(1.0)

    def add(self, meter: Meter) -> None:
        self.meters.add(meter)
        self.wanted.set()

    def remove(self, meter: Meter) -> None:
        self.meters.discard(meter)

    def _run(self) -> None:
        while True:
            self.wanted.wait()
            if self.stopped:
                return
            time.sleep(self.interval)
            if not self.meters:
                self.wanted.clear()
                if self.meters:  # one came in between
                    self.wanted.set()
            for meter in tuple(self.meters):
                meter.sample()


@functools.cache
def _sampler(process: int) -> _Sampler:
    """The sampler of this process; a forked one has no threads and gets its own."""
    return _Sampler()
