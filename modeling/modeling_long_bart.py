"""BART with another encoder: what our long-document models share.

From top to bottom: the encoder (a subclass says which self-attention and what it needs to know of the padding), the
decoder, the body, the head with loss and generation.
"""

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers.cache_utils import Cache, DynamicCache, DynamicSlidingWindowLayer
from transformers.masking_utils import create_sliding_window_causal_mask
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqModelOutput
from transformers.models.bart.modeling_bart import (
    BartDecoder,
    BartEncoder,
    BartEncoderLayer,
    BartForConditionalGeneration,
    BartModel,
    BartPreTrainedModel,
    BartScaledWordEmbedding,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from summarily.modeling.bart_surgery import LearnedPositions, swap_encoder_self_attention
from summarily.modeling.configuration_long_bart import LongBartConfig
from summarily.modeling.generation.shared_cross_attention import (
    SharedCrossAttention,
    SharedCrossAttentionCache,
    SharedCrossAttentionGeneration,
)
from summarily.modeling.modeling_summarizer import SummarizerForward
from summarily.support.errors import InputError


class EncoderSelfAttention(nn.Module):
    """Called with the hidden states and the encoder's plan; returns the new states and the weights, or None."""


class LongBartEncoder(BartEncoder):
    """BART's encoder around `make_attention`. The layers' attention is given what `plan` returns."""

    _can_record_outputs = {"hidden_states": BartEncoderLayer, "attentions": EncoderSelfAttention}
    config: LongBartConfig

    def __init__(self, config: LongBartConfig):
        super().__init__(config)
        self.max_source_positions = config.max_encoder_position_embeddings
        self.embed_positions = self.make_positions(self.max_source_positions)
        swap_encoder_self_attention(self, self.make_attention)
        self.post_init()

    def make_positions(self, positions: int) -> LearnedPositions:
        return LearnedPositions(positions, self.config.d_model)

    def make_attention(self, layer: int) -> EncoderSelfAttention:
        raise NotImplementedError

    def plan(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs) -> Any:
        """What all layers' attention has to know; made once per forward pass."""
        raise NotImplementedError

    def encode(self, input_ids, attention_mask, inputs_embeds, **plan_arguments) -> BaseModelOutput:
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("Give either input_ids or inputs_embeds, not both and not neither.")
        states = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        length = states.shape[1]
        if length > self.max_source_positions:
            raise InputError(
                f"The source has {length} tokens, but there are {self.max_source_positions} positions; cut it, or "
                "convert the model with a larger max_length."
            )
        states = self.layernorm_embedding(states + self.embed_positions(states[..., 0]))
        states = F.dropout(states, p=self.dropout, training=self.training)
        plan = self.plan(states, attention_mask, **plan_arguments)
        for layer in self.layers:
            if self.training and self.layerdrop and torch.rand([]) < self.layerdrop:
                continue
            states = layer(states, plan)
        return BaseModelOutput(last_hidden_state=states)

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs) -> BaseModelOutput:
        return self.encode(input_ids, attention_mask, inputs_embeds)


class LongBartDecoder(BartDecoder):
    """BART's decoder; cross-attention reads a document once for all beams, self-attention may have a window."""

    config: LongBartConfig

    def __init__(self, config: LongBartConfig):
        super().__init__(config)
        self.embed_positions = self.make_positions(config.max_position_embeddings)
        for index, layer in enumerate(self.layers):
            layer.encoder_attn = SharedCrossAttention(
                config.d_model,
                config.decoder_attention_heads,
                dropout=config.attention_dropout,
                is_decoder=True,
                config=config,
                layer_idx=index,
            )
        self.post_init()

    def make_positions(self, positions: int) -> LearnedPositions:
        return LearnedPositions(positions, self.config.d_model)

    def new_cache(self, examples: int, past: Cache | None = None) -> SharedCrossAttentionCache:
        """An empty cache for summaries of `examples` documents, as long as the window where there is one."""
        if window := self.config.summary_window:
            if past is not None:
                raise InputError(
                    f"summary_window={window} has a cache of its own; leave cache_implementation out."
                )
            past = DynamicCache()
            past.layer_class_to_replicate = None
            past.layers = [DynamicSlidingWindowLayer(window) for _ in self.layers]
        return SharedCrossAttentionCache(examples, past)

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        past_key_values: Cache | None = None,
        inputs_embeds=None,
        use_cache=None,
        **kwargs,
    ):
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if use_cache and past_key_values is None and encoder_hidden_states is not None:
            past_key_values = self.new_cache(encoder_hidden_states.shape[0])
        if self.config.summary_window:
            tokens = input_ids if inputs_embeds is None else inputs_embeds
            attention_mask = self.window_mask(tokens, attention_mask, past_key_values)
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=encoder_attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )

    def window_mask(self, tokens, attention_mask, past_key_values) -> torch.Tensor | None:
        """The causal mask within the window, four-dimensional, which BART's decoder then takes as it is."""
        # Only for the mask: in the model's own config, `sliding_window` would put a window on cross-attention.
        config = copy.copy(self.config)
        config.sliding_window = config.summary_window
        past = past_key_values.self_attention_cache if past_key_values is not None else None
        if attention_mask is None:
            seen = past.get_seq_length() if past is not None else 0
            attention_mask = torch.ones(tokens.shape[0], seen + tokens.shape[1], device=tokens.device)
        like = torch.empty(*tokens.shape[:2], 0, dtype=self.dtype, device=tokens.device)
        mask = create_sliding_window_causal_mask(
            config=config, inputs_embeds=like, attention_mask=attention_mask, past_key_values=past
        )
        return attention_mask if mask is None else mask


class LongBartModel(BartModel):
    """Encoder and decoder without the language-model head."""

    _supports_flash_attn = False
    _supports_flex_attn = False
    encoder_class: type[LongBartEncoder] = LongBartEncoder
    decoder_class: type[LongBartDecoder] = LongBartDecoder
    encoder_arguments: tuple[str, ...] = ()  # of forward, for the encoder only

    def __init__(self, config: LongBartConfig):
        BartPreTrainedModel.__init__(self, config)
        scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.shared = BartScaledWordEmbedding(config.vocab_size, config.d_model, config.pad_token_id, scale)
        self.encoder = self.encoder_class(config)
        self.decoder = self.decoder_class(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, encoder_outputs=None, inputs_embeds=None, **kwargs
    ) -> Seq2SeqModelOutput:
        mine = {name: kwargs.pop(name, None) for name in self.encoder_arguments}
        if encoder_outputs is None:
            shown = {name: value for name, value in kwargs.items() if name.startswith("output_")}
            encoder_outputs = self.encoder(
                input_ids, attention_mask, inputs_embeds, return_dict=True, **mine, **shown
            )
        return super().forward(
            input_ids, attention_mask, encoder_outputs=encoder_outputs, return_dict=True, **kwargs
        )


class LongBartForConditionalGeneration(
    SummarizerForward, SharedCrossAttentionGeneration, BartForConditionalGeneration
):
    """The summarizer."""

    _supports_flash_attn = False
    _supports_flex_attn = False
    model_class: type[LongBartModel] = LongBartModel

    def __init__(self, config: LongBartConfig):
        BartPreTrainedModel.__init__(self, config)
        self.model = self.model_class(config)
        self.final_logits_bias = nn.Buffer(torch.zeros((1, config.vocab_size)))
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def predict(self, input_ids, attention_mask, inputs_embeds, encoder_outputs, **decoder) -> Any:
        outputs = self.model(
            input_ids, attention_mask, inputs_embeds=inputs_embeds, encoder_outputs=encoder_outputs, **decoder
        )
        return self.lm_head(outputs.last_hidden_state) + self.final_logits_bias, outputs

    def new_cache(self, examples: int, past: Cache | None = None) -> SharedCrossAttentionCache:
        return self.model.decoder.new_cache(examples, past)
