"""What our line in `summarily.pth` costs a Python that never imports `evaluate`: when it starts, and for every import after.

python -m tests.benchmarks.start
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TURNS = 25
IMPORTS = "import json, decimal, email.message, http.client, unittest.mock, xml.dom.minidom, asyncio"
CODE = """
import site, time
start = time.thread_time_ns()
site.addsitedir({folder!r})
ready = time.thread_time_ns()
{imports}
print(ready - start, time.thread_time_ns() - ready)
"""


def main() -> int:
    from backend import LINE, PTH

    found: dict[str, list[list[int]]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as root:
        for name, line in (("without", "# nothing\n"), ("with", LINE)):
            folder = Path(root) / name
            folder.mkdir()
            (folder / PTH).write_text(line)
        for _ in range(TURNS):
            for name, times in found.items():
                code = CODE.format(folder=str(Path(root) / name), imports=IMPORTS)
                done = subprocess.run(
                    [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
                )
                times.append([int(part) for part in done.stdout.split()])
    for name, times in found.items():
        start, imports = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"{name:<8} start {start / 1e3:7.0f} us of CPU, imports {imports / 1e6:7.2f} ms (medians of {TURNS})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
