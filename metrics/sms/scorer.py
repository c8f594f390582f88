"""Sentence mover's similarity: exp(-EMD) between the bags of sentences of two texts."""

from __future__ import annotations

from summarily.metrics.movers.metric import Movers


class Sms(Movers):
    """Sentence mover's similarity (Clark et al. 2019, Section 3.1).

    A sentence is the mean of its word vectors and weighs as much as it has words. `Wms` moves words instead,
    `SWms` both; options are those of `Movers`.

    Example:
        >>> round(Sms().compute(["a dog barked"], ["the dog was barking"]).mean["sms"], 3)
        0.128
    """

    name = "sms"
    summary = "sentence mover's similarity: how far the sentences of one text have to travel to the other's"
    units = ("sentence",)
