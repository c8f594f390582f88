"""Processes: those of `accelerate launch` or `torchrun`, who we are and how many there are, and others of ours."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable


def python_module(name: str, arguments: Iterable[str] = ()) -> list[str]:
    """The command that runs a module of ours in another interpreter.

    -P: the working folder is not on its path, so that a `spacy.py` beside somebody's data is not taken for spaCy.

    Example:
        >>> python_module("summarily", ["--version"])[1:]
        ['-P', '-m', 'summarily', '--version']
    """
    return [sys.executable, "-P", "-m", name, *arguments]


class Lock:
    """A lock that a thread may take again, and that is free in a forked process, where the thread that held it is not.

    Example:
        >>> lock = Lock()
        >>> with lock, lock:
        ...     pass
    """

    def __init__(self) -> None:
        self._renew()
        _locks.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_locks() -> None:
    for lock in list(_locks):
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def warn_if_alone() -> None:
    """`accelerate launch --cpu --num_processes N` starts one process unless it finds mpirun: say so."""
    if "MASTER_PORT" in os.environ and "WORLD_SIZE" not in os.environ:
        print(
            "summarily: accelerate launch --cpu starts a single process unless it uses mpirun; for several CPU "
            "processes run accelerate launch --multi_gpu --num_processes N ... (which needs no GPU here).",
            file=sys.stderr,
        )


def is_main() -> bool:
    """Whether this process is the one that prints."""
    return int(os.environ.get("RANK", "0")) == 0


def rank_and_world() -> tuple[int, int]:
    """This process' number and how many there are, joined by gloo on CPUs.

    Example:
        >>> rank_and_world()
        (0, 1)
    """
    warn_if_alone()
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return 0, 1
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=not torch.accelerator.is_available())
    return state.process_index, state.num_processes


def leave() -> None:
    """Wait for the others and part from them: a process that just ends takes the connections of the rest down."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "torch" not in sys.modules:
        return
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
