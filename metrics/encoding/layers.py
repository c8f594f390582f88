"""Which layer of a model agrees best with people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from summarily.metrics.encoding.shared import Encoder

LAYERS = {
    "minilm": 5,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "roberta-base": 10,
    "roberta-large": 17,
    "roberta-large-mnli": 19,
    "distilbert-base-uncased": 5,
    "distilroberta-base": 5,
    "bart-base": 6,
    "bart-large": 10,
    "bart-large-cnn": 10,
    "bart-large-mnli": 11,
    "t5-small": 6,
    "t5-base": 11,
    "t5-large": 23,
    "deberta-base-mnli": 9,
    "deberta-large-mnli": 18,
    "deberta-xlarge-mnli": 40,
    "mpnet-base": 8,
}
"""The layer for a model, by the last part of its name. All but MiniLM's were tuned on WMT16 by bert_score."""


def default_layer(model: str | os.PathLike[str], of: Encoder) -> int:
    """The tuned layer if there is one, else the layer five sixths of the way up, where most tuned ones lie."""
    return LAYERS.get(str(model).rsplit("/", 1)[-1], max(1, round(of.num_layers * 5 / 6)))
