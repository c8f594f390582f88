"""Peak memory of `score_stream` by the number of rows, each in a process of its own.

python -m tests.benchmarks.streaming [--rouge 10000 100000 1000000] [--bertscore 10000 50000]

For ROUGE texts have 40 to 60 words; for BERTScore three (eleven tokens), and its first layer alone is used: states are as large as those of
any other layer, and come sooner.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [f"word{i}" for i in range(3000)]
METRICS = {"rouge": {"rouge": {}}, "bertscore": {"bertscore": {"layer": 1, "device": "cpu"}}}
LENGTHS = {"rouge": (40, 60), "bertscore": (3, 3)}
CHILD = """
import json, resource, sys, time
import summarily
start = time.process_time()
card = summarily.score_stream(sys.argv[1], json.loads(sys.argv[2]), output=sys.argv[3], progress=False)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"rows": card.rows, "megabytes": peak, "seconds": time.process_time() - start}))
"""


def write(path: Path, rows: int, shortest: int = 40, longest: int = 60) -> None:
    """Made-up pairs of so many words that share some, row group by row group."""
    import pyarrow
    import pyarrow.parquet

    generator = random.Random(0)
    schema = pyarrow.schema([("prediction", pyarrow.string()), ("reference", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 10_000):
            part = []
            for _ in range(min(10_000, rows - start)):
                words = generator.choices(WORDS, k=generator.randint(shortest, longest))
                other = [w if generator.random() < 0.5 else generator.choice(WORDS) for w in words]
                part.append({"prediction": " ".join(words), "reference": " ".join(other)})
            writer.write_table(pyarrow.Table.from_pylist(part, schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rouge", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--bertscore", type=int, nargs="*", default=[])
    options = parser.parse_args()
    print("metric     rows       peak MB  CPU s  rows/s")
    for metric in ("rouge", "bertscore"):
        for rows in getattr(options, metric):
            with tempfile.TemporaryDirectory() as folder:
                table = Path(folder) / "rows.parquet"
                write(table, rows, *LENGTHS[metric])
                asked = json.dumps(METRICS[metric])
                command = [sys.executable, "-c", CHILD, str(table), asked, f"{folder}/scores.parquet"]
                start = time.perf_counter()
                run = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(run.stdout.splitlines()[-1])
                speed = rows / (time.perf_counter() - start)
            print(
                f"{metric:10} {rows:9,}  {found['megabytes']:8.0f}  {found['seconds']:5.0f}  {speed:6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
