"""Sentence and word mover's similarity: exp(-EMD) between bags that hold both words and sentences."""

from __future__ import annotations

from summarily.metrics.movers.metric import Movers


class SWms(Movers):
    """Sentence and word mover's similarity (Clark et al. 2019, Section 3.2).

    Words may travel to sentences and sentences to words. `Wms` moves only words, `Sms` only sentences;
    options are those of `Movers`.

    Example:
        >>> round(SWms().compute(["a dog barked"], ["the dog was barking"]).mean["s_wms"], 3)
        0.128
    """

    name = "s_wms"
    summary = "sentence and word mover's similarity: words and sentences travel together"
    units = ("word", "sentence")
