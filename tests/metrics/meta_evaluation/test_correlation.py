"""Levels and coefficients, and Williams' test."""

import math

import numpy as np
import pytest

from summarily.metrics.meta_evaluation.correlation import (
    Layout,
    coefficient,
    correlate,
    partial,
    weighted_coefficients,
)
from summarily.metrics.meta_evaluation.significance import williams

X = [[1, 9, 2], [4, 5, 2], [6, 7, 2]]
Y = [[11, 12, 13], [14, 15, 16], [17, 18, 19]]
SCORES, HUMAN = [x for row in X for x in row], [y for row in Y for y in row]
SYSTEMS = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
INPUTS = ["1", "2", "3"] * 3


@pytest.mark.parametrize(
    ("level", "expected", "n", "undefined"),
    # From the nlpstats project's tests; rows are systems, and the third input is constant.
    [("system", 0.7205766921, 3, 0), ("input", 0.2466996339, 2, 1), ("pooled", 0.06691496051, 9, 0)],
)
def test_levels_equal_the_golden_values(level, expected, n, undefined):
    result = correlate(SCORES, HUMAN, level, "pearson", INPUTS, SYSTEMS)
    assert result.value == pytest.approx(expected, abs=1e-9)
    assert (result.n, result.undefined) == (n, undefined)


def test_constants_are_undefined_and_counted_not_zero():
    result = correlate([1, 1, 1], [1, 2, 3])
    assert math.isnan(result.value) and result.undefined == 1
    result = correlate([1, 1, 2, 2], [1, 2, 3, 4], "input", inputs=["a", "a", "b", "b"])
    assert math.isnan(result.value) and (result.n, result.undefined) == (0, 2)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="3 scores but 2"):
        correlate([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="pass inputs="):
        correlate([1, 2], [1, 2], "input")
    with pytest.raises(ValueError, match="no level 'summary'"):
        correlate([1, 2], [1, 2], "summary")
    with pytest.raises(ValueError, match="no coefficient 'rho'"):
        coefficient("rho", [1, 2], [1, 2])


def test_williams_equals_a_computation_by_determinant():
    # Steiger (1980), Eq. 7, with the determinant of the 3x3 correlation matrix computed by numpy.
    from scipy import stats

    generator = np.random.default_rng(0)
    for _ in range(20):
        n = int(generator.integers(10, 400))
        human = generator.normal(size=n)
        a, b = (human * generator.random() + generator.normal(size=n) for _ in range(2))
        matrix = np.corrcoef([human, a, b])
        r12, r13, r23 = matrix[0, 1], matrix[0, 2], matrix[1, 2]
        scale = 2 * (n - 1) / (n - 3) * np.linalg.det(matrix) + ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3
        t = (r12 - r13) * np.sqrt((n - 1) * (1 + r23) / scale)
        assert williams(r12, r13, r23, n) == pytest.approx(1 - stats.t.cdf(t, n - 3))
        assert williams(r13, r12, r23, n, "two-sided") == pytest.approx(2 * (1 - stats.t.cdf(abs(t), n - 3)))


def test_williams_keeps_the_sign_of_a_negative_correlation():
    assert williams(0.1, -0.6, 0.0, 100) < 0.001, "a metric at -0.6 is worse than one at 0.1"


def test_williams_is_calibrated_on_equal_metrics():
    generator = np.random.default_rng(1)
    rejected = 0
    for _ in range(1500):
        human = generator.normal(size=60)
        a, b = human + generator.normal(size=60), human + generator.normal(size=60)
        matrix = np.corrcoef([human, a, b])
        rejected += williams(matrix[0, 1], matrix[0, 2], matrix[1, 2], 60, "two-sided") < 0.05
    assert 0.035 <= rejected / 1500 <= 0.065


def test_a_partial_correlation_is_that_of_the_residuals():
    x, y, z = np.random.default_rng(3).normal(size=(3, 40)) + np.random.default_rng(4).normal(size=40)
    rest = [values - np.polyval(np.polyfit(z, values, 1), z) for values in (x, y)]
    correlations = [coefficient("pearson", *pair) for pair in ((x, y), (x, z), (y, z))]
    assert partial(*correlations) == pytest.approx(coefficient("pearson", *rest), abs=1e-12)
    several = partial([0.5, 0.24, 0.5, 0.5], [0.6, 0.6, 1.0, 0.6], [0.4, 0.4, 0.4, -1.0])
    assert several[:2] == pytest.approx([0.26 / math.sqrt(0.64 * 0.84), 0.0]) and np.isnan(several[2:]).all()


@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e9])
def test_constant_or_not_does_not_depend_on_the_scale(scale):
    """0.1 taken once, twice and three times has a mean that is not 0.1 in floating point: that is no variation."""
    weights = np.array([[[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]])
    constant, rising = scale * np.array([[0.1, 0.1, 0.1]]), scale * np.array([[1.0, 2.0, 4.0]])
    for pair in ((constant, rising), (rising, constant)):
        assert np.isnan(weighted_coefficients("pearson", *pair, weights)).all()
    other = np.array([[1.0, 3.0, 2.0]])
    drawn = [np.repeat(values[0], [1, 2, 3]) for values in (rising, other)]
    expected = [coefficient("pearson", *drawn), coefficient("pearson", rising[0], other[0])]
    assert weighted_coefficients("pearson", rising, other, weights)[0] == pytest.approx(expected, rel=1e-9)
    assert weighted_coefficients("pearson", other, rising, weights)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall"])
def test_a_weight_counts_a_point_as_often_alone_and_among_groups(name):
    """One group takes another way to its ranks than several; a weight of 0 leaves a point out."""
    x, y = np.array([[1.0, 2.0, 2.0, 5.0, 4.0]]), np.array([[3.0, 1.0, 4.0, 4.0, 9.0]])
    counts = np.array([[2, 1, 0, 3, 1], [1, 1, 1, 1, 1], [0, 2, 2, 0, 1]])
    expected = [coefficient(name, np.repeat(x[0], count), np.repeat(y[0], count)) for count in counts]
    alone = weighted_coefficients(name, x, y, counts[None].astype(float))
    assert alone[0] == pytest.approx(expected, rel=1e-9)
    both = weighted_coefficients(
        name, np.vstack([x, y]), np.vstack([y, x]), np.stack([counts, counts]).astype(float)
    )
    assert both[0] == pytest.approx(expected, rel=1e-9) and both[1] == pytest.approx(expected, rel=1e-9)


def test_a_layout_numbers_inputs_and_systems_as_they_come():
    layout = Layout(["b", "a", "b", "b"], ["x", "y", "y", "z"])
    assert (layout.n_inputs, layout.n_systems) == (2, 3)
    assert layout.inputs.tolist() == [0, 1, 0, 0] and layout.systems.tolist() == [0, 1, 1, 2]
    assert layout.grid.tolist() == [[0, 2, 3], [1, 0, 0]]
    assert layout.present.tolist() == [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    assert layout.of_system().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]


def test_two_points_are_enough_and_one_is_not():
    assert coefficient("pearson", [1, 2], [5, 3]) == pytest.approx(-1.0)
    assert math.isnan(coefficient("pearson", [1], [5]))
