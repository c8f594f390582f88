"""Scoring in one pass: plan, encode once, share between metrics, with bounded memory.

Examples are taken in chunks. For each chunk the encoder passes that the metrics ask for are merged, so each
distinct text is encoded once; then every metric scores the chunk, and the states are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from summarily.metrics.base import Example, Metric, Score, Values, add_counts
from summarily.metrics.cost import Meter
from summarily.metrics.explanations import Explanation
from summarily.support.errors import InputError, warn
from summarily.support.keys import keyed
from summarily.support.processes import rank_and_world
from summarily.support.progress import Report, follow

CHUNK_EXAMPLES = 256
CHUNK_CHARACTERS = 200_000


@dataclass
class Tally:
    """What one metric has produced so far."""

    rows: list[int] = field(default_factory=list)
    per_example: dict[str, list[float]] = field(default_factory=dict)
    weights: list[float] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)

    def add(self, rows: Sequence[int], values: Values, meter: Meter) -> None:
        self.rows += rows
        for key, column in values.per_example.items():
            self.per_example.setdefault(key, []).extend(map(float, column))
        if values.weights is not None:
            self.weights = (self.weights or []) + list(map(float, values.weights))
        self.counts = add_counts(self.counts, values.counts)
        self.spend(seconds=meter.seconds, tokens=values.tokens, peak_memory=meter.peak_memory)

    def spend(
        self, seconds: float = 0, tokens: int = 0, peak_memory: int = 0, shared_seconds: float = 0
    ) -> None:
        cost = self.cost
        cost["seconds"] = cost.get("seconds", 0) + seconds
        cost["shared_seconds"] = cost.get("shared_seconds", 0) + shared_seconds
        cost["tokens"] = cost.get("tokens", 0) + tokens
        cost["peak_memory"] = max(cost.get("peak_memory", 0), peak_memory)

    def merge(self, other: Tally) -> None:
        """Take in what another process has done: work adds up, the slowest process sets the seconds."""
        self.rows += other.rows
        for key, column in other.per_example.items():
            self.per_example.setdefault(key, []).extend(column)
        if other.weights is not None:
            self.weights = (self.weights or []) + other.weights
        self.counts = add_counts(self.counts, other.counts)
        for key, value in other.cost.items():
            mine = self.cost.get(key, 0)
            self.cost[key] = mine + value if key == "tokens" else max(mine, value)


def score_examples(
    metrics: Mapping[str, Metric] | Sequence[Metric],
    examples: Sequence[Example],
    confidence: float | None = None,
    progress: bool | Report | None = None,
    distributed: bool = False,
) -> dict[str, Score]:
    """Score validated examples; the heart of `score`, also used by the hooks."""
    if not isinstance(metrics, Mapping):
        metrics = {metric.name: metric for metric in metrics}
    if not examples:
        raise InputError("there are no examples to score.")
    for text in notices_of(metrics, examples):
        warn(text)
    statistics = {
        label: metric.statistics(metric.cut_references(examples)) for label, metric in metrics.items()
    }
    rank, world = rank_and_world() if distributed else (0, 1)
    order = grouped_by_reference(examples)
    mine = order[len(order) * rank // world : len(order) * (rank + 1) // world]
    tallies = score_rows(metrics, examples, statistics, mine, progress if rank == 0 else False)
    if world > 1:
        tallies = _gather(tallies)
        for tally in tallies.values():
            tally.cost["processes"] = world
    return {
        label: _to_score(label, metric, tallies[label], examples, statistics[label]).with_interval(confidence)
        for label, metric in metrics.items()
    }


def notices_of(metrics: Mapping[str, Metric], examples: Sequence[Example]) -> list[str]:
    """What the metrics have to say of the texts, each once."""
    found = (metric.notice(metric.cut_references(examples)) for metric in metrics.values())
    return list(dict.fromkeys(filter(None, found)))


def grouped_by_reference(examples: Sequence[Example]) -> list[int]:
    """Examples that share references stand together, so that a chunk encodes each of them once."""
    first_seen: dict[tuple[str, ...], int] = {}
    for row, example in enumerate(examples):
        first_seen.setdefault(example.references, row)
    return sorted(range(len(examples)), key=lambda row: first_seen[examples[row].references])


def _chunks(examples: Sequence[Example], rows: Sequence[int]) -> Iterator[list[int]]:
    chunk: list[int] = []
    characters = 0
    for row in rows:
        example = examples[row]
        size = len(example.prediction) + sum(map(len, example.references)) + len(example.source or "")
        if chunk and (len(chunk) == CHUNK_EXAMPLES or characters + size > CHUNK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(row)
        characters += size
    if chunk:
        yield chunk


def score_rows(
    metrics: Mapping[str, Metric],
    examples: Sequence[Example],
    statistics: Mapping[str, Any],
    rows: Sequence[int],
    progress: bool | Report | None,
) -> dict[str, Tally]:
    tallies = {label: Tally() for label in metrics}
    with follow(len(rows) * len(metrics), "scoring", " scores", progress) as work:
        for chunk in _chunks(examples, rows):
            batch = [examples[row] for row in chunk]
            work.at("encoding")
            _encode_for_all(metrics, batch, tallies)
            for label, metric in metrics.items():
                work.at(label)
                with Meter() as meter:
                    values = metric.score_examples(metric.cut_references(batch), statistics[label])
                tallies[label].add(chunk, values, meter)
                work.update(len(chunk))
    return tallies


def _encode_for_all(
    metrics: Mapping[str, Metric], batch: Sequence[Example], tallies: Mapping[str, Tally]
) -> None:
    """Merge the encoder passes that the metrics ask for and run each once."""
    wanted: dict[Any, tuple[dict[str, None], set[int], list[str]]] = {}
    for label, metric in metrics.items():
        for request in metric.requests(metric.cut_references(batch)):
            texts, layers, users = wanted.setdefault(request.encoder, ({}, set(), []))
            texts.update(dict.fromkeys(request.texts))
            layers.update(request.layers)
            users.append(label)
    for encoder, (texts, layers, users) in wanted.items():
        with Meter() as meter:
            encoder.prefetch(list(texts), sorted(layers))
        for label in set(users):
            tallies[label].spend(shared_seconds=meter.seconds, peak_memory=meter.peak_memory)


def _to_score(
    label: str, metric: Metric, tally: Tally, examples: Sequence[Example], statistics: Any
) -> Score:
    order = sorted(range(len(tally.rows)), key=tally.rows.__getitem__)

    def explain(row: int) -> Explanation:
        example = examples[row]
        return metric.explain(example.prediction, example.references, example.source, statistics)

    return Score(
        label,
        keyed({key: [column[i] for i in order] for key, column in tally.per_example.items()}, metric.keys),
        metric.signature(statistics),
        tally.counts,
        tally.cost,
        None if tally.weights is None else [tally.weights[i] for i in order],
        averaged=metric.averaged,
        explainer=explain,
    )


def _gather(tallies: dict[str, Tally]) -> dict[str, Tally]:
    from accelerate.utils import gather_object

    merged: dict[str, Tally] = {label: Tally() for label in tallies}
    for part in gather_object([tallies]):
        for label, tally in part.items():
            merged[label].merge(tally)
    return merged
