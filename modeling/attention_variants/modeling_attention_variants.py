"""The attention-variant transformer: tensor2tensor's `transformer_base` with a choice of self-attention.

From top to bottom: embeddings and positions, the two attentions, the layers, encoder and decoder, the body
(`AttentionVariantModel`), the head with loss and generation (`AttentionVariantForConditionalGeneration`).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import DynamicCache, DynamicSlidingWindowLayer, EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from summarily.modeling.attention.blocks import (
    AttentionPlan,
    attention,
    eager_attention,
    plan_attention,
    plan_dense,
    plan_keys,
)
from summarily.modeling.attention.relative import relative_attention
from summarily.modeling.attention_variants.configuration_attention_variants import AttentionVariantConfig
from summarily.modeling.summary_loss import summary_loss
from summarily.support.errors import InputError, InputTypeError

# What beam search does unless told otherwise. The paper: beam 8, at most 14 words (between the start and the end
# token), and probabilities changed "to encourage longer summaries", by how much it does not say.
GENERATION_DEFAULTS = {
    "paper": {"num_beams": 8, "length_penalty": 2.0, "max_length": 16},
    "t2t": {"num_beams": 4, "length_penalty": 0.6},
}


class ScaledEmbedding(nn.Embedding):
    """Embeddings times sqrt(size). Padding is zero here even though the shared output matrix trains its row."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        real = torch.as_tensor(input_ids != self.padding_idx)
        scale = real.to(self.weight.dtype) * math.sqrt(self.embedding_dim)
        return super().forward(input_ids) * scale[..., None]


def sinusoids(positions: torch.Tensor, size: int) -> torch.Tensor:
    """`[positions, size]`: sines in the first half of the channels, cosines in the second.

    Example:

    >>> import torch
    >>> sinusoids(torch.arange(1), 4)
    tensor([[0., 0., 1., 1.]])
    """
    channels = torch.arange(size // 2, device=positions.device)
    frequencies = torch.exp(channels * (-math.log(1e4) / max(size // 2 - 1, 1)))
    angles = positions[:, None].float() * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class FusedLinear(nn.Linear):
    """Several square projections of one input in one matrix product."""

    def __init__(self, size: int, parts: int):
        super().__init__(size, parts * size, bias=False)
        self.parts = parts


class Attention(nn.Module):
    """What self-attention and cross-attention share: heads, and the output projection."""

    def __init__(self, config: AttentionVariantConfig, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.heads = config.num_attention_heads
        self.dropout = config.attention_dropout
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def split(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [batch, heads, length, head size]

    def attend(self, query, key, value, plan):
        dropout = self.dropout if self.training else 0.0
        if self.config._attn_implementation == "eager":
            return eager_attention(query, key, value, plan, dropout)
        return attention(query, key, value, plan, dropout), None

    def merge(self, states: torch.Tensor) -> torch.Tensor:
        return self.output(states.transpose(1, 2).flatten(2))


class SelfAttention(Attention):
    """Any of the mechanisms: the plan says which keys are seen, `relative` adds learned distances."""

    def __init__(self, config: AttentionVariantConfig, layer_idx: int, mechanism: str):
        super().__init__(config, layer_idx)
        self.relative = mechanism == "relative"
        if config.preset == "t2t" and mechanism not in ("dot_product", "relative"):
            self.dropout = 0.0
        self.query_key_value = FusedLinear(config.hidden_size, 3)
        if self.relative:
            shape = (2 * config.max_relative_position + 1, config.hidden_size // self.heads)
            self.relative_keys = nn.Parameter(torch.empty(shape))
            self.relative_values = nn.Parameter(torch.empty(shape))

    def forward(self, hidden_states, plan: AttentionPlan, past_key_values: EncoderDecoderCache | None = None):
        query, key, value = (
            self.split(states) for states in self.query_key_value(hidden_states).chunk(3, -1)
        )
        if past_key_values is not None:
            key, value = past_key_values.self_attention_cache.update(key, value, self.layer_idx)
        if self.relative:
            dropout = self.dropout if self.training else 0.0
            tables = self.relative_keys, self.relative_values
            states, weights = relative_attention(query, key, value, *tables, plan, dropout)
        else:
            states, weights = self.attend(query, key, value, plan)
        return self.merge(states), weights


class CrossAttention(Attention):
    """Dot-product attention to the encoder; its keys and values are computed once per summary."""

    def __init__(self, config: AttentionVariantConfig, layer_idx: int):
        super().__init__(config, layer_idx)
        self.query = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.key_value = FusedLinear(config.hidden_size, 2)

    def forward(self, hidden_states, encoder_hidden_states, plan, past_key_values=None):
        if past_key_values is not None and past_key_values.is_updated.get(self.layer_idx):
            cached = past_key_values.cross_attention_cache.layers[self.layer_idx]
            key, value = cached.keys, cached.values
        else:
            key, value = (self.split(states) for states in self.key_value(encoder_hidden_states).chunk(2, -1))
            if past_key_values is not None:
                key, value = past_key_values.cross_attention_cache.update(key, value, self.layer_idx)
                past_key_values.is_updated[self.layer_idx] = True
        states, weights = self.attend(self.split(self.query(hidden_states)), key, value, plan)
        return self.merge(states), weights


class FeedForward(nn.Module):
    def __init__(self, config: AttentionVariantConfig):
        super().__init__()
        self.wide = nn.Linear(config.hidden_size, config.intermediate_size)
        self.narrow = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, hidden_states):
        return self.narrow(self.dropout(F.relu(self.wide(hidden_states))))


class AttentionVariantEncoderLayer(GradientCheckpointingLayer):
    """Pre-norm: x + dropout(f(norm(x))), for self-attention and the feed-forward network."""

    def __init__(self, config: AttentionVariantConfig, layer_idx: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attention = SelfAttention(config, layer_idx, config.attention_type)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states, plan):
        hidden_states = hidden_states + self.dropout(
            self.attention(self.attention_norm(hidden_states), plan)[0]
        )
        return hidden_states + self.dropout(self.feed_forward(self.feed_forward_norm(hidden_states)))


class AttentionVariantDecoderLayer(GradientCheckpointingLayer):
    """The encoder layer with cross-attention in between."""

    def __init__(self, config: AttentionVariantConfig, layer_idx: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attention = SelfAttention(config, layer_idx, config.decoder_attention_type)
        self.cross_attention_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.cross_attention = CrossAttention(config, layer_idx)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    # Tensors that need a gradient come first and by position, as reentrant checkpointing wants them.
    def forward(self, hidden_states, encoder_hidden_states, plan, cross_plan, past_key_values=None):
        attended, _ = self.attention(self.attention_norm(hidden_states), plan, past_key_values)
        hidden_states = hidden_states + self.dropout(attended)
        attended, _ = self.cross_attention(
            self.cross_attention_norm(hidden_states), encoder_hidden_states, cross_plan, past_key_values
        )
        hidden_states = hidden_states + self.dropout(attended)
        return hidden_states + self.dropout(self.feed_forward(self.feed_forward_norm(hidden_states)))


class AttentionVariantPreTrainedModel(PreTrainedModel):
    config_class = AttentionVariantConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["AttentionVariantEncoderLayer", "AttentionVariantDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_sdpa = True

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True  # every forward pass reads it from the configuration

    def _init_weights(self, module):
        """tensor2tensor's `uniform_unit_scaling`, and N(0, 1/size) for the shared embeddings."""
        if isinstance(module, nn.Linear):
            # A fused projection starts like the separate ones that it replaces.
            fan_out = module.out_features / getattr(module, "parts", 1)
            bound = math.sqrt(6 / (module.in_features + fan_out))
            init.uniform_(module.weight, -bound, bound)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, ScaledEmbedding):
            init.normal_(module.weight, std=self.config.hidden_size**-0.5)
        elif isinstance(module, SelfAttention) and module.relative:
            init.xavier_uniform_(module.relative_keys)
            init.xavier_uniform_(module.relative_values)
        else:
            super()._init_weights(module)


class Stack(AttentionVariantPreTrainedModel):
    """What encoder and decoder share: the embedded input, the layers, the last norm."""

    def __init__(self, config: AttentionVariantConfig, layer_class: type[nn.Module], layers: int):
        super().__init__(config)
        self.embed_tokens = ScaledEmbedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList([layer_class(config, index) for index in range(layers)])
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.gradient_checkpointing = False

    def embed(self, input_ids, inputs_embeds, mechanism: str, past: int = 0):
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("Give either token ids or embeddings, not both and not neither.")
        states = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if mechanism != "relative":
            positions = torch.arange(past, past + states.shape[1], device=states.device)
            states = states + sinusoids(positions, states.shape[-1]).to(states.dtype)
        return self.dropout(states)

    def needs_dense_mask(self, mechanism: str) -> bool:
        return mechanism == "relative" or self.config._attn_implementation == "eager"


class AttentionVariantEncoder(Stack):
    _can_record_outputs = {"hidden_states": AttentionVariantEncoderLayer, "attentions": SelfAttention}

    def __init__(self, config: AttentionVariantConfig):
        super().__init__(config, AttentionVariantEncoderLayer, config.encoder_layers)
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs) -> BaseModelOutput:
        pattern = self.config.encoder_pattern
        hidden_states = self.embed(input_ids, inputs_embeds, pattern.mechanism)
        plan = plan_attention(
            pattern,
            hidden_states.shape[1],
            None if pattern.blocked and self.config.t2t_padding else attention_mask,
            explicit=self.needs_dense_mask(pattern.mechanism),
            device=hidden_states.device,
        )
        for layer in self.layers:
            hidden_states = layer(hidden_states, plan)
        return BaseModelOutput(last_hidden_state=self.norm(hidden_states))


class AttentionVariantDecoder(Stack):
    _can_record_outputs = {
        "hidden_states": AttentionVariantDecoderLayer,
        "attentions": OutputRecorder(SelfAttention, index=1),
        "cross_attentions": OutputRecorder(CrossAttention, index=1),
    }

    def __init__(self, config: AttentionVariantConfig):
        super().__init__(config, AttentionVariantDecoderLayer, config.decoder_layers)
        self.post_init()

    def new_cache(self) -> EncoderDecoderCache:
        """An empty cache that keeps of each layer only what the mechanism can still see."""
        self_attention_cache = DynamicCache()
        if (reach := self.config.decoder_pattern.reach()) is not None:
            self_attention_cache.layer_class_to_replicate = None
            self_attention_cache.layers = [DynamicSlidingWindowLayer(max(reach, 2)) for _ in self.layers]
        return EncoderDecoderCache(self_attention_cache, DynamicCache())

    def plan(self, hidden_states, attention_mask, cache) -> AttentionPlan:
        pattern, queries, device = self.config.decoder_pattern, hidden_states.shape[1], hidden_states.device
        padding = None if pattern.blocked and self.config.t2t_padding else attention_mask
        past = cache.get_seq_length() if cache is not None else 0
        if past == 0:
            explicit = self.needs_dense_mask(pattern.mechanism)
            return plan_attention(pattern, queries, padding, explicit=explicit, device=device)
        _, first_key = cache.get_mask_sizes(queries, layer_idx=0)
        return plan_dense(pattern, queries, padding, past=past, first_key=first_key, device=device)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds=None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        if self.config.decoder_leaks and (use_cache or past_key_values is not None):
            raise InputError("A leaky decoder changes its past with every token: it cannot use a cache.")
        if past_key_values is None and use_cache:
            past_key_values = self.new_cache()
        if not isinstance(past_key_values, EncoderDecoderCache | None):
            raise InputTypeError(
                f"past_key_values is a {type(past_key_values).__name__}; pass an EncoderDecoderCache."
            )

        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        hidden_states = self.embed(input_ids, inputs_embeds, self.config.decoder_attention_type, past)
        plan = self.plan(hidden_states, attention_mask, past_key_values)
        cross_plan = plan_keys(encoder_attention_mask)
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, encoder_hidden_states, plan, cross_plan, past_key_values=past_key_values
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.norm(hidden_states), past_key_values=past_key_values
        )


class AttentionVariantModel(AttentionVariantPreTrainedModel):
    """Encoder and decoder without the language-model head.

    Example:

    >>> import torch
    >>> config = AttentionVariantConfig(vocab_size=50, hidden_size=16, num_attention_heads=2, encoder_layers=1,
    ...                                 decoder_layers=1, intermediate_size=32, attention_type="local")
    >>> model = AttentionVariantModel(config)
    >>> ids = torch.tensor([[5, 6, 7, 1]])
    >>> model(input_ids=ids, decoder_input_ids=ids).last_hidden_state.shape
    torch.Size([1, 4, 16])
    """

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: AttentionVariantConfig):
        super().__init__(config)
        self.shared = ScaledEmbedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.encoder = AttentionVariantEncoder(config)
        self.decoder = AttentionVariantDecoder(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.shared

    def set_input_embeddings(self, value):
        self.shared = self.encoder.embed_tokens = self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs=None,
        past_key_values=None,
        inputs_embeds=None,
        decoder_inputs_embeds=None,
        use_cache=None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, inputs_embeds, **kwargs)
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


class AttentionVariantForConditionalGeneration(AttentionVariantPreTrainedModel, GenerationMixin):
    """The summarizer. The loss is smoothed cross entropy in training and plain cross entropy in evaluation.

    Beam search divides the log-probability of a summary by `length ** length_penalty`, so a larger penalty favours
    longer summaries: 0 none, 1 the mean per token, 2 the default of the preset `paper`. To change the probabilities
    themselves, as the paper did, make the end less likely at every step:
    `generate(..., sequence_bias=[[[eos_token_id], -1.0]])`.

    Example:

    >>> import torch
    >>> config = AttentionVariantConfig(vocab_size=50, hidden_size=16, num_attention_heads=2, encoder_layers=1,
    ...                                 decoder_layers=1, intermediate_size=32, attention_type="dilated")
    >>> model = AttentionVariantForConditionalGeneration(config).eval()
    >>> ids = torch.tensor([[5, 6, 7, 1]])
    >>> model(input_ids=ids, labels=ids).logits.shape
    torch.Size([1, 4, 50])
    >>> model.generate(ids, num_beams=2, max_new_tokens=3, min_new_tokens=3).shape
    torch.Size([1, 4])
    """

    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}

    def __init__(self, config: AttentionVariantConfig):
        super().__init__(config)
        self.model = AttentionVariantModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.generation_config.update(**GENERATION_DEFAULTS[config.preset])
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds=None,
        decoder_inputs_embeds=None,
        labels=None,
        use_cache=None,
        logits_to_keep: int = 0,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            if decoder_attention_mask is None and self.config.decoder_leaks:
                # Only a decoder that looks ahead can see the padding behind a summary.
                labels_to_come = (labels != -100).flip(1).cumsum(1).flip(1)
                decoder_attention_mask = labels_to_come > 0
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        logits = self.lm_head(outputs.last_hidden_state[:, -logits_to_keep:])
        loss = None
        if labels is not None:
            smoothing = self.config.label_smoothing if self.training else 0.0
            loss = summary_loss(logits, labels, num_items_in_batch, smoothing)
        rest = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return Seq2SeqLMOutput(loss=loss, logits=logits, **rest)  # type: ignore[arg-type]

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """The labels shifted right behind the start token, padding in place of -100."""
        shifted = F.pad(labels[:, :-1], (1, 0), value=self.config.decoder_start_token_id)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        """`generate` would make a cache that keeps every key; make ours, or none for a leaky decoder."""
        kind = generation_config.cache_implementation
        if kind is not None and "static" in kind:
            raise InputError(f"cache_implementation={kind!r} is not supported; leave it out.")
        if self.config.decoder_leaks:
            generation_config.use_cache = False
        if kind is None and generation_config.use_cache is not False and not generation_config.is_assistant:
            if model_kwargs.get("past_key_values") is None:
                model_kwargs["past_key_values"] = self.model.decoder.new_cache()
            return
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args, **kwargs)  # type: ignore[misc]

    @staticmethod
    def _reorder_cache(
        past_key_values: EncoderDecoderCache, beam_idx: torch.LongTensor
    ) -> EncoderDecoderCache:
        """All beams of a document share its cross-attention rows: only the summary's own past has to move."""
        past_key_values.self_attention_cache.reorder_cache(beam_idx)
        return past_key_values


__all__ = [
    "AttentionVariantForConditionalGeneration",
    "AttentionVariantModel",
    "AttentionVariantPreTrainedModel",
]
