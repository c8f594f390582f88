"""Permutation tests and bootstrap intervals of correlations."""

import itertools
import math

import numpy as np
import pytest

from summarily.metrics.meta_evaluation import significance
from summarily.metrics.meta_evaluation.correlation import COEFFICIENTS, LEVELS, coefficient, correlate
from summarily.metrics.meta_evaluation.significance import (
    bootstrap,
    interval,
    permutation_test,
    resampling_for,
    williams,
)
from summarily.metrics.resampling import holm
from tests.benchmarks.meta_permutation import flat, simulated


def plain_differences(x, y, human, inputs, systems, level, name, generator, resamples):
    """The definition, as nlpstats has it: swap, correlate both with scipy, subtract."""
    x, y = (np.asarray(v) for v in (x, y))
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    system_names, input_names = list(dict.fromkeys(systems)), list(dict.fromkeys(inputs))
    found = []
    for _ in range(resamples):
        of_system = dict(zip(system_names, generator.random(len(system_names)) > 0.5, strict=True))
        of_input = dict(zip(input_names, generator.random(len(input_names)) > 0.5, strict=True))
        swapped = np.array([of_system[s] ^ of_input[i] for s, i in zip(systems, inputs, strict=True)])
        first, second = np.where(swapped, y, x), np.where(swapped, x, y)
        found.append(
            correlate(first, human, level, name, inputs, systems).value
            - correlate(second, human, level, name, inputs, systems).value
        )
    return np.array(found)


def some_data(ties=False, ragged=False):
    columns, inputs, systems = flat(simulated(ties, systems=6, inputs=12))
    if ragged:  # people did not judge every summary, and one article has a single one
        keep = [
            row for row in range(len(inputs)) if row % 7 and not (inputs[row] == "3" and systems[row] != "2")
        ]
        columns = [column[keep] for column in columns]
        inputs, systems = [inputs[row] for row in keep], [systems[row] for row in keep]
    return columns, inputs, systems


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize(("ties", "ragged"), [(False, False), (True, False), (True, True), (False, True)])
def test_swapped_differences_are_those_of_the_definition(level, name, ties, ragged):
    columns, inputs, systems = some_data(ties, ragged)
    expected = plain_differences(*columns, inputs, systems, level, name, np.random.default_rng(5), 15)
    result = permutation_test(
        *columns, inputs, systems, level, name, resamples=15, generator=np.random.default_rng(5)
    )
    assert np.allclose(result.samples, expected, atol=1e-10)


@pytest.mark.parametrize("swap", ["inputs", "systems", "both"])
@pytest.mark.parametrize("ties", [False, True])
def test_p_values_are_those_of_nlpstats(swap, ties):
    nlpstats = pytest.importorskip("nlpstats.correlations")
    matrices = simulated(ties, systems=6, inputs=15)
    columns, inputs, systems = flat(matrices)
    np.random.seed(1)  # noqa: NPY002 (the generator that nlpstats draws from)
    theirs = nlpstats.permutation_test(*matrices, "input", "kendall", swap, n_resamples=60)
    ours = permutation_test(
        *columns, inputs, systems, swap=swap, resamples=60, generator=np.random.RandomState(1)
    )
    assert np.allclose(ours.samples, theirs.samples, atol=1e-12)
    # nlpstats leaves the observed arrangement out, and exact ties to rounding.
    exact_ties = np.isclose(np.abs(ours.samples), abs(ours.difference), atol=1e-12).mean()
    assert abs(ours.as_extreme / ours.resamples - theirs.pvalue) <= exact_ties + 1e-12
    assert ours.p == (ours.as_extreme + 1) / 61


def false_positives(level, name, alternative, simulations, seed):
    """How often two equally good metrics are told apart at 5%."""
    generator = np.random.default_rng(seed)
    systems, inputs = 6, 10
    input_names, system_names = ([str(k) for k in range(n)] for n in (inputs, systems))
    rows = [(s, i) for s in system_names for i in input_names]
    rejected = 0
    for _ in range(simulations):
        human = generator.normal(size=len(rows))
        first, second = (human + generator.normal(size=len(rows)) for _ in range(2))
        result = permutation_test(
            first, second, human, [i for _, i in rows], [s for s, _ in rows], level, name,
            alternative=alternative, resamples=99, generator=generator,
        )  # fmt: skip
        rejected += result.p <= 0.05
    return rejected / simulations


@pytest.mark.parametrize(
    ("level", "name", "alternative"),
    [
        ("input", "kendall", "two-sided"),
        ("input", "kendall", "greater"),
        ("system", "pearson", "two-sided"),
        ("pooled", "pearson", "two-sided"),
    ],
)
def test_permutation_tests_are_calibrated(level, name, alternative):
    rate = false_positives(level, name, alternative, simulations=2500, seed=2)
    assert 0.04 <= rate <= 0.06, f"{rate:.3f} of equal metrics were told apart at 5%"


def test_a_better_metric_is_found_better():
    columns, inputs, systems = flat(simulated(False))
    human = columns[2]
    noise = np.random.default_rng(0).normal(size=len(human))
    result = permutation_test(
        human + 0.5 * noise, noise, human, inputs, systems, alternative="greater", resamples=500
    )
    assert result.p == 1 / 501
    worse = permutation_test(
        noise, human + 0.5 * noise, human, inputs, systems, alternative="greater", resamples=500
    )
    assert worse.p > 0.99


def test_a_constant_metric_has_no_p_value():
    (_, second, human), inputs, systems = some_data()
    result = permutation_test([0.5] * len(human), second, human, inputs, systems, resamples=50)
    assert math.isnan(result.difference) and math.isnan(result.p)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"swap": "articles"}, "swap is"),
        ({"alternative": "less"}, "alternative is"),
        ({"level": "global"}, "no level"),
    ],
)
def test_mistakes_are_named(options, message):
    columns, inputs, systems = some_data()
    with pytest.raises(ValueError, match=message):
        permutation_test(*columns, inputs, systems, **options)


# --- intervals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resample", ["inputs", "systems", "both"])
@pytest.mark.parametrize(("level", "name"), itertools.product(LEVELS, COEFFICIENTS))
@pytest.mark.parametrize("ragged", [False, True])
def test_weights_are_the_same_as_drawing_rows_again(level, name, resample, ragged):
    (x, _, human), inputs, systems = some_data(ties=True, ragged=ragged)
    found = bootstrap([x], human, inputs, systems, level, name, resample, resamples=6, seed=4)[0]
    # The same draws, made into rows: a system drawn twice is two systems with the same scores.
    generator = np.random.default_rng(4)
    input_names, system_names = list(dict.fromkeys(inputs)), list(dict.fromkeys(systems))
    n, m = len(input_names), len(system_names)
    of_inputs = (
        generator.multinomial(n, [1 / n] * n, size=6) if resample != "systems" else np.ones((6, n), int)
    )
    of_systems = (
        generator.multinomial(m, [1 / m] * m, size=6) if resample != "inputs" else np.ones((6, m), int)
    )
    for draw in range(6):
        rows, new_inputs, new_systems = [], [], []
        for row, (i, s) in enumerate(zip(inputs, systems, strict=True)):
            i, s = input_names.index(i), system_names.index(s)
            for a, b in itertools.product(range(of_inputs[draw, i]), range(of_systems[draw, s])):
                rows.append(row)
                new_inputs.append(f"{i}.{a}")
                new_systems.append(f"{s}.{b}")
        expected = correlate(x[rows], human[rows], level, name, new_inputs, new_systems).value
        assert found[draw] == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_intervals_cover_the_true_correlation():
    generator = np.random.default_rng(0)
    covered = 0
    for number in range(200):
        human = generator.normal(size=120)
        scores = 0.5 * human + math.sqrt(0.75) * generator.normal(size=120)  # correlates at 0.5
        rows = [str(row) for row in range(120)]
        draws = bootstrap([scores], human, rows, ["s"] * 120, "pooled", "pearson", resamples=400, seed=number)
        low, high, _ = interval(draws[0])
        covered += low <= 0.5 <= high
    assert 0.90 <= covered / 200 <= 0.98


def test_an_interval_that_is_mostly_undefined_is_undefined():
    assert math.isnan(interval(np.array([math.nan, math.nan, 1.0])).low)
    assert interval(np.array([0.0, math.nan, 1.0])).defined == 2


def test_few_systems_are_not_resampled():
    assert resampling_for(4) == "inputs" and resampling_for(16) == "both"


def test_holm_corrects_for_many_metrics():
    # By hand: sorted .01 .02 .03 .4 times 4, 3, 2, 1, then made monotone.
    assert holm([0.4, 0.03, 0.01, 0.02]) == pytest.approx([0.4, 0.06, 0.04, 0.06])


def test_williams_test_of_both_sides():
    for first, second in ((0.5, 0.3), (0.3, 0.5)):
        one = williams(first, second, 0.6, 100)
        assert williams(first, second, 0.6, 100, "two-sided") == pytest.approx(2 * min(one, 1 - one))
    assert williams(0.3, 0.3, 0.6, 100) == 0.5 and williams(0.3, 0.3, 0.6, 100, "two-sided") == 1.0


def test_williams_test_refuses_what_cannot_be():
    assert math.isnan(williams(float("nan"), 0.3, 0.6, 100))
    with pytest.raises(ValueError, match="at least 4 summaries, got 3"):
        williams(0.5, 0.3, 0.6, 3)
    with pytest.raises(ValueError, match="alternative is 'less'"):
        williams(0.5, 0.3, 0.6, 10, "less")
    with pytest.raises(ValueError, match="cannot occur together"):
        williams(0.9, -0.9, 1.0, 10)


def test_an_interval_needs_half_of_the_values():
    half = np.array([0.0, 1.0, 2.0, 3.0, *[np.nan] * 4])
    assert interval(half, 0.5) == (0.75, 2.25, 4)
    fewer = interval(np.append(half, np.nan), 0.5)
    assert math.isnan(fewer.low) and math.isnan(fewer.high) and fewer.defined == 4


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_p_values_count_what_is_at_least_as_far(level, alternative):
    (x, y, human), inputs, systems = some_data(ties=True)
    for first, second in ((x, y), (y, x)):
        made = permutation_test(
            first, second, human, inputs, systems, level, "pearson", alternative=alternative, resamples=80
        )
        correlations = [
            correlate(values, human, level, "pearson", inputs, systems).value for values in (first, second)
        ]
        assert made.difference == pytest.approx(correlations[0] - correlations[1], abs=1e-12)
        far = np.abs(made.samples) if alternative == "two-sided" else made.samples
        reach = abs(made.difference) if alternative == "two-sided" else made.difference
        assert made.as_extreme == sum(far >= reach - 1e-12) and made.p == (made.as_extreme + 1) / 81
        assert made.resamples == len(made.samples) == 80
    same = permutation_test(x, x, human, inputs, systems, level, "pearson", resamples=9)
    assert (same.difference, same.p, same.as_extreme) == (0.0, 1.0, 9), "ties count"


@pytest.mark.parametrize("level", LEVELS)
def test_blocks_change_nothing(level, monkeypatch):
    (x, y, human), inputs, systems = some_data(ties=True, ragged=True)

    def both():
        test = permutation_test(x, y, human, inputs, systems, level, "spearman", resamples=11)
        return test.samples, bootstrap(
            [x, y], human, inputs, systems, level, "spearman", "both", resamples=11
        )

    whole = both()
    monkeypatch.setattr(significance, "_CELLS_AT_ONCE", 4 * len(human))
    for made, expected in zip(both(), whole, strict=True):
        assert np.allclose(made, expected, atol=1e-12, equal_nan=True) and made.shape == expected.shape


@pytest.mark.parametrize(("level", "name"), itertools.product(LEVELS, COEFFICIENTS))
def test_a_summary_without_a_score_is_absent_for_that_metric_alone(level, name):
    (x, y, human), inputs, systems = some_data(ties=True)
    holes = x.copy()
    holes[[0, 7, 20]] = np.nan
    draws = bootstrap([holes, y], human, inputs, systems, level, name, resamples=5)
    assert np.allclose(
        draws[1], bootstrap([y], human, inputs, systems, level, name, resamples=5)[0], atol=1e-12
    )
    rows = np.flatnonzero(~np.isnan(holes))
    names = list(dict.fromkeys(inputs))
    of_inputs = np.random.default_rng(0).multinomial(len(names), [1 / len(names)] * len(names), size=5)
    for draw in range(5):
        chosen, new_inputs, new_systems = [], [], []
        for row in rows:
            for copy in range(of_inputs[draw, names.index(inputs[row])]):
                chosen.append(row)
                new_inputs.append(f"{inputs[row]}.{copy}")
                new_systems.append(systems[row])
        expected = correlate(x[chosen], human[chosen], level, name, new_inputs, new_systems).value
        assert draws[0, draw] == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_people_who_do_not_tell_summaries_apart_tell_no_metric_apart():
    (x, y, _), inputs, systems = some_data()
    result = permutation_test(x, y, [1.0] * len(x), inputs, systems, resamples=5)
    assert np.isnan(result.samples).all() and math.isnan(result.p)


def test_limits():
    assert resampling_for(8) == "both" and resampling_for(7) == "inputs"
    assert 0 < williams(0.5, 0.3, 0.6, 4) < 0.5
    assert math.isnan(coefficient("pearson", [1.0], [2.0])) and coefficient("pearson", [1, 2], [3, 5]) == 1.0
    assert math.isnan(coefficient("kendall", [1, 2], [3, 3])) and math.isnan(
        coefficient("kendall", [3, 3], [1, 2])
    )
    with pytest.raises(ValueError, match="resample is 'rows'"):
        bootstrap([[1, 2]], [1, 2], "ab", "xx", resample="rows")


def test_draws_repeat_with_the_seed():
    (x, y, human), inputs, systems = some_data()
    one, same, other = (
        bootstrap([x], human, inputs, systems, "pooled", resamples=4, seed=seed) for seed in (0, 0, 1)
    )
    assert (one == same).all() and not (one == other).any()
    tests = [
        permutation_test(x, y, human, inputs, systems, resamples=4, generator=seed).samples
        for seed in (0, 0, 1)
    ]
    assert (tests[0] == tests[1]).all() and not (tests[0] == tests[2]).all()
