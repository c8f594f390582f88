"""The public face: `score`, `compare` and what they return."""

from __future__ import annotations

import copy
import json
import pickle
import re
import time
from types import SimpleNamespace

import pytest

import summarily
from summarily.metrics import Metric, Values, load
from summarily.metrics.base import Score, Signature, make_examples
from summarily.metrics.engine import Tally
from summarily.metrics.resampling import holm, mean_intervals, paired_test, too_few
from summarily.support.errors import InputError, MissingRequirement
from summarily.support.files import write_atomically
from summarily.support.keys import Key

PREDICTIONS = ["a cat sat", "dogs bark at night", "snow fell"] * 4
REFERENCES = ["the cat sat", "a dog barked", ["snow fell today", "it snowed"]] * 4


class Lengths(Metric):
    """A metric that is easy to predict: the number of characters, pooled by the number of references."""

    name = "lengths"
    summary = "length"
    calls: list[int]

    def __init__(self, preset="light", pooled=False):
        self.pooled = pooled
        self.calls = []

    keys = ("lengths",)

    def signature_fields(self, statistics):
        return {"pooled": self.pooled, "longest": statistics}

    def statistics(self, examples):
        return max(len(example.prediction) for example in examples)

    def score_examples(self, examples, statistics):
        self.calls.append(len(examples))
        weights = [float(len(example.references)) for example in examples] if self.pooled else None
        values = [float(len(example.prediction)) for example in examples]
        return Values({"lengths": values}, {"seen": len(examples)}, tokens=len(examples), weights=weights)


def test_score_is_indexable_and_has_everything_a_score_has():
    card = summarily.score(PREDICTIONS, REFERENCES, metrics="rouge", confidence=0.9)
    score = card["rouge"]
    assert list(score.per_example)[:4] == ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    assert len(score) == 12 and len(score.per_example["rouge1_recall"]) == 12
    assert score.mean["rouge1"] == sum(score.per_example["rouge1"]) / 12
    assert score.interval["rouge1"].low < score.mean["rouge1"] < score.interval["rouge1"].high
    assert score.interval["rouge1"].confidence == 0.9
    assert str(score.signature).startswith("rouge|") and str(score.signature).endswith(summarily.__version__)
    assert score.cost["seconds"] >= 0 and score.cost["tokens"] > 0
    assert "rouge1" in card.table() and "90% interval" in card.table() and "signatures" in card.table()


def test_scorecard_goes_to_json_and_pandas(tmp_path):
    card = summarily.score(PREDICTIONS, REFERENCES, metrics=["rouge"], confidence=0.95)
    path = tmp_path / "scores.json"
    card.to_json(path)
    loaded = json.loads(path.read_text())["scores"]["rouge"]
    assert loaded["mean"] == card["rouge"].mean and loaded["per_example"] == card["rouge"].per_example
    frame = card.to_pandas()
    assert frame.shape[0] == 12 and list(frame["rouge1"]) == card["rouge"].per_example["rouge1"]
    assert json.loads(card.to_json()) == card.to_dict()


def test_metrics_can_be_labelled_and_configured():
    card = summarily.score(
        PREDICTIONS,
        REFERENCES,
        metrics={"stemmed": load("rouge", stemmer=True), "rouge": {"types": ["rouge1"]}},
    )
    assert card["stemmed"].mean["rouge1"] > card["rouge"].mean["rouge1"], "dogs and dog match when stemmed"
    assert {"stemmed.rouge1", "rouge.rouge1", "rouge2"} <= set(card.to_pandas().columns)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("rogue", "there is no metric 'rogue'; did you mean 'rouge'"),
        ([], "metrics is empty"),
        (["rouge", "rouge"], "asked for twice"),
        (3, "metrics is a int"),
        ({"rouge": {"stemer": True}}, "rouge has no option 'stemer'; did you mean 'stemmer'"),
    ],
)
def test_a_wrong_selection_of_metrics_is_an_error_that_helps(metrics, message):
    with pytest.raises(InputError, match=message):
        summarily.score(["a"], ["a"], metrics=metrics)


def test_all_skips_what_cannot_run_and_says_why(monkeypatch):
    from summarily.metrics.rouge.scorer import Rouge

    def missing(self):
        raise MissingRequirement('pip install "something"')

    monkeypatch.setattr("summarily.metrics.METRICS", {"rouge": "Rouge"})
    assert list(summarily.score(["a"], ["a"])) == ["rouge"]
    monkeypatch.setattr(Rouge, "check", missing)
    card = summarily.score(["a"], ["a"], metrics={"lengths": Lengths()})
    assert not card.skipped
    with pytest.raises(MissingRequirement):
        summarily.score(["a"], ["a"], metrics="rouge")
    from summarily.metrics import load_all

    assert load_all("all") == ({}, {"rouge": 'pip install "something"'})


def test_pooled_scores_weigh_examples_and_add_up():
    metric = Lengths(pooled=True)
    score = metric.compute(["aa", "aaaa"], [["x"], ["x", "y", "z"]])
    assert score.mean["lengths"] == (2 * 1 + 4 * 3) / 4
    other = metric.compute(["aaaa"], [["x", "y"]])
    both = score + other
    assert both.mean["lengths"] == (2 * 1 + 4 * 3 + 4 * 2) / 6 and both.counts == {"seen": 3}
    assert both.cost["tokens"] == 3


def test_scores_with_other_corpus_statistics_do_not_add_up_but_states_do():
    metric = Lengths()
    with pytest.raises(InputError, match="different signatures"):
        metric.compute(["aa"], ["x"]) + metric.compute(["aaaa"], ["x"])
    merged = (metric.state(["aa"], ["x"]) + metric.state(["aaaa"], ["x"])).score()
    assert str(merged.signature).startswith("lengths|pooled:no|longest:4|")
    with pytest.raises(InputError, match="differently configured"):
        metric.state(["a"], ["a"]) + Lengths(pooled=True).state(["a"], ["a"])


def test_chunks_are_bounded_and_examples_that_share_references_stand_together():
    metric = Lengths()
    order = []
    original = metric.score_examples
    metric.score_examples = lambda examples, statistics: (
        order.extend(e.references[0] for e in examples),
        original(examples, statistics),
    )[1]
    score = metric.compute([str(i) * (i + 1) for i in range(600)], ["x", "y", "z"] * 200)
    assert max(metric.calls) <= 256 and sum(metric.calls) == 600
    assert order == ["x"] * 200 + ["y"] * 200 + ["z"] * 200
    assert score.per_example["lengths"] == [len(str(i) * (i + 1)) for i in range(600)]


def test_explanations_are_of_the_right_row_also_after_adding():
    metric = load("rouge")
    a, b = metric.compute(["a cat"], ["a cat"]), metric.compute(["a dog", "a cow"], ["no dog", "a cow"])
    assert (a + b).explain(2) == b.explain(1) == (a + b).explain(-1)
    with pytest.raises(IndexError, match="row 3 is out of range"):
        (a + b).explain(3)
    assert Score("x", {"x": [1.0]}, Signature("x")).per_example
    with pytest.raises(InputError, match="no longer holds its texts"):
        Score("x", {"x": [1.0]}, Signature("x")).explain(0)


def test_compare_ranks_and_tests_every_pair():
    references = [
        "the cat sat on the mat",
        "a dog barked all night",
        "snow fell in the north of the country",
    ] * 6
    good = ["the cat sat on a mat", "a dog barked at night", "snow fell in the north"] * 6
    poor = ["cats", "some dog", "weather news in the country"] * 6
    result = summarily.compare({"poor": poor, "good": good, "again": good}, references, metrics="rouge")
    assert result.ranking == {"rouge": ["good", "again", "poor"]}
    pairs = {(pair.first, pair.second): pair for pair in result.pairs}
    assert set(pairs) == {("poor", "good"), ("poor", "again"), ("good", "again")}
    worse = pairs["poor", "good"]
    assert worse.test.difference < 0 and worse.test.p_permutation < 0.01 and worse.test.p_bootstrap < 0.01
    assert worse.p_holm >= worse.test.p_permutation
    assert pairs["good", "again"].test.p_permutation == 1
    table = result.table()
    assert "good ~ again > poor" in table and "poor - good" in table
    assert result.to_pandas().shape[0] == 54
    assert json.loads(result.to_json())["pairs"][0]["metric"] == "rouge"
    assert result.cards["good"]["rouge"].explain(1)


class Errors(Metric):
    """Characters too many or too few: less is better."""

    name, summary = "errors", "for tests"
    keys = (Key("errors", higher_is_better=False),)

    def signature_fields(self, statistics):
        return {}

    def score_examples(self, examples, statistics):
        return Values({"errors": [abs(len(e.prediction) - len(e.references[0])) for e in examples]})


def test_compare_says_which_is_better_where_less_is():
    systems = {"near": ["aaa", "aaaa"], "far": ["a", "aaaaaaaa"], "as near": ["aaaa", "aaa"]}
    result = summarily.compare(systems, ["aaa", "aaaa"], metrics=Errors())
    assert result.ranking == {"errors": ["near", "as near", "far"]}
    better = {(pair.first, pair.second): pair.better for pair in result.pairs}
    assert better == {("near", "far"): "near", ("near", "as near"): "near", ("far", "as near"): "as near"}
    assert [pair["better"] for pair in result.to_dict()["pairs"]] == list(better.values())
    table = result.table()
    assert "errors (lower is better)" in table and "near ~ as near ~ far" in table
    assert re.search(r"near - far .* - *$", table, re.M) and all(
        result.winner(p) is None for p in result.pairs
    )
    many = {name: texts * 6 for name, texts in systems.items() if name != "as near"}
    shown = summarily.compare(many, ["aaa", "aaaa"] * 6, metrics=Errors())
    assert re.search(r"near - far .* near *$", shown.table(), re.M) and shown.winner(shown.pairs[0]) == "near"
    same = summarily.compare({"A": ["a", "b"], "B": ["a", "b"]}, ["aa", "b"], metrics=Errors())
    assert [pair.better for pair in same.pairs] == [None]


def test_a_key_keeps_its_direction_through_sums_processes_and_json():
    score = Errors().compute(["a", "bb"], ["aa", "bb"])
    for kept in (
        score,
        score + score,
        pickle.loads(pickle.dumps(score.per_example)),
        copy.deepcopy(score.mean),
    ):
        [key] = kept if isinstance(kept, dict) else kept.mean
        assert key == "errors" and not key.higher_is_better
    assert score.to_dict()["lower_is_better"] == ["errors"]
    assert "lower_is_better" not in summarily.score(["a"], ["a"], metrics="rouge")["rouge"].to_dict()
    assert "errors (lower is better)" in summarily.score(["a"], ["a"], metrics=Errors()).table()


def test_a_value_asked_for_by_name_keeps_its_direction():
    score = Errors().compute(["a", "bb"], ["aa", "bb"])
    assert score.plot("errors").get_xlabel() == score.label("errors") == "errors (lower is better)"
    result = summarily.compare({"near": ["aa", "bb"], "far": ["a", "b"]}, ["aa", "bb"], metrics=Errors())
    for ask in (score.plot, score.label, lambda name: result.best("errors", name)):
        with pytest.raises(InputError, match=r"errors has no score 'error'; did you mean 'errors'\?"):
            ask("error")


def test_a_reward_rises_with_what_is_better():
    assert Errors().reward(["aaa", "aa"], ["a", "a"]) == [-2, -1]


def test_compare_scores_equal_those_of_score():
    systems = {"A": PREDICTIONS, "B": PREDICTIONS[::-1]}
    result = summarily.compare(systems, REFERENCES, metrics="rouge")
    for name, predictions in systems.items():
        alone = summarily.score(predictions, REFERENCES, metrics="rouge", confidence=0.95)["rouge"]
        assert result.cards[name]["rouge"].per_example == alone.per_example
        assert result.cards[name]["rouge"].interval == alone.interval


def test_compare_names_the_system_with_the_bad_row():
    with pytest.raises(InputError, match=r"system 'B': predictions\[1\] is None"):
        summarily.compare({"A": ["a", "b"], "B": ["a", None]}, ["a", "b"])
    with pytest.raises(InputError, match="at least two names"):
        summarily.compare({"A": ["a"]}, ["a"])


def test_inputs_may_be_arrays_columns_and_generators():
    import datasets
    import numpy as np
    import pandas as pd

    table = datasets.Dataset.from_dict({"p": ["a cat"], "r": [["a cat", "b"]]})
    for predictions, references in (
        (np.array(["a cat"]), np.array(["a cat"])),
        (pd.Series(["a cat"]), pd.Series(["a cat"])),
        (table["p"], table["r"]),
        ((text for text in ["a cat"]), ("a cat",)),
    ):
        (example,) = make_examples(predictions, references)
        assert example.prediction == "a cat" and type(example.prediction) is str
        assert example.references[0] == "a cat"


def test_sources_must_match_too():
    with pytest.raises(InputError, match="predictions has 1 rows but sources has 2"):
        make_examples(["a"], ["a"], ["s", "t"])
    with pytest.raises(InputError, match=r"sources\[0\] is None"):
        make_examples(["a"], ["a"], [None])


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    write_atomically(path, "old")
    monkeypatch.setattr(
        "os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_meter_sees_memory_and_time():
    """In a process of its own: the system may take back idle pages of a large one while the block grows."""
    import subprocess
    import sys

    code = """if True:
        from summarily.metrics.cost import Meter
        with Meter() as meter:
            block = bytearray(64 * 1024 * 1024)
            block[::4096] = b"x" * len(block[::4096])
        assert meter.peak_memory > 50 * 1024 * 1024 and meter.seconds > 0, meter.peak_memory
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)


def test_compare_takes_generators_and_wants_a_confidence():
    references = ["the cat sat", "a dog barked"]
    systems = {"A": references, "B": ["a cat", "no dog"]}
    given = summarily.compare(systems, (text for text in references), metrics="rouge")
    assert given.ranking == {"rouge": ["A", "B"]}
    with pytest.raises(InputError, match="compare needs a confidence"):
        summarily.compare(systems, references, metrics="rouge", confidence=None)


def test_a_write_goes_through_links_and_leaves_pipes_alone(tmp_path):
    import os
    import threading

    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    received: list[str] = []
    reader.start()
    write_atomically(pipe, "through")
    reader.join(300)
    assert received == ["through"] and pipe.is_fifo()


def test_the_level_of_an_interval_is_shown_as_it_was_asked_for():
    card = summarily.score(PREDICTIONS, REFERENCES, metrics="rouge", confidence=0.995)
    assert "99.5% interval" in card.table()


def test_costs_add_up_and_peaks_do_not():
    a, b = (Score("x", {"x": [1.0]}, Signature("x"), cost={"seconds": 1.0, "peak_memory": p}) for p in (5, 3))
    assert (a + b).cost == {"seconds": 2.0, "peak_memory": 5}


def test_a_forked_process_has_a_sampler_of_its_own():
    import subprocess
    import sys

    code = """
import os, time
from summarily.metrics.cost import Meter, _sampler
with Meter():
    pass  # the sampler of this process runs now; a fork does not inherit its thread
if os.fork() == 0:
    with Meter() as meter:
        block = bytearray(64 * 1024 * 1024)
        block[::4096] = b"x" * len(block[::4096])
        until = time.monotonic() + 600
        while meter.peak_memory < len(block) and time.monotonic() < until:
            time.sleep(0.02)  # only a thread that looks meanwhile can see it
        del block
    os._exit(0 if meter.peak_memory > 50 * 1024 * 1024 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=900).returncode == 0


def test_compare_weighs_the_examples_of_a_pooled_metric():
    # Weights are the numbers of references, 1 and 3: the lengths 2 and 4 pool to 14 / 4, 5 and 1 to 8 / 4.
    systems = {"A": ["aa", "aaaa"], "B": ["aaaaa", "a"]}
    references = [["x"], ["x", "y", "z"]]
    result = summarily.compare(systems, references, metrics={"lengths": Lengths(pooled=True)})
    assert {name: float(card["lengths"]) for name, card in result.cards.items()} == {"A": 3.5, "B": 2.0}
    assert result.cards["B"]["lengths"].weights == [1.0, 3.0]
    (pair,) = result.pairs
    assert pair.test == paired_test([2, 4], [5, 1], weights=[1, 3]) and pair.test.difference == 1.5
    assert pair.test != paired_test([2, 4], [5, 1])


def test_weights_concern_the_pooled_keys_of_a_score_alone():
    columns = {"pooled": [1.0, 0.0, 0.5, 1.0] * 3, "plain": [3.0, 1.0, 2.0, 2.0] * 3}
    weights = [1.0, 5.0, 2.0, 4.0] * 3
    score = Score("x", columns, Signature("x"), weights=weights, averaged=("plain",)).with_interval(0.9)
    assert score.mean == {"pooled": 6 / 12, "plain": 2.0}
    expected = mean_intervals({"pooled": columns["pooled"]}, 0.9, weights)
    expected |= mean_intervals({"plain": columns["plain"]}, 0.9)
    assert {key: tuple(interval) for key, interval in score.interval.items()} == {
        key: (*ends, 0.9) for key, ends in expected.items()
    }
    assert expected["plain"] != mean_intervals({"plain": columns["plain"]}, 0.9, weights)["plain"]


class Encoding(Lengths):
    """A metric that wants texts encoded: its predictions, in these layers."""

    def __init__(self, encoder, layers):
        super().__init__()
        self.encoder, self.layers = encoder, layers

    def requests(self, examples):
        texts = [example.prediction for example in examples]
        return [SimpleNamespace(encoder=self.encoder, texts=texts, layers=self.layers)]


class SlowEncoder:
    def __init__(self):
        self.calls = []

    def prefetch(self, texts, layers):
        self.calls.append((texts, layers))
        time.sleep(0.02)


def test_metrics_share_their_encoder_passes_and_all_are_charged_for_them():
    encoder, other = SlowEncoder(), SlowEncoder()
    metrics = {
        "a": Encoding(encoder, [2]),
        "b": Encoding(encoder, [5, 1]),
        "c": Encoding(other, [1]),
        "d": Lengths(),
    }
    card = summarily.score(["x", "yy", "x"], ["r"] * 3, metrics=metrics)
    assert encoder.calls == [(["x", "yy"], [1, 2, 5])] and other.calls == [(["x", "yy"], [1])]
    shared = {label: score.cost["shared_seconds"] for label, score in card.items()}
    assert shared["a"] == shared["b"] >= 0.02 <= shared["c"] and shared["d"] == 0
    assert all(score.cost["tokens"] == 3 for score in card.values())


def test_chunks_are_bounded_by_characters_too(monkeypatch):
    from summarily.metrics import engine

    monkeypatch.setattr(engine, "CHUNK_CHARACTERS", 10)
    metric = Lengths()
    # With a reference of one and a source of two characters: 5 + 5, then 6, then 20 alone, then 5.
    metric.compute(["aa", "aa", "aaa", "a" * 17, "aa"], ["r"] * 5, ["ss"] * 5)
    assert metric.calls == [2, 1, 1, 1]


def test_work_of_several_processes_is_merged():
    first, second = Tally(), Tally()
    first.add(
        [0, 2],
        Values({"x": [1, 3]}, {"seen": 2}, tokens=5, weights=[1, 1]),
        SimpleNamespace(seconds=2.0, peak_memory=7),
    )
    second.add(
        [1],
        Values({"x": [2]}, {"seen": 1}, tokens=4, weights=[3]),
        SimpleNamespace(seconds=3.0, peak_memory=6),
    )
    first.spend(shared_seconds=0.5)
    first.merge(second)
    assert (first.rows, first.per_example, first.weights) == (
        [0, 2, 1],
        {"x": [1.0, 3.0, 2.0]},
        [1.0, 1.0, 3.0],
    )
    assert first.counts == {"seen": 3}
    assert first.cost == {"seconds": 3.0, "shared_seconds": 0.5, "tokens": 9, "peak_memory": 7}


def test_weights_and_values_return_to_the_order_they_were_given_in():
    # Rows that share references are scored together: the third before the second.
    metric = Lengths(pooled=True)
    score = metric.compute(["a", "bb", "ccc"], [["x"], ["y", "z"], ["x"]])
    assert score.per_example["lengths"] == [1.0, 2.0, 3.0] and score.weights == [1.0, 2.0, 1.0]
    assert score.mean["lengths"] == (1 + 4 + 3) / 4


@pytest.mark.parametrize("world", [2, 3, 5])
def test_processes_share_the_rows_without_gaps(world, monkeypatch):
    from summarily.metrics import engine

    predictions, references = ["a" * n for n in range(1, 12)], ["x", "y", "z", "x"] * 2 + ["x", "y", "w"]
    parts, shown = [], []
    original = engine.score_rows

    def score_rows(*arguments):
        parts.append(original(*arguments))
        shown.append(arguments[-1])
        return parts[-1]

    monkeypatch.setattr(engine, "score_rows", score_rows)
    monkeypatch.setattr(engine, "_gather", lambda tallies: tallies)
    for rank in range(world):
        monkeypatch.setattr(engine, "rank_and_world", lambda rank=rank: (rank, world))
        summarily.score(predictions, references, metrics=Lengths(), distributed=True, progress=True)
    rows = [row for part in parts for row in part["lengths"].rows]
    assert sorted(rows) == list(range(11)) and rows[:5] == [0, 3, 4, 7, 8], "equal references stand together"
    assert max(len(part["lengths"].rows) for part in parts) == -(-11 // world)
    assert all(part["lengths"].cost["processes"] == world for part in parts)
    assert shown == [True] + [False] * (world - 1), "one process shows how far it is"

    whole = Tally()
    for part in parts:
        whole.merge(part["lengths"])
    monkeypatch.setattr(engine, "_gather", lambda tallies: {"lengths": whole})
    score = summarily.score(predictions, references, metrics=Lengths(), distributed=True)["lengths"]
    assert score.per_example["lengths"] == [float(n) for n in range(1, 12)] and score.counts == {"seen": 11}


def test_what_one_system_is_given_is_what_it_is_compared_on():
    class Echo(Lengths):
        def explain(self, prediction, references, source=None, statistics=None):
            return {"given": (prediction, references, source, statistics)}

    systems = {"A": ["a", "aa", "aaa"], "B": ["bbbb", "bbb", "b"], "C": ["c", "c", "cc"]}
    references, sources = [["x"], ["y"], ["z"]], ["s", "t", "u"]
    result = summarily.compare(systems, references, sources, metrics=Echo(), confidence=0.8)
    assert result.confidence == 0.8 and result.cards["B"]["lengths"].counts == {}
    # Statistics, here the longest prediction, are of all systems.
    assert result.cards["B"]["lengths"].explain(2) == {"given": ("b", ("z",), "u", 4)}
    assert {str(card["lengths"].signature) for card in result.cards.values()} == {
        f"lengths|pooled:no|longest:4|version:{summarily.__version__}"
    }
    lengths = {name: [float(len(text)) for text in texts] for name, texts in systems.items()}
    tests = [paired_test(lengths[a], lengths[b], 0.8) for a, b in ("AB", "AC", "BC")]
    assert [pair.test for pair in result.pairs] == tests
    assert [(pair.first, pair.second) for pair in result.pairs] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert [pair.p_holm for pair in result.pairs] == holm([test.p_permutation for test in tests])
    for name, values in lengths.items():
        interval = result.cards[name]["lengths"].interval["lengths"]
        assert tuple(interval) == (*mean_intervals({"x": values}, 0.8)["x"], 0.8)
    assert result.to_dict()["pairs"][1] == {
        "metric": "lengths",
        "first": "A",
        "second": "C",
        **tests[1]._asdict(),
        "p_holm": result.pairs[1].p_holm,
        "better": "A",
    }
    assert result.to_dict()["confidence"] == 0.8


def test_tables_show_every_number():
    metric = Lengths()
    card = summarily.score(["aa", "aaaa"], ["x", "y"], metrics=metric, confidence=0.9)
    score = card["lengths"]
    score.cost |= {"seconds": 1.234, "shared_seconds": 0.5, "peak_memory": 3 * 2**20}
    card.skipped = {"other": "not here"}
    low, high = mean_intervals({"x": [2.0, 4.0]}, 0.9)["x"]
    assert [line.rstrip() for line in card.table().splitlines()] == [
        "metric   value      mean       90% interval  seconds  encoding  peak MB",
        "-" * 71,
        f"lengths  lengths  3.0000  {low:.4f} to {high:.4f}     1.23      0.50        3",
        "",
        too_few(2),
        "",
        "counted",
        "lengths: seen 2",
        "",
        "skipped",
        "other: not here",
        "",
        "signatures",
        str(score.signature),
    ]
    assert "signatures" not in card.table(signatures=False)
    with pytest.raises(KeyError, match="other was skipped: not here"):
        card["other"]
    assert repr(card) == "Scorecard(lengths: 3.0000)" and len(card) == 1

    result = summarily.compare({"A": ["aa", "aaaa"], "B": ["a", "aa"]}, ["x", "y"], metrics=metric)
    test = paired_test([2, 4], [1, 2])
    header, _, pair = (line.split("  ") for line in result.table().splitlines()[4:7])
    assert [cell.strip() for cell in header if cell.strip()][3] == "95% interval"
    assert [cell.strip() for cell in pair if cell.strip()] == [
        "lengths",
        "A - B",
        "+1.5000",
        f"{test.low:+.4f} to {test.high:+.4f}",
        "-",
        f"{test.p_permutation:.4f}",
        f"{test.p_permutation:.4f}",
        "-",  # two texts show no difference
    ]
    low, high = mean_intervals({"x": [1.0, 2.0]}, 0.95)["x"]
    assert result.table().splitlines()[2].endswith(f"1.5000 [{low:.4f}, {high:.4f}]")
    ranking = ["ranking (> differs at p Holm < 0.05, ~ may be chance)", "lengths: A ~ B", ""]
    assert result.table().splitlines()[-5:-2] == ranking


def test_chunks_hold_as_much_as_they_may(monkeypatch):
    from summarily.metrics import engine

    monkeypatch.setattr(engine, "CHUNK_EXAMPLES", 3)
    metric = Lengths()
    metric.compute(["a"] * 7, ["r"] * 7)
    assert metric.calls == [3, 3, 1]


def test_tables_of_few_examples_say_that_they_are_too_few():
    texts = ["the cat sat", "a dog barked"]
    assert "Only 2 examples" in summarily.score(texts, texts, metrics="rouge", confidence=0.95).table()
    assert (
        "Only" not in summarily.score(texts, texts, metrics="rouge").table()
    )  # no interval, nothing to say about it
    table = summarily.compare({"A": texts, "B": ["a cat", "the dog"]}, texts, metrics="rouge").table()
    assert "cannot go below p = 0.5" in table and "A ~ B" in table and "A > B" not in table


def test_the_best_share_their_place_unless_the_difference_holds():
    texts = [f"the cat number {i} sat on the mat" for i in range(12)]
    worse = ["a dog"] * 12
    close = [texts[0].replace("sat", "lay"), *texts[1:]]
    result = summarily.compare({"A": texts, "B": worse, "C": close}, texts, metrics="rouge")
    assert result.best("rouge") == result.best("rouge", "rouge2") == ["A", "C"]
    assert "rouge1: A ~ C > B" in result.table()
    two = summarily.compare({"A": texts, "B": worse}, texts, metrics="rouge")
    assert two.best("rouge") == two.best("rouge", "rougeL") == ["A"]


def test_the_best_by_any_value_is_as_sure_as_by_the_main_score():
    texts = [f"the cat number {i} sat on the mat" for i in range(20)]
    systems = {"A": texts, "B": ["a dog"] * 20}
    # 10,000 resamples can say p = 1/10001; 2,000 would leave both in the first place.
    result = summarily.compare(systems, texts, metrics="rouge", confidence=0.9998)
    assert result.best("rouge", "rouge1") == result.best("rouge", "rougeL") == ["A"]


def test_all_metrics_take_options_of_some():
    from summarily.metrics import load_all

    chosen, _ = load_all({"all": {}, "rouge": {"stemmer": True}})
    assert chosen["rouge"].stemmer and len(chosen) > 1
    with pytest.raises(InputError, match="no metric 'rogue'"):
        load_all({"all": {}, "rogue": {}})


def test_recall_stands_beside_f_in_every_table_and_leads_where_nobody_chose():
    rows = summarily.load_sample()[:12]
    references = [row["references"] for row in rows]
    systems = {name: [row[name] for row in rows] for name in ("good", "mediocre", "broken")}
    options = {"bertscore": {}, "rouge": {"split_sentences": True}}
    result = summarily.compare(systems, references, metrics=options)
    table = result.table(signatures=False)
    assert max(map(len, table.splitlines())) <= 100
    first = [line.split()[0] for line in table.splitlines() if line][2:6]
    assert first == ["bertscore_recall", "bertscore", "rouge1", "rouge1_recall"]
    assert "bertscore_recall: good > mediocre > broken" in table
    assert result.best() == ["good"] == result.best("bertscore", "bertscore_recall")
    assert result.pairs[0].key == "bertscore_recall"
    html = result._repr_html_()
    assert html.index("bertscore_recall") < html.index("rouge1_recall")
    card = summarily.score(systems["good"], references, metrics=options, confidence=0.95)
    lines = [line.split() for line in card.table(signatures=False).splitlines()]
    assert max(map(len, card.table(signatures=False).splitlines())) <= 100
    shown = [line[1] if line[0] in ("bertscore", "rouge") and "_" not in line[0] and line[1][0].isalpha() else line[0]
             for line in lines[2:8]]  # fmt: skip
    assert shown == [
        "bertscore_recall", "bertscore", "bertscore_precision", "rouge1", "rouge1_recall", "rouge1_precision",
    ]  # fmt: skip
    assert float(card["bertscore"]) == card["bertscore"].mean["bertscore_recall"]
