"""APES of 11,490 summaries, from texts to score: the paper needed 40 minutes with the attentive reader.

Reads the summaries of `cnndm_simcls_outputs`, which are lower-cased, truecased through `cnndm_test_references`; their
references are the cased ones. Nothing is remembered from an earlier run. Give both cores of a quiet machine.

    python -m tests.benchmarks.apes --data FOLDER [--reader cross] [--summaries 1000]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from summarily.metrics.apes.scorer import Apes
from summarily.metrics.scorecard import score
from summarily.modeling.training.cloze_corpus import read_rows
from summarily.support.cloze.truecasing import Truecaser
from summarily.support.folders import data_folder

AUTHORS_SECONDS = 40 * 60
AUTHORS_SUMMARIES = 11_490


def load_texts(folder: Path, summaries: int | None) -> tuple[list[str], list[str]]:
    """Truecased predictions and cased references."""
    cased = {
        row["cnndm_hash"]: row["reference"]
        for row in read_rows(folder / "news/cnndm_test_references.jsonl.gz")
    }
    truecase = Truecaser(cased.values())
    rows = list(read_rows(folder / "news/cnndm_simcls_outputs.jsonl.gz"))[:summaries]
    return [truecase(row["simcls"]) for row in rows], [
        cased.get(row["cnndm_hash"]) or truecase(row["reference"]) for row in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument(
        "--reader", default="attentive", choices=["attentive", "cross"], help="default: %(default)s"
    )
    parser.add_argument("--summaries", type=int, help="the first N only (default: all)")
    parser.add_argument("--model", help="a folder instead of the shipped reader")
    options = parser.parse_args()
    if not (options.data or os.environ.get("SUMMARILY_DATA")):
        print("APES: not measured; the summaries are in --data FOLDER or SUMMARILY_DATA")
        return
    predictions, references = load_texts(data_folder(options.data), options.summaries)
    apes = Apes(reader=options.reader, model=options.model)
    start, processor = time.perf_counter(), time.process_time()
    result = score(predictions, references, metrics={"apes": apes}, confidence=0.95)["apes"]
    seconds = time.perf_counter() - start
    print(f"{len(result)} summaries, {result.counts['questions']} questions, APES {float(result):.2f}")
    print(f"{result.signature}")
    # A second process finds half of the entities meanwhile. With OMP_NUM_THREADS=1 the CPU time of this one is what
    # the clock shows where two cores are free.
    print(
        f"end to end: {seconds:.1f} s on the clock, {time.process_time() - processor:.1f} s of CPU in this process"
    )
    again = time.perf_counter()
    score(predictions, references, metrics={"apes": apes})
    print(f"again, entities remembered: {time.perf_counter() - again:.1f} s")
    theirs = AUTHORS_SECONDS * len(result) / AUTHORS_SUMMARIES
    print(f"times the authors' speed (40 minutes for 11,490): {theirs / seconds:.1f}")


if __name__ == "__main__":
    main()
