"""A tiny attentive reader with random weights, saved to disk."""

from __future__ import annotations

import functools
import tempfile

import torch

from summarily.modeling import ClozeReader, ClozeReaderConfig
from summarily.modeling.training.tokenizers import train_reader_tokenizer
from summarily.support.sample import load_sample


@functools.cache
def attentive(seed: int = 0) -> str:
    """The folder of the reader."""
    tokenizer = train_reader_tokenizer([row["source"] for row in load_sample()], size=600, max_entities=60)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = ClozeReaderConfig(
            vocab_size=len(tokenizer), embedding_size=16, hidden_size=12, max_entities=60
        )
        model = ClozeReader(config)
        with torch.no_grad():
            # Far from zero, so that words and questions matter.
            for parameter in model.parameters():
                parameter.add_(0.5 * torch.randn_like(parameter))
    model.tokenizer = tokenizer
    folder = tempfile.mkdtemp(prefix="tiny-reader-")
    model.save_pretrained(folder)
    return folder
