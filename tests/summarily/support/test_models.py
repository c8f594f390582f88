"""One cache of loaded models: shared, bounded, safe between threads, and able to forget."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from summarily.metrics import load
from summarily.support import models
from summarily.support.models import SMALL, ModelCache
from tests.metrics.suite import CASES, forget, make


class Weights:
    """Stands for a model of some bytes."""

    def __init__(self, size: int = SMALL):
        self.size = size

    def get_memory_footprint(self) -> int:
        return self.size


def test_a_model_is_loaded_once_however_many_threads_want_it():
    cache, started, loads = ModelCache(), threading.Barrier(8), []

    def load_slowly() -> Weights:
        loads.append(threading.get_ident())
        threading.Event().wait(0.05)
        return Weights()

    def want(_: int) -> Weights:
        started.wait()
        return cache.get("model", load_slowly)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(want, range(8)))
    assert len(loads) == 1 and len({id(one) for one in found}) == 1


def test_one_that_is_loading_does_not_keep_others_waiting():
    cache, may_end = ModelCache(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(cache.get, "slow", lambda: may_end.wait(10))
        try:
            assert cache.get("quick", Weights) is cache.get("quick", Weights)
            assert not slow.done()
        finally:
            may_end.set()


def test_the_least_recently_used_goes_first_and_the_last_stays_however_large():
    cache = ModelCache(limit=3 * SMALL)
    for key in "abc":
        cache.get(key, Weights)
    cache.get("a", lambda: pytest.fail("it was there"))
    cache.get("d", Weights)
    assert len(cache) == 3
    cache.get("a", lambda: pytest.fail("b was older"))
    again = cache.get("b", lambda: Weights(9 * SMALL))
    assert cache.values() == [again]


def test_what_cannot_be_loaded_is_tried_again():
    cache = ModelCache()
    with pytest.raises(OSError, match="no such file"):
        cache.get("model", lambda: (_ for _ in ()).throw(OSError("no such file")))
    assert len(cache) == 0 and cache.get("model", lambda: "there now") == "there now"


def test_a_loader_may_load_something_else():
    cache = ModelCache()
    assert cache.get("outer", lambda: cache.get("inner", lambda: "inner") + " in outer") == "inner in outer"


@pytest.mark.parametrize("name", sorted({*CASES} - {"rouge"}))
def test_every_metric_loads_into_it_and_scores_the_same_after_it_was_emptied(name):
    models.forget()
    metric = make(name)
    before = metric.compute(["Snow fell in Oslo."], ["It snowed in Oslo."])
    forget()  # vectors and names, which would do without a model
    models.forget()
    assert not models.values()
    after = metric.compute(["Snow fell in Oslo."], ["It snowed in Oslo."])
    assert after.per_example == before.per_example and models.values()


@pytest.mark.parametrize("name", ["bertscore", "bartscore", "wms", "bleurt"])
def test_weights_are_freed_though_the_metric_lives(name):
    models.forget()
    metric = make(name)
    metric.compute(["Snow fell."], ["It snowed."])
    heavy = [weakref.ref(v) for v in models.values() if type(v).__name__ in ("Stack", "PairModel", "Vectors")]
    assert heavy
    models.forget()
    gc.collect()
    assert not [one for one in heavy if one() is not None]


def test_metrics_and_limits_share_the_weights():
    models.forget()
    for metric in (load("bertscore"), load("moverscore"), load("bertscore", max_length=16)):
        metric.compute(["Snow fell."], ["It snowed."])
    kinds = [type(value).__name__ for value in models.values()]
    assert kinds.count("Stack") == 1 and kinds.count("Encoder") == 2
