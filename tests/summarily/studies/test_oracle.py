"""The oracle bounds what copying sentences can reach."""

from __future__ import annotations

from summarily.metrics import load
from summarily.studies.baselines import lead
from summarily.studies.oracle import oracle
from summarily.support.sample import load_sample


def test_the_oracle_is_no_worse_than_the_first_sentences():
    rouge = load("rouge", types=["rouge1"])
    rows = load_sample()[:6]
    references = [row["references"] for row in rows]
    best = rouge.compute([oracle(row["source"], row["references"]) for row in rows], references).mean[
        "rouge1"
    ]
    first = rouge.compute([lead(row["source"]) for row in rows], references).mean["rouge1"]
    assert best > first + 0.02
    assert all(len(oracle(row["source"], row["references"]).split("\n")) <= 3 for row in rows)


def test_a_source_that_shares_nothing_gives_nothing():
    assert oracle("It rained. It poured.", ["Budget talks failed."]) == ""
