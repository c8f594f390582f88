"""Every target of tests/fuzz.py runs, and findings are told from answers."""

import pytest

from summarily.support.errors import InputError
from tests import fuzz


@pytest.mark.parametrize("name", sorted(set(fuzz.TARGETS) - {"metrics", "clicks-on-every-page"}))
def test_a_few_cases_of_every_target(name, monkeypatch):
    monkeypatch.setenv("SUMMARILY_CACHE", str(fuzz.folder() / "cache"))
    fuzz.run(name, seed=0, examples=4)


def test_what_is_no_sentence_is_a_finding(monkeypatch, capsys):
    def fails(data):
        with fuzz.refused():
            raise KeyError("no sentence")

    def answers(data):
        with fuzz.refused():
            raise InputError("there is no cat.")

    monkeypatch.setattr(fuzz, "TARGETS", {"fails": fails, "answers": answers})
    assert fuzz.main(["--seconds", "0.5"]) == 1
    printed = capsys.readouterr().out
    assert "findings: fails" in printed and "--only fails --seed 0" in printed
    monkeypatch.setattr(fuzz, "TARGETS", {"answers": answers})
    assert fuzz.main(["--seconds", "0.5"]) == 0


def test_the_same_seed_draws_the_same_cases(monkeypatch):
    drawn = []
    monkeypatch.setattr(fuzz, "TARGETS", {"draws": lambda data: drawn.append(data.draw(fuzz.texts))})
    for seed in (1, 1, 2):
        fuzz.run("draws", seed, examples=5)
        drawn.append("|")
    first, second, third = ("\0".join(drawn)).split("|")[:3]
    assert first.strip("\0") == second.strip("\0") != third.strip("\0")
