"""Scores that are computed once: a file of scores by content and signature, and the numbers kept of a study.

A score is found again only if the metric's signature (corpus statistics included) and every text are the same.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import math
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from summarily.metrics import load, load_all
from summarily.metrics.base import Example, Metric, Score, Values

# The two halves of `score_examples`: here the statistics are of all examples, and the work is of those missing.
from summarily.metrics.engine import grouped_by_reference, notices_of, score_rows
from summarily.support.errors import InputError, first_line, warn
from summarily.support.files import write_atomically
from summarily.support.inputs import literal, parse_json
from summarily.support.keys import Key, keyed

ROWS_AT_ONCE = 1024
"""After so many the file is up to date: what was stopped goes on from there."""

_TABLES = """
create table if not exists signatures (id integer primary key, signature text unique, keys text);
create table if not exists scores (signature integer, example blob, numbers blob, primary key (signature, example))
    without rowid;
create table if not exists notes (name text primary key, value text);
"""


class ScoreStore:
    """Scores by signature and content, in a file (SQLite) or in memory.

    Example:
        >>> store, rouge = ScoreStore(), {"rouge": load("rouge")}
        >>> examples = [Example("a cat sat", ("the cat sat",))]
        >>> store.score(rouge, examples)["rouge"].mean["rouge1"] == store.score(rouge, examples)["rouge"].mean["rouge1"]
        True
        >>> store.computed  # the second time nothing was
        {'rouge': 1}
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self.path = path
        with self._readable():
            self.connection = sqlite3.connect(str(path) if path else ":memory:", timeout=60)
            self.connection.executescript(_TABLES)
        self.computed: dict[str, int] = {}
        """How many scores were computed rather than found, by label."""

    def score(
        self, metrics: Mapping[str, Metric], examples: Sequence[Example], progress: bool | None = None
    ) -> dict[str, Score]:
        """Score the examples; only what the file lacks is computed."""
        if not examples:
            raise InputError("there are no examples to score.")
        with self._readable():
            return self._score(metrics, examples, progress)

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, read-only, full, or of another format
            raise InputError(f"{self.path} cannot be used for scores: {error}.") from None
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self.path} is not a file of scores: {error}.") from None

    def _score(
        self, metrics: Mapping[str, Metric], examples: Sequence[Example], progress: bool | None
    ) -> dict[str, Score]:
        digests = [_digest(example) for example in examples]
        for text in notices_of(metrics, examples):
            warn(text)
        statistics = {label: metric.statistics(examples) for label, metric in metrics.items()}
        numbers = {
            label: self._number(str(metric.signature(statistics[label])), metric.keys)
            for label, metric in metrics.items()
        }
        missing = {label: self._missing(numbers[label], digests) for label in metrics}
        order = grouped_by_reference(examples)
        # Metrics that lack the same rows run together and share their encoder passes.
        together: dict[tuple[int, ...], list[str]] = {}
        for label, lacking in missing.items():
            together.setdefault(tuple(row for row in order if row in lacking), []).append(label)
        for rows, labels in together.items():
            for start in range(0, len(rows), ROWS_AT_ONCE):
                part = rows[start : start + ROWS_AT_ONCE]
                chosen = {label: metrics[label] for label in labels}
                tallies = score_rows(chosen, examples, statistics, part, progress)
                for label, tally in tallies.items():
                    self._keep(numbers[label], digests, tally)
                    self.computed[label] = self.computed.get(label, 0) + len(part)
        return {
            label: self._found(label, metric, numbers[label], digests, statistics[label])
            for label, metric in metrics.items()
        }

    def _number(self, signature: str, keys: Sequence[str]) -> int:
        with self.connection:
            self.connection.execute(
                "insert or ignore into signatures (signature, keys) values (?, ?)",
                (signature, json.dumps(list(keys))),
            )
        row = self.connection.execute(
            "select id from signatures where signature = ?", (signature,)
        ).fetchone()
        return int(row[0])

    def _known(self, number: int) -> dict[bytes, bytes]:
        return dict(
            self.connection.execute("select example, numbers from scores where signature = ?", (number,))
        )

    def _missing(self, number: int, digests: Sequence[bytes]) -> set[int]:
        """The first row of every content that has no score yet."""
        seen = set(self._known(number))
        rows = set()
        for row, digest in enumerate(digests):
            if digest not in seen:
                seen.add(digest)
                rows.add(row)
        return rows

    def _keep(self, number: int, digests: Sequence[bytes], tally: Any) -> None:
        weights = tally.weights or [1.0] * len(tally.rows)
        columns = [*tally.per_example.values(), weights]
        with self.connection:
            self.connection.execute(
                "update signatures set keys = ? where id = ?", (json.dumps(list(tally.per_example)), number)
            )
            self.connection.executemany(
                "insert or replace into scores values (?, ?, ?)",
                [
                    (number, digests[row], np.array([column[i] for column in columns], "<f8").tobytes())
                    for i, row in enumerate(tally.rows)
                ],
            )

    def _found(
        self, label: str, metric: Metric, number: int, digests: Sequence[bytes], statistics: Any
    ) -> Score:
        known = self._known(number)
        try:
            keys = json.loads(
                self.connection.execute("select keys from signatures where id = ?", (number,)).fetchone()[0]
            )
            numbers = b"".join(known[digest] for digest in digests)
            table = np.frombuffer(numbers, "<f8").reshape(len(digests), len(keys) + 1)
        except (ValueError, TypeError) as error:
            raise InputError(f"{self.path} is damaged ({first_line(error)}); delete it.") from None
        weights = table[:, -1].tolist()
        return Score(
            label,
            keyed({key: table[:, column].tolist() for column, key in enumerate(keys)}, metric.keys),
            metric.signature(statistics),
            weights=None if all(weight == 1.0 for weight in weights) else weights,
        )

    def note(self, name: str) -> Any:
        """Something else that was measured under a name (a profile), or None."""
        row = self.connection.execute("select value from notes where name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep_note(self, name: str, value: Any) -> None:
        with self.connection:
            self.connection.execute("insert or replace into notes values (?, ?)", (name, json.dumps(value)))


def _digest(example: Example) -> bytes:
    content = json.dumps([example.prediction, example.references, example.source])
    return hashlib.blake2b(content.encode("utf-8"), digest_size=16).digest()


# --- which metrics, and which of their values -----------------------------------------------------------------

VALUES = {
    "rouge": tuple(
        f"{name}{part}" for name in ("rouge1", "rouge2", "rougeL", "rougeLsum") for part in ("", "_recall")
    ),
    "bertscore": ("bertscore_recall", "bertscore"),
}
"""The values that are reported; of every other metric the main score is."""


class FirstReferences(Metric):
    """Another metric that is shown the first references only; the signature says so where it makes a difference.

    Example:
        >>> metric = FirstReferences(load("rouge"), 1)
        >>> metric.compute(["a cat"], [["a dog", "a cat"]]).mean["rouge1"]
        0.5
    """

    def __init__(self, metric: Metric, count: int):
        self.metric, self.count = metric, count
        self.name, self.summary, self.preset = metric.name, metric.summary, metric.preset  # type: ignore[misc]

    @property
    def keys(self) -> tuple[str, ...]:
        return self.metric.keys

    def _cut(self, examples: Sequence[Example]) -> list[Example]:
        return [replace(example, references=example.references[: self.count]) for example in examples]

    def check(self) -> None:
        self.metric.check()

    def statistics(self, examples: Sequence[Example]) -> Any:
        return self.metric.statistics(self._cut(examples)), any(
            len(e.references) > self.count for e in examples
        )

    def notice(self, examples: Sequence[Example]) -> str | None:
        return self.metric.notice(self._cut(examples))

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        inner, makes_a_difference = statistics or (None, True)
        cut = {"max_references": self.count} if makes_a_difference else {}
        return {**self.metric.signature_fields(inner), **cut}

    def requests(self, examples: Sequence[Example]) -> list[Any]:
        return self.metric.requests(self._cut(examples))

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        return self.metric.score_examples(self._cut(examples), statistics[0])


_OPTIONS: dict[str, dict[str, Any]] = {"rouge": {"split_sentences": True}, "bleurt": {"max_references": 1}}


def choose_metrics(
    names: str = "all", preset: str = "light", only: str | None = None
) -> tuple[dict[str, Metric], dict[str, str]]:
    """Metrics by label, and those left out with the reason.

    "all" is every metric that runs here: MoverScore with 1-grams and 2-grams, the movers with static and with
    contextual embeddings, ROUGE with texts split into sentences (else Lsum is L), APES and BLEURT with the first
    reference only (they read every reference with every summary, which costs as many times as much); otherwise a comma-separated list of names, each with its options in brackets if any.

    Example:
        >>> list(choose_metrics("rouge, wms(embeddings=contextual)")[0])
        ['rouge', 'wms(embeddings=contextual)']

    `only` takes some of "all" by their labels there, such as "rouge,wms contextual".
    """
    if only is not None:
        everything, left_out = choose_metrics("all", preset)
        for label in _split(only):
            if label not in everything:
                reason = left_out.get(label) or f"it is none of {', '.join(everything)}."
                raise InputError(f"--only {label}: {reason}")
        return {label: everything[label] for label in everything if label in _split(only)}, {}
    if names != "all":
        return {label: _one(label, preset) for label in _split(names)}, {}
    chosen, skipped = load_all("all", preset)
    metrics: dict[str, Metric] = {}
    for name, metric in chosen.items():
        if name == "moverscore":
            metrics["mover-1"] = load(name, preset=preset, n_gram=1)
            metrics["mover-2"] = load(name, preset=preset, n_gram=2)
            continue
        metrics[name] = load(name, preset=preset, **_OPTIONS[name]) if name in _OPTIONS else metric
        if name == "apes":
            metrics[name] = FirstReferences(metric, 1)
        if name in ("wms", "sms", "s_wms"):
            metrics[f"{name} contextual"] = load(name, preset=preset, embeddings="contextual")
    return metrics, skipped


def _split(names: str) -> list[str]:
    """Split at the commas that are not in brackets."""
    parts, depth = [""], 0
    for character in names:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    found = [part.strip() for part in parts if part.strip()]
    if not found:
        raise InputError('--metrics is empty; name at least one, or "all".')
    return found


def _one(label: str, preset: str) -> Metric:
    name, bracket, rest = label.partition("(")
    options = {}
    if bracket:
        if not rest.endswith(")"):
            raise InputError(f"--metrics {label}: a bracket is not closed.")
        for entry in rest[:-1].split(","):
            option, equals, value = entry.partition("=")
            if not equals:
                raise InputError(f"--metrics {label}: expected NAME(OPTION=VALUE).")
            options[option.strip()] = literal(value.strip())
    metric = load(name.strip(), preset=preset, **options)
    metric.check()
    return metric


def reported(scores: Mapping[str, Score]) -> dict[str, np.ndarray]:
    """The reported values of each score as columns by label; NaN where an example has no weight (a reference
    without a question to ask has no APES). Of every column more is better: where less is, its sign is turned, and
    its label begins with a minus."""
    columns: dict[str, np.ndarray] = {}
    for label, score in scores.items():
        chosen = VALUES.get(score.signature.metric, (score.main,))
        for key in map(Key, keyed(dict.fromkeys(chosen), score.per_example)):
            name = ("" if key.higher_is_better else "-") + _label(label, score, key)
            values = np.array([key.goodness(value) for value in score.per_example[key]])
            if score.weights is not None:
                values = np.where(np.array(score.weights) > 0, values, np.nan)
            columns[name] = values
    return columns


def _label(label: str, score: Score, key: str) -> str:
    if label == score.signature.metric:
        return key
    return label if key == score.main else f"{label} {key}"


# --- what is kept of a study: numbers only ------------------------------------------------------------------


@dataclass
class Scored:
    """The numbers of one set: scores by metric, human scores by question, and who wrote what. No texts."""

    name: str
    human: dict[str, list[float]]
    columns: dict[str, list[float]]
    inputs: list[int]
    systems: list[int]
    system_names: list[str]
    signatures: dict[str, str]
    notes: dict[str, str] = field(default_factory=dict)
    controls: dict[str, list[float]] = field(default_factory=dict)
    """What can be seen of a summary without reading it: its length, and how little it repeats itself."""

    def __len__(self) -> int:
        return len(self.inputs)


def significant(values: Sequence[float] | np.ndarray, digits: int = 6) -> list[float]:
    """Rounded to so many significant digits, which is what is kept and what every table is made from."""
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, dtype=float)]


def numbered(keys: Sequence[str]) -> tuple[list[int], list[str]]:
    names = list(dict.fromkeys(keys))
    place = {name: number for number, name in enumerate(names)}
    return [place[key] for key in keys], names


def save_result(folder: str | os.PathLike[str], kind: str, name: str, result: Any) -> Path:
    """Write the numbers of a study to `folder` as gzipped JSON, the same bytes for the same numbers."""
    path = Path(folder) / f"{kind}.{name}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    value = asdict(result) if isinstance(result, Scored) else result
    text = json.dumps(_null(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_atomically(path, gzip.compress(text.encode("utf-8"), mtime=0))
    return path


def merged(kept: Any, fresh: Any, order: Sequence[str]) -> Any:
    """What was kept of a study, with the numbers of the metrics that were computed again in the place of their old ones.

    Args:
        kept, fresh: the results of one study on the same texts.
        order: the labels of the metrics, as tables show them.

    Example:
        >>> kept = Scored("a", {"q": [1.0]}, {"sms": [0.2], "rouge1": [0.1]}, [0], [0], ["x"], {"sms": "", "rouge": ""})
        >>> fresh = replace(kept, columns={"rouge1": [0.3], "rouge2": [0.4]}, signatures={"rouge": "new"})
        >>> merged(kept, fresh, ["rouge", "sms"]).columns
        {'rouge1': [0.3], 'rouge2': [0.4], 'sms': [0.2]}
    """
    if isinstance(fresh, Scored):
        same = (kept.human, kept.inputs, kept.systems) == (fresh.human, fresh.inputs, fresh.systems)
        old, new = (vars(result) for result in (kept, fresh))
        columns = "columns"
    else:
        numbers = [key for key in fresh if key not in ("metrics", "signatures", "threads")]
        same = all(kept[key] == fresh[key] for key in numbers)
        old, new, columns = kept, fresh, "metrics"
    if not same:
        raise InputError("what was kept is of other texts or judgements; compute all metrics again.")
    of_old, of_new = (list(result["signatures"]) for result in (old, new))
    stay = {label: one for label, one in old[columns].items() if owner_of(label, of_old) not in of_new}
    signatures = {**old["signatures"], **new["signatures"]}
    places = {label: place for place, label in enumerate(dict.fromkeys([*order, *signatures]))}
    together = {**stay, **new[columns]}
    ranks = {label: places.get(owner_of(label, list(signatures)) or "", len(places)) for label in together}
    found: dict[str, Any] = {
        columns: {label: together[label] for label in sorted(together, key=ranks.__getitem__)}
    }
    found["signatures"] = {label: signatures[label] for label in sorted(signatures, key=places.__getitem__)}
    return replace(fresh, **found) if isinstance(fresh, Scored) else {**fresh, **found}


def owner_of(label: str, metrics: Sequence[str]) -> str | None:
    """The metric that a value is of: "rouge1" is of "rouge".

    Example:
        >>> owner_of("rouge1", ["rouge", "sms"]), owner_of("sms contextual", ["sms", "sms contextual"])
        ('rouge', 'sms contextual')
    """
    return max((name for name in metrics if label.startswith(name)), key=len, default=None)


def load_results(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """What `save_result` has written, by kind and name."""
    files = sorted(Path(folder).glob("*.json.gz"))
    if not files:
        raise InputError(f"{folder} has no stored results (*.json.gz).")
    results: dict[str, dict[str, Any]] = {}
    for file in files:
        kind, name = file.name.removesuffix(".json.gz").split(".", 1)
        try:
            value = parse_json(str(file), gzip.decompress(file.read_bytes()).decode("utf-8"))
            if kind in ("human", "paraphrase", "sweep"):
                value["columns"] = {label: _nan(column) for label, column in value["columns"].items()}
                value["human"] = {question: _nan(column) for question, column in value["human"].items()}
                value = Scored(**value)
        except (
            OSError,
            EOFError,
            zlib.error,
            UnicodeDecodeError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            raise InputError(f"{file} is not a result that was stored: {first_line(error)}") from None
        results.setdefault(kind, {})[name] = value
    return results


def _null(value: Any) -> Any:
    """An undefined number is null in JSON."""
    if isinstance(value, dict):
        return {key: _null(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_null(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _nan(column: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in column]
