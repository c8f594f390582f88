"""Exact transport, against POT's public function, closed forms, and linear programming."""

from __future__ import annotations

from functools import partial

import numpy as np
import ot
import pytest
from scipy.optimize import linprog

from summarily.metrics.transport import (
    Cloud,
    TransportError,
    distance,
    emd,
    emd_plan,
    euclidean,
    in_threads,
    plan,
)


def random_problem(seed: int, dimensions: int = 5):
    random = np.random.default_rng(seed)
    n, m = random.integers(1, 12, 2)
    points = random.normal(size=(8, dimensions))  # few, so that the clouds share some
    first, second = points[random.integers(0, 8, n)], points[random.integers(0, 8, m)]
    a, b = random.integers(0, 4, n), random.integers(0, 4, m)
    a[0], b[0] = 1, 1
    return first, second, a, b


def by_linear_programming(a, b, costs) -> float:
    n, m = costs.shape
    constraints = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    solved = linprog(costs.ravel(), A_eq=constraints, b_eq=np.concatenate([a / a.sum(), b / b.sum()]))
    return solved.fun


@pytest.mark.parametrize("dimensions", [5, 100])
@pytest.mark.parametrize("seed", range(15))
def test_all_ways_cost_the_same(seed, dimensions):
    first, second, a, b = random_problem(seed, dimensions)
    costs = euclidean(first, second)
    expected = by_linear_programming(a, b, costs)
    assert emd(a, b, costs) == pytest.approx(expected, abs=1e-9)
    assert emd(a * 0.37, b * 2.5, costs) == pytest.approx(expected, abs=1e-9), "only proportions matter"
    assert ot.emd2(a / a.sum(), b / b.sum(), costs) == pytest.approx(expected, abs=1e-9)
    whole, broken = Cloud(first, a), Cloud(first, a * 0.37)
    assert distance(whole, Cloud(second, b)) == pytest.approx(expected, abs=1e-9)
    assert distance(broken, Cloud(second, b)) == pytest.approx(expected, abs=1e-9)
    assert distance(Cloud(second, b), whole) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(15))
def test_plans_move_all_mass_at_the_cost(seed):
    first, second, a, b = random_problem(seed)
    clouds = Cloud(first, a), Cloud(second, b)
    costs = euclidean(clouds[0].points, clouds[1].points)
    by_matrix = emd_plan(a, b, euclidean(first, second))
    by_points = plan(*clouds)
    for made in (by_matrix, by_points):
        assert sum(flow.mass * flow.distance for flow in made.flows) == pytest.approx(made.cost, abs=1e-9)
        assert all(flow.mass > 0 for flow in made.flows)
    for side, cloud in enumerate(clouds):
        moved = np.zeros(len(cloud))
        for flow in by_points.flows:
            moved[flow[side]] += flow.mass
        assert moved == pytest.approx(cloud.masses / cloud.total)
    assert all(flow.distance == costs[flow.source, flow.target] for flow in by_points.flows)


def test_equal_clouds_are_exactly_0_apart():
    random = np.random.default_rng(0)
    points = random.normal(size=(40, 300)).astype(np.float32) * 100
    masses = random.uniform(size=40)
    order = random.permutation(40)
    assert distance(Cloud(points, masses), Cloud(points[order], masses[order])) == 0.0
    assert emd(masses, masses, euclidean(points, points)) == pytest.approx(0.0, abs=1e-12)
    assert not euclidean(points, points).diagonal().any()


def test_close_points_keep_their_distance():
    point = np.full((1, 300), 1000.0)
    moved = point.copy()
    moved[0, 0] += 1e-4
    assert euclidean(point, moved)[0, 0] == pytest.approx(1e-4, rel=1e-6)


def test_clouds_merge_equal_points_and_leave_out_empty_ones():
    cloud = Cloud([[1.0], [2.0], [1.0], [3.0]], [1, 2, 3, 0])
    assert cloud.points.tolist() == [[1.0], [2.0]] and cloud.masses.tolist() == [4, 2]


def test_one_point_takes_all():
    assert emd([2], [1, 3], [[1.0, 2.0]]) == 1.75
    assert emd([1, 3], [2], [[1.0], [2.0]]) == 1.75


@pytest.mark.parametrize("masses", [[0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1]])
def test_impossible_masses_are_an_error(masses):
    with pytest.raises(TransportError, match="masses must be finite"):
        emd(masses, [1.0], [[1.0], [1.0]])
    with pytest.raises(TransportError, match="masses must be finite"):
        Cloud([[1.0], [2.0]], masses)


def test_impossible_costs_and_shapes_are_an_error():
    with pytest.raises(TransportError, match="NaN"):
        emd([1, 1], [1, 1], [[1.0, float("nan")], [1.0, 1.0]])
    with pytest.raises(TransportError, match=r"\(2, 1\)"):
        emd([1, 1], [1, 1], [[1.0], [1.0]])
    with pytest.raises(TransportError, match="do not fit"):
        Cloud([[1.0]], [1, 1])


def test_a_solver_that_gives_up_is_an_error(monkeypatch):
    from summarily.metrics import transport

    monkeypatch.setattr(transport, "_MAX_PIVOTS", 1)
    random = np.random.default_rng(1)
    with pytest.raises(TransportError, match="did not solve a problem of 30 by 30"):
        emd(np.ones(30), np.ones(30), random.uniform(size=(30, 30)))


def test_threads_do_not_change_the_order():
    problems = [([1], [1], [[float(i)]]) for i in range(100)]
    solve = partial(in_threads, lambda problem: emd(*problem), problems)
    assert solve(threads=4) == solve(threads=1) == [float(i) for i in range(100)]


def test_errors_in_threads_arrive():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda i: 1 / (i - 50), list(range(100)), threads=4)


def test_thousands_of_points_to_few_are_solved_exactly():
    random = np.random.default_rng(2)
    many, few = random.normal(size=(5000, 4)), random.normal(size=(3, 4))
    found = distance(Cloud(many, np.ones(5000, int)), Cloud(few, [1, 1, 1]))
    # Any plan costs at least the way to the nearest point, and at most that of an arbitrary plan.
    costs = euclidean(many, few)
    assert costs.min(1).mean() < found < costs.mean()


@pytest.mark.parametrize("moved", [2**-10, 2**-20, 2**-30])
def test_what_little_has_to_move_costs_what_it_costs(moved):
    """All but a small part of two clouds is the same: that part goes from (0, 0) to (3, 4)."""
    first = Cloud([[0.0, 0.0], [1.0, 1.0]], [0.5 + moved, 0.5 - moved])
    second = Cloud([[0.0, 0.0], [1.0, 1.0], [3.0, 4.0]], [0.5, 0.5 - moved, moved])
    assert distance(first, second) == pytest.approx(5 * moved, rel=1e-6)
    assert distance(second, first) == pytest.approx(5 * moved, rel=1e-6)
    made = plan(first, second)
    assert made.cost == pytest.approx(5 * moved, rel=1e-6)
    flows = {(flow.source, flow.target): (flow.mass, flow.distance) for flow in made.flows}
    assert flows[0, 2] == pytest.approx((moved, 5.0), rel=1e-6)
    assert flows[0, 0] == pytest.approx((0.5, 0.0), rel=1e-12) and len(flows) == 3
    assert flows[1, 1] == pytest.approx((0.5 - moved, 0.0), rel=1e-12)


def test_a_plan_is_right_to_the_last_digits():
    """Two points to two, where the cheaper way saves a millionth."""
    costs = [[1.0, 2.0], [2.0 + 1e-6, 3.0]]
    made = emd_plan([1, 1], [1, 1], costs)
    assert {(flow.source, flow.target): flow.mass for flow in made.flows} == {(0, 0): 0.5, (1, 1): 0.5}
    assert made.cost == emd([1, 1], [1, 1], costs) == 2.0
    assert emd([1, 1], [1, 1], [[1.0, 2.0], [2.0 - 1e-6, 3.0]]) == pytest.approx(2.0 - 5e-7, abs=1e-12)
    assert emd([3, 1], [1, 3], [[0.0, 1.0], [1.0, 0.0]]) == 0.5


def test_keys_say_which_points_are_the_same():
    cloud = Cloud([[1.0], [5.0], [2.0], [9.0]], [1, 2, 3, 0], keys=["a", "b", "a", "c"])
    assert cloud.keys == ["a", "b"] and len(cloud) == 2 and cloud.place == {"a": 0, "b": 1}
    assert cloud.points.tolist() == [[1.0], [5.0]] and cloud.masses.tolist() == [4, 2] and cloud.total == 6
    other = Cloud([[1.0], [5.0]], [2, 1], keys=["x", "a"])
    # "a" stays where it is, though its point is another: 1/3 of the mass; 1/3 goes from a and 1/3 from b to x.
    made = plan(cloud, other)
    assert [(flow.source, flow.target) for flow in made.flows] == [(0, 0), (0, 1), (1, 0)]
    assert [flow.mass for flow in made.flows] == pytest.approx([1 / 3] * 3)
    assert [flow.distance for flow in made.flows] == [0.0, 0.0, 4.0] and made.cost == pytest.approx(4 / 3)
    with pytest.raises(TransportError, match="2 masses and 1 keys do not fit"):
        Cloud([[1.0], [2.0]], [1, 1], keys=["a"])
    with pytest.raises(TransportError, match="do not fit"):
        Cloud([1.0, 2.0], [1, 1], keys=["a", "b"])


def test_counted_points_are_taken_as_they_are():
    points, counts = np.array([[0.0], [3.0]]), np.array([1, 2])
    counted, checked = Cloud.of_counts(points, counts, ["a", "b"], 3), Cloud(points, counts, ["a", "b"])
    assert (counted.total, counted.is_whole, counted.place) == (
        checked.total,
        checked.is_whole,
        checked.place,
    )
    assert counted.points is points and counted.masses is counts
    assert distance(counted, Cloud([[3.0]], [1], ["b"])) == 1.0


def test_flows_stand_in_the_order_of_their_sources():
    made = plan(Cloud([[0.0], [1.0], [5.0]], [2, 1, 1]), Cloud([[5.0], [0.0], [2.0]], [1, 1, 2]))
    assert made.flows == [(0, 1, 0.25, 0.0), (0, 2, 0.25, 2.0), (1, 2, 0.25, 1.0), (2, 0, 0.25, 0.0)]
    assert made.cost == 0.75
    assert emd_plan([0, 2, 1], [1, 0, 2], [[9.0, 9, 9], [1, 9, 2], [3, 9, 1]]).flows == [
        (1, 0, 1 / 3, 1.0),
        (1, 2, 1 / 3, 2.0),
        (2, 2, 1 / 3, 1.0),
    ]


def test_infinite_costs_and_rows_that_do_not_fit_are_an_error():
    with pytest.raises(TransportError, match="infinity"):
        emd([1, 1], [1, 1], [[1.0, float("inf")], [1.0, 1.0]])
    for source, target, costs in (
        ([[1]], [1], [[1.0]]),
        ([1], [[1]], [[1.0]]),
        ([1, 1], [1], [[1.0, 1.0]]),
    ):
        with pytest.raises(TransportError, match="do not fit"):
            emd(source, target, costs)


@pytest.mark.parametrize(("named", "threads"), [("3", 3), ("1", 1), ("0", None), ("", None), ("many", None)])
def test_threads_are_as_many_as_the_environment_says(named, threads, monkeypatch):
    import os

    from summarily.metrics import transport

    monkeypatch.setenv("OMP_NUM_THREADS", named)
    for cores in (2, 100):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)), raising=False)
        assert transport._default_threads() == (threads or min(8, cores))


def test_few_problems_are_solved_where_they_are(monkeypatch):
    import threading

    def here(_):
        return threading.current_thread() is threading.main_thread()

    assert all(in_threads(here, range(15), threads=2)) and all(in_threads(here, range(100), threads=1))
    assert not any(in_threads(here, range(16), threads=2))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert not any(in_threads(here, range(16)))


def test_costs_in_half_precision_are_added_in_double():
    """A thousand costs of .1 in float16 are as many of the number nearest to it, not what float16 makes of their sum."""
    costs = np.full((1, 1000), 0.1, np.float16)
    plan = emd_plan([1000], np.ones(1000, int), costs)
    assert plan.cost == pytest.approx(float(np.float16(0.1)), rel=1e-12)
    assert isinstance(plan.flows[0].distance, float)
