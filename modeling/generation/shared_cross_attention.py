"""Cross-attention that the beams of a document share.

Beam search copies the encoder's output once per beam, projects every copy to keys and values in every layer, and
moves all of them at every token when beams change places, although the copies never differ. Here

- `SharedCrossAttentionCache` leaves cross-attention where it is when beams are reordered, and
- cross-attention that knows the cache (`SharedCrossAttention`, in all our models) keeps the keys and values of a
  document once, and reads them once for all of its beams: `[batch * beams, 1] -> [batch, beams]` queries.

Stock models get the same by one call, without being changed:

    tokens = generate_with_shared_cross_attention(bart, input_ids=input_ids, num_beams=4)
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bart.modeling_bart import BartAttention, eager_attention_forward
from transformers.models.led.modeling_led import LEDDecoderAttention
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.t5.modeling_t5 import eager_attention_forward as t5_eager_attention_forward

from summarily.modeling.generation.shared_documents import SharedDocuments
from summarily.support.errors import InputError


class SharedCrossAttentionCache(EncoderDecoderCache):
    """A cache for `generate(past_key_values=...)` whose cross-attention stays in place when beams are reordered.

    It serves any encoder-decoder of transformers; cross-attention that knows it also keeps each document once.

    Args:
        examples: documents in the batch, before beams multiply it.
        self_attention_cache: for the decoder's own past; a `DynamicCache` when left out.

    Example:

    >>> cache = SharedCrossAttentionCache(examples=2)
    >>> cache.beams(rows=8)
    4
    """

    def __init__(self, examples: int, self_attention_cache: Cache | None = None):
        super().__init__(self_attention_cache or DynamicCache(), DynamicCache())
        self.examples = examples

    def beams(self, rows: int) -> int:
        """How many rows of a batch of `rows` belong to each document."""
        if rows % self.examples:
            raise InputError(
                f"a batch of {rows} rows does not hold {self.examples} documents in equal parts."
            )
        return rows // self.examples

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Move the decoder's past. All beams of a document have the same cross-attention: nothing to move there."""
        self.self_attention_cache.reorder_cache(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat the decoder's past; the documents stay as many as they are."""
        self.check_dynamic_cache("batch_repeat_interleave")
        self.self_attention_cache.batch_repeat_interleave(repeats)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        raise NotImplementedError(
            "the rows of a document share its cross-attention: they cannot be selected singly."
        )


def _examples_in(
    hidden_states: torch.Tensor, key_value_states: torch.Tensor | None, cache: Cache | None
) -> int | None:
    """How many documents the rows belong to; None where there is nothing to share."""
    if key_value_states is None:
        return None
    if isinstance(cache, SharedCrossAttentionCache):
        return cache.examples
    rows, examples = hidden_states.shape[0], key_value_states.shape[0]
    if rows == examples:
        return None
    if cache is not None:
        raise InputError(
            f"{rows} rows read {examples} documents through a {type(cache).__name__}, which would reorder them; "
            f"pass a SharedCrossAttentionCache(examples={examples})."
        )
    return examples


def _parts(attention) -> tuple[Any, Any, Any, int]:
    """The projections to queries, keys and values, and the number of heads."""
    if isinstance(attention, T5Attention):
        return attention.q, attention.k, attention.v, attention.n_heads
    return attention.q_proj, attention.k_proj, attention.v_proj, attention.num_heads


def _shared_keys(
    attention, key_value_states: torch.Tensor, examples: int, cache: SharedCrossAttentionCache | None
):
    """Keys and values of each document, `[examples, heads, length, size]`, projected on first use."""
    layer = attention.layer_idx
    if cache is not None and cache.is_updated.get(layer):
        cached = cache.cross_attention_cache.layers[layer]
        return cached.keys, cached.values
    # `generate` repeats the encoder's output for every beam, unless the model keeps it from doing so.
    source = key_value_states[:: key_value_states.shape[0] // examples]
    _, *projections, heads = _parts(attention)
    keys, values = (
        projection(source).unflatten(-1, (heads, -1)).transpose(1, 2) for projection in projections
    )
    if cache is not None:
        keys, values = cache.cross_attention_cache.update(keys, values, layer)
        cache.is_updated[layer] = True
    return keys, values


def _folded(attention, hidden_states: torch.Tensor, mask: torch.Tensor | None, examples: int):
    """Queries of all beams of a document side by side, and the mask of its padding."""
    projection, _, _, heads = _parts(attention)
    states = projection(hidden_states)
    query = states.reshape(examples, -1, states.shape[-1]).unflatten(-1, (heads, -1))
    if mask is not None:
        # A mask of padding is the same for every query and every beam.
        mask = mask[:: mask.shape[0] // examples, :, :1].expand(-1, -1, query.shape[1], -1)
    return query.transpose(1, 2), mask


def _unfolded(weights: torch.Tensor | None, length: int) -> torch.Tensor | None:
    """`[examples, heads, beams * length, keys]` -> `[rows, heads, length, keys]`, where there are weights to show."""
    return None if weights is None else weights.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)


class SharedCrossAttention(BartAttention):
    """BART's cross-attention, which reads each document once for all of its beams.

    It does so when the cache is a `SharedCrossAttentionCache`, or when there are fewer documents than rows.
    """

    def forward(
        self, hidden_states, key_value_states=None, past_key_values=None, attention_mask=None, **kwargs
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        examples = _examples_in(hidden_states, key_value_states, past_key_values)
        if examples is None:
            return super().forward(hidden_states, key_value_states, past_key_values, attention_mask, **kwargs)
        rows, length, _ = hidden_states.shape
        keys, values = _shared_keys(self, key_value_states, examples, past_key_values)
        query, mask = _folded(self, hidden_states, attention_mask, examples)
        assert self.config is not None, "given by the layers"
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        kwargs |= {
            "scaling": self.scaling,
            "dropout": self.dropout if self.training else 0.0,
            "is_causal": False,
        }
        states, weights = attend(self, query, keys, values, mask, **kwargs)
        return self.out_proj(states.reshape(rows, length, -1)), _unfolded(weights, length)


class SharedLEDCrossAttention(LEDDecoderAttention):
    """The same for transformers' LED, whose attention has other outputs and no choice of back end."""

    def forward(
        self,
        hidden_states,
        key_value_states=None,
        past_key_values=None,
        attention_mask=None,
        output_attentions=False,
    ):
        cache = past_key_values
        examples = _examples_in(hidden_states, key_value_states, cache)
        if examples is None:
            return super().forward(hidden_states, key_value_states, cache, attention_mask, output_attentions)
        if output_attentions:
            raise InputError(
                "transformers' LED cannot show shared attentions; use LedForConditionalGeneration."
            )
        keys, values = _shared_keys(self, key_value_states, examples, cache)
        query, mask = _folded(self, hidden_states, attention_mask, examples)
        states = F.scaled_dot_product_attention(
            query, keys, values, mask, (self.dropout or 0.0) if self.training else 0.0, scale=self.scaling
        )
        return self.out_proj(states.transpose(1, 2).reshape(hidden_states.shape)), None, cache


class SharedT5CrossAttention(T5Attention):
    """The same for T5. It has no bias by distance there, so none is made: T5 would add zeros for every pair."""

    def forward(
        self,
        hidden_states,
        mask=None,
        key_value_states=None,
        position_bias=None,
        past_key_values=None,
        **kwargs,
    ):
        examples = _examples_in(hidden_states, key_value_states, past_key_values)
        rows, length, _ = hidden_states.shape
        if examples is None and past_key_values is None:
            examples = rows
        if examples is None:
            return super().forward(
                hidden_states, mask, key_value_states, position_bias, past_key_values, **kwargs
            )
        keys, values = _shared_keys(self, key_value_states, examples, past_key_values)
        query, mask = _folded(self, hidden_states, mask, examples)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, t5_eager_attention_forward
        )
        kwargs |= {
            "scaling": self.scaling,
            "dropout": self.dropout if self.training else 0.0,
            "is_causal": False,
        }
        states, weights = attend(self, query, keys, values, mask, **kwargs)
        return self.o(states.reshape(rows, length, -1)), position_bias, _unfolded(weights, length)


class SharedCrossAttentionGeneration(SharedDocuments):
    """For a model in front of `GenerationMixin` whose cross-attention is one of the above: `generate` uses it."""

    shared_cache = SharedCrossAttentionCache

    def new_cache(self, examples: int, past: Cache | None = None) -> SharedCrossAttentionCache:
        """An empty cache for summaries of `examples` documents; `past` is for the summaries themselves."""
        return SharedCrossAttentionCache(examples, past)

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, mode, batch_size, max_length):
        """`generate` would make a cache that multiplies and moves cross-attention; make ours."""
        if model_kwargs.get("past_key_values") is None and generation_config.use_cache is not False:
            past = None
            if generation_config.cache_implementation not in (None, "dynamic"):  # such as a static one
                self._prepare_usual_cache(generation_config, model_kwargs, mode, batch_size, max_length)
                past = model_kwargs["past_key_values"].self_attention_cache
            cache = self.new_cache(batch_size, past)
            if generation_config.is_assistant:
                cache.activate_past_recording()
            model_kwargs["past_key_values"] = cache
        else:
            self._prepare_usual_cache(generation_config, model_kwargs, mode, batch_size, max_length)

    def _prepare_usual_cache(self, *arguments: Any) -> None:
        usual: Any = super()
        usual._prepare_cache_for_generation(*arguments)


_SHARED = {
    BartAttention: SharedCrossAttention,
    LEDDecoderAttention: SharedLEDCrossAttention,
    T5Attention: SharedT5CrossAttention,
}
_NAMES = ("encoder_attn", "EncDecAttention")  # of cross-attention in these models


def share_cross_attention(model: PreTrainedModel) -> PreTrainedModel:
    """A twin of a BART, LED or T5 of transformers, on the same weights, whose cross-attention is shared by beams.

    The twin needs no memory for weights and `model` is not changed; training one trains the other. Give the twin a
    `SharedCrossAttentionCache` as `past_key_values`, or call `generate_with_shared_cross_attention`.
    """
    tensors = [*model.parameters(), *model.buffers()]
    twin = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    for name, module in twin.named_modules():
        if name.endswith(_NAMES) and type(module) in _SHARED:
            module.__class__ = _SHARED[type(module)]
    return twin


def can_share_cross_attention(model: PreTrainedModel) -> bool:
    """Whether the model's cross-attention is one that `share_cross_attention` makes, or has, shared."""
    return any(
        name.endswith(_NAMES) and isinstance(module, tuple(_SHARED)) for name, module in model.named_modules()
    )


def generate_with_shared_cross_attention(
    model: PreTrainedModel, inputs: torch.Tensor | None = None, **kwargs: Any
):
    """`model.generate(inputs, **kwargs)`, the same tokens, with cross-attention shared by the beams of a document.

    For `BartForConditionalGeneration`, `LEDForConditionalGeneration` and `T5ForConditionalGeneration`; our own models do this in
    their `generate`. Any other encoder-decoder with transformers' caches gets the half of it that needs no help
    from its attention: nothing is moved when beams are reordered.

    Example:

    >>> import torch
    >>> from transformers import BartConfig, BartForConditionalGeneration
    >>> config = BartConfig(vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
    ...                     decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2)
    >>> bart = BartForConditionalGeneration(config).eval()
    >>> ids = torch.tensor([[0, 7, 8, 9, 2]])
    >>> options = {"num_beams": 3, "max_new_tokens": 4}
    >>> bool((generate_with_shared_cross_attention(bart, ids, **options) == bart.generate(ids, **options)).all())
    True
    """
    if kwargs.get("past_key_values") is not None:
        raise InputError(
            "past_key_values is given; pass a SharedCrossAttentionCache to model.generate instead."
        )
    twin: Any = share_cross_attention(model)
    cache = SharedCrossAttentionCache(_examples(inputs, kwargs))
    return twin.generate(inputs, past_key_values=cache, **kwargs)


def _examples(inputs: torch.Tensor | None, kwargs: dict[str, Any]) -> int:
    encoded = kwargs.get("encoder_outputs")
    for tensor in (inputs, kwargs.get("input_ids"), kwargs.get("inputs_embeds")):
        if tensor is not None:
            return tensor.shape[0]
    if encoded is not None:
        return encoded[0].shape[0]
    raise InputError(
        "there is nothing to summarize; give inputs, input_ids, inputs_embeds or encoder_outputs."
    )
