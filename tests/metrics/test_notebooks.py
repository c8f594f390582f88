"""What a notebook shows is what the tables say."""

from __future__ import annotations

import pytest

import summarily
from summarily.support.sample import load_sample


@pytest.fixture(scope="module")
def comparison():
    rows = load_sample()
    systems = {f"<{name}>": [row[name] for row in rows] for name in ("good", "broken")}
    options = {"rouge": {"split_sentences": True}}
    return summarily.compare(systems, [row["references"] for row in rows], metrics=options)


def test_a_scorecard_and_a_score_show_means_intervals_and_signature(comparison):
    card = comparison.cards["<good>"]
    for shown in (card._repr_html_(), card["rouge"]._repr_html_()):
        for key, mean in card["rouge"].mean.items():
            low, high, _ = card["rouge"].interval[key]
            assert f"{mean:.4f}" in shown and f"{low:.4f} to {high:.4f}" in shown
        assert str(card["rouge"].signature) in shown and "95% interval" in shown


def test_a_comparison_shows_bars_tests_and_who_is_better(comparison):
    shown = comparison._repr_html_()
    [pair] = comparison.pairs
    assert f"{pair.test.difference:+.4f}" in shown and f"<td>{pair.p_holm:.4f}</td>" in shown
    assert "<svg" in shown and "&lt;good&gt;" in shown and "<good>" not in shown
    texts = ["the cat sat", "a dog barked"]
    few = summarily.compare({"A": texts, "B": ["a cat", "the dog"]}, texts, metrics="rouge")._repr_html_()
    assert "may be chance" in few and "Only 2 examples" in few


def test_a_score_draws_how_it_is_spread(comparison):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    score = comparison.cards["<good>"]["rouge"]
    axes = score.plot("rouge2")
    assert axes.get_xlabel() == "rouge2" and sum(bar.get_height() for bar in axes.patches[:-1]) == 36
    assert axes.lines[0].get_xdata()[0] == score.mean["rouge2"]
    axes.figure.draw_without_rendering()
    assert axes.xaxis.label.get_window_extent().y0 >= 0, "the name of the value is cut off"
    assert all(tick == int(tick) for tick in axes.get_yticks()), "examples are counted"
    pyplot.close(axes.figure)
