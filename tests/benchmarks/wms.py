"""WMS against gensim's `wmdistance` with the same vectors and the same words, both from texts to scores.

gensim gets its own tokenizer. It solves with POT as we do, so that the longer the texts are, the more both
wait for the same solver; one line per length shows that.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from gensim.models import KeyedVectors
from gensim.utils import tokenize

from summarily.metrics.wms.scorer import Wms
from summarily.support.sample import SYSTEMS, load_sample
from summarily.support.text import STOP_WORDS, sentences
from summarily.support.vectors import Vectors, load
from tests.benchmarks.timing import Ratio, ratio


def corpora() -> dict[str, list[tuple[str, str]]]:
    """Pairs of the bundled sample: first sentences, summaries, and articles with their summaries."""
    rows = load_sample()
    summaries = [(row[system], row["references"][0]) for row in rows for system in SYSTEMS]
    return {
        "first sentences": [(sentences(a)[0], sentences(b)[0]) for a, b in summaries],
        "summaries": summaries,
        "articles against summaries": [(row["source"], row["references"][0]) for row in rows],
    }


def gensim_words(text: str, known: Vectors) -> list[str]:
    return [word for word in tokenize(text, lowercase=True) if word not in STOP_WORDS and word in known]


def gensim_vectors(pairs: list[tuple[str, str]], known: Vectors) -> KeyedVectors:
    words = sorted({word for pair in pairs for text in pair for word in gensim_words(text, known)})
    keyed = KeyedVectors(known.dimensions)
    keyed.add_vectors(words, np.stack([known[word] for word in words]))
    return keyed


def measure(pairs: list[tuple[str, str]]) -> Ratio:
    known = load()
    keyed = gensim_vectors(pairs, known)
    metric = Wms(out_of_vocabulary="drop")
    predictions, references = zip(*pairs, strict=True)

    def ours() -> list[float]:
        return metric.compute(predictions, references).per_example["wms"]

    def theirs() -> list[float]:
        words = [(gensim_words(a, known), gensim_words(b, known)) for a, b in pairs]
        return [float(np.exp(-keyed.wmdistance(*pair, norm=False))) for pair in words]

    assert np.allclose(ours(), theirs(), atol=1e-5), "both must compute the same"
    return ratio(ours, theirs)


def main() -> None:
    for name, pairs in corpora().items():
        print(f"WMS of {name}, times faster than gensim's wmdistance: {measure(pairs).ratio:.1f}")


if __name__ == "__main__":
    main()
