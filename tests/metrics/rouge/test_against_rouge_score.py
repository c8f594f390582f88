"""google mode equals rouge_score 0.1.2 bit for bit: every comparison here is `==`."""

from __future__ import annotations

import gzip
import itertools
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from summarily.metrics.rouge.scorer import Rouge

TYPES = ["rouge1", "rouge2", "rouge3", "rouge9", "rougeL", "rougeLsum"]
OURS = {stemmer: Rouge(types=TYPES, stemmer=stemmer) for stemmer in (False, True)}
THEIRS = {stemmer: RougeScorer(TYPES, use_stemmer=stemmer) for stemmer in (False, True)}


def assert_equal_to_rouge_score(pairs: list[tuple[str, str]], stemmer: bool) -> None:
    ours = OURS[stemmer].compute(*zip(*pairs, strict=True)).per_example
    for row, (prediction, reference) in enumerate(pairs):
        for name, theirs in THEIRS[stemmer].score(reference, prediction).items():
            mine = ours[f"{name}_precision"][row], ours[f"{name}_recall"][row], ours[name][row]
            assert mine == tuple(theirs), (name, prediction, reference)


NASTY = [
    "",
    " ",
    "\n",
    "\n\n\n",
    "a",
    "A",
    "a\n",
    "\na",
    "a a a a a",
    "a b a b a\nb a b\n\na",
    "b a b a b a\na\nb b",
    "the cat sat on the mat",
    "The CAT sat; on-the-mat...",
    "the cat\nsat on\nthe mat",
    "mat the on sat cat the",
    "İstanbul ISTANBUL ıstanbul",  # "İ".lower() is an i and a combining dot
    "K9 k9 \u212a9",  # the Kelvin sign lower-cases to an ASCII k
    "ΟΔΟΣ σς naïve café cafe",
    "\u00a0the\u2028cat\u0085sat\x00on\x1cthe\x1dmat",
    "x_y x-y x.y 1,000 1.5e3",
    "running runs runner ran dying died news innings sky skies yyyyyy",
    "generously generalization agreement geology happily they says using",
    "他说 the 猫 cat سلام 🙂 mat",
    "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5",
    "w1 w2 w3 w4 w5",
    "\r\nthe\r\ncat\r",
    "a" * 300,
]


@pytest.mark.parametrize("stemmer", [False, True])
def test_every_pair_of_nasty_texts(stemmer):
    assert_equal_to_rouge_score(list(itertools.product(NASTY, NASTY)), stemmer)


# Few words make many ties, which is where the subsequence that is taken matters.
few_words = st.lists(st.sampled_from(["a", "b", "c", "\n", "\n", "d"]), max_size=30).map(" ".join)
words = st.lists(
    st.sampled_from(
        [
            "the",
            "cat",
            "cats",
            "running",
            "runs",
            "They",
            "says",
            "İ",
            "K",
            "é",
            "\n",
            "\n\n",
            "-",
            "42",
            "nationality",
        ]
    ),
    max_size=40,
).map(" ".join)


@pytest.mark.parametrize("stemmer", [False, True])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_generated_texts(stemmer, data):
    for texts in (few_words, words, st.text(max_size=60)):
        assert_equal_to_rouge_score([(data.draw(texts), data.draw(texts))], stemmer)


def test_long_texts_of_many_lines():
    lines = ["".join(f"{(7 * i + j * j) % 23} " for j in range(60)) for i in range(12)]
    others = ["".join(f"{(5 * i + j * j) % 29} " for j in range(45)) for i in range(15)]
    for joint in (" ", "\n"):
        assert_equal_to_rouge_score([(joint.join(lines), "\n".join(others))], False)


@settings(max_examples=60, deadline=None)
@given(prediction=few_words, references=st.lists(few_words, min_size=1, max_size=4))
def test_several_references_take_the_first_with_the_highest_f(prediction, references):
    ours = OURS[False].compute([prediction], [references]).per_example
    for name, theirs in THEIRS[False].score_multi(references, prediction).items():
        assert (ours[f"{name}_precision"], ours[f"{name}_recall"], ours[name]) == (
            [theirs.precision],
            [theirs.recall],
            [theirs.fmeasure],
        )


# --- all pairs of the real data (make slow) -----------------------------------------------------------------

DEFAULT = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
FILES = {"xsum_outputs": 5 * 11_334, "cnndm_simcls_outputs": 11_490}


NEWS = Path(os.environ.get("SUMMARILY_DATA") or ".") / "news"


def real_pairs(file: str) -> list[tuple[str, str]]:
    with gzip.open(NEWS / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        (prediction, row["reference"])
        for row in rows
        for prediction in (row["outputs"].values() if "outputs" in row else [row["simcls"]])
    ]


def score_with_rouge_score(job: tuple[list[tuple[str, str]], bool]) -> list[dict[str, Any]]:
    pairs, stemmer = job
    scorer = RougeScorer(DEFAULT, use_stemmer=stemmer)
    return [scorer.score(reference, prediction) for prediction, reference in pairs]


@pytest.mark.slow
@pytest.mark.skipif(
    not all((NEWS / f"{file}.jsonl.gz").is_file() for file in FILES),
    reason="SUMMARILY_DATA is not set to the folder with the systems' outputs",
)
@pytest.mark.parametrize("stemmer", [False, True])
@pytest.mark.parametrize("file", FILES)
def test_all_real_pairs_through_evaluate(file, stemmer, tmp_path, monkeypatch):
    import evaluate

    import summarily

    summarily.register()
    monkeypatch.chdir(tmp_path)
    pairs = real_pairs(file)
    assert len(pairs) == FILES[file]
    predictions, references = map(list, zip(*pairs, strict=True))
    ours = evaluate.load("summarily/rouge").compute(
        predictions=predictions, references=references, stemmer=stemmer
    )
    chunks = [(pairs[i : i + 1000], stemmer) for i in range(0, len(pairs), 1000)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        theirs = [score for chunk in pool.imap(score_with_rouge_score, chunks) for score in chunk]
    mismatches = [
        (row, name)
        for row, scores in enumerate(theirs)
        for name, score in scores.items()
        if (
            ours[f"{name}_precision_per_example"][row],
            ours[f"{name}_recall_per_example"][row],
            ours[f"{name}_per_example"][row],
        )
        != tuple(score)
    ]
    print(f"{file}, stemmer {stemmer}: {len(theirs)} pairs compared, {len(mismatches)} mismatches")
    assert mismatches == []


def test_scripts_for_the_module_of_evaluate_run_unchanged():
    """evaluate's own module is rouge_score's scorer behind these names."""
    from rouge_score import rouge_scorer

    from summarily.metrics.rouge.rouge import Rouge as Module

    predictions, references = (
        ["the cats were sitting", "a dog"],
        ["the cat was sitting down", "one dog barked"],
    )
    types = ["rouge1", "rougeL"]
    scorer = rouge_scorer.RougeScorer(types, use_stemmer=True)
    expected = [scorer.score(b, a) for a, b in zip(predictions, references, strict=True)]
    options = {"rouge_types": types, "use_stemmer": True}
    result = Module().compute(predictions=predictions, references=references, use_aggregator=False, **options)
    mean = Module().compute(predictions=predictions, references=references, **options)
    for name in types:
        values = [found[name].fmeasure for found in expected]
        assert result[name] == values
        assert mean[name] == pytest.approx(sum(values) / 2)
    assert "rouge2" not in result
