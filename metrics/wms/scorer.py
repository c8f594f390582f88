"""Word mover's similarity: exp(-EMD) between the bags of words of two texts."""

from __future__ import annotations

from summarily.metrics.movers.metric import Movers


class Wms(Movers):
    """Word mover's similarity (Kilickaya et al. 2017; Clark et al. 2019, Eqs. 1 to 3).

    `Sms` moves whole sentences instead, `SWms` both; options are those of `Movers`.

    Example:
        >>> round(Wms().compute(["a dog barked"], ["the dog was barking"]).mean["wms"], 3)
        0.128
    """

    name = "wms"
    summary = "word mover's similarity: how far the words of one text have to travel to those of the other"
    units = ("word",)
