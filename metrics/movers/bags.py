"""Bags of words and sentences, as clouds that can be moved, and what a move says."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from summarily.metrics import transport
from summarily.metrics.explanations import Move
from summarily.metrics.movers.points import Embedded


class Bag:
    """A text as a cloud of its words, of its sentences, or of both; the cloud is None if no word is left.

    A word has its count as mass (Eq. 1), a sentence its number of words (Eq. 4); with both, each half of the
    mass (Eq. 5), since both sum to the number of words.
    """

    def __init__(self, embedded: Embedded, units: Collection[str]):
        self.embedded = embedded
        self.units = units
        self.cloud: transport.Cloud | None
        sentences = embedded.sentences
        self.tokens = sum(sentence.size for sentence in sentences)
        if len(sentences) == 1 and tuple(units) == ("word",):  # the common case, and a cheap one
            only = sentences[0]
            self.cloud = transport.Cloud.of_counts(only.points, only.counts, only.keys, only.size)
            return
        points: list[NDArray[Any]] = []
        masses: list[NDArray[np.int64]] = []
        keys: list[Hashable] = []
        if "word" in units:
            for sentence in sentences:
                points.append(sentence.points)
                masses.append(sentence.counts)
                keys += sentence.keys
        if "sentence" in units and sentences:
            points.append(np.stack([sentence.mean for sentence in sentences]))
            masses.append(np.array([sentence.size for sentence in sentences]))
            keys += [sentence.key for sentence in sentences]
        self.cloud = transport.Cloud(_joined(points), _joined(masses), keys) if points else None

    @property
    def out_of_vocabulary(self) -> int:
        return self.embedded.out_of_vocabulary

    @property
    def truncated(self) -> bool:
        return self.embedded.truncated

    @property
    def labels(self) -> dict[Hashable, tuple[str, str]]:
        """What the cloud's keys stand for: ("word" or "sentence", its text)."""
        labels: dict[Hashable, tuple[str, str]] = {}
        for sentence in self.embedded.sentences:
            labels.setdefault(sentence.key, ("sentence", sentence.text))
            for key in sentence.keys:
                labels[key] = ("word", sentence.name(key))
        return labels

    def equals(self, other: Bag) -> bool:
        """Whether both hold the same words or sentences equally often."""
        mine, theirs = self.cloud, other.cloud
        if mine is None or theirs is None or mine.place.keys() != theirs.place.keys():
            return False
        return all(mine.masses[i] == theirs.masses[theirs.place[key]] for key, i in mine.place.items())


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def most_points(first: transport.Cloud, second: transport.Cloud, max_points: int) -> int:
    """How many points either of two clouds may have.

    As many as give `max_points ** 2` distances, which bounds the memory, but no more than 8 times `max_points`,
    since the solver's time grows with the square of the larger side.
    """
    smaller = min(len(first), len(second), max_points)
    return min(max_points**2 // smaller, 8 * max_points)


def fit(
    first: transport.Cloud, second: transport.Cloud, max_points: int
) -> tuple[transport.Cloud, transport.Cloud]:
    """Clouds of which the one that has too many points keeps its heaviest."""
    if len(first) <= max_points and len(second) <= max_points:
        return first, second
    most = most_points(first, second, max_points)
    return _heaviest(first, most), _heaviest(second, most)


def too_many(first: Bag, second: Bag, max_points: int) -> bool:
    """Whether `fit` has to leave points out."""
    if first.cloud is None or second.cloud is None:
        return False
    larger = max(len(first.cloud), len(second.cloud))
    return larger > max_points and larger > most_points(first.cloud, second.cloud, max_points)


def _heaviest(cloud: transport.Cloud, count: int) -> transport.Cloud:
    if len(cloud) <= count:
        return cloud
    kept = np.sort(np.argsort(-cloud.masses, kind="stable")[:count])
    keys = cloud.keys
    return transport.Cloud(cloud.points[kept], cloud.masses[kept], [keys[i] for i in kept])


def describe(
    plan: transport.Plan, clouds: tuple[transport.Cloud, transport.Cloud], first: Bag, second: Bag
) -> list[Move]:
    """A transport plan in words, the most costly flow first."""
    flows = []
    labels = first.labels, second.labels
    starts, ends = ([names[key] for key in cloud.keys] for names, cloud in zip(labels, clouds, strict=True))
    for flow in plan.flows:
        from_unit, from_text = starts[flow.source]
        to_unit, to_text = ends[flow.target]
        flows.append(Move(from_text, from_unit, to_text, to_unit, flow.mass, flow.distance))
    return sorted(flows, key=lambda flow: -flow.cost)
