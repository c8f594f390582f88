"""Intervals and paired tests."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from summarily.metrics import resampling
from summarily.metrics.resampling import holm, mean_intervals, paired_test, too_few


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


def by_hand(values, confidence, weights=None, resamples=2000):
    """The studentised bootstrap one resample at a time, with the numbers that the generator gives."""
    values, n = np.asarray(values, float), len(values)
    weights = np.ones(n) if weights is None else np.asarray(weights, float)

    def mean_and_error(x, w):
        mean = math.fsum(w * x) / math.fsum(w)
        return mean, math.sqrt(math.fsum(w**2 * (x - mean) ** 2)) / math.fsum(w)

    mean, error = mean_and_error(values, weights)
    ratios = []
    for rows in np.random.default_rng(0).integers(0, n, size=(resamples, n)):
        if not weights[rows].any():
            ratios.append(0.0)
            continue
        own_mean, own_error = mean_and_error(values[rows], weights[rows])
        ratios.append((own_mean - mean) / max(own_error, 0.05 * error))
    high, low = np.quantile(ratios, [0.5 + confidence / 2, 0.5 - confidence / 2])
    return mean - high * error, mean - low * error


@pytest.mark.parametrize(
    "values, weights",
    [
        ([0.5] * 11 + [0.9], None),  # a third of the resamples have no error of their own
        ([0.1, 0.4, 0.35, 0.8, 0.05, 0.6, 0.2, 0.9, 0.3, 0.45], None),
        ([0.0, 1.0, 0.5, 0.25, 0.75, 1.0, 0.0, 0.5, 0.2, 0.4, 0.6], [1, 4, 2, 8, 3, 1, 1, 2, 5, 5, 0]),
        ([0.2] * 10 + [0.4, 0.9], [0] * 10 + [1, 1]),  # some resamples have no weight at all
    ],
)
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_interval_equals_the_bootstrap_by_hand(values, weights, confidence):
    found = mean_intervals({"a": values}, confidence, weights)["a"]
    assert found == pytest.approx(by_hand(values, confidence, weights), rel=1e-9)


def test_columns_share_their_resamples_and_do_not_mix():
    columns = {"a": [0.1, 0.4, 0.35, 0.8, 0.05, 0.6, 0.2, 0.9, 0.3, 0.45], "b": [0.5] * 9 + [0.7]}
    together = mean_intervals(columns, 0.9)
    assert list(together) == ["a", "b"]
    for name, values in columns.items():
        assert together[name] == pytest.approx(mean_intervals({name: values}, 0.9)[name], rel=1e-9)
        assert together[name] == pytest.approx(by_hand(values, 0.9), rel=1e-9)


@pytest.mark.parametrize("weights", [None, [1, 4, 2, 8, 3, 1, 1, 2, 5, 5, 0]])
def test_paired_test_equals_the_one_by_hand(weights):
    a = np.array([0.9, 0.4, 0.5, 0.8, 0.3, 0.6, 0.2, 0.9, 0.3, 0.4, 0.6])
    b = np.array([0.7, 0.5, 0.4, 0.6, 0.3, 0.7, 0.1, 0.6, 0.3, 0.2, 0.9])
    w, n, resamples = np.ones(11) if weights is None else np.array(weights, float), 11, 300
    observed = math.fsum(w * (a - b)) / w.sum()
    generator = np.random.default_rng(0)
    draws = generator.integers(0, n, size=(resamples, n))
    signs = generator.integers(0, 2, size=(resamples, n)) * 2.0 - 1.0
    centred = [math.fsum((w * (a - b))[rows]) / w[rows].sum() - observed for rows in draws]
    swapped = [math.fsum(w * (a - b) * row) / w.sum() for row in signs]
    found = paired_test(a, b, 0.9, weights, resamples)
    assert found.difference == pytest.approx(observed, rel=1e-12)
    assert found.p_bootstrap == (1 + sum(abs(x) >= abs(observed) - 1e-12 for x in centred)) / 301
    assert found.p_permutation == (1 + sum(abs(x) >= abs(observed) - 1e-12 for x in swapped)) / 301
    assert (found.low, found.high) == pytest.approx(by_hand(a - b, 0.9, weights), rel=1e-9)


def test_blocks_of_resamples_change_nothing(monkeypatch):
    values = {"a": [0.1, 0.4, 0.35, 0.8, 0.05, 0.6, 0.2, 0.9, 0.3, 0.45]}
    whole = mean_intervals(values)
    monkeypatch.setattr(resampling, "_CELLS_AT_ONCE", 70)  # seven resamples at once, and five at the end
    assert mean_intervals(values)["a"] == pytest.approx(whole["a"], rel=1e-9)


def test_ten_examples_are_enough_for_the_bootstrap():
    values = [0.1, 0.4, 0.35, 0.8, 0.05, 0.6, 0.2, 0.9, 0.3]
    expected = stats.t.interval(0.95, 8, np.mean(values), stats.sem(values))
    assert mean_intervals({"a": values})["a"] == pytest.approx(expected)
    assert mean_intervals({"a": [*values, 0.45]})["a"] == pytest.approx(by_hand([*values, 0.45], 0.95))


def test_nothing_to_weigh_is_no_difference():
    assert paired_test([0.1, 0.9], [0.5, 0.2], weights=[0, 0]) == (0.0, 0.0, 0.0, 1.0, 1.0)


def test_few_examples_have_no_bootstrap_and_say_why():
    assert paired_test([0.1, 0.9], [0.2, 0.3]).p_bootstrap is None
    assert paired_test([0.1] * 10, [0.2] * 10).p_bootstrap is not None
    assert "Only 2 examples" in too_few(2) and too_few(10) is None
    assert too_few(3, paired=True).endswith(
        "there is no bootstrap p-value, and the permutation test cannot go below p = 0.25: the signs of 3 differences "
        "have only 8 arrangements. Compare at least 10."
    )
