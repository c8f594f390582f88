"""Configuration of RED."""

from typing import Any, cast

from huggingface_hub.dataclasses import strict

from summarily.modeling.configuration_long_bart import LongBartConfig
from summarily.support.errors import InputError

ATTENTION_TYPES = ("lsh", "local")


def factors_of(num_buckets: list[int] | int | None) -> list[int] | None:
    """The factors of a number of buckets."""
    return [num_buckets] if isinstance(num_buckets, int) else num_buckets


def check_hashing(config: Any, layers: int, positive: tuple[str, ...]) -> None:
    """Raise a ValueError unless the attention types and buckets fit, and the `positive` fields are."""
    if len(config.attention_types) != layers:
        raise InputError(
            f"attention_types names {len(config.attention_types)} layers, but there are {layers}."
        )
    for kind in config.attention_types:
        if kind not in ATTENTION_TYPES:
            raise InputError(f"attention_types has {kind!r}; choose among {', '.join(ATTENTION_TYPES)}.")
    for name in positive:
        if getattr(config, name) < 1:
            raise InputError(f"{name}={getattr(config, name)} must be at least 1.")
    for factor in factors_of(config.num_buckets) or []:
        if factor < 2 or factor % 2:
            raise InputError(f"num_buckets={config.num_buckets} must be even, factor by factor.")


# What the thesis' code built. Its defects are fields of their own, so that each can be studied alone.
THESIS: dict[str, Any] = {
    "encoder_attention_heads": 8,
    "attention_head_size": 64,
    "chunk_length": 64,
    "lsh_chunks_after": 0,
    "local_chunks_after": 0,
    "num_hashes": 1,
    "num_buckets": [64, 128],
    "attention_bias": False,
    "pre_norm": True,
    "circular": True,
    "causal_encoder": True,
    "padding_is_seen": True,
    "lost_position_offset": True,
}


@strict
class RedConfig(LongBartConfig):
    """BART whose encoder has the Reformer's attention: by hash buckets (`lsh`) and by chunks (`local`).

    Reference: Gaskell (2020), with the attention of Kitaev et al. (2020), Reformer. The defaults are what the thesis
    meant; `RedConfig.thesis()` is what its code did, defect by defect.

    Args:
        attention_types: `lsh` or `local` for each encoder layer; by default they take turns, `lsh` first.
        chunk_length: tokens that attend together.
        lsh_chunks_before, lsh_chunks_after, local_chunks_before, local_chunks_after: neighbouring chunks seen.
        num_hashes: rounds of hashing.
        num_buckets: a number, or two factors of it; even. By default about `2 length / chunk_length` for each
            document.
        hash_seed: of the random rotations, which are drawn once and saved with the model.
        attention_head_size: by default `d_model / encoder_attention_heads`.
        attention_bias: projections have a bias, as BART's do; the Reformer's do not.
        pre_norm: a layer norm before the attention, as in the Reformer's block, on top of BART's behind it.
        circular: the first chunk of sorted tokens sees the last. The output then depends on the padding.
        causal_encoder: the encoder does not look ahead.
        padding_is_seen: the encoder attends to padding.
        lost_position_offset: positions are read two rows too early, except by a decoder that goes on from a cache.

    Example:

    >>> RedConfig(encoder_layers=3).attention_types
    ['lsh', 'local', 'lsh']
    >>> RedConfig.thesis().num_buckets
    [64, 128]
    """

    model_type = "summarily-red"

    attention_types: list[str] | None = None
    chunk_length: int = 64
    lsh_chunks_before: int = 1
    lsh_chunks_after: int = 0
    local_chunks_before: int = 1
    local_chunks_after: int = 1
    num_hashes: int = 1
    num_buckets: list[int] | int | None = None
    hash_seed: int = 0
    attention_head_size: int | None = None
    attention_bias: bool = True
    pre_norm: bool = False
    circular: bool = False
    causal_encoder: bool = False
    padding_is_seen: bool = False
    lost_position_offset: bool = False

    def __post_init__(self, **kwargs):
        layers = cast(int, self.encoder_layers)
        if self.attention_types is None:
            self.attention_types = [ATTENTION_TYPES[layer % 2] for layer in range(layers)]
        if self.attention_head_size is None:
            width, heads = cast(int, self.d_model), cast(int, self.encoder_attention_heads)
            if width % heads:
                raise InputError(
                    f"d_model={self.d_model} is not a multiple of encoder_attention_heads="
                    f"{self.encoder_attention_heads}; change one, or give attention_head_size."
                )
            self.attention_head_size = width // heads
        check_hashing(self, layers, ("chunk_length", "num_hashes", "attention_head_size"))
        super().__post_init__(**kwargs)

    @property
    def bucket_factors(self) -> list[int] | None:
        """The factors of `num_buckets`; None where each document has its own."""
        return factors_of(self.num_buckets)

    @classmethod
    def thesis(cls, **fields) -> "RedConfig":
        """The set-up of the thesis' code; `fields` change it."""
        return cls(**{**THESIS, **fields})


__all__ = ["RedConfig"]
