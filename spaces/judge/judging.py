"""A blind comparison: who is shown where, what was answered, and what it proves; nothing here needs Gradio."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from summarily.spaces.serving import csv_cell
from summarily.spaces.texts import Texts
from summarily.support.errors import InputError
from summarily.support.markup import note, number, table

QUESTIONS = {
    "non-redundancy": "Which repeats fewer ideas?",
    "coherence": "Which expresses its ideas more clearly?",
    "focus": "Which is freer of superfluous details?",
    "overall": "Which better communicates the article's content?",
}
"""Criteria of Clark et al. (2019), Table 6."""
RATINGS = {
    "non-redundancy": "no idea is repeated",
    "coherence": "ideas are clearly expressed",
    "focus": "free of superfluous details",
    "overall": "communicates the article's content",
}
WAYS = ("compare", "rate")
FIRST, SAME, SECOND = "Summary 1", "no difference", "Summary 2"
SHARES = {FIRST: (1.0, 0.0), SAME: (0.5, 0.5), SECOND: (0.0, 1.0)}
"""What an answer gives to the summary shown first and to the one shown second."""
SCALE = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Item:
    """Two summaries of one document in the order they are shown; `systems` is whose they are."""

    name: str
    source: str
    reference: str
    summaries: tuple[str, str]
    systems: tuple[str, str]


@dataclass
class Session:
    """One judge's work: items in random order, and for those that are judged a score per question and side."""

    systems: tuple[str, str]
    way: str
    items: list[Item]
    answers: dict[int, dict[str, tuple[float, float]]] = field(default_factory=dict)
    position: int = 0

    @property
    def item(self) -> Item:
        return self.items[self.position]

    @property
    def finished(self) -> bool:
        return len(self.answers) == len(self.items)


def start(
    texts: Texts, systems: Sequence[str], way: str, count: int | None = None, seed: int | None = None
) -> Session:
    """Shuffle the documents and, for each, which system is shown first.

    Example:
        >>> texts = Texts({"A": ["a cat"], "B": ["a dog"]}, [["an animal"]], names=["pets"])
        >>> sorted(start(texts, ["A", "B"], "compare", seed=1).item.systems)
        ['A', 'B']
    """
    if way not in WAYS:
        raise InputError(f"there is no way {way!r}; expected one of {', '.join(WAYS)}.")
    if len(set(systems)) != 2:
        raise InputError(f"Please choose two systems to compare; {len(set(systems))} are chosen.")
    for system in systems:
        if system not in texts.systems:
            raise InputError(f"there is no system {system!r}; there are: {', '.join(texts.systems)}.")
    chance = random.Random(seed)
    rows = chance.sample(range(len(texts)), len(texts))[: count or None]
    items = [_item(texts, row, chance.sample(list(systems), 2)) for row in rows]
    return Session((systems[0], systems[1]), way, items)


def _item(texts: Texts, row: int, order: Sequence[str]) -> Item:
    first, second = order
    return Item(
        texts.names[row],
        texts.sources[row] if texts.sources else "",
        texts.references[row][0],
        (texts.systems[first][row], texts.systems[second][row]),
        (first, second),
    )


def compared(answers: Mapping[str, str | None]) -> dict[str, tuple[float, float]]:
    """Choices between two summaries as scores: 1 for the better one, a half each for no difference.

    Example:
        >>> compared(dict.fromkeys(QUESTIONS, "Summary 2"))["overall"]
        (0.0, 1.0)
    """
    _check_all(answers, SHARES)
    return {question: SHARES[str(answer)] for question, answer in answers.items()}


def rated(
    first: Mapping[str, int | None], second: Mapping[str, int | None]
) -> dict[str, tuple[float, float]]:
    """Ratings from 1 to 5 of both summaries."""
    for side, answers in (("summary 1", first), ("summary 2", second)):
        _check_all(answers, SCALE, f" of {side}")
    return {question: (float(first[question] or 0), float(second[question] or 0)) for question in QUESTIONS}


def _check_all(answers: Mapping[str, object], choices: Iterable[object], of: str = "") -> None:
    missing = [question for question in QUESTIONS if not answers.get(question)]
    if missing:
        raise InputError(f"Please answer {' and '.join(missing)}{of} before you go on.")
    known = list(choices)
    for question, answer in answers.items():
        if answer not in known:
            raise InputError(f"{answer!r:.60} is no answer to {question}{of}; choose one of {known}.")


def record(session: Session, answers: Mapping[str, tuple[float, float]]) -> Session:
    """The session after an answer, at the next item that has none."""
    given = {**session.answers, session.position: dict(answers)}
    left = [row for row in range(len(session.items)) if row not in given]
    return Session(session.systems, session.way, session.items, given, left[0] if left else session.position)


# --- what it proves ---------------------------------------------------------------------------------------


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of the sign test; ties do not count.

    Example:
        >>> sign_test(9, 1)
        0.021484375
    """
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


@dataclass(frozen=True)
class Tally:
    """One question: how often each system won, the means, and the sign test."""

    question: str
    first: int
    ties: int
    second: int
    means: tuple[float, float]
    p: float


def tally(session: Session) -> list[Tally]:
    """The outcome of every question, by system and no longer by side."""
    result = []
    for question in QUESTIONS:
        pairs = [_by_system(session, row, answers[question]) for row, answers in session.answers.items()]
        first = sum(a > b for a, b in pairs)
        second = sum(a < b for a, b in pairs)
        n = max(len(pairs), 1)
        means = sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n
        result.append(
            Tally(question, first, len(pairs) - first - second, second, means, sign_test(first, second))
        )
    return result


def _by_system(session: Session, row: int, scores: tuple[float, float]) -> tuple[float, float]:
    return scores if session.items[row].systems == session.systems else (scores[1], scores[0])


def results_html(session: Session) -> str:
    """The tallies as a table, with what they mean in a sentence."""
    if not session.answers:
        raise InputError("Nothing is judged yet: please answer at least one.")
    first, second = session.systems
    header = ["question", f"{first} better", "no difference", f"{second} better", "sign test p"]
    if session.way == "rate":
        header += [f"{first}, mean of 1 to 5", f"{second}, mean"]
    rows = []
    for line in tally(session):
        row = [
            line.question,
            str(line.first),
            str(line.ties),
            str(line.second),
            f"{line.p:.4f}" if line.p >= 0.0001 else "< 0.0001",
        ]
        rows.append(row + [number(mean, 2) for mean in line.means] if session.way == "rate" else row)
    return (
        f'<div class="result"><h3>Outcome</h3>{table(f"{len(session.answers)} documents judged", header, rows)}'
        f"{note(_conclusion(session))}</div>"
    )


def _conclusion(session: Session) -> str:
    overall = next(line for line in tally(session) if line.question == "overall")
    if overall.p >= 0.05:
        return f"Overall, the sign test shows no difference yet (p = {overall.p:.3f}): so many wins come about by chance."
    better = session.systems[0] if overall.first > overall.second else session.systems[1]
    return f"Overall, {better} is better (sign test, p = {overall.p:.4f}); ties are left out of the test."


def to_csv(session: Session) -> str:
    """A row per judged summary, as `summarily meta human FILE --question overall` reads it.

    `human` repeats the overall score, so that the question need not be named. A text that a spreadsheet would take for
    a formula begins with an apostrophe.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header = ["input", "system", "summary", "reference", "source", *QUESTIONS, "human", "shown", "way"]
    writer.writerow(header)
    for row, answers in sorted(session.answers.items()):
        item = session.items[row]
        for side, shown in enumerate(("first", "second")):
            scores = [answers[question][side] for question in QUESTIONS]
            texts = [item.name, item.systems[side], item.summaries[side], item.reference, item.source]
            writer.writerow([*map(csv_cell, texts), *scores, answers["overall"][side], shown, session.way])
    return stream.getvalue()


# --- pages ------------------------------------------------------------------------------------------------


def item_html(session: Session) -> str:
    """How far the judge has come."""
    done, total = len(session.answers), len(session.items)
    if session.finished:
        return f'<div class="result"><h3>All {total} documents are judged. Thank you!</h3></div>'
    return (
        f'<div class="result"><h3>Document {done + 1} of {total}</h3>'
        f'<div class="progress" role="progressbar" aria-valuemin="0" aria-valuemax="{total}" aria-valuenow="{done}" '
        f'aria-label="judged"><span style="width:{100 * done / total:.1f}%"></span></div></div>'
    )


def summary_html(session: Session, side: int) -> str:
    """The summary on one side, without the name of its system."""
    title = FIRST if side == 0 else SECOND
    text = escape(session.item.summaries[side]) or "<i>(empty)</i>"
    return f'<div class="result"><h3>{title}</h3><div class="text">{text}</div></div>'


def source_html(session: Session) -> str:
    """The document, if the file has it."""
    if not session.item.source:
        return f'<div class="result">{note("The file has no column source.")}</div>'
    return f'<div class="result"><div class="text">{escape(session.item.source)}</div></div>'
