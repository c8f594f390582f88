"""What every study of summaries stands beside: ROUGE as papers report it, the first sentences, published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ROUGE: dict[str, Any] = {"stemmer": True, "split_sentences": True}
"""Papers' "ROUGE-L" is that of pyrouge, over the sentences of a summary: Lsum."""
KEYS = ("rouge1", "rouge2", "rougeLsum")
NAMES = ("ROUGE-1", "ROUGE-2", "ROUGE-Lsum")
# ROUGE-1, 2 and L (Lsum) on all 11,490 test articles of CNN/DailyMail, from the papers.
PUBLISHED = {
    "lead-3 (See et al. 2017)": (40.34, 17.70, 36.57),
    "pointer-generator with coverage (See et al. 2017)": (39.53, 17.28, 36.38),
    "T5-small (Raffel et al. 2020)": (41.12, 19.56, 38.35),
}


def lead(source: str, count: int = 3) -> str:
    """The first sentences, one a line.

    Example:
        >>> lead("It rained. It poured. It stopped. Then it snowed.", 2)
        'It rained.\\nIt poured.'
    """
    from summarily.support.text import sentences

    return "\n".join(sentences(source)[:count])


def rouge_of(texts: Sequence[str], references: Sequence[Any]) -> Any:
    """The ROUGE of summaries as papers report it, with intervals.

    Example:
        >>> found = rouge_of(["It rained. It poured.", "It froze."], ["It poured. It rained.", "It froze."])
        >>> round(found.mean["rougeLsum"], 4), round(found.mean["rougeL"], 4)
        (1.0, 0.75)
    """
    from summarily.metrics.scorecard import score

    metrics = {"rouge": ROUGE}
    return score(list(texts), list(references), metrics=metrics, confidence=0.95, progress=False)["rouge"]


def published_cells(places: int = 1) -> Mapping[str, list[str]]:
    """The rows of published systems: name, and ROUGE-1, 2 and Lsum as they stand in a table.

    Example:
        >>> published_cells()["lead-3 (See et al. 2017)"]
        ['40.3', '17.7', '36.6']
    """
    return {name: [f"{value:.{places}f}" for value in values] for name, values in PUBLISHED.items()}
