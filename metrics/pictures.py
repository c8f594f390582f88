"""What `Score.explain` returns, as a picture in HTML: aligned words, transport arrows, questions, matched n-grams.

Spaces show it, and notebooks; `metrics/plots.py` draws the same with matplotlib.

The picture follows from the kind of explanation, not from the name of the metric, so a new metric that explains itself
in one of these forms is drawn without a line here, and any other is listed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import singledispatch
from html import escape
from typing import Any

from summarily.metrics.explanations import (
    Explanation,
    Matches,
    Move,
    Moves,
    Questions,
    Shared,
    SharedGram,
    SharedToken,
    Spans,
    Token,
    Words,
)
from summarily.support.markup import (
    Arrow,
    arrows,
    marked,
    note,
    number,
    shorten,
    table,
    words_with_notes,
)

MOST_ARROWS = 90
MOST_ROWS = 200


@singledispatch
def explanation_html(explanation: Explanation) -> str:
    """A drawing of any metric's explanation.

    Example:
        >>> from summarily.metrics import load
        >>> "<mark>cat</mark>" in explanation_html(load("rouge").explain("a cat", ["the cat"]))
        True
    """
    return _listed(explanation.to_dict())


def _of(number: int, references: Sequence[str], before: str = "") -> str:
    """Which reference is meant, if there are several."""
    return f"{before}reference {number + 1} of {len(references)}" if len(references) > 1 else ""


# --- matched n-grams --------------------------------------------------------------------------------------


@explanation_html.register
def _spans(explanation: Spans) -> str:
    return "".join(_shared(name, found, explanation) for name, found in explanation.types.items())


def _shared(name: str, found: Shared, explanation: Spans) -> str:
    texts = explanation.references
    shown = range(len(texts)) if found.reference is None else [found.reference]
    matches = found.matches
    tokens = explanation.prediction_tokens
    parts = [
        f"<h4>{escape(name)}: F {number(found.f)}, precision {number(found.precision)}, "
        f"recall {number(found.recall)}</h4>",
        '<div class="grid-of-two">',
        _marked_text(
            "Summary",
            explanation.prediction,
            [span for match in matches for span in _in_prediction(match, tokens)],
        ),
    ]
    for row in shown:
        tokens = explanation.reference_tokens[row]
        of_row = [match for match in matches if match.reference == row]
        spans = [span for match in of_row for span in _in_reference(match, tokens)]
        label = _of(row, texts).capitalize() or "Reference"
        parts.append(_marked_text(label, texts[row], spans))
    parts.append("</div>")
    grams = [f"{' '.join(match.gram)} ({match.count})" for match in matches if isinstance(match, SharedGram)]
    if grams:
        parts.append(note(f"{len(grams)} shared: {', '.join(grams[:MOST_ROWS])}"))
    return "".join(parts)


def _in_prediction(match: SharedGram | SharedToken, tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """The characters of a match; words of a subsequence that do not count are left out."""
    if isinstance(match, SharedGram):
        return _places(match.prediction_positions, tokens)
    return match.prediction_spans if match.counted else []


def _in_reference(match: SharedGram | SharedToken, tokens: Sequence[Token]) -> list[tuple[int, int]]:
    if isinstance(match, SharedGram):
        return _places(match.reference_positions, tokens)
    return [match.reference_span] if match.counted else []


def _places(occurrences: Sequence[Sequence[int]], tokens: Sequence[Token]) -> list[tuple[int, int]]:
    return [(tokens[i].start, tokens[i].end) for positions in occurrences for i in positions]


def _marked_text(label: str, text: str, spans: Sequence[tuple[int, int]]) -> str:
    return f'<div><b>{escape(label)}</b><div class="text">{marked(text, spans)}</div></div>'


# --- words with a note each -------------------------------------------------------------------------------


@explanation_html.register
def _matches(explanation: Matches) -> str:
    parts = [
        note("Under each word stands the one it was matched with; the darker, the more similar the two are.")
    ]
    for alignment in explanation.alignments:
        reference = _of(alignment.reference, explanation.references) or "reference"
        for title, side in (
            (f"Each word of the summary, matched with {reference}", alignment.precision),
            (f"Each word of {reference}, matched with the summary", alignment.recall),
        ):
            words = [(word.token, word.match, word.similarity) for word in side]
            if words:
                parts.append(f"<h4>{escape(title)}</h4>{words_with_notes(words, title)}")
    return "".join(parts)


@explanation_html.register
def _words(explanation: Words) -> str:
    if explanation.measures == "log_probability":
        return _likelihoods(explanation)
    parts = [
        note("Under each word stands what it adds to the score; the darker, the more. Words may also harm.")
    ]
    for row, text in enumerate(explanation.texts):
        most = max((word.value for word in text.words), default=0.0)
        words = [
            (word.word, f"{word.value:+.3f}", word.value / most if most > 0 else 0.0) for word in text.words
        ]
        title = "Words of the summary" + _of(row, explanation.references, ", ")
        parts.append(f"<h4>{title}</h4>{words_with_notes(words, title)}")
    return "".join(parts)


def _likelihoods(explanation: Words) -> str:
    parts = [note("Under each token stands its log-probability; the darker, the more likely.")]
    for text in explanation.texts:
        title = f"Tokens of “{shorten(text.text, 60)}”, given “{shorten(text.given, 60)}”"
        words = [(word.word, number(word.value, 2), math.exp(word.value)) for word in text.words]
        parts.append(f"<h4>{escape(title)}</h4>{words_with_notes(words, title)}")
    return "".join(parts)


# --- transport --------------------------------------------------------------------------------------------


@explanation_html.register
def _moves(explanation: Moves) -> str:
    return "".join(
        _plan(plan.flows, _of(plan.reference, explanation.references)) for plan in explanation.plans
    )


def _plan(moves: Sequence[Move], where: str) -> str:
    title = "From the summary (left) to the reference (right)" + (f": {where}" if where else "")
    if not moves:
        return note(f"{title}: nothing could be moved.")
    flows = [Arrow(move.start, move.end, move.mass, move.distance) for move in moves]
    flows.sort(key=lambda flow: -flow.mass * flow.distance)
    shown = flows[:MOST_ARROWS]
    about = "Thick lines carry more, red lines go farther."
    if len(flows) > len(shown):
        about += f" The {len(shown)} most costly of {len(flows)} moves are drawn."
    rows = [
        [flow.start, flow.end, number(flow.mass), number(flow.distance), number(flow.mass * flow.distance)]
        for flow in flows[:MOST_ROWS]
    ]
    listing = table("Moves, the most costly first", ["from", "to", "mass", "distance", "cost"], rows)
    return (
        f"<h4>{escape(title)}</h4>{note(about)}{_numbered(shown)}"
        f"<details><summary>The same as a table</summary>{listing}</details>"
    )


def _numbered(flows: Sequence[Arrow]) -> str:
    """Arrows between words; sentences get numbers, and stand below in full."""
    longest = max(len(name) for flow in flows for name in (flow.start, flow.end))
    if longest <= 24:
        return arrows("Transport plan", flows)
    names: dict[str, dict[str, str]] = {"summary": {}, "reference": {}}

    def short(side: str, name: str) -> str:
        if len(name) <= 24:
            return name
        return names[side].setdefault(name, f"{side} sentence {len(names[side]) + 1}")

    drawn = [
        Arrow(short("summary", flow.start), short("reference", flow.end), flow.mass, flow.distance)
        for flow in flows
    ]
    legend = "".join(
        f"<li><b>{escape(label)}:</b> {escape(name)}</li>"
        for side in names.values()
        for name, label in side.items()
    )
    return f"{arrows('Transport plan', drawn)}<ul>{legend}</ul>"


# --- questions, and anything else -------------------------------------------------------------------------


@explanation_html.register
def _questions(explanation: Questions) -> str:
    """What the metric says of the summary as a whole, then question by question."""
    found = explanation.to_dict()
    about = {key: found[key] for key in (*explanation.values, "passage")}
    title = "Questions, and how they were answered from the summary"
    return _listed(about) + (_records(title, found["questions"]) if found["questions"] else "")


def _records(title: str, records: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = [
        [_cell(i + 1), *(_cell(record.get(name, "")) for name in names)]
        for i, record in enumerate(records[:MOST_ROWS])
    ]
    header = ["", *(escape(name.replace("_", " ")) for name in names)]
    html = table(title, header, rows, escaped=True).replace("<td><span", '<td class="long"><span')
    if len(records) > MOST_ROWS:
        html += note(f"The first {MOST_ROWS} of {len(records)}.")
    return html


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "✓ yes" if value else "✗ no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    text = escape(str(value))
    return f"<span>{text}</span>" if len(text) > 40 else text


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


def _listed(explanation: Mapping[str, Any]) -> str:
    """Whatever an explanation holds: plain values as one table, lists of records as one each."""
    plain = [
        [escape(key.replace("_", " ")), _cell(value)]
        for key, value in explanation.items()
        if _is_plain(value)
    ]
    parts = [table("Values", ["value", ""], plain, escaped=True)] if plain else []
    for key, value in explanation.items():
        if (
            isinstance(value, (list, tuple))
            and value
            and all(isinstance(record, Mapping) for record in value)
        ):
            parts.append(_records(key.replace("_", " "), value))
        elif isinstance(value, Mapping):
            parts.append(f"<h4>{escape(key.replace('_', ' '))}</h4>{_listed(value)}")
        elif not _is_plain(value) and value is not None:
            parts.append(note(f"{key.replace('_', ' ')}: {value}"))
    return "".join(parts) or note("There is nothing to show.")
