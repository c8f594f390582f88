"""A copy of a model in training that writes its summaries: the adapter merged into the weights, in the run's precision.

A model that learns an adapter pays at every token that it writes for two products instead of one, and under autocast for
casting its frozen weights again. Rewards need two summaries of each document in every step, so a copy pays for itself.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.modeling_outputs import ModelOutput

from summarily.modeling.generation.shared_cross_attention import (
    SharedCrossAttentionCache,
    can_share_cross_attention,
    share_cross_attention,
)


class Writer:
    """The model as it is at each `refresh`, without adapters, in `dtype`.

    Example:
        >>> writer = Writer(model, torch.bfloat16)                    # doctest: +SKIP
        >>> writer.refresh(); writer.greedy_and_sampled(inputs, encoder_outputs, max_new_tokens=100)  # doctest: +SKIP
    """

    def __init__(self, model: Any, dtype: torch.dtype):
        self.source = model
        self.model = copy.deepcopy(model)
        vars(self.model).pop("forward", None)  # Accelerate's, which casts
        self._pairs: list[tuple[Any, torch.Tensor]] = []  # of what is learned, and its weight in the copy
        for name, layer in model.named_modules():
            if hasattr(layer, "get_delta_weight"):
                plain = self.model.get_submodule(name).get_base_layer()
                self.model.set_submodule(name, plain)
                self._pairs.append((layer, plain.weight))
        vars(self.model).pop("peft_config", None)
        self.model._hf_peft_config_loaded = False
        self.model.requires_grad_(False).to(dtype=dtype).eval()
        self.model = share_cross_attention(self.model)
        self.model.set_attn_implementation("eager")  # for one query at a time the fused kernel is slower
        named = dict(self.model.named_parameters())
        for name, value in model.named_parameters():
            if value.requires_grad and "lora_" not in name:
                self._pairs.append((value, named[name.replace(".base_layer.", ".")]))

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over what was learned since."""
        for learned, weight in self._pairs:
            if isinstance(learned, torch.Tensor):
                weight.copy_(learned)
            else:
                merged = learned.get_base_layer().weight
                weight.copy_(sum(map(learned.get_delta_weight, learned.active_adapters), merged))

    def greedy_and_sampled(
        self, inputs: Mapping[str, Any], encoder_outputs: ModelOutput, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What `generate` writes with these options, without sampling and with it, in one pass: reading the weights takes
        most of the time, and both read the same documents, of which there is one copy."""
        states = encoder_outputs["last_hidden_state"].to(self.model.dtype)
        with torch.autocast(self.model.device.type, enabled=False):
            ids = self.model.generate(
                **inputs,
                encoder_outputs=type(encoder_outputs)(last_hidden_state=states),
                past_key_values=SharedCrossAttentionCache(examples=len(states)),
                logits_processor=LogitsProcessorList([_FirstOfTwoIsGreedy()]),
                num_return_sequences=2,
                do_sample=True,
                **options,
            )
        return ids[0::2], ids[1::2]


class _FirstOfTwoIsGreedy(LogitsProcessor):
    """Leaves every other row its likeliest token alone."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        rows = scores[0::2]
        likeliest = rows.argmax(-1, keepdim=True)
        greedy = torch.full_like(rows, -torch.inf).scatter(1, likeliest, rows.gather(1, likeliest))
        return torch.stack([greedy, scores[1::2]], 1).flatten(0, 1)


def can_write(model: Any) -> bool:
    """Whether there is an adapter to merge, and cross-attention to share."""
    return bool(getattr(model, "peft_config", None)) and can_share_cross_attention(model)
