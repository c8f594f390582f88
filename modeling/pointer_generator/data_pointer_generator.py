"""The words of every source that the vocabulary has not got: with them, copied ids are read as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from summarily.modeling.model_data import ModelData


class PointerGeneratorData(ModelData):
    """`unknown_words`: a list of each source, to which ids from the end of the vocabulary on refer."""

    texts = ("unknown_words",)

    @classmethod
    def texts_of(cls, encoding: Any) -> dict[str, Any]:
        return {"unknown_words": encoding.unknown_words}

    @classmethod
    def decode(cls, tokenizer: Any, ids: Any, columns: Mapping[str, Any], **options: Any) -> list[str]:
        return tokenizer.batch_decode(ids, unknown_words=columns.get("unknown_words"), **options)
