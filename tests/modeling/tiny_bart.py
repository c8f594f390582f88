"""BART, and transformers' LED, as small as they get, with weights large enough that a mistake shows."""

from __future__ import annotations

import torch
from transformers import BartConfig, BartForConditionalGeneration, LEDConfig, LEDForConditionalGeneration

SIZES = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
}


def roughen(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Fresh weights are near zero and biases are zero: attention would be uniform, and hide errors."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def tiny_bart(**options) -> BartForConditionalGeneration:
    torch.manual_seed(0)
    config = BartConfig(**{**SIZES, "max_position_embeddings": 32, **options})
    return roughen(BartForConditionalGeneration(config))


def tiny_transformers_led(window: int | list[int] = 8, **options) -> LEDForConditionalGeneration:
    torch.manual_seed(0)
    positions = {"max_encoder_position_embeddings": 128, "max_decoder_position_embeddings": 32}
    config = LEDConfig(**{**SIZES, **positions, "attention_window": window, **options})
    return roughen(LEDForConditionalGeneration(config))


def assert_random_weights(module, std, seed):
    """Every linear layer of a module holds what this seed gives, one after the other, and no bias."""
    generator = torch.Generator().manual_seed(seed)
    for linear in (part for part in module.modules() if isinstance(part, torch.nn.Linear)):
        assert torch.equal(linear.weight, torch.randn(linear.weight.shape, generator=generator) * std)
        assert linear.bias is None or not linear.bias.any()
