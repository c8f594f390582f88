"""No score depends on the order, batch size, duplicates, padding, processes, or on how it was collected."""

from __future__ import annotations

import json
import pickle
import random

import evaluate
import pytest

from summarily.cli import main
from summarily.metrics import METRICS, engine
from summarily.metrics.base import Score
from summarily.support import weights
from summarily.support.errors import InputError
from tests.launching import launch
from tests.metrics.suite import CASES, corpus, forget, make, options_of, tolerance

every_metric = pytest.mark.parametrize("name", CASES)


def close(name: str, a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and all(abs(x - y) <= tolerance(name) for x, y in zip(a, b, strict=True))


def same(name: str, a: Score, b: Score) -> None:
    assert a.per_example.keys() == b.per_example.keys()
    for key in a.per_example:
        assert close(name, a.per_example[key], b.per_example[key]), key
    assert str(a.signature) == str(b.signature)


def fresh(name, *inputs) -> Score:
    forget()
    return make(name).compute(*inputs)


def test_every_metric_is_held_to_the_suites():
    assert set(CASES) == set(METRICS)


@every_metric
def test_score_does_not_depend_on_order(name):
    predictions, references, sources = corpus()
    order = list(range(len(predictions)))
    random.Random(5).shuffle(order)
    straight = fresh(name, predictions, references, sources)
    shuffled = fresh(name, *([column[i] for i in order] for column in (predictions, references, sources)))
    for key, values in straight.per_example.items():
        assert close(name, [values[i] for i in order], shuffled.per_example[key]), key
    assert len(set(straight.per_example[straight.main])) > 3, "a constant score would pass every test here"


@every_metric
@pytest.mark.parametrize("size", [1, 3])
def test_score_does_not_depend_on_batch_size_or_padding(name, size, monkeypatch):
    whole = fresh(name, *corpus())
    monkeypatch.setattr(engine, "CHUNK_EXAMPLES", size)
    same(name, whole, fresh(name, *corpus()))


@every_metric
def test_duplicates_score_alike(name):
    predictions, references, sources = corpus()
    forget()
    score = make(name).compute(predictions * 2, references * 2, sources * 2)
    n = len(predictions)
    for values in score.per_example.values():
        assert close(name, values[:n], values[n:])


@every_metric
def test_states_merge(name):
    columns = corpus()
    metric = make(name)
    parts = [
        metric.state(*(column[cut] for column in columns))
        for cut in (slice(0, 5), slice(5, 6), slice(6, None))
    ]
    same(name, metric.compute(*columns), (parts[0] + parts[1] + parts[2]).score())


@every_metric
def test_scores_add_up_when_nothing_is_counted_over_the_corpus(name):
    columns = corpus()
    metric = make(name)
    first, rest = (
        metric.compute(*(column[cut] for column in columns)) for cut in (slice(0, 5), slice(5, None))
    )
    if first.signature != rest.signature:
        with pytest.raises(ValueError, match="different signatures"):
            first + rest
    else:
        same(name, metric.compute(*columns), first + rest)


@every_metric
def test_evaluate_module_gives_the_same_by_compute_add_batch_and_add(name):
    predictions, references, sources = corpus()
    options = options_of(name)
    expected = make(name).compute(predictions, references, sources)
    module = evaluate.load(f"summarily/{name}")
    by_compute = module.compute(predictions=predictions, references=references, sources=sources, **options)
    module.add_batch(predictions=predictions[:7], references=references[:7], sources=sources[:7])
    module.add_batch(predictions=predictions[7:], references=references[7:], sources=sources[7:])
    by_batch = module.compute(**options)
    for prediction, reference, source in zip(predictions, references, sources, strict=True):
        module.add(prediction=prediction, reference=reference, source=source)
    by_add = module.compute(**options)
    for result in (by_compute, by_batch, by_add):
        assert result["signature"] == str(expected.signature)
        for key, mean in expected.mean.items():
            assert abs(result[key] - mean) <= tolerance(name)
            assert close(name, result[f"{key}_per_example"], expected.per_example[key])


@every_metric
def test_reward_is_the_main_score_or_the_one_named_for_it_and_travels_to_other_processes(name):
    from summarily.metrics.hooks import reward

    predictions, references, sources = corpus()
    score = make(name).compute(predictions, references, sources)
    function = pickle.loads(pickle.dumps(reward(name, **options_of(name))))
    values = function(predictions, references=references, sources=sources, unused_column=[1])
    assert all(type(value) is float for value in values)
    assert close(name, values, score.per_example[make(name).reward_key or score.main])


@every_metric
def test_every_score_has_an_explanation_that_is_json(name):
    score = make(name).compute(*corpus())
    for row in range(len(score)):
        explanation = score.explain(row)
        told = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
        assert told["metric"] == name and told["references"] == corpus()[1][row]
        assert close(
            name, [told[key] for key in score.per_example], [v[row] for v in score.per_example.values()]
        )


@every_metric
@pytest.mark.parametrize(
    ("prediction", "references"), [(3, ["a"]), ("a", []), ("a", [None]), ("a\ud800", ["a"]), ("a", 3)]
)
def test_explain_checks_its_inputs_as_scoring_does(name, prediction, references):
    metric = make(name)
    with pytest.raises(InputError) as scoring:
        metric.compute([prediction], [references])
    with pytest.raises(InputError) as explaining:
        metric.explain(prediction, references)
    assert str(explaining.value) == str(scoring.value)


@every_metric
def test_an_empty_text_scores_what_the_metric_names(name):
    """One rule: 0, unless a model scores whatever it is given, and the metric says so."""
    metric = make(name)
    score = metric.compute(["", "Snow fell.", ""], ["Snow fell in Oslo.", "", ""])
    assert score.counts["empty_predictions"] == score.counts["empty_references"] == 2
    if metric.empty_score is None:
        assert name == "bleurt" and all(score.per_example[score.main])
    else:
        assert score.per_example[score.main] == [metric.empty_score] * 3 == [0.0] * 3


def test_two_processes_print_the_numbers_of_one(tmp_path):
    predictions, references, sources = corpus()
    table = tmp_path / "table.jsonl"
    with table.open("w") as file:
        for prediction, reference, source in zip(predictions, references, sources, strict=True):
            file.write(
                json.dumps({"prediction": prediction, "references": reference, "source": source}) + "\n"
            )
    arguments = ["score", str(table), "--metrics", ",".join(CASES)]
    for name in CASES:
        for option, value in options_of(name).items():
            arguments += ["--set", f"{name}.{option}={value}"]
    alone, together = tmp_path / "alone.json", tmp_path / "together.json"
    assert main([*arguments, "--json", str(alone)]) == 0
    printed = launch([*arguments, "--json", str(together)])
    assert printed.count("signatures") == 1, "the table is printed once"
    assert "processes" not in json.loads(alone.read_text())["scores"]["rouge"]["cost"]
    assert json.loads(together.read_text())["scores"]["rouge"]["cost"]["processes"] == 2
    one, two = (json.loads(path.read_text())["scores"] for path in (alone, together))
    for name in CASES:
        assert one[name]["signature"] == two[name]["signature"]
        assert one[name]["counts"] == two[name]["counts"]
        for key, values in one[name]["per_example"].items():
            assert close(name, values, two[name]["per_example"][key]), (name, key)


@pytest.mark.parametrize("name", sorted({*CASES} - {"rouge"}))
def test_weights_are_resolved_once_in_the_life_of_a_metric(name, monkeypatch):
    metric = make(name)
    metric.compute(["a cat sat"], ["the cat sat"])
    monkeypatch.setattr(weights, "resolve", lambda *_, **__: pytest.fail("resolved again"))
    predictions, references, _ = corpus()
    assert len(metric.compute(predictions[:2], references[:2])) == 2
    assert metric.explain(predictions[0], references[0]) and metric.signature()
