"""`compare()`: several systems on the same references, ranked and tested pair by pair."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from summarily.metrics import load_all
from summarily.metrics.base import Example, Score, make_examples
from summarily.metrics.engine import score_examples
from summarily.metrics.resampling import PairedTest, holm, paired_test, too_few
from summarily.metrics.scorecard import Scorecard, as_json
from summarily.support.errors import InputError
from summarily.support.inputs import rows_of
from summarily.support.keys import Key
from summarily.support.progress import Report
from summarily.support.tables import format_table

if TYPE_CHECKING:
    import pandas


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
    """Several systems on the same references: their scorecards, a ranking, and paired tests.

    Example:
        >>> texts = [f"the cat sat on mat number {i}" for i in range(12)]
        >>> result = compare({"A": texts, "B": ["a dog"] * 12}, texts, metrics="rouge")
        >>> result.ranking["rouge"], result.best("rouge"), result.differ("rouge", "A", "B")
        (['A', 'B'], ['A'], True)
    """

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

    def _ranked(self, metric: str) -> str:
        """The systems, best first, and between neighbours whether their difference holds."""
        order = self.ranking[metric]
        marks = [">" if self.differ(metric, *neighbours) else "~" for neighbours in itertools.pairwise(order)]
        return " ".join(
            [order[0], *(f"{mark} {system}" for mark, system in zip(marks, order[1:], strict=True))]
        )

    def differ(self, metric: str, one: str, other: str) -> bool:
        """Whether the difference of two systems' main scores is more than chance, corrected for all pairs."""
        pair = next(p for p in self.pairs if p.metric == metric and {p.first, p.second} == {one, other})
        return pair.p_holm < 1 - self.confidence

    def winner(self, pair: Pair) -> str | None:
        """The better system of a pair, if their difference is more than chance."""
        return pair.better if self.differ(pair.metric, pair.first, pair.second) else None

    def digits(self, metric: str, key: str | None = None) -> int:
        """Decimals to show: the same for all systems."""
        return min(card[metric].digits(key) for card in self.cards.values())

    def best(self, metric: str | None = None, key: str | None = None) -> list[str]:
        """The best system by a value, and those whose distance to it may be chance.

        By default it is the main score of the first metric: BERTScore's recall, if no metric was named.

        Example:
            >>> texts = [f"the cat sat on mat number {i}" for i in range(12)]
            >>> systems = {"A": texts, "B": ["a dog"] * 12, "C": texts}
            >>> compare(systems, texts, metrics="rouge").best("rouge")
            ['A', 'C']
        """
        metric = next(iter(self.ranking)) if metric is None else metric
        scores = {system: card[metric] for system, card in self.cards.items()}
        any_score = next(iter(scores.values()))
        name = any_score.key(key)
        top = max(scores, key=lambda system: name.goodness(scores[system].mean[name]))
        if key is None or key == any_score.main:
            return [system for system in scores if system == top or not self.differ(metric, top, system)]
        weights = any_score._weights_of(key)
        tests = {
            system: paired_test(scores[top].per_example[name], found.per_example[name], weights=weights)
            for system, found in scores.items()
            if system != top
        }
        corrected = dict(zip(tests, holm([test.p_permutation for test in tests.values()]), strict=True))
        return [system for system in scores if system == top or corrected[system] >= 1 - self.confidence]

    def table(self, signatures: bool = True) -> str:
        """Means with intervals; of each metric's main score, which is its first row, the tests of every pair and the
        ranking."""
        first = next(iter(self.cards.values()))
        rows = [
            [
                score.label(key, metric),
                *(card[metric].text(key, self.digits(metric, key)) for card in self.cards.values()),
            ]
            for metric, score in first.items()
            for key in score.shown
        ]
        columns = tuple(range(1, len(self.cards) + 1))
        lines = [format_table(["value", *self.cards], rows, right=columns), ""]
        pair_rows = [
            [
                pair.metric,
                f"{pair.first} - {pair.second}",
                f"{pair.test.difference:+.{self.digits(pair.metric)}f}",
                f"{pair.test.low:+.{self.digits(pair.metric)}f} to {pair.test.high:+.{self.digits(pair.metric)}f}",
                "-" if pair.test.p_bootstrap is None else f"{pair.test.p_bootstrap:.4f}",
                f"{pair.test.p_permutation:.4f}",
                f"{pair.p_holm:.4f}",
                self.winner(pair) or "-",
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
        if warning := too_few(len(next(iter(first.values()))), paired=True):
            lines += ["", warning]
        lines += ["", f"ranking (> differs at p Holm < {1 - self.confidence:.2g}, ~ may be chance)"]
        lines += [
            f"{score.label(score.main, metric)}: {self._ranked(metric)}" for metric, score in first.items()
        ]
        if first.skipped:
            lines += ["", "skipped", *(f"{name}: {reason}" for name, reason in first.skipped.items())]
        if signatures:
            lines += ["", "signatures", *(str(score.signature) for score in first.values())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Comparison({'; '.join(f'{metric}: {self._ranked(metric)}' for metric in self.ranking)})"

    def _repr_html_(self) -> str:
        from summarily.metrics.notebooks import comparison_html

        return comparison_html(self)

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
        return as_json(self.to_dict(), path)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per system and example."""
        import pandas

        return pandas.concat(
            {system: card.to_pandas() for system, card in self.cards.items()}, names=["system", "example"]
        )


def compare(
    systems: Mapping[str, Any],
    references: Any,
    sources: Any = None,
    metrics: Any = "all",
    preset: str = "light",
    confidence: float = 0.95,
    progress: bool | Report | None = None,
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
