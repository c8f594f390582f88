"""BERTScore against the bert_score package: same model (MiniLM, layer 5), same texts, same process."""

from __future__ import annotations

import logging

import torch

from summarily.metrics import encoding, load
from summarily.support import weights
from summarily.support.sample import SYSTEMS, load_sample
from tests.benchmarks.timing import ratio

logging.disable(logging.WARNING)


def pairs() -> tuple[list[str], list[str]]:
    rows = load_sample()
    predictions = [row[system] for system in SYSTEMS for row in rows]
    return predictions, [row["references"][0] for _ in SYSTEMS for row in rows]


def main() -> None:
    import bert_score

    torch.set_num_threads(1)
    predictions, references = pairs()
    model = weights.resolve("minilm").path_or_id
    peer = bert_score.BERTScorer(model_type=model, num_layers=5, device="cpu")
    metric = load("bertscore", device="cpu", idf=False)

    def ours() -> list[float]:
        encoding.forget()  # nothing is remembered from the run before
        return metric.compute(predictions, references).per_example["bertscore"]

    def theirs() -> list[float]:
        return peer.score(predictions, references)[2].tolist()

    difference = max(abs(a - b) for a, b in zip(ours(), theirs(), strict=True))
    assert difference < 1e-5, difference
    result = ratio(ours, theirs)
    print(
        f"bertscore: {result.ratio:.2f} times as fast as bert_score on {len(predictions)} pairs "
        f"({result.ours_seconds:.2f} s, {result.theirs_seconds:.2f} s; scores equal to {difference:.0e})"
    )
    assert result.ratio >= 1.0, result


if __name__ == "__main__":
    main()
