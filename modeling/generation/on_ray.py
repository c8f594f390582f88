"""Summarizing Parquet files on a Ray cluster: the summaries of `Summarizer`, by many processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from summarily.modeling.generation.summarizer import DEFAULT, Summarizer
from summarily.support.cluster import Table, finish, partial_folder, run
from summarily.support.errors import InputError
from summarily.support.inputs import checked_text

WINDOW = 64
"""Texts that are summarized together, the shorter beside the shorter."""


class Summarized(NamedTuple):
    """How many rows have a summary now, and how many could not have one."""

    rows: int
    errors: int


def summarize_on_ray(
    table: str,
    model: str = DEFAULT,
    column: str = "source",
    output: str | os.PathLike[str] = "summaries.parquet",
    on_error: str = "stop",
    window: int = WINDOW,
    address: str | None = None,
    workers: int | None = None,
    trust_remote_code: bool = False,
    **options: Any,
) -> Summarized:
    """Summarize a column of Parquet files with a pool of processes, on this machine or on a cluster.

    A worker that is lost is replaced by Ray, and its texts are summarized again. A run that was stopped goes on with
    the windows that are not in its folder yet.

    Args:
        table: a parquet file, a folder or a pattern of such, or the address of one (`s3://bucket/folder`).
        model, trust_remote_code: as for `Summarizer`.
        column: that holds the texts.
        output: a parquet file with the columns "row" and "summary"; workers write into a folder beside it, so it is a
            place that every machine sees. A second file, named .errors.jsonl, has the rows that were left out.
        on_error: "stop" at a row that holds no text, or "skip" and count it.
        window: texts that are summarized together; the summaries do not depend on it beyond rounding.
        address, workers: as for `summarily.metrics.on_ray.score_on_ray`.
        options: as for a call of a `Summarizer`, such as `num_beams=4`.

    Example:
        >>> summarize_on_ray("articles/*.parquet", output="summaries.parquet")  # doctest: +SKIP
        >>> summarize_on_ray("nowhere/*.parquet")  # before anything is started
        Traceback (most recent call last):
        summarily.support.errors.InputError: nowhere/*.parquet is no parquet file, nor a folder or a pattern of parquet files.
    """
    rows = Table.of(table)
    described = {
        "model": model, "column": column, "on_error": on_error, "window": window, "options": options,
        "input": rows.identity,
    }  # fmt: skip
    output = Path(output)
    folder = partial_folder(output, described)
    made = {
        "model": model, "column": column, "on_error": on_error, "trust_remote_code": trust_remote_code,
        "options": {"long": "chunk", "progress": False, **options},
    }  # fmt: skip
    results = run(rows, [column], window, _worker, made, folder / "windows", address, workers)
    summaries, errors = finish(output, (json.loads(results[first]) for first in rows.windows(window)))
    return Summarized(summaries, errors)


def _worker(
    model: str, column: str, on_error: str, trust_remote_code: bool, options: Mapping[str, Any]
) -> Callable[[int, list[Any]], bytes]:
    summarizer = Summarizer(model, trust_remote_code=trust_remote_code)

    def work(first: int, rows: list[Any]) -> bytes:
        texts, places, errors = [], [], []
        for place, row in enumerate(rows, first):
            try:
                texts.append(checked_text(f"the {column}", row[column]))
                places.append(place)
            except InputError as error:
                if on_error == "stop":
                    raise InputError(
                        f"row {place}: {error} Mend it, or skip such rows (--on-error skip)."
                    ) from None
                errors.append({"row": place, "reason": str(error)})
        summaries = summarizer(texts, **options) if texts else []
        return json.dumps({"row": places, "summary": summaries, "errors": errors}).encode()

    return work
