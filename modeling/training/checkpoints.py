"""Folders that exist completely or not at all, and the checkpoints of a run kept in them.

A folder is written under another name, synced to disk, given a marker with the size and hash of each file,
and renamed: a process killed at any moment leaves the previous folders as they were. What does not agree with
its marker is never loaded.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

logger = logging.getLogger(__name__)

MARKER = "complete.json"
_PARTIAL = ".partial-"


def write_folder(path: Path, write: Callable[[Path], object], marker: bool = True) -> None:
    """Create or replace the folder `path` by what `write` puts into it, all or nothing.

    Example:
        >>> write_folder(Path("/tmp/summarily-example"), lambda folder: (folder / "a").write_text("1"))
        >>> is_complete(Path("/tmp/summarily-example"))
        True
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{_PARTIAL}{path.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        write(partial)
        for file in _files(partial):
            _sync(file)
        if marker:
            (partial / MARKER).write_text(json.dumps(_fingerprints(partial), indent=1))
            _sync(partial / MARKER)
        _sync(partial)
        if path.exists():  # a folder cannot be renamed over another
            replaced = path.with_name(f"{_PARTIAL}replaced-{path.name}")
            shutil.rmtree(replaced, ignore_errors=True)
            path.rename(replaced)
            partial.rename(path)
            shutil.rmtree(replaced)
        else:
            partial.rename(path)
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_file(path: Path, text: str) -> None:
    """Replace a text file, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{_PARTIAL}{path.name}")
    try:
        partial.write_text(text, encoding="utf-8")
        _sync(partial)
        partial.rename(path)
        _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def is_complete(folder: Path) -> bool:
    """Whether every file is the one that was written."""
    try:
        return bool(json.loads((folder / MARKER).read_text()) == _fingerprints(folder))
    except (OSError, ValueError):
        return False


def remove_partial(folder: Path) -> None:
    """Remove what a killed process left half-written."""
    for path in folder.glob(f"{_PARTIAL}*"):
        replaced = folder / path.name.removeprefix(f"{_PARTIAL}replaced-")
        if path.name.startswith(f"{_PARTIAL}replaced-") and not replaced.exists():
            path.rename(replaced)  # killed between the two renames: the old folder is still good
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)


def _fingerprints(folder: Path) -> dict[str, list[Any]]:
    prints = {}
    for path in _files(folder):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        prints[str(path.relative_to(folder))] = [path.stat().st_size, digest]
    return prints


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder against a second run; the lock dies with the process, however it dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RuntimeError(
                f"another run is writing to {folder}; wait for it to end or choose another output folder."
            ) from None
        yield


# --- checkpoints ------------------------------------------------------------------------------------------


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
        return sorted(self.folder.glob("step-????????*"))


def load_state(path: Path) -> Any:
    """Tensors and plain values only: nothing in a checkpoint is executed."""
    return torch.load(path, map_location="cpu", weights_only=True)


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
