"""Training throughput beside BART of the same size, and how each mechanism's cost grows with the length.

    python -m tests.benchmarks.attention_variants [--threads 1] [--repeats 7]

CPU time (`time.process_time`) after a warm-up, the models taking turns; medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from transformers import BartConfig, BartForConditionalGeneration

from summarily.modeling import AttentionVariantConfig, AttentionVariantForConditionalGeneration
from summarily.modeling.attention.blocks import attention, plan_blocks
from summarily.modeling.attention.masks import MECHANISMS, attention_pattern

VOCABULARY, HIDDEN, LAYERS, HEADS, WIDE = 8000, 256, 4, 4, 1024
LENGTHS = (512, 1024, 2048, 4096, 8192)


def cpu_seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def batches(source: int, target: int, count: int = 2, size: int = 16) -> list[dict[str, torch.Tensor]]:
    """Padded batches of random tokens, three quarters full on average."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(count):
        ids = torch.randint(3, VOCABULARY, (size, source), generator=generator)
        lengths = torch.randint(source // 2, source + 1, (size, 1), generator=generator)
        mask = (torch.arange(source) < lengths).long()
        labels = torch.randint(3, VOCABULARY, (size, target), generator=generator)
        ends = torch.randint(target // 2, target + 1, (size, 1), generator=generator)
        made.append(
            {
                "input_ids": ids * mask,
                "attention_mask": mask,
                "labels": labels.masked_fill(torch.arange(target) >= ends, -100),
            }
        )
    return made


def training_epoch(model: torch.nn.Module, data: list[dict[str, torch.Tensor]]) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def run() -> None:
        for batch in data:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def pair_of_models(
    attention_dropout: float, label_smoothing: float
) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Ours and BART, both with ReLU and the same sizes and dropouts, in training mode."""
    torch.manual_seed(0)
    dropouts = {
        "dropout": 0.1,
        "attention_dropout": attention_dropout,
        "activation_dropout": attention_dropout,
    }
    ours = AttentionVariantForConditionalGeneration(
        AttentionVariantConfig(
            vocab_size=VOCABULARY,
            hidden_size=HIDDEN,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=WIDE,
            label_smoothing=label_smoothing,
            **dropouts,
        )
    )
    bart = BartForConditionalGeneration(
        BartConfig(
            vocab_size=VOCABULARY,
            d_model=HIDDEN,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=WIDE,
            decoder_ffn_dim=WIDE,
            activation_function="relu",
            pad_token_id=0,
            decoder_start_token_id=0,
            **dropouts,
        )
    )
    return ours.train(), bart.train()


def compare_with_bart(repeats: int) -> None:
    for name, source, target, attention_dropout, smoothing in (
        ("headlines, BART's dropouts and loss", 48, 16, 0.0, 0.0),
        ("headlines, the paper's dropouts and label smoothing", 48, 16, 0.1, 0.1),
        ("articles, BART's dropouts and loss", 384, 64, 0.0, 0.0),
    ):
        data = batches(source, target)
        ours, bart = (training_epoch(model, data) for model in pair_of_models(attention_dropout, smoothing))
        ours(), bart()
        times: list[tuple[float, float]] = [(cpu_seconds(ours), cpu_seconds(bart)) for _ in range(repeats)]
        mine, theirs = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"training throughput, dot product / BART ({name}): {theirs / mine:.3f}", flush=True)


def measure_growth(repeats: int) -> None:
    """Forward and backward of one attention, 4 heads of 32, blocks of 64."""
    for mechanism in MECHANISMS:
        pattern = attention_pattern(mechanism, block_length=64, width=64, memory_length=64)
        if not pattern.blocked:
            continue
        medians = []
        for length in LENGTHS:
            states = torch.randn(1, 4, length, 32, requires_grad=True)

            def step(states=states, pattern=pattern, length=length) -> None:
                attention(states, states, states, plan_blocks(pattern, length)).sum().backward()

            step()
            medians.append(statistics.median(cpu_seconds(step) for _ in range(repeats)))
        growth = medians[-1] / medians[0]
        cells = " ".join(
            f"{length}:{seconds * 1e3:.1f}ms" for length, seconds in zip(LENGTHS, medians, strict=True)
        )
        print(f"time of {mechanism}, 8192 / 512 tokens (linear is 16): {growth:.1f}  ({cells})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    compare_with_bart(arguments.repeats)
    measure_growth(arguments.repeats)


if __name__ == "__main__":
    main()
