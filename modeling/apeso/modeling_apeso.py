"""APESO: a pointer-generator whose encoder also says which source tokens belong to salient entities.

The entity attention takes part in nothing but its own loss; summaries profit from it in beam search, where the entity
penalty favours hypotheses that have attended to those tokens (`summary_beam_search`).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from transformers.modeling_outputs import Seq2SeqLMOutput

from summarily.modeling.apeso.configuration_apeso import ApesoConfig
from summarily.modeling.generation.summary_beam_search import settings_in_force, summary_beam_search
from summarily.modeling.pointer_generator.modeling_pointer_generator import (
    PointerGeneratorEncoder,
    PointerGeneratorEncoderOutput,
    PointerGeneratorForConditionalGeneration,
    PointerGeneratorModel,
    at_least_float32,
)
from summarily.support.errors import InputError


@dataclass
class ApesoEncoderOutput(PointerGeneratorEncoderOutput):
    """What the decoder needs, and the entities.

    Args:
        entity_attention: `[B, S]`, the probability that a token belongs to a salient entity, 0 for padding; the gold
            positions themselves where `gold_entities` were given.
        entity_logits: `[B, S]`, what the model predicts, before the sigmoid.
    """

    entity_attention: torch.Tensor | None = None
    entity_logits: torch.Tensor | None = None


class EntityAttention(nn.Module):
    """v . tanh(U h_j + b) for every state: additive attention with an empty query (Eq. 3)."""

    def __init__(self, size: int):
        super().__init__()
        self.key = nn.Linear(size, size)
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return at_least_float32(self.score(torch.tanh(self.key(states)))[..., 0])


class ApesoEncoder(PointerGeneratorEncoder):
    """The BiLSTM with the entity layer on top."""

    config_class = ApesoConfig
    output_class = ApesoEncoderOutput

    def __init__(self, config: ApesoConfig):
        super().__init__(config)
        self.entities = EntityAttention(config.hidden_size)
        self.post_init()

    def forward(
        self, input_ids=None, attention_mask=None, gold_entities=None, **kwargs
    ) -> ApesoEncoderOutput:
        """`gold_entities` stand in for what the layer predicts: the oracle of Table 4."""
        kwargs.pop("return_dict", None)
        outputs = super().forward(input_ids, attention_mask, return_dict=True, **kwargs)
        logits = self.entities(outputs.last_hidden_state)
        attention = torch.sigmoid(logits) if gold_entities is None else gold_entities.to(logits.dtype)
        if attention_mask is not None:
            attention = attention * attention_mask
        return ApesoEncoderOutput(**outputs, entity_attention=attention, entity_logits=logits)


class ApesoModel(PointerGeneratorModel):
    """Encoder with the entity layer, and decoder, without the words.

    Example:
        >>> model = ApesoModel(ApesoConfig(vocab_size=20, embedding_size=8, hidden_size=16))
        >>> type(model.get_encoder()).__name__
        'ApesoEncoder'
    """

    config_class = ApesoConfig
    encoder_class = ApesoEncoder


class ApesoForConditionalGeneration(PointerGeneratorForConditionalGeneration):
    """The summarizer. With `salient_tokens` (1 for the tokens of salient entities) beside `labels`, an example's loss is

        delta * mean BCE of its source tokens + (1 - delta) * mean NLL of its labels          (Eq. 5)

    and without them the NLL alone. A batch weighs its examples by their labels, as the NLL does.

    `generate` searches with the penalties that its generation config holds (`keep_settings`), and finds the entities by
    itself. `generate(..., gold_entities=labels)` makes the gold positions the entity attention; `salient_tokens` do not,
    so that a trainer that hands all columns to `generate` gives nothing away.

    Example:

    >>> import torch
    >>> config = ApesoConfig(vocab_size=50, embedding_size=8, hidden_size=16)
    >>> model = ApesoForConditionalGeneration(config).eval()
    >>> ids = torch.tensor([[5, 50, 7, 51, 1]])
    >>> model(input_ids=ids, labels=ids, salient_tokens=torch.tensor([[0, 1, 0, 0, 0]])).loss.shape
    torch.Size([])
    >>> model.model.encoder(ids).entity_attention.shape
    torch.Size([1, 5])
    """

    config_class = ApesoConfig
    model_class = ApesoModel

    # The arguments are named once more because trainers keep only the columns that a signature names.
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        encoder_outputs=None,
        past_key_values=None,
        labels=None,
        use_cache=None,
        output_attentions=None,
        num_items_in_batch: torch.Tensor | int | None = None,
        output_hidden_states=None,
        salient_tokens=None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        if kwargs.get("gold_entities") is not None:
            raise InputError(
                "gold_entities change what a search with gamma looks for, and nothing in a forward pass; give them to "
                "generate, or to the encoder, or leave them out."
            )
        return super().forward(
            input_ids,
            attention_mask,
            decoder_input_ids,
            encoder_outputs,
            past_key_values,
            labels,
            use_cache,
            output_attentions,
            num_items_in_batch,
            output_hidden_states,
            salient_tokens=salient_tokens,
            **kwargs,
        )

    def generate(self, inputs=None, generation_config=None, *args, gold_entities=None, **kwargs):
        """As for any model; `gold_entities`, 1 for the tokens of salient entities, stand in for what the layer finds."""
        if gold_entities is not None:
            ours = kwargs.get("custom_generate") in (None, summary_beam_search)
            gamma = settings_in_force(self, generation_config, kwargs)["gamma"]
            if (ours and not gamma) or kwargs.get("encoder_outputs") is not None:
                raise InputError(
                    f"gold_entities would be ignored: with gamma={gamma:g} nothing asks for entities, and encoder_outputs "
                    "have their own. Give a gamma above 0 and the source, or leave them out."
                )
            kwargs["gold_entities"] = gold_entities
        return super().generate(inputs, generation_config, *args, **kwargs)

    def prepare_inputs_for_generation(self, *args, **kwargs):
        kwargs.pop("gold_entities", None)  # the encoder has had them
        return super().prepare_inputs_for_generation(*args, **kwargs)

    def summed_loss(self, losses, labels, encoder_outputs, attention_mask, salient_tokens=None, **kwargs):
        if salient_tokens is None:
            return losses.sum()
        logits = encoder_outputs.entity_logits
        mask = torch.ones_like(logits) if attention_mask is None else attention_mask.to(logits.dtype)
        gold = salient_tokens.to(logits.dtype)
        entropies = F.binary_cross_entropy_with_logits(logits, gold, reduction="none")
        means = (entropies * mask).sum(1) / mask.sum(1)
        targets = (labels != -100).sum(1)
        return self.config.delta * (means * targets).sum() + (1 - self.config.delta) * losses.sum()

    @classmethod
    def from_pointer_generator(
        cls, model: PointerGeneratorForConditionalGeneration, delta: float = 0.01
    ) -> "ApesoForConditionalGeneration":
        """A copy of a trained pointer-generator with a new entity layer: where the paper's last epochs start.

        Example:

        >>> from summarily.modeling import PointerGeneratorConfig
        >>> config = PointerGeneratorConfig(vocab_size=50, embedding_size=8, hidden_size=16)
        >>> baseline = PointerGeneratorForConditionalGeneration(config)
        >>> type(ApesoForConditionalGeneration.from_pointer_generator(baseline).config).__name__
        'ApesoConfig'
        """
        values = model.config.to_dict()
        for name in ("model_type", "architectures", "auto_map", "transformers_version"):
            values.pop(name, None)
        apeso = cls(ApesoConfig(**values, delta=delta))
        missing, unexpected = apeso.load_state_dict(model.state_dict(), strict=False)
        if unexpected or any(".entities." not in name for name in missing):
            raise InputError(f"not a pointer-generator: unexpected {unexpected}, missing {missing}.")
        apeso.generation_config = model.generation_config
        return apeso.to(model.device)


__all__ = ["ApesoForConditionalGeneration", "ApesoModel"]
