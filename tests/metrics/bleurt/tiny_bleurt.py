"""A tiny BLEURT with random weights, saved as ours are: a whole model, or what differs from an encoder."""

from __future__ import annotations

import functools
import tempfile

import torch

from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring
from summarily.modeling.bleurt.tokenization_bleurt import PairTokenizer
from tests.metrics.tiny import checkpoint


@functools.cache
def tiny_bleurt(whole: bool = True, pooling: str = "pair") -> str:
    """The folder of a model with two signals, whose adapters have learnt something."""
    folder = tempfile.mkdtemp(prefix="tiny-bleurt-")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BleurtForScoring.from_encoder(
            checkpoint("bert"), adapter_rank=2, pooling=pooling, signals=["rouge1", "wms"]
        )
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "adapter_up" in name:
                    parameter.normal_(std=0.1)
            model.head.weight.normal_(std=0.03)
    if whole:
        model.merged().save_pretrained(folder)
        PairTokenizer.from_pretrained(checkpoint("bert")).save_pretrained(folder)
    else:
        model.save_pretrained(folder)
    return folder
