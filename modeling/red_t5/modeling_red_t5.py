"""RED around T5: T5's layers, the Reformer's attention in the encoder.

The attentions, with T5's bias by relative distance, are in `modeling/attention/lsh.py`; encoder, decoder, loss and
generation are those of `modeling/modeling_sparse_t5.py`. The weights are T5's, name by name, but for the keys of hashing layers,
whose queries and keys are one projection: `q`.
"""

import torch
from torch import nn
from transformers import T5ForConditionalGeneration
from transformers import initialization as init
from transformers.models.t5.modeling_t5 import T5Attention

from summarily.modeling.attention.blocks import attention, weigh
from summarily.modeling.attention.lsh import (
    ReformerPlan,
    draw_rotations,
    lsh_attention,
    plan_reformer,
    rotation_columns,
)
from summarily.modeling.attention.window_plan import bias_at
from summarily.modeling.modeling_sparse_t5 import (
    SparseT5Encoder,
    SparseT5ForConditionalGeneration,
    SparseT5Model,
    load_t5,
)
from summarily.modeling.red_t5.configuration_red_t5 import RedT5Config
from summarily.support.errors import InputError


def _heads(projection: nn.Module, hidden_states: torch.Tensor, config: RedT5Config) -> torch.Tensor:
    states = projection(hidden_states).unflatten(-1, (config.num_heads, config.d_kv))
    return states.transpose(1, 2)  # [batch, heads, length, head size]


class RedT5HashAttention(nn.Module):
    """T5's attention within hash buckets; queries and keys are one projection."""

    def __init__(self, config: RedT5Config, layer: int):
        super().__init__()
        self.config = config
        self.dropout = config.dropout_rate
        width = config.num_heads * config.d_kv
        self.q = nn.Linear(config.d_model, width, bias=False)
        self.v = nn.Linear(config.d_model, width, bias=False)
        self.o = nn.Linear(width, config.d_model, bias=False)
        if layer == 0:
            self.relative_attention_bias = nn.Embedding(
                config.relative_attention_num_buckets, config.num_heads
            )
        self.seed = config.hash_seed * config.num_layers + layer
        self.rotations = nn.Buffer(self.draw())

    def draw(self) -> torch.Tensor:
        config, factors = self.config, self.config.bucket_factors
        columns = (
            sum(factors) // 2 if factors else rotation_columns(config.chunk_length, config.max_source_length)
        )
        return draw_rotations(config.num_heads, config.d_kv, columns, config.num_hashes, self.seed)

    def forward(self, hidden_states, mask: ReformerPlan, position_bias: torch.Tensor, **kwargs):
        shown: list[torch.Tensor] | None = [] if self.config._attn_implementation == "eager" else None
        states = lsh_attention(
            _heads(self.q, hidden_states, self.config),
            _heads(self.v, hidden_states, self.config),
            self.rotations,
            self.config.chunk_length,
            factors=mask.factors,
            padding=mask.padding,
            circular=False,
            chunks_before=self.config.lsh_chunks_before,
            chunks_after=self.config.lsh_chunks_after,
            dropout=self.dropout * self.training,
            bias=position_bias,
            scale=1.0,  # T5 does not scale
            shown=shown,
        )
        weights = shown[0] if shown else None
        return self.o(states.transpose(1, 2).flatten(2)), position_bias, weights


class RedT5LocalAttention(T5Attention):
    """T5's attention to the own chunk and its neighbours."""

    def __init__(self, config: RedT5Config, layer: int):
        super().__init__(config, has_relative_attention_bias=layer == 0, layer_idx=layer)
        chunk = config.chunk_length
        keys = range(-config.local_chunks_before * chunk, (config.local_chunks_after + 1) * chunk)
        self.offsets = (keys.start, keys.stop)

    def forward(self, hidden_states, mask: ReformerPlan, position_bias: torch.Tensor, **kwargs):
        query, key, value = (
            _heads(projection, hidden_states, self.config) for projection in (self.q, self.k, self.v)
        )
        dropout, weights = self.dropout * self.training, None
        if self.config._attn_implementation == "eager":
            places = torch.arange(hidden_states.shape[1], device=hidden_states.device)
            scores = query @ key.transpose(-1, -2) * self.scaling
            scores = scores + bias_at(position_bias, places - places[:, None])
            states, weights = weigh(scores, value, mask.local, dropout)
        else:
            keys = torch.arange(*self.offsets, device=hidden_states.device)
            queries = torch.arange(self.config.chunk_length, device=hidden_states.device)
            bias = bias_at(position_bias, keys - queries[:, None])
            states = attention(query, key, value, mask.local, dropout, bias=bias, scale=self.scaling)
        return self.o(states.transpose(1, 2).flatten(2)), position_bias, weights


ATTENTION_CLASSES = {"lsh": RedT5HashAttention, "local": RedT5LocalAttention}


class RedT5Initialization:
    """What T5's own initialization does not know: hashing layers, and rotations, which are drawn, not learned."""

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True  # every forward pass reads it from the configuration

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, RedT5HashAttention):
            factor, config = self.config.initializer_factor, self.config
            init.normal_(module.q.weight, std=factor * (config.d_model * config.d_kv) ** -0.5)
            init.normal_(module.v.weight, std=factor * config.d_model**-0.5)
            init.normal_(module.o.weight, std=factor * (config.num_heads * config.d_kv) ** -0.5)
            if hasattr(module, "relative_attention_bias"):
                init.normal_(module.relative_attention_bias.weight, std=factor * config.d_model**-0.5)
            init.copy_(module.rotations, module.draw())


class RedT5Encoder(RedT5Initialization, SparseT5Encoder):
    config: RedT5Config

    def make_attention(self, layer: int) -> nn.Module:
        return ATTENTION_CLASSES[self.config.attention_types[layer]](self.config, layer)

    def plan(self, hidden_states, attention_mask) -> ReformerPlan:
        config, (batch, length, _) = self.config, hidden_states.shape
        if length > config.max_source_length:
            raise InputError(
                f"The source has {length} tokens, but max_source_length is {config.max_source_length}; cut it, or "
                "convert the model with a larger one."
            )
        return plan_reformer(
            batch,
            length,
            config.chunk_length,
            None if attention_mask is None else attention_mask.bool(),
            local="local" in config.attention_types,
            chunks_before=config.local_chunks_before,
            chunks_after=config.local_chunks_after,
            factors=config.bucket_factors,
            max_length=config.max_source_length,
            dense=config._attn_implementation == "eager",
            device=hidden_states.device,
        )


class RedT5Model(RedT5Initialization, SparseT5Model):
    """Encoder and decoder without the language-model head.

    Example:

    >>> import torch
    >>> config = RedT5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, chunk_length=4)
    >>> ids = torch.tensor([[5, 6, 7, 8, 9, 1]])
    >>> RedT5Model(config)(input_ids=ids, decoder_input_ids=ids).last_hidden_state.shape
    torch.Size([1, 6, 16])
    """

    config: RedT5Config
    encoder_class = RedT5Encoder


class RedT5ForConditionalGeneration(RedT5Initialization, SparseT5ForConditionalGeneration):
    """The summarizer around a T5 with the Reformer's attention in the encoder; start from a T5 (`from_t5`).

    Example:

    >>> import torch
    >>> from transformers import T5Config, T5ForConditionalGeneration
    >>> t5 = T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
    ...                                          decoder_start_token_id=0))
    >>> red = RedT5ForConditionalGeneration.from_t5(t5, chunk_length=8).eval()
    >>> ids = torch.randint(3, 50, (1, 40))
    >>> red(input_ids=ids, labels=ids[:, :5]).logits.shape
    torch.Size([1, 5, 50])
    """

    config: RedT5Config
    encoder_class = RedT5Encoder

    @classmethod
    def from_t5(
        cls, model: T5ForConditionalGeneration | str, *, query_key: str = "query", **changes
    ) -> "RedT5ForConditionalGeneration":
        """A T5 that reads through the Reformer's attention.

        A local layer starts as T5's; on a source of one chunk it is T5's. A hashing layer has one projection for
        queries and keys, so it only starts near it.

        Args:
            model: a `T5ForConditionalGeneration`, or its name or folder.
            query_key: a hashing layer's projection is T5's "query", or the "mean" of query and key.
            changes: fields of `RedT5Config`.
        """
        if query_key not in ("query", "mean"):
            raise InputError(f"query_key={query_key!r} is unknown; choose 'query' or 'mean'.")
        t5 = load_t5(model)
        red = cls.start_from(t5, RedT5Config, **changes)
        if query_key == "mean":
            for ours, theirs in zip(red.encoder.block, t5.encoder.block, strict=True):
                ours, theirs = ours.layer[0].SelfAttention, theirs.layer[0].SelfAttention
                if isinstance(ours, RedT5HashAttention):
                    ours.q.weight.data.add_(theirs.k.weight.data).div_(2)
        return red


__all__ = ["RedT5ForConditionalGeneration", "RedT5Model"]
