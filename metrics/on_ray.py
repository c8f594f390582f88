"""Scoring Parquet files on a Ray cluster: the numbers of `score_stream`, by many processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from summarily.metrics import load_all
from summarily.metrics.engine import Tally
from summarily.metrics.streaming import (
    WINDOW,
    Columns,
    Stream,
    Streamed,
    Window,
    WindowScorer,
    signatures_of,
)
from summarily.support.cluster import Table, run
from summarily.support.errors import FailedRunError


def score_on_ray(
    table: str,
    metrics: Any = "all",
    preset: str = "light",
    confidence: float | None = 0.95,
    columns: Columns | None = None,
    output: str | os.PathLike[str] = "scores.parquet",
    on_error: str = "stop",
    progress: bool | None = None,
    window: int = WINDOW,
    address: str | None = None,
    workers: int | None = None,
) -> Streamed:
    """Score Parquet files with a pool of processes, on this machine or on a cluster.

    Means, intervals, counts and the scores of every row are those of `score_stream` on the same files, to the last bit
    on machines of one kind. A worker that is lost is replaced by Ray, and its windows are scored again. A run that was
    stopped goes on with the windows that are not in its folder yet. What a metric counts over the whole corpus (idf)
    is counted by this process first.

    Args:
        table: a parquet file, a folder or a pattern of such, or the address of one (`s3://bucket/folder`).
        metrics, preset, confidence, columns, on_error, progress, window: as for `score_stream`.
        output: a parquet file for the scores of every row. Workers write beside it, into a folder whose name ends with
            .partial, so it is a place that every machine sees.
        address: of the cluster, "auto" for the one that this machine is part of; by default Ray runs here alone.
        workers: processes, each with its own copy of the models; by default one for each CPU but one.

    Example:
        >>> card = score_on_ray("outputs/*.parquet", "rouge", output="scores.parquet")  # doctest: +SKIP
        >>> print(card.table())  # doctest: +SKIP
        >>> score_on_ray("nowhere/*.parquet", "rouge")  # before anything is started
        Traceback (most recent call last):
        summarily.support.errors.InputError: nowhere/*.parquet is no parquet file, nor a folder or a pattern of parquet files.
    """
    names = columns or Columns()
    rows = Table.of(table)
    chosen, skipped = load_all(metrics, preset)

    def read() -> Iterator[Any]:
        for _, part in rows.read(rows.windows(window), window, names.names):
            yield from part.to_pylist()

    stream = Stream(chosen, skipped, read, False, rows.identity, names, confidence, output, on_error, window)
    assert stream.kept is not None
    stream.kept.keep(stream.done, (), stream.sums)  # so that the next run knows these windows for its own
    options = {
        "metrics": metrics,
        "preset": preset,
        "statistics": stream.statistics,
        "signatures": stream.signatures,
        "columns": names,
        "on_error": on_error,
    }
    scored = run(
        rows, names.names, window, _worker, options, stream.kept.folder / "windows", address, workers
    )
    left = rows.windows(window)[-(-stream.done.read // window) :]
    return stream.add_up((_unpacked(scored[first]) for first in left), progress)


def _worker(
    metrics: Any,
    preset: str,
    statistics: Mapping[str, Any],
    signatures: Mapping[str, str],
    columns: Columns,
    on_error: str,
) -> Callable[[int, list[Any]], bytes]:
    chosen, _ = load_all(metrics, preset)
    if (own := signatures_of(chosen, statistics)) != signatures:
        raise FailedRunError(f"a worker would score otherwise than this process: {own}, not {signatures}.")
    score = WindowScorer(chosen, statistics, columns, on_error)
    return lambda first, rows: _packed(score(first, rows))


def _packed(window: Window) -> bytes:
    """A window as JSON, which keeps every bit of a float."""
    tallies = {label: vars(tally) for label, tally in window.tallies.items()}
    return json.dumps({**vars(window), "tallies": tallies}).encode()


def _unpacked(told: bytes) -> Window:
    known = json.loads(told)
    return Window(
        **{**known, "tallies": {label: Tally(**tally) for label, tally in known["tallies"].items()}}
    )
