"""Work over Parquet files of any size on Ray: windows of rows go to a pool of workers, and each result is kept.

Rows are numbered through all files, and windows are cut at the same rows whatever the files, the row groups and the
number of workers, so that a window's result is that of one process. What is done when, where, and again if a machine is
lost, is Ray Data's business. A run that was stopped leaves the results of its windows, and the next one does the others.
"""

from __future__ import annotations

import contextlib
import glob
import json
import logging
import os
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from summarily.support.errors import (
    FailedRunError,
    InputError,
    MissingRequirement,
    SummarilyError,
    first_line,
)
from summarily.support.files import write_atomically
from summarily.support.requirements import pip_install
from summarily.support.tables import some_names

_LIGHT = 0.25  # of a CPU for a task that reads or writes, so that a pool over all CPUs leaves room for them


@dataclass(frozen=True)
class Group:
    """A row group of a file, and the number of its first row among all rows of all files."""

    file: str
    number: int
    first: int
    rows: int


@dataclass(frozen=True)
class Table:
    """Parquet files as one table of numbered rows.

    Example:
        >>> import tempfile, pyarrow, pyarrow.parquet
        >>> folder = tempfile.mkdtemp()
        >>> for name in "ab":
        ...     rows = pyarrow.table({"text": ["x", "y", "z"]})
        ...     pyarrow.parquet.write_table(rows, f"{folder}/{name}.parquet", row_group_size=2)
        >>> table = Table.of(folder)
        >>> table.rows, table.windows(4)
        (6, [0, 4])
        >>> [(first, rows.num_rows) for first, rows in table.read([0, 4], 4, ["text"])]
        [(0, 4), (4, 2)]
    """

    groups: tuple[Group, ...]
    identity: tuple[tuple[str, int, int], ...]
    """The files' names, sizes and dates, which tell an input from another."""

    @classmethod
    def of(cls, name: str) -> Table:
        """Of a file, a folder of files (in the order of their names), a pattern such as `part-*.parquet`, or an address
        of such that pyarrow knows (`s3://`, `gs://`, `hdfs://`)."""
        groups: list[Group] = []
        identity = []
        first = 0
        for file, size, date in _files(name):
            with _opened(file) as parquet:
                for number in range(parquet.num_row_groups):
                    rows = parquet.metadata.row_group(number).num_rows
                    if rows:
                        groups.append(Group(file, number, first, rows))
                        first += rows
            identity.append((file.rsplit("/", 1)[-1], size, date))
        return cls(tuple(groups), tuple(identity))

    @property
    def rows(self) -> int:
        return self.groups[-1].first + self.groups[-1].rows if self.groups else 0

    def windows(self, size: int) -> list[int]:
        """The first row of every window."""
        return list(range(0, self.rows, size))

    def spans(self, windows: Sequence[int], size: int) -> list[tuple[list[int], list[Group]]]:
        """The windows by the row group that they begin in, with the groups that they reach into."""
        firsts = [group.first for group in self.groups]
        found = []
        at = 0
        while at < len(windows):
            place = bisect_right(firsts, windows[at]) - 1
            end = bisect_left(windows, firsts[place] + self.groups[place].rows, at)
            own = list(windows[at:end])
            found.append((own, list(self.groups[place : bisect_left(firsts, own[-1] + size)])))
            at = end
        return found

    def read(self, windows: Sequence[int], size: int, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """The windows that begin at these rows, one after the other, with the columns that are there."""
        for own, groups in self.spans(windows, size):
            yield from _read(own, groups, size, columns)


def _files(name: str) -> list[tuple[str, int, int]]:
    """Names, sizes and dates of the files."""
    from pyarrow import ArrowException, fs

    if "://" not in name:
        path = Path(name)
        if path.is_dir():
            found = sorted(path.glob("*.parquet"))
        else:
            found = [path] if path.is_file() else sorted(map(Path, glob.glob(name)))
        found = [file.resolve() for file in found if file.is_file()]
        if not found:
            raise InputError(f"{name} is no parquet file, nor a folder or a pattern of parquet files.")
        return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in found]
    try:
        system, path_there = fs.FileSystem.from_uri(name)
        info = system.get_file_info(path_there)
        infos = [info]
        if info.type == fs.FileType.Directory:
            infos = [f for f in system.get_file_info(fs.FileSelector(path_there)) if f.extension == "parquet"]
    except (ArrowException, OSError) as error:
        raise InputError(f"{name} cannot be read: {first_line(error)}") from None
    scheme = name.partition("://")[0]
    files = [info for info in sorted(infos, key=lambda info: info.path) if info.type == fs.FileType.File]
    if not files:
        raise InputError(f"{name} is no parquet file, nor a folder of parquet files.")
    return [(f"{scheme}://{info.path}", info.size, info.mtime_ns or 0) for info in files]


@contextlib.contextmanager
def _opened(file: str) -> Iterator[Any]:
    import pyarrow
    from pyarrow import fs, parquet

    try:
        system, path = fs.FileSystem.from_uri(file) if "://" in file else (fs.LocalFileSystem(), file)
        with parquet.ParquetFile(path, filesystem=system) as opened:
            yield opened
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file} is not a parquet file that can be read: {first_line(error)}") from None


def _read(
    windows: Sequence[int], groups: Sequence[Group], size: int, columns: Sequence[str]
) -> Iterator[tuple[int, Any]]:
    """Windows that begin in the first of the groups, read batch by batch."""
    import pyarrow

    held: list[Any] = []
    start = rows = 0  # of what is held
    waiting = list(windows)
    for group in groups:
        with _opened(group.file) as parquet:
            names = parquet.schema_arrow.names
            present = [name for name in names if name in columns]
            if not present:
                raise InputError(
                    f"{group.file} has none of the columns {', '.join(columns)}; it has: {some_names(names)}."
                )
            at = group.first
            for batch in parquet.iter_batches(size, row_groups=[group.number], columns=present):
                if at + len(batch) > waiting[0]:
                    if not held:
                        start = at
                    held.append(pyarrow.Table.from_batches([batch]))
                    rows += len(batch)
                at += len(batch)
                while waiting and start + rows >= waiting[0] + size:
                    yield waiting[0], _slice(held, waiting[0] - start, size)
                    waiting.pop(0)
                    while held and (not waiting or start + len(held[0]) <= waiting[0]):
                        start += len(held[0])
                        rows -= len(held.pop(0))
                if not waiting:
                    return
    if waiting:  # the last window of all
        yield waiting[0], _slice(held, waiting[0] - start, size)


def _slice(held: Sequence[Any], start: int, size: int) -> Any:
    import pyarrow

    return pyarrow.concat_tables(held, promote_options="permissive").slice(start, size)


# --- results that are kept ----------------------------------------------------------------------------------


class Results:
    """The results of windows in a folder, by the first row of each; a file that was cut off is deleted.

    Example:
        >>> import tempfile
        >>> dict(Results(Path(tempfile.mkdtemp())).files)
        {}
    """

    def __init__(self, folder: Path):
        import pyarrow
        from pyarrow import parquet

        self.files: dict[int, Path] = {}
        for file in sorted(folder.rglob("*.parquet")):
            try:
                windows = parquet.read_table(file, columns=["first"], partitioning=None)["first"].to_pylist()
            except (pyarrow.ArrowException, OSError):
                file.unlink()
                continue
            self.files.update(dict.fromkeys(windows, file))

    def __getitem__(self, first: int) -> bytes:
        from pyarrow import parquet

        table = parquet.read_table(self.files[first], partitioning=None)
        return table["result"][table["first"].to_pylist().index(first)].as_py()


def partial_folder(output: Path, described: Mapping[str, Any]) -> Path:
    """The folder beside an output for what is done of it; what another kind of run has left there is deleted.

    Example:
        >>> import tempfile
        >>> partial_folder(Path(tempfile.mkdtemp()) / "a.parquet", {"model": "news"}).name
        'a.parquet.partial'
    """
    if output.suffix != ".parquet":
        raise InputError(f"{output}: the results are written as parquet; name it with .parquet.")
    if not output.parent.is_dir():
        raise InputError(f"there is no folder {output.parent} to write {output.name} to.")
    folder = output.with_name(output.name + ".partial")
    told = json.dumps(described, sort_keys=True, default=str)
    kind = folder / "run.json"
    if not kind.is_file() or kind.read_text(encoding="utf-8") != told:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write_atomically(kind, told)
    return folder


def finish(output: Path, parts: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """The parts' columns as one file, their "errors" as another; the folder beside it goes. Counts rows and errors."""
    import pyarrow
    from pyarrow import parquet

    folder = output.with_name(output.name + ".partial")
    whole, named = folder / "whole.parquet", output.with_name(output.name + ".errors.jsonl")
    rows, errors = 0, []
    writer: Any = None
    for part in parts:
        errors += part.pop("errors")
        table = pyarrow.table(part) if part["row"] else None
        if table is not None:
            writer = writer or parquet.ParquetWriter(whole, table.schema)
            writer.write_table(table)
            rows += table.num_rows
    if writer is None:
        raise InputError(f"there are no rows to work on ({len(errors)} could not be read).")
    writer.close()
    if errors:
        write_atomically(named, "".join(json.dumps(error, ensure_ascii=False) + "\n" for error in errors))
    else:
        named.unlink(missing_ok=True)
    os.replace(whole, output)
    shutil.rmtree(folder)
    return rows, len(errors)


# --- the run ------------------------------------------------------------------------------------------------


def _read_spans(batch: Mapping[str, Any], size: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Windows as rows of a data set: the number of its first row, and the window as an Arrow stream."""
    import pyarrow

    for told in batch["span"]:
        windows, groups = json.loads(told)
        for first, rows in _read(windows, [Group(*group) for group in groups], size, columns):
            stream = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(stream, rows.schema) as writer:
                writer.write_table(rows)
            yield {"first": [first], "rows": [stream.getvalue().to_pybytes()]}


class _Worker:
    """What a process of the pool runs: made once, and called with every window that comes to it."""

    def __init__(self, make: Callable[..., Callable[[int, list[Any]], bytes]], options: Mapping[str, Any]):
        self.work = make(**options)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        import pyarrow

        rows = pyarrow.ipc.open_stream(batch["rows"][0]).read_all().to_pylist()
        first = int(batch["first"][0])
        return {"first": [first], "result": [self.work(first, rows)]}


def run(
    table: Table,
    columns: Sequence[str],
    size: int,
    make: Callable[..., Callable[[int, list[Any]], bytes]],
    options: Mapping[str, Any],
    folder: Path,
    address: str | None = None,
    workers: int | None = None,
) -> Results:
    """Do to every window of a table what `make(**options)` does; the results are kept in a folder.

    Args:
        table: the rows.
        columns: those that are read.
        size: rows of a window.
        make: called once in every worker, gives a function of a window's first row and rows. Ray sends it as its name,
            so that it is importable on every machine.
        folder: a place that every machine sees; windows whose results are in it already are not done again.
        address: of a Ray cluster ("auto" for that of this machine); by default a Ray of this process alone.
        workers: processes that work at once; by default one for each CPU but one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = Results(folder)
    left = [first for first in table.windows(size) if first not in done.files]
    if not left:
        return done
    with _started(address, workers) as (ray, pool):
        spans = [
            json.dumps([windows, [astuple(group) for group in groups]])
            for windows, groups in table.spans(left, size)
        ]
        rows = ray.data.from_items([{"span": span} for span in spans])
        rows.context.target_max_block_size = 1  # a window is a block: what is sent, retried and written
        rows.context.enable_progress_bars = False
        rows.context.raise_original_map_exception = True
        read = rows.map_batches(
            _read_spans, batch_size=1, num_cpus=_LIGHT, fn_kwargs={"size": size, "columns": list(columns)}
        )
        worked = read.map_batches(
            _Worker, batch_size=1, num_cpus=1, fn_constructor_args=[make, dict(options)],
            compute=ray.data.ActorPoolStrategy(size=min(pool, len(left))),
        )  # fmt: skip
        try:
            worked.write_parquet(str(folder.resolve()), ray_remote_args={"num_cpus": _LIGHT})
        except ray.exceptions.RayError as error:
            raise _ours(error) from None
    found = Results(folder)
    if missing := [first for first in table.windows(size) if first not in found.files]:
        raise FailedRunError(
            f"{folder} lacks {len(missing)} windows that were worked on, the first from row {missing[0]}: is it a folder "
            "that every machine sees?"
        )
    return found


def _ours(error: BaseException) -> SummarilyError:
    """What a worker has raised, if it is an error of ours; else what Ray says."""
    link: BaseException | None = error
    while link is not None:
        inner = getattr(link, "cause", None)  # Ray's word for what was raised elsewhere
        if isinstance(inner, SummarilyError):
            return type(inner)(str(inner).partition("\nFailed to ")[0])  # Ray adds advice on retries
        link = inner if isinstance(inner, BaseException) else link.__cause__
    told = [line for line in str(error).splitlines() if "summarily.support.errors." in line]
    return FailedRunError(f"Ray gave up: {told[-1].strip() if told else first_line(error)}")


@contextlib.contextmanager
def _started(address: str | None, workers: int | None) -> Iterator[tuple[Any, int]]:
    """Ray, the user's if there is one, and the number of workers."""
    if workers is not None and workers < 1:
        raise InputError(f"workers={workers}; expected at least 1.")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingRequirement(f"engine='ray' needs Ray: {pip_install('ray')}") from None
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised too
    own = not ray.is_initialized()
    if own:
        if address is None:
            # else every pool of workers is announced as an error (ray-project/ray issue 53727)
            os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
            # Ray's 15 lets anything else on the machine go before the workers, which hardly begin on a busy one
            os.environ.setdefault("RAY_worker_niceness", "0")
        cpus = None if address else (workers or max(1, (os.cpu_count() or 2) - 1)) + 1
        try:
            ray.init(
                address or "local", num_cpus=cpus, include_dashboard=None if address else False,
                log_to_driver=False, logging_level=logging.ERROR,
            )  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"there is no Ray at {address or 'this machine'}: {first_line(error)}") from None
        except Exception as error:  # a node that has not started in time is no more than that
            raise FailedRunError(f"Ray did not start: {first_line(error)}") from None
    elif address:
        raise InputError("this process has begun Ray already, which is used; leave the address out.")
    try:
        yield ray, workers or max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)
    finally:
        if own:
            ray.shutdown()
