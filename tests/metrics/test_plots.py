"""Pictures of explanations: what stands in them is what the metric says."""

from __future__ import annotations

import itertools

import pytest

from summarily.metrics import load
from summarily.metrics.explanations import (
    Aligned,
    Alignment,
    Asked,
    Explanation,
    Matches,
    Move,
    Moves,
    Plan,
    Questions,
    Word,
    Words,
    WordsOf,
)
from summarily.metrics.plots import COLUMNS, drawn, plot_explanation
from summarily.support.errors import InputError

VALUES = {"score": 0.5}


def on_ground(explanation: Explanation) -> list[str]:
    return [piece.text for piece in drawn(explanation)[0] if piece.strength > 0]


def test_words_that_both_texts_have_are_marked_in_both():
    explanation = load("rouge").explain("A dog sat. It barked", ["the dog barked", "a cow"])
    assert on_ground(explanation) == [
        "dog",
        "barked",
        "dog",
        "barked",
    ]  # the first reference is the nearer one
    titles = [piece.text for piece in drawn(explanation)[0] if piece.bold]
    assert titles == ["Summary", "Reference 1 of 2"]


def test_words_of_a_subsequence_are_marked_only_if_they_count():
    explanation = load("rouge", types=["rougeL"]).explain("dog the sat", ["the dog sat"])
    assert len(on_ground(explanation)) == 4  # two words in common order, in each text


def test_under_each_word_stands_its_match():
    sides = [Aligned("cat", "dog", 0.8, 1.0)], [Aligned("dog", "cat", 0.8, 1.0)]
    pieces, curves = drawn(Matches("bertscore", VALUES, "cat", ("dog",), [Alignment(0, *sides)]))
    assert [(piece.text, piece.strength, piece.small) for piece in pieces if not piece.bold] == [
        ("cat", 0.8, False), ("dog", 0.0, True), ("dog", 0.8, False), ("cat", 0.0, True),
    ]  # fmt: skip
    assert not curves


def test_flows_are_as_wide_as_their_mass_and_as_red_as_they_are_long():
    moves = [
        Move("cat", "word", "dog", "word", 0.75, 1.0),
        Move("cat", "word", "a whole sentence " * 4, "sentence", 0.25, 0.0),
    ]
    explanation = Moves("wms", VALUES, "cat", ("dog",), [Plan(0, VALUES, 0.75, moves)])
    pieces, curves = drawn(explanation)
    assert [round(curve.width, 3) for curve in curves] == [
        4.6,
        1.933,
    ]  # .6 and 4 times the share of the heaviest
    assert curves[0].colour == "#ca3027" and curves[1].colour == "#2c7bb6"
    lines = {piece.text: piece.line for piece in pieces}
    assert curves[0].start[1] == lines["cat"] and curves[0].end[1] == lines["dog"]
    assert all(piece.x >= 0 and piece.x + len(piece.text) <= COLUMNS for piece in pieces)


def test_a_wrong_answer_names_the_right_one():
    asked = [
        Asked("____ won", "Ann", "Ann", 0.9, True),
        Asked("____ lost", "Bob", None, 0.0, False),
    ]
    explanation = Questions("apes", VALUES, "p", ("r",), "p", {}, asked)
    texts = [piece.text for piece in drawn(explanation)[0]]
    assert texts == ["____ won", "right: Ann (0.90)", "____ lost", "wrong: no answer (0.00); asked for: Bob"]
    assert drawn(Questions("apes", VALUES, "p", ("r",), "p", {}, []))[0][0].text.startswith(
        "There was nothing"
    )


def test_words_with_numbers():
    words = [Word("good", 0.2), Word("bad", -0.1)]
    adds = Words("bleurt", VALUES, "good bad", ("r",), "adds", [WordsOf("good bad", "r", VALUES, words)])
    assert [piece.text for piece in drawn(adds)[0][1:]] == ["good", "+0.200", "bad", "-0.100"]
    assert on_ground(adds) == ["good"]


def test_long_texts_are_wrapped_and_nothing_overlaps():
    text = " ".join(f"word{i}" for i in range(60))
    pieces, _ = drawn(load("rouge").explain(text, [text]))
    by_line: dict[float, list] = {}
    for piece in pieces:
        by_line.setdefault(piece.line, []).append(piece)
    assert len(by_line) > 6
    for row in by_line.values():
        assert row[-1].x + len(row[-1].text) <= COLUMNS
        assert all(a.x + len(a.text) < b.x for a, b in itertools.pairwise(row))


def test_the_picture_fits_axes_of_the_user_and_shows_dollars_as_they_are():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    _, given = pyplot.subplots(figsize=(3, 2))
    explanation = load("rouge", tokenizer="white_space").explain("$5 and $6", ["$5"])
    axes = plot_explanation(explanation, given)
    assert axes is given and axes.texts[1].get_text() == r"\$5"
    assert axes.texts[0].get_fontsize() < plot_explanation(explanation).texts[0].get_fontsize()
    axes.figure.canvas.draw()
    pyplot.close("all")


def test_an_explanation_of_no_known_kind_says_what_to_do():
    with pytest.raises(InputError, match=r"mine has no picture; explain\(i\)\.to_dict\(\)"):
        Explanation("mine", VALUES, "p", ("r",)).plot()


def test_a_notebook_shows_an_explanation():
    shown = load("rouge").explain("a <cat>", ["the cat"])._repr_html_()
    assert "rouge1 0.5000" in shown and "&lt;<mark>cat</mark>&gt;" in shown


def test_percentages_have_one_decimal_however_low():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    asked = Questions("apes", {"apes": 100 / 3}, "p", ("r",), "p", {}, [])
    axes = asked.plot()
    assert axes.get_title(loc="left") == "apes 33.3" and "apes 33.3<" in asked._repr_html_()
    pyplot.close(axes.figure)
