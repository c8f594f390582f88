"""How soon `Summarizer()` is ready in a fresh process, beside transformers loading the same folder by itself.

    python -m tests.benchmarks.summarizer_start

Wall-clock time is what a user waits; CPU time does not depend on what else the machine does. The first start, which
may have to merge base and adapter, is not counted.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

LIMIT = 3.0
OURS = "from summarily import Summarizer; ready = Summarizer()"
THEIRS = (
    "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer; folder = {folder!r}; "
    "ready = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)"
)


def seconds(program: str) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a program, the interpreter's own start included."""
    code = (
        "import json, time, psutil\n"
        f"{program}\n"
        "own = psutil.Process(); times = own.cpu_times()\n"
        "print(json.dumps([time.time() - own.create_time(), times.user + times.system]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall, cpu = json.loads(found.stdout.splitlines()[-1])
    return wall, cpu


def main() -> None:
    import summarily

    theirs = THEIRS.format(folder=summarily.checkpoint("news"))
    runs: dict[str, list[tuple[float, float]]] = {OURS: [], theirs: []}
    for _ in range(4):  # alternating; the first round warms the disk cache
        for program, found in runs.items():
            found.append(seconds(program))
    for name, found in zip(("Summarizer()", "transformers alone"), runs.values(), strict=True):
        wall, cpu = (statistics.median(values) for values in zip(*found[1:], strict=True))
        print(f"{name:<20} ready after {wall:.2f} s, CPU {cpu:.2f} s (limit of ours {LIMIT:g} s)")


if __name__ == "__main__":
    main()
