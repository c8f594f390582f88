"""Our LED beside transformers' LED, base size: attention, encoder, training step, beam search, memory.

    python -m tests.benchmarks.led [--threads 1] [--repeats 3] [--only attention,encoder,step,generation,memory]

Times are CPU seconds in one process, taking turns; memory is the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable

import torch
from transformers import BartConfig, BartForConditionalGeneration, LEDConfig, LEDForConditionalGeneration

from summarily.modeling import LedForConditionalGeneration
from summarily.modeling.attention.window_plan import plan_first_token
from summarily.modeling.generation.shared_cross_attention import generate_with_shared_cross_attention
from summarily.studies.memory import peak_of
from tests.benchmarks.timing import ratio

BASE = {
    "vocab_size": 50265,
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
}
WINDOW = 1024
NEW_TOKENS = 40


def pair(layers: int = 6, **options) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Ours and theirs with the same weights."""
    torch.manual_seed(0)
    config = LEDConfig(**{**BASE, "encoder_layers": layers, **options}, attention_window=WINDOW)
    theirs = LEDForConditionalGeneration(config).eval()
    return LedForConditionalGeneration.from_transformers_led(theirs), theirs


def attention_calls(length: int, backward: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """One encoder self-attention with its projections, one global token."""
    ours, theirs = (model.get_encoder().layers[0].self_attn for model in pair(layers=1, vocab_size=10))
    hidden = torch.randn(1, length, BASE["d_model"], requires_grad=backward)
    plan = plan_first_token(torch.ones(1, length), 1, length, None)
    mask = torch.zeros(1, length)
    mask[:, 0] = 1.0
    flags = {"is_index_masked": mask < 0, "is_index_global_attn": mask > 0, "is_global_attn": True}

    def call(run: Callable[[], torch.Tensor]) -> None:
        with torch.set_grad_enabled(backward):
            output = run()
            if backward:
                output.sum().backward()

    return (
        lambda: call(lambda: ours(hidden, plan)[0]),
        lambda: call(lambda: theirs(hidden, attention_mask=mask, **flags)[0]),
    )


def inputs_of(length: int, first_global: bool) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, BASE["vocab_size"], (1, length), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if first_global:  # ours does so by itself
        inputs["global_attention_mask"] = torch.zeros_like(ids)
        inputs["global_attention_mask"][:, 0] = 1
    return inputs


def report(name: str, ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> None:
    measured = ratio(ours, theirs, repeats)
    print(
        f"{name}: {measured.ratio:.2f}x faster ({measured.ours_seconds:.2f} s, {measured.theirs_seconds:.2f} s)",
        flush=True,
    )


def bench_attention(repeats: int) -> None:
    for length in (4096, 16384):
        for backward, name in ((False, "forward"), (True, "forward + backward")):
            report(f"attention {name}, {length} tokens", *attention_calls(length, backward), repeats)


def bench_encoder(repeats: int) -> None:
    ours, theirs = pair()
    for length in (4096,):

        @torch.no_grad()
        def encode(model, first_global, length=length):
            return model.get_encoder()(**inputs_of(length, first_global))

        report(
            f"encoder, {length} tokens", lambda: encode(ours, False), lambda: encode(theirs, True), repeats
        )


def bench_step(repeats: int) -> None:
    models = [model.train() for model in pair()]
    labels = torch.randint(3, BASE["vocab_size"], (1, 200))
    steps = []
    for model, first_global in zip(models, (False, True), strict=True):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

        def step(model=model, first_global=first_global, optimizer=optimizer):
            model(**inputs_of(4096, first_global), labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        steps.append(step)
    report("training step, 4096 tokens", *steps, repeats)


def bench_generation(repeats: int) -> None:
    options = {"num_beams": 4, "max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}
    ours, theirs = pair()
    tokens = [
        model.generate(**inputs_of(4096, first_global), **options)
        for model, first_global in ((ours, False), (theirs, True))
    ]
    print(f"beam 4 from 4096 tokens, tokens identical: {torch.equal(*tokens)}")
    stock = inputs_of(4096, True)
    report(
        "beam 4 from 4096 tokens, our LED",
        lambda: ours.generate(**inputs_of(4096, False), **options),
        lambda: theirs.generate(**stock, **options),
        repeats,
    )
    report(
        "beam 4 from 4096 tokens, transformers' LED with shared cross-attention",
        lambda: generate_with_shared_cross_attention(theirs, **stock, **options),
        lambda: theirs.generate(**stock, **options),
        repeats,
    )
    bart = BartForConditionalGeneration(BartConfig(**BASE, max_position_embeddings=1024)).eval()
    short = inputs_of(1024, False)
    report(
        "beam 4 from 1024 tokens, BART with shared cross-attention",
        lambda: generate_with_shared_cross_attention(bart, **short, **options),
        lambda: bart.generate(**short, **options),
        repeats,
    )


def bench_memory(repeats: int) -> None:
    """Each side in a process of its own; peaks do not vary, so one run of each is enough."""
    for length in (4096, 16384):
        for backward in (False, True):
            megabytes = [_peak_apart(length, backward, side) for side in (0, 1)]
            name = "forward + backward" if backward else "forward"
            print(
                f"attention {name}, {length} tokens, peak memory: {megabytes[1] / megabytes[0]:.2f}x less "
                f"({megabytes[0]:.0f} MB, {megabytes[1]:.0f} MB)",
                flush=True,
            )


def _peak_apart(length: int, backward: bool, side: int) -> float:
    arguments = json.dumps([length, backward, side])
    command = [sys.executable, "-m", "tests.benchmarks.led", "--peak", arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(result.stdout.splitlines()[-1])


def print_peak(length: int, backward: bool, side: int) -> None:
    attention_calls(1024, backward)[side]()  # loads kernels
    calls = attention_calls(length, backward)
    print(peak_of(calls[side])[0])


BENCHMARKS = {
    "attention": bench_attention,
    "encoder": bench_encoder,
    "step": bench_step,
    "generation": bench_generation,
    "memory": bench_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.peak:
        print_peak(*json.loads(arguments.peak))
        return
    for name in arguments.only.split(","):
        BENCHMARKS[name](arguments.repeats)


if __name__ == "__main__":
    main()
