"""Tables: read from jsonl, csv and parquet files or a `datasets` name, and printed in the terminal.

Text files are read here too: one text per line.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from summarily.support.errors import InputError
from summarily.support.inputs import parse_json

TABLE_ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
MOST_TIMES = 100
"""How many times its size a gzip file may unpack to; texts are about 3 times smaller, tables of repeated words 20."""
SMALL = 2**24
"""Bytes that any file may unpack to."""


def _ending(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


@contextlib.contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    try:
        with _bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); convert it first.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from None


def _bytes(path: Path) -> IO[bytes]:
    return _Unpacked(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


class _Unpacked(gzip.GzipFile):
    """A gzip file that does not unpack to a great many times its size: 200 kB of nothing can fill a memory."""

    def __init__(self, path: Path):
        super().__init__(path, "rb")
        self._path, self._count = path, 0
        self._most = _most(path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        return self._counted(super().read(self._most + 1 if size is None or size < 0 else size))

    def read1(self, size: int = -1) -> bytes:
        return self._counted(super().read1(size))

    def _counted(self, data: bytes) -> bytes:
        self._count += len(data)
        if self._count > self._most:
            raise _unpacks_too_far(self._path)
        return data


def _most(size: int) -> int:
    return max(SMALL, size * MOST_TIMES)


def _unpacks_too_far(path: Path) -> InputError:
    return InputError(
        f"{path} unpacks to more than {MOST_TIMES} times its size, which no text does; unpack it first "
        "if it is yours."
    )


def read_lines(path: str) -> list[str]:
    """One text per line; only line feeds end a line, so every other character may stand in a text."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file {path}.")
    with _open(file) as stream:
        text = stream.read()
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


class Table(Mapping[str, list[Any]]):
    """Columns by name. Only those that are asked for are made and held, so that a file of rows that have each a
    column of their own takes no more room than the file.

    Args:
        names: of the columns.
        read: gives the values of a column.

    Example:
        >>> table = Table(["a", "b"], lambda name: [name, name])
        >>> list(table), table["b"]
        (['a', 'b'], ['b', 'b'])
    """

    def __init__(self, names: Iterable[str], read: Callable[[str], list[Any]]):
        self._names = dict.fromkeys(names)
        self._read = read
        self._held: dict[str, list[Any]] = {}

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._held:
            self._held[name] = self._read(name)
        return self._held[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def only(self, rows: Sequence[int]) -> Table:
        """The table of these rows."""
        return Table(self, lambda name: [self[name][row] for row in rows])


def read_table(name: str, split: str = "test", config: str | None = None) -> Table:
    """The columns of a jsonl, csv, tsv or parquet file (also gzipped), or of a data set by name.

    Example:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
        >>> _ = file.write_text("prediction,reference\\na cat,the cat\\n")
        >>> read_table(str(file))["reference"]
        ['the cat']
    """
    path = Path(name)
    if path.is_file():
        return _read_file(path)
    if _ending(path) in TABLE_ENDINGS:
        raise InputError(f"there is no file {name}.")
    return _read_dataset(name, split, config)


def _read_file(path: Path) -> Table:
    ending = _ending(path)
    if ending in (".jsonl", ".json"):
        rows = _json_rows(path)
        names = (name for row in rows for name in row)
        return Table(names, lambda name: [row.get(name) for row in rows])
    if ending in (".csv", ".tsv"):
        return _read_csv(path, "\t" if ending == ".tsv" else ",")
    if ending == ".parquet":
        return _read_parquet(path)
    raise InputError(
        f"{path}: unknown kind of file; expected one of {', '.join(TABLE_ENDINGS)} (or --predictions)."
    )


def _read_csv(path: Path, delimiter: str) -> Table:
    csv.field_size_limit(1 << 30)
    with _open(path) as stream:
        # Strict: else a quote that nobody closes would take all rows after it into one field.
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        begin = 1
        rows: list[list[str]] = []
        try:
            for row in reader:
                if row:
                    rows.append(row)
                begin = reader.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"{path}, from line {begin}: {error}. A quote begins a field that ends with the next one; quotes in "
                'a text are written twice ("").'
            ) from None
    header, *rows = rows or [[]]
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise InputError(f"{path}, row {number}: expected {len(header)} fields, found {len(row)}.")
    check_names(path, header)
    place = {name: number for number, name in enumerate(header)}
    return Table(header, lambda name: [row[place[name]] for row in rows])


def check_names(path: Path, names: Sequence[str]) -> None:
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f"{path} has {names.count(twice[0])} columns {twice[0]!r}; which one is meant?")


def _read_parquet(path: Path) -> Table:
    with unreadable_parquet(path):
        with _bytes(path) as stream:
            whole = stream.read()
        file = open_parquet(path, io.BytesIO(whole), len(whole))
        names = file.schema_arrow.names
    check_names(path, names)

    def read(name: str) -> list[Any]:
        # Equal texts are held once, as in the file, of which 100 kB may have one of 100 kB 30,000 times.
        known: dict[str, str] = {}
        values: list[Any] = []
        with unreadable_parquet(path):
            for batch in file.iter_batches(rows_at_once(file, [name]), columns=[name]):
                values += [_held_once(value, known) for value in batch.column(0).to_pylist()]
        return values

    return Table((name for name in names if not _PANDAS_INDEX.fullmatch(name)), read)


def _held_once(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, str):
        return known.setdefault(value, value)
    return [_held_once(part, known) for part in value] if isinstance(value, list) else value


def open_parquet(path: Path, source: Any, size: int) -> Any:
    """A parquet file of so many bytes, unless it says that it unpacks to a great many times as much."""
    import pyarrow.parquet

    # What pyarrow buffers ahead it keeps to the end of the file.
    file = pyarrow.parquet.ParquetFile(source, pre_buffer=False)
    chunks = list(_chunks(file))
    if max(sum(c.total_uncompressed_size for c in chunks), sum(c.num_values for c in chunks)) > _most(size):
        raise _unpacks_too_far(path)
    return file


def rows_at_once(file: Any, columns: Sequence[str], most: int = 1024) -> int:
    """How many rows a batch may have, if each of them could have the longest text that is stored once for many."""
    stored_once = [
        chunk.total_uncompressed_size
        for chunk in _chunks(file)
        if chunk.has_dictionary_page and chunk.path_in_schema.split(".")[0] in columns
    ]
    return max(16, min(most, SMALL * 4 // max([1, *stored_once])))


def _chunks(file: Any) -> Iterator[Any]:
    for group in range(file.metadata.num_row_groups):
        columns = file.metadata.row_group(group)
        yield from map(columns.column, range(columns.num_columns))


@contextlib.contextmanager
def unreadable_parquet(path: Path) -> Iterator[None]:
    """What Arrow raises inside becomes a sentence."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (*_UNREADABLE, pyarrow.ArrowException) as error:
        raise _no_parquet(path, error) from None


_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# What Arrow raises for damaged bytes, by where it meets them; MemoryError for sizes that are not.
_UNREADABLE = (ValueError, KeyError, EOFError, OSError, OverflowError, MemoryError, zlib.error)


def _no_parquet(path: Path, error: BaseException) -> InputError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return InputError(f"{path} is not a parquet file that can be read: {reason[0]}")


def _json_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a file: one per line, or in one array."""
    rows = []
    with _open(path) as stream:
        if _ending(path) == ".json" and (text := stream.read().lstrip()).startswith("["):
            return _checked_rows(path, parse_json(str(path), text))
        stream.seek(0)
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            row = parse_json(f"{path}, line {number}", line)
            if not isinstance(row, dict):
                raise InputError(
                    f"{path}, line {number} is a {type(row).__name__}; expected an object with columns."
                )
            rows.append(row)
    return rows


def _checked_rows(path: Path, rows: list[Any]) -> list[dict[str, Any]]:
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(
                f"{path}, row {number} is a {type(row).__name__}; expected an object with columns."
            )
    return rows


def _read_dataset(name: str, split: str, config: str | None) -> Table:
    import datasets

    try:
        data = datasets.load_dataset(name, config, split=split)
        return Table(data.column_names, lambda column: list(data[column]))
    except Exception as error:
        # What `datasets` raises for a missing, private or unreachable data set differs by version.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name} is neither a file nor a data set that can be loaded: {reason}") from error


def column(table: Mapping[str, list[Any]], *names: str, option: str | None = None) -> list[Any]:
    """The first of `names` that the table has; `option` is what a command's user names another one by."""
    for name in names:
        if name in table:
            return table[name]
    how = f" Name the right one by {option}." if option else ""
    raise InputError(f"there is no column {names[0]!r}; the columns are: {some_names(table) or 'none'}.{how}")


def some_names(names: Iterable[str], most: int = 20) -> str:
    """Names for a sentence: all of them, unless there are too many to read.

    Example:
        >>> some_names(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    names = list(names)
    shown = ", ".join(name if len(name) <= 60 else name[:57] + "..." for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


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
