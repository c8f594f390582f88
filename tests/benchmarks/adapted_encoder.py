"""Adapters of `modeling/modeling_adapted_encoder.py` beside peft's: a training step of MiniLM, and the import of peft.

    python -m tests.benchmarks.adapted_encoder [--rows 16] [--tokens 64] [--repeats 5]

The same weights, rank 16 in every linear layer; CPU seconds of forward, backward and update, medians, taking turns. The
import is that of a process which has transformers already.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from transformers import AutoModel

from summarily.modeling.modeling_adapted_encoder import insert_adapters
from summarily.support.weights import resolve
from tests.benchmarks.timing import ratio

RANK = 16
IMPORT = (
    "import transformers, torch, time; from transformers import AutoModel, PreTrainedModel; "
    "start = time.process_time(); import peft; print(time.process_time() - start)"
)


def adapted() -> tuple[nn.Module, nn.Module]:
    """MiniLM with our adapters and with peft's, of the same weights."""
    place = resolve("minilm").path_or_id
    ours, theirs = (AutoModel.from_pretrained(place).requires_grad_(False).train() for _ in range(2))
    for module in (*ours.modules(), *theirs.modules()):
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    torch.manual_seed(0)
    state = theirs.state_dict()
    names = insert_adapters(ours, RANK, RANK)
    ours.load_state_dict(state, strict=False)  # of the layers that are new
    for name, parameter in ours.named_parameters():
        parameter.requires_grad_("adapter_" in name)
    inject_adapter_in_model(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=names), theirs)
    for name in names:
        mine, peer = ours.get_submodule(name), theirs.get_submodule(name)
        nn.init.normal_(mine.adapter_up, std=0.01)
        peer.lora_A["default"].weight.data.copy_(mine.adapter_down.data)
        peer.lora_B["default"].weight.data.copy_(mine.adapter_up.data)
    return ours, theirs


def stepper(model: nn.Module, ids: torch.Tensor) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.0)

    def step() -> torch.Tensor:
        states = model(input_ids=ids).last_hidden_state
        states.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        return states.detach()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ids = torch.randint(
        1000, 20000, (options.rows, options.tokens), generator=torch.Generator().manual_seed(0)
    )
    ours, theirs = (stepper(model, ids) for model in adapted())
    torch.testing.assert_close(ours(), theirs())
    measured = ratio(ours, theirs, options.repeats)
    print(
        f"a step: {measured.ratio:.2f}x faster than peft's "
        f"({measured.ours_seconds:.2f} s, {measured.theirs_seconds:.2f} s)"
    )
    imports = [
        float(
            subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout
        )
        for _ in range(4)
    ]
    print(f"import of peft: {statistics.median(imports[1:]):.2f} CPU s")


if __name__ == "__main__":
    main()
