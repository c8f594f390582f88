"""What readers return, and their loss."""

from dataclasses import dataclass

import torch
from transformers.utils import ModelOutput

SMALLEST_PROBABILITY = 1e-7


@dataclass
class ReaderOutput(ModelOutput):
    """`logits` [questions, entities]: minus infinity for entities that the passage does not mention."""

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None


def masked_answer_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean of -log P(answer), P not below 1e-7: an answer that is not in the passage teaches nothing.

    Example:
        >>> masked_answer_loss(torch.tensor([[0.0, 0.0, -torch.inf]]), torch.tensor([1]))
        tensor(0.6931)
    """
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    right = log_probabilities.gather(1, labels[:, None])[:, 0]
    smallest = torch.log(torch.tensor(SMALLEST_PROBABILITY, device=logits.device))
    return -torch.maximum(right, smallest).mean()
