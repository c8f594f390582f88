"""Our LED around T5 beside transformers' LongT5 (local attention), the same weights, size of FLAN-T5-small.

    python -m tests.benchmarks.led_t5 [--threads 1] [--repeats 3] [--radius 127] [--dtype float32]
                                      [--lengths 4096,16384] [--only core,attention,encoder,memory]

core: from queries, keys and values to their output, bias included; attention: with its four projections; encoder: all
eight layers. Forward and backward, CPU seconds in one process, taking turns; memory is the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable

import torch
from transformers import LongT5Config
from transformers.models.longt5.modeling_longt5 import LongT5EncoderModel, _get_local_attention_mask

from summarily.modeling.attention.window_plan import plan_window
from summarily.modeling.led_t5.configuration_led_t5 import LedT5Config
from summarily.modeling.led_t5.modeling_led_t5 import LedT5Encoder
from summarily.studies.memory import peak_of
from tests.benchmarks.timing import ratio

SMALL = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 1024,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
    "dropout_rate": 0.0,
}
Call = Callable[[], None]


def pair(radius: int, dtype: torch.dtype, layers: int) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Our encoder and theirs with the same weights."""
    torch.manual_seed(0)
    sizes = {**SMALL, "num_layers": layers}
    theirs = LongT5EncoderModel(LongT5Config(**sizes, local_radius=radius)).encoder
    ours = LedT5Encoder(LedT5Config(**sizes, attention_window=2 * radius))
    for encoder in (ours, theirs):  # a bias as large as a trained one
        for name, parameter in encoder.named_parameters():
            if "relative_attention_bias" in name:
                torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    state = theirs.state_dict()
    ours.load_state_dict({name.replace("LocalSelfAttention", "SelfAttention"): state[name] for name in state})
    return ours.to(dtype).train(), theirs.to(dtype).train()


class Attention:
    """One self-attention of each, with the bias and mask that its encoder makes once for all layers."""

    def __init__(self, length: int, radius: int, dtype: torch.dtype, projections: bool):
        self.encoders = pair(radius, dtype, layers=1)
        self.radius, self.length = radius, length
        ours, theirs = (encoder.block[0].layer[0] for encoder in self.encoders)
        self.ours, self.theirs = ours.SelfAttention, theirs.LocalSelfAttention
        self.hidden = torch.randn(1, length, SMALL["d_model"], dtype=dtype, requires_grad=True)
        if not projections:
            # Four identities of the inner width: what is left is the attention itself.
            self.hidden = torch.randn(1, length, self.ours.inner_dim, dtype=dtype, requires_grad=True)
            for module in (self.ours, self.theirs):
                for name in "qkvo":
                    setattr(module, name, torch.nn.Identity())

    def run_ours(self) -> None:
        bias = self.encoders[0].distance_bias(self.length, self.hidden.device)
        self.ours(self.hidden, plan_window(torch.ones(1, self.length)), bias)[0].sum().backward()

    def run_theirs(self) -> None:
        mask = _get_local_attention_mask(torch.ones(1, self.length), self.radius + 1, self.hidden.device)
        self.theirs(self.hidden, mask=mask)[0].sum().backward()


def calls(what: str, length: int, radius: int, dtype: torch.dtype) -> tuple[Call, Call]:
    if what != "encoder":
        both = Attention(length, radius, dtype, projections=what == "attention")
        return both.run_ours, both.run_theirs
    ids = torch.randint(3, SMALL["vocab_size"], (1, length), generator=torch.Generator().manual_seed(0))

    def call(encoder: torch.nn.Module) -> None:
        encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.sum().backward()
        encoder.zero_grad()

    ours, theirs = pair(radius, dtype, layers=8)
    return lambda: call(ours), lambda: call(theirs)


def check_equal(radius: int) -> None:
    """That both compute the same, before they are timed."""
    ours, theirs = pair(radius, torch.float32, layers=2)
    ids = torch.randint(3, SMALL["vocab_size"], (1, 3 * radius + 5))
    states = [encoder(input_ids=ids).last_hidden_state for encoder in (ours, theirs)]
    torch.testing.assert_close(*states, rtol=1e-3, atol=1e-3)


def _peak_apart(what: str, length: int, radius: int, dtype: str, side: int) -> float:
    arguments = json.dumps([what, length, radius, dtype, side])
    command = [sys.executable, "-m", "tests.benchmarks.led_t5", "--peak", arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(result.stdout.splitlines()[-1])


def print_peak(what: str, length: int, radius: int, dtype: str, side: int) -> None:
    calls(what, 1024, radius, getattr(torch, dtype))[side]()  # loads kernels
    print(peak_of(calls(what, length, radius, getattr(torch, dtype))[side])[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--radius", type=int, default=127, help="tokens seen on each side")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--lengths", default="4096,16384")
    parser.add_argument("--only", default="core,attention,encoder,memory")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        print_peak(*json.loads(options.peak))
        return
    check_equal(options.radius)
    wanted = options.only.split(",")
    parts = [name for name in ("core", "attention", "encoder") if name in wanted]
    for length in map(int, options.lengths.split(",")):
        for what in parts:
            both = calls(what, length, options.radius, getattr(torch, options.dtype))
            measured = ratio(*both, options.repeats)
            print(
                f"{what}, {length} tokens: {measured.ratio:.2f}x faster "
                f"({measured.ours_seconds:.2f} s, {measured.theirs_seconds:.2f} s)",
                flush=True,
            )
        for what in ("attention", "encoder") if "memory" in wanted else ():
            ours, theirs = (_peak_apart(what, length, options.radius, options.dtype, side) for side in (0, 1))
            print(
                f"{what}, {length} tokens, peak memory: {theirs / ours:.2f}x less ({ours:.0f} MB, {theirs:.0f} MB)",
                flush=True,
            )


if __name__ == "__main__":
    main()
