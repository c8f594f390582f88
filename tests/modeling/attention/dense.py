"""What every query of an attention mechanism sees, written out: quadratic, for tests."""

from __future__ import annotations

import torch

from summarily.modeling.attention.masks import attention_pattern


def dense_mask(mechanism: str, length: int, **options) -> torch.Tensor:
    """The boolean `[length, length]` mask of a mechanism: `mask[i, j]` is True where query i sees key j.

    `options` are those of `attention_pattern`.
    """
    positions = torch.arange(length)
    return attention_pattern(mechanism, **options).visible(positions[:, None], positions[None, :])
