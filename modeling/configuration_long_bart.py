"""What the configurations of our long-document BARTs share."""

from huggingface_hub.dataclasses import strict
from transformers import BartConfig

from summarily.support.errors import InputError


@strict
class LongBartConfig(BartConfig):
    """BART with more positions in the encoder than in the decoder, and a loss of its own.

    Args:
        max_encoder_position_embeddings: the longest source.
        max_position_embeddings: the longest summary (`max_decoder_position_embeddings` is the same field).
        summary_window: how many tokens, itself included, a token of the summary sees of the summary;
            all when left out.
        label_smoothing: probability given to the other tokens of the vocabulary, in training only.
    """

    attribute_map = {
        **BartConfig.attribute_map,
        "max_decoder_position_embeddings": "max_position_embeddings",
    }

    max_encoder_position_embeddings: int = 4096
    summary_window: int | None = None
    label_smoothing: float | int = 0.0

    def __post_init__(self, **kwargs):
        if self.summary_window is not None and self.summary_window < 2:
            raise InputError(f"summary_window={self.summary_window} must be at least 2, or None.")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"label_smoothing={self.label_smoothing} must be at least 0 and less than 1.")
        if self.max_encoder_position_embeddings < 1:
            raise InputError(
                f"max_encoder_position_embeddings={self.max_encoder_position_embeddings} must be positive."
            )
        super().__post_init__(**kwargs)


__all__ = ["LongBartConfig"]
