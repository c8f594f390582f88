"""Tables and plots of a study: on the terminal, in Markdown, and as one HTML file that needs nothing else.

The same numbers give the same bytes, plots included.
"""

from __future__ import annotations

import html
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from summarily.support.errors import InputError, MissingRequirement
from summarily.support.files import write_atomically
from summarily.support.requirements import pip_install
from summarily.support.tables import format_table

_STYLE = """
:root{color-scheme:light dark;--text:#222;--soft:#555;--line:#ddd;--ground:#fff;--high:#0a6b2d;--low:#a11}
@media(prefers-color-scheme:dark){:root{--text:#e6e6e6;--soft:#aaa;--line:#444;--ground:#1b1b1f;--high:#6fd08c;--low:#ff8f8f}}
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:var(--text);background:var(--ground)}
h1,h2,p,li{overflow-wrap:anywhere}.scroll{overflow-x:auto}
table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3em 0}
th,td{padding:.15em .7em;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n,th.n{text-align:right}td.n{white-space:nowrap}
td:first-child,th:first-child{position:sticky;left:0;background:var(--ground)}
figure{margin:1em 0}svg{max-width:100%;height:auto;color:var(--text)}svg text{fill:currentColor}
figcaption,.note{color:var(--soft)}.verdict{font-size:1.2em;font-weight:600;max-width:45em}
pre{white-space:pre-wrap}.high{color:var(--high);font-weight:700}.low{color:var(--low);font-style:italic}
@media(max-width:640px){body{margin:1em auto}th,td{padding:.15em .4em;font-size:.85em}}
"""


@dataclass
class Table:
    """A table of cells that are already text; the columns from `numbers_from` on are right-aligned."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""
    numbers_from: int = 1

    def text(self) -> str:
        right = range(self.numbers_from, len(self.header))
        return "\n".join(
            [
                self.title,
                "",
                format_table(self.header, self.rows, right=right),
                *([self.note] if self.note else []),
            ]
        )

    def markdown(self) -> str:
        lines = [
            "| " + " | ".join(self.header) + " |",
            "|" + "|".join("---" if i < self.numbers_from else "---:" for i in range(len(self.header))) + "|",
        ]
        return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in self.rows)])

    def html(self) -> str:
        def cells(tag: str, row: Sequence[str]) -> str:
            return "".join(
                f"<{tag}{' class=n' if i >= self.numbers_from else ''}>{html.escape(cell)}</{tag}>"
                for i, cell in enumerate(row)
            )

        body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows)
        note = f"<p class=note>{html.escape(self.note)}</p>" if self.note else ""
        return (
            f"<div class=scroll><table><caption>{html.escape(self.title)}</caption>\n<tr>{cells('th', self.header)}</tr>\n"
            f"{body}</table></div>{note}"
        )


@dataclass
class Section:
    """One part of a report: its answer first, a title, text, tables and figures (SVG with a caption)."""

    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    """What the section comes to, in a sentence, and what follows from it."""
    lead: list[tuple[str, str]] = field(default_factory=list)
    """Figures that show it, before the tables."""

    def terminal(self) -> str:
        tables = [table.text() for table in self.tables]
        return "\n\n".join(["\n".join(self.first), f"== {self.title}", *self.text, *tables]).lstrip("\n")

    def html(self) -> str:
        parts = [f"<h2>{html.escape(self.title)}</h2>"]
        for number, text in enumerate(self.first):
            parts.append(f"<p{'' if number else ' class=verdict'}>{html.escape(text)}</p>")
        parts += [_figure(*figure) for figure in self.lead]
        parts += [f"<p>{html.escape(text)}</p>" for text in self.text]
        parts += [table.html() for table in self.tables]
        parts += [_figure(*figure) for figure in self.figures]
        return "\n".join(parts)


def _figure(caption: str, svg: str) -> str:
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def page(title: str, sections: Sequence[Section], more: str = "") -> str:
    """A whole HTML page of the sections and of `more`, which is HTML already.

    Example:
        >>> page("Report", [Section("One", ["text"])]).startswith("<!doctype html>")
        True
    """
    body = "\n".join([*(section.html() for section in sections), more])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def update_document(path: str | os.PathLike[str], name: str, text: str) -> None:
    """Put `text` between the lines `<!-- name -->` and `<!-- end of name -->` of a document.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "README.md"
        >>> _ = file.write_text("<!-- numbers -->\\nold\\n<!-- end of numbers -->\\n")
        >>> update_document(file, "numbers", "new"); file.read_text()
        '<!-- numbers -->\\n\\nnew\\n\\n<!-- end of numbers -->\\n'
    """
    document = Path(path).read_text(encoding="utf-8")
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, found_start, rest = document.partition(start)
    _, found_end, after = rest.partition(end)
    if not (found_start and found_end):
        raise InputError(f"{path} has no lines {start.strip()} and {end.strip()} to write between.")
    write_atomically(path, f"{before}{start}\n{text.strip()}\n\n{end}{after}")


def section_of(path: str | os.PathLike[str], name: str) -> str:
    """What `update_document` has put into a document.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "README.md"
        >>> _ = file.write_text("<!-- numbers -->\\n\\nnew\\n\\n<!-- end of numbers -->\\n")
        >>> section_of(file, "numbers")
        'new'
    """
    text = Path(path).read_text(encoding="utf-8")
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->\n")[0].strip()


def number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """A number for a table; an undefined one is a dash.

    Example:
        >>> number(0.12345), number(float("nan"))
        ('0.123', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return text if float(text) else text.replace("-", "")


def mean(value: float) -> str:
    """A mean score for a table: those of the movers can be very small.

    Example:
        >>> mean(0.4567), mean(0.000123)
        ('0.457', '1.2e-04')
    """
    return number(value) if math.isnan(value) or value == 0 or abs(value) >= 0.005 else f"{value:.1e}"


def p_value(value: float) -> str:
    """A p-value for a table.

    Example:
        >>> p_value(0.00001), p_value(0.04)
        ('<0.001', '0.040')
    """
    return "<0.001" if value < 0.001 else number(value)


def bracket(low: float, high: float, digits: int = 3) -> str:
    """An interval for a table."""
    return "-" if math.isnan(low + high) else f"{low:.{digits}f} to {high:.{digits}f}"


# --- plots --------------------------------------------------------------------------------------------------


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingRequirement(f"a report with plots needs matplotlib: {pip_install('plots')}") from None
    matplotlib.use("Agg")
    # Text stays text, and nothing in the file depends on when or where it was drawn.
    matplotlib.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "summarily", "font.family": "sans-serif", "font.size": 9}
    )
    import matplotlib.pyplot

    return matplotlib.pyplot


def _svg(figure: Any) -> str:
    stream = io.StringIO()
    figure.savefig(
        stream,
        format="svg",
        bbox_inches="tight",
        transparent=True,
        metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
    )
    _pyplot().close(figure)
    # Lines have the colour of the text around, on dark pages too.
    drawing = stream.getvalue()[stream.getvalue().index("<svg") :]
    return drawing.replace("#000000", "currentColor").replace("#333333", "currentColor")


def bars(values: Mapping[str, float], bounds: Mapping[str, tuple[float, float]], axis: str) -> str:
    """Horizontal bars with intervals, best on top, as SVG."""
    labels = sorted(
        (label for label in values if not math.isnan(values[label])), key=lambda label: values[label]
    )
    figure, axes = _pyplot().subplots(figsize=(7, 0.28 * len(labels) + 0.8))
    centre = [values[label] for label in labels]
    low = [max(0.0, values[label] - bounds[label][0]) if label in bounds else math.nan for label in labels]
    high = [max(0.0, bounds[label][1] - values[label]) if label in bounds else math.nan for label in labels]
    axes.barh(labels, centre, xerr=[low, high], color="#5b8db8", ecolor="#333", capsize=2)
    axes.axvline(0, color="#333", linewidth=0.8)
    axes.set_xlabel(axis)
    return _svg(figure)


def distributions(columns: Mapping[str, Sequence[float]], across: int = 3) -> str:
    """A small histogram of every metric's scores, as SVG."""
    labels = list(columns)
    down = math.ceil(len(labels) / across)
    figure, axes = _pyplot().subplots(down, across, figsize=(2.2 * across, 1.5 * down), squeeze=False)
    for cell, label in zip(axes.flat, labels, strict=False):
        values = np.array(columns[label], dtype=float)
        cell.hist(values[~np.isnan(values)], bins=30, color="#5b8db8")
        cell.set_title(label, fontsize=8)
        cell.set_yticks([])
    for cell in list(axes.flat)[len(labels) :]:
        cell.axis("off")
    figure.tight_layout()
    return _svg(figure)


def matrix(labels: Sequence[str], values: np.ndarray) -> str:
    """A matrix of correlations with the numbers written in, as SVG (the thesis' Figure 7.1)."""
    size = 0.42 * len(labels) + 1.5
    figure, axes = _pyplot().subplots(figsize=(size, size))
    axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set_xticks(range(len(labels)), labels, rotation=90)
    axes.set_yticks(range(len(labels)), labels)
    for (i, j), value in np.ndenumerate(values):
        if not math.isnan(value):
            colour = "white" if abs(value) > 0.7 else "#111111"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=5.5, color=colour)
    return _svg(figure)


def against(people: Sequence[float], scores: Sequence[float], x: str, y: str) -> str:
    """A metric's scores against people's, a point for every summary, as SVG."""
    figure, axes = _pyplot().subplots(figsize=(5, 3.4))
    axes.plot(people, scores, "o", color="#5b8db8", alpha=min(1.0, max(0.15, 60 / len(people))), markersize=4)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return _svg(figure)


def scatter(points: Mapping[str, tuple[float, float]], x: str, y: str) -> str:
    """Named points, x on a logarithmic axis, as SVG: what a metric costs against how well it agrees."""
    figure, axes = _pyplot().subplots(figsize=(8, 5.5))
    axes.set_xscale("log")
    for across, up in points.values():
        axes.plot(across, up, "o", color="#5b8db8", markersize=4)
    axes.margins(x=0.15)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    figure.draw_without_rendering()
    # Names stand to the right of their points, each below those that would cover it.
    per_point = figure.dpi / 72
    placed: list[tuple[float, float, float]] = []  # left, right and height of a name, in points
    for label, point in sorted(points.items(), key=lambda entry: -entry[1][1]):
        left, height = axes.transData.transform(point) / per_point
        right, top = left + 6 + 4.6 * len(label), height
        for other_left, other_right, other in placed:  # from the top down
            if other_left < right and left < other_right and abs(other - height) < 8.5:
                height = other - 8.5
        placed.append((left, right, height))
        axes.annotate(label, point, xytext=(5, height - top - 2.5), textcoords="offset points", fontsize=8)
    return _svg(figure)


def boxes(groups: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """One panel per metric with a box per system, as SVG (the thesis' Figure 6.1)."""
    figure, axes = _pyplot().subplots(1, len(groups), figsize=(3 * len(groups), 3), squeeze=False)
    for cell, (metric, systems) in zip(axes[0], groups.items(), strict=True):
        cell.boxplot(list(systems.values()), showfliers=False)
        cell.set_xticks(range(1, len(systems) + 1), list(systems), rotation=60, ha="right")
        cell.set_title(metric, fontsize=9)
    figure.tight_layout()
    return _svg(figure)
