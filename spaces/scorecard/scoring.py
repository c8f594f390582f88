"""From what the reader pasted or uploaded to tables, charts and explanations; nothing here needs Gradio."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from summarily.metrics import METRICS, load_all, metric_class
from summarily.metrics.base import Score
from summarily.metrics.comparison import Comparison, Pair, compare
from summarily.metrics.pictures import explanation_html
from summarily.metrics.resampling import too_few
from summarily.metrics.scorecard import Scorecard, score
from summarily.spaces.serving import csv_cell, sentence
from summarily.spaces.texts import Texts
from summarily.support.errors import InputError
from summarily.support.keys import Key
from summarily.support.markup import COLOURS, Bar, bar_chart, note, number, table

CONFIDENCE = 0.95
OPTIONS: dict[str, dict[str, Any]] = {"rouge": {"split_sentences": True}}
"""By metric: rougeLsum as papers report it, of sentences, which what people paste seldom has on lines of their own."""


# --- scoring ----------------------------------------------------------------------------------------------


@dataclass
class Result:
    """What the Space shows: a scorecard for each system, and the tests of every pair of them."""

    cards: dict[str, Scorecard]
    comparison: Comparison | None
    """None for one system, or one document: nothing can be tested."""
    texts: Texts

    def digits(self, metric: str, key: str | None = None) -> int:
        """Decimals to show: the same for all systems."""
        return min(card[metric].digits(key) for card in self.cards.values())

    @property
    def pairs(self) -> list[Pair]:
        return self.comparison.pairs if self.comparison else []

    @property
    def metrics(self) -> list[str]:
        return list(next(iter(self.cards.values())))


def metrics_here() -> tuple[list[tuple[str, str]], dict[str, str]]:
    """What can be chosen, as label and name, and the others with what they lack."""
    chosen, skipped = load_all("all")
    return [(name, name) for name in chosen], skipped


def score_texts(
    texts: Texts, metrics: Sequence[str], report: Callable[[int, int, str], None] | bool = False
) -> Result:
    """The numbers are those of `summarily.score` with these OPTIONS for each system; `report` is told how far it is.

    Example:
        >>> from summarily.spaces.texts import pasted
        >>> result = score_texts(pasted("", "the cat sat", ["a cat sat"]), ["rouge"])
        >>> round(result.cards["System A"]["rouge"].mean["rouge1"], 4)
        0.6667
    """
    chosen = {name: OPTIONS.get(name, {}) for name in METRICS if name in metrics}
    if not chosen:
        raise InputError("Please pick at least one metric.")
    if len(texts.systems) > 1 and len(texts) > 1:
        found: Comparison = compare(
            texts.systems,
            texts.references,
            texts.sources,
            metrics=chosen,
            confidence=CONFIDENCE,
            progress=report,
        )
        return Result(found.cards, found, texts)
    confidence = CONFIDENCE if len(texts) > 1 else None
    cards = {
        name: score(
            summaries,
            texts.references,
            texts.sources,
            metrics=chosen,
            confidence=confidence,
            progress=report,
        )
        for name, summaries in texts.systems.items()
    }
    return Result(cards, None, texts)


# --- output -----------------------------------------------------------------------------------------------


def results_html(result: Result) -> str:
    """The table with intervals, the bar chart, the tests of differences and the signatures."""
    systems, rows = len(result.cards), len(result.texts)
    counted = f"{systems} {'systems' if systems > 1 else 'system'}, {rows} {'documents' if rows > 1 else 'document'}"
    parts = [f"<h3>Scores</h3>{_score_table(result)}"]
    if rows > 1:
        few = too_few(rows, paired=bool(result.pairs))
        parts.append(note(f"{counted}. In brackets: {CONFIDENCE:.0%} intervals. {few or ''}"))
    else:
        parts.append(
            note(
                f"{counted}. Intervals need more than one document: upload a file to see how sure a mean is."
            )
        )
    panels = "".join(_panel(result, metric) for metric in result.metrics)
    parts.append(f'<h3>Main scores</h3><div class="panels">{panels}</div>')
    if result.pairs:
        parts.append(f"<details><summary>Are the differences real?</summary>{_pair_table(result)}</details>")
    signatures = "".join(
        f"<li><code>{escape(str(found.signature))}</code></li>" for found in _first(result).values()
    )
    parts.append(f"<details><summary>Signatures: what exactly ran</summary><ul>{signatures}</ul></details>")
    return f'<div class="result">{"".join(parts)}</div>'


def _first(result: Result) -> Scorecard:
    return next(iter(result.cards.values()))


def _score_table(result: Result) -> str:
    """Every value; precision, where a metric has it, folds away."""
    header = ["value"] + [
        f'<span class="swatch" style="background:{COLOURS[i]}" aria-hidden="true"></span>{escape(name)}'
        for i, name in enumerate(result.cards)
    ]
    rows: dict[bool, list[list[str]]] = {False: [], True: []}
    for metric, first in _first(result).items():
        for key in first.ordered:
            best = result.comparison.best(metric, key) if result.comparison else list(result.cards)
            starred = best if len(best) < len(result.cards) else []
            digits = result.digits(metric, key)
            cells = [
                _score_cell(card[metric], key, system in starred, digits)
                for system, card in result.cards.items()
            ]
            rows[key.endswith("_precision")].append([escape(Key(key).label), *cells])
    caption = "Means over the documents" + (
        "; a star marks the best system, and any other whose distance to it may be chance"
        if result.pairs
        else ""
    )
    html = table(caption, header, rows[False], escaped=True)
    if rows[True]:
        more = table("Precision", header, rows[True], escaped=True)
        html += f"<details><summary>Precision</summary>{more}</details>"
    return html


def _score_cell(found: Score, key: str, best: bool, digits: int) -> str:
    value = number(found.mean[key], digits)
    text = f'<span class="best">{value}</span>' if best else value
    if found.interval:
        interval = found.interval[key]
        text += f"<small>[{number(interval.low, digits)}, {number(interval.high, digits)}]</small>"
    return text


def _panel(result: Result, metric: str) -> str:
    bars = []
    for system, card in result.cards.items():
        found = card[metric]
        interval = found.interval[found.main] if found.interval else None
        low, high = (interval.low, interval.high) if interval else (None, None)
        bars.append(Bar(system, float(found), low, high))
    first = _first(result)[metric]
    return bar_chart(first.main.label, bars, result.digits(metric))


def _pair_table(result: Result) -> str:
    digits = {metric: result.digits(metric) for metric in result.metrics}
    rows = [
        [
            f"{pair.metric}: {pair.first} − {pair.second}",
            f"{pair.test.difference:+.{digits[pair.metric]}f}",
            f"{pair.test.low:+.{digits[pair.metric]}f} to {pair.test.high:+.{digits[pair.metric]}f}",
            f"{pair.p_holm:.4f}",
            pair.better or "",
            "yes" if pair.p_holm < 1 - CONFIDENCE else "not shown",
        ]
        for pair in result.pairs
    ]
    header = [
        "difference of main scores",
        "mean",
        f"{CONFIDENCE:.0%} interval",
        "p (Holm)",
        "better",
        "real?",
    ]
    return table("Paired permutation tests, corrected for the number of pairs", header, rows)


def explain(result: Result, metric: str, system: str, row: int) -> str:
    """Why one summary got its score from one metric."""
    found = result.cards[system][metric]
    value = number(found.per_example[found.main][row], result.digits(metric))
    title = f"<h3>{escape(found.label(found.main, metric))} of {escape(system)}, {escape(result.texts.names[row])}: {value}</h3>"
    try:
        body = explanation_html(found.explain(row))
    except InputError as error:
        body = note(sentence(error))
    return f'<div class="result">{title}{note(metric_class(metric).summary)}{body}</div>'


def to_csv(result: Result) -> str:
    """One line per system and document: every value of every metric.

    Example:
        >>> from summarily.spaces.texts import pasted
        >>> print(to_csv(score_texts(pasted("", "a cat", ["a cat"]), ["rouge"])).splitlines()[1][:29])
        System A,the text,1.0,1.0,1.0
    """
    stream = io.StringIO()
    keys = [(metric, key) for metric, found in _first(result).items() for key in found.per_example]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["system", "id", *(key for _, key in keys)])
    for system, card in result.cards.items():
        for row, name in enumerate(result.texts.names):
            writer.writerow(
                [
                    csv_cell(system),
                    csv_cell(name),
                    *(card[metric].per_example[key][row] for metric, key in keys),
                ]
            )
    return stream.getvalue()


def to_json(result: Result) -> str:
    """Means, intervals, signatures, tests and values, as the commands write them."""
    if result.comparison:
        return result.comparison.to_json()
    cards: Mapping[str, Any] = {system: card.to_dict() for system, card in result.cards.items()}
    return json.dumps({"systems": cards}, indent=2, ensure_ascii=False, allow_nan=False)
