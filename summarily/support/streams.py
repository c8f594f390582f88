"""Tables that are read row by row, so that a file of any size takes the same room."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from summarily.support.errors import InputError
from summarily.support.inputs import parse_json
from summarily.support.tables import (
    TABLE_ENDINGS,
    _ending,
    _open,
    check_names,
    open_parquet,
    rows_at_once,
    some_names,
    unreadable_parquet,
)

ROWS_AT_ONCE = 1024
Row: TypeAlias = Mapping[str, Any] | InputError
"""What a row holds, or why it cannot be read."""


def stream_table(
    name: str, columns: Sequence[str], split: str = "test", config: str | None = None
) -> Iterator[Row]:
    """The rows of a jsonl, csv, tsv or parquet file (text also gzipped), of a folder of such files in the order of
    their names, or of a data set by name, which is streamed.

    Args:
        name: of the file, folder or data set.
        columns: what will be asked of a row; where the format allows it, nothing else is read.
        split, config: of a data set.

    A row that is not one (a line that is no JSON, a field too many) is given as the error it is; the next follows.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "a.jsonl"
        >>> _ = file.write_text('{"a": 1, "b": 2}\\n{"a"\\n{"a": 3}\\n')
        >>> [row if isinstance(row, dict) else "bad" for row in stream_table(str(file), ["a"])]
        [{'a': 1, 'b': 2}, 'bad', {'a': 3}]
    """
    path = Path(name)
    files = files_of(path)
    if not files:
        if _ending(path) in TABLE_ENDINGS or path.is_dir():
            raise InputError(f"there is no file {name}, nor a folder with {', '.join(TABLE_ENDINGS)} in it.")
        yield from _dataset(name, split, config)
        return
    for file in files:
        ending = _ending(file)
        if ending == ".parquet":
            yield from _parquet(file, columns)
        elif ending in (".csv", ".tsv"):
            yield from _csv(file, "\t" if ending == ".tsv" else ",")
        else:
            yield from _jsonl(file)


def files_of(path: Path) -> list[Path]:
    """The file itself, or the tables in a folder, by name."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and _ending(file) in TABLE_ENDINGS)
    return [path] if path.is_file() else []


def _jsonl(path: Path) -> Iterator[Row]:
    with _open(path) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = parse_json(f"{path}, line {number}", line)
            except InputError as error:
                yield error
                continue
            if isinstance(row, dict):
                yield row
            else:
                yield InputError(
                    f"{path}, line {number} is a {type(row).__name__}; expected an object with columns."
                )


def _csv(path: Path, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(1 << 30)
    with _open(path) as stream:
        # Strict: else a quote that nobody closes would take all rows after it into one field.
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        header: list[str] | None = None
        number = -1
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield InputError(f"{path}, line {reader.line_num}: {error}")
                continue
            if not row:
                continue
            if header is None:
                header = row
                if len(set(header)) < len(header):
                    raise InputError(f"{path} has two columns of one name: {some_names(header)}.")
                continue
            number += 1
            if len(row) == len(header):
                yield dict(zip(header, row, strict=True))
            else:
                yield InputError(f"{path}, row {number}: expected {len(header)} fields, found {len(row)}.")


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    with unreadable_parquet(path), path.open("rb") as stream:
        file = open_parquet(path, stream, path.stat().st_size)
        names = file.schema_arrow.names
        check_names(path, names)
        present = [name for name in names if name in columns]
        if not present:
            raise InputError(
                f"{path} has none of the columns {', '.join(columns)}; it has: {some_names(names)}."
            )
        for batch in file.iter_batches(rows_at_once(file, present, ROWS_AT_ONCE), columns=present):
            yield from batch.to_pylist()


def _dataset(name: str, split: str, config: str | None) -> Iterator[Row]:
    import datasets

    try:
        data = datasets.load_dataset(name, config, split=split, streaming=True)
    except Exception as error:  # what `datasets` raises differs by version
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name} is neither a file nor a data set that can be loaded: {reason}") from error
    yield from data
