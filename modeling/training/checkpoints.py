"""The checkpoints of a run, kept in folders that exist completely or not at all (`support.files`), and the state of
its random numbers."""

from __future__ import annotations

import errno
import logging
import os
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from summarily.support.files import is_complete, write_folder
from summarily.support.weights import load_tensors

logger = logging.getLogger(__name__)

# --- checkpoints ------------------------------------------------------------------------------------------


_NAME = re.compile(r"step-\d{8,}")


class Checkpoints:
    """The checkpoints of a run: `step-00000500/` with `state.pt` and, once there is one, `best.pt`.

    `best.pt` (the weights of the best evaluation so far) is part of every checkpoint, as a hard link where
    the file system has them, so that a checkpoint never depends on another folder.
    """

    def __init__(self, folder: Path, keep: int = 2):
        self.folder = folder
        self.keep = keep
        self._newest: Path | None = None  # known to be complete: written or checked by this process

    def save(self, step: int, state: dict[str, Any], best: dict[str, torch.Tensor] | None = None) -> Path:
        """Write a checkpoint, then remove the ones that are no longer kept.

        Args:
            step: the number of optimizer steps taken.
            state: everything a run needs to go on.
            best: new best weights; without them those of the latest checkpoint are carried over.
        """
        previous = self._newest or self.latest()

        def write(folder: Path) -> None:
            _save(state, folder / "state.pt")
            if best is not None:
                _save(best, folder / "best.pt")
            elif previous and (previous / "best.pt").exists():
                _link(previous / "best.pt", folder / "best.pt")

        path = self.folder / f"step-{step:08d}"
        try:
            write_folder(path, write)
        except (OSError, RuntimeError) as error:
            raise _explained(error, step, self.folder, previous) from error
        for old in self._all()[: -self.keep]:
            shutil.rmtree(old)
        self._newest = path
        return path

    def latest(self) -> Path | None:
        """The newest checkpoint that is complete."""
        for path in reversed(self._all()):
            if is_complete(path):
                self._newest = path
                return path
            logger.warning("%s is damaged and is not used.", path)
        return None

    def _all(self) -> list[Path]:
        # By the whole name: a copy that somebody keeps as "step-00000500-mine" is theirs.
        found = [path for path in self.folder.glob("step-*") if _NAME.fullmatch(path.name) and path.is_dir()]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def load_state(path: Path) -> Any:
    """Tensors and plain values only: nothing in a checkpoint is executed."""
    return load_tensors(path)


def _save(value: Any, path: Path) -> None:
    with path.open("wb") as file:
        torch.save(value, file)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _explained(error: BaseException, step: int, folder: Path, previous: Path | None) -> BaseException:
    """The error with the step, the room left and what still stands; torch hides the disk's error in its own."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return error
    free = shutil.disk_usage(folder).free / 2**20
    stands = (
        f"The last good checkpoint, {previous.name}, is intact" if previous else "There is no checkpoint yet"
    )
    problem = (
        "the disk is full" if cause.errno in (errno.ENOSPC, errno.EDQUOT) else os.strerror(cause.errno or 0)
    )
    return OSError(
        cause.errno,
        f"could not write the checkpoint of step {step}: {problem} ({free:,.0f} MB free in {folder}). "
        f"{stands}: make room and run the same command to go on.",
    )


# --- random numbers ---------------------------------------------------------------------------------------


def random_state() -> dict[str, Any]:
    """The generators of Python, numpy and torch, as plain values."""
    numbers: Any = np.random.get_state()  # noqa: NPY002  libraries draw from this generator
    name, keys, *rest = numbers
    state = {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put the generators back where `random_state` found them."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


@contextmanager
def untouched_random_state() -> Iterator[None]:
    """Whatever happens inside draws no random number from the run."""
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)
