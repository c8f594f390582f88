"""What is minimised, and at which rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from summarily.modeling.summary_loss import summary_loss as cross_entropy
from summarily.modeling.training.collators import IGNORED_LABEL
from summarily.modeling.training.recipe import ScheduleSection, TrainingSection

# Models whose logits are one linear layer of the decoder's states, each place for itself.
PLAIN_TYPES = frozenset(
    {"t5", "bart", "summarily-led", "summarily-red", "summarily-led-t5", "summarily-red-t5"}
)


def summary_loss(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], training: TrainingSection
) -> torch.Tensor:
    """The loss of a batch *summed* over its targets: the model's own, or cross entropy with label smoothing."""
    labels = batch["labels"]
    kept = labels != IGNORED_LABEL
    if training.label_smoothing:
        if getattr(unwrapped(model).config, "label_smoothing", None) == training.label_smoothing:
            return model(**batch).loss * kept.sum()  # it smooths its own, by the same formula
        inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
        return cross_entropy(model(**inputs).logits, labels, 1, training.label_smoothing)
    if not is_plain(model):
        return model(**batch).loss * kept.sum()
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    inputs["decoder_input_ids"] = unwrapped(model).prepare_decoder_input_ids_from_labels(labels)
    with only_logits_at(unwrapped(model), kept):
        logits = model(**inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float(), labels[kept], reduction="sum")


def unwrapped(model: torch.nn.Module) -> Any:
    """The model behind the wrapper of data parallelism."""
    return getattr(model, "module", model)


def is_plain(model: torch.nn.Module) -> bool:
    """Whether the model's loss is the cross entropy of its output embeddings' logits, as T5's and BART's is."""
    return getattr(unwrapped(model).config, "model_type", "") in PLAIN_TYPES


@contextmanager
def only_logits_at(model: Any, kept: torch.Tensor) -> Iterator[None]:
    """Inside, the head reads only the places where `kept`: logits are (kept places, words).

    A batch of targets is padding to a third or a half, and the head is the widest layer of a small model.
    """

    def select(head: torch.nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0][kept], *arguments[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()


def learning_rate(schedule: ScheduleSection, step: int, done: float, factor: float, width: int) -> float:
    """The rate of optimizer step `step` (from 1).

    With r = learning_rate and w = warmup_steps, all rise as step / w first, then
    constant: r; linear: r (1 - done); inverse_sqrt: r sqrt(w / step); plateau: r times the factor that
    evaluations without progress have left; noam: tensor2tensor's v3, r max(step, w)^-0.5 width^-0.5.

    Args:
        schedule: the recipe's section.
        step: the step about to be taken.
        done: the part of the run's budget (steps or minutes) that is used up, for "linear".
        factor: for "plateau".
        width: of the model, for "noam".

    Example:
        >>> noam = ScheduleSection(kind="noam", learning_rate=2.0, warmup_steps=8000)
        >>> f"{learning_rate(noam, 8000, 0, 1, 512):.3g}"
        '0.000988'
    """
    warmup = max(schedule.warmup_steps, 1)
    rate = schedule.learning_rate * min(1.0, step / warmup)
    if schedule.kind == "linear":
        return rate * max(0.0, 1 - done)
    if schedule.kind == "inverse_sqrt":
        return rate * math.sqrt(warmup / max(step, warmup))
    if schedule.kind == "noam":
        return rate * max(step, warmup) ** -0.5 * width**-0.5
    return rate * factor if schedule.kind == "plateau" else rate
