"""Learning from rewards for the summaries that the model writes itself; the loss is that of `training.self_critical`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from summarily.modeling.data import TEXTS
from summarily.modeling.training.rewards import RewardWorkers, load_rewards
from summarily.modeling.training.self_critical import SelfCriticalLoss
from summarily.modeling.training.tasks.summary import SummaryTask


class SelfCriticalTask(SummaryTask):
    """A trained summarizer goes on with `[self_critical] rewards = [...]`."""

    kept_texts = ("source", "references", *TEXTS)  # what rewards are computed from, beside the summaries

    @contextmanager
    def running(self) -> Iterator[None]:
        section = self.recipe.self_critical
        rewards = load_rewards(section.rewards, section.reward_options)
        with RewardWorkers(rewards, section.reward_weights or None, section.reward_workers) as workers:
            self._loss = SelfCriticalLoss(section, self.tokenizer, workers, self.recipe.training.max_steps)
            yield

    def loss(self, model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
        return self._loss(model, batch)

    def begin_step(self, step: int) -> None:
        self._loss.begin_step(step)

    def end_step(self) -> dict[str, float]:
        return self._loss.end_step()
