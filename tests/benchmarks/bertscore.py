"""BERTScore against the bert_score package: same model (MiniLM, layer 5), same texts, same process; then whatever reads with
MiniLM, in bfloat16 against itself in float32; and the share of padding in what the encoder reads."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from scipy.stats import spearmanr

from summarily.metrics import encoding, load
from summarily.metrics.base import Metric
from summarily.support import weights
from summarily.support.sample import SYSTEMS, load_sample
from tests.benchmarks.timing import ratio

logging.disable(logging.WARNING)
ENCODED: dict[str, dict[str, Any]] = {
    "bertscore": {},
    "moverscore": {},
    "sms": {"embeddings": "contextual"},
    "vert": {},
}
"""What reads with the light encoder, as it comes."""


def pairs() -> tuple[list[str], list[str]]:
    rows = load_sample()
    predictions = [row[system] for system in SYSTEMS for row in rows]
    return predictions, [row["references"][0] for _ in SYSTEMS for row in rows]


def padding(texts: list[str]) -> float:
    """The share of padding in the batches that the encoder makes of texts."""
    shared = encoding.encoder(device="cpu")
    read = []
    forward = shared._forward

    def counted(batch: Sequence[tuple[str, encoding.Encoded]], layers: frozenset[int]) -> Any:
        lengths = [len(encoded) for _, encoded in batch]
        read.append((sum(lengths), len(lengths) * max(lengths)))
        return forward(batch, layers)

    shared._forward = counted  # type: ignore[method-assign]
    try:
        encoding.forget()
        shared.encode(texts, [5])
    finally:
        del shared._forward
    tokens, padded = map(sum, zip(*read, strict=True))
    return 1 - tokens / padded


def precisions(predictions: list[str], references: list[str]) -> None:
    """bfloat16 beside float32: pairs a second, and how far scores and their order move."""
    for name, options in ENCODED.items():
        exact, half = (load(name, device="cpu", dtype=dtype, **options) for dtype in ("float32", "bfloat16"))

        def run(metric: Metric) -> list[float]:
            encoding.forget()
            score = metric.compute(predictions, references)
            return score.per_example[score.main]

        result = ratio(lambda: run(half), lambda: run(exact), repeats=3)  # noqa: B023  called here alone
        a, b = run(exact), run(half)
        speeds = [len(predictions) / seconds for seconds in (result.ours_seconds, result.theirs_seconds)]
        moved = max(abs(x - y) for x, y in zip(a, b, strict=True))
        print(
            f"{name}: bfloat16 is {result.ratio:.2f} times as fast as float32 ({speeds[0]:.0f} and {speeds[1]:.0f} pairs "
            f"a CPU second); scores move by at most {moved:.4f}, Spearman's rho {spearmanr(a, b).statistic:.5f}",
            flush=True,
        )


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
    precisions(predictions, references)
    share = padding([*predictions, *references])
    print(f"padding: {share:.1%} of what the encoder reads")
    assert share < 0.05, share


if __name__ == "__main__":
    main()
