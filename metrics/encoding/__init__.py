"""Contextual token vectors: every distinct text once, only the layers asked for, in bounded memory.

`encoder(...)` gives the one shared `Encoder` of a configuration, so metrics that use the same model share its
passes: what one has encoded the next finds in a least-recently-used cache bounded in bytes. Layer 0 is what
enters the first layer, layer k what leaves the k-th, after the stack's final normalisation where the
architecture has one (T5, mBART), which is what a stack cut off after k layers would return.
"""

from summarily.metrics.encoding.encoded import Encoded
from summarily.metrics.encoding.loading import default_device, load_pretrained
from summarily.metrics.encoding.shared import CACHE_BYTES, TOKEN_BUDGET, Encoder, Request, encoder, forget

__all__ = [
    "CACHE_BYTES",
    "TOKEN_BUDGET",
    "Encoded",
    "Encoder",
    "Request",
    "default_device",
    "encoder",
    "forget",
    "load_pretrained",
]
