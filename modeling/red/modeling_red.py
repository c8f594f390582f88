"""RED: BART's layers around the Reformer's attention.

The attentions are in `modeling/attention/lsh.py`; encoder, decoder, loss and generation are those of
`modeling/modeling_long_bart.py`.
"""

import torch
from torch import nn
from transformers import BartForConditionalGeneration
from transformers import initialization as init

from summarily.modeling.attention.blocks import attention, eager_attention
from summarily.modeling.attention.lsh import (
    ReformerPlan,
    draw_rotations,
    lsh_attention,
    plan_reformer,
    rotation_columns,
)
from summarily.modeling.bart_surgery import (
    RESERVED_POSITIONS,
    LearnedPositions,
    copy_bart,
    copy_weights,
    load_bart,
    randomise_weights,
    shared_fields,
)
from summarily.modeling.modeling_long_bart import (
    EncoderSelfAttention,
    LongBartDecoder,
    LongBartEncoder,
    LongBartForConditionalGeneration,
    LongBartModel,
)
from summarily.modeling.red.configuration_red import THESIS, RedConfig
from summarily.support.errors import InputError


class RedSelfAttention(EncoderSelfAttention):
    """What both attentions share: heads of any size, the output projection, and the Reformer's own norm if wanted.

    `attn_implementation="eager"` shows the weights.
    """

    def __init__(self, config: RedConfig, projections: tuple[str, ...]):
        super().__init__()
        self.config = config
        self.dropout = config.attention_dropout
        self.num_heads, self.head_dim = config.encoder_attention_heads, config.attention_head_size
        width = self.num_heads * self.head_dim
        self.norm = nn.LayerNorm(config.d_model, eps=1e-12) if config.pre_norm else nn.Identity()
        for name in projections:
            setattr(self, name, nn.Linear(config.d_model, width, bias=config.attention_bias))
        self.out_proj = nn.Linear(width, config.d_model, bias=config.attention_bias)

    def heads(self, projection: nn.Linear, hidden_states: torch.Tensor) -> torch.Tensor:
        return projection(hidden_states).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, hidden_states, attention_mask: ReformerPlan, **kwargs):
        dropout = self.dropout if self.training else 0.0
        states, weights = self.attend(self.norm(hidden_states), attention_mask, dropout)
        return self.out_proj(states.transpose(1, 2).flatten(2)), weights

    @property
    def eager(self) -> bool:
        return self.config._attn_implementation == "eager"


class LshSelfAttention(RedSelfAttention):
    """Attention within hash buckets; queries and keys are one projection."""

    def __init__(self, config: RedConfig, layer: int):
        super().__init__(config, ("query_key", "value"))
        self.seed = config.hash_seed * config.encoder_layers + layer
        factors = config.bucket_factors
        self.columns = (
            sum(factors) // 2
            if factors
            else rotation_columns(config.chunk_length, config.max_encoder_position_embeddings)
        )
        self.rotations = nn.Buffer(self.draw())

    def draw(self) -> torch.Tensor:
        return draw_rotations(self.num_heads, self.head_dim, self.columns, self.config.num_hashes, self.seed)

    def attend(self, hidden_states, plan, dropout):
        shown: list[torch.Tensor] | None = [] if self.eager else None
        states = lsh_attention(
            self.heads(self.query_key, hidden_states),
            self.heads(self.value, hidden_states),
            self.rotations,
            self.config.chunk_length,
            factors=plan.factors,
            padding=plan.padding,
            causal=self.config.causal_encoder,
            circular=self.config.circular,
            chunks_before=self.config.lsh_chunks_before,
            chunks_after=self.config.lsh_chunks_after,
            dropout=dropout,
            shown=shown,
        )
        return states, shown[0] if shown else None


class LocalSelfAttention(RedSelfAttention):
    """Attention to the own chunk and its neighbours."""

    def __init__(self, config: RedConfig, layer: int):
        super().__init__(config, ("q_proj", "k_proj", "v_proj"))

    def attend(self, hidden_states, plan, dropout):
        states = (
            self.heads(projection, hidden_states) for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.eager:
            return eager_attention(*states, plan.local, dropout)
        return attention(*states, plan.local, dropout), None


ATTENTION_CLASSES = {"lsh": LshSelfAttention, "local": LocalSelfAttention}


class LostOffsetPositions(LearnedPositions):
    """A defect of the thesis' code: a full pass starts at a reserved row, a step from a cache does not."""

    reserved = RESERVED_POSITIONS

    def first_row(self, past: int) -> int:
        return RESERVED_POSITIONS if past else 0


class RedInitialization:
    """Rotations are drawn, not learned, but a model on the meta device has to be filled in all the same."""

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, LshSelfAttention):
            init.copy_(module.rotations, module.draw())

    def make_positions(self, positions: int) -> LearnedPositions:
        kind = LostOffsetPositions if self.config.lost_position_offset else LearnedPositions
        return kind(positions, self.config.d_model)


class RedEncoder(RedInitialization, LongBartEncoder):
    config: RedConfig

    def make_attention(self, layer: int) -> RedSelfAttention:
        return ATTENTION_CLASSES[self.config.attention_types[layer]](self.config, layer)

    def plan(self, hidden_states, attention_mask) -> ReformerPlan:
        config, (batch, length, _) = self.config, hidden_states.shape
        padding = None if attention_mask is None or config.padding_is_seen else attention_mask.bool()
        return plan_reformer(
            batch,
            length,
            config.chunk_length,
            padding,
            local="local" in config.attention_types,
            causal=config.causal_encoder,
            chunks_before=config.local_chunks_before,
            chunks_after=config.local_chunks_after,
            factors=config.bucket_factors,
            max_length=config.max_encoder_position_embeddings,
            dense=config._attn_implementation == "eager",
            device=hidden_states.device,
        )


class RedDecoder(RedInitialization, LongBartDecoder):
    config: RedConfig


class RedModel(RedInitialization, LongBartModel):
    """Encoder and decoder without the language-model head.

    Example:

    >>> import torch
    >>> config = RedConfig(vocab_size=50, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
    ...                    decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, chunk_length=4)
    >>> ids = torch.tensor([[0, 5, 6, 7, 8, 9, 2]])
    >>> RedModel(config)(input_ids=ids, decoder_input_ids=ids).last_hidden_state.shape
    torch.Size([1, 7, 16])
    """

    config: RedConfig
    encoder_class = RedEncoder
    decoder_class = RedDecoder


class RedForConditionalGeneration(RedInitialization, LongBartForConditionalGeneration):
    """The summarizer with the Reformer's attention in the encoder; start from a BART (`from_bart`).

    Example:

    >>> import torch
    >>> from transformers import BartConfig, BartForConditionalGeneration
    >>> bart = BartForConditionalGeneration(BartConfig(
    ...     vocab_size=50, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
    ...     decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=16))
    >>> red = RedForConditionalGeneration.from_bart(bart, max_length=64, chunk_length=8).eval()
    >>> ids = torch.randint(3, 50, (1, 40))
    >>> red(input_ids=ids, labels=ids[:, :5]).logits.shape
    torch.Size([1, 5, 50])
    """

    config: RedConfig
    model_class = RedModel

    @classmethod
    def from_bart(
        cls,
        model: BartForConditionalGeneration | str,
        *,
        max_length: int = 4096,
        attention: str | None = None,
        query_key: str = "query",
        thesis: bool = False,
        seed: int = 0,
        **changes,
    ) -> "RedForConditionalGeneration":
        """A BART that reads `max_length` tokens through the Reformer's attention.

        A local layer starts as BART's; on a source of one chunk it is BART's. A hashing layer has one projection for
        queries and keys, so it only starts near it.

        Args:
            model: a `BartForConditionalGeneration`, or its name or folder.
            max_length: positions of the encoder, made of copies of BART's.
            attention: "copy" BART's encoder self-attention, or start from "random"; the thesis has random.
            query_key: a hashing layer's projection is BART's "query", or the "mean" of query and key.
            thesis: the thesis' set-up, defects and all (`RedConfig.thesis`).
            seed: of the random attention.
            changes: further fields of `RedConfig`.
        """
        attention = attention or ("random" if thesis else "copy")
        if attention not in ("copy", "random"):
            raise InputError(f"attention={attention!r} is unknown; choose 'copy' or 'random'.")
        if query_key not in ("query", "mean"):
            raise InputError(f"query_key={query_key!r} is unknown; choose 'query' or 'mean'.")
        bart = load_bart(model)
        fields = {**shared_fields(bart.config), "max_encoder_position_embeddings": max_length}
        red = cls(RedConfig(**{**fields, **(THESIS if thesis else {}), **changes})).to(bart.dtype)
        copy_bart(bart, red)
        for index, (ours, theirs) in enumerate(
            zip(red.model.encoder.layers, bart.model.encoder.layers, strict=True)
        ):
            if attention == "random":
                randomise_weights(ours.self_attn, red.config.init_std, seed + index)
            else:
                _copy_attention(theirs.self_attn, ours.self_attn, query_key)
        return red.train(bart.training).to(bart.device)


def _copy_attention(source: nn.Module, target: RedSelfAttention, query_key: str) -> None:
    pairs = {"out_proj": source.out_proj}
    if isinstance(target, LocalSelfAttention):
        pairs |= {name: getattr(source, name) for name in ("q_proj", "k_proj", "v_proj")}
    else:
        pairs |= {"query_key": source.q_proj, "value": source.v_proj}
    for name, linear in pairs.items():
        copy_weights(linear, [getattr(target, name)])
    if isinstance(target, LshSelfAttention) and query_key == "mean":
        with torch.no_grad():
            target.query_key.weight.add_(source.k_proj.weight).div_(2)
            if target.query_key.bias is not None:
                target.query_key.bias.add_(source.k_proj.bias).div_(2)


__all__ = ["RedForConditionalGeneration", "RedModel"]
