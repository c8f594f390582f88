"""ROUGE beside rouge_score: rouge1, rouge2, rougeL and rougeLsum of the same pairs, in one process.

With SUMMARILY_DATA set, the pairs are real system outputs; otherwise the bundled sample.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
from pathlib import Path

from rouge_score.rouge_scorer import RougeScorer

from summarily.metrics.rouge.scorer import DEFAULT_TYPES, Rouge
from summarily.support.sample import SYSTEMS, load_sample
from tests.benchmarks.timing import ratio

Pairs = list[tuple[str, str]]


def read(file: str, rows: int) -> list[dict]:
    path = Path(os.environ["SUMMARILY_DATA"]) / "news" / f"{file}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, rows)]


def real_pairs() -> dict[str, Pairs]:
    xsum = read("xsum_outputs", 200)
    cnndm = read("cnndm_simcls_outputs", 200)
    return {
        "xsum pairs": [(output, row["reference"]) for row in xsum for output in row["outputs"].values()],
        "cnn/dailymail pairs": [(row["simcls"], row["reference"]) for row in cnndm],
    }


def sample_pairs() -> dict[str, Pairs]:
    rows = load_sample()
    first_sentences = [
        (row[system].split(". ")[0], row["references"][0].split(". ")[0])
        for row in rows
        for system in SYSTEMS
    ]
    whole = [(row[system], row["references"][0]) for row in rows for system in SYSTEMS]
    return {"xsum-like pairs": first_sentences * 5, "whole sample summaries": whole}


def long_pairs(joint: str) -> Pairs:
    """Pairs of texts of 1,000 words made of the sample's articles, in pieces of 25 words."""
    words = " ".join(row["source"] for row in load_sample()).split()
    starts = range(0, min(len(words) - 1000, 4000), 500)
    texts = [
        joint.join(" ".join(words[i : i + 25]) for i in range(start, start + 1000, 25)) for start in starts
    ]
    return list(zip(texts, texts[3:], strict=False))[:3]


def compare(name: str, pairs: Pairs, stemmer: bool) -> None:
    predictions, references = map(list, zip(*pairs, strict=True))
    ours = Rouge(stemmer=stemmer)
    theirs = RougeScorer(list(DEFAULT_TYPES), use_stemmer=stemmer)
    measured = ratio(
        lambda: ours.compute(predictions, references),
        lambda: [theirs.score(reference, prediction) for prediction, reference in pairs],
    )
    stems = ", stemmer" if stemmer else ""
    print(
        f"rouge, {name}{stems}: {measured.ratio:.1f}x rouge_score "
        f"({1e6 * measured.ours_seconds / len(pairs):.0f} against "
        f"{1e6 * measured.theirs_seconds / len(pairs):.0f} µs a pair)",
        flush=True,
    )


def main() -> None:
    corpora = real_pairs() if "SUMMARILY_DATA" in os.environ else sample_pairs()
    corpora["1,000-token texts"] = long_pairs(" ")
    corpora["1,000-token texts of 40 lines"] = long_pairs("\n")
    for stemmer in (False, True):
        for name, pairs in corpora.items():
            compare(name, pairs, stemmer)


if __name__ == "__main__":
    main()
