"""What a lower layer asks of a higher one: the face says where it is, and it is imported when it is first asked for.

Training scores summaries and computes rewards in this way, without knowing the metrics.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE: dict[str, str] = {}


def provide(**where: str) -> None:
    """Say where hooks are, each as "module:name"."""
    _WHERE.update(where)


def hook(name: str) -> Any:
    """What was provided under a name.

    Example:
        >>> hook("reward")("rouge")(["a cat sat"], references=["a cat sat"])
        [1.0]
    """
    module, _, attribute = _WHERE[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
