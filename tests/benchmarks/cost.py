"""What a hundred million rows would cost, from what a few cost here: the page `docs/cost.md`.

python -m tests.benchmarks.cost > docs/cost.md

Each piece of work is measured in a process of its own on one thread: CPU seconds after a first call that loads models, and
the largest resident memory. Texts are those of the bundled sample, each with a word of its own so that no text is met
twice.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

ROWS = 100_000_000
MACHINES, CORES = 10, 16


class Work(NamedTuple):
    """What is measured: how it is shown, the rows to measure, and the code that makes `work(rows)`."""

    shown: str
    rows: int
    code: str
    kind: str = "pairs"


METRIC = """
from summarily.metrics import load
from summarily.metrics.streaming import Columns, WindowScorer
score = WindowScorer({{"it": load({name!r}, **{options!r})}}, {{"it": None}}, Columns(), "stop")
work = lambda rows: score(0, rows)
"""
WORKS = [
    Work("ROUGE", 2000, METRIC.format(name="rouge", options={})),
    Work("SMS", 600, METRIC.format(name="sms", options={})),
    Work("BERTScore, float32", 200, METRIC.format(name="bertscore", options={})),
    Work("BERTScore, bfloat16", 200, METRIC.format(name="bertscore", options={"dtype": "bfloat16"})),
    Work("APES", 60, METRIC.format(name="apes", options={})),
    Work(
        "summaries by `news`",
        8,
        """
from summarily import Summarizer
summarizer = Summarizer("news")
work = lambda rows: summarizer([row["source"] for row in rows], long="chunk", progress=False)
""",
        "articles",
    ),
    Work(
        "adding up, for 12 columns",
        8192,
        """
from summarily.metrics import load
from summarily.metrics.engine import Tally
from summarily.metrics.streaming import Columns, Stream, Window
import numpy
stream = Stream({"rouge": load("rouge")}, {}, lambda: iter([]), False, None, Columns(), 0.95, None, "stop", 2048)
keys = load("rouge").keys
def work(rows):
    columns = {key: numpy.random.default_rng(0).random(2048).tolist() for key in keys}
    windows = (
        Window(2048, list(range(2048)), [], {"rouge": Tally(list(range(2048)), columns)})
        for _ in range(max(1, len(rows) // 2048))
    )
    stream.add_up(windows, False)
""",
        "rows",
    ),
]

CHILD = """
import json, logging, resource, sys, time, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
from summarily.support.sample import SYSTEMS, load_sample
number = int(sys.argv[1])
sample = load_sample()
rows = []
while len(rows) < number:
    place = len(rows)
    row = sample[place // 3 % len(sample)]
    rows.append({
        "prediction": f"{row[SYSTEMS[place % 3]]} No {place}.",
        "reference": f"{row['references'][0]} No {place}.",
        "source": f"{row['source']} No {place}.",
    })
"""
MEASURED = """
work(rows[:2])
start = time.process_time()
work(rows)
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"rate": number / seconds, "megabytes": peak}))
"""


def measured(work: Work) -> dict[str, Any]:
    """Rows a CPU second and peak memory, by a process of its own."""
    command = [sys.executable, "-c", CHILD + work.code + MEASURED, str(work.rows)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if run.returncode:
        raise SystemExit(f"{work.shown}: {run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def rounded(number: float) -> str:
    """Two digits: more would promise what an extrapolation cannot keep."""
    return f"{float(f'{number:.2g}'):,.10g}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    from summarily.support.sample import SYSTEMS, load_sample

    sample = load_sample()
    lengths = {
        name: round(sum(len(text.split()) for text in texts) / len(texts))
        for name, texts in {
            "summary": [row[system] for row in sample for system in SYSTEMS],
            "reference": [row["references"][0] for row in sample],
            "article": [row["source"] for row in sample],
        }.items()
    }
    print(f"""# Cost on paper

What {ROWS:,} rows would cost, extrapolated from rows per CPU second measured on one core. This page is the output of

    python -m tests.benchmarks.cost > docs/cost.md

and nothing of this size was run. Texts are those of the bundled sample ({lengths["summary"]} words a summary, \
{lengths["reference"]} a reference, {lengths["article"]} an article), each different from all others; longer texts cost more, \
and texts that come again within a window of 2,048 rows are encoded once.

| work | rows a CPU second | memory of a process | core hours for 100 million | hours on {MACHINES} machines of {CORES} cores | \
memory of a machine |
|---|---|---|---|---|---|""")
    for work in WORKS:
        found = measured(work)
        hours = ROWS / found["rate"] / 3600
        if work.kind == "rows":
            serial = hours
            continue
        workers = CORES - 1
        print(
            f"| {work.shown} | {rounded(found['rate'])} {work.kind} | {rounded(found['megabytes'])} MB | "
            f"{rounded(hours)} | {rounded(hours / (MACHINES * workers))} | "
            f"{rounded(workers * found['megabytes'] / 1024)} GB |",
            flush=True,
        )
    print(f"""
How to read it:

- `summarily score 'table/*.parquet' --engine ray --address auto --json scores.parquet` works with one process for each CPU \
but one; hours assume {CORES - 1} of {CORES} cores at work and nothing lost between them. Each process holds its own copy of \
the models.
- The process that began the run adds up what the others have scored (exact sums, 1,000 resamples for the intervals) and \
writes the rows: {rounded(serial)} hours for 100 million rows of ROUGE's columns after the last window, whatever the number \
of machines.
- Memory does not grow with rows (`python -m tests.benchmarks.streaming` shows it for `--stream`).
- A virtual CPU is often half a core, and another CPU may be twice as fast or half: measure on yours with the command \
above, which takes about a minute on a quiet core.
""")


if __name__ == "__main__":
    main()
