"""`score()` and `compare()`: plan, encode once, share between metrics, with bounded memory.

Examples are taken in chunks. For each chunk the encoder passes that the metrics ask for are merged, so each
distinct text is encoded once; then every metric scores the chunk, and the states are dropped.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from summarily.metrics import load_all
from summarily.metrics.base import Example, Metric, Score, Values, add_counts, make_examples
from summarily.metrics.cost import Meter
from summarily.metrics.explanations import Explanation
from summarily.metrics.resampling import PairedTest, holm, paired_test
from summarily.support.errors import InputError
from summarily.support.files import write_atomically
from summarily.support.inputs import rows_of
from summarily.support.keys import Key, keyed
from summarily.support.processes import rank_and_world
from summarily.support.tables import format_table

if TYPE_CHECKING:
    import pandas

CHUNK_EXAMPLES = 256
CHUNK_CHARACTERS = 200_000


class Scorecard(Mapping[str, Score]):
    """The scores of one set of predictions, by metric.

    Example:
        >>> card = score(["a cat sat"], ["the cat sat"], metrics="rouge")
        >>> round(card["rouge"].mean["rouge1"], 3)
        0.667
    """

    def __init__(self, scores: dict[str, Score], skipped: dict[str, str] | None = None):
        self.scores = scores
        self.skipped = skipped or {}
        """Metrics that "all" left out, with the reason."""

    def __getitem__(self, metric: str) -> Score:
        if metric not in self.scores and metric in self.skipped:
            raise KeyError(f"{metric} was skipped: {self.skipped[metric]}")
        return self.scores[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def table(self, signatures: bool = True) -> str:
        """A text table: each value with its interval, then what was counted, and the signatures."""
        rows = []
        for label, score in self.items():
            for key, mean in score.mean.items():
                interval = score.interval[key] if score.interval else None
                first = key == score.main
                rows.append(
                    [
                        label if first else "",
                        Key(key).label,
                        f"{mean:.4f}",
                        f"{interval.low:.4f} to {interval.high:.4f}" if interval else "",
                        *(_cost_cells(score.cost) if first else ("", "", "")),
                    ]
                )
        confidence = next((s.interval[s.main].confidence for s in self.values() if s.interval), None)
        level = f"{100 * confidence:g}% interval" if confidence else ""
        header = ["metric", "value", "mean", level, "seconds", "encoding", "peak MB"]
        lines = [format_table(header, rows, right=range(2, 7))]
        counts = [f"{label}: {name} {n}" for label, s in self.items() for name, n in s.counts.items() if n]
        if counts:
            lines += ["", "counted", *counts]
        if self.skipped:
            lines += ["", "skipped", *(f"{name}: {reason}" for name, reason in self.skipped.items())]
        if signatures:
            lines += ["", "signatures", *(str(score.signature) for score in self.values())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "scores": {label: score.to_dict() for label, score in self.items()},
            **({"skipped": self.skipped} if self.skipped else {}),
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """As JSON; with a path, also written there, atomically."""
        return _to_json(self.to_dict(), path)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per example, one column per value."""
        import pandas

        keys = [key for score in self.values() for key in score.per_example]
        return pandas.DataFrame(
            {
                (key if keys.count(key) == 1 else f"{label}.{key}"): values
                for label, score in self.items()
                for key, values in score.per_example.items()
            }
        )

    def __repr__(self) -> str:
        return f"Scorecard({', '.join(f'{label}: {float(s):.4f}' for label, s in self.items())})"


def _cost_cells(cost: Mapping[str, float]) -> tuple[str, str, str]:
    """Seconds of the metric itself, of the encoder passes it shares with others, and memory on top."""
    if "seconds" not in cost:
        return "", "", ""
    return f"{cost['seconds']:.2f}", f"{cost['shared_seconds']:.2f}", f"{cost['peak_memory'] / 2**20:.0f}"


def _to_json(value: dict[str, Any], path: str | os.PathLike[str] | None) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    if path is not None:
        write_atomically(path, text + "\n")
    return text


# --- scoring ----------------------------------------------------------------------------------------------


def score(
    predictions: Any,
    references: Any,
    sources: Any = None,
    metrics: Any = "all",
    preset: str = "light",
    confidence: float | None = None,
    progress: bool | None = None,
    distributed: bool = False,
) -> Scorecard:
    """Score predictions with one or many metrics in one pass.

    Args:
        predictions: a list of summaries.
        references: for each prediction its reference, or a list of references.
        sources: the documents, for metrics that read them.
        metrics: "all" (every metric that can run here; the others are listed in `skipped`), a name, a
            `Metric`, a list of those, or a mapping from a label to a `Metric` or from a name to its options.
        preset: "light" (small pinned weights, offline) or "paper" (the papers' models, from the Hub).
        confidence: for example 0.95 for 95% intervals.
        progress: a progress bar; by default on a terminal only.
        distributed: split the work over the processes of `accelerate launch`; all get the whole result.

    Example:
        >>> score(["a cat sat"], ["the cat sat"], metrics="rouge")
        Scorecard(rouge: 0.6667)
    """
    chosen, skipped = load_all(metrics, preset)
    examples = make_examples(predictions, references, sources)
    scores = score_examples(
        chosen, examples, confidence=confidence, progress=progress, distributed=distributed
    )
    return Scorecard(scores, skipped)


@dataclass
class _Tally:
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

    def merge(self, other: _Tally) -> None:
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
    progress: bool | None = None,
    distributed: bool = False,
) -> dict[str, Score]:
    """Score validated examples; the heart of `score`, also used by the hooks."""
    if not isinstance(metrics, Mapping):
        metrics = {metric.name: metric for metric in metrics}
    if not examples:
        raise InputError("there are no examples to score.")
    statistics = {
        label: metric.statistics(metric.cut_references(examples)) for label, metric in metrics.items()
    }
    rank, world = rank_and_world() if distributed else (0, 1)
    order = _grouped_by_reference(examples)
    mine = order[len(order) * rank // world : len(order) * (rank + 1) // world]
    tallies = _score_rows(metrics, examples, statistics, mine, progress if rank == 0 else False)
    if world > 1:
        tallies = _gather(tallies)
        for tally in tallies.values():
            tally.cost["processes"] = world
    return {
        label: _to_score(label, metric, tallies[label], examples, statistics[label]).with_interval(confidence)
        for label, metric in metrics.items()
    }


def _grouped_by_reference(examples: Sequence[Example]) -> list[int]:
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


def _score_rows(
    metrics: Mapping[str, Metric],
    examples: Sequence[Example],
    statistics: Mapping[str, Any],
    rows: Sequence[int],
    progress: bool | None,
) -> dict[str, _Tally]:
    from tqdm.auto import tqdm

    tallies = {label: _Tally() for label in metrics}
    disable = None if progress is None else not progress
    with tqdm(total=len(rows), desc="scoring", unit=" summaries", disable=disable, leave=False) as bar:
        for chunk in _chunks(examples, rows):
            batch = [examples[row] for row in chunk]
            _encode_for_all(metrics, batch, tallies)
            for label, metric in metrics.items():
                with Meter() as meter:
                    values = metric.score_examples(metric.cut_references(batch), statistics[label])
                tallies[label].add(chunk, values, meter)
            bar.update(len(chunk))
    return tallies


def _encode_for_all(
    metrics: Mapping[str, Metric], batch: Sequence[Example], tallies: Mapping[str, _Tally]
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
    label: str, metric: Metric, tally: _Tally, examples: Sequence[Example], statistics: Any
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


def _gather(tallies: dict[str, _Tally]) -> dict[str, _Tally]:
    from accelerate.utils import gather_object

    merged: dict[str, _Tally] = {label: _Tally() for label in tallies}
    for part in gather_object([tallies]):
        for label, tally in part.items():
            merged[label].merge(tally)
    return merged


# --- comparing --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """The difference `first - second` of two systems on one metric's main score."""

    metric: str
    key: Key
    first: str
    second: str
    test: PairedTest
    p_holm: float
    """The permutation p-value corrected for the number of pairs compared on this metric."""

    @property
    def better(self) -> str | None:
        """The system with the better mean; None if they are equal."""
        gain = self.key.goodness(self.test.difference)
        return (self.first if gain > 0 else self.second) if gain else None


@dataclass
class Comparison:
    """Several systems on the same references: their scorecards, a ranking, and paired tests."""

    cards: dict[str, Scorecard]
    pairs: list[Pair]
    confidence: float

    @property
    def ranking(self) -> dict[str, list[str]]:
        """For each metric the systems, best first."""
        metrics = next(iter(self.cards.values()))
        return {
            metric: sorted(
                self.cards, key=lambda system: -score.main.goodness(float(self.cards[system][metric]))
            )
            for metric, score in metrics.items()
        }

    def table(self, signatures: bool = True) -> str:
        first = next(iter(self.cards.values()))
        rows = [
            [
                f"{metric}{score.main.note}",
                *(_mean_and_interval(self.cards[system][metric]) for system in self.cards),
            ]
            for metric, score in first.items()
        ]
        columns = tuple(range(1, len(self.cards) + 1))
        lines = [format_table(["metric (main score)", *self.cards], rows, right=columns), ""]
        pair_rows = [
            [
                pair.metric,
                f"{pair.first} - {pair.second}",
                f"{pair.test.difference:+.4f}",
                f"{pair.test.low:+.4f} to {pair.test.high:+.4f}",
                f"{pair.test.p_bootstrap:.4f}",
                f"{pair.test.p_permutation:.4f}",
                f"{pair.p_holm:.4f}",
                pair.better or "",
            ]
            for pair in self.pairs
        ]
        header = [
            "metric",
            "pair",
            "difference",
            f"{100 * self.confidence:g}% interval",
            "p boot",
            "p perm",
            "p Holm",
            "better",
        ]
        lines.append(format_table(header, pair_rows, right=(2, 3, 4, 5, 6)))
        lines += ["", "ranking", *(f"{metric}: {' > '.join(best)}" for metric, best in self.ranking.items())]
        if first.skipped:
            lines += ["", "skipped", *(f"{name}: {reason}" for name, reason in first.skipped.items())]
        if signatures:
            lines += ["", "signatures", *(str(score.signature) for score in first.values())]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "systems": {system: card.to_dict() for system, card in self.cards.items()},
            "ranking": self.ranking,
            "confidence": self.confidence,
            "pairs": [
                {
                    "metric": pair.metric,
                    "first": pair.first,
                    "second": pair.second,
                    **pair.test._asdict(),
                    "p_holm": pair.p_holm,
                    "better": pair.better,
                }
                for pair in self.pairs
            ],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        return _to_json(self.to_dict(), path)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per system and example."""
        import pandas

        return pandas.concat(
            {system: card.to_pandas() for system, card in self.cards.items()}, names=["system", "example"]
        )


def _mean_and_interval(score: Score) -> str:
    text = f"{float(score):.4f}"
    if score.interval:
        interval = score.interval[score.main]
        text += f" [{interval.low:.4f}, {interval.high:.4f}]"
    return text


def compare(
    systems: Mapping[str, Any],
    references: Any,
    sources: Any = None,
    metrics: Any = "all",
    preset: str = "light",
    confidence: float = 0.95,
    progress: bool | None = None,
    distributed: bool = False,
) -> Comparison:
    """Score several systems on the same references and test every pair of them.

    All systems are scored in one pass, so what they share is encoded once and corpus statistics (idf) are
    the same for all of them.

    Example:
        >>> references = ["the cat sat on the mat", "a dog barked all night"]
        >>> result = compare({"A": references, "B": ["a cat", "no dog"]}, references, metrics="rouge")
        >>> result.ranking["rouge"]
        ['A', 'B']
    """
    if not isinstance(systems, Mapping) or len(systems) < 2:
        raise InputError('systems must map at least two names to predictions, as {"A": [...], "B": [...]}.')
    if confidence is None:
        raise InputError("compare needs a confidence, such as 0.95.")
    chosen, skipped = load_all(metrics, preset)
    # Every system is paired with them, so a generator has to be read out first.
    references, sources = (
        rows_of("references", references),
        None if sources is None else rows_of("sources", sources),
    )
    examples: list[Example] = []
    for system, predictions in systems.items():
        try:
            examples += make_examples(predictions, references, sources)
        except InputError as error:
            raise type(error)(f"system {system!r}: {error}") from None
    n = len(examples) // len(systems)
    scores = score_examples(chosen, examples, progress=progress, distributed=distributed)
    cards = {
        system: Scorecard(
            {label: _part(score, i * n, n).with_interval(confidence) for label, score in scores.items()},
            skipped,
        )
        for i, system in enumerate(systems)
    }
    return Comparison(cards, _test_pairs(cards, confidence), confidence)


def _part(score: Score, start: int, n: int) -> Score:
    """One system's share of a score. Counts and costs are of the whole pass and stay with none of them."""
    explainer = score.explainer
    return Score(
        score.name,
        {key: values[start : start + n] for key, values in score.per_example.items()},
        score.signature,
        weights=None if score.weights is None else score.weights[start : start + n],
        averaged=score.averaged,
        explainer=None if explainer is None else lambda row: explainer(start + row),
    )


def _test_pairs(cards: Mapping[str, Scorecard], confidence: float) -> list[Pair]:
    pairs: list[Pair] = []
    for metric, score in next(iter(cards.values())).items():
        tests = []
        for first, second in itertools.combinations(cards, 2):
            a, b = cards[first][metric], cards[second][metric]
            tests.append(
                (
                    first,
                    second,
                    paired_test(a.per_example[a.main], b.per_example[b.main], confidence, a.weights),
                )
            )
        corrected = holm([test.p_permutation for _, _, test in tests])
        pairs += [
            Pair(metric, score.main, first, second, test, p)
            for (first, second, test), p in zip(tests, corrected, strict=True)
        ]
    return pairs
