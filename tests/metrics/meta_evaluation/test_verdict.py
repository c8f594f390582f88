"""The sentence that says which metric to trust is right about made-up data of which the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from summarily.metrics.meta_evaluation.agreement import LENGTH, REPETITION, analyse, verdict
from summarily.metrics.meta_evaluation.scores import Scored


def scored(columns: dict[str, np.ndarray], human: np.ndarray, systems: int = 4, length=None) -> Scored:
    n = len(human)
    controls = {} if length is None else {LENGTH: list(length), REPETITION: [1.0] * n}
    return Scored(
        "made up",
        {"overall": list(human)},
        {label: list(column) for label, column in columns.items()},
        [row // systems for row in range(n)],
        [row % systems for row in range(n)],
        [f"s{i}" for i in range(systems)],
        {},
        {},
        controls,
    )


def found(data: Scored, **options):
    return verdict(data, analyse(data, resamples=200, permutations=19), resamples=200, **options)


@pytest.fixture
def people():
    return np.random.default_rng(0).normal(size=160)


def noisy(people, noise, seed):
    return people + noise * np.random.default_rng(seed).normal(size=len(people))


STABLE = "How often {} comes first says how stable the answer is on these data, on which it was chosen; it is not the chance that it is the best on others."


def test_a_metric_that_is_far_better_comes_first_in_every_draw(people):
    answer = found(scored({"rougeL": noisy(people, 3, 1), "good": noisy(people, 0.2, 2)}, people))
    assert answer.best == "good" and answer.holds and answer.share == 1 and not answer.rivals
    assert answer.sentence().startswith("Trust good: its correlation with people is 0.9")
    assert "among the summaries of one input" in answer.sentence()
    # Four systems are too few to draw them again.
    told = "Of 2 values it comes first in 100% of the draws when the inputs are drawn again."
    assert answer.sentence().endswith(told)
    assert answer.advice("rougeL") == [
        "Report good with its interval and signature, and rougeL beside it, for comparison with other work.",
        STABLE.format("good"),
    ]


def test_metrics_that_cannot_be_told_apart_are_named(people):
    base = noisy(people, 1, 1)
    near = {f"m{i}": noisy(base, 0.05, i) for i in range(10, 16)}
    answer = found(scored(near, people))
    assert len(answer.rivals) == 5 and answer.share < 0.95
    assert "cannot tell it from" in answer.sentence() and "and 2 more" in answer.sentence()
    assert list(answer.rivals.values()) == sorted(answer.rivals.values(), reverse=True)


def test_the_share_is_that_of_the_draws_in_which_it_comes_first(people):
    """Drawn here by hand, input by input, as significance.bootstrap says it does."""
    from scipy.stats import spearmanr

    columns = {"a": noisy(people, 1, 1), "b": noisy(people, 1, 2)}
    answer = found(scored(columns, people))
    best, other = answer.best, next(label for label in columns if label != answer.best)
    each = {
        label: np.array([spearmanr(people[i : i + 4], c[i : i + 4])[0] for i in range(0, len(people), 4)])
        for label, c in columns.items()
    }
    drawn = np.random.default_rng(7).integers(0, len(people) // 4, (2000, len(people) // 4))
    share = float((each[best][drawn].mean(1) >= each[other][drawn].mean(1)).mean())
    assert answer.share == pytest.approx(share, abs=0.08) and 0 < share < 1  # 200 draws against 2,000


def test_twins_are_first_together(people):
    answer = found(scored({"a": people, "b": people}, people))
    assert (
        answer.share == 1
        and list(answer.rivals) == ["b"]
        and "cannot tell it from b 1.000" in answer.sentence()
    )


def test_chance_is_trusted_by_nobody(people):
    answer = found(scored({"noise": np.random.default_rng(3).normal(size=len(people))}, people))
    assert not answer.holds and answer.sentence().startswith("Trust none yet")
    assert answer.advice("noise") == []


def test_length_that_does_as_well_is_a_warning(people):
    data = scored({"m": noisy(people, 1, 1)}, people, length=np.round(100 * noisy(people, 0.1, 2)))
    advice = found(data).advice("m")
    assert advice[0] == "Report m with its interval and signature."
    assert len(advice) == 2 and advice[1].startswith("Beware: length alone has 0.9")
    other = scored({"m": noisy(people, 0.1, 1)}, people, length=np.round(100 * noisy(people, 2, 2)))
    assert len(found(other).advice("m")) == 1


def test_one_summary_per_input_is_read_over_all_summaries(people):
    data = scored({"m": noisy(people, 0.5, 1)}, people, systems=1)
    answer = found(data)
    assert answer.level == "pooled" and answer.sentence().endswith(
        "over all summaries. Nothing else was asked."
    )


def test_without_a_correlation_there_is_no_verdict(people):
    answer = found(scored({"m": people}, np.ones(len(people))))
    assert answer.best is None and not answer.holds
    assert answer.sentence().startswith("No verdict")


def test_a_metric_that_lacks_scores_takes_part(people):
    some = noisy(people, 0.1, 1)
    some[::10] = np.nan
    answer = found(scored({"some": some, "rougeL": noisy(people, 3, 2)}, people))
    assert answer.best == "some" and answer.share > 0.95
