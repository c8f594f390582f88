"""Equal signatures promise equal numbers: between CPUs to six decimals, as the documents say.

Measured on the sample with the kernels of AVX-512, AVX2 and SSE4.2 and with one thread and two: the largest difference
of any metric was 3e-7 (BLEURT); ROUGE, WMS, SMS and S+WMS and APES were equal to the last digit.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.metrics.suite import EXACT

CODE = """
import json, sys, summarily
from summarily.support.sample import load_sample
rows = load_sample()[:6]
columns = [[row[name] for row in rows] for name in ("good", "references", "source")]
card = summarily.score(*columns, metrics=json.loads(sys.argv[1]), progress=False)
json.dump({label: [str(score.signature), score.per_example] for label, score in card.items()}, sys.stdout)
"""


def scores(kernels, threads, metrics="all"):
    names = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE")
    environment = {**os.environ, **dict(zip(names, kernels, strict=False))}
    environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(metrics)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernels", [("default", "SSE41", "SSE4_2", "Nehalem"), ("avx2", "AVX2", "AVX2", "Haswell")], ids=" ".join
)
@pytest.mark.parametrize("threads", [1, 2])
def test_scores_of_another_cpu_agree_to_six_decimals(kernels, threads):
    here, there = scores((), 1), scores(kernels, threads)
    assert here.keys() == there.keys()
    for label, (signature, values) in here.items():
        assert there[label][0] == signature
        for key, column in values.items():
            tolerance = {"rel": 1e-12} if label in EXACT else {"abs": 1e-6}
            assert there[label][1][key] == pytest.approx(column, **tolerance), (label, key)


@pytest.mark.slow
def test_in_bfloat16_it_is_three_decimals():
    """Measured on 24 pairs, with instructions for bfloat16 and without: 3e-4."""
    metrics = {"bertscore": {"dtype": "bfloat16"}}
    (signature, here), (same, there) = (
        scores(kernels, 1, metrics)["bertscore"] for kernels in ((), ("avx2", "AVX2", "AVX2", "Haswell"))
    )
    assert signature == same and "|dtype:bfloat16|" in signature
    for key, column in here.items():
        assert there[key] == pytest.approx(column, abs=2e-3), key
