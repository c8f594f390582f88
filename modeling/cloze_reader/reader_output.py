"""What readers return, their loss, and how many questions they read at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from transformers.utils import ModelOutput

SMALLEST_PROBABILITY = 1e-7


@dataclass
class ReaderOutput(ModelOutput):
    """`logits` [questions, entities]: minus infinity for entities that the passage does not mention."""

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


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


def room_for_questions(passage: int, tokens: int) -> int:
    """The tokens of questions that are read with a passage of so many: what is left of `tokens`, or half of them, so
    that a long passage is not read anew for every question.

    Example:
        >>> room_for_questions(1000, 4096), room_for_questions(9000, 4096)
        (3096, 2048)
    """
    return max(tokens - passage, tokens // 2)


def question_spans(lengths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Spans of questions, in order, that have at most `room` tokens when padded to the longest of them.

    Example:
        >>> list(question_spans([3, 4, 9, 1], room=8))
        [(0, 2), (2, 3), (3, 4)]
    """
    start = longest = 0
    for number, length in enumerate(lengths):
        longest = max(longest, length)
        if number > start and longest * (number + 1 - start) > room:
            yield start, number
            start, longest = number, length
    if start < len(lengths):
        yield start, len(lengths)


class Part(NamedTuple):
    """Some questions of a passage: the number of the passage, that of the first question, and both as encoded."""

    row: int
    first: int
    passage: Any


def parts_of(passages: Sequence[Any], tokens: int) -> list[Part]:
    """Passages with something to answer; of one with many questions some at a time."""
    return [
        Part(row, first, replace(passage, questions=passage.questions[first:last]))
        for row, passage in enumerate(passages)
        if passage.entities
        for first, last in question_spans(
            passage.question_lengths, room_for_questions(passage.length, tokens)
        )
    ]


def batches(
    parts: Sequence[Part], tokens: int, size: Callable[[Sequence[Part]], int]
) -> Iterator[list[Part]]:
    """As many parts together, in their order, as have a `size` of at most `tokens`; a part that is larger is alone.

    Example:
        >>> parts = [Part(row, 0, "a" * length) for row, length in enumerate((3, 4, 9, 1))]
        >>> [[part.row for part in batch] for batch in batches(parts, 8, lambda some: sum(len(p.passage) for p in some))]
        [[0, 1], [2], [3]]
    """
    batch: list[Part] = []
    for part in parts:
        if batch and size([*batch, part]) > tokens:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch
