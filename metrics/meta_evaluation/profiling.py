"""What a metric costs: `summarily meta profile` (the thesis' Table 7.1)."""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from summarily.metrics.base import Example, Metric
from summarily.metrics.cost import Meter
from summarily.metrics.meta_evaluation.reports import Section, Table, number
from summarily.metrics.meta_evaluation.scores import ScoreStore


def profile(
    metrics: Mapping[str, Metric],
    examples: Sequence[Example],
    store: ScoreStore | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Seconds per 1,000 summaries and peak memory of each metric, each in a process of its own.

    What is loaded once (weights, vectors) is timed apart from what every summary costs. A profile of the same
    metric on the same texts is kept in the store and not measured again unless `fresh`.
    """
    from tqdm.auto import tqdm

    store = store or ScoreStore()
    digest = hashlib.blake2b(repr(examples).encode(), digest_size=8).hexdigest()
    found = {}
    disable = None if progress is None else not progress
    for label, metric in tqdm(
        metrics.items(), desc="profiling", unit=" metrics", disable=disable, leave=False
    ):
        name = f"profile|{label}|{metric.signature()}|{digest}"
        known = None if fresh else store.note(name)
        if known is None:
            known = _in_own_process(metric, examples)
            store.keep_note(name, known)
        found[label] = known
    return {
        "n": len(examples),
        "words": round(sum(len(e.prediction.split()) for e in examples) / len(examples), 1),
        "threads": _threads(),
        "metrics": found,
        "signatures": {label: str(metric.signature()) for label, metric in metrics.items()},
    }


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def _in_own_process(metric: Metric, examples: Sequence[Example]) -> dict[str, float]:
    # A fresh interpreter: nothing is loaded yet, and memory is its own.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, metric, list(examples)).result()


def _measure(metric: Metric, examples: Sequence[Example]) -> dict[str, float]:
    from summarily.metrics.engine import score_examples

    with Meter() as whole:
        with Meter() as loading:
            # Two, as some metrics count over a corpus and refuse one.
            score_examples({"": metric}, _other(examples[:2]), progress=False)
        start = time.process_time()
        with Meter() as scoring:
            score_examples({"": metric}, examples, progress=False)
        cpu_seconds = time.process_time() - start
    return {
        "load_seconds": round(loading.seconds, 3),
        "seconds_per_1000": round(1000 * scoring.seconds / len(examples), 3),
        "cpu_seconds_per_1000": round(1000 * cpu_seconds / len(examples), 3),
        "peak_memory": whole.peak_memory,
    }


def _other(examples: Sequence[Example]) -> list[Example]:
    """Other texts than those that are timed, so that nothing is found in a cache."""
    return [
        Example(f"Warm: {e.prediction}", tuple(f"Warm: {text}" for text in e.references), e.source)
        for e in examples
    ]


def profile_table(result: Mapping[str, Any]) -> Table:
    """In the shape of the thesis' Table 7.1."""
    rows = [
        [
            label,
            number(cost["seconds_per_1000"], 1),
            number(cost["cpu_seconds_per_1000"], 1),
            number(cost["load_seconds"], 1),
            number(cost["peak_memory"] / 2**30, 2),
        ]
        for label, cost in result["metrics"].items()
    ]
    note = (
        f"{result['n']} summaries of {result['words']:g} words on average, each metric alone in a process, on "
        f"{result['threads']} CPU thread{'s' if result['threads'] != 1 else ''}. Memory is what the process takes on "
        "top of Python and its libraries. CPU seconds do not depend on what else the machine does."
    )
    return Table(
        "Cost",
        ["metric", "seconds per 1,000", "CPU seconds per 1,000", "seconds to load", "peak memory (GB)"],
        rows,
        note,
    )


def section(result: Mapping[str, Any]) -> Section:
    """The part of a report about cost."""
    return Section("Cost", tables=[profile_table(result)])
