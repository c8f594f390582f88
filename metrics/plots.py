"""What `Score.explain` returns, drawn with matplotlib; `metrics/pictures.py` has the same in HTML.

The picture follows from the kind of explanation. Texts are set in a font of equal widths, so that places are counted in
characters, and a picture is the same whatever draws it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from summarily.metrics.explanations import (
    Explanation,
    Matches,
    Moves,
    Questions,
    SharedGram,
    Spans,
    Words,
)
from summarily.support.errors import InputError, MissingRequirement
from summarily.support.keys import Key
from summarily.support.markup import heat, shorten
from summarily.support.requirements import pip_install

COLUMNS = 96
"""Characters in a line."""
MOST_FLOWS = 40
_BLUE, _RED, _GREEN = "#0072b2", "#d55e00", "#007a55"
_POINTS = 9
# A character of the font is .602 of its size wide.
_INCHES = 0.602 * _POINTS / 72
_LINE = 1.75 * _POINTS / 72


@dataclass
class Piece:
    """A piece of text at a place in characters and lines, on a ground as strong as `strength`."""

    x: float
    line: float
    text: str
    strength: float = 0.0
    colour: str = "black"
    small: bool = False
    bold: bool = False


@dataclass
class Curve:
    """A flow from one place to another."""

    start: tuple[float, float]
    end: tuple[float, float]
    width: float
    colour: str


Picture = tuple[list[Piece], list[Curve]]


def new_axes(width: float, height: float) -> Any:
    """Axes of a new figure of so many inches."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingRequirement(f"a picture needs matplotlib: {pip_install('plots')}") from None
    return plt.subplots(figsize=(width, height))[1]


def plot_explanation(explanation: Explanation, axes: Any = None) -> Any:
    """Draw an explanation; returns the axes. Without `axes`, in a figure as high as it needs.

    Example:
        >>> from summarily.metrics import load
        >>> axes = plot_explanation(load("rouge").explain("a cat sat", ["the cat sat"]))
        >>> [text.get_text() for text in axes.texts]
        ['Summary', 'a', 'cat', 'sat', 'Reference', 'the', 'cat', 'sat']
    """
    pieces, curves = drawn(explanation)
    lines = max((piece.line for piece in pieces), default=0) + 1
    if axes is None:
        width, height = (COLUMNS + 2) * _INCHES, (lines + 1) * _LINE
        axes = new_axes(width, height + 0.3)
        axes.set_position((0, 0, 1, height / (height + 0.3)))
    # As large as it says, unless the given axes are narrower.
    scale = min(1.0, axes.get_window_extent().width / axes.figure.dpi / ((COLUMNS + 2) * _INCHES))
    axes.set_xlim(-1, COLUMNS + 1)
    axes.set_ylim(lines, -1)
    axes.axis("off")
    main = next(iter(explanation.values))
    axes.set_title(
        f"{Key(main).label} {explanation.values[main]:.{explanation.digits}f}", loc="left", fontweight="bold"
    )
    for curve in curves:
        _curve(axes, curve)
    for piece in pieces:
        ground = {"facecolor": _BLUE, "alpha": 0.45 * piece.strength, "edgecolor": "none", "pad": 1.2}
        axes.text(
            piece.x,
            piece.line,
            piece.text.replace("$", r"\$"),  # no formula
            family="monospace",
            fontsize=scale * (_POINTS - 2.5 * piece.small),
            fontweight="bold" if piece.bold else "normal",
            color=piece.colour,
            va="center",
            bbox=ground if piece.strength > 0 else None,
        )
    return axes


def _curve(axes: Any, curve: Curve) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    (x, y), (to_x, to_y) = curve.start, curve.end
    middle = (x + to_x) / 2
    path = Path([(x, y), (middle, y), (middle, to_y), (to_x, to_y)], [Path.MOVETO] + [Path.CURVE4] * 3)
    axes.add_patch(
        PathPatch(path, fill=False, edgecolor=curve.colour, linewidth=curve.width, alpha=0.8, zorder=0)
    )


@singledispatch
def drawn(explanation: Explanation) -> Picture:
    """The pieces of text and the flows of a picture."""
    raise InputError(f"{explanation.metric} has no picture; explain(i).to_dict() says what there is.")


def _words(title: str, words: Iterable[tuple[str, str, float]], line: float) -> tuple[list[Piece], float]:
    """A title, then words with a note under each, wrapped; and the line after them."""
    pieces = [Piece(0, line, shorten(title, COLUMNS), bold=True)]
    given = [(shorten(word, COLUMNS), shorten(under, COLUMNS), strength) for word, under, strength in words]
    step = 1.9 if any(under for _, under, _ in given) else 1.2
    x, line = 0.0, line + 1.3
    for word, under, strength in given:
        # A note is smaller: so many of its characters fill the width of one of the word's.
        width = max(len(word), len(under) * (_POINTS - 2.5) / _POINTS)
        if x and x + width > COLUMNS:
            x, line = 0.0, line + step
        pieces.append(Piece(x, line, word, min(max(strength, 0.0), 1.0)))
        if under:
            pieces.append(Piece(x, line + 0.75, under, small=True, colour="#444444"))
        x += width + 1
    return pieces, line + step + 0.3


def _all_words(parts: Iterable[tuple[str, Iterable[tuple[str, str, float]]]]) -> Picture:
    pieces: list[Piece] = []
    line = 0.0
    for title, words in parts:
        more, line = _words(title, words, line)
        pieces += more
    return pieces, []


def _reference(number: int, references: Sequence[str]) -> str:
    return f"Reference {number + 1} of {len(references)}" if len(references) > 1 else "Reference"


# --- the kinds --------------------------------------------------------------------------------------------


@drawn.register
def _spans(explanation: Spans) -> Picture:
    """The words that count for the main score, marked in both texts."""
    found = next(iter(explanation.types.values()))
    mine: set[int] = set()
    theirs: dict[int, set[int]] = {
        row: set()
        for row in (range(len(explanation.references)) if found.reference is None else [found.reference])
    }
    for match in found.matches:
        if match.reference not in theirs:
            continue
        if isinstance(match, SharedGram):
            mine.update(i for places in match.prediction_positions for i in places)
            theirs[match.reference].update(i for places in match.reference_positions for i in places)
        elif match.counted:
            mine.update(match.prediction_positions)
            theirs[match.reference].add(match.reference_position)
    texts = [("Summary", explanation.prediction, explanation.prediction_tokens, mine)]
    for row, places in theirs.items():
        title = _reference(row, explanation.references)
        texts.append((title, explanation.references[row], explanation.reference_tokens[row], places))
    return _all_words(
        (title, [(text[token.start : token.end], "", float(i in places)) for i, token in enumerate(tokens)])
        for title, text, tokens, places in texts
    )


@drawn.register
def _matches(explanation: Matches) -> Picture:
    """Under each word the one it was matched with, on a ground as dark as they are similar."""
    return _all_words(
        (title, [(word.token, word.match, word.similarity) for word in side])
        for alignment in explanation.alignments
        for title, side in (
            (
                f"Summary, matched with: {_reference(alignment.reference, explanation.references)}",
                alignment.precision,
            ),
            (
                f"{_reference(alignment.reference, explanation.references)}, matched with: summary",
                alignment.recall,
            ),
        )
        if side
    )


@drawn.register
def _values(explanation: Words) -> Picture:
    """Under each word what it adds, or its log-probability."""
    parts = []
    for text in explanation.texts:
        most = max((word.value for word in text.words), default=0.0)
        likely = explanation.measures == "log_probability"
        words = [
            (
                word.word,
                f"{word.value:.2f}" if likely else f"{word.value:+.3f}",
                math.exp(word.value) if likely else word.value / most if most > 0 else 0.0,
            )
            for word in text.words
        ]
        parts.append((f"{shorten(text.text, 40)}, given: {shorten(text.given, 40)}", words))
    return _all_words(parts)


@drawn.register
def _moves(explanation: Moves) -> Picture:
    """Thick lines carry more, red lines go farther; the heaviest are drawn."""
    pieces: list[Piece] = []
    curves: list[Curve] = []
    line = 0.0
    left, right, room = 34, COLUMNS - 34, 33
    for plan in explanation.plans:
        flows = sorted(plan.flows, key=lambda move: -move.mass)[:MOST_FLOWS]
        most = max((move.mass for move in flows), default=0.0) or 1.0
        farthest = max((move.distance for move in flows), default=0.0) or 1.0
        pieces.append(Piece(left - len("Summary"), line, "Summary", bold=True))
        pieces.append(Piece(right, line, _reference(plan.reference, explanation.references), bold=True))
        starts = list(dict.fromkeys(move.start for move in flows))
        # Every place stands beside the middle of what it gets, so that few lines cross.
        ends = sorted(
            {move.end for move in flows},
            key=lambda end: (
                sum(starts.index(move.start) * move.mass for move in flows if move.end == end)
                / sum(move.mass for move in flows if move.end == end),
                end,
            ),
        )
        labels = [{name: _lines(name, room) for name in names} for names in (starts, ends)]
        tall = max((len(lines) for side in labels for lines in side.values()), default=1)
        height = max(len(starts), len(ends)) * (tall + 0.4 * (tall > 1))
        places = [
            {name: line + 1.3 + i * height / len(side) for i, name in enumerate(side)} for side in labels
        ]
        for side, at in zip(labels, places, strict=True):
            for name, lines in side.items():
                for i, part in enumerate(lines):
                    x = left - len(part) if side is labels[0] else right
                    pieces.append(Piece(x, at[name] + i, part))
        curves += [
            Curve(
                (left + 0.5, places[0][move.start]),
                (right - 0.5, places[1][move.end]),
                0.6 + 4 * move.mass / most,
                heat(move.distance / farthest),
            )
            for move in flows
        ]
        line += height + 2.5
    return pieces, curves


def _lines(text: str, room: int) -> list[str]:
    """A word, or the first lines of a sentence."""
    return textwrap.wrap(text, room, max_lines=3, placeholder=" …") or [""]


@drawn.register
def _questions(explanation: Questions) -> Picture:
    """What was asked, the right answer, and the reader's with its probability."""
    pieces, line = [], 0.0
    for asked in explanation.questions:
        for part in textwrap.wrap(asked.question, COLUMNS) or [""]:
            pieces.append(Piece(0, line, part))
            line += 1
        sign, colour = ("right: ", _GREEN) if asked.correct else ("wrong: ", _RED)
        answer = f"{sign}{asked.predicted or 'no answer'} ({asked.probability:.2f})"
        if not asked.correct:
            answer += f"; asked for: {asked.answer}"
        pieces.append(Piece(2, line, shorten(answer, COLUMNS - 2), colour=colour, bold=True))
        line += 1.4
    if not pieces:
        pieces.append(Piece(0, 0, "There was nothing to ask about."))
    return pieces, []
