"""Signs of life: a bar on a terminal, lines in a log, nothing where nobody asked."""

from __future__ import annotations

import contextlib
from typing import ClassVar

import pytest

import summarily
from summarily.support import progress
from summarily.support.progress import follow, say, speaking, without_bars


def test_the_library_is_silent_and_a_command_tells_the_time_left(monkeypatch, capsys):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with follow(4, "scoring") as work:
        for _ in range(4):
            work.update()
    assert capsys.readouterr() == ("", "")
    with speaking(), follow(4, "scoring") as work:
        for _ in range(4):
            work.update()
    assert capsys.readouterr().err == "summarily: scoring: 2 of 4, about 12 s left\n"


def test_the_time_left_does_not_count_what_the_first_part_loads(monkeypatch, capsys):
    clock = iter([0.0, 100.0, 105.0, 111.0, 116.0])  # a hundred seconds, then five and six
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with speaking(), follow(4, "scoring") as work:
        for _ in range(4):
            work.update()
    told = ["summarily: scoring: 1 of 4", "summarily: scoring: 3 of 4, about 6 s left"]
    assert capsys.readouterr().err.splitlines() == told  # (111 - 100) / 2


def test_the_bars_of_transformers_are_hidden_and_come_back():
    from transformers.utils import logging

    logging.enable_progress_bar()
    with pytest.raises(ValueError, match="stop"), without_bars():
        assert not logging.is_progress_bar_enabled()
        raise ValueError("stop")
    assert logging.is_progress_bar_enabled()


@pytest.mark.parametrize("inside", [True, False])
def test_a_command_tells_how_far_it_is_with_few_texts_too(monkeypatch, capsys, inside):
    """A paper is read in two dozen pieces: a minute."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    summarizer = summarily.Summarizer("headlines")
    with speaking() if inside else contextlib.nullcontext():
        summarizer(["one"] * 3, batch_size=1, max_length=2)
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == (
        ["summarily: summarizing: 1 of 3", "summarily: summarizing: 2 of 3"] if inside else []
    )


class Timer:
    """Goes off when the test says that the time is over."""

    waiting: ClassVar[list[Timer]] = []

    def __init__(self, seconds, function, arguments):
        assert seconds == progress.PATIENCE == 1
        self.go_off, self.daemon = lambda: function(*arguments), False

    def start(self):
        assert self.daemon, "a command does not wait for it at its end"
        self.waiting.append(self)

    def cancel(self):
        if self in self.waiting:
            self.waiting.remove(self)


def test_a_command_announces_what_takes_a_moment(monkeypatch, capsys):
    def a_second_passes():
        while Timer.waiting:
            Timer.waiting.pop(0).go_off()

    monkeypatch.setattr(progress.threading, "Timer", Timer)
    say("nobody asked")
    assert not Timer.waiting
    with speaking():
        say("done at once")
        say("loading")
        a_second_passes()
        say("interrupted")
    a_second_passes()
    assert capsys.readouterr().err == "summarily: loading\n"


def test_scoring_tells_how_far_it_is_metric_by_metric():
    told = []
    texts = ["the cat sat", "a dog barked"]
    summarily.score(texts, texts, metrics=["rouge"], progress=lambda *parts: told.append(parts))
    assert told == [(0, 2, "encoding"), (0, 2, "rouge")]
