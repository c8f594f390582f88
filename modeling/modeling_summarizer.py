"""The forward pass of our summarizers around BART and T5: labels make the decoder's inputs, and the loss."""

from typing import Any

import torch
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from summarily.modeling.summary_loss import summary_loss


class SummarizerForward:
    """Of a model with a head; `predict` is what it computes.

    The loss is divided by `num_items_in_batch`, or by the number of labels; those of -100 do not count. It is smoothed in
    training if the config says so.
    """

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        inputs_embeds=None,
        decoder_inputs_embeds=None,
        labels=None,
        use_cache=None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        decoder = {
            "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": decoder_attention_mask,
            "decoder_inputs_embeds": decoder_inputs_embeds,
            "past_key_values": past_key_values,
            "use_cache": use_cache,
        }
        logits, outputs = self.predict(
            input_ids, attention_mask, inputs_embeds, encoder_outputs, **decoder, **kwargs
        )
        loss = None
        if labels is not None:
            smoothing = getattr(self.config, "label_smoothing", 0.0) if self.training else 0.0
            loss = summary_loss(logits, labels, num_items_in_batch, smoothing)
        rest = {name: value for name, value in outputs.items() if name not in ("last_hidden_state", "logits")}
        return Seq2SeqLMOutput(loss=loss, logits=logits, **rest)

    def predict(self, input_ids, attention_mask, inputs_embeds, encoder_outputs, **decoder) -> Any:
        """The logits, and the outputs that they were computed from."""
        raise NotImplementedError


class GlobalTokensForward:
    """Of a model whose encoder has global tokens; trainers keep only the columns that a signature names."""

    encoder_arguments = ("global_attention_mask",)

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        global_attention_mask=None,
        encoder_outputs=None,
        labels=None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            global_attention_mask=global_attention_mask,
            encoder_outputs=encoder_outputs,
            labels=labels,
            **kwargs,
        )


__all__ = ["GlobalTokensForward", "SummarizerForward"]
