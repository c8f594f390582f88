"""Configuration of InferSent."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from summarily.support.errors import InputError


@strict
class InferSentConfig(PreTrainedConfig):
    """A BiLSTM over fixed word vectors, pooled by the maximum over time.

    Reference: Conneau et al. (2017), Supervised Learning of Universal Sentence Representations from Natural Language
    Inference Data. Sizes are those of both published models.

    Args:
        version: 1 (GloVe, `<s>`) or 2 (fastText, `<p>`); decides tokenisation and the words around a sentence.
        v1_zero_padding: let padding, as zeros, take part in the maximum, as version 1 did. A sentence's embedding
            then depends on the longest in its batch; only to reproduce old numbers.
        cased: look words up as written; otherwise lower-cased.

    Example:

    >>> config = InferSentConfig(version=2)
    >>> config.bos_word, config.eos_word
    ('<p>', '</p>')
    """

    model_type = "summarily-infersent"

    vocab_size: int = 3
    embedding_size: int = 300
    hidden_size: int = 2048
    version: int = 1
    v1_zero_padding: bool = False
    cased: bool = True
    pad_token_id: int = 0

    def __post_init__(self, **kwargs):
        if self.version not in (1, 2):
            raise InputError(f"version={self.version}; InferSent has versions 1 and 2.")
        super().__post_init__(**kwargs)

    @property
    def bos_word(self) -> str:
        return "<s>" if self.version == 1 else "<p>"

    @property
    def eos_word(self) -> str:
        return "</s>" if self.version == 1 else "</p>"
