"""Configuration of the attention-variant transformer."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from summarily.modeling.attention.masks import (
    DEFAULT_GAP,
    MASKED_TWIN,
    MECHANISMS,
    AttentionPattern,
    attention_pattern,
)
from summarily.support.errors import InputError


@strict
class AttentionVariantConfig(PreTrainedConfig):
    """A pre-norm encoder-decoder transformer whose self-attention is one of seven mechanisms.

    Reference: Krantz and Kalita (2018), Abstractive Summarization Using Attentive Neural Techniques. Sizes are those
    of tensor2tensor's `transformer_base`.

    Args:
        attention_type: the mechanism, in the encoder and (as far as it is causal) in the decoder: `dot_product`,
            `relative`, `local`, `local_masked`, `local_block_masked`, `dilated` or `dilated_masked`.
        decoder_attention_type: another mechanism for the decoder. By default the same one, `local` and `dilated`
            becoming their masked twins.
        leaky_decoder: keep `local` and `dilated` in the decoder, where they show the tokens to be predicted. Only to
            reproduce the collapse reported in the paper; such a decoder cannot use a cache.
        preset: `paper` (dilated blocks have a gap, `local_masked` shows an encoder its whole own block) or `t2t`
            (tensor2tensor as released: no gap, a causal encoder, no attention dropout in the blocked mechanisms).
        block_length, width: B and W; up to B tokens, a mechanism is plain full or causal attention.
        gap, memory_blocks, memory_length: g, n and M of the dilated mechanisms; the gap defaults to the preset's.
        max_relative_position: distances are clipped here by `relative`, which has no other positions.
        t2t_padding: let the blocked mechanisms attend to batch padding, as tensor2tensor does. Results then depend on
            what else is in the batch.
        label_smoothing: probability given to the other tokens of the vocabulary, in training only.
        decoder_start_token_id: by default the padding token, whose embedding is zero: tensor2tensor's shift by a
            zero vector.

    Example:

    >>> config = AttentionVariantConfig(attention_type="dilated", block_length=32, memory_length=32)
    >>> config.decoder_attention_type, config.gap
    ('dilated_masked', 2)
    """

    model_type = "summarily-attention-variant"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {"d_model": "hidden_size", "num_hidden_layers": "decoder_layers"}

    vocab_size: int = 32000
    hidden_size: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    attention_type: str = "dot_product"
    decoder_attention_type: str | None = None
    leaky_decoder: bool = False
    preset: str = "paper"
    block_length: int = 128
    width: int = 128
    gap: int | None = None
    memory_blocks: int = 2
    memory_length: int = 128
    max_relative_position: int = 20
    t2t_padding: bool = False
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    activation_dropout: float | int = 0.1
    label_smoothing: float | int = 0.1
    layer_norm_eps: float = 1e-6
    use_cache: bool = True
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int = 0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = 1
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs):
        self._check()
        if self.decoder_attention_type is None:
            twin = self.attention_type if self.leaky_decoder else MASKED_TWIN.get(self.attention_type)
            self.decoder_attention_type = twin or self.attention_type
        if self.gap is None:
            self.gap = DEFAULT_GAP[self.preset]
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.pad_token_id
        if self.decoder_leaks:
            self.use_cache = False
        # Building the patterns checks the block sizes.
        self.encoder_pattern, self.decoder_pattern  # noqa: B018
        super().__post_init__(**kwargs)

    @property
    def decoder_leaks(self) -> bool:
        """Whether a decoder position sees later ones."""
        return self.decoder_attention_type in MASKED_TWIN

    @property
    def encoder_pattern(self) -> AttentionPattern:
        """Which keys a query of the encoder sees."""
        return self._pattern(self.attention_type, decoder=False)

    @property
    def decoder_pattern(self) -> AttentionPattern:
        """Which keys a query of the decoder sees."""
        return self._pattern(self.decoder_attention_type or self.attention_type, decoder=True)

    def _pattern(self, mechanism: str, decoder: bool) -> AttentionPattern:
        return attention_pattern(
            mechanism,
            preset=self.preset,
            decoder=decoder,
            leaky_decoder=self.leaky_decoder,
            block_length=self.block_length,
            width=self.width,
            gap=self.gap,
            memory_blocks=self.memory_blocks,
            memory_length=self.memory_length,
        )

    def _check(self) -> None:
        for name in ("attention_type", "decoder_attention_type"):
            mechanism = getattr(self, name)
            if mechanism not in MECHANISMS and not (mechanism is None and name == "decoder_attention_type"):
                raise InputError(f"{name}={mechanism!r} is unknown; choose one of {', '.join(MECHANISMS)}.")
        if self.decoder_leaks and not self.leaky_decoder:
            raise InputError(
                f"decoder_attention_type={self.decoder_attention_type!r} shows the decoder the tokens that it has to "
                f"predict; use {MASKED_TWIN[str(self.decoder_attention_type)]!r}, or leaky_decoder=True to reproduce "
                "the paper."
            )
        if self.preset not in DEFAULT_GAP:
            raise InputError(f"preset={self.preset!r} is unknown; choose one of {', '.join(DEFAULT_GAP)}.")
        if self.hidden_size % self.num_attention_heads or self.hidden_size % 2:
            raise InputError(
                f"hidden_size={self.hidden_size} must be even and a multiple of "
                f"num_attention_heads={self.num_attention_heads}."
            )
        if self.max_relative_position < 1:
            raise InputError(f"max_relative_position={self.max_relative_position} must be at least 1.")
        for name in ("dropout", "attention_dropout", "activation_dropout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 0 and less than 1.")
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise InputError(
                f"pad_token_id={self.pad_token_id} is not a token of a vocabulary of {self.vocab_size}."
            )


__all__ = ["AttentionVariantConfig"]
