"""People's judgements of summaries: readers for the published sets and for anybody's own table."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summarily.metrics.meta_evaluation.nist import is_nist, read_nist
from summarily.support.errors import InputError
from summarily.support.folders import data_folder
from summarily.support.suggestions import nearest
from summarily.support.tables import Table, read_table, some_names

FEWEST_JUDGED = 3
"""Two points always correlate perfectly; three are the fewest that can say anything."""


@dataclass
class Judgements:
    """Summaries with references and one human score each, one row per summary.

    `dropped` counts the rows that were left out, by reason.
    """

    name: str
    question: str
    summaries: list[str] = field(default_factory=list)
    references: list[list[str]] = field(default_factory=list)
    human: list[float] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    source_texts: list[str | None] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.human)

    def drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def add(
        self,
        summary: str,
        references: str | Sequence[str],
        human: float,
        input: str,
        system: str,
        source: str | None = None,
    ) -> None:
        self.summaries.append(summary)
        self.references.append([references] if isinstance(references, str) else list(references))
        self.human.append(human)
        self.inputs.append(str(input))
        self.systems.append(str(system))
        self.source_texts.append(source)

    @property
    def sources(self) -> list[str] | None:
        """The documents, if every row has one."""
        known = [text for text in self.source_texts if text is not None]
        return known if len(known) == len(self) else None

    def describe(self) -> str:
        """One line: what was read and what was left out."""
        left_out = ", ".join(f"{n} {what}" for what, n in self.dropped.items() if n)
        return (
            f"{self.name} ({self.question}): {len(self)} summaries of {len(set(self.inputs))} inputs by "
            f"{len(set(self.systems))} systems" + (f"; left out: {left_out}" if left_out else "")
        )


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what. `input`, `system` and `source` may be absent from the table."""

    summary: str = "summary"
    reference: str = "reference"
    human: str = "human"
    input: str = "input"
    system: str = "system"
    source: str = "source"


def read_judgements(
    data: str,
    question: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    columns: Columns | None = None,
    split: str | None = None,
    reference_text: str | None = None,
    where: Mapping[str, str] | None = None,
) -> Judgements:
    """Judgements by name, by file or by the name of a data set on the Hub.

    Args:
        data: "chaganty", "summeval", "realsumm" or "frank" (the files of `folder`, or the Hub where it has the
            set); or a csv, tsv, jsonl or parquet file; or the folder of an evaluation archive of DUC or TAC (see
            `nist`); or a data set's name.
        question: which human score, where there are several.
        folder: where the named sets are; by default SUMMARILY_DATA.
        columns: the columns of a table of your own.
        split: of a data set on the Hub.
        reference_text: the one text that every row is compared with (essays), instead of a column.
        where: keep only the rows of a table that have these values, such as {"essay_set": "3"}.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
        >>> _ = file.write_text("text,gold,stars\\na,b,1\\nc,d,2\\ne,f,5\\n")
        >>> read_judgements(str(file), columns=Columns("text", "gold", "stars")).human
        [1.0, 2.0, 5.0]
    """
    if data in READERS:
        own = columns is not None and columns != Columns()
        for name, given in (("columns", own), ("reference_text", reference_text), ("where", where)):
            if given:
                raise InputError(f"{name} goes with a table of your own; {data} has columns of its own.")
        judgements = _read_named(data, question, folder, split)
    elif is_nist(Path(data)):
        judgements = _from_nist(Path(data), question)
    else:
        table = _read_essays(Path(data)) if _is_asap(Path(data)) else read_table(data, split or "test")
        kept = _where(table, where or {})
        judgements = _from_any_table(Path(data).name, kept, question, columns or Columns(), reference_text)
    if len(judgements) < FEWEST_JUDGED:
        left_out = "; ".join(f"{n} rows left out: {what}" for what, n in judgements.dropped.items())
        raise InputError(
            f"{judgements.name} has {len(judgements)} judged summaries; two points always correlate perfectly, "
            f"so at least {FEWEST_JUDGED} are needed." + (f" ({left_out})" if left_out else "")
        )
    return judgements


def _read_named(
    name: str, question: str | None, folder: str | os.PathLike[str] | None, split: str | None
) -> Judgements:
    reader, default, hub = READERS[name]
    if folder or os.environ.get("SUMMARILY_DATA"):
        return reader(data_folder(folder), question or default)
    if hub is None:
        raise InputError(
            f"{name} is not on the Hub in one piece; give its folder with --data or SUMMARILY_DATA."
        )
    repository, hub_split = hub
    try:
        table = read_table(repository, split or hub_split)
    except InputError as error:
        raise InputError(f"{error} Or give the folder of its files with --data or SUMMARILY_DATA.") from error
    return _from_any_table(name, table, question or default, Columns(), None)


# --- the published sets, as files ---------------------------------------------------------------------------


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    table = read_table(str(path))
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def _score(row: dict[str, Any], question: str, known: set[str]) -> float | None:
    known.update(row["human"])
    value = row["human"].get(question)
    return None if value is None or math.isnan(float(value)) else float(value)


def _require_some(result: Judgements, known: Iterable[str]) -> Judgements:
    if not result.human:
        raise InputError(
            f"no summary of {result.name} has a human score {result.question!r}; there are: {', '.join(sorted(known))}."
        )
    return result


def read_chaganty(folder: Path, question: str = "overall") -> Judgements:
    """Chaganty et al. 2018: four systems' summaries of CNN/DailyMail articles, judged by people.

    References are taken with their digits from the test set's where the hash is known; the rows that judge
    the references themselves and rows without a judgement are left out and counted.
    """
    clean = {
        row["cnndm_hash"]: row["reference"] for row in _rows(folder / "news/cnndm_test_references.jsonl.gz")
    }
    result = Judgements("chaganty_dev", question)
    known: set[str] = set()
    for row in _rows(folder / "human/chaganty_dev.jsonl.gz"):
        human = _score(row, question, known)
        if row["system"] == "reference":
            result.drop("reference rows")
        elif human is None:
            result.drop(f"without a score for {question}")
        else:
            reference = clean.get(row["cnndm_hash"], row["reference"])
            result.add(row["summary"], reference, human, row["id"], row["system"])
    return _require_some(result, known)


def _read_pair(
    folder: Path, files: str, name: str, question: str, key: str, source: str, reference: str
) -> Judgements:
    """A set in two files: documents with references, and summaries with judgements."""
    documents = {row[key]: row for row in _rows(folder / f"human/{files}_docs.jsonl.gz")}
    result = Judgements(name, question)
    known: set[str] = set()
    for row in _rows(folder / f"human/{files}_summaries.jsonl.gz"):
        document = documents.get(row[key])
        human = _score(row, question, known)
        if document is None:
            result.drop("without a document")
        elif human is None:
            result.drop(f"without a score for {question}")
        else:
            result.add(row["summary"], document[reference], human, row[key], row["system"], document[source])
    return _require_some(result, known)


def read_summeval(folder: Path, question: str = "relevance") -> Judgements:
    """SummEval (Fabbri et al. 2021): 16 systems, 100 articles, 11 references each, experts' scores."""
    return _read_pair(folder, "summeval", "summeval", question, "doc_id", "source", "references")


def read_realsumm(folder: Path, question: str = "litepyramid_recall") -> Judgements:
    """REALSumm (Bhandari et al. 2020): 24 systems, 100 articles, the share of the reference's content found."""
    return _read_pair(folder, "realsumm", "realsumm", question, "doc_id", "source", "references")


def read_frank(folder: Path, question: str = "Factuality") -> Judgements:
    """FRANK (Pagnoni et al. 2021), validation part: is every fact of the summary in the article?"""
    return _read_pair(folder, "frank_valid", "frank_valid", question, "hash", "article", "reference")


Reader = Callable[[Path, str], Judgements]
READERS: dict[str, tuple[Reader, str, tuple[str, str] | None]] = {
    "chaganty": (read_chaganty, "overall", None),
    "summeval": (read_summeval, "relevance", ("mteb/summeval", "test")),
    "realsumm": (read_realsumm, "litepyramid_recall", ("manu/REALSumm", "train")),
    "frank": (read_frank, "Factuality", None),
}
"""By name: the reader of the files, the question asked by default, and the data set and split on the Hub."""


# --- DUC and TAC --------------------------------------------------------------------------------------------


def _from_nist(folder: Path, question: str | None) -> Judgements:
    asked, judged, left_out = read_nist(folder, question)
    result = Judgements(folder.name, asked, dropped=left_out)
    for row in judged:
        result.add(row.summary, row.references, row.human, row.topic, row.system)
    return result


# --- essays -------------------------------------------------------------------------------------------------

_ESSAY_COLUMNS = {"essay_id", "essay_set", "essay", "domain1_score"}
ESSAY_SET = "3"
ESSAY_SENTENCES = range(5, 16)
"""The sentence mover's paper takes the answers to question 3 that have 5 to 15 sentences (section 4.2)."""


def _is_asap(path: Path) -> bool:
    """Is this the tsv of the Automated Student Assessment Prize?"""
    if path.suffix != ".tsv" or not path.is_file():
        return False
    with path.open("rb") as stream:
        header = stream.readline().decode("latin-1").strip().split("\t")
    return set(header) >= _ESSAY_COLUMNS


def _read_essays(path: Path) -> Table:
    """The essays of question 3. The published file is in Windows' encoding, with empty cells at will."""
    import csv

    from summarily.support.text import sentences

    with path.open(encoding="cp1252", errors="replace", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    kept = [
        row
        for row in rows
        if row["essay_set"] == ESSAY_SET and len(sentences(row["essay"])) in ESSAY_SENTENCES
    ]
    return Table(sorted(_ESSAY_COLUMNS), lambda name: [row[name] for row in kept])


# --- tables -------------------------------------------------------------------------------------------------


def _from_any_table(
    name: str,
    table: Mapping[str, list[Any]],
    question: str | None,
    columns: Columns,
    reference_text: str | None,
) -> Judgements:
    """A table in one of the shapes that are about: one row per article with lists (SummEval on the Hub), the
    columns of REALSumm on the Hub, the essays of ASAP, or one row per summary with the columns named."""
    if {"machine_summaries", "human_summaries"} <= set(table):
        return _from_nested(name, table, question or "relevance")
    if columns == Columns():
        if {"model_summary", "ref_summary", "litepyramid_recall"} <= set(table):
            columns = Columns("model_summary", "ref_summary", "litepyramid_recall", "doc_id", "model")
        elif set(table) >= _ESSAY_COLUMNS:
            if reference_text is None and "reference" not in table:
                raise InputError(
                    f"{name} has essays but no reference; give the best sample essay with --reference-file FILE."
                )
            # Every essay is a pupil's own: one input, and no system wrote two of them.
            columns = Columns("essay", "reference", "domain1_score", "essay_set")
    if question and columns.human == "human" and not _nested_scores(table.get("human")):
        columns = Columns(**{**vars(columns), "human": question})
    return from_table(name, table, columns, question, reference_text)


def _where(table: Table, conditions: Mapping[str, str]) -> Table:
    for name, wanted in conditions.items():
        values = _column(table, name, "condition")
        rows = [row for row, value in enumerate(values) if str(value) == wanted]
        if not rows:
            some = ", ".join(sorted({str(value) for value in values})[:8])
            raise InputError(f"no row has {name} = {wanted!r}; there are: {some}.")
        table = table.only(rows)
    return table


def _nested_scores(values: list[Any] | None) -> bool:
    return bool(values) and isinstance(values[0], dict)  # type: ignore[index]


def _from_nested(name: str, table: Mapping[str, list[Any]], question: str) -> Judgements:
    result = Judgements(name, question)
    scores = _column(table, question, "human")
    for row, summaries in enumerate(table["machine_summaries"]):
        if len(summaries) != len(scores[row]):
            raise InputError(
                f"{name}, row {row}: {len(summaries)} summaries but {len(scores[row])} scores for {question}."
            )
        source = table["text"][row] if "text" in table else None
        for system, (summary, human) in enumerate(zip(summaries, scores[row], strict=True)):
            result.add(summary, table["human_summaries"][row], float(human), str(row), f"M{system}", source)
    return result


def from_table(
    name: str,
    table: Mapping[str, list[Any]],
    columns: Columns | None = None,
    question: str | None = None,
    reference_text: str | None = None,
) -> Judgements:
    """Judgements from the columns of a table, one row per summary.

    Rows without a score, summary or reference are left out and counted. Without an `input` column, rows with
    the same references are taken for one input; without a `system` column all are one system's.

    Example:
        >>> table = {"summary": ["a", "b", "c"], "reference": ["x", "x", "y"], "human": [1, "", 3]}
        >>> from_table("mine", table).dropped
        {'without a score for human': 1}
    """
    columns = columns or Columns()
    summaries, humans = _column(table, columns.summary, "summary"), _column(table, columns.human, "human")
    n = len(summaries)
    if reference_text is None:
        # "references" is what a column of lists is called as often.
        plural = columns.reference == "reference" and "reference" not in table and "references" in table
        references = _column(table, "references" if plural else columns.reference, "reference")
    else:
        references = [reference_text] * n
    optional = {what: _optional(table, what, columns) for what in ("input", "system", "source")}
    asked = question if question and _nested_scores(humans) else columns.human
    result = Judgements(name, asked)
    for row in range(n):
        human = _number(name, row, columns.human, humans[row], question)
        texts = _references_of(name, row, references[row])
        if human is None:
            result.drop(f"without a score for {asked}")
        elif summaries[row] is None or not texts:
            result.drop("without a summary or reference")
        else:
            source = optional["source"][row] if optional["source"] else None
            result.add(
                _text(name, row, columns.summary, summaries[row]),
                texts,
                human,
                optional["input"][row] if optional["input"] else "\x1f".join(texts),
                optional["system"][row] if optional["system"] else "the only system",
                source,
            )
    return result


def _column(table: Mapping[str, list[Any]], name: str, what: str) -> list[Any]:
    if name in table:
        return table[name]
    near = nearest(name, table)
    guess = f" Did you mean {near!r}?" if near else ""
    raise InputError(
        f"there is no column {name!r} for the {what}; the columns are: {some_names(table) or 'none'}.{guess} "
        + (f"Name it with --{what}-column." if what != "condition" else "")
    )


def _optional(table: Mapping[str, list[Any]], what: str, columns: Columns) -> list[Any] | None:
    """A column that need not be there, unless somebody has named it."""
    name = getattr(columns, what)
    if name in table:
        return table[name]
    return None if name == getattr(Columns(), what) else _column(table, name, what)


def _number(name: str, row: int, column: str, value: Any, question: str | None) -> float | None:
    if isinstance(value, dict):
        if question is None:
            raise InputError(
                f"{name}: column {column!r} holds several scores ({', '.join(value)}); name one with --question."
            )
        if question not in value:
            raise InputError(f"{name}, row {row}: no score {question!r}; there are: {', '.join(value)}.")
        value = value[question]
    if value is None or (
        isinstance(value, str) and value.strip().lower() in ("", "na", "nan", "null", "none")
    ):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{name}, row {row}: the human score {column!r} is {value!r:.40}; expected a number or nothing."
        ) from None
    if math.isinf(number):
        raise InputError(f"{name}, row {row}: the human score {column!r} is infinite.")
    return None if math.isnan(number) else number


def _references_of(name: str, row: int, value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return []
    if not isinstance(value, Iterable):
        raise InputError(
            f"{name}, row {row}: the reference is a {type(value).__name__}; expected a text or a list of texts."
        )
    return [text for text in value if isinstance(text, str)]


def _text(name: str, row: int, column: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name}, row {row}: {column!r} is a {type(value).__name__}; expected a text.")
    return value
