"""Blind, random, counted right, and readable by `summarily meta human`."""

from __future__ import annotations

import csv
import io

import pytest
from scipy.stats import binomtest

from summarily.metrics.meta_evaluation.human import read_judgements
from summarily.spaces.judge import judging
from summarily.spaces.texts import Texts
from summarily.support.errors import InputError

TEXTS = Texts(
    {"A": [f"a{i}" for i in range(40)], "B": [f"b{i}" for i in range(40)], "C": ["c"] * 40},
    [["reference", "another"]] * 40,
    names=[str(i) for i in range(40)],
)


def all_for(session: judging.Session, system: str | None) -> judging.Session:
    """Judge everything: `system` always wins, or nobody does."""
    while not session.finished:
        item = session.item
        choice = (
            judging.SAME if system is None else judging.FIRST if item.systems[0] == system else judging.SECOND
        )
        session = judging.record(session, judging.compared(dict.fromkeys(judging.QUESTIONS, choice)))
    return session


def test_sides_and_documents_are_shuffled():
    session = judging.start(TEXTS, ["A", "B"], "compare", seed=0)
    first = [item.systems[0] for item in session.items]
    assert 10 <= first.count("A") <= 30
    assert [item.name for item in session.items] != TEXTS.names
    assert sorted(item.name for item in session.items) == sorted(TEXTS.names)
    for item in session.items:
        assert {text[0].upper() for text in item.summaries} == {"A", "B"}
        assert item.summaries[0] == f"{item.systems[0].lower()}{item.name}"


def test_what_is_shown_names_no_system():
    texts = Texts({"Goliath": ["x"], "David": ["y"]}, [["r"]], ["s"], ["1"])
    session = judging.start(texts, ["Goliath", "David"], "compare")
    shown = judging.item_html(session) + judging.summary_html(session, 0) + judging.summary_html(session, 1)
    assert "Goliath" not in shown and "David" not in shown


def test_wins_go_to_systems_whatever_the_side():
    session = all_for(judging.start(TEXTS, ["A", "B"], "compare", count=12, seed=3), "B")
    for line in judging.tally(session):
        assert (line.first, line.ties, line.second) == (0, 0, 12)
        assert line.p == pytest.approx(binomtest(0, 12).pvalue) and line.means == (0.0, 1.0)
    assert "B is better" in judging.results_html(session)


def test_ties_are_left_out_of_the_test():
    session = all_for(judging.start(TEXTS, ["A", "B"], "compare", count=5), None)
    assert all(line.ties == 5 and line.p == 1.0 for line in judging.tally(session))
    assert judging.sign_test(0, 0) == 1.0
    # 158 against 102 of Clark et al. (2019), Table 6: coherence, WMS against ROUGE-L.
    assert judging.sign_test(158, 102) < 0.001


@pytest.mark.parametrize("question", [None, *judging.QUESTIONS])
def test_meta_human_reads_the_csv(tmp_path, question):
    session = all_for(judging.start(TEXTS, ["A", "B"], "compare", count=6, seed=1), "A")
    path = tmp_path / "judgements.csv"
    path.write_text(judging.to_csv(session), encoding="utf-8")
    judgements = read_judgements(str(path), question=question)
    assert len(judgements) == 12 and set(judgements.inputs) == {item.name for item in session.items}
    for summary, system, human in zip(
        judgements.summaries, judgements.systems, judgements.human, strict=True
    ):
        assert summary[0].upper() == system and human == (system == "A")


def test_ratings_keep_their_side(tmp_path):
    session = judging.start(TEXTS, ["A", "B"], "rate", count=3, seed=2)
    while not session.finished:
        five_first = session.item.systems[0] == "A"
        first, second = (5, 2) if five_first else (2, 5)
        ratings = [dict.fromkeys(judging.QUESTIONS, value) for value in (first, second)]
        session = judging.record(session, judging.rated(*ratings))
    assert all(line.means == (5.0, 2.0) and line.first == 3 for line in judging.tally(session))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: judging.start(TEXTS, ["A"], "compare"), "two systems to compare; 1"),
        (lambda: judging.start(TEXTS, ["A", "A"], "compare"), "two systems to compare; 1"),
        (lambda: judging.start(TEXTS, ["A", "X"], "compare"), "no system 'X'; there are: A, B, C"),
        (lambda: judging.start(TEXTS, ["A", "B"], "guess"), "no way 'guess'"),
        (
            lambda: judging.compared({"overall": judging.SAME}),
            "answer non-redundancy and coherence and focus",
        ),
        (
            lambda: judging.rated(dict.fromkeys(judging.QUESTIONS, 3), {}),
            "answer non-redundancy and .* of summary 2",
        ),
        (lambda: judging.results_html(judging.start(TEXTS, ["A", "B"], "rate")), "Nothing is judged"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_no_cell_of_the_csv_is_a_formula():
    texts = Texts({"=A": ["=1+1"], "B": ["-2 or so"]}, [["@SUM(1)"]], ["+1"], names=["\t=cmd|' /C calc'!A0"])
    session = all_for(judging.start(texts, ["=A", "B"], "compare", seed=1), "B")
    rows = list(csv.reader(io.StringIO(judging.to_csv(session))))
    assert len(rows) == 3
    for row in rows[1:]:
        assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in row)
        assert row[3] == "'@SUM(1)"


def test_the_desk_is_not_opened_by_a_program():
    pytest.importorskip("gradio")
    from summarily.spaces import build

    assert not build("judge").get_api_info()["named_endpoints"]


def test_an_answer_that_no_button_gives_is_refused():
    with pytest.raises(InputError, match=r"1 is no answer to .*; choose one of \['Summary 1'"):
        judging.compared(dict.fromkeys(judging.QUESTIONS, 1))
    rated = dict.fromkeys(judging.QUESTIONS, 3)
    with pytest.raises(
        InputError, match=r"9 is no answer to .* of summary 2; choose one of \[1, 2, 3, 4, 5\]"
    ):
        judging.rated(rated, dict.fromkeys(judging.QUESTIONS, 9))
    assert judging.rated(rated, rated)["overall"] == (3.0, 3.0)
