"""BERTScore, Mover-1, Mover-2 and contextual SMS in one call, against the cost of BERTScore alone."""

from __future__ import annotations

import logging

import torch

import summarily
from summarily.metrics import encoding, load
from tests.benchmarks.bertscore import pairs
from tests.benchmarks.timing import ratio

logging.disable(logging.WARNING)
LIMIT = 1.5


def main() -> None:
    torch.set_num_threads(1)
    predictions, references = pairs()
    alone = {"bertscore": load("bertscore")}
    together = {
        **alone,
        "mover-1": load("moverscore", n_gram=1),
        "mover-2": load("moverscore", n_gram=2),
        "contextual sms": load("sms", embeddings="contextual", context="text"),
    }

    def run(metrics: dict) -> None:
        encoding.forget()
        summarily.score(predictions, references, metrics=metrics, progress=False)

    result = ratio(lambda: run(together), lambda: run(alone))
    cost = result.ours_seconds / result.theirs_seconds
    print(
        f"shared pass: {', '.join(together)} cost {cost:.2f} times bertscore alone "
        f"({result.ours_seconds:.2f} s, {result.theirs_seconds:.2f} s)"
    )
    assert cost < LIMIT, result


if __name__ == "__main__":
    main()
