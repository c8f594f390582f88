"""Changing a BART so that it reads long documents: more positions, another self-attention in the encoder.

>>> import torch
>>> tile_rows(torch.tensor([[1.0], [2.0]]), 5).flatten().tolist()
[1.0, 2.0, 1.0, 2.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import nn
from transformers import BartForConditionalGeneration, GenerationConfig, PreTrainedConfig
from transformers.models.bart.modeling_bart import BartLearnedPositionalEmbedding

from summarily.support.errors import InputError, InputTypeError

RESERVED_POSITIONS = 2  # BART's table of positions starts with two rows that no token uses


class LearnedPositions(nn.Embedding):
    """Position i is row i: a table of positions without BART's two reserved rows."""

    reserved = 0  # rows in front of those that are copied from BART

    def __init__(self, positions: int, width: int, **kwargs):
        super().__init__(positions + self.reserved, width, **kwargs)

    def first_row(self, past: int) -> int:
        """The row of position 0 when `past` tokens are cached."""
        return 0

    def forward(
        self,
        input_ids: torch.Tensor | None,
        past_key_values_length: int = 0,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`input_ids` is needed for its length only, where `position_ids` are not given."""
        if position_ids is None:
            assert input_ids is not None, "one of both is given"
            position_ids = (
                torch.arange(input_ids.shape[1], device=self.weight.device) + past_key_values_length
            )
        return super().forward(position_ids + self.first_row(past_key_values_length))


def tile_rows(table: torch.Tensor, length: int) -> torch.Tensor:
    """`table` repeated until it has `length` rows, the last copy cut off (or fewer of its rows)."""
    copies = -(-length // table.shape[0])
    return table.repeat(copies, *[1] * (table.dim() - 1))[:length].clone()


def position_rows(positions: nn.Embedding) -> torch.Tensor:
    """The rows of a table that tokens use, whether it is BART's, transformers' LED's or ours."""
    reserved = RESERVED_POSITIONS if isinstance(positions, BartLearnedPositionalEmbedding) else 0
    return positions.weight.detach()[reserved:]


def swap_encoder_self_attention(encoder: Any, make: Callable[[int], nn.Module]) -> None:
    """Replace the self-attention of every layer of a BART encoder by `make(layer index)`."""
    for index, layer in enumerate(encoder.layers):
        layer.self_attn = make(index)


def copy_weights(source: nn.Linear, targets: Iterable[nn.Linear]) -> None:
    """Copy weight and bias into each of `targets`; a target without bias keeps none.

    Example:

    >>> source, target = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
    >>> copy_weights(source, [target])
    >>> bool((source.weight == target.weight).all())
    True
    """
    with torch.no_grad():
        for target in targets:
            if target.weight.shape != source.weight.shape:
                raise InputError(
                    f"weights of shape {tuple(source.weight.shape)} do not fit {tuple(target.weight.shape)}; "
                    "keep BART's number and size of heads, or start from random attention."
                )
            target.weight.copy_(source.weight)
            if target.bias is not None:
                target.bias.zero_() if source.bias is None else target.bias.copy_(source.bias)


def randomise_weights(module: nn.Module, std: float, seed: int) -> None:
    """Draw the weights of every linear layer in `module` afresh, biases zero, from a generator of their own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for linear in (part for part in module.modules() if isinstance(part, nn.Linear)):
            linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator) * std)
            if linear.bias is not None:
                linear.bias.zero_()


# Fields of a saved configuration that belong to the model it came from.
_OWN_FIELDS = ("model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path")


@torch.no_grad()
def start_as_copier(bart: BartForConditionalGeneration) -> None:
    """Set the weights of a new BART so that its decoder looks at the source where it writes, and repeats that token.

    With ordinary random weights our small denoiser had not begun to use its source after 1,600 steps. Here queries
    and keys, and values and outputs, of cross-attention start near the identity ("mimetic" weights, Trockman and
    Kolter 2023), both sides have the same sinusoids for positions, and what the other sublayers add starts small; all
    of it is trained from there.
    """
    std, width = cast(float, bart.config.init_std), cast(int, bart.config.d_model)
    encoder, decoder = bart.model.encoder, bart.model.decoder
    for positions in (encoder.embed_positions, decoder.embed_positions):
        # Twice the deviation of the embeddings: where a token is counts for more than what it is, at first.
        positions.weight.copy_(2 * 2**0.5 * std * sinusoids(*positions.weight.shape))
    for layer in (*encoder.layers, *decoder.layers):
        for linear in (layer.self_attn.out_proj, layer.fc2):
            linear.weight.mul_(0.25)
    for layer in decoder.layers:
        attention = layer.encoder_attn
        linears = (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj)
        for linear, scale in zip(linears, (1.0, 1.0, 0.7, 0.7), strict=True):
            nn.init.normal_(linear.weight, std=0.02)
            linear.weight.add_(scale * torch.eye(width))


def sinusoids(positions: int, width: int) -> torch.Tensor:
    """Vaswani et al.'s positions: sines, then cosines, of ever lower frequency."""
    angles = torch.arange(positions)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def shared_fields(config: PreTrainedConfig) -> dict[str, Any]:
    """The fields of a configuration that another model can take over."""
    return {name: value for name, value in config.to_dict().items() if name not in _OWN_FIELDS}


def load_bart(model: BartForConditionalGeneration | str) -> BartForConditionalGeneration:
    """`model` itself, or the BART of that name or folder."""
    if isinstance(model, str):
        model = BartForConditionalGeneration.from_pretrained(model)
    # Our own models are subclasses of BART's, with other layers.
    if not isinstance(model, BartForConditionalGeneration) or model.config.model_type != "bart":
        raise InputTypeError(
            f"model is a {type(model).__name__}; give a BartForConditionalGeneration or its name."
        )
    return model


def copy_bart(bart: BartForConditionalGeneration, model: Any) -> None:
    """Copy everything but the encoder's self-attention into one of our models, positions widened."""
    ours, theirs = model.model, bart.model
    attention = "encoder.layers."
    state = {
        name: tensor
        for name, tensor in theirs.state_dict().items()
        if "embed_positions" not in name and not (name.startswith(attention) and ".self_attn." in name)
    }
    missing = ours.load_state_dict(state, strict=False)
    if missing.unexpected_keys:
        raise InputError(f"weights without a place in {type(model).__name__}: {missing.unexpected_keys[:3]}")
    with torch.no_grad():
        for ours_part, theirs_part in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
            _copy_positions(theirs_part.embed_positions, ours_part.embed_positions)
        model.lm_head.weight.copy_(bart.lm_head.weight)
        model.final_logits_bias.copy_(bart.final_logits_bias)
    model.tie_weights()
    model.generation_config = GenerationConfig.from_dict(bart.generation_config.to_dict())


def _copy_positions(source: nn.Embedding, target: LearnedPositions) -> None:
    first = target.reserved
    target.weight[:first].copy_(source.weight[:first])
    target.weight[first:].copy_(tile_rows(position_rows(source), target.weight.shape[0] - first))
