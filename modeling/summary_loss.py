"""The loss of our summarizers."""

import math

import torch
import torch.nn.functional as F


def summary_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    smoothing: float = 0.0,
) -> torch.Tensor:
    """Cross entropy with `smoothing` spread over the other V - 1 tokens, minus its least value; -100 is ignored.

    That is tensor2tensor's label smoothing: a perfect model has loss 0. The sum is divided by `num_items_in_batch`, or by
    the number of labels: pass the number of labels of a whole accumulated batch, and the gradient does not depend on how
    it was cut.

    Example:

    >>> import torch
    >>> labels = torch.tensor([[0, 1, -100]])
    >>> round(float(summary_loss(torch.zeros(1, 3, 2), labels)), 3)
    0.693
    >>> logits = torch.log(torch.tensor([[[0.9, 0.05, 0.05]]]))
    >>> round(float(summary_loss(logits, torch.tensor([[0]]), smoothing=0.1)), 6)
    0.0
    """
    size = logits.shape[-1]
    # torch spreads its mass over all V tokens, the right one included: eps V / (V - 1) of it is eps of ours.
    loss = F.cross_entropy(
        logits.float().flatten(0, -2),
        labels.flatten(),
        reduction="sum",
        label_smoothing=smoothing * size / (size - 1) if smoothing else 0.0,
    )
    count = (labels != -100).sum()
    if smoothing:
        least = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(smoothing / (size - 1))
        loss = loss - count * least
    return loss / (count.clamp(min=1) if num_items_in_batch is None else num_items_in_batch)
