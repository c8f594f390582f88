"""Intervals and paired tests."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from summarily.metrics.resampling import holm, mean_intervals, paired_test


def test_interval_is_deterministic_and_leaves_the_global_generator_alone():
    values = {"a": np.random.default_rng(0).random(50)}
    np.random.seed(3)  # noqa: NPY002 - the global generator is what is tested
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert mean_intervals(values) == mean_intervals(values)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_interval_of_symmetric_scores_is_close_to_students():
    values = np.random.default_rng(1).normal(0.5, 0.1, 200)
    low, high = mean_intervals({"a": values}, 0.95)["a"]
    expected = stats.t.interval(0.95, 199, values.mean(), stats.sem(values))
    assert (low, high) == pytest.approx(expected, abs=0.002)


def test_few_examples_use_students_interval_exactly():
    values = [0.1, 0.4, 0.5, 0.9]
    expected = stats.t.interval(0.9, 3, np.mean(values), stats.sem(values))
    assert mean_intervals({"a": values}, 0.9)["a"] == pytest.approx(expected)


def test_interval_of_constant_scores_is_a_point():
    assert mean_intervals({"a": [0.5] * 30, "b": [0.5] * 3 + [0.6] * 27})["a"] == (0.5, 0.5)


def test_weighted_interval_is_that_of_the_pooled_score():
    # Each example stands for `weight` questions; the pooled mean is a ratio of sums, checked by brute force.
    generator = np.random.default_rng(2)
    weights = generator.integers(1, 9, 150)
    values = generator.binomial(weights, 0.3) / weights
    low, high = mean_intervals({"a": values}, 0.95, weights)["a"]
    pooled = []
    for _ in range(4000):
        rows = generator.integers(0, 150, 150)
        pooled.append((values * weights)[rows].sum() / weights[rows].sum())
    assert (low, high) == pytest.approx(np.quantile(pooled, [0.025, 0.975]), abs=0.01)
    unweighted = mean_intervals({"a": values}, 0.95)["a"]
    assert unweighted != (low, high)


def test_rows_of_weight_zero_do_not_count():
    values, weights = [0.2, 0.4, 0.6, 0.8] * 10, [1, 1, 1, 1] * 10
    without = mean_intervals({"a": values}, 0.95, weights)["a"]
    with_rows = mean_intervals({"a": values + [0.0] * 4}, 0.95, weights + [0] * 4)["a"]
    assert with_rows == pytest.approx(without, abs=0.02)
    assert mean_intervals({"a": [0.0] * 20}, 0.95, [0] * 20)["a"] == (0.0, 0.0)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1])
def test_a_confidence_outside_zero_and_one_is_refused(confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_intervals({"a": [1, 2, 3]}, confidence)


def test_one_example_has_no_interval():
    with pytest.raises(ValueError, match="at least 2 examples"):
        mean_intervals({"a": [1]})


def test_permutation_p_value_equals_the_exact_one():
    generator = np.random.default_rng(4)
    a, b = generator.random(9), generator.random(9) - 0.15
    difference = a - b
    observed = abs(difference.mean())
    flips = [abs((np.array(signs) * difference).mean()) for signs in itertools.product((1, -1), repeat=9)]
    exact = np.mean([flip >= observed - 1e-12 for flip in flips])
    assert paired_test(a, b, resamples=40_000).p_permutation == pytest.approx(exact, abs=0.01)


def test_bootstrap_p_value_is_close_to_the_t_test_for_many_examples():
    generator = np.random.default_rng(5)
    a = generator.normal(0.5, 0.1, 400)
    b = a + generator.normal(0.008, 0.1, 400)
    test = paired_test(a, b)
    expected = stats.ttest_rel(a, b).pvalue
    assert 0.01 < expected < 0.5
    assert test.p_bootstrap == pytest.approx(expected, abs=0.02)
    assert test.p_permutation == pytest.approx(expected, abs=0.02)
    assert test.low < test.difference < test.high


def test_equal_systems_are_not_different():
    test = paired_test([0.3, 0.6, 0.2] * 4, [0.3, 0.6, 0.2] * 4)
    assert (test.difference, test.p_bootstrap, test.p_permutation) == (0, 1, 1)


def test_holm_equals_the_textbook_example():
    # Sorted .01 .02 .03 .04 times 4 3 2 1 gives .04 .06 .06 .04, made monotone: .04 .06 .06 .06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


SKEWED = {
    "exponential": (lambda generator: generator.exponential(1, 100), 1.0),
    "beta(0.5, 4)": (lambda generator: generator.beta(0.5, 4, 100), 0.5 / 4.5),
    "half of the scores zero": (
        lambda generator: generator.beta(2, 5, 100) * (generator.random(100) < 0.5),
        1 / 7,
    ),
    "log-normal": (lambda generator: generator.lognormal(0, 1, 100), math.exp(0.5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SKEWED)
def test_intervals_of_skewed_scores_cover(shape):
    """The 95% interval of n = 100 skewed scores holds the truth 93 to 97% of the time."""
    draw, truth = SKEWED[shape]
    generator = np.random.default_rng(11)
    simulations = 4000
    held = 0
    for _ in range(simulations):
        low, high = mean_intervals({"a": draw(generator)}, 0.95, resamples=1000)["a"]
        held += low <= truth <= high
    print(f"{shape}: {held / simulations:.3f}")
    assert 0.93 <= held / simulations <= 0.97
