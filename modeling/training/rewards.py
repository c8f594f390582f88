"""Rewards of reinforcement learning, computed in worker processes while the model goes on.

>>> def shortness(completions, references, **columns):
...     return [1 / (1 + len(text)) for text in completions]
>>> with RewardWorkers([shortness], workers=0) as rewards:
...     rewards.submit(["abc", ""], ["a", "b"]).result().total
[0.25, 1.0]
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from summarily.support.errors import FailedRunError, InputError
from summarily.support.hooks import hook

RewardFunction = Callable[..., Sequence[float]]
"""`(completions, references, **columns) -> list[float]`, such as `summarily.reward("sms")`."""


class Rewards(NamedTuple):
    """What some completions are worth: the weighted sum, each reward by itself, and the seconds it took to find out."""

    total: list[float]
    each: dict[str, list[float]]
    seconds: float


class Pending:
    """Rewards that are being computed."""

    def __init__(self, parts: Sequence[Future[Rewards]]):
        self._parts = parts

    def result(self) -> Rewards:
        """Wait for the rewards."""
        try:
            done = [part.result() for part in self._parts]
        except BrokenProcessPool as error:
            raise FailedRunError(
                "a reward worker was killed or could not start, perhaps for want of memory; a run goes on from its last "
                "checkpoint when it is started again."
            ) from error
        each = {name: [value for part in done for value in part.each[name]] for name in done[0].each}
        return Rewards(
            [value for part in done for value in part.total], each, sum(part.seconds for part in done)
        )


def load_rewards(
    rewards: str | RewardFunction | Sequence[str | RewardFunction],
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[RewardFunction]:
    """Reward functions from names of our metrics and from functions, which stay as they are.

    Example:
        >>> rouge = load_rewards("rouge", {"rouge": {"types": ["rougeL"]}})[0]
        >>> rouge(["a cat sat"], references=["a cat sat"])
        [1.0]
    """
    if isinstance(rewards, str) or callable(rewards):
        rewards = [rewards]
    options = options or {}
    unknown = sorted(set(options) - {name for name in rewards if isinstance(name, str)})
    if unknown:
        raise InputError(
            f"reward_options has {unknown[0]!r}, which is not among the rewards {list(rewards)}."
        )
    reward = hook("reward")
    return [reward(one, **options.get(one, {})) if isinstance(one, str) else one for one in rewards]


class RewardWorkers:
    """A pool of processes that score completions; a context manager.

    Args:
        rewards: functions `(completions, references, **columns) -> list[float]`; with workers they must be picklable.
        weights: of each reward in the sum, 1 each when left out.
        workers: processes; 0 computes in this one, when the result is asked for.
    """

    def __init__(
        self, rewards: Sequence[RewardFunction], weights: Sequence[float] | None = None, workers: int = 1
    ):
        if not rewards:
            raise InputError("there is no reward; name at least one, such as 'rouge'.")
        if weights is not None and len(weights) != len(rewards):
            raise InputError(f"{len(rewards)} rewards have {len(weights)} weights; give one weight for each.")
        self._scorer = _Scorer(rewards, weights or [1.0] * len(rewards))
        self.workers = workers
        self._pool = self._start() if workers else None

    def _start(self) -> ProcessPoolExecutor:
        for name, function in self._scorer.rewards.items():
            try:
                pickle.dumps(function)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise InputError(
                    f"the reward {name} cannot be sent to worker processes ({error}); define it at the top of a module, "
                    "or set reward_workers=0."
                ) from error
        # Not fork: the parent has threads and perhaps a GPU.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.workers, context, initializer=_begin, initargs=(self._scorer,))
        for _ in range(self.workers):
            pool.submit(_ready)
        return pool

    def submit(
        self, completions: Sequence[str], references: Sequence[Any], **columns: Sequence[Any]
    ) -> Pending:
        """Begin to score; `columns` (such as `sources`) are cut like the completions and given to every reward."""
        if self._pool is None:
            return Pending([_Lazy(lambda: self._scorer(completions, references, columns))])
        size = max(1, math.ceil(len(completions) / self.workers))
        parts = []
        for start in range(0, len(completions), size):
            part = slice(start, start + size)
            cut = {name: values[part] for name, values in columns.items()}
            parts.append(self._pool.submit(_score, completions[part], references[part], cut))
        return Pending(parts)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> RewardWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Lazy(Future):
    """Computed when asked for."""

    def __init__(self, compute: Callable[[], Rewards]):
        super().__init__()
        self._compute = compute

    def result(self, timeout: float | None = None) -> Rewards:
        return self._compute()


class _Scorer:
    """The weighted sum of several rewards, each checked for its length and for values that are no numbers."""

    def __init__(self, rewards: Iterable[RewardFunction], weights: Sequence[float]):
        self.weights = list(weights)
        self.rewards: dict[str, RewardFunction] = {}
        for function in rewards:
            name = getattr(function, "__name__", type(function).__name__)
            while name in self.rewards:
                name += "_again"
            self.rewards[name] = function

    def __call__(
        self, completions: Sequence[str], references: Sequence[Any], columns: Mapping[str, Any]
    ) -> Rewards:
        start = time.perf_counter()
        each = {}
        for name, function in self.rewards.items():
            values = [float(value) for value in function(completions, references=references, **columns)]
            if len(values) != len(completions):
                raise InputError(f"the reward {name} gave {len(values)} values for {len(completions)} texts.")
            for text, value in zip(completions, values, strict=True):
                if not math.isfinite(value):
                    raise InputError(
                        f"the reward {name} is {value} for {text[:80]!r}; rewards must be finite."
                    )
            each[name] = values
        total = [
            sum(weight * value for weight, value in zip(self.weights, row, strict=True))
            for row in zip(*each.values(), strict=True)
        ]
        return Rewards(total, each, time.perf_counter() - start)


# --- in a worker ------------------------------------------------------------------------------------------

_scorer: _Scorer  # of this worker; a process pool has no other place for it


def _begin(scorer: _Scorer) -> None:
    global _scorer
    _scorer = scorer
    # A signal to the whole group stops the training process, which still needs the rewards of its last step.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if "torch" in sys.modules:  # the rewards need it; several workers and the model share the cores
        sys.modules["torch"].set_num_threads(1)


def _ready() -> None:
    """A first task: a worker begins to import what it needs before there is anything to score."""


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    parent.join()
    os._exit(1)  # the pool would leave a worker waiting for ever if its parent was killed


def _score(completions: Sequence[str], references: Sequence[Any], columns: Mapping[str, Any]) -> Rewards:
    return _scorer(completions, references, columns)
