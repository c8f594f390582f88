"""Where the time of training goes: `summarily train RECIPE --profile`.

A few steps of the recipe, one evaluation and one checkpoint, in a folder that is thrown away: what a run has written
is neither read nor changed.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate.utils import set_seed

from summarily.modeling.training.building import build_optimizer, make_accelerator, model_width
from summarily.modeling.training.checkpoints import Checkpoints
from summarily.modeling.training.collators import TokenBatches
from summarily.modeling.training.objective import learning_rate
from summarily.modeling.training.progress import Progress
from summarily.modeling.training.recipe import LOSS, Recipe
from summarily.modeling.training.task import Task
from summarily.modeling.training.tasks import task_of
from summarily.modeling.training.train import backward, gradient_norm, save, validate
from summarily.support.errors import RecipeError

WRITTEN = 8
"""Summaries written in the evaluation that is timed, where the recipe has it write any."""
OPERATIONS = 12
"""Operations that are listed."""


class Operation(NamedTuple):
    """An operation of torch in one step, without those that it calls."""

    name: str
    seconds: float
    calls: int


@dataclass(frozen=True)
class Profile:
    """Seconds of one step by part. Evaluation and checkpoint are spread over the steps from one to the next."""

    steps: int
    seconds: dict[str, float]
    once: dict[str, float]
    tokens: float
    padding: float
    operations: list[Operation]

    def lines(self) -> Iterator[str]:
        """A table of the parts and one of the operations."""
        whole = sum(self.seconds.values())
        yield f"{self.steps} steps of {self.tokens:,.0f} tokens ({self.padding:.1%} of what is computed is padding)."
        yield f"{'part':<24}{'seconds a step':>16}{'share':>9}"
        for part, seconds in self.seconds.items():
            once = f"  (one takes {self.once[part]:.2f} s)" if part in self.once else ""
            yield f"{part:<24}{seconds:>16.4f}{seconds / whole:>9.1%}{once}"
        yield f"{'all':<24}{whole:>16.4f}{'':>9}  {self.tokens / whole:,.0f} tokens a second"
        yield ""
        total = sum(operation.seconds for operation in self.operations)
        yield f"{'operation':<60}{'seconds a step':>16}{'share':>9}{'calls':>9}"
        for operation in self.operations[:OPERATIONS]:
            yield (
                f"{operation.name[:59]:<60}{operation.seconds:>16.4f}{operation.seconds / total:>9.1%}{operation.calls:>9,}"
            )


class Stopwatch:
    """Adds up seconds by part.

    Example:
        >>> watch = Stopwatch()
        >>> with watch("data"):
        ...     pass
        >>> list(watch.seconds)
        ['data']
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        start = _now()
        try:
            yield
        finally:
            self.seconds[part] += _now() - start

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose time counts as that of `part`."""

        def call(*arguments: Any, **options: Any) -> Any:
            with self(part):
                return function(*arguments, **options)

        return call


def profile(
    recipe: Recipe, data: str | Path | None = None, steps: int = 5, task: type[Task] | None = None
) -> Profile:
    """Time `steps` steps of a recipe, after one that does not count.

    Args:
        recipe: from `load_recipe`.
        data: the folder of local files; by default the environment variable `SUMMARILY_DATA`.
        steps: how many are timed.
        task: a kind of training of your own, in place of the one that the recipe names.
    """
    if steps < 1:
        raise RecipeError(f"{steps} steps cannot be timed; give at least 1.")
    written = min(WRITTEN, recipe.evaluation.validation_examples)
    smaller = replace(recipe, evaluation=replace(recipe.evaluation, validation_examples=written))
    with tempfile.TemporaryDirectory() as folder:
        run = (task or task_of(recipe))(smaller, Path(folder), make_accelerator(recipe.training), data)
        model = run.load()
        with run.running():
            return _Profiler(run, model, recipe).profile(steps)


class _Profiler:
    def __init__(self, task: Task, model: Any, whole: Recipe):
        self.task, self.model, self.whole = task, model, whole
        recipe, accelerator = task.recipe, task.accelerator
        set_seed(recipe.training.seed, device_specific=True)
        self.wrapped, self.optimizer = accelerator.prepare(model, build_optimizer(model, recipe.optimizer))
        batch = recipe.batch
        self.batches = TokenBatches(
            task.rows(), batch.tokens, batch.max_examples, batch.pool, recipe.training.seed
        ).start(Progress().position)
        # The rate of the first step: however many are timed, the model hardly moves.
        rate = learning_rate(recipe.schedule, 1, 0.0, 1.0, model_width(model, recipe.schedule))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.number = 0
        self.computed = 0

    def profile(self, steps: int) -> Profile:
        with self._watched():  # the first step allocates, and builds what the optimizer remembers
            self._step()
        with self._watched() as watch:
            start, self.computed = _now(), 0
            tokens = sum(self._step() for _ in range(steps))
            seconds = {
                part: watch.seconds[part] / steps for part in ("data", "forward", "backward", "optimizer")
            }
            computed = self.computed
            seconds["rest"] = max(0.0, (_now() - start) / steps - sum(seconds.values()))
        once = self._evaluation_and_checkpoint()
        training = self.whole.training
        seconds["evaluation"] = once["evaluation"] / training.evaluate_every
        # There is a checkpoint after every evaluation, too.
        seconds["checkpoint"] = once["checkpoint"] / min(training.evaluate_every, training.checkpoint_every)
        return Profile(
            steps, seconds, once, tokens / steps, 1 - tokens / max(computed, 1), self._operations()
        )

    @contextmanager
    def _watched(self) -> Iterator[Stopwatch]:
        """Inside, the parts of `backward` are timed."""
        watch = Stopwatch()
        collate = self.task.collate

        def collated(rows: Any) -> Any:
            with watch("data"):
                batch = collate(rows)
            self.computed += sum(batch[name].numel() for name in ("input_ids", "labels") if name in batch)
            return batch

        replaced = {
            (self.task, "collate"): collated,
            (self.task, "loss"): watch.timed("forward", self.task.loss),
            (self.task.accelerator, "backward"): watch.timed("backward", self.task.accelerator.backward),
        }
        for (owner, name), function in replaced.items():
            setattr(owner, name, function)
        self.watch = watch
        try:
            yield watch
        finally:
            for owner, name in replaced:
                delattr(owner, name)

    def _step(self) -> int:
        """One step as in `fit`; returns the tokens of its rows."""
        self.number += 1
        with self.watch("data"):
            batch = next(self.batches)
        self.task.begin_step(self.number)
        backward(self.wrapped, batch.rows, self.task)
        with self.watch("optimizer"):
            gradient_norm(self.wrapped, self.task.recipe.optimizer.max_gradient_norm, self.task.accelerator)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.task.end_step()
        return sum(len(row["input_ids"]) + len(row["labels"]) for row in batch.rows)

    def _evaluation_and_checkpoint(self) -> dict[str, float]:
        watch = Stopwatch()
        with watch("evaluation"):
            validate(self.task, self.model)
        evaluation = self.whole.evaluation
        if evaluation.select != str(LOSS):
            watch.seconds["evaluation"] *= (
                evaluation.validation_examples / self.task.recipe.evaluation.validation_examples
            )
        checkpoints = Checkpoints(self.task.folder / "checkpoints", 1)
        with watch("checkpoint"):
            save(checkpoints, Progress(step=1), self.model, self.optimizer, None, self.task.accelerator)
        return dict(watch.seconds)

    def _operations(self) -> list[Operation]:
        activities = [torch.profiler.ProfilerActivity.CPU]
        on_gpu = self.task.accelerator.device.type == "cuda"
        if on_gpu:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with self._watched(), torch.profiler.profile(activities=activities) as profiler:
            self._step()
        found = [
            Operation(
                event.key,
                (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1e6,
                event.count,
            )
            for event in profiler.key_averages()
        ]
        return sorted(found, key=lambda operation: -operation.seconds)


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # what was asked of a GPU counts when it is done
    return time.perf_counter()
