"""Examples, scores and signatures, to the last value."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import summarily
from summarily.metrics import Metric, Values
from summarily.metrics.base import Example, Score, Signature, add_counts, make_examples, weighted_mean
from summarily.metrics.explanations import Explanation
from summarily.metrics.resampling import mean_intervals
from summarily.support.errors import InputError


class Told(Metric):
    """Scores, counts and explains what it is told: each prediction is a number, each reference adds one."""

    name, summary, keys = "told", "for tests", ("told", "told_references")

    def __init__(self, preset="light", scale=1.0):
        self.scale = scale

    def signature_fields(self, statistics):
        return {"scale": self.scale}

    def statistics(self, examples):
        return sum(float(example.prediction) for example in examples)

    def score_examples(self, examples, statistics):
        return Values(
            {
                "told": [self.scale * float(example.prediction) for example in examples],
                "told_references": [float(len(example.references)) for example in examples],
            },
            {"sources": sum(example.source is not None for example in examples)},
        )

    def explain_example(self, example, statistics):
        given = {"statistics": statistics, "source": example.source}
        return Explanation(self.name, given, example.prediction, example.references)


def test_a_signature_names_what_is_set_in_order():
    fields = {"stemmer": True, "idf": False, "layer": None, "types": ["a", "b"], "pair": (1, 2), "n": 0}
    signature = Signature("m", fields, version="7")
    assert str(signature) == "m|stemmer:yes|idf:no|types:a+b|pair:1+2|n:0|version:7"
    same = Signature("m", {key: value for key, value in fields.items() if value is not None}, "7")
    assert signature == same and hash(signature) == hash(same)
    assert signature != Signature("m", fields, "8") and signature != str(signature)


def test_an_explanation_is_given_the_row_and_the_statistics_of_the_corpus():
    score = Told().compute(["1", "2", "4"], ["r", ["s", "t"], "u"], ["x", "y", "z"])
    assert score.explain(1) == score.explain(-2)
    assert score.explain(1) == Explanation("told", {"statistics": 7.0, "source": "y"}, "2", ("s", "t"))
    assert score.explain(-3) == score.explain(0) != score.explain(2)
    for row in (3, -4):
        with pytest.raises(IndexError, match=f"row {row} is out of range: the score has 3 examples"):
            score.explain(row)


def test_scores_add_up_key_by_key():
    metric = Told(scale=0.5)
    both = metric.compute(["1", "2"], ["r", ["s", "t"]]) + metric.compute(["4"], ["u"], ["x"])
    assert both.per_example == {"told": [0.5, 1.0, 2.0], "told_references": [1.0, 2.0, 1.0]}
    assert both.counts == {"sources": 1} and both.name == "told" and both.weights is None
    assert [both.explain(row).prediction for row in range(3)] == ["1", "2", "4"]
    assert both.explain(2).values == {"statistics": 4.0, "source": "x"}
    assert float(both) == 3.5 / 3 and len(both) == 3 and both.main == "told"
    with pytest.raises(TypeError):
        both + 1


def made(weights=None, explainer=None, cost=None, averaged=()):
    return Score(
        "x",
        {"x": [1.0, 3.0]},
        Signature("x"),
        weights=weights,
        explainer=explainer,
        cost=cost or {},
        averaged=averaged,
    )


def test_what_one_of_two_scores_lacks_their_sum_lacks():
    assert (made([1.0, 3.0]) + made([2.0, 2.0])).weights == [1.0, 3.0, 2.0, 2.0]
    assert float(made([1.0, 3.0]) + made([2.0, 0.0])) == (1 + 9 + 2) / 6
    assert (made([1.0, 3.0]) + made()).weights is None and (made() + made([1.0, 3.0])).weights is None
    assert (made(explainer=lambda row: {}) + made()).explainer is None
    assert (made(averaged=("x",)) + made(averaged=("x",))).averaged == ("x",)
    costs = [{"processes": 2, "tokens": 3, "peak_memory": 5}, {"processes": 4, "seconds": 1.0}]
    together = made(cost=costs[0]) + made(cost=costs[1])
    assert together.cost == {"processes": 4, "tokens": 3, "peak_memory": 5, "seconds": 1.0}
    assert add_counts({"a": 1, "b": 2}, {"b": 3, "c": 4}) == {"a": 1, "b": 5, "c": 4}


def test_a_weighted_mean_of_nothing_is_0():
    assert weighted_mean([1.0, 3.0]) == 2.0 and weighted_mean([1.0, 3.0], [3, 1]) == 1.5
    assert weighted_mean([1.0, 3.0], [0, 0]) == 0.0
    assert weighted_mean([0.1] * 10) == 0.1, "summed without rounding in between"


def test_a_score_as_json_has_its_weights_and_intervals():
    score = made([1.0, 3.0])
    assert score.with_interval(None).interval is None and "weights" in score.to_dict()
    score.with_interval(0.8)
    low, high = mean_intervals({"x": [1.0, 3.0]}, 0.8, [1.0, 3.0])["x"]
    assert score.to_dict() == {
        "metric": "x",
        "mean": {"x": 2.5},
        "interval": {"x": [low, high, 0.8]},
        "signature": str(Signature("x")),
        "counts": {},
        "cost": {},
        "per_example": {"x": [1.0, 3.0]},
        "weights": [1.0, 3.0],
    }
    assert "weights" not in made().to_dict() and made().to_dict()["interval"] is None


def test_examples_are_what_was_given():
    rows = [["r", "s"], ("t",), np.array(["u", "v"]), "w"]
    assert make_examples(list("abcd"), rows, list("1234")) == [
        Example("a", ("r", "s"), "1"),
        Example("b", ("t",), "2"),
        Example("c", ("u", "v"), "3"),
        Example("d", ("w",), "4"),
    ]
    assert make_examples(["a"], ["r"]) == [Example("a", ("r",), None)]


@pytest.mark.parametrize(
    ("predictions", "references", "transposed"),
    [
        (["a", "b", "c"], [["r", "s", "t"], ["u", "v", "w"]], True),
        (["a", "b", "c"], [["r", "s"], ["u", "v"]], False),
        (["a", "b"], [["r", "s"], "t", ["u", "v"]], False),
    ],
)
def test_references_that_look_transposed_are_called_so(predictions, references, transposed):
    with pytest.raises(InputError, match="rows but references has") as caught:
        make_examples(predictions, references)
    assert ("looks transposed" in str(caught.value)) == transposed


def test_states_take_more_examples():
    metric = Told()
    state = metric.state(["1"], ["r"])
    state.add(["2"], ["s"], ["x"])
    assert state.score().per_example["told"] == [1.0, 2.0] and state.score().interval is None
    assert state.score(0.9).interval["told"].confidence == 0.9
    assert (state + metric.state(["3"], ["t"])).examples[2] == Example("3", ("t",))
    with pytest.raises(TypeError):
        state + 1
    assert metric.compute(["1", "2"], ["r", "s"], confidence=0.9).interval["told"].confidence == 0.9
    assert metric.reward(["1", "5"], ["r", "s"], sources=["x", "y"], unused=[1, 2]) == [1.0, 5.0]
    with pytest.raises(InputError, match="rows but sources has"):
        metric.reward(["1", "5"], ["r", "s"], sources=["x"])
    assert repr(metric) == "Told('told', preset='light')"


def test_what_is_shared_cannot_be_changed():
    """Examples and signatures are what metrics remember things by."""
    for shared, name in ((Example("a", ("b",)), "source"), (Signature("m"), "fields")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, name, None)


def test_a_score_prints_and_compares_what_it_says_not_how_it_would_explain():
    one = Score("told", {"told": [1.0]}, Signature("told"), explainer=lambda i: None)
    other = Score("told", {"told": [1.0]}, Signature("told"))
    assert one == other and repr(one) == repr(other) == "Score(told: told 1.0000; 1 example)"


def test_scores_of_a_test_set_print_in_one_line():
    texts = ["a cat sat", "the dog"] * 1000
    score = summarily.score(texts, ["the cat sat", "a dog"] * 1000, metrics="rouge")["rouge"]
    # Two of three words and one of two, in texts of the same length.
    assert repr(score) == "Score(rouge: rouge1 0.5833; 2,000 examples)"
    result = summarily.compare({"A": texts[:12], "B": ["x"] * 12}, texts[:12], metrics="rouge")
    assert repr(result) == "Comparison(rouge: A > B)"
