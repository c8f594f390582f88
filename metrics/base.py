"""What every metric shares: input validation, `Metric`, `Score` and `Signature`.

A metric fills in a few hooks (see `Metric`); validation, counting, merging, intervals, costs and
signatures are written here once. The state of a metric is the examples it has been given (`State`):
states add up, so processes, shards and streams all end in the same call.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from summarily.support.errors import InputError
from summarily.support.inputs import checked_text, rows_of
from summarily.support.keys import Key, named
from summarily.support.version import __version__

if TYPE_CHECKING:
    from summarily.metrics.explanations import Explanation


@dataclass(frozen=True, slots=True)
class Example:
    """One prediction with its references and, if the metric reads it, the source document.

    Example:
        >>> Example("a cat", ("the cat",)).source is None
        True
    """

    prediction: str
    references: tuple[str, ...]
    source: str | None = None


# --- validation -------------------------------------------------------------------------------------------


def _references(row: int, value: Any) -> tuple[str, ...]:
    where = f"references[{row}]"
    if isinstance(value, (list, tuple)) or (
        type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 1
    ):
        if len(value) == 0:
            raise InputError(f"{where} is an empty list; give at least one reference or drop the row.")
        return tuple(checked_text(f"{where}[{j}]", text) for j, text in enumerate(value))
    return (checked_text(where, value),)


def make_examples(predictions: Any, references: Any, sources: Any = None) -> list[Example]:
    """Check the inputs and pair them up.

    Example:
        >>> make_examples(["a cat"], [["the cat", "one cat"]])[0].references
        ('the cat', 'one cat')
    """
    prediction_rows = rows_of("predictions", predictions)
    reference_rows = rows_of("references", references)
    if len(prediction_rows) != len(reference_rows):
        message = f"predictions has {len(prediction_rows)} rows but references has {len(reference_rows)}."
        streams = [row for row in reference_rows if isinstance(row, (list, tuple))]
        if streams and len(streams) == len(reference_rows) and len(streams[0]) == len(prediction_rows):
            message += (
                " references looks transposed (one list per reference stream);"
                " did you mean list(zip(*references))?"
            )
        raise InputError(message)
    if not prediction_rows:
        raise InputError("predictions is empty; there is nothing to score.")
    source_rows: list[Any] = [None] * len(prediction_rows)
    if sources is not None:
        source_rows = rows_of("sources", sources)
        if len(source_rows) != len(prediction_rows):
            raise InputError(
                f"predictions has {len(prediction_rows)} rows but sources has {len(source_rows)}."
            )
    return [
        Example(
            checked_text(f"predictions[{row}]", prediction),
            _references(row, reference),
            None if sources is None else checked_text(f"sources[{row}]", source),
        )
        for row, (prediction, reference, source) in enumerate(
            zip(prediction_rows, reference_rows, source_rows, strict=True)
        )
    ]


def distinct_texts(examples: Sequence[Example]) -> list[str]:
    """Every prediction and reference once, in the order of appearance."""
    return list(dict.fromkeys(text for e in examples for text in (e.prediction, *e.references)))


def distinct_pairs(examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Every prediction with each of its references, once."""
    return list(dict.fromkeys((e.prediction, reference) for e in examples for reference in e.references))


def count_empty(
    examples: Sequence[Example], is_empty: Callable[[str], bool] = lambda text: not text.strip()
) -> dict[str, int]:
    """How many predictions and references are empty: by default, have nothing but white space.

    Example:
        >>> count_empty(make_examples([" "], [["a cat", "the cat"]]))
        {'empty_predictions': 1, 'empty_references': 0}
    """
    return {
        "empty_predictions": sum(is_empty(e.prediction) for e in examples),
        "empty_references": sum(is_empty(text) for e in examples for text in e.references),
    }


# --- results ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Signature:
    """What exactly was computed: two equal signatures promise equal numbers.

    Example:
        >>> str(Signature("rouge", {"mode": "google", "stemmer": False}))
        'rouge|mode:google|stemmer:no|version:0.1.0'
    """

    metric: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__

    @staticmethod
    def _value(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, (list, tuple)):
            return "+".join(map(str, value))
        return str(value)

    def __str__(self) -> str:
        parts = [f"{key}:{self._value(value)}" for key, value in self.fields.items() if value is not None]
        return "|".join([self.metric, *parts, f"version:{self.version}"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Interval(NamedTuple):
    """A confidence interval of a mean.

    Example:
        >>> Interval(0.1, 0.3, 0.95).high
        0.3
    """

    low: float
    high: float
    confidence: float


@dataclass
class Values:
    """What a metric's `score_examples` returns: one list per key, in the order of the examples.

    `weights` are given by metrics whose aggregate is pooled rather than averaged (APES pools questions:
    the weight of an example is its number of questions).

    Example:
        >>> Values({"length": [3.0, 5.0]}, counts={"empty": 0}).per_example["length"]
        [3.0, 5.0]
    """

    per_example: dict[str, list[float]]
    counts: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    weights: list[float] | None = None


@dataclass
class Score:
    """One metric's result for a corpus.

    `mean` is keyed like `per_example`; the first key is the metric's main score.

    Example:
        >>> score = Score("length", {"length": [3.0, 5.0]}, Signature("length"))
        >>> float(score), len(score), score.mean
        (4.0, 2, {'length': 4.0})
    """

    name: str
    per_example: dict[str, list[float]]
    signature: Signature
    counts: dict[str, int] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    weights: list[float] | None = None
    interval: dict[str, Interval] | None = None
    averaged: tuple[str, ...] = ()
    """Keys that `weights` do not concern: their mean is over the examples."""
    explainer: Callable[[int], Explanation] | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        """Means, in one line: of a test set, the values would fill a terminal for minutes."""
        means = self.mean
        values = ", ".join(f"{key} {means[key]:.{self.digits(key)}f}" for key in self.shown)
        rows = f"{len(self):,} example{'' if len(self) == 1 else 's'}"
        return f"{type(self).__name__}({self.name}: {values}; {rows})"

    @property
    def main(self) -> Key:
        """The key of the main score."""
        return Key(next(iter(self.per_example)))

    def key(self, name: str | None = None) -> Key:
        """The key of this name, with its direction; by default that of the main score."""
        return self.main if name is None else named(name, self.per_example, self.name)

    @property
    def ordered(self) -> list[Key]:
        """All values as a table shows them: the main score first, recall and precision beside the F they belong to.

        Example:
            >>> from summarily.metrics import load
            >>> load("rouge", types=("rouge1", "rouge2")).compute(["a cat"], ["the cat"]).ordered[:4]
            ['rouge1', 'rouge1_recall', 'rouge1_precision', 'rouge2']
        """
        keys = list(map(Key, self.per_example))
        stems = [key.removesuffix("_recall").removesuffix("_precision") for key in keys]
        parts = ["", "_recall", "_precision"]

        def place(key: Key) -> tuple[bool, int, int]:
            stem = stems[keys.index(key)]
            return key != self.main, stems.index(stem), parts.index(key.removeprefix(stem))

        return sorted(keys, key=place)

    @property
    def shown(self) -> list[Key]:
        """What a short table shows: the main score and, if that is F or recall, the other of the two.

        Example:
            >>> from summarily.metrics import load
            >>> load("rouge").compute(["a cat sat"], ["the cat sat down"]).shown
            ['rouge1', 'rouge1_recall']
        """
        main = self.main
        other = main.removesuffix("_recall") if main.endswith("_recall") else f"{main}_recall"
        beside = [Key(key) for key in self.per_example if key == other]
        # BARTScore's recall has its own name: there is nothing to add.
        return [main, *(key for key in beside if self.mean[key] != self.mean[main])]

    def label(self, key: str, label: str = "") -> str:
        """What a value is called in a table, where the metric may have a label of its own."""
        text = self.key(key).label
        return text if label in ("", self.name) else f"{label}: {text}"

    @property
    def mean(self) -> dict[str, float]:
        return {key: weighted_mean(values, self._weights_of(key)) for key, values in self.per_example.items()}

    def digits(self, key: str | None = None) -> int:
        """Decimals to show: four, or one where the scale is that of percentages."""
        name = key or self.main
        values = self.per_example[name] or [self.mean[name]]  # a stream keeps its means alone
        return 1 if max(map(abs, values)) >= 50 else 4

    def text(self, key: str, digits: int) -> str:
        """The mean of a value, with its interval if it is known."""
        text = f"{self.mean[key]:.{digits}f}"
        if self.interval:
            interval = self.interval[key]
            text += f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
        return text

    def _weights_of(self, key: str) -> list[float] | None:
        return None if key in self.averaged else self.weights

    def __len__(self) -> int:
        return len(self.per_example[self.main])

    def __float__(self) -> float:
        return self.mean[self.main]

    def explain(self, row: int) -> Explanation:
        """Why example `row` got its score: what was matched with what."""
        if self.explainer is None:
            raise InputError(
                f"this {self.name} score no longer holds its texts; call Metric.explain(prediction, references)."
            )
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} is out of range: the score has {len(self)} examples.")
        return self.explainer(range(len(self))[row])

    def plot(self, key: str | None = None, axes: Any = None) -> Any:
        """A histogram of a value over the examples (of the main score by default), on matplotlib's `axes`."""
        from summarily.metrics.notebooks import plot

        return plot(self, key, axes)

    def _repr_html_(self) -> str:
        from summarily.metrics.notebooks import score_html

        return score_html(self)

    def with_interval(self, confidence: float | None) -> Score:
        """Fill in `interval` (in place) by a studentised bootstrap over examples."""
        if confidence is not None:
            from summarily.metrics.resampling import mean_intervals

            self.interval = {}
            for averaged in (False, True):
                columns = {k: v for k, v in self.per_example.items() if (k in self.averaged) == averaged}
                weights = None if averaged else self.weights
                bounds = mean_intervals(columns, confidence, weights) if columns else {}
                self.interval |= {key: Interval(*ends, confidence) for key, ends in bounds.items()}
        return self

    def __add__(self, other: Score) -> Score:
        """The score of both corpora together; only scores with equal signatures add up."""
        if not isinstance(other, Score):
            return NotImplemented
        if self.signature != other.signature:
            raise InputError(
                f"scores with different signatures do not add up:\n{self.signature}\n{other.signature}"
            )
        explainers = self.explainer, other.explainer
        split = len(self)

        def explain(row: int) -> Explanation:
            mine, theirs = explainers
            assert mine is not None and theirs is not None
            return mine(row) if row < split else theirs(row - split)

        return Score(
            self.name,
            {key: values + other.per_example[key] for key, values in self.per_example.items()},
            self.signature,
            add_counts(self.counts, other.counts),
            _add_costs(self.cost, other.cost),
            None if self.weights is None or other.weights is None else self.weights + other.weights,
            averaged=self.averaged,
            explainer=explain if None not in explainers else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the explanations, ready for JSON."""
        falling = [key for key in self.per_example if not Key(key).higher_is_better]
        return {
            "metric": self.name,
            "mean": self.mean,
            "interval": None if self.interval is None else {k: list(v) for k, v in self.interval.items()},
            "signature": str(self.signature),
            "counts": self.counts,
            "cost": self.cost,
            "per_example": self.per_example,
            **({"weights": self.weights} if self.weights is not None else {}),
            **({"lower_is_better": falling} if falling else {}),
        }


def weighted_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    if weights is None:
        return math.fsum(values) / len(values)
    total = math.fsum(weights)
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / total if total else 0.0


def _add_costs(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    together = {key: (a.get(key, 0), b.get(key, 0)) for key in {**a, **b}}
    return {
        key: max(pair) if key in ("peak_memory", "processes") else sum(pair) for key, pair in together.items()
    }


def add_counts(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in {**a, **b}}


# --- metrics ----------------------------------------------------------------------------------------------


class Metric(ABC):
    """A metric: options in the constructor, then `compute`.

    To write one, subclass this, set `name`, `keys` and `summary`, and implement `score_examples` and
    `signature_fields`. Optional hooks: `statistics` for what is counted over the whole corpus (idf),
    `requests` to share encoder passes with other metrics, `explain_example`.

    An empty text, one of which nothing is left to compare, scores `empty_score` against anything, and is counted.

    Example:
        >>> class Length(Metric):
        ...     name, summary, keys = "length", "characters of a prediction", ("length",)
        ...     def signature_fields(self, statistics):
        ...         return {}
        ...     def score_examples(self, examples, statistics):
        ...         return Values({"length": [float(len(example.prediction)) for example in examples]})
        >>> Length().compute(["a cat"], ["the cat"]).mean
        {'length': 5.0}
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `summarily metrics`."""
    needs: ClassVar[str] = "nothing beyond the core install"
    """What the light preset needs, in words."""
    citation: ClassVar[str] = ""
    averaged: ClassVar[tuple[str, ...]] = ()
    """Of a metric that gives weights (see `Values`), the keys they do not concern."""

    preset: str = "light"
    empty_score: float | None = 0.0
    """The main score of an empty text. None names the exception: a model that scores any text scores this one too."""
    reward_key: ClassVar[str | None] = None
    """The value to learn from, where it is not the main score: recall alone would teach a model to go on and on."""
    max_references: int | None = None
    """How many references are read, the first ones; None for all."""

    def check(self) -> None:  # noqa: B027 (a hook with a default, not a forgotten abstract method)
        """Raise `MissingRequirement` if a package or weight is not here, without loading it."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The names of the values, the main score first; a `Key` where less is better."""

    @abstractmethod
    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        """Everything that changes the numbers, in the order it is shown."""

    @abstractmethod
    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        """Score some examples. Must not depend on which other examples are in the call."""

    counts_corpus: bool = False
    """Does it have `statistics`? Those of parts of a corpus must add up (`+`) to those of the whole."""

    def statistics(self, examples: Sequence[Example]) -> Any:
        """What has to be known about the whole corpus before any example is scored, such as idf."""
        return None

    def notice(self, examples: Sequence[Example]) -> str | None:
        """What the user should know of these texts: the number will not be what its name says elsewhere."""
        return None

    def requests(self, examples: Sequence[Example]) -> list[Any]:
        """The encoder passes that `score_examples` will want, so that metrics can share them."""
        return []

    def cut_references(self, examples: Sequence[Example]) -> Sequence[Example]:
        """The examples with the references that are read of them; what the other hooks get."""
        if self.max_references is None:
            return examples
        return [replace(e, references=e.references[: self.max_references]) for e in examples]

    def explain(
        self, prediction: Any, references: Any, source: Any = None, statistics: Any = None
    ) -> Explanation:
        """Why this prediction scores what it scores.

        Args:
            statistics: of the corpus that it was scored in (see `statistics`), where the metric has any.
        """
        examples = make_examples([prediction], [references], None if source is None else [source])
        return self.explain_example(self.cut_references(examples)[0], statistics)

    def explain_example(self, example: Example, statistics: Any) -> Explanation:
        """What `explain` returns for inputs that were checked."""
        raise InputError(f"{self.name} has no explanation.")

    def signature(self, statistics: Any = None) -> Signature:
        return Signature(self.name, self.signature_fields(statistics))

    def compute(
        self, predictions: Any, references: Any, sources: Any = None, confidence: float | None = None
    ) -> Score:
        """Score `predictions` against `references` (one each, or a list of them each)."""
        return self.state(predictions, references, sources).score(confidence)

    def state(self, predictions: Any, references: Any, sources: Any = None) -> State:
        """What has been seen so far; states add up (`a + b`), and `state.score()` is the result."""
        return State(self, make_examples(predictions, references, sources))

    def reward(
        self, completions: Sequence[str], references: Sequence[Any], key: str | None = None, **columns: Any
    ) -> list[float]:
        """The main score of each completion (or `reward_key`), or that of `key`, its sign turned if less is better: a
        reward for reinforcement learning."""
        score = self.compute(completions, references, columns.get("sources"))
        chosen = score.key(key or self.reward_key)
        return [chosen.goodness(value) for value in score.per_example[chosen]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, preset={self.preset!r})"


@dataclass
class State:
    """The examples a metric has been given, mergeable across processes, shards and batches.

    Example:
        >>> from summarily.metrics import load
        >>> metric = load("rouge")
        >>> both = metric.state(["a cat"], ["a cat"]) + metric.state(["a dog"], ["no match"])
        >>> both.score().mean["rouge1"]
        0.5
    """

    metric: Metric
    examples: list[Example] = field(default_factory=list)

    def add(self, predictions: Any, references: Any, sources: Any = None) -> None:
        self.examples += make_examples(predictions, references, sources)

    def __add__(self, other: State) -> State:
        if not isinstance(other, State):
            return NotImplemented
        # Statistics are counted at the end, so the signatures compared here are those of the options alone.
        mine, theirs = self.metric.signature(), other.metric.signature()
        if mine != theirs:
            raise InputError(f"states of differently configured metrics do not add up:\n{mine}\n{theirs}")
        return State(self.metric, self.examples + other.examples)

    def score(self, confidence: float | None = None) -> Score:
        from summarily.metrics.engine import score_examples

        return score_examples([self.metric], self.examples, confidence=confidence, progress=False)[
            self.metric.name
        ]
