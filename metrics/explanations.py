"""Why a summary got its score: a few kinds of explanation, each a dataclass, with JSON by `to_dict`.

- `Spans`: what stands in both texts, and where (ROUGE);
- `Matches`: each token with its best match in the other text (BERTScore, BARTScore);
- `Moves`: what was moved where (MoverScore, WMS, SMS, S+WMS, VERT);
- `Words`: each word with a number (BLEURT, BARTScore's likelihood);
- `Questions`: what was asked and answered (APES).

A reference is named by its number; the texts themselves stand once, at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


class Record:
    """A dataclass that becomes JSON by its fields; `values` (scores by key) stand among the others."""

    def to_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if one.name == "values":
                result.update(value)
            else:
                result[one.metadata.get("json", one.name)] = _plain(value)
        return result


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


@dataclass(frozen=True)
class Explanation(Record):
    """What all kinds have: the metric, its values for this example, and the texts.

    Example:
        >>> Explanation("rouge", {"rouge1": 0.5}, "a cat", ("the cat",)).to_dict()
        {'metric': 'rouge', 'rouge1': 0.5, 'prediction': 'a cat', 'references': ['the cat']}
    """

    metric: str
    values: Mapping[str, float]
    """By key, the main score first."""
    prediction: str
    references: tuple[str, ...]

    digits: ClassVar[int] = 4
    """Decimals to show of the values."""

    def plot(self, axes: Any = None) -> Any:
        """A picture on matplotlib's `axes`: shared words, aligned words, flows or questions, whatever the metric has.

        Example:
            >>> from summarily.metrics import load
            >>> axes = load("rouge").explain("a cat sat", ["the cat sat"]).plot()
            >>> axes.get_title(loc="left")
            'rouge1 0.6667'
        """
        from summarily.metrics.plots import plot_explanation

        return plot_explanation(self, axes)

    def _repr_html_(self) -> str:
        from summarily.metrics.notebooks import explanation_in_notebook

        return explanation_in_notebook(self)


# --- what stands in both texts ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Token(Record):
    """A token as it is compared, and where it stands: `text[start:end]` is the word as written."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class SharedGram(Record):
    """An n-gram that both texts have, how often, and the tokens of each occurrence."""

    reference: int
    gram: tuple[str, ...]
    count: int
    prediction_positions: list[list[int]]
    reference_positions: list[list[int]]


@dataclass(frozen=True)
class SharedToken(Record):
    """A word of a common subsequence; not `counted` if either text had used it up before."""

    reference: int
    token: str
    counted: bool
    reference_position: int
    reference_span: tuple[int, int]
    prediction_positions: list[int]
    prediction_spans: list[tuple[int, int]]


@dataclass(frozen=True)
class Overlaps(Record):
    """What both texts have, how much each has of it, and what precision, recall and F come to."""

    hits: int
    prediction_total: int
    reference_total: int
    precision: float
    recall: float
    f: float


@dataclass(frozen=True)
class Shared(Record):
    """What one way of counting has found; `reference` is the one that the value comes from, None if all."""

    precision: float
    recall: float
    f: float
    reference: int | None
    matches: list[SharedGram | SharedToken]
    per_reference: list[Overlaps]


@dataclass(frozen=True)
class Spans(Explanation):
    """Which parts of the texts are the same, for each way of counting."""

    prediction_tokens: list[Token]
    reference_tokens: list[list[Token]]
    types: dict[str, Shared]


# --- each token with its best match -----------------------------------------------------------------------


@dataclass(frozen=True)
class Aligned(Record):
    """A token, the most similar one of the other text, and its share of the mean."""

    token: str
    match: str
    similarity: float
    weight: float


@dataclass(frozen=True)
class Alignment(Record):
    """Both directions of the matching with one reference: the summary's tokens, and the reference's."""

    reference: int
    precision: list[Aligned]
    recall: list[Aligned]


@dataclass(frozen=True)
class Matches(Explanation):
    """Each token with its best match, against each reference."""

    alignments: list[Alignment]


# --- what was moved where ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move(Record):
    """How much of the summary's unit goes to the reference's, how far, and what that costs."""

    start: str = field(metadata={"json": "from"})
    start_unit: str = field(metadata={"json": "from_unit"})
    end: str = field(metadata={"json": "to"})
    end_unit: str = field(metadata={"json": "to_unit"})
    mass: float
    distance: float

    @property
    def cost(self) -> float:
        return self.mass * self.distance

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "cost": self.cost}


@dataclass(frozen=True)
class Plan(Record):
    """The moves to one reference, the most costly first; no distance if there was nothing to compare."""

    reference: int
    values: Mapping[str, float]
    distance: float | None
    flows: list[Move]


@dataclass(frozen=True)
class Moves(Explanation):
    """The transport plans, one for each reference that the explanation is about."""

    plans: list[Plan]


# --- each word with a number ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Word(Record):
    word: str
    value: float


@dataclass(frozen=True)
class WordsOf(Record):
    """The words of a text, given another, and what the metric says of the two."""

    text: str
    given: str
    values: Mapping[str, float]
    words: list[Word]


@dataclass(frozen=True)
class Words(Explanation):
    """Words with a number each: what it `measures`."""

    measures: str
    """"adds" (to the score) or "log_probability"."""
    texts: list[WordsOf]

    def to_dict(self) -> dict[str, Any]:
        result = super().to_dict()
        for text in result["texts"]:
            text["words"] = [{"word": one["word"], self.measures: one["value"]} for one in text["words"]]
        return result


# --- what was asked and answered --------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked(Record):
    """A question, the right answer, and the reader's with its probability."""

    question: str
    answer: str
    predicted: str | None
    probability: float
    correct: bool


@dataclass(frozen=True)
class Questions(Explanation):
    """The questions about the references, and how they were answered from the summary."""

    digits: ClassVar[int] = 1  # percent

    passage: str
    """The summary as the reader saw it."""
    names: dict[str, str]
    """Of the entities in it, by id."""
    questions: list[Asked]
