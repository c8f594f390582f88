"""Texts to score or to judge, as readers paste or upload them; checked, with sentences for what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summarily.spaces.serving import check_length, download
from summarily.support.errors import InputError
from summarily.support.inputs import checked_text
from summarily.support.tables import column, read_table

MOST_SYSTEMS = 4
MOST_ROWS = 200
LONGEST_TEXT = 20_000
LONGEST_TOTAL = 600_000
FILE_ENDINGS = (".csv", ".tsv", ".jsonl")
_NOT_SYSTEMS = ("id", "source", "reference", "references")


@dataclass
class Texts:
    """Checked input: references for each row, and each system's summary of it."""

    systems: dict[str, list[str]]
    references: list[list[str]]
    sources: list[str] | None = None
    names: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.references)


def pasted(source: str, references: str, summaries: Sequence[str]) -> Texts:
    """One document: references are separated by blank lines, empty summaries left out.

    Example:
        >>> pasted("", "a cat", ["the cat", "", "cats", ""]).systems
        {'System A': ['the cat'], 'System C': ['cats']}
    """
    source = check_length("the source", source or "", LONGEST_TEXT)
    whole = check_length("the reference", references or "", LONGEST_TEXT)
    texts = [part.strip() for part in re.split(r"\n\s*\n", whole) if part.strip()]
    if not texts:
        raise InputError("Please give a reference: the metrics compare each summary with it.")
    systems = {}
    for letter, summary in zip("ABCD", summaries, strict=False):
        text = check_length(f"the summary of system {letter}", summary or "", LONGEST_TEXT)
        if text:
            systems[f"System {letter}"] = [text]
    if not systems:
        raise InputError("Please give at least one summary to score.")
    return Texts(systems, [texts], [source] if source else None, ["the text"])


def uploaded(path: str | None) -> Texts:
    """A csv, tsv or jsonl file: a column `reference` (or `references`), perhaps `source` and `id`, and one per system."""
    if not path:
        raise InputError("Please choose a csv or jsonl file first.")
    file = Path(path)
    if file.suffix.lower() not in FILE_ENDINGS:
        raise InputError(f"{file.name} is not one of {', '.join(FILE_ENDINGS)}.")
    columns = read_table(str(file))
    references = [
        _reference(row, value) for row, value in enumerate(column(columns, "reference", "references"))
    ]
    if not references:
        raise InputError(f"{file.name} has no rows.")
    if len(references) > MOST_ROWS:
        raise InputError(
            f"{file.name} has {len(references):,} rows; this Space takes up to {MOST_ROWS}. "
            "The command summarily compare takes any number."
        )
    names = [checked_text("the name of a column", name) for name in columns if name not in _NOT_SYSTEMS]
    if not names:
        raise InputError(f"{file.name} has no summaries: besides reference, add one column per system.")
    if len(names) > MOST_SYSTEMS:
        raise InputError(
            f"{file.name} has {len(names)} columns of summaries ({', '.join(names[:6])}); this Space takes up to "
            f"{MOST_SYSTEMS}."
        )
    texts = Texts(
        {name: _texts(name, columns[name]) for name in names},
        references,
        _texts("source", columns["source"]) if "source" in columns else None,
        [
            checked_text(f"row {row}, column id", str(name))
            for row, name in enumerate(columns.get("id", range(1, len(references) + 1)), start=1)
        ],
    )
    _check_total(texts)
    return texts


def _texts(name: str, values: Sequence[Any]) -> list[str]:
    for row, value in enumerate(values, start=1):
        if not isinstance(value, str):
            raise InputError(f"row {row}, column {name}: expected a text, found {json.dumps(value)[:40]}.")
        checked_text(f"row {row}, column {name}", value)
        check_length(f"row {row}, column {name}", value, LONGEST_TEXT)
    return list(values)


def _reference(row: int, value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"row {row + 1}, column reference: expected a text or a list of texts, found {json.dumps(value)[:40]}."
        )
    where = f"row {row + 1}, column reference"
    return [check_length(where, checked_text(where, text), LONGEST_TEXT) for text in texts]


def _check_total(texts: Texts) -> None:
    every = [*texts.systems.values(), *texts.references, texts.sources or []]
    total = sum(len(text) for part in every for text in part)
    if total > LONGEST_TOTAL:
        raise InputError(
            f"The file holds {total:,} characters of text; this Space takes up to {LONGEST_TOTAL:,}. "
            "The command summarily compare takes any number."
        )


def example_file() -> str:
    """The bundled sample as a file that can be uploaded."""
    from importlib.resources import files

    text = files("summarily").joinpath("sample.jsonl").read_text(encoding="utf-8")
    return download("sample.jsonl", text)
