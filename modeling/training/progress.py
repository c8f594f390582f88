"""How far a run is, when it ends, and what it tells the world meanwhile."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from summarily.modeling.training.collators import Position
from summarily.modeling.training.recipe import TrainingSection
from summarily.support.files import write_atomically

SECONDS_BETWEEN_LINES = 30.0


@dataclass
class Progress:
    """What a run knows about itself; part of every checkpoint."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0  # in the loop, evaluations included, over all resumes
    tokens: int = 0
    loss_sum: float = 0.0  # since the last line of the log
    loss_steps: int = 0
    evaluated_step: int = -1
    best_score: float | None = None
    best_step: int = -1
    stale: int = 0  # evaluations without progress
    stale_rate: int = 0  # the same, since the rate last fell
    rate_factor: float = 1.0


@dataclass
class RunResult:
    """How a run ended. `scores` and `signatures` are those of the test split."""

    status: str  # "finished" or "interrupted"
    reason: str
    step: int
    epoch: int
    minutes: float
    best_score: float | None = None
    best_step: int = -1
    parameters: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)


def stop_reason(progress: Progress, training: TrainingSection) -> str:
    """Why the run is over, or ""."""
    if training.max_steps is not None and progress.step >= training.max_steps:
        return "max_steps"
    if training.max_epochs is not None and progress.position.epoch >= training.max_epochs:
        return "max_epochs"
    if training.max_minutes is not None and progress.seconds >= training.max_minutes * 60:
        return "max_minutes"
    if training.patience is not None and progress.stale > training.patience:
        return "patience"
    return ""


def budget_used(progress: Progress, training: TrainingSection) -> float:
    """The part of the steps or of the minutes that is used up, whichever is more."""
    used = [0.0]
    if training.max_steps is not None:
        used.append(progress.step / training.max_steps)
    if training.max_minutes is not None:
        used.append(progress.seconds / (training.max_minutes * 60))
    return max(used)


class Clock:
    """Seconds since the run began, earlier parts of a resumed run included."""

    def __init__(self, already: float):
        self._zero = time.monotonic() - already

    def seconds(self) -> float:
        return time.monotonic() - self._zero


class RunLog:
    """`log.jsonl`, TensorBoard if it is installed, and the progress bar; all by the main process alone."""

    def __init__(self, folder: Path, progress: Progress, training: TrainingSection, active: bool):
        self.training, self.active = training, active
        self._path, self._start = folder / "log.jsonl", progress.step
        self._said = time.monotonic()
        self._speed = 0.0
        self.goes_on(progress)

    def __enter__(self) -> RunLog:
        if self.active:
            self._drop_lines_after(self._start)
            self._file = self._path.open("a", encoding="utf-8")
            self._board = self._tensorboard() if self.training.tensorboard else None
        hidden = None if self.active else True  # None: off when not a terminal
        self._bar = tqdm(total=self.training.max_steps, initial=self._start, unit="step", disable=hidden)
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
        if self.active:
            self._file.close()
            if self._board:
                self._board.close()

    def _tensorboard(self) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return None
        return SummaryWriter(str(self._path.with_name("tensorboard")), purge_step=self._start + 1)

    def _drop_lines_after(self, step: int) -> None:
        """Steps after the checkpoint are taken again, so they are logged again."""
        if not self._path.exists():
            return
        kept = [line for line in self._path.read_text().splitlines() if _step_of(line) <= step]
        write_atomically(self._path, "".join(line + "\n" for line in kept))

    def step(
        self, progress: Progress, rate: float, norm: float, reported: Mapping[str, float] | None = None
    ) -> None:
        """One optimizer step; `reported` is what its loss has to say about it."""
        seconds, tokens = self._mark
        if progress.seconds > seconds:
            self._speed = (progress.tokens - tokens) / (progress.seconds - seconds)
        loss = progress.loss_sum / progress.loss_steps
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, {self._speed:,.0f} tokens/s, {self._left(progress)} left", refresh=False
        )
        self._bar.update()
        self._say(progress, loss)
        if progress.step % self.training.log_every:
            return
        self._write(
            {
                "step": progress.step,
                "epoch": progress.position.epoch,
                "loss": loss,
                "learning_rate": rate,
                "gradient_norm": norm,
                "tokens_per_second": round(self._speed),
                "seconds": round(progress.seconds, 3),
                **(reported or {}),
            }
        )
        progress.loss_sum, progress.loss_steps = 0.0, 0
        self.goes_on(progress)

    def _say(self, progress: Progress, loss: float) -> None:
        """Where there is no bar, such as in a log, a line every half minute."""
        if not self.active or not self._bar.disable or time.monotonic() - self._said < SECONDS_BETWEEN_LINES:
            return
        self._said = time.monotonic()
        of = f" of {self.training.max_steps:,}" if self.training.max_steps else ""
        print(
            f"step {progress.step:,}{of}: loss {loss:.3f}, {self._speed:,.0f} tokens/s, {self._left(progress)} left",
            file=sys.stderr,
            flush=True,
        )

    def evaluation(self, progress: Progress, scores: Mapping[str, float]) -> None:
        self._write({"step": progress.step, **{f"validation_{key}": value for key, value in scores.items()}})

    def goes_on(self, progress: Progress) -> None:
        """Training begins here, or goes on after what is no training, an evaluation: tokens a second count from here."""
        self._mark = (progress.seconds, progress.tokens)

    def _left(self, progress: Progress) -> str:
        used = max(budget_used(progress, self.training), self._epochs_used(progress))
        return tqdm.format_interval(progress.seconds * max(0.0, 1 / used - 1)) if used else "?"

    def _epochs_used(self, progress: Progress) -> float:
        """The part of the epochs that is over; how long one is shows when the first has ended."""
        epoch, batch = progress.position
        if not self.training.max_epochs or not epoch:
            return 0.0
        return (epoch + batch / ((progress.step - batch) / epoch)) / self.training.max_epochs

    def _write(self, record: Mapping[str, Any]) -> None:
        if not self.active:
            return
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        if self._board:
            for key, value in record.items():
                if key != "step":
                    self._board.add_scalar(key, value, record["step"])


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError):
        return math.inf  # the last line of a killed process may be cut
