"""Signs of life: what a command does, how far it is, and how long it will take.

On a terminal there is a bar (tqdm). A command says what it does as soon as that takes a second, and, where its output
goes to a log, every ten seconds how far it is. The library itself says nothing unless it is asked: only commands speak.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from summarily.support.processes import is_main

PATIENCE = 1.0
"""Seconds that a command may be silent; what is done sooner needs no announcement."""
SECONDS_BETWEEN_LINES = 10.0

Report: TypeAlias = Callable[[int, int, str], None]
"""Is told how many parts are done, of how many, and what comes next."""

_speaking = False
_announced: threading.Timer | None = None


@contextlib.contextmanager
def speaking() -> Iterator[None]:
    """Inside, `say` and the lines of `follow` are written to standard error: for commands."""
    global _speaking
    before, _speaking = _speaking, True
    try:
        yield
    finally:
        _speaking = before
        _hush()


def _hush() -> None:
    if _announced is not None:
        _announced.cancel()


def is_speaking() -> bool:
    """Whether a command is at work, which should say how far it is however few the parts are."""
    return _speaking


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Inside, transformers shows no bars: what lies on the disk is read and written in a moment.

    Example:
        >>> from transformers.utils import logging
        >>> with without_bars():
        ...     logging.is_progress_bar_enabled()
        False
    """
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def say(text: str) -> None:
    """One line about what comes next, from the main process of a command, if it takes more than a moment.

    Example:
        >>> say("loading news")  # nobody asked for it: this is no command
    """
    global _announced
    _hush()
    if _speaking and is_main():
        _announced = threading.Timer(PATIENCE, _write, [text])
        _announced.daemon = True
        _announced.start()


def _write(text: str) -> None:
    print(f"summarily: {text}", file=sys.stderr, flush=True)


class Followed:
    """See `follow`."""

    def __init__(self, total: int, what: str, unit: str, progress: bool | Report | None):
        self.total, self.what, self.done = total, what, 0
        self._report = progress if callable(progress) else None
        terminal = sys.stderr.isatty()
        self._lines = progress is None and _speaking and not terminal and is_main()
        shown = progress if isinstance(progress, bool) else progress is None and terminal and is_main()
        self._bar: Any = None
        if shown:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, desc=what, unit=unit, leave=False)
        self._said = time.monotonic()
        self._since: tuple[float, int] | None = (
            None  # when the first parts were done, which load what all need
        )

    def at(self, part: str) -> None:
        """What is worked on now."""
        if self._report:
            self._report(self.done, self.total, part)
        if self._bar is not None:
            self._bar.set_postfix_str(part)

    def update(self, parts: int = 1) -> None:
        """So many parts are done."""
        self.done += parts
        if self._bar is not None:
            self._bar.update(parts)
        now = time.monotonic()
        if self._lines and now - self._said >= SECONDS_BETWEEN_LINES and self.done < self.total:
            self._said = now
            left = ""
            if self._since is not None:
                start, done = self._since
                seconds = (now - start) / (self.done - done) * (self.total - self.done)
                left = f", about {_duration(seconds)} left"
            _write(f"{self.what}: {self.done:,} of {self.total:,}{left}")
        self._since = self._since or (now, self.done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def follow(
    total: int, what: str, unit: str = " parts", progress: bool | Report | None = None
) -> Iterator[Followed]:
    """Shows how far some work is.

    Args:
        total: how many parts it has.
        what: it is, such as "scoring".
        unit: of the bar.
        progress: True for a bar, False for nothing, a function to be called; by default a bar on a terminal, and lines
            if a command speaks into a log.

    Example:
        >>> seen = []
        >>> with follow(2, "scoring", progress=lambda *told: seen.append(told)) as work:
        ...     work.at("rouge")
        ...     work.update()
        ...     work.at("sms")
        >>> seen
        [(0, 2, 'rouge'), (1, 2, 'sms')]
    """
    work = Followed(total, what, unit, progress)
    try:
        yield work
    finally:
        work.close()


def _duration(seconds: float) -> str:
    """
    Example:
        >>> _duration(3725), _duration(65), _duration(8)
        ('1 h 2 min', '1 min 5 s', '8 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
