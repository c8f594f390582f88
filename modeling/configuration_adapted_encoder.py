"""Configuration of models that are a pinned encoder and what differs from it."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from summarily.support.errors import InputError


@strict
class AdaptedEncoderConfig(PreTrainedConfig):
    """An encoder that comes from elsewhere, with adapters of low rank in its linear layers.

    Args:
        encoder: where the frozen encoder comes from, as `support.weights.resolve` takes it: a pinned name such as
            "minilm", a folder or a Hub id. None when the checkpoint has the encoder's weights itself.
        encoder_sha256: of the encoder's `model.safetensors`; another file is refused.
        encoder_config: the encoder's own configuration, its `model_type` included.
        adapter_rank: of the change to each weight matrix (Hu et al. 2021, LoRA); 0 for no adapters.
        adapter_alpha: the change is scaled by `adapter_alpha / adapter_rank`.
        adapter_targets: ends of the names of the linear layers that are adapted; all of them when left out.

    Example:

    >>> config = AdaptedEncoderConfig(encoder_config={"model_type": "bert", "hidden_size": 8})
    >>> config.for_encoder().hidden_size
    8
    """

    model_type = "summarily-adapted-encoder"

    encoder: str | None = None
    encoder_sha256: str | None = None
    encoder_config: dict[str, Any] | None = None
    adapter_rank: int = 0
    adapter_alpha: float | int = 16
    adapter_targets: list[str] | None = None

    def __post_init__(self, **kwargs):
        if self.adapter_rank < 0:
            raise InputError(f"adapter_rank={self.adapter_rank} must be positive, or 0 for no adapters.")
        if (self.encoder is None) != (self.encoder_sha256 is None):
            raise InputError(
                "encoder and encoder_sha256 go together; `Model.from_encoder(name)` fills in both."
            )
        super().__post_init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        """The encoder's, in whose configuration it stands: a model that was resized is saved as it is."""
        values = self.encoder_config or {}
        if "model_type" not in values:
            raise AttributeError("encoder_config names no model_type, so that there is no vocab_size.")
        return values.get("vocab_size") or self.for_encoder().vocab_size

    @vocab_size.setter
    def vocab_size(self, size: int) -> None:
        self.encoder_config = {**(self.encoder_config or {}), "vocab_size": size}

    def for_encoder(self) -> PreTrainedConfig:
        """The encoder's configuration as its own class."""
        values = dict(self.encoder_config or {})
        if "model_type" not in values:
            raise InputError("encoder_config names no model_type, such as 'bert'.")
        return AutoConfig.for_model(values.pop("model_type"), **values)


__all__ = ["AdaptedEncoderConfig"]
