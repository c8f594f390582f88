"""Bad input is an error that names the row and the fix; odd but legal text is scored."""

from __future__ import annotations

import math

import evaluate
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.metrics.suite import CASES, make, options_of, tolerance

every_metric = pytest.mark.parametrize("name", CASES)

BAD = {
    "None as a row": (["a", None], ["a", "b"], TypeError, r"predictions\[1\] is None"),
    "None as a reference": (["a", "b"], ["a", None], TypeError, r"references\[1\] is None"),
    "None inside references": (["a"], [["a", None]], TypeError, r"references\[0\]\[1\] is None"),
    "bytes": ([b"a"], ["a"], TypeError, r"predictions\[0\] is bytes; decode it first"),
    "an int": (["a", 3], ["a", "b"], TypeError, r"predictions\[1\] is a int \(3\); expected a str"),
    "a float for a missing cell": (["a"], [float("nan")], TypeError, r"references\[0\] is a float"),
    "a bare string": ("a", ["a"], TypeError, r"predictions is a str; did you mean \[predictions\]\?"),
    "a bare reference": (["a"], "a", TypeError, r"references is a str; did you mean \[references\]\?"),
    "a dict": ({"a": 1}, ["a"], TypeError, r"predictions is a dict; expected a list"),
    "unequal lengths": (["a", "b"], ["a"], ValueError, r"predictions has 2 rows but references has 1"),
    "transposed references": (["a", "b"], [["a", "b"]], ValueError, r"looks transposed"),
    "nothing": ([], [], ValueError, r"predictions is empty"),
    "no reference in a row": (["a", "b"], ["a", []], ValueError, r"references\[1\] is an empty list"),
    "a lone surrogate": (
        ["a \ud800 b"],
        ["a"],
        ValueError,
        r"predictions\[0\] has a lone surrogate .* at character 2",
    ),
}

ODD = {
    "an empty prediction": ("", "Snow fell in Oslo."),
    "an empty reference": ("Snow fell in Oslo.", ""),
    "both empty": ("", ""),
    "white space": (" \n\t", "Snow fell."),
    "only stop words": ("of the and to", "it was on the"),
    "only punctuation": ("... !?", "--- ;;"),
    "a NUL": ("Snow\x00 fell\x00", "Snow fell."),
    "emoji": ("Snow ⛄ fell 🎿🏔️👩‍👩‍👧‍👦.", "⛄ Snow fell."),
    "right to left": ("سقط الثلج في أوسلو", "שלג ירד באוסלו"),
    "no spaces": ("雪が降った。オスロで。", "雪が降った。"),
    "combining characters": ("Ve\u0301lo i\u0307", "V\u00e9lo \u0130"),
    "one character": ("a", "b"),
    "numbers": ("1234 5678", "1234 90"),
}


@every_metric
@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_row_and_the_fix(name, case):
    predictions, references, kind, message = BAD[case]
    with pytest.raises(kind, match=message) as caught:
        make(name).compute(predictions, references)
    assert isinstance(caught.value, ValueError), "so that one except clause is enough"


@pytest.mark.parametrize("case", BAD)
def test_the_evaluate_module_answers_bad_input_with_the_same_message(case):
    predictions, references, kind, message = BAD[case]
    module = evaluate.load("summarily/rouge")
    with pytest.raises(kind, match=message):
        module.compute(predictions=predictions, references=references)
    # and is not left in a broken state
    assert module.compute(predictions=["a"], references=["a"])["rouge1"] == 1.0


def test_the_evaluate_module_with_nothing_to_score_says_so():
    with pytest.raises(ValueError, match="nothing to score"):
        evaluate.load("summarily/rouge").compute()


@every_metric
def test_an_unknown_option_is_refused_by_name(name):
    with pytest.raises(ValueError, match="no_such_option"):
        make(name).__class__  # noqa: B018 - the metric itself must be constructible
        from summarily.metrics import load

        load(name, **{**options_of(name), "no_such_option": 1})


@every_metric
def test_an_unknown_preset_is_refused(name):
    from summarily.metrics import load

    with pytest.raises(ValueError, match="preset"):
        load(name, **{**options_of(name), "preset": "heavy"})


@every_metric
def test_odd_text_is_scored_with_finite_plain_floats(name):
    metric = make(name)
    score = metric.compute([pair[0] for pair in ODD.values()], [pair[1] for pair in ODD.values()])
    for key, values in score.per_example.items():
        for case, value in zip(ODD, values, strict=True):
            assert type(value) is float and math.isfinite(value), (key, case)
    assert score.counts.get("empty_predictions", 0) >= 2
    assert score.counts.get("empty_references", 0) >= 2


def scores_a_text_of(size: int, name: str) -> None:
    sentence = "Snow fell in Oslo on Monday, and trains stood still for hours. "
    long_text = sentence * (size // len(sentence) + 1)
    score = make(name).compute([long_text, "Snow fell."], ["Snow fell in Oslo.", "Snow fell in Oslo."])
    assert all(math.isfinite(value) for value in score.per_example[score.main])


@every_metric
def test_a_text_of_megabytes_is_scored(name):
    # APES looks for entities, half a minute for a million characters, in pieces of 20,000 (see test_recognition).
    scores_a_text_of(100_000 if name == "apes" else 5_000_000, name)


@pytest.mark.slow
def test_apes_scores_a_text_of_five_megabytes():
    scores_a_text_of(5_000_000, "apes")


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@every_metric
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_any_text_scores_finite_and_alone_as_in_company(name, rows):
    metric = make(name)
    together = metric.compute([row[0] for row in rows], [row[1] for row in rows])
    for values in together.per_example.values():
        assert all(math.isfinite(value) for value in values)
    if metric.statistics(metric.state([rows[0][0]], [rows[0][1]]).examples) is None:
        alone = metric.compute([rows[0][0]], [rows[0][1]])
        for key in alone.per_example:
            assert abs(alone.per_example[key][0] - together.per_example[key][0]) <= tolerance(name)
