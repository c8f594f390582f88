"""Twenty people at once on the scorecard: errors, wrong answers, latency, and the memory of the server.

    python -m tests.benchmarks.space_load --users 20 --seconds 60

Every user has a session of their own, scores documents of the bundled sample (each request another document or
other metrics), and reads for a moment before the next click.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summarily.spaces.scorecard import scoring
from summarily.spaces.texts import pasted
from summarily.support.sample import SYSTEMS, load_sample

METRICS = (["rouge"], ["rouge", "bertscore"], ["sms", "wms"], ["rouge", "bertscore", "wms", "sms"])
MEMORY_LIMIT = 512 * 2**20
"""How much the server may grow in the minute, after every metric has run once."""


@dataclass
class Outcome:
    """What all users met."""

    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def requests() -> list[tuple[list[Any], list[float]]]:
    """Arguments of `/score`, and the numbers that must come back."""
    found = []
    for row, metrics in itertools.product(load_sample()[:9], METRICS):
        summaries = [*(row[name] for name in SYSTEMS), ""]
        reference = "\n\n".join(row["references"])
        result = scoring.score_texts(pasted(row["source"], reference, summaries), metrics)
        arguments = [metrics, row["source"], reference, *summaries]
        found.append((arguments, numbers(scoring.results_html(result))))
    return found


def numbers(html: str) -> list[float]:
    """Every score on the page, in order."""
    return [float(text) for text in re.findall(r">(-?\d+\.\d{4})<", html)]


def user(url: str, work: list[Any], until: float, pause: float, offset: int, outcome: Outcome) -> None:
    from gradio_client import Client

    client = Client(url, verbose=False, download_files=False)
    for step in itertools.count(offset):
        if time.monotonic() > until:
            return
        arguments, expected = work[step * 7 % len(work)]
        start = time.monotonic()
        try:
            shown = client.predict(*arguments, api_name="/score")[0]
            outcome.latencies.append(time.monotonic() - start)
            got = numbers(shown)
            # The last digit may round the other way: texts are batched with other texts.
            if len(got) != len(expected) or any(
                not math.isclose(a, b, abs_tol=1.01e-4) for a, b in zip(got, expected, strict=True)
            ):
                outcome.wrong.append(f"{arguments[0]}: {got} instead of {expected}")
        except Exception as error:  # whatever a user would see is counted
            outcome.errors.append(f"{type(error).__name__}: {error}")
        time.sleep(pause)


class Server:
    """`summarily demo scorecard` in a process and a temporary folder of its own."""

    def __init__(self, folder: str):
        import psutil
        from gradio_client import Client

        self.port = 7000 + os.getpid() % 2000
        self.url = f"http://127.0.0.1:{self.port}/"
        self.log = Path(folder) / "log"
        environment = {**os.environ, "TMPDIR": folder, "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-m", "summarily", "demo", "scorecard", "--port", str(self.port)]
        with self.log.open("w") as stream:
            self.process = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
        self.memory = psutil.Process(self.process.pid).memory_info
        deadline = time.monotonic() + 300
        while True:
            try:
                self.client = Client(self.url, verbose=False, download_files=False)
                return
            except Exception:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise SystemExit(f"the Space did not start:\n{self.log.read_text()}") from None
                time.sleep(0.5)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def run(users: int, seconds: float, pause: float) -> int:
    work = requests()
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            for arguments, _ in work[:4]:  # every metric once: models are loaded
                server.client.predict(*arguments, api_name="/score")
            before = peak = server.memory().rss
            until = time.monotonic() + seconds
            threads = [
                threading.Thread(target=user, args=(server.url, work, until, pause, number, outcome))
                for number in range(users)
            ]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                peak = max(peak, server.memory().rss)
                time.sleep(0.5)
        finally:
            server.stop()
    return report(outcome, users, seconds, before, peak)


def report(outcome: Outcome, users: int, seconds: float, before: int, peak: int) -> int:
    latencies = sorted(outcome.latencies)
    if len(latencies) < users:
        print(f"only {len(latencies)} answers; {outcome.errors[:3]}")
        return 1
    cuts = statistics.quantiles(latencies, n=100)
    print(
        f"{users} users for {seconds:g} s: {len(latencies)} answers, {len(latencies) / seconds:.1f} a second"
    )
    print(f"errors: {len(outcome.errors)}, wrong answers: {len(outcome.wrong)}")
    print(
        f"latency in seconds: median {cuts[49]:.2f}, 90% {cuts[89]:.2f}, 99% {cuts[98]:.2f}, longest {latencies[-1]:.2f}"
    )
    grown = (peak - before) / 2**20
    print(f"memory of the server: {before / 2**20:.0f} MB before, at most {grown:+.0f} MB (limit 512 MB)")
    for line in (outcome.errors + outcome.wrong)[:5]:
        print(line)
    return int(bool(outcome.errors or outcome.wrong) or peak - before > MEMORY_LIMIT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds a user reads before the next click")
    options = parser.parse_args()
    return run(options.users, options.seconds, options.pause)


if __name__ == "__main__":
    sys.exit(main())
