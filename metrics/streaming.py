"""Scoring more rows than fit into memory: windows of rows are scored, added up and forgotten.

Sums are kept without rounding, so that means are those of `score` to the last bit. Intervals come from a bootstrap that
knows no end: every row is drawn a Poisson number of times in each resample, and the numbers depend on the row's place
alone. With an `output` a run that is killed at any row goes on from its last window, to the same numbers.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np

from summarily.metrics import load_all
from summarily.metrics.base import Example, Interval, Metric, Score, add_counts, make_examples
from summarily.metrics.engine import Tally, grouped_by_reference, notices_of, score_rows
from summarily.metrics.resampling import deviations_of, mean_and_error, moments, studentised_bounds
from summarily.metrics.scorecard import Scorecard
from summarily.support.errors import FileError, InputError, warn
from summarily.support.files import write_atomically
from summarily.support.keys import keyed
from summarily.support.streams import stream_table

WINDOW = 2048
"""Rows that are scored together and after which the state is kept."""
RESAMPLES = 1000
_BLOCK = 256  # rows whose draws come from one generator
ERRORS = ("stop", "skip")


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; `references` is taken for `reference` where only that is there."""

    prediction: str = "prediction"
    reference: str = "reference"
    source: str = "source"

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([self.prediction, *self.references, self.source]))

    @property
    def references(self) -> list[str]:
        return ["reference", "references"] if self.reference == "reference" else [self.reference]


# --- results ----------------------------------------------------------------------------------------------


@dataclass(repr=False)
class StreamedScore(Score):
    """One metric's result for a stream: means and intervals, without the rows."""

    means: dict[str, float] = field(default_factory=dict)
    rows: int = 0

    @property
    def mean(self) -> dict[str, float]:
        return self.means

    def __len__(self) -> int:
        return self.rows

    def __add__(self, other: Score) -> Score:
        raise InputError(
            "scores of streams have forgotten their rows and do not add up; score both in one stream."
        )

    def to_dict(self) -> dict[str, Any]:
        known = super().to_dict()
        del known["per_example"]
        return {**known, "rows": self.rows}


class Streamed(Scorecard):
    """The scores of a stream by metric; `rows` were scored, and `errors` could not be.

    Example:
        >>> rows = [{"prediction": "a cat sat", "reference": "the cat sat"}] * 3
        >>> card = score_stream(rows, metrics="rouge")
        >>> card.rows, card["rouge"].mean["rouge1"]
        (3, 0.6666666666666666)
    """

    def __init__(self, scores: dict[str, Score], skipped: dict[str, str], rows: int, errors: int):
        super().__init__(scores, skipped)
        self.rows, self.errors = rows, errors

    def table(self, signatures: bool = True) -> str:
        left_out = f", {self.errors:,} left out" if self.errors else ""
        return f"{self.rows:,} rows{left_out}\n\n{super().table(signatures)}"

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "errors": self.errors, **super().to_dict()}

    def to_pandas(self) -> Any:
        raise InputError("a stream keeps no rows; give `output` a parquet file and read that.")


# --- adding up --------------------------------------------------------------------------------------------


class ExactSum:
    """A sum of floats without rounding (Shewchuk 1997): `float()` of it is `math.fsum` of all that was added.

    Example:
        >>> total = ExactSum()
        >>> total.add([1e16, 1.0]); total.add([-1e16])
        >>> float(total)
        1.0
    """

    def __init__(self, partials: Iterable[float] = ()):
        self.partials = list(partials)

    def add(self, values: Iterable[float]) -> None:
        partials = self.partials
        for x in values:
            place = 0
            for y in partials:
                if abs(x) < abs(y):
                    x, y = y, x
                high = x + y
                low = y - (high - x)
                if low:
                    partials[place] = low
                    place += 1
                x = high
            partials[place:] = [x]

    def __float__(self) -> float:
        return fsum(self.partials)


class _Sums:
    """What is kept of one metric's rows: their exact sums, the sums of every resample, counts and costs."""

    def __init__(self, metric: Metric, resamples: int):
        self.metric, self.resamples = metric, resamples
        self.sums: dict[str, ExactSum] = {}
        self.weight = ExactSum()
        self.weighted = False
        self.rows = 0
        self.counts: dict[str, int] = {}
        self.cost: dict[str, float] = {}
        self.shift: list[float] = []
        self.moments: dict[str, np.ndarray] = {}
        """By group of keys ("weighted" and "plain"): the sums of `moments`, of all rows and of each resample."""

    def add(self, tally: Tally, draws: np.ndarray | None) -> None:
        order = np.argsort(tally.rows)
        columns = {key: np.array(values)[order] for key, values in tally.per_example.items()}
        weights = None if tally.weights is None else np.array(tally.weights)[order]
        n = len(order)
        self.rows += n
        self.weighted = weights is not None
        self.counts = add_counts(self.counts, tally.counts)
        for name, value in tally.cost.items():
            mine = self.cost.get(name, 0)
            self.cost[name] = max(mine, value) if name == "peak_memory" else mine + value
        for key, values in columns.items():
            own = None if key in self.metric.averaged else weights
            self.sums.setdefault(key, ExactSum()).add((values if own is None else values * own).tolist())
        if weights is not None:
            self.weight.add(weights.tolist())
        if draws is None:
            return
        if not self.shift:  # numbers near zero keep their digits when they are squared and added up
            self.shift = [float(values.mean()) for values in columns.values()]
        shifted = np.stack(list(columns.values()), 1) - self.shift
        for group, places in self._groups(list(columns)).items():
            if places:
                w = np.ones(n) if group == "plain" or weights is None else weights
                added = draws @ moments(shifted[:, places], w)
                self.moments[group] = self.moments[group] + added if group in self.moments else added

    def _groups(self, keys: Sequence[str]) -> dict[str, list[int]]:
        plain = [i for i, key in enumerate(keys) if not self.weighted or key in self.metric.averaged]
        return {"plain": plain, "weighted": [i for i in range(len(keys)) if i not in plain]}

    def score(self, label: str, statistics: Any, confidence: float | None) -> StreamedScore:
        total = float(self.weight)
        means = {}
        for key, value in self.sums.items():
            pooled = self.weighted and key not in self.metric.averaged
            divisor = total if pooled else self.rows
            means[key] = float(value) / divisor if divisor else 0.0
        keys = list(self.sums)
        interval = None
        if confidence is not None and self.rows > 1:
            interval = {}
            for group, places in self._groups(keys).items():
                if places:
                    low, high = self._bounds(self.moments[group], confidence)
                    for i, place in enumerate(places):
                        ends = float(low[i]) + self.shift[place], float(high[i]) + self.shift[place]
                        interval[keys[place]] = Interval(*ends, confidence)
        return StreamedScore(
            label,
            keyed({key: [] for key in keys}, self.metric.keys),
            self.metric.signature(statistics),
            self.counts,
            self.cost,
            interval=interval,
            averaged=self.metric.averaged,
            means=means,
            rows=self.rows,
        )

    def _bounds(self, sums: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        mean, error = (part[0] for part in mean_and_error(sums[:1]))
        if np.isnan(mean).any():  # no row has any weight
            return np.zeros_like(mean), np.zeros_like(mean)
        return studentised_bounds(
            mean, error, self.rows, confidence, lambda: deviations_of(sums[1:], error, mean)
        )

    # --- kept and found again ---

    def state(self) -> dict[str, Any]:
        return {
            "sums": {key: value.partials for key, value in self.sums.items()},
            "weight": self.weight.partials,
            "weighted": self.weighted,
            "rows": self.rows,
            "counts": self.counts,
            "cost": self.cost,
            "shift": self.shift,
        }

    def restore(self, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.sums = {key: ExactSum(partials) for key, partials in state["sums"].items()}
        self.weight = ExactSum(state["weight"])
        self.weighted, self.rows, self.shift = state["weighted"], state["rows"], state["shift"]
        self.counts, self.cost = state["counts"], state["cost"]
        self.moments = dict(arrays)


def poisson_draws(first: int, n: int, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """How often each of n rows, counted from `first`, is drawn in every resample; the first line is of all rows.

    A row's draws depend on its place alone, whatever the windows.

    Example:
        >>> whole = poisson_draws(0, 600, 4)
        >>> bool((whole[:, 250:] == poisson_draws(250, 350, 4)).all()), float(whole[0].sum())
        (True, 600.0)
    """
    found = np.ones((1 + resamples, n))
    for block in range(first // _BLOCK, (first + n - 1) // _BLOCK + 1):
        drawn = np.random.default_rng([seed, block]).poisson(1.0, (resamples, _BLOCK))
        start = block * _BLOCK - first
        low, high = max(start, 0), min(start + _BLOCK, n)
        found[1:, low:high] = drawn[:, low - start : high - start]
    return found


# --- the stream -------------------------------------------------------------------------------------------


def score_stream(
    rows: Any,
    metrics: Any = "all",
    preset: str = "light",
    confidence: float | None = 0.95,
    columns: Columns | None = None,
    output: str | os.PathLike[str] | None = None,
    on_error: str = "stop",
    progress: bool | None = None,
    split: str = "test",
    config: str | None = None,
    window: int = WINDOW,
) -> Streamed:
    """Score rows as they come, in constant memory.

    Args:
        rows: the name of a table (a jsonl, csv, tsv or parquet file, a folder of them, a data set on the Hub), a
            `datasets.IterableDataset`, or any iterable of mappings. Metrics that count something over the whole
            corpus first (idf) read it twice, so that an iterator will not do.
        metrics, preset, confidence, progress: as for `summarily.score`.
        columns: which columns hold what.
        output: a parquet file for the scores of every row, written as they come. With it the run goes on where it
            was stopped; a second file beside it, named .errors.jsonl, has the rows that were left out.
        on_error: "stop" at a row that cannot be scored, or "skip" and count it.
        split, config: of a data set by name.
        window: rows that are scored together; memory grows with it.

    Example:
        >>> rows = ({"prediction": "a cat", "reference": text} for text in ["a cat", "a dog", None])
        >>> card = score_stream(rows, metrics="rouge", on_error="skip")
        >>> card.rows, card.errors, card["rouge"].mean["rouge1"]
        (2, 1, 0.75)
    """
    chosen, skipped = load_all(metrics, preset)
    names = columns or Columns()

    def read() -> Iterator[Any]:
        return stream_table(rows, names.names, split, config) if isinstance(rows, str) else iter(rows)

    once = isinstance(rows, Iterator)
    stream = Stream(chosen, skipped, read, once, _identity(rows), names, confidence, output, on_error, window)

    def windows() -> Iterator[Window]:
        left = read()
        first = stream.done.read
        if first:
            next(itertools.islice(left, first, first), None)
        while part := list(itertools.islice(left, window)):
            yield stream.score(first, part)
            first += len(part)

    return stream.add_up(windows(), progress)


class Stream:
    """A stream that is about to be scored: what was asked for, checked, and how far an earlier run has come."""

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        skipped: dict[str, str],
        read: Callable[[], Iterator[Any]],
        once: bool,
        identity: Any,
        columns: Columns,
        confidence: float | None,
        output: str | os.PathLike[str] | None,
        on_error: str,
        window: int,
    ):
        if on_error not in ERRORS:
            raise InputError(f"on_error is {on_error!r}; expected {' or '.join(map(repr, ERRORS))}.")
        if window < 1:
            raise InputError(f"window is {window}; expected a positive number of rows.")
        self.skipped, self.confidence = skipped, confidence
        self.statistics = _statistics(metrics, once, read, columns, on_error, window)
        self.signatures = signatures_of(metrics, self.statistics)
        self.score = WindowScorer(metrics, self.statistics, columns, on_error)
        self.sums = {label: _Sums(metric, RESAMPLES) for label, metric in metrics.items()}
        described = {
            "signatures": self.signatures,
            "window": window,
            "confidence": confidence,
            "input": identity,
        }
        self.kept = _Kept(Path(output), described) if output is not None else None
        self.done = self.kept.resume(self.sums) if self.kept else _Progress()

    def add_up(self, windows: Iterator[Window], progress: bool | None) -> Streamed:
        """The scores of windows that come in the order of their rows, wherever they were scored."""
        from tqdm.auto import tqdm

        done, kept = self.done, self.kept
        disable = None if progress is None else not progress
        with tqdm(desc="scoring", unit=" rows", initial=done.read, disable=disable, leave=False) as bar:
            for window in windows:
                if window.places:
                    if not done.scored:  # the first texts; a run that goes on has heard it
                        for text in window.notices:
                            warn(text)
                    n = len(window.places)
                    draws = None if self.confidence is None else poisson_draws(done.scored, n)
                    for label, tally in window.tallies.items():
                        self.sums[label].add(tally, draws)
                    if kept:
                        kept.write(done, window.places, window.tallies)
                done.read += window.rows
                done.scored += len(window.places)
                done.errors += len(window.errors)
                if kept:
                    kept.keep(done, window.errors, self.sums)
                bar.update(window.rows)
        if not done.scored:
            raise InputError(f"there are no rows to score ({done.errors} could not be read).")
        scores: dict[str, Score] = {
            label: total.score(label, self.statistics[label], self.confidence)
            for label, total in self.sums.items()
        }
        if kept:
            kept.finish(done)
        return Streamed(scores, self.skipped, done.scored, done.errors)


def signatures_of(metrics: Mapping[str, Metric], statistics: Mapping[str, Any]) -> dict[str, str]:
    return {label: str(metric.signature(statistics[label])) for label, metric in metrics.items()}


@dataclass
class Window:
    """What became of a window of rows: the places of those that were scored, and the others with the reason."""

    rows: int
    places: list[int]
    errors: list[dict[str, Any]]
    tallies: dict[str, Tally]
    notices: list[str] = field(default_factory=list)


class WindowScorer:
    """Scores windows of rows, each as if it were the only one.

    A text is encoded beside others, and how they are rounded depends on who they are: so nothing that was encoded for
    one window is used in another, and a window has the same scores in any process and after any stop.

    Example:
        >>> from summarily.metrics import load
        >>> score = WindowScorer({"rouge": load("rouge")}, {"rouge": None}, Columns(), "stop")
        >>> score(7, [{"prediction": "a cat", "reference": "a dog"}]).places
        [7]
    """

    def __init__(
        self, metrics: Mapping[str, Metric], statistics: Mapping[str, Any], columns: Columns, on_error: str
    ):
        self.metrics, self.statistics = metrics, statistics
        self.columns, self.on_error = columns, on_error

    def __call__(self, first: int, rows: Sequence[Any]) -> Window:
        examples, places, errors = _examples(rows, first, self.columns, self.on_error)
        if (encoding := sys.modules.get("summarily.metrics.encoding")) is not None:
            encoding.forget()
        order = grouped_by_reference(examples)
        tallies = score_rows(self.metrics, examples, self.statistics, order, False) if examples else {}
        return Window(len(rows), places, errors, tallies, notices_of(self.metrics, examples))


@dataclass
class _Progress:
    """How far a stream has been read."""

    read: int = 0
    scored: int = 0
    errors: int = 0
    parts: int = 0


def _examples(
    rows: Sequence[Any], first: int, columns: Columns, on_error: str
) -> tuple[list[Example], list[int], list[dict[str, Any]]]:
    """The rows that can be scored with their places, and the others with the reason."""
    examples, places, errors = [], [], []
    for place, row in enumerate(rows, first):
        try:
            examples.append(_example(row, columns))
            places.append(place)
        except InputError as error:
            if on_error == "stop":
                raise InputError(
                    f"row {place}: {error} Mend it, or skip such rows (on_error='skip')."
                ) from None
            errors.append({"row": place, "reason": str(error)})
    return examples, places, errors


def _example(row: Any, columns: Columns) -> Example:
    if isinstance(row, InputError):
        raise row
    if not isinstance(row, Mapping):
        raise InputError(f"it is a {type(row).__name__}; expected a mapping from columns to texts.")
    reference = next((name for name in columns.references if name in row), None)
    for name in (columns.prediction, reference or columns.reference):
        if name not in row:
            raise InputError(
                f"there is no column {name!r}; the row has: {', '.join(map(str, row)) or 'none'}."
            )
    source = row.get(columns.source)
    try:
        [example] = make_examples(
            [row[columns.prediction]], [row[reference]], None if source is None else [source]
        )
    except (InputError, TypeError) as error:
        raise InputError(str(error).replace("[0]", "")) from None
    return example


def _statistics(
    metrics: Mapping[str, Metric],
    once: bool,
    read: Callable[[], Iterator[Any]],
    columns: Columns,
    on_error: str,
    window: int,
) -> dict[str, Any]:
    """What metrics count over the whole corpus, by a first pass for those that do."""
    counting = {label: metric for label, metric in metrics.items() if metric.counts_corpus}
    found: dict[str, Any] = dict.fromkeys(metrics)
    if not counting:
        return found
    if once:
        raise InputError(
            f"{', '.join(counting)} counts words over the whole corpus before the first row is scored, and an iterator "
            "can be read once; give a file, a data set or a list, or idf=False."
        )
    for examples in _example_windows(read(), columns, on_error, window):
        for label, metric in counting.items():
            counted = metric.statistics(metric.cut_references(examples))
            found[label] = counted if found[label] is None else found[label] + counted
    return found


def _example_windows(
    stream: Iterator[Any], columns: Columns, on_error: str, window: int
) -> Iterator[list[Example]]:
    """Windows of examples; a short last one comes with the one before: a few rows are too few to count over."""
    held: list[Example] = []
    first = 0
    while part := list(itertools.islice(stream, window)):
        examples, _, _ = _examples(part, first, columns, on_error)
        first += len(part)
        if len(held) >= window and len(examples) >= window / 2:
            yield held
            held = []
        held += examples
    if held:
        yield held


def _identity(rows: Any) -> Any:
    """What tells an input from another: files with their sizes and dates. Of other iterables nothing is known."""
    if not isinstance(rows, str):
        return type(rows).__name__
    from summarily.support.streams import files_of

    return [
        [file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files_of(Path(rows))
    ] or rows


# --- what is kept of a run --------------------------------------------------------------------------------


class _Kept:
    """The scores of the rows, in parts, and the state after the last of them: in a folder beside the output until the
    whole is there."""

    def __init__(self, output: Path, described: Mapping[str, Any]):
        if output.suffix != ".parquet":
            raise InputError(
                f"{output}: the scores of a stream are written as parquet; name it with .parquet."
            )
        if not output.parent.is_dir():
            raise FileError(f"there is no folder {output.parent} to write {output.name} to.")
        self.output, self.described = output, json.loads(json.dumps(described))
        self.folder = output.with_name(output.name + ".partial")
        self.errors = output.with_name(output.name + ".errors.jsonl")

    def resume(self, sums: Mapping[str, _Sums]) -> _Progress:
        """Where an earlier run of the same kind has come to; one of another kind is begun anew."""
        try:
            with np.load(self.folder / "state.npz", allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            state = json.loads(str(arrays.pop("state")))
        except FileNotFoundError:
            state = None
        except (OSError, ValueError, KeyError) as error:
            raise FileError(f"{self.folder} holds no state to go on from ({error}); delete it.") from None
        if state is None or state["described"] != self.described:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            return _Progress()
        done = _Progress(**state["progress"])
        for label, total in sums.items():
            own = {name.split("/", 1)[1]: a for name, a in arrays.items() if name.split("/", 1)[0] == label}
            total.restore(state["sums"][label], own)
        return done

    def write(self, done: _Progress, places: Sequence[int], tallies: Mapping[str, Tally]) -> None:
        """The scores of one window, in the order of its rows."""
        import pyarrow
        import pyarrow.parquet

        columns: dict[str, Any] = {"row": np.array(places)}
        keys = [key for tally in tallies.values() for key in tally.per_example]
        for label, tally in tallies.items():
            order = np.argsort(tally.rows)
            for key, values in tally.per_example.items():
                columns[key if keys.count(key) == 1 else f"{label}.{key}"] = np.array(values)[order]
            if tally.weights is not None:
                columns[f"{label}.weight"] = np.array(tally.weights)[order]
        stream = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), stream)
        write_atomically(self.folder / f"part-{done.parts:06}.parquet", stream.getvalue())
        done.parts += 1

    def keep(self, done: _Progress, errors: Sequence[Mapping[str, Any]], sums: Mapping[str, _Sums]) -> None:
        if errors:
            lines = "".join(json.dumps(error, ensure_ascii=False) + "\n" for error in errors)
            write_atomically(self.folder / f"errors-{done.read:012}.jsonl", lines)
        state = {
            "described": self.described,
            "progress": vars(done),
            "sums": {label: total.state() for label, total in sums.items()},
        }
        arrays = {
            f"{label}/{group}": a for label, total in sums.items() for group, a in total.moments.items()
        }
        stream = io.BytesIO()
        np.savez(stream, state=np.array(json.dumps(state)), **arrays)  # type: ignore[arg-type]
        write_atomically(self.folder / "state.npz", stream.getvalue())

    def finish(self, done: _Progress) -> None:
        """The parts as one file, row group by row group, and the errors as another."""
        import pyarrow.parquet

        partial = self.folder / "whole.parquet"
        parts = [self.folder / f"part-{number:06}.parquet" for number in range(done.parts)]
        with pyarrow.parquet.ParquetWriter(partial, pyarrow.parquet.read_schema(parts[0])) as writer:
            for part in parts:
                writer.write_table(pyarrow.parquet.read_table(part))
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        lines = [file.read_text(encoding="utf-8") for file in sorted(self.folder.glob("errors-*.jsonl"))]
        if lines:
            write_atomically(self.errors, "".join(lines))
        else:
            self.errors.unlink(missing_ok=True)
        os.replace(partial, self.output)
        shutil.rmtree(self.folder)


# --- as the ecosystem maps ----------------------------------------------------------------------------------


class scorer:
    """A function for `dataset.map(..., batched=True)`: adds a column for every value of the metrics.

    Metrics are loaded where it runs, so that it travels to other processes as names and options.

    Args:
        metrics: names, or a mapping from a name to its options.
        preset: as for `summarily.score`.
        columns: which columns hold what.

    Example:
        >>> add = scorer(["rouge"])
        >>> batch = {"prediction": ["a cat"], "reference": ["a dog"]}
        >>> add(batch)["rouge1"]
        [0.5]
    """

    def __init__(self, metrics: Any = "all", preset: str = "light", columns: Columns | None = None):
        self.metrics, self.preset, self.columns = metrics, preset, columns or Columns()
        self._loaded: dict[str, Metric] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_loaded": None}

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[float]]:
        if self._loaded is None:
            self._loaded, _ = load_all(self.metrics, self.preset)
            for label, metric in self._loaded.items():
                if metric.counts_corpus:
                    raise InputError(
                        f"{label} counts words over the whole corpus, and a batch is not one; use score_stream."
                    )
        names = list(batch)
        rows = [dict(zip(names, values, strict=True)) for values in zip(*batch.values(), strict=True)]
        examples, _, _ = _examples(rows, 0, self.columns, "stop")
        order = grouped_by_reference(examples)
        tallies = score_rows(self._loaded, examples, dict.fromkeys(self._loaded), order, False)
        keys = [key for tally in tallies.values() for key in tally.per_example]
        found = {}
        for label, tally in tallies.items():
            places = np.argsort(tally.rows)
            for key, values in tally.per_example.items():
                found[str(key) if keys.count(key) == 1 else f"{label}.{key}"] = np.array(values)[
                    places
                ].tolist()
        return found
