"""Does what machines do harm us? `make faults` kills -9, fills the disk, takes the cache away, runs two at once.

A job is a command whose outcome is known from an undisturbed run. Whatever has happened to an earlier one, the same
command afterwards must have the same outcome; and when it cannot do its work it says so in a sentence, not a traceback.

    python -m tests.faults                                  # as make faults
    python -m tests.faults --only training --seed 1
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KILLS = 4
"""Moments at which each job is killed, drawn evenly from the time it takes."""
SMALL_FILE = 3000
"""Bytes after which a file cannot grow, as on a disk that is full."""

_RECIPE = """
[model]
name = "bart"
config = {d_model = 16, encoder_layers = 1, decoder_layers = 1, encoder_attention_heads = 2, decoder_attention_heads = 2, encoder_ffn_dim = 32, decoder_ffn_dim = 32, max_position_embeddings = 64}
[tokenizer]
kind = "word"
min_frequency = 1
[data]
files = {train = "rows.jsonl", validation = "rows.jsonl", test = "rows.jsonl"}
source = "text"
target = "title"
max_source_tokens = 24
max_target_tokens = 8
[batch]
tokens = 128
pool = 32
[training]
max_steps = 12
evaluate_every = 5
checkpoint_every = 2
tensorboard = false
[generation]
num_beams = 1
max_new_tokens = 6
"""


@dataclass(frozen=True)
class Job:
    """A command in a folder of its own, and what it leaves there, as a digest."""

    command: Callable[[Path], list[str]]
    outcome: Callable[[Path], str]
    needs_cache: bool = False
    """Whether it fails when its cache cannot be written; the others go on without."""


def _python(code: str) -> list[str]:
    return [sys.executable, "-P", "-c", code]


def _summarily(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "summarily", *arguments]


def _digest(folder: Path, pattern: str) -> str:
    files = sorted(file for file in folder.glob(pattern) if file.is_file() and ".lock" not in file.name)
    assert files, f"{folder} has no {pattern}"
    lines = [f"{file.relative_to(folder)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _scores(folder: Path) -> str:
    scores = json.loads((folder / "out.json").read_text())["scores"]
    return json.dumps({name: score["per_example"] for name, score in scores.items()}, sort_keys=True)


JOBS = {
    "scoring": Job(
        lambda folder: _summarily(
            "score", "--sample", "--metrics", "rouge,wms", "--json", str(folder / "out.json")
        ),
        _scores,
    ),
    "training": Job(
        lambda folder: _summarily(
            "train", str(folder / "recipe.toml"), "--data", str(folder), "--output", str(folder / "run")
        ),
        lambda folder: _digest(
            folder, "run/hub/*.safetensors"
        ),  # a run goes on to the same weights, bit by bit
    ),
    "publishing": Job(
        lambda folder: _summarily(
            "publish", "metrics", "rouge", "sms", "--dry-run", "--no-load", "--folder", str(folder / "hub")
        ),
        lambda folder: _digest(folder, "hub/metrics/**/*"),
    ),
    "registering": Job(
        lambda folder: _summarily("register"),
        lambda folder: _digest(folder, "modules/evaluate_modules/**/*.py"),
        needs_cache=True,
    ),
    "merging": Job(
        lambda folder: _python(
            "import sys, summarily.modeling\n"
            "from summarily.support.errors import SummarilyError\n"
            "from summarily.support.shipped import checkpoint\n"
            "try: checkpoint('news')\n"
            "except SummarilyError as error: sys.exit(str(error))"
        ),
        lambda folder: _digest(folder, "cache/checkpoints/*/*"),
        needs_cache=True,
    ),
}


def _environment(folder: Path, cache: Path | None = None) -> dict[str, str]:
    return {
        **os.environ,
        "SUMMARILY_CACHE": str(cache or folder / "cache"),
        "HF_MODULES_CACHE": str(cache or folder / "modules"),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        # Else importing summarily would register, and a job would be two.
        "SUMMARILY_REGISTER": "0",
    }


def _prepare(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(_RECIPE)
    rows = [{"text": f"oil rises in trade number {i}", "title": "oil rises"} for i in range(40)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def _start(job: Job, folder: Path, cache: Path | None = None, small: bool = False) -> subprocess.Popen[str]:
    def limit() -> None:
        if small:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILE, SMALL_FILE))

    return subprocess.Popen(
        job.command(folder),
        cwd=folder,
        env=_environment(folder, cache),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def _finish(process: subprocess.Popen[str]) -> str:
    """What it wrote to standard error; a traceback is a finding."""
    _, said = process.communicate(timeout=900)
    assert "Traceback (most recent call last)" not in said, said
    return said


def _outcome(job: Job, folder: Path) -> str:
    process = _start(job, folder)
    said = _finish(process)
    assert process.returncode == 0, said
    return job.outcome(folder)


# --- faults -----------------------------------------------------------------------------------------------


def killed(job: Job, folder: Path, expected: str, seconds: float, chance: random.Random) -> None:
    """kill -9 again and again, then the same command to its end."""
    for number in range(KILLS):
        process = _start(job, folder)
        time.sleep(seconds * (number + chance.random()) / KILLS)
        process.kill()
        process.communicate()
    assert _outcome(job, folder) == expected


def full_disk(job: Job, folder: Path, expected: str, seconds: float, chance: random.Random) -> None:
    """No file can grow: it fails in a sentence or does without; with room it succeeds."""
    process = _start(job, folder, small=True)
    said = _finish(process)
    assert process.returncode == 0 or said.strip(), "it failed without a word"
    assert _outcome(job, folder) == expected


def unwritable_cache(job: Job, folder: Path, expected: str, seconds: float, chance: random.Random) -> None:
    """The cache is below a file, where not even root can write."""
    blocked = folder / "blocked"
    blocked.write_text("")
    process = _start(job, folder, cache=blocked / "cache")
    said = _finish(process)
    if job.needs_cache:
        assert process.returncode != 0 and said.strip(), "nothing was kept, and nothing was said"
    else:
        assert process.returncode == 0, said
        assert job.outcome(folder) == expected
    assert _outcome(job, folder) == expected


def two_at_once(job: Job, folder: Path, expected: str, seconds: float, chance: random.Random) -> None:
    """Two processes, one cache and one output: one of them may be told to wait for the other."""
    both = [_start(job, folder) for _ in range(2)]
    said = [_finish(process) for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, said
    assert all(
        code == 0 or "another run is writing" in text for code, text in zip(codes, said, strict=True)
    ), said
    assert job.outcome(folder) == expected
    assert _outcome(job, folder) == expected


FAULTS = {
    "kill -9": killed,
    "full disk": full_disk,
    "unwritable cache": unwritable_cache,
    "two at once": two_at_once,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=JOBS, help="one job")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of kills (default: %(default)s)")
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    place = Path(tempfile.mkdtemp(prefix="summarily-faults-"))
    findings = 0
    for name in [options.only] if options.only else JOBS:
        job = JOBS[name]
        start = time.monotonic()
        expected = _outcome(job, _prepare(place / name / "undisturbed"))
        seconds = time.monotonic() - start
        for fault, strike in FAULTS.items():
            folder = _prepare(place / name / fault.replace(" ", "-"))
            try:
                strike(job, folder, expected, seconds, chance)
                found = "ok"
            except (AssertionError, subprocess.TimeoutExpired) as error:
                findings += 1
                found = f"FAILED\n{error}"
            print(f"{name}, {fault}: {found}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)
    print(f"findings: {findings}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
