"""Summarily: metrics that agree with human readers, and summarizers for long documents.

>>> import summarily
>>> summarily.score(["a cat sat"], ["the cat sat"], metrics="rouge")["rouge"].mean["rouge1"]
0.6666666666666666
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from summarily.registration import register, register_on_import
from summarily.support import hooks
from summarily.support.version import __version__

if TYPE_CHECKING:
    from summarily.metrics.comparison import Comparison, compare
    from summarily.metrics.hooks import compute_metrics, reward
    from summarily.metrics.on_ray import score_on_ray
    from summarily.metrics.scorecard import Scorecard, score
    from summarily.metrics.streaming import score_stream, scorer
    from summarily.modeling.generation.on_ray import summarize_on_ray
    from summarily.modeling.generation.summarizer import Summarizer, checkpoint, summarize
    from summarily.support.sample import load_sample

_WHERE = {
    "score": "summarily.metrics.scorecard",
    "compare": "summarily.metrics.comparison",
    "Scorecard": "summarily.metrics.scorecard",
    "score_stream": "summarily.metrics.streaming",
    "score_on_ray": "summarily.metrics.on_ray",
    "scorer": "summarily.metrics.streaming",
    "Comparison": "summarily.metrics.comparison",
    "compute_metrics": "summarily.metrics.hooks",
    "reward": "summarily.metrics.hooks",
    "load_sample": "summarily.support.sample",
    "Summarizer": "summarily.modeling.generation.summarizer",
    "checkpoint": "summarily.modeling.generation.summarizer",
    "summarize": "summarily.modeling.generation.summarizer",
    "summarize_on_ray": "summarily.modeling.generation.on_ray",
}

__all__ = [
    "Comparison",
    "Scorecard",
    "Summarizer",
    "__version__",
    "checkpoint",
    "compare",
    "compute_metrics",
    "load_sample",
    "register",
    "reward",
    "score",
    "score_on_ray",
    "score_stream",
    "scorer",
    "summarize",
    "summarize_on_ray",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: `import summarily` itself stays light."""
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'summarily' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


hooks.provide(score="summarily.metrics.scorecard:score", reward="summarily.metrics.hooks:reward")
register_on_import()
