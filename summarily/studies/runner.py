"""Studies: several training runs that differ in a few values, compared in one table.

A study is a list of cells, each a recipe with overrides. Every cell is an ordinary run in a folder of its own,
so a study that is stopped goes on where it was: finished cells are not run again, an unfinished one resumes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summarily.support.errors import FailedRunError, SummarilyError
from summarily.support.inputs import read_json
from summarily.support.processes import python_module


@dataclass(frozen=True)
class Cell:
    """One run of a study: a recipe by name or path, and the `section.key=value` it is run with."""

    name: str
    recipe: str
    overrides: tuple[str, ...] = ()

    def command(self, folder: Path, data: str | None) -> list[str]:
        command = python_module("summarily", ["train", self.recipe, "--output", str(folder / self.name)])
        for override in self.overrides:
            command += ["--set", override]
        return command + (["--data", data] if data else [])


def run_cells(cells: Sequence[Cell], folder: Path, data: str | None = None, jobs: int = 1) -> None:
    """Run what is not finished, `jobs` cells at a time, each in a process of its own with its share of the cores.

    Raises:
        FailedRunError: a cell failed; the message has its last line. The others are left running to their end, but where
            what was given cannot be used no more of them are started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [cell for cell in cells if not (folder / cell.name / "result.json").exists()]
    threads = str(max(1, _cores() // max(1, min(jobs, len(waiting)))))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    failed: list[str] = []
    with _signals_noted() as noted:
        try:
            while (waiting or running) and not noted:
                while waiting and len(running) < jobs and not noted:
                    cell = waiting.pop(0)
                    with (folder / f"{cell.name}.log").open("ab") as log:
                        process = subprocess.Popen(
                            cell.command(folder, data), env=environment, stdout=log, stderr=subprocess.STDOUT
                        )
                    running[cell.name] = process, time.monotonic()
                    print(f"{cell.name}: started ({len(waiting)} waiting)", flush=True)
                time.sleep(0.5)
                for name, (process, start) in list(running.items()):
                    if process.poll() is not None:
                        del running[name]
                        print(
                            f"{name}: exit {process.returncode} after {(time.monotonic() - start) / 60:.1f} min",
                            flush=True,
                        )
                        failed += [name] if process.returncode else []
                        if process.returncode == SummarilyError.exit_code:
                            waiting.clear()
        finally:
            for process, _ in running.values():
                process.terminate()  # each saves its state and stops
            while any(process.poll() is None for process, _ in running.values()):
                time.sleep(0.05)
                if len(noted) > 1:  # somebody is in a hurry
                    for process, _ in running.values():
                        process.kill()
    if noted:
        if noted[0] == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + noted[0])
    if failed:
        log_file = folder / f"{failed[0]}.log"
        last = log_file.read_text(errors="replace").rstrip().rpartition("\n")[2]
        raise FailedRunError(f"{', '.join(failed)} failed; {log_file} ends: {last}")


@contextlib.contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """Inside, a signal that would end this process is noted instead of raising: an exception at the wrong moment, when
    a child has been started and nobody knows of it yet, would leave it behind."""
    noted: list[int] = []
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    heard = [number for number in ending if signal.getsignal(number) != signal.SIG_IGN]  # nohup stays nohup
    usual = {number: signal.signal(number, lambda number, _: noted.append(number)) for number in heard}
    try:
        yield noted
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _cores() -> int:
    """Those that this process may use, where the system says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def results(cells: Sequence[Cell], folder: Path) -> dict[str, dict[str, Any]]:
    """What each finished cell stored, by name."""
    found = {}
    for cell in cells:
        path = folder / cell.name / "result.json"
        if path.exists():
            found[cell.name] = read_json(path, dict)
    return found


def predictions(cell: Cell, folder: Path) -> tuple[list[str], list[list[str]]]:
    """The summaries of the test split that a finished cell wrote, and their references."""
    lines = (folder / cell.name / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row["prediction"] for row in rows], [row["references"] for row in rows]
