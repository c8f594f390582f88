"""What `Score.explain` returns, as a picture: aligned words, transport arrows, questions, matched n-grams.

The kind of picture follows from what the explanation holds, not from the name of the metric, so a new metric that
explains itself in one of these forms is drawn without a line here, and any other is listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from summarily.spaces.markup import (
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


def explanation_html(explanation: Mapping[str, Any]) -> str:
    """A drawing of any metric's explanation.

    Example:
        >>> from summarily.metrics import load
        >>> "<mark>cat</mark>" in explanation_html(load("rouge").explain("a cat", ["the cat"]))
        True
    """
    for key, draw in _KINDS.items():
        if explanation.get(key):
            return draw(explanation)
    return _listed(explanation)


# --- matched n-grams --------------------------------------------------------------------------------------


def _matches(explanation: Mapping[str, Any]) -> str:
    return "".join(_matches_of(name, found, explanation) for name, found in explanation["types"].items())


def _matches_of(name: str, found: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    prediction = explanation["prediction"]
    texts = explanation["references"]
    chosen = found["reference"]
    shown = range(len(texts)) if chosen is None else [chosen]
    matches = found["matches"]
    parts = [
        f"<h4>{escape(name)}: F {number(found['f'])}, precision {number(found['precision'])}, "
        f"recall {number(found['recall'])}</h4>",
        '<div class="grid-of-two">',
        _marked_text(
            "Summary", prediction, [span for match in matches for span in _spans(match, prediction)]
        ),
    ]
    for row in shown:
        of_row = [match for match in matches if match["reference"] == row]
        spans = [span for match in of_row for span in _spans(match, texts[row], "reference")]
        label = "Reference" if len(texts) == 1 else f"Reference {row + 1} of {len(texts)}"
        parts.append(_marked_text(label, texts[row], spans))
    parts.append("</div>")
    grams = [f"{' '.join(match['gram'])} ({match['count']})" for match in matches if "gram" in match]
    if grams:
        parts.append(note(f"{len(grams)} shared: {', '.join(grams[:MOST_ROWS])}"))
    return "".join(parts)


def _spans(
    match: Mapping[str, Any], text: Mapping[str, Any], side: str = "prediction"
) -> list[tuple[int, int]]:
    """The characters of one match in one of the texts; words of a subsequence that do not count are left out."""
    if "gram" in match:
        tokens = text["tokens"]
        return [(tokens[i]["start"], tokens[i]["end"]) for place in match[f"{side}_positions"] for i in place]
    if not match["counted"]:
        return []
    spans = [match["reference_span"]] if side == "reference" else match["prediction_spans"]
    return [(start, end) for start, end in spans]


def _marked_text(label: str, text: Mapping[str, Any], spans: Sequence[tuple[int, int]]) -> str:
    return f'<div><b>{escape(label)}</b><div class="text">{marked(text["text"], spans)}</div></div>'


# --- aligned words ----------------------------------------------------------------------------------------


def _alignments(explanation: Mapping[str, Any]) -> str:
    found = explanation["alignments"]
    parts = [
        note("Under each word stands the one it was matched with; the darker, the more similar the two are.")
    ]
    for i, alignment in enumerate(found):
        of = "" if len(found) == 1 else f" {i + 1} of {len(found)}"
        for side, title in (
            ("precision", f"Each word of the summary, matched with reference{of}"),
            ("recall", f"Each word of reference{of}, matched with the summary"),
        ):
            words = [(word["token"], word["match"], word["similarity"]) for word in alignment.get(side, [])]
            if words:
                parts.append(f"<h4>{escape(title)}</h4>{words_with_notes(words, title)}")
    return "".join(parts)


def _likelihoods(explanation: Mapping[str, Any]) -> str:
    parts = [note("Under each token stands its log-probability; the darker, the more likely.")]
    for found in explanation["likelihoods"]:
        title = f"Tokens of “{shorten(found['target'], 60)}”, given “{shorten(found['given'], 60)}”"
        words = [
            (word["token"], number(word["log_probability"], 2), math.exp(word["log_probability"]))
            for word in found["tokens"]
        ]
        parts.append(f"<h4>{escape(title)}</h4>{words_with_notes(words, title)}")
    return "".join(parts)


# --- transport --------------------------------------------------------------------------------------------


def _plans(explanation: Mapping[str, Any]) -> str:
    plans = explanation["plans"]
    return "".join(
        _plan(plan["moves"], "" if len(plans) == 1 else f"reference {i + 1} of {len(plans)}")
        for i, plan in enumerate(plans)
    )


def _references(explanation: Mapping[str, Any]) -> str:
    against = explanation["references"]
    if all(isinstance(part, Mapping) and "words" in part for part in against):
        return _words(against)
    if not all(isinstance(part, Mapping) and "flows" in part for part in against):
        return _listed(explanation)
    return "".join(
        _plan(part["flows"], "" if len(against) == 1 else f"reference {i + 1} of {len(against)}")
        for i, part in enumerate(against)
    )


def _words(against: Sequence[Mapping[str, Any]]) -> str:
    """What each word of the summary adds, against each reference."""
    parts = [
        note("Under each word stands what it adds to the score; the darker, the more. Words may also harm.")
    ]
    for i, part in enumerate(against):
        most = max((word["adds"] for word in part["words"]), default=0.0)
        words = [
            (word["word"], f"{word['adds']:+.3f}", word["adds"] / most if most > 0 else 0.0)
            for word in part["words"]
        ]
        title = "Words of the summary" + (
            f", reference {i + 1} of {len(against)}" if len(against) > 1 else ""
        )
        parts.append(f"<h4>{title}</h4>{words_with_notes(words, title)}")
    return "".join(parts)


def _flows(explanation: Mapping[str, Any]) -> str:
    return _plan(
        explanation["flows"], f"reference {explanation.get('reference', 0) + 1}, the one that counts"
    )


def _plan(moves: Sequence[Mapping[str, Any]], where: str) -> str:
    title = "From the summary (left) to the reference (right)" + (f": {where}" if where else "")
    if not moves:
        return note(f"{title}: nothing could be moved.")
    flows = [Arrow(move["from"], move["to"], move["mass"], move["distance"]) for move in moves]
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


def _questions(explanation: Mapping[str, Any]) -> str:
    questions = explanation["questions"]
    parts = [_listed({key: value for key, value in explanation.items() if _is_plain(value)})]
    parts.append(_records("Questions, and how they were answered from the summary", questions))
    return "".join(parts)


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


_KINDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "types": _matches,
    "alignments": _alignments,
    "likelihoods": _likelihoods,
    "plans": _plans,
    "flows": _flows,
    "questions": _questions,
    "references": _references,
}
