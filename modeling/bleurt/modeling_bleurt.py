"""BLEURT as a transformers model: a pair of texts in, a score out."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import cached_file
from transformers.utils.generic import can_return_tuple

from summarily.modeling.bleurt.configuration_bleurt import BleurtConfig
from summarily.modeling.bleurt.convert_bleurt import is_port, port_config, port_state
from summarily.modeling.modeling_adapted_encoder import AdaptedEncoderModel
from summarily.support.errors import InputError

UNKNOWN = -100.0
"""A label that is not known and costs nothing."""


class BleurtForScoring(AdaptedEncoderModel):
    """`y = W v + b`, v from an encoder that reads `[CLS] reference [SEP] candidate [SEP]`.

    `from_pretrained` takes our own folders and the PyTorch ports on the Hub (`Elron/bleurt-large-512`,
    `lucadiliello/BLEURT-20-D12`); `PairTokenizer` makes the inputs of all of them.

    Reference: Sellam et al. (2020), Eq. 1.

    Example:

    >>> small = {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    ...          "intermediate_size": 8, "vocab_size": 9}
    >>> model = BleurtForScoring(BleurtConfig(encoder_config=small))
    >>> model(torch.tensor([[2, 5, 3, 6, 3]]), token_type_ids=torch.tensor([[0, 0, 0, 1, 1]])).logits.shape
    torch.Size([1, 1])
    """

    config_class = BleurtConfig
    config: BleurtConfig

    def __init__(self, config: BleurtConfig):
        self.encoder_options = {"add_pooling_layer": config.pooling == "first"}
        super().__init__(config)
        width = self.encoder.config.hidden_size
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(width if config.pooling == "first" else 3 * width, config.outputs)
        self.post_init()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any) -> Any:
        """Load a model of ours, or a port of BLEURT under its own names."""
        folder = pretrained_model_name_or_path
        place = {key: options[key] for key in _PLACE if options.get(key) is not None}
        if folder is None or not is_port(PreTrainedConfig.get_config_dict(folder, **place)[0]):
            return super().from_pretrained(folder, *arguments, **options)
        values, _ = PreTrainedConfig.get_config_dict(folder, **place)
        dtype = options.pop("dtype", options.pop("torch_dtype", None))
        unknown = sorted(key for key in options if key not in (*_PLACE, "config", "trust_remote_code"))
        if arguments or unknown:
            raise InputError(f"a port of BLEURT is loaded without {', '.join(unknown) or 'more arguments'}.")
        model = cls(BleurtConfig(**port_config(values)))
        state = port_state(_port_file(folder, place))
        model.load_state_dict(state)
        if dtype == "auto":
            dtype = next(tensor.dtype for tensor in state.values() if tensor.is_floating_point())
        if dtype is not None:
            model.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        return model.eval()

    def keep_score_alone(self) -> None:
        """Forget the signals, which the encoder no longer serves once it was trained on ratings alone."""
        head = nn.Linear(self.head.in_features, 1, device=self.device, dtype=self.dtype)
        with torch.no_grad():
            head.weight.copy_(self.head.weight[:1])
            head.bias.copy_(self.head.bias[:1])
        self.head = head
        self.config.signals = None

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> SequenceClassifierOutput:
        """Score pairs.

        Args:
            token_type_ids: 0 for the reference with [CLS] and its [SEP], 1 for the candidate with its [SEP].
            labels: [batch, 1 + signals], `UNKNOWN` where there is none; the loss is the mean squared error of
                the known ones.

        Returns:
            `logits` [batch, 1 + signals]: the score, and what the signals are thought to be.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("give either input_ids or inputs_embeds.")
        tokens = inputs_embeds[..., 0] if input_ids is None else input_ids
        if attention_mask is None:
            attention_mask = torch.ones_like(tokens, dtype=torch.long)
        if token_type_ids is None:
            raise InputError("token_type_ids say which tokens are the candidate's; PairTokenizer gives them.")
        shown = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        output = self.encoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            inputs_embeds=inputs_embeds,
            **{name: getattr(self.config, name) if value is None else value for name, value in shown.items()},
        )
        if self.config.pooling == "first":
            pooled = output.pooler_output
        else:
            pooled = _pair_features(output.last_hidden_state, attention_mask, token_type_ids)
        logits = self.head(self.dropout(pooled))
        loss = None
        if labels is not None:
            known = labels != UNKNOWN
            loss = ((logits - labels)[known] ** 2).mean()
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


def _pair_features(
    states: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
) -> torch.Tensor:
    """The first token, and how the mean of the reference differs from that of the candidate."""
    candidate = (attention_mask * token_type_ids).unsqueeze(-1).to(states.dtype)  # [batch, time, 1]
    reference = attention_mask.unsqueeze(-1).to(states.dtype) - candidate
    u = (states * reference).sum(1) / reference.sum(1).clamp(min=1)
    v = (states * candidate).sum(1) / candidate.sum(1).clamp(min=1)
    return torch.cat([states[:, 0], (u - v).abs(), u * v], dim=-1)


_PLACE = ("revision", "cache_dir", "token", "local_files_only", "force_download", "subfolder")


def _port_file(folder: Any, place: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The weights of a port; a pickled file may hold tensors and nothing else."""
    from safetensors.torch import load_file

    file = cached_file(folder, "model.safetensors", _raise_exceptions_for_missing_entries=False, **place)
    if file is not None:
        return load_file(file)
    return torch.load(
        cached_file(folder, "pytorch_model.bin", **place), map_location="cpu", weights_only=True
    )


__all__ = ["UNKNOWN", "BleurtForScoring"]
