"""How scores look in a notebook: tables in HTML that follow its theme, and a picture of one score."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from summarily.metrics.plots import new_axes
from summarily.metrics.resampling import too_few
from summarily.support.keys import Key
from summarily.support.markup import Bar, bar_chart, note, table

if TYPE_CHECKING:
    from summarily.metrics.base import Score
    from summarily.metrics.comparison import Comparison
    from summarily.metrics.explanations import Explanation
    from summarily.metrics.scorecard import Scorecard

# Colours are those of the text around, so that light and dark notebooks both work.
_STYLE = """<style>
.summarily table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .3em 0; }
.summarily caption { text-align: left; opacity: .75; }
.summarily th, .summarily td { padding: .2em .7em; text-align: right; border-bottom: 1px solid rgb(128 128 128 / .35); }
.summarily th:first-child { text-align: left; }
.summarily .note { opacity: .75; margin: .3em 0; }
.summarily .scroll { overflow-x: auto; }
.summarily svg { width: 260px; } .summarily svg text { fill: currentColor; font-size: 12px; }
.summarily svg .whisker { stroke: currentColor; fill: none; } .summarily svg .axis { stroke: rgb(128 128 128 / .5); }
.summarily figure { display: inline-block; margin: .3em 1.2em .3em 0; }
.summarily h4 { margin: .8em 0 .2em; } .summarily .text { white-space: pre-wrap; }
.summarily mark { background: rgb(250 204 21 / .45); color: inherit; }
.summarily .grid-of-two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 1em; }
.summarily .chips { display: flex; flex-wrap: wrap; gap: 4px; }
.summarily .chip { display: inline-flex; flex-direction: column; align-items: center; padding: 2px 6px; border-radius: 5px; }
.summarily .wide svg { width: min(460px, 100%); } .summarily td.long { white-space: normal; text-align: left; }
</style>"""


def scorecard_html(card: Scorecard) -> str:
    """Every value with its interval, and the signatures.

    Example:
        >>> import summarily
        >>> "0.6667" in scorecard_html(summarily.score(["a cat sat"], ["the cat sat"], metrics="rouge"))
        True
    """
    rows = [row for label, score in card.items() for row in _rows(label, score)]
    parts = [table("Means over the examples", ["value", "mean", *_level(list(card.values()))], rows)]
    first = next(iter(card.values()))
    if first.interval and (few := too_few(len(first))):
        parts.append(note(few))
    parts += [note(f"{name} was skipped: {reason}") for name, reason in card.skipped.items()]
    return _whole(parts, [str(score.signature) for score in card.values()])


def score_html(score: Score) -> str:
    """One metric's values, and how its main score is spread over the examples."""
    parts = [
        table(f"{score.name}, {len(score)} examples", ["value", "mean", *_level([score])], _rows("", score))
    ]
    return _whole(parts, [str(score.signature)])


def comparison_html(comparison: Comparison) -> str:
    """The main scores as bars and as a table, the tests of every pair, and the ranking."""
    first = next(iter(comparison.cards.values()))
    rows, bars = [], []
    for metric, score in first.items():
        found = {system: card[metric] for system, card in comparison.cards.items()}
        digits = comparison.digits(metric)
        rows += [
            [
                score.label(key, metric),
                *(one.text(key, comparison.digits(metric, key)) for one in found.values()),
            ]
            for key in score.shown
        ]
        intervals = [
            Bar(system, float(one), *(one.interval[one.main][:2] if one.interval else (None, None)))
            for system, one in found.items()
        ]
        bars.append(bar_chart(score.main.label, intervals, digits))
    pairs = [
        [
            f"{pair.metric}: {pair.first} − {pair.second}",
            f"{pair.test.difference:+.{comparison.digits(pair.metric)}f}",
            f"{pair.p_holm:.4f}",
            comparison.winner(pair) or "may be chance",
        ]
        for pair in comparison.pairs
    ]
    parts = [
        table(f"Means, {100 * comparison.confidence:g}% intervals", ["value", *comparison.cards], rows),
        "".join(bars),
        table("Permutation tests of every pair", ["difference", "mean", "p (Holm)", "better"], pairs),
    ]
    if few := too_few(len(next(iter(first.values()))), paired=True):
        parts.append(note(few))
    return _whole(parts, [str(score.signature) for score in first.values()])


def explanation_in_notebook(explanation: Explanation) -> str:
    """Why an example got its score, as the Spaces show it."""
    from summarily.metrics.pictures import explanation_html

    digits = explanation.digits
    values = ", ".join(f"{Key(key).label} {value:.{digits}f}" for key, value in explanation.values.items())
    return f'{_STYLE}<div class="summarily wide">{note(values)}{explanation_html(explanation)}</div>'


def plot(score: Score, key: str | None = None, axes: Any = None) -> Any:
    """A histogram of one value over the examples, with its mean and interval; returns the axes.

    Example:
        >>> import summarily
        >>> rows = summarily.load_sample()
        >>> card = summarily.score([row["good"] for row in rows], [row["references"] for row in rows], metrics="rouge")
        >>> card["rouge"].plot().get_xlabel()
        'rouge1'
    """
    name = score.key(key)
    if axes is None:
        axes = new_axes(5, 3)
        axes.figure.set_layout_engine("constrained")  # which cuts no label off
    axes.hist(score.per_example[name], bins=min(30, max(5, len(score) // 4)), color="#0072b2", alpha=0.75)
    axes.axvline(score.mean[name], color="#d55e00", label=f"mean {score.mean[name]:.{score.digits(name)}f}")
    if score.interval:
        low, high, confidence = score.interval[name]
        axes.axvspan(low, high, color="#d55e00", alpha=0.2, label=f"{100 * confidence:g}% interval")
    axes.set_xlabel(name.label)
    axes.set_ylabel("examples")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return axes


def _rows(label: str, score: Score) -> list[list[str]]:
    rows = []
    means = score.mean
    for key in score.ordered:
        digits = score.digits(key)
        row = [score.label(key, label), f"{means[key]:.{digits}f}"]
        if score.interval:
            low, high, _ = score.interval[key]
            row.append(f"{low:.{digits}f} to {high:.{digits}f}")
        rows.append(row)
    return rows


def _level(scores: Sequence[Score]) -> list[str]:
    found = next((score.interval for score in scores if score.interval), None)
    return [f"{100 * next(iter(found.values())).confidence:g}% interval"] if found else []


def _whole(parts: Sequence[str], signatures: Sequence[str]) -> str:
    listed = "".join(f"<li><code>{escape(signature)}</code></li>" for signature in signatures)
    return (
        f'{_STYLE}<div class="summarily">{"".join(parts)}'
        f"<details><summary>signatures: what exactly ran</summary><ul>{listed}</ul></details></div>"
    )
