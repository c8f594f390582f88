"""The loss of our summarizers."""

import torch
import torch.nn.functional as F


def summary_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    smoothing: float = 0.0,
) -> torch.Tensor:
    """Cross entropy, divided by `num_items_in_batch` or by the number of labels; labels of -100 do not count.

    Example:

    >>> import torch
    >>> labels = torch.tensor([[0, 1, -100]])
    >>> round(float(summary_loss(torch.zeros(1, 3, 2), labels)), 3)
    0.693
    """
    total = F.cross_entropy(
        logits.float().flatten(0, -2), labels.flatten(), reduction="sum", label_smoothing=smoothing
    )
    return total / ((labels != -100).sum() if num_items_in_batch is None else num_items_in_batch)
