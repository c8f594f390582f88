"""Exact optimal transport (earth mover's distance) between clouds of points, for many pairs.

The solver is POT's network simplex, called without POT's overhead per call. Nothing here is approximate: a
solver that does not converge is an error. A problem is made as small as it can be first: points without mass
go, equal points merge, and mass that both clouds have at the same point stays where it is (when the cost is a
distance, the triangle inequality makes that optimal).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Item = TypeVar("Item")
Result = TypeVar("Result")

# The simplex method ends by itself; POT's default of 100,000 pivots is too few for thousands of points.
_MAX_PIVOTS = 2**62
_OPTIMAL = 1
_WHOLE = "iub"
# Below this many dimensions the loop of `cdist` beats a matrix product.
_FEW_DIMENSIONS = 64
# A pool of threads costs more than it brings for less work than this.
_FEW_PROBLEMS = 16


class TransportError(ArithmeticError):
    """A problem that has no solution, or that the solver could not solve."""


class Flow(NamedTuple):
    """A piece of a transport plan: `mass` goes from point `source` to point `target` over `distance`."""

    source: int
    target: int
    mass: float
    distance: float


class Plan(NamedTuple):
    """An optimal transport: what it costs, and its flows in the order of their sources."""

    cost: float
    flows: list[Flow]


# --- with a matrix of costs -------------------------------------------------------------------------------


def emd(source: ArrayLike, target: ArrayLike, costs: ArrayLike) -> float:
    """What the cheapest transport of `source` to `target` costs.

    Args:
        source, target: the masses, not negative; each side is divided by its sum.
        costs: a matrix of what it costs to move a unit of mass from a source point to a target point.

    Example:
        >>> emd([1, 1], [2], [[0.0], [3.0]])
        1.5
    """
    return _transport_matrix(source, target, costs)[0]


def emd_plan(source: ArrayLike, target: ArrayLike, costs: ArrayLike) -> Plan:
    """Like `emd`, with the flows.

    Example:
        >>> emd_plan([1, 1], [2], [[0.0], [3.0]]).flows[1]
        Flow(source=1, target=0, mass=0.5, distance=3.0)
    """
    cost, flow, matrix, rows, columns = _transport_matrix(source, target, costs)
    return Plan(cost, _flows(flow, matrix, rows, columns))


def _transport_matrix(
    source: ArrayLike, target: ArrayLike, costs: ArrayLike
) -> tuple[float, Floats, Floats, Places, Places]:
    """The cost, the flow, the costs of the points that have mass, and which rows and columns these are."""
    a, b = np.asarray(source), np.asarray(target)
    matrix = np.asarray(costs, dtype=np.float64)
    if a.ndim != 1 or b.ndim != 1 or matrix.shape != (a.size, b.size):
        raise TransportError(f"masses of shape {a.shape} and {b.shape} do not fit costs of {matrix.shape}.")
    if not math.isfinite(matrix.sum()):
        raise TransportError("the costs hold a NaN or an infinity.")
    a_sum, b_sum = _total(a), _total(b)
    whole = a.dtype.kind in _WHOLE and b.dtype.kind in _WHOLE
    a, b, total = _balanced(a, a_sum, b, b_sum, whole)
    rows, columns = a.nonzero()[0], b.nonzero()[0]
    if rows.size < a.size or columns.size < b.size:
        matrix = matrix[np.ix_(rows, columns)]
    cost, flow = _solve(a[rows], b[columns], matrix)
    return cost / total, flow / total, matrix, rows, columns


# --- with points ------------------------------------------------------------------------------------------


class Cloud:
    """Points with masses; equal points are merged, points without mass left out.

    Args:
        points: a matrix, one point per row.
        masses: one number per point, not negative; only their proportions matter.
        keys: what identifies a point, in this and in other clouds; by default its coordinates.

    `keys` and `points` are those of the points that are left, in the order of their first appearance.

    Example:
        >>> Cloud([[1.0], [2.0], [1.0]], [1, 1, 3]).masses
        array([4, 1])
    """

    __slots__ = ("is_whole", "masses", "place", "points", "total")

    def __init__(self, points: ArrayLike, masses: ArrayLike, keys: Sequence[Hashable] | None = None):
        matrix, mass = np.asarray(points, dtype=np.float64), np.asarray(masses)
        if keys is None:
            keys = [row.tobytes() for row in np.ascontiguousarray(matrix)]
        if matrix.ndim != 2 or not len(matrix) == mass.size == len(keys):
            raise TransportError(
                f"points of shape {matrix.shape}, {mass.size} masses and {len(keys)} keys do not fit."
            )
        self.total = _total(mass)
        self.is_whole = mass.dtype.kind in _WHOLE
        self.place = dict(zip(keys, range(len(keys)), strict=True))
        """By key, the number of a point."""
        if len(self.place) < len(keys) or mass.min() == 0:
            self.place, matrix, mass = _merged(matrix, mass, keys)
        self.points, self.masses = matrix, mass

    @classmethod
    def of_counts(
        cls, points: Floats, counts: NDArray[np.int64], keys: Sequence[Hashable], total: int
    ) -> Cloud:
        """Points that have been counted: no key stands twice and no count is 0, so nothing is checked.

        Example:
            >>> Cloud.of_counts(np.eye(2), np.array([1, 2]), ["a", "b"], 3).masses
            array([1, 2])
        """
        cloud = cls.__new__(cls)
        cloud.points, cloud.masses, cloud.total, cloud.is_whole = points, counts, float(total), True
        cloud.place = dict(zip(keys, range(len(keys)), strict=True))
        return cloud

    @property
    def keys(self) -> list[Hashable]:
        return list(self.place)

    def __len__(self) -> int:
        return len(self.place)


def _merged(
    points: NDArray[Any], masses: NDArray[Any], keys: Sequence[Hashable]
) -> tuple[dict[Hashable, int], NDArray[Any], NDArray[Any]]:
    place: dict[Hashable, int] = {}
    first: list[int] = []
    kept = masses.nonzero()[0].tolist()
    for i in kept:
        if place.setdefault(keys[i], len(first)) == len(first):
            first.append(i)
    sums = np.zeros(len(first), masses.dtype)
    np.add.at(sums, [place[keys[i]] for i in kept], masses[kept])
    return place, points[first], sums


def distance(source: Cloud, target: Cloud) -> float:
    """The earth mover's distance of two clouds over Euclidean distances; exactly 0 for equal clouds.

    Example:
        >>> distance(Cloud([[0.0], [1.0]], [1, 1]), Cloud([[0.0], [3.0]], [1, 1]))
        1.0
    """
    return _transport(source, target)[0]


def plan(source: Cloud, target: Cloud) -> Plan:
    """Like `distance`, with the flows; their indices are those of the clouds' points.

    Example:
        >>> plan(Cloud([[0.0], [1.0]], [1, 1]), Cloud([[0.0], [3.0]], [1, 1])).flows[0]
        Flow(source=0, target=0, mass=0.5, distance=0.0)
    """
    cost, stays, moves, total = _transport(source, target)
    flows = [Flow(i, j, mass / total, 0.0) for i, j, mass in stays]
    if moves is not None:
        flow, costs, rows, columns = moves
        flows += _flows(flow / total, costs, rows, columns)
    return Plan(cost, sorted(flows))


Moves = tuple[Floats, Floats, Places | None, Places | None]


def _transport(
    source: Cloud, target: Cloud
) -> tuple[float, list[tuple[int, int, float]], Moves | None, float]:
    """The cost, what stays in place, what moves (flow, distances, rows, columns), and the total mass.

    Rows and columns are None if all points move.
    """
    whole = source.is_whole and target.is_whole
    a, b, total = _balanced(source.masses, source.total, target.masses, target.total, whole)
    common = source.place.keys() & target.place.keys()
    if not common:
        costs = euclidean(source.points, target.points)
        cost, flow = _solve(a, b, costs)
        return cost / total, [], (flow, costs, None, None), total
    stays: list[tuple[int, int, float]] = []
    mine, theirs = a.tolist(), b.tolist()  # single numbers are faster out of lists
    for key in common:
        i, j = source.place[key], target.place[key]
        mass = mine[i] if mine[i] < theirs[j] else theirs[j]
        stays.append((i, j, mass))
        mine[i] -= mass
        theirs[j] -= mass
    left = sum(mine)
    if left <= 1e-12 * total:  # nothing, or what rounding has left
        return 0.0, stays, None, total
    a, b = np.array(mine), np.array(theirs)
    if not whole:
        b *= left / b.sum()
    rows, columns = a.nonzero()[0], b.nonzero()[0]
    costs = euclidean(source.points.take(rows, axis=0), target.points.take(columns, axis=0))
    cost, flow = _solve(a.take(rows), b.take(columns), costs)
    return cost / total, stays, (flow, costs, rows, columns), total


def euclidean(first: ArrayLike, second: ArrayLike) -> Floats:
    """Euclidean distances between the rows of two matrices; exactly 0 between equal rows.

    Example:
        >>> euclidean([[0.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]])
        array([[5., 0.]])
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape[1] <= _FEW_DIMENSIONS:
        return _cdist()(a, b)
    a_squared, b_squared = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    squared = a @ b.T
    squared *= -2
    squared += a_squared[:, None]
    squared += b_squared
    # |a|^2 - 2ab + |b|^2 cancels where a and b are close: there the difference is taken first.
    close = squared < 1e-6 * (a_squared[:, None] + b_squared)
    if close.any():
        rows, columns = close.nonzero()
        difference = a[rows] - b[columns]
        squared[rows, columns] = np.einsum("ij,ij->i", difference, difference)
    return np.sqrt(squared, out=squared)


# --- the solver -------------------------------------------------------------------------------------------


def _total(masses: NDArray[Any]) -> float:
    """The sum of masses that can be transported."""
    total = float(masses.sum())
    if not (math.isfinite(total) and total > 0 and masses.min() >= 0):
        raise TransportError(f"masses must be finite, not negative, and not all zero; got {masses!r:.100}.")
    return total


def _balanced(
    source: NDArray[Any], source_total: float, target: NDArray[Any], target_total: float, whole: bool
) -> tuple[Floats, Floats, float]:
    """Masses with equal sums, and that sum. Whole numbers stay whole, so that their flows are exact."""
    if whole:
        return source * target_total, target * source_total, source_total * target_total
    return source / source_total, target / target_total, 1.0


def _solve(source: Floats, target: Floats, costs: Floats) -> tuple[float, Floats]:
    """The cost and the flow of a problem without empty points."""
    if len(source) == 1 or len(target) == 1:  # there is only one way
        flow = target[None, :] if len(source) == 1 else source[:, None]
        return float((flow * costs).sum()), flow
    flow, cost, _, _, code = _simplex()(source, target, np.ascontiguousarray(costs), _MAX_PIVOTS, 1)
    if code != _OPTIMAL or not math.isfinite(cost):
        raise TransportError(
            f"the network simplex did not solve a problem of {len(source)} by {len(target)} points "
            f"(result code {code}, cost {cost})."
        )
    return max(float(cost), 0.0), flow


def _flows(flow: Floats, costs: Floats, rows: Places | None, columns: Places | None) -> list[Flow]:
    """The flows between points, which are numbered by `rows` and `columns` unless these are all points."""
    i, j = flow.nonzero()
    sources, targets = (i if rows is None else rows[i]), (j if columns is None else columns[j])
    found = zip(sources.tolist(), targets.tolist(), flow[i, j].tolist(), costs[i, j].tolist(), strict=True)
    return [Flow(*values) for values in found]


@cache
def _simplex() -> Callable[..., Any]:
    # POT imports torch; only who solves something waits for that.
    from ot.lp.emd_wrap import emd_c

    return emd_c


@cache
def _cdist() -> Callable[..., Floats]:
    from scipy.spatial.distance import cdist

    return cdist


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], threads: int | None = None
) -> list[Result]:
    """`[function(item) for item in items]`, by several threads if there are enough items.

    The solver works outside of Python's global lock. By default there are as many threads as
    `OMP_NUM_THREADS` says, else as many as the process may use cores, at most 8.

    Example:
        >>> in_threads(len, ["a", "bc"])
        [1, 2]
    """
    if threads is None:
        threads = _default_threads()
    if threads < 2 or len(items) < _FEW_PROBLEMS:
        return [function(item) for item in items]
    size = -(-len(items) // (4 * threads))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(threads) as pool:
        return [result for part in pool.map(lambda part: list(map(function, part)), parts) for result in part]


def _default_threads() -> int:
    named = os.environ.get("OMP_NUM_THREADS", "")
    if named.isdecimal() and int(named):
        return int(named)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, cores)
