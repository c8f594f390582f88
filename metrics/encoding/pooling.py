"""One vector for a text, out of those of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from summarily.metrics.encoding.shared import Request
from summarily.metrics.options import EncoderOptions


class MeanPooling:
    """The mean of a transformer's last states over all tokens, as MiniLM's card does it."""

    def __init__(self, reading: EncoderOptions):
        self.reading = reading

    def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        shared = self.reading.encoder
        last = shared.num_layers
        encoded = shared.encode(texts, [last])
        return np.stack([one.states[last].double().mean(0).cpu().numpy() for one in encoded])

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        shared = self.reading.encoder
        return [one.truncated for one in shared.encode(texts, [shared.num_layers])]

    def requests(self, texts: Sequence[str]) -> list[Request]:
        shared = self.reading.encoder
        return [Request(shared, texts, [shared.num_layers])]

    def signature_fields(self) -> dict[str, Any]:
        shared = self.reading.encoder
        return {
            "model": shared.identity,
            "pooling": "mean",
            "tokenizer": shared.tokenizer_name,
            "truncation": shared.max_length,
            "dtype": shared.unusual_dtype,
        }
