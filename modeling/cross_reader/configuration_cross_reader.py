"""Configuration of the cross reader."""

from huggingface_hub.dataclasses import strict

from summarily.modeling.configuration_adapted_encoder import AdaptedEncoderConfig
from summarily.support.errors import InputError


@strict
class CrossReaderConfig(AdaptedEncoderConfig):
    """A BERT-like encoder with adapters that reads questions beside their passage; see `AdaptedEncoderConfig`.

    Args:
        chunk_tokens: a longer passage is read in chunks of whole sentences of at most so many tokens, `[CLS]` and
            `[SEP]` included.
        question_tokens: of a longer question so many tokens around the blank are read.
        row_tokens: tokens of questions that stand in one row, and so are attended to at a time.

    Example:

    >>> config = CrossReaderConfig(encoder_config={"model_type": "bert"}, chunk_tokens=128)
    >>> config.for_encoder().model_type, config.question_tokens
    ('bert', 96)
    """

    model_type = "summarily-cross-reader"

    chunk_tokens: int = 160
    question_tokens: int = 96
    row_tokens: int = 192

    def __post_init__(self, **kwargs):
        if min(self.chunk_tokens, self.question_tokens) < 3 or self.row_tokens < self.question_tokens:
            raise InputError(
                f"chunk_tokens={self.chunk_tokens} and question_tokens={self.question_tokens} must be at least 3, and "
                f"row_tokens={self.row_tokens} must hold a question."
            )
        super().__post_init__(**kwargs)
