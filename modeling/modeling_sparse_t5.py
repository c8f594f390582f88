"""T5 with another encoder self-attention: what our long-document T5s share.

All but the encoder's self-attention is T5's: the names of its weights, its decoder, its bias by relative distance. A
subclass says which attention, and what it needs to know of the padding; the bias by distance is computed once per
forward pass and handed to every layer.
"""

import copy
from typing import Any, Self

import torch
from torch import nn
from transformers import GenerationConfig
from transformers.activations import NewGELUActivation
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqModelOutput
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import (
    T5Attention,
    T5DenseActDense,
    T5DenseGatedActDense,
    T5ForConditionalGeneration,
    T5Model,
    T5PreTrainedModel,
    T5Stack,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from summarily.modeling.bart_surgery import shared_fields
from summarily.modeling.generation.shared_cross_attention import (
    SharedCrossAttentionGeneration,
    SharedT5CrossAttention,
)
from summarily.modeling.modeling_summarizer import SummarizerForward
from summarily.support.errors import InputError, InputTypeError


class SparseT5Encoder(T5Stack):
    """T5's encoder around `make_attention`. The layers' attention is given what `plan` returns, as its mask, and the
    bias by distance, `[2 length - 1, heads]`, as its `position_bias`."""

    def __init__(self, config: T5Config):
        super().__init__(config)
        for layer, block in enumerate(self.block):
            block.layer[0].SelfAttention = self.make_attention(layer)
        self.post_init()

    def make_attention(self, layer: int) -> nn.Module:
        raise NotImplementedError

    def plan(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs) -> Any:
        """What all layers' attention has to know; made once per forward pass."""
        raise NotImplementedError

    def distance_bias(self, length: int, device: torch.device) -> torch.Tensor:
        """The bias of the distances -(length - 1) .. length - 1; the first layer keeps it, as in T5."""
        buckets = T5Attention._relative_position_bucket(
            torch.arange(1 - length, length, device=device),
            num_buckets=self.config.relative_attention_num_buckets,
            max_distance=self.config.relative_attention_max_distance,
        )
        return self.block[0].layer[0].SelfAttention.relative_attention_bias(buckets)

    def encode(self, input_ids, attention_mask, inputs_embeds, **plan_arguments) -> BaseModelOutput:
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("Give either input_ids or inputs_embeds, not both and not neither.")
        states = self.dropout(self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds)
        plan = self.plan(states, attention_mask, **plan_arguments)
        bias = self.distance_bias(states.shape[1], states.device)
        for block in self.block:
            # All by position: gradient checkpointing looks for tensors there.
            states = block(states, plan, bias)[0]
        return BaseModelOutput(last_hidden_state=self.dropout(self.final_layer_norm(states)))

    @merge_with_config_defaults
    @capture_outputs
    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **kwargs) -> BaseModelOutput:
        return self.encode(input_ids, attention_mask, inputs_embeds)


class SparseT5Decoder(T5Stack):
    """T5's decoder, whose cross-attention reads a document once for all beams."""

    def __init__(self, config: T5Config):
        super().__init__(config)
        for layer, block in enumerate(self.block):
            block.layer[1].EncDecAttention = SharedT5CrossAttention(config, layer_idx=layer)
        self.post_init()


class SparseT5Body:
    """For a T5 with or without head: the parts, and the encoder's turn in a forward pass."""

    _supports_flash_attn = False
    _supports_flex_attn = False
    encoder_class: type[SparseT5Encoder] = SparseT5Encoder
    encoder_arguments: tuple[str, ...] = ()  # of forward, for the encoder only

    def build(self, config: T5Config) -> None:
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        encoder_config, decoder_config = copy.deepcopy(config), copy.deepcopy(config)
        encoder_config.is_decoder = encoder_config.use_cache = False
        decoder_config.is_decoder, decoder_config.num_layers = True, config.num_decoder_layers
        self.encoder = self.encoder_class(encoder_config)
        self.decoder = SparseT5Decoder(decoder_config)
        fuse_gelu(self)

    def encoded(self, encoder_outputs, input_ids, attention_mask, inputs_embeds, kwargs: dict[str, Any]):
        """What the encoder gives, unless it is given; takes the encoder's own arguments out of `kwargs`."""
        mine = {name: kwargs.pop(name, None) for name in self.encoder_arguments}
        if encoder_outputs is not None:
            return encoder_outputs
        shown = {name: value for name, value in kwargs.items() if name.startswith("output_")}
        return self.encoder(input_ids, attention_mask, inputs_embeds, return_dict=True, **mine, **shown)


class SparseT5Model(SparseT5Body, T5Model):
    """Encoder and decoder without the language-model head."""

    def __init__(self, config: T5Config):
        T5PreTrainedModel.__init__(self, config)
        self.build(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, encoder_outputs=None, inputs_embeds=None, **kwargs
    ) -> Seq2SeqModelOutput:
        encoder_outputs = self.encoded(encoder_outputs, input_ids, attention_mask, inputs_embeds, kwargs)
        return super().forward(
            attention_mask=attention_mask, encoder_outputs=encoder_outputs, return_dict=True, **kwargs
        )


class SparseT5ForConditionalGeneration(
    SparseT5Body, SummarizerForward, SharedCrossAttentionGeneration, T5ForConditionalGeneration
):
    """The summarizer."""

    def __init__(self, config: T5Config):
        T5PreTrainedModel.__init__(self, config)
        self.model_dim = config.d_model
        self.build(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def predict(self, input_ids, attention_mask, inputs_embeds, encoder_outputs, **decoder) -> Any:
        encoder_outputs = self.encoded(encoder_outputs, input_ids, attention_mask, inputs_embeds, decoder)
        outputs = T5ForConditionalGeneration.forward(
            self, attention_mask=attention_mask, encoder_outputs=encoder_outputs, return_dict=True, **decoder
        )
        return outputs.logits, outputs

    @classmethod
    def start_from(cls, t5: T5ForConditionalGeneration, config_class: type[T5Config], **fields) -> Self:
        """A model of this class with the configuration and weights of `t5`, copied; `fields` are those T5 lacks."""
        model = cls(config_class(**{**shared_fields(t5.config), **fields}))
        copy_t5(t5, model)
        model.generation_config = GenerationConfig.from_dict(t5.generation_config.to_dict())
        return model.train(t5.training).to(t5.device)


def fuse_gelu(model: nn.Module) -> None:
    """Let T5's feed-forward layers compute their GELU in one operation instead of eight.

    It is the same function, and keeps one tensor for the backward pass instead of five.

    Example:

    >>> from transformers import T5Config, T5Model
    >>> t5 = T5Model(T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, feed_forward_proj="gated-gelu"))
    >>> fuse_gelu(t5)
    >>> t5.encoder.block[0].layer[1].DenseReluDense.act
    GELU(approximate='tanh')
    """
    for module in model.modules():
        if isinstance(module, (T5DenseActDense, T5DenseGatedActDense)) and isinstance(
            module.act, NewGELUActivation
        ):
            module.act = nn.GELU(approximate="tanh")


def load_t5(model: T5ForConditionalGeneration | str) -> T5ForConditionalGeneration:
    """`model` itself, or the T5 of that name or folder."""
    if isinstance(model, str):
        model = T5ForConditionalGeneration.from_pretrained(model)
    # Our own models are subclasses of T5's, with other layers.
    if not isinstance(model, T5ForConditionalGeneration) or model.config.model_type != "t5":
        raise InputTypeError(
            f"model is a {type(model).__name__}; give a T5ForConditionalGeneration or its name."
        )
    return model


def copy_t5(t5: T5ForConditionalGeneration, model: SparseT5ForConditionalGeneration) -> None:
    """Copy every weight of `t5` that `model` has a place for. What is one tensor in `t5` stays one, and what is not
    becomes two: T5's head is its embeddings, that of T5 1.1 and FLAN is not, and the configuration does not say."""
    copies: dict[int, nn.Parameter] = {}
    places = dict(model.named_parameters(remove_duplicate=False))
    for name, weight in t5.named_parameters(remove_duplicate=False):
        if name not in places:
            continue
        if places[name].shape != weight.shape:
            raise InputError(
                f"{name}: weights of shape {tuple(weight.shape)} do not fit {tuple(places[name].shape)}."
            )
        if id(weight) not in copies:
            copies[id(weight)] = nn.Parameter(weight.detach().clone())
        module, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(module), leaf, copies[id(weight)])
