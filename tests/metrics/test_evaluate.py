"""evaluate's own checks of a module, `evaluate.combine`, and `evaluate.evaluator("summarization")`."""

from __future__ import annotations

import doctest
import inspect
import sys

import datasets
import evaluate
import pytest

import summarily
from summarily.metrics import METRICS, load
from summarily.support.errors import InputError

PREDICTIONS = ["Ann Berg flew to Oslo.", "The price of oil fell on Monday."]
REFERENCES = ["Ann Berg arrived in Oslo on Monday.", "Oil became cheaper."]


@pytest.fixture(autouse=True)
def registered():
    summarily.register()


@pytest.mark.parametrize("name", METRICS)
def test_a_module_passes_evaluates_own_checks(name):
    """No `**options` in `_compute`, and examples that run, more than one line of them."""
    module = evaluate.load(f"summarily/{name}")
    parameters = inspect.signature(module._compute).parameters
    assert all(one.kind is not one.VAR_KEYWORD for one in parameters.values())
    assert set(inspect.signature(type(load(name))).parameters) <= set(parameters)
    results = doctest.testmod(sys.modules[type(module).__module__])
    assert results.attempted > 1 and results.failed == 0
    assert ">>> metric = evaluate.load" in module.inputs_description


def test_unknown_options_are_named():
    with pytest.raises(InputError, match="stemer"):
        evaluate.load("summarily/rouge").compute(predictions=PREDICTIONS, references=REFERENCES, stemer=True)


def test_combined_modules_take_rows_and_batches():
    names = ["summarily/rouge", "wms"]
    at_once = evaluate.combine(names).compute(predictions=PREDICTIONS, references=REFERENCES)
    batches, rows = evaluate.combine(names), evaluate.combine(names)
    batches.add_batch(predictions=PREDICTIONS, references=REFERENCES)
    for prediction, reference in zip(PREDICTIONS, REFERENCES, strict=True):
        rows.add(predictions=prediction, references=reference)
    assert batches.compute() == rows.compute() == at_once
    assert at_once["rouge1"] == load("rouge").compute(PREDICTIONS, REFERENCES).mean["rouge1"]


def test_combined_modules_hand_sources_on():
    combined = evaluate.combine(["summarily/rouge"])
    with pytest.raises(InputError, match="sources"):
        combined.add_batch(predictions=PREDICTIONS, references=REFERENCES, sources=["only one"])


def test_one_row_is_added_under_either_name():
    module = evaluate.load("summarily/rouge")
    module.add(predictions=PREDICTIONS[0], references=REFERENCES[0])
    module.add(prediction=PREDICTIONS[1], reference=[REFERENCES[1]])
    assert module.compute()["rouge1"] == load("rouge").compute(PREDICTIONS, REFERENCES).mean["rouge1"]
    with pytest.raises(InputError, match="prediction and predictions are both given"):
        module.add(prediction="a", predictions="a", reference="a")


class Leading:
    """A pipeline that repeats the beginning of a text."""

    task = "summarization"

    def __call__(self, texts, truncation=True, words=3):
        return [{"summary_text": " ".join(text.split()[:words])} for text in texts]


def test_the_evaluator_of_summarization_scores_a_pipeline():
    data = datasets.Dataset.from_dict({"text": PREDICTIONS * 2, "label": REFERENCES * 2})
    evaluator = evaluate.evaluator("summarization")
    result = evaluator.compute(Leading(), data, metric="summarily/rouge", generation_kwargs={"words": 4})
    expected = load("rouge").compute([" ".join(t.split()[:4]) for t in PREDICTIONS * 2], REFERENCES * 2)
    assert result["rouge1"] == expected.mean["rouge1"] and result["signature"] == str(expected.signature)
    again = evaluate.evaluator("summarization")
    assert again.PIPELINE_KWARGS == {"truncation": True}
    options = {"metric": "summarily/rouge", "strategy": "bootstrap", "n_resamples": 9, "random_state": 0}
    result = again.compute(Leading(), data, **options)
    low, high = result["rouge1"]["confidence_interval"]
    assert low <= result["rouge1"]["score"] <= high and isinstance(result["signature"], str)
    with pytest.raises(ValueError, match="'translation'"):
        other = Leading()
        other.task = "translation"
        again.compute(other, data)
