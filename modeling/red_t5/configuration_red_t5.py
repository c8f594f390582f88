"""Configuration of RED around T5."""

from huggingface_hub.dataclasses import strict
from transformers import T5Config

from summarily.modeling.red.configuration_red import ATTENTION_TYPES, check_hashing, factors_of


@strict
class RedT5Config(T5Config):
    """T5 whose encoder has the Reformer's attention: by hash buckets (`lsh`) and by chunks (`local`).

    Reference: Gaskell (2020), who put it into BART, with the attention of Kitaev et al. (2020), Reformer. All other
    fields are those of T5.

    Args:
        attention_types: `lsh` or `local` for each encoder layer; by default they take turns, `lsh` first.
        chunk_length: tokens that attend together.
        lsh_chunks_before, lsh_chunks_after, local_chunks_before, local_chunks_after: neighbouring chunks seen.
        num_hashes: rounds of hashing.
        num_buckets: a number, or two factors of it; even. By default about `2 length / chunk_length` for each
            document.
        hash_seed: of the random rotations, which are drawn once and saved with the model.
        max_source_length: the longest source, for which the rotations are drawn.

    Example:

    >>> RedT5Config(num_layers=3).attention_types
    ['lsh', 'local', 'lsh']
    """

    model_type = "summarily-red-t5"

    attention_types: list[str] | None = None
    chunk_length: int = 64
    lsh_chunks_before: int = 1
    lsh_chunks_after: int = 0
    local_chunks_before: int = 1
    local_chunks_after: int = 1
    num_hashes: int = 1
    num_buckets: list[int] | int | None = None
    hash_seed: int = 0
    max_source_length: int = 16384

    def __post_init__(self, **kwargs):
        if self.attention_types is None:
            self.attention_types = [ATTENTION_TYPES[layer % 2] for layer in range(self.num_layers)]
        check_hashing(self, self.num_layers, ("chunk_length", "num_hashes", "max_source_length"))
        super().__post_init__(**kwargs)

    @property
    def bucket_factors(self) -> list[int] | None:
        """The factors of `num_buckets`; None where each document has its own."""
        return factors_of(self.num_buckets)


__all__ = ["RedT5Config"]
