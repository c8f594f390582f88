"""Configuration of BLEURT."""

from huggingface_hub.dataclasses import strict

from summarily.modeling.configuration_adapted_encoder import AdaptedEncoderConfig
from summarily.support.errors import InputError

POOLINGS = ("first", "pair")


@strict
class BleurtConfig(AdaptedEncoderConfig):
    """An encoder fed `[CLS] reference [SEP] candidate [SEP]`, and a linear map to the score.

    Reference: Sellam et al. (2020), BLEURT: Learning Robust Metrics for Text Generation.

    Args:
        pooling: what the linear map reads: "first" is the encoder's pooled first token, as published; "pair" is the
            first token with the means u of the reference's and v of the candidate's tokens, as |u - v| and u * v.
        signals: names of the similarities that a model has learnt to predict beside the score.
        dropout: before the linear map, in training.

    Example:

    >>> BleurtConfig(signals=["rouge1", "bertscore"]).outputs
    3
    """

    model_type = "summarily-bleurt"

    pooling: str = "first"
    signals: list[str] | None = None
    dropout: float | int = 0.1

    def __post_init__(self, **kwargs):
        if self.pooling not in POOLINGS:
            raise InputError(f"pooling={self.pooling!r} must be one of {', '.join(POOLINGS)}.")
        super().__post_init__(**kwargs)

    @property
    def outputs(self) -> int:
        """The score and the signals."""
        return 1 + len(self.signals or ())


__all__ = ["BleurtConfig"]
