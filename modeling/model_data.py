"""What a model family says about its rows, in `<folder>/data_<folder>.py`; `data.py` asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ModelData:
    """The data of a family; what is not overridden here is that of any sequence-to-sequence model."""

    padding: Mapping[str, int] = {}  # columns as long as `input_ids`, and what they are padded with
    loss_only: tuple[str, ...] = ()  # of these, what only the loss may see: they tell what is to be written
    texts: tuple[str, ...] = ()  # columns of texts that `decode` needs; they are no tensors

    @classmethod
    def texts_of(cls, encoding: Any) -> dict[str, Any]:
        """What `decode` will need of an encoding by the family's tokenizer, beside the ids."""
        return {}

    @classmethod
    def decode(cls, tokenizer: Any, ids: Any, columns: Mapping[str, Any], **options: Any) -> list[str]:
        """The texts of a batch of ids; `columns` of the same rows have what `texts` names, if they have it."""
        return tokenizer.batch_decode(ids, **options)
