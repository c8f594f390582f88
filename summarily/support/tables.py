"""Tables: read from jsonl, csv and parquet files or a `datasets` name, and printed in the terminal.

Text files are read here too: one text per line.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from summarily.support.errors import InputError

TABLE_ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


def _ending(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


@contextlib.contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); convert it first.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from None


def read_lines(path: str) -> list[str]:
    """One text per line; only line feeds end a line, so every other character may stand in a text."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file {path}.")
    with _open(file) as stream:
        text = stream.read()
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_table(name: str, split: str = "test", config: str | None = None) -> dict[str, list[Any]]:
    """The columns of a jsonl, csv, tsv or parquet file (also gzipped), or of a data set by name.

    Example:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = file.write_text("prediction,reference\\na cat,the cat\\n")
        >>> read_table(str(file))
        {'prediction': ['a cat'], 'reference': ['the cat']}
    """
    path = Path(name)
    if path.is_file():
        return _read_file(path)
    if _ending(path) in TABLE_ENDINGS:
        raise InputError(f"there is no file {name}.")
    return _read_dataset(name, split, config)


def _read_file(path: Path) -> dict[str, list[Any]]:
    ending = _ending(path)
    if ending in (".jsonl", ".json"):
        return _columns(_json_rows(path))
    if ending in (".csv", ".tsv"):
        csv.field_size_limit(1 << 30)
        with _open(path) as stream:
            reader = csv.DictReader(stream, delimiter="\t" if ending == ".tsv" else ",")
            rows = list(reader)
        for number, row in enumerate(rows):
            if None in row or None in row.values():
                raise InputError(f"{path}, row {number}: expected {len(reader.fieldnames or [])} fields.")
        return _columns(rows)
    if ending == ".parquet":
        return _read_parquet(path)
    raise InputError(
        f"{path}: unknown kind of file; expected one of {', '.join(TABLE_ENDINGS)} (or --predictions)."
    )


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    import pandas

    opened: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as stream:
            return pandas.read_parquet(io.BytesIO(stream.read())).to_dict(orient="list")
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is not a parquet file that can be read: {reason}") from None


def _json_rows(path: Path) -> list[dict[str, Any]]:
    rows = []
    with _open(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"{path}, line {number} is not JSON: {error.msg} at column {error.colno}."
                ) from None
            if not isinstance(row, dict):
                raise InputError(
                    f"{path}, line {number} is a {type(row).__name__}; expected an object with columns."
                )
            rows.append(row)
    return rows


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def _read_dataset(name: str, split: str, config: str | None) -> dict[str, list[Any]]:
    import datasets

    try:
        return datasets.load_dataset(name, config, split=split).to_dict()
    except Exception as error:
        # What `datasets` raises for a missing, private or unreachable data set differs by version.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name} is neither a file nor a data set that can be loaded: {reason}") from error


def column(table: dict[str, list[Any]], *names: str) -> list[Any]:
    """The first of `names` that the table has."""
    for name in names:
        if name in table:
            return table[name]
    raise InputError(f"there is no column {names[0]!r}; the columns are: {', '.join(table) or 'none'}.")


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns padded to their widest cell; columns named in `right` are right-aligned, empty ones left out.

    Example:
        >>> print(format_table(["metric", "mean"], [["rouge1", "0.5"]], right=[1]))
        metric  mean
        ------------
        rouge1   0.5
    """
    columns = [i for i in range(len(header)) if header[i] or any(row[i] for row in rows)]
    widths = {
        i: max(len(header[i]), *(len(row[i]) for row in rows)) if rows else len(header[i]) for i in columns
    }

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cells[i].rjust(widths[i]) if i in right else cells[i].ljust(widths[i]) for i in columns
        ).rstrip()

    rule = "-" * (sum(widths.values()) + 2 * (len(columns) - 1))
    return "\n".join([line(header), rule, *map(line, rows)])
