"""Judgements of NIST's summarization tracks, read from its evaluation archives as they unpack: DUC and TAC.

The archives are had from NIST by agreement and cannot come with a package. What is read of them, wherever it lies below
the folder: `ROUGE/peers` and `ROUGE/models` (one summary a file, `D1101-A.M.100.A.12`: first the topic, last who wrote it,
a number for a system and a letter for a person), and people's scores: of TAC `manual.peer.*`, of DUC `overall.table` and
`content.table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from summarily.support.errors import InputError

QUESTIONS = ("responsiveness", "content_responsiveness", "linguistic_quality", "pyramid")
"""What is asked where nobody names a question: the first of these that a folder has."""
_TABLES = {"overall.table": "responsiveness", "content.table": "content_responsiveness"}
_PEER_COLUMNS = 8  # topic, system, pyramid score, ..., linguistic quality, responsiveness


class Judged(NamedTuple):
    """One system's summary of one topic, with what people said of it."""

    topic: str
    system: str
    summary: str
    references: list[str]
    human: float


def is_nist(folder: Path) -> bool:
    """Whether this is an unpacked evaluation archive."""
    return folder.is_dir() and next(folder.rglob("ROUGE/peers"), None) is not None


def read_nist(folder: Path, question: str | None = None) -> tuple[str, list[Judged], dict[str, int]]:
    """The question that was asked, the judged summaries of systems, and how many were left out, by reason.

    People's own summaries are the references; their judgements, of TAC's models and in DUC's tables, are left out.
    """
    texts = _texts(folder)
    references: dict[str, list[str]] = {}
    for (topic, writer), text in texts.items():
        if writer.isalpha():
            references.setdefault(topic, []).append(text)
    scores = dict(_scores(folder))
    known = {asked for _, _, asked in scores}
    asked = question or next((name for name in QUESTIONS if name in known), "")
    if asked not in known:
        listed = ", ".join(name for name in QUESTIONS if name in known) or "none"
        raise InputError(f"{folder} has no human score {asked or 'at all'!r}; there are: {listed}.")
    found, left_out = [], {"written by people": 0, "without a summary or reference": 0}
    for (topic, writer, about), score in scores.items():
        if about != asked:
            continue
        if writer.isalpha():
            left_out["written by people"] += 1
        elif (topic, writer) not in texts or topic not in references:
            left_out["without a summary or reference"] += 1
        else:
            found.append(Judged(topic, writer, texts[topic, writer], references[topic], score))
    return asked, found, {reason: count for reason, count in left_out.items() if count}


def _texts(folder: Path) -> dict[tuple[str, str], str]:
    """By topic and writer. DUC 2006 has people's summaries among the peers too: they are the same files."""
    found = {}
    for kind in ("models", "peers"):
        for path in sorted(folder.rglob(f"ROUGE/{kind}/*")):
            if path.is_file():
                topic, *_, writer = path.name.split(".")
                # The files of their time are in several encodings.
                text = path.read_text(encoding="utf-8", errors="replace").strip()
                found[topic.upper(), writer.upper()] = text
    return found


def _scores(folder: Path) -> Iterator[tuple[tuple[str, str, str], float]]:
    """What people said, by topic, writer and question."""
    for path in sorted(folder.rglob("manual.peer.*")):
        for fields in _lines(path, _PEER_COLUMNS):
            pyramid, quality, responsiveness = fields[2], fields[-2], fields[-1]
            for asked, value in (
                ("pyramid", pyramid),
                ("linguistic_quality", quality),
                ("responsiveness", responsiveness),
            ):
                yield (fields[0].upper(), fields[1].upper(), asked), _number(path, value)
    for name, asked in _TABLES.items():
        for path in sorted(folder.rglob(name)):
            for fields in _lines(path, 5):
                topic, _, _, writer, value = fields[:5]
                if value.isdigit():  # the lines above the table are words
                    yield (topic.upper(), writer.upper(), asked), float(value)


def _lines(path: Path, fields: int) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        found = line.split()
        if len(found) >= fields:
            yield found


def _number(path: Path, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{path}: expected a score, found {value!r:.40}.") from None
