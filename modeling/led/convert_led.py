"""State dicts and configurations of transformers' LED, to and from ours.

Ours has BART's names, and tables of positions as transformers' LED has them:

| transformers' LED                                            | ours                                     |
|--------------------------------------------------------------|------------------------------------------|
| `led.*`                                                      | `model.*`                                |
| `encoder.layers.N.self_attn.longformer_self_attn.query`      | `encoder.layers.N.self_attn.q_proj`      |
| `encoder.layers.N.self_attn.longformer_self_attn.query_global` | `encoder.layers.N.self_attn.q_proj_global` |
| (the same for `key` and `value`)                             |                                          |
| `encoder.layers.N.self_attn.output`                          | `encoder.layers.N.self_attn.out_proj`    |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from transformers import LEDConfig

from summarily.modeling.led.configuration_led import LedConfig
from summarily.support.errors import InputError

Tensor = TypeVar("Tensor")

_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
_THEIR_PROJECTION = re.compile(
    r"(encoder\.layers\.\d+\.self_attn\.)longformer_self_attn\.(query|key|value)\b"
)
_THEIR_PROJECTION_GLOBAL = re.compile(
    r"(encoder\.layers\.\d+\.self_attn\.)longformer_self_attn\.(query|key|value)_global\b"
)
_THEIR_OUTPUT = re.compile(r"(encoder\.layers\.\d+\.self_attn\.)output\b")
_OUR_PROJECTION = re.compile(r"(encoder\.layers\.\d+\.self_attn\.)([qkv]_proj)(_global)?\b")
_OUR_OUTPUT = re.compile(r"(encoder\.layers\.\d+\.self_attn\.)out_proj\b")
_THEIRS = {ours: theirs for theirs, ours in _PROJECTIONS.items()}
# Fields with the same name and meaning in both configurations.
_FIELDS = [
    "vocab_size",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
    "encoder_layers",
    "encoder_ffn_dim",
    "encoder_attention_heads",
    "decoder_layers",
    "decoder_ffn_dim",
    "decoder_attention_heads",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "use_cache",
    "activation_function",
    "d_model",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "init_std",
    "decoder_start_token_id",
    "classifier_dropout",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "attention_window",
    "tie_word_embeddings",
]


def led_from_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of transformers' LED under our names; the tensors are the same.

    Example:

    >>> list(led_from_transformers({"led.encoder.layers.0.self_attn.longformer_self_attn.key_global.bias": 0}))
    ['model.encoder.layers.0.self_attn.k_proj_global.bias']
    """
    return {_our_name(name): tensor for name, tensor in state.items()}


def led_to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our state dict under the names of transformers' LED; the tensors are the same.

    Example:

    >>> list(led_to_transformers({"model.encoder.layers.0.self_attn.out_proj.bias": 0}))
    ['led.encoder.layers.0.self_attn.output.bias']
    """
    return {_their_name(name): tensor for name, tensor in state.items()}


def _our_name(name: str) -> str:
    name = re.sub(r"^led\.", "model.", name)
    name = _THEIR_PROJECTION_GLOBAL.sub(lambda found: f"{found[1]}{_PROJECTIONS[found[2]]}_global", name)
    name = _THEIR_PROJECTION.sub(lambda found: f"{found[1]}{_PROJECTIONS[found[2]]}", name)
    return _THEIR_OUTPUT.sub(r"\1out_proj", name)


def _their_name(name: str) -> str:
    name = re.sub(r"^model\.", "led.", name)
    name = _OUR_PROJECTION.sub(
        lambda found: f"{found[1]}longformer_self_attn.{_THEIRS[found[2]]}{found[3] or ''}", name
    )
    return _OUR_OUTPUT.sub(r"\1output", name)


def config_from_transformers(config: LEDConfig, **changes) -> LedConfig:
    """Our configuration for a model of transformers' LED.

    Example:

    >>> config_from_transformers(LEDConfig(attention_window=64, d_model=32)).d_model
    32
    """
    return LedConfig(**{**{name: getattr(config, name) for name in _FIELDS}, **changes})


def config_to_transformers(config: LedConfig) -> LEDConfig:
    """The configuration of transformers' LED for one of our models, if it has one."""
    if config.scale_embedding:
        raise InputError("scale_embedding=True: transformers' LED cannot scale its embeddings.")
    if config.summary_window is not None:
        raise InputError(f"summary_window={config.summary_window}: transformers' LED has no window there.")
    return LEDConfig(**{name: getattr(config, name) for name in _FIELDS})
