"""What `import summarily` costs beside `import evaluate`, in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys


def seconds(statement: str) -> float:
    code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    return float(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def main() -> None:
    both, alone, command = [], [], []
    for _ in range(6):  # alternating; the first round warms the disk cache
        both.append(seconds("import evaluate; import summarily"))
        alone.append(seconds("import evaluate"))
        command.append(seconds("import summarily.cli"))
    median = statistics.median
    difference = median(both[1:]) - median(alone[1:])
    print(f"import evaluate and summarily / import evaluate: {median(both[1:]) / median(alone[1:]):.3f}")
    print(
        f"import summarily after evaluate: {difference:+.3f} s (limit 0.3 s); the command: {median(command[1:]):.3f} s"
    )


if __name__ == "__main__":
    main()
