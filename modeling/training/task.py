"""What can be trained: a `Task` says it, and the engine (`train.py`) does the rest.

A recipe names its task by the section that it fills in: `[denoising]`, `[self_critical]`, `[reading]` or `[rating]`;
without any of them it learns to summarize. A new task is a subclass here, its section in `recipe.py`, and a line in
`tasks/__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from summarily.modeling.training.recipe import Recipe

if TYPE_CHECKING:
    from accelerate import Accelerator

    from summarily.modeling.training.progress import RunResult


@dataclass
class Evaluation:
    """The scores of a split; where less is better, under a `Key` that says so. A test has what else is kept of it."""

    scores: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    examples: int = 0
    predictions: list[dict[str, Any]] | None = None  # the lines of predictions.jsonl


class Task(ABC):
    """One run of one kind of training. The engine asks in the order of the methods.

    Args:
        recipe: what to train.
        folder: what the run writes, to keep a vocabulary in, for example.
        accelerator: the processes of the run.
        data: the folder of local files, as it was given.
    """

    limits = ""  # the card's, unless the recipe has its own

    def __init__(
        self, recipe: Recipe, folder: Path, accelerator: Accelerator, data: str | Path | None = None
    ):
        self.recipe, self.folder, self.accelerator, self.data = recipe, folder, accelerator, data

    @abstractmethod
    def load(self) -> Any:
        """Read the data, and return the model as it is before the first step, seeded by the recipe."""

    @abstractmethod
    def rows(self) -> Any:
        """What is learned from: rows with `input_ids` and `labels`, or a function from the epoch to them."""

    @abstractmethod
    def collate(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """A batch of them, padded."""

    @abstractmethod
    def loss(self, model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
        """The loss of a batch, *summed* over its targets (or examples, see `training.normalize`)."""

    @abstractmethod
    def evaluate(self, model: Any, split: str) -> Evaluation:
        """The scores of the "validation" split, `evaluation.select` among them, or all those of "test"."""

    @abstractmethod
    def card(self, result: RunResult, examples: int) -> str:
        """The README.md of the model, of which `examples` rows were tested."""

    @abstractmethod
    def save(self, model: Any, folder: Path) -> None:
        """Write what `from_pretrained` needs."""

    # --- for those that have to do with steps ---

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around all steps: what must live as long as they."""
        yield

    def begin_step(self, step: int) -> None:  # noqa: B027  most tasks have nothing to do with steps
        """Optimizer step `step` (from 1) begins."""

    def end_step(self) -> dict[str, float]:
        """What there is to say about the step, for the log."""
        return {}
