"""Signs of life: a bar on a terminal, lines in a log, nothing where nobody asked."""

from __future__ import annotations

import time

import summarily
from summarily.support import progress
from summarily.support.progress import follow, say, speaking


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


def test_a_command_announces_what_takes_a_moment(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    say("nobody asked")
    with speaking():
        say("done at once")
        say("loading")
        time.sleep(0.5)
        say("interrupted")
    time.sleep(0.2)
    assert capsys.readouterr().err == "summarily: loading\n"


def test_scoring_tells_how_far_it_is_metric_by_metric():
    told = []
    texts = ["the cat sat", "a dog barked"]
    summarily.score(texts, texts, metrics=["rouge"], progress=lambda *parts: told.append(parts))
    assert told == [(0, 2, "encoding"), (0, 2, "rouge")]
