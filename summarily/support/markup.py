"""Tables and pictures as HTML and SVG: they scale on a phone, follow the theme, and speak to a screen reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499")
"""Of up to four systems; apart for every kind of colour vision."""


def number(value: float, digits: int = 4) -> str:
    """
    Example:
        >>> number(0.5), number(-0.0)
        ('0.5000', '0.0000')
    """
    return f"{value + 0.0:.{digits}f}"


def table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, escaped: bool = False
) -> str:
    """A table whose first column names its rows. Cells are text, or HTML if they are already `escaped`.

    Example:
        >>> "<td>0.5</td>" in table("Scores", ["metric", "A"], [["rouge1", "0.5"]])
        True
    """
    safe = (lambda cell: cell) if escaped else (lambda cell: escape(str(cell)))
    head = "".join(f'<th scope="col">{safe(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{safe(row[0])}</th>{"".join(f"<td>{safe(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    # A table that is wider than the screen scrolls in its own box, which the keyboard can reach.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def note(text: str) -> str:
    """A remark in small print.

    Example:
        >>> note("a < b")
        '<p class="note">a &lt; b</p>'
    """
    return f'<p class="note">{escape(text)}</p>'


def figure(caption: str, drawing: str) -> str:
    """A drawing with its caption."""
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    """A picture that shrinks with the page; `label` is what a screen reader says."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}" '
        f'style="max-width:{width:g}px" preserveAspectRatio="xMinYMin meet">{"".join(parts)}</svg>'
    )


def text_at(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    """A word of a picture.

    Example:
        >>> text_at(1, 2, "cat", "word")
        '<text x="1" y="2" class="word" text-anchor="start">cat</text>'
    """
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


# --- bars -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """A value with its interval, if it has one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def bar_chart(title: str, bars: Sequence[Bar], digits: int = 4) -> str:
    """One panel: horizontal bars on a scale that holds zero, all values and all intervals.

    Example:
        >>> "A 0.5000" in bar_chart("rouge1", [Bar("A", 0.5, 0.4, 0.6)])
        True
    """
    edges = [0.0]
    for bar in bars:
        edges += [edge for edge in (bar.value, bar.low, bar.high) if edge is not None]
    least, most = min(edges), max(edges)
    span = (most - least) or 1.0
    left, width, step = 2, 216, 34

    def place(value: float) -> float:
        return left + (value - least) / span * width

    parts = []
    for i, bar in enumerate(bars):
        top = 4 + i * step
        start, end = sorted((place(0.0), place(bar.value)))
        parts.append(text_at(left, top + 11, bar.label, "bar-label"))
        parts.append(text_at(left + width, top + 11, number(bar.value, digits), "bar-value", "end"))
        parts.append(
            f'<rect x="{start:.2f}" y="{top + 15}" width="{max(end - start, 1):.2f}" height="10" rx="2" '
            f'fill="{COLOURS[i % len(COLOURS)]}"/>'
        )
        if bar.low is not None and bar.high is not None:
            a, b, middle = place(bar.low), place(bar.high), top + 20
            parts.append(
                f'<path class="whisker" d="M{a:.2f} {middle}H{b:.2f}M{a:.2f} {middle - 4}v8M{b:.2f} {middle - 4}v8"/>'
            )
    parts.append(f'<path class="axis" d="M{place(0.0):.2f} 4v{len(bars) * step - 4}"/>')
    spoken = "; ".join(
        f"{bar.label} {number(bar.value, digits)}"
        + (
            f", interval {number(bar.low, digits)} to {number(bar.high or 0, digits)}"
            if bar.low is not None
            else ""
        )
        for bar in bars
    )
    drawing = svg(220, len(bars) * step + 6, f"{title}: {spoken}", parts)
    return f'<figure class="panel"><figcaption>{escape(title)}</figcaption>{drawing}</figure>'


# --- curves -----------------------------------------------------------------------------------------------


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    colours: Mapping[str, str],
) -> str:
    """Curves over a shared x, both axes logarithmic (all values positive), each named at its right end.

    Example:
        >>> drawing = line_chart("cost", "tokens", "pairs", [1, 10], {"full": [1, 100]}, {"full": "red"})
        >>> "full 100" in drawing
        True
    """
    from math import ceil, floor, log10

    width, height, left, bottom, right, top = 640, 340, 58, 40, 150, 12
    x_low, x_high = log10(x[0]), log10(x[-1]) if x[-1] > x[0] else log10(x[0]) + 1
    values = [value for curve in curves.values() for value in curve]
    y_low, y_high = floor(log10(min(values))), max(ceil(log10(max(values))), floor(log10(min(values))) + 1)

    def across(value: float) -> float:
        return left + (log10(value) - x_low) / (x_high - x_low) * (width - left - right)

    def up(value: float) -> float:
        return height - bottom - (log10(value) - y_low) / (y_high - y_low) * (height - bottom - top)

    parts = []
    for power in range(y_low, y_high + 1):
        y = up(10.0**power)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{width - right}"/>')
        parts.append(text_at(left - 6, y + 4, _short(10.0**power), "tick", "end"))
    for value in x:
        parts.append(text_at(across(value), height - bottom + 16, _short(value), "tick", "middle"))
    parts.append(text_at((left + width - right) / 2, height - 6, x_label, "tick", "middle"))
    parts.append(text_at(left, 9, y_label, "tick"))
    ends = spread([up(curve[-1]) for curve in curves.values()], 15)
    for (name, curve), label_y in zip(curves.items(), ends, strict=True):
        points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x, curve, strict=True))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="2"/>'
            f'<text x="{width - right + 8}" y="{label_y + 4:.1f}" class="tick" '
            f'style="fill:{colours[name]};font-weight:600">{escape(name)}</text>'
        )
    spoken = "; ".join(f"{name} {_short(curve[-1])}" for name, curve in curves.items())
    drawing = svg(width, height, f"{title}, at {_short(x[-1])}: {spoken}", parts)
    box = f'<div class="scroll chart" tabindex="0" role="region" aria-label="{escape(title)}">{drawing}</div>'
    return figure(title, box)


def _short(value: float) -> str:
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def spread(places: Sequence[float], apart: float) -> list[float]:
    """The places, moved as little down as keeps them `apart`, in their order.

    Example:
        >>> spread([1.0, 1.0, 9.0], 2)
        [1.0, 3.0, 9.0]
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    result = list(places)
    for before, after in pairwise(order):
        result[after] = max(result[after], result[before] + apart)
    return result


# --- texts ------------------------------------------------------------------------------------------------


def marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with the spans marked; touching and overlapping ones become one mark.

    Example:
        >>> marked("a cat sat", [(2, 5), (5, 9)])
        'a <mark>cat sat</mark>'
    """
    joined: list[list[int]] = []
    for start, end in sorted(spans):
        # Words next to each other are marked with the space between them.
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    parts, position = [], 0
    for start, end in joined:
        parts += [escape(text[position:start]), f"<mark>{escape(text[start:end])}</mark>"]
        position = end
    return "".join([*parts, escape(text[position:])])


def shade(strength: float) -> str:
    """A background for a word, from none at 0 to full at 1; the text on it stays readable."""
    return f"background:rgb(99 102 241 / {0.75 * min(max(strength, 0.0), 1.0):.3f})"


def words_with_notes(words: Sequence[tuple[str, str, float]], label: str) -> str:
    """Words with a smaller one under each, shaded by a strength from 0 to 1."""
    chips = "".join(
        f'<span class="chip" role="listitem" style="{shade(strength)}" '
        f'title="{escape(word)}: {escape(under)} ({strength:.3f})">'
        f"<b>{escape(word)}</b><small>{escape(under)}</small></span>"
        for word, under, strength in words
    )
    return f'<div class="chips" role="list" aria-label="{escape(label)}">{chips}</div>'


def shaded_words(words: Sequence[str], strengths: Sequence[float], label: str) -> str:
    """Running text whose words are shaded relative to the strongest."""
    most = max(strengths, default=0.0) or 1.0
    spans = "".join(
        f'<span class="shaded" style="{shade(strength / most)}" title="{strength:.4f}">{escape(word)}</span>'
        for word, strength in zip(words, strengths, strict=True)
    )
    return f'<p class="running" aria-label="{escape(label)}">{spans}</p>'


# --- arrows and heat maps ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrow:
    """Mass that goes from one word to another, and how far."""

    start: str
    end: str
    mass: float
    distance: float


def arrows(title: str, flows: Sequence[Arrow]) -> str:
    """A transport plan: lines as thick as the mass they carry, the redder the farther it goes.

    Example:
        >>> "cat to dog" in arrows("plan", [Arrow("cat", "dog", 1.0, 0.5)])
        True
    """
    starts = list(dict.fromkeys(flow.start for flow in flows))
    # Every place stands beside the middle of what it gets, so that few lines cross.
    arriving: dict[str, list[Arrow]] = {}
    for flow in flows:
        arriving.setdefault(flow.end, []).append(flow)
    ends = sorted(
        arriving,
        key=lambda end: (
            sum(starts.index(flow.start) * flow.mass for flow in arriving[end])
            / sum(flow.mass for flow in arriving[end])
        ),
    )
    step, width, left, right = 19, 460, 150, 310
    height = step * max(len(starts), len(ends)) + 10
    farthest = max((flow.distance for flow in flows), default=0.0) or 1.0
    heaviest = max((flow.mass for flow in flows), default=0.0) or 1.0
    y_start = {name: 14 + i * (height - 10) / len(starts) for i, name in enumerate(starts)}
    y_end = {name: 14 + i * (height - 10) / len(ends) for i, name in enumerate(ends)}
    parts = []
    for flow in sorted(flows, key=lambda flow: flow.distance):
        a, b, far = y_start[flow.start] - 4, y_end[flow.end] - 4, flow.distance / farthest
        parts.append(
            f'<path d="M{left + 6} {a:.1f}C{left + 70} {a:.1f} {right - 70} {b:.1f} {right - 6} {b:.1f}" fill="none" '
            f'stroke="{heat(far)}" stroke-opacity=".8" stroke-width="{0.8 + 4 * flow.mass / heaviest:.2f}">'
            f"<title>{escape(flow.start)} to {escape(flow.end)}: mass {flow.mass:.4f}, "
            f"distance {flow.distance:.4f}</title></path>"
        )
    parts += [text_at(left, y, shorten(name, 24), "word", "end") for name, y in y_start.items()]
    parts += [text_at(right, y, shorten(name, 24), "word") for name, y in y_end.items()]
    label = f"{title}: {len(flows)} moves from {len(starts)} to {len(ends)} places"
    return figure(title, svg(width, height + 8, label, parts))


def heat(strength: float) -> str:
    """From blue (0) over grey to red (1)."""
    t = min(max(strength, 0.0), 1.0)
    cold, middle, hot = (44, 123, 182), (160, 160, 170), (202, 48, 39)
    low, high, part = (cold, middle, 2 * t) if t < 0.5 else (middle, hot, 2 * t - 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(low, high, strict=True))


def shorten(text: str, longest: int) -> str:
    """
    Example:
        >>> shorten("a long sentence", 8)
        'a long …'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]
) -> str:
    """Rows against columns, each cell as dark as its value relative to the largest.

    Example:
        >>> "cat, dog: 0.5" in heat_map("attention", ["cat"], ["dog"], [[0.5]])
        True
    """
    most = max((value for row in values for value in row), default=0.0) or 1.0
    cell, left, top = 16, 110, 90
    parts = []
    for i, row in enumerate(rows):
        parts.append(text_at(left - 6, top + i * cell + 12, shorten(row, 16), "word", "end"))
        for j, column in enumerate(columns):
            strength = values[i][j] / most
            if strength >= 0.02:  # what cannot be seen need not be drawn
                parts.append(
                    f'<rect x="{left + j * cell}" y="{top + i * cell}" width="{cell - 1}" height="{cell - 1}" '
                    f'class="heat" fill-opacity="{strength:.3f}"><title>{escape(row)}, {escape(column)}: '
                    f"{values[i][j]:.4g}</title></rect>"
                )
    for j, column in enumerate(columns):
        x = left + j * cell + 11
        parts.append(
            f'<text class="word" transform="translate({x} {top - 5}) rotate(-60)">{escape(shorten(column, 14))}</text>'
        )
    frame = f'<rect x="{left}" y="{top}" width="{len(columns) * cell}" height="{len(rows) * cell}" class="frame"/>'
    width, height = left + len(columns) * cell + 50, top + len(rows) * cell + 6
    label = f"{title}: {len(rows)} rows, {len(columns)} columns"
    drawing = (
        f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(label)}">'
        f"{frame}{''.join(parts)}</svg>"
    )
    return figure(
        title, f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">{drawing}</div>'
    )
