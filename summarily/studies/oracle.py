"""The best that copying sentences can do: chosen with the reference in view, a bound and no summarizer."""

from __future__ import annotations

from collections.abc import Sequence


def oracle(source: str, references: Sequence[str], count: int = 3) -> str:
    """Up to `count` sentences of the source in its order, one a line: greedily those that raise the mean of ROUGE-1 and
    ROUGE-2 most (Nallapati et al. 2017).

    Example:
        >>> oracle("It rained. Snow closed the airport. A dog barked.", ["The airport was closed by snow."], 1)
        'Snow closed the airport.'
    """
    from summarily.metrics import load
    from summarily.support.text import sentences

    found = sentences(source)
    rouge = load("rouge", types=["rouge1", "rouge2"])
    chosen: list[int] = []
    best = 0.0
    for _ in range(min(count, len(found))):
        places = [place for place in range(len(found)) if place not in chosen]
        texts = ["\n".join(found[i] for i in sorted([*chosen, place])) for place in places]
        values = rouge.compute(texts, [list(references)] * len(texts)).per_example
        gained = [(a + b) / 2 for a, b in zip(values["rouge1"], values["rouge2"], strict=True)]
        if max(gained, default=0.0) <= best:
            break
        best = max(gained)
        chosen.append(places[gained.index(best)])
    return "\n".join(found[i] for i in sorted(chosen))
