"""The layers of a model, run no further than what is asked for."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from summarily.metrics.encoding.loading import load_pretrained, without_the_head
from summarily.support.errors import InputError
from summarily.support.processes import Lock

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from summarily.metrics.encoding.shared import Encoder

_FINAL_NORMS = ("final_layer_norm", "final_norm", "layer_norm")


class _Stop(Exception):
    """All layers asked for have been seen."""


class Stack:
    """A loaded model, and how to run it only as far as a layer."""

    def __init__(self, encoder: Encoder):
        from transformers import AutoModel

        with without_the_head():
            model = load_pretrained(AutoModel, encoder.resolved, dtype=getattr(torch, encoder.dtype))
        has_decoder = bool(getattr(model.config, "is_encoder_decoder", False))
        if encoder.side == "decoder" and not has_decoder:
            raise InputError(f"side='decoder' needs an encoder-decoder; {encoder.identity} has no decoder.")
        if encoder.side == "encoder" and has_decoder:
            model = model.get_encoder()
        self.model = model.eval().requires_grad_(False).to(encoder.device)
        part = model.get_decoder() if encoder.side == "decoder" else model
        self.num_layers = encoder.num_layers
        self.layers, self.norm = _layers_of(part, self.num_layers)
        self.start_token = _start_token(model.config) if encoder.side == "decoder" else None
        # Hooks are the model's, and encoders that share it run in threads of their own.
        self._lock = Lock()
        self.accepts = set(inspect.signature(self.model.forward).parameters)

    def __call__(
        self, ids: torch.Tensor, mask: torch.Tensor, layers: frozenset[int]
    ) -> dict[int, torch.Tensor]:
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if self.start_token is not None:
            # What BartModel does itself when it is given no decoder input: the same text, shifted right.
            start = torch.full_like(ids[:, :1], self.start_token)
            inputs["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], dim=1)
        if "use_cache" in self.accepts:
            inputs["use_cache"] = False
        with self._lock, torch.inference_mode():
            if self.layers is None:
                return self._all_layers(inputs, layers)
            return self._up_to_the_highest(inputs, layers)

    def _all_layers(self, inputs: dict[str, Any], layers: frozenset[int]) -> dict[int, torch.Tensor]:
        """For architectures without a plain list of layers, such as ALBERT, which shares them."""
        output = self.model(**inputs, output_hidden_states=True)
        name = "decoder_hidden_states" if self.start_token is not None else "hidden_states"
        return {layer: output[name][layer] for layer in layers}

    def _up_to_the_highest(self, inputs: dict[str, Any], layers: frozenset[int]) -> dict[int, torch.Tensor]:
        """Catch what enters layer k + 1, which is what leaves layer k; stop when nothing more is wanted."""
        assert self.layers is not None
        caught: dict[int, torch.Tensor] = {}
        highest = max(layers)

        def catch(layer: int) -> Any:
            def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                hidden = args[0] if args else kwargs["hidden_states"]
                caught[layer] = hidden if self.norm is None else self.norm(hidden)
                if layer == highest:
                    raise _Stop

            return hook

        handles = [
            self.layers[layer].register_forward_pre_hook(catch(layer), with_kwargs=True)
            for layer in layers
            if layer < self.num_layers
        ]
        try:
            output = self.model(**inputs)
            caught[self.num_layers] = output[0]
        except _Stop:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return {layer: caught[layer] for layer in layers}


def _layers_of(part: PreTrainedModel, count: int) -> tuple[nn.ModuleList | None, nn.Module | None]:
    """The list of a stack's layers and its final normalisation, if it has them."""
    if part.config.model_type == "xlnet":  # its layers put the length before the batch
        return None, None
    for module in part.modules():
        for child in module.children():
            if isinstance(child, nn.ModuleList) and len(child) == count and count > 0:
                norms = (getattr(module, name, None) for name in _FINAL_NORMS)
                return child, next((norm for norm in norms if norm is not None), None)
    return None, None


def _start_token(config: Any) -> int:
    token = config.decoder_start_token_id
    if token is None:
        raise InputError("the model's config has no decoder_start_token_id.")
    return int(token)
