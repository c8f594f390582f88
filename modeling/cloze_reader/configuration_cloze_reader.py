"""Configuration of the attentive reader."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from summarily.support.errors import InputError


@strict
class ClozeReaderConfig(PreTrainedConfig):
    """Two BiGRUs, one for the passage and one for the question, and bilinear attention between them.

    Reference: Chen, Bolton and Manning (2016), A Thorough Examination of the CNN/Daily Mail Reading Comprehension
    Task. `hidden_size` and `dropout` are theirs; their word vectors have 100 dimensions.

    Args:
        vocab_size: words and, at the end of the vocabulary, the entities.
        hidden_size: of one direction.
        max_entities: how many entities a passage and its question can have. What comes later in a text is read as an
            unknown word.
        first_entity_id: of `@entity0`, which `@entity1` and so on follow; by default they are the last of the
            vocabulary. It stays where it is when embeddings are added.

    Example:

    >>> config = ClozeReaderConfig(vocab_size=50, max_entities=10)
    >>> config.first_entity_id
    40
    """

    model_type = "summarily-cloze-reader"

    vocab_size: int = 50_000
    embedding_size: int = 50
    hidden_size: int = 128
    max_entities: int = 200
    first_entity_id: int | None = None
    dropout: float = 0.2
    pad_token_id: int = 0

    def __post_init__(self, **kwargs):
        if self.max_entities >= self.vocab_size:
            raise InputError(
                f"max_entities={self.max_entities} leaves no words in a vocabulary of vocab_size={self.vocab_size}."
            )
        if self.first_entity_id is None:
            self.first_entity_id = self.vocab_size - self.max_entities
        if not 0 <= self.first_entity_id <= self.vocab_size - self.max_entities:
            raise InputError(
                f"the {self.max_entities} entities from first_entity_id={self.first_entity_id} on are not within a "
                f"vocabulary of vocab_size={self.vocab_size}."
            )
        super().__post_init__(**kwargs)
