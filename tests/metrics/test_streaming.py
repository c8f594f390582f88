"""Streams: the numbers of `score`, in windows, killed and gone on with, with rows that cannot be scored."""

import json
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import summarily
from summarily.metrics.resampling import mean_intervals
from summarily.metrics.streaming import Columns, ExactSum, poisson_draws, score_stream, scorer
from summarily.support.errors import FileError, InputError, SummarilyWarning
from summarily.support.sample import load_sample
from summarily.support.streams import stream_table
from tests.metrics import tiny


def pairs(times=8):
    """More rows than the sample has: every system of it, several times over, each with a word of its own."""
    rows = []
    for n in range(times):
        for row in load_sample():
            for system in ("good", "mediocre", "broken"):
                rows.append(
                    {
                        "prediction": f"{row[system]} {n}",
                        "references": row["references"],
                        "source": row["source"],
                    }
                )
    return rows


ROWS = pairs()
OPTIONS = {"metrics": {"rouge": {"types": ["rouge1", "rougeL"]}}, "confidence": 0.95}


def whole(rows=ROWS, **options):
    return summarily.score(
        [r["prediction"] for r in rows], [r["references"] for r in rows], **(OPTIONS | options)
    )


def test_a_stream_without_line_breaks_warns_once_of_rougelsum(tmp_path):
    told = {"rouge": {"types": ["rougeLsum"]}}
    with pytest.warns(SummarilyWarning, match="rougeLsum compares line by line") as caught:
        score_stream(iter(ROWS), metrics=told, window=300, output=tmp_path / "scores.parquet")
    assert [found.filename for found in caught] == [__file__]  # three windows, one warning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score_stream(ROWS, metrics={"rouge": {"types": ["rougeLsum"], "split_sentences": True}})


def write_parquet(path, rows):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=64)
    return str(path)


def test_a_stream_has_the_means_of_score_to_the_last_bit():
    expected = whole()["rouge"]
    found = score_stream(iter(ROWS), window=37, **OPTIONS)["rouge"]
    assert found.mean == expected.mean
    assert str(found.signature) == str(expected.signature) and found.counts == expected.counts
    assert len(found) == len(ROWS)
    for key, ends in found.interval.items():
        width = expected.interval[key].high - expected.interval[key].low
        assert ends.low == pytest.approx(expected.interval[key].low, abs=0.1 * width)
        assert ends.high == pytest.approx(expected.interval[key].high, abs=0.1 * width)


def test_intervals_do_not_depend_on_the_windows():
    one, other = (score_stream(ROWS, window=size, **OPTIONS)["rouge"] for size in (len(ROWS), 41))
    for key in one.interval:
        assert one.interval[key] == pytest.approx(other.interval[key], abs=1e-9)


def test_sums_round_once():
    generator = np.random.default_rng(0)
    values = (generator.normal(size=2000) * 10.0 ** generator.integers(-12, 12, 2000)).tolist()
    total = ExactSum()
    for start in range(0, 2000, 7):
        total.add(values[start : start + 7])
        total = ExactSum(json.loads(json.dumps(total.partials)))
    import math

    assert float(total) == math.fsum(values)


def test_draws_are_poisson_and_of_the_place_alone():
    draws = poisson_draws(0, 1000, 200)
    assert (draws[0] == 1).all()
    assert draws[1:].mean() == pytest.approx(1, abs=0.02) and draws[1:].var() == pytest.approx(1, abs=0.03)
    assert (poisson_draws(513, 100, 200) == draws[:, 513:613]).all()


def test_intervals_are_those_of_the_bootstrap_for_pooled_scores():
    """APES pools questions: the weight of a row is their number."""
    from summarily.metrics.base import Metric, Values

    class Pooled(Metric):
        name, summary, keys, averaged = "pooled", "", ("pooled", "length"), ("length",)

        def signature_fields(self, statistics):
            return {}

        def score_examples(self, examples, statistics):
            sizes = [float(len(e.prediction)) for e in examples]
            return Values({"pooled": [s % 7 for s in sizes], "length": sizes}, weights=[s % 3 for s in sizes])

    metric = Pooled()
    expected = metric.compute(
        [r["prediction"] for r in ROWS], [r["references"] for r in ROWS], confidence=0.9
    )
    found = score_stream(ROWS, {"pooled": metric}, confidence=0.9, window=50)["pooled"]
    assert found.mean == expected.mean
    for key in metric.keys:
        width = expected.interval[key].high - expected.interval[key].low
        assert found.interval[key][:2] == pytest.approx(expected.interval[key][:2], abs=0.1 * width)


def test_a_constant_has_no_width():
    same = [{"prediction": "a cat", "reference": "a cat"}] * 30
    assert score_stream(same, "rouge")["rouge"].interval["rouge1"][:2] == (1.0, 1.0)
    three = score_stream(ROWS[:4], **OPTIONS)["rouge"]
    columns = whole(ROWS[:4])["rouge"].per_example
    low, high = mean_intervals({"rouge1": columns["rouge1"]})["rouge1"]
    assert three.interval["rouge1"][:2] == pytest.approx((low, high), abs=1e-9), "few rows: Student's t"


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "folder"])
def test_tables_of_every_kind_are_streamed(tmp_path, ending):
    rows = [
        {"prediction": row["prediction"], "reference": row["references"][0], "other": "x"}
        for row in ROWS[:40]
    ]
    path = tmp_path / f"table.{ending}"
    if ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif ending == "csv":
        import pandas

        pandas.DataFrame(rows).to_csv(path, index=False)
    elif ending == "parquet":
        write_parquet(path, rows)
    else:
        path = tmp_path
        write_parquet(tmp_path / "b.parquet", rows[25:])
        write_parquet(tmp_path / "a.parquet", rows[:25])
    expected = summarily.score([r["prediction"] for r in rows], [r["reference"] for r in rows], **OPTIONS)
    assert score_stream(str(path), **OPTIONS)["rouge"].mean == expected["rouge"].mean


def test_an_iterable_dataset_is_streamed_and_a_dataset_is_mapped():
    import datasets

    data = datasets.Dataset.from_list(ROWS[:30])
    expected = whole(ROWS[:30])["rouge"]
    assert score_stream(data.to_iterable_dataset(), **OPTIONS)["rouge"].mean == expected.mean
    mapped = data.map(scorer(OPTIONS["metrics"]), batched=True, batch_size=11)
    assert mapped["rougeL"][:] == expected.per_example["rougeL"]
    with pytest.raises(InputError, match="a batch is not one"):
        scorer({"bertscore": {"idf": True}})({"prediction": ["a"], "reference": ["b"]})


def test_idf_is_counted_by_a_first_pass_that_adds_up():
    metric = {"bertscore": {"model": tiny.checkpoint("bert"), "idf": True}}
    expected = whole(ROWS[:60], metrics=metric)["bertscore"]
    found = score_stream(ROWS[:60], metric, window=16)["bertscore"]
    assert str(found.signature) == str(expected.signature)
    assert found.mean == pytest.approx(expected.mean, abs=1e-6)
    with pytest.raises(InputError, match="an iterator can be read once"):
        score_stream(iter(ROWS[:60]), metric)


def test_a_text_that_comes_again_in_a_window_is_encoded_once(monkeypatch):
    """In whatever chunk; each window begins with nothing, so that its scores are those of any process."""
    from summarily.metrics import encoding, engine

    monkeypatch.setattr(engine, "CHUNK_EXAMPLES", 5)
    metric = {"bertscore": {"model": tiny.checkpoint("bert")}}
    rows = [{"prediction": row["prediction"], "reference": row["references"][0]} for row in ROWS[:48:3]]
    rows += [{"prediction": row["reference"], "reference": row["prediction"]} for row in rows]
    shared = encoding.encoder(tiny.checkpoint("bert"))
    passes = []
    for stream in (rows, rows * 2, rows * 3):
        before = shared.forward_passes
        score_stream(stream, metric, window=64, confidence=None)
        passes.append(shared.forward_passes - before)
    assert passes == [32, 32, 64], "16 pairs of different texts, in one window, in one and in two"


# --- what is kept -----------------------------------------------------------------------------------------


def test_scores_of_the_rows_are_written(tmp_path):
    output = tmp_path / "scores.parquet"
    score_stream(ROWS, window=50, output=output, **OPTIONS)
    table = pyarrow.parquet.read_table(output).to_pydict()
    expected = whole()["rouge"].per_example
    assert table["row"] == list(range(len(ROWS))) and table["rougeL_recall"] == expected["rougeL_recall"]
    assert [path.name for path in tmp_path.iterdir()] == ["scores.parquet"]


def test_bad_rows_are_named_and_nothing_else_is_lost(tmp_path):
    rows = [dict(row) for row in ROWS[:20]]
    rows[3]["prediction"] = None
    rows[7] = {"prediction": "a"}
    rows[11]["references"] = []
    output = tmp_path / "scores.parquet"
    card = score_stream(rows, on_error="skip", output=output, window=6, **OPTIONS)
    good = [row for place, row in enumerate(rows) if place not in (3, 7, 11)]
    assert (card.rows, card.errors) == (17, 3) and card["rouge"].mean == whole(good)["rouge"].mean
    assert "17 rows, 3 left out" in card.table()
    errors = [
        json.loads(line) for line in (tmp_path / "scores.parquet.errors.jsonl").read_text().splitlines()
    ]
    assert [error["row"] for error in errors] == [3, 7, 11]
    assert "None" in errors[0]["reason"] and "'reference'" in errors[1]["reason"]
    written = pyarrow.parquet.read_table(output).to_pydict()["row"]
    assert written == [place for place in range(20) if place not in (3, 7, 11)]
    with pytest.raises(InputError, match=r"row 3: .*on_error='skip'"):
        score_stream(rows, **OPTIONS)
    broken = tmp_path / "table.jsonl"
    broken.write_text(
        '{"prediction": "a", "reference": "a"}\n{"prediction"\n{"prediction": "b", "reference": "a"}\n'
    )
    assert score_stream(str(broken), on_error="skip", **OPTIONS).errors == 1


KILLED = """
import os, signal, sys
from summarily.metrics import streaming
keep, calls = streaming._Kept.{method}, []
def killed(self, *arguments):
    calls.append(1)
    if len(calls) == {call} and not {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    keep(self, *arguments)
    if len(calls) == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
streaming._Kept.{method} = killed
streaming.score_stream(sys.argv[1], {metrics!r}, output=sys.argv[2], window=50)
"""


@pytest.mark.parametrize(
    ("method", "call", "after"),
    [("write", 3, False), ("write", 3, True), ("keep", 4, True), ("finish", 1, False)],
)
def test_a_killed_stream_goes_on_to_the_same_numbers(tmp_path, method, call, after):
    table, output = write_parquet(tmp_path / "rows.parquet", ROWS), tmp_path / "scores.parquet"
    code = KILLED.format(method=method, call=call, after=after, metrics=OPTIONS["metrics"])
    run = subprocess.run(
        [sys.executable, "-c", code, table, str(output)], capture_output=True, text=True, timeout=1800
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert not output.exists() and (tmp_path / "scores.parquet.partial").is_dir()
    from summarily.metrics import streaming

    scored = []
    score_rows = streaming.score_rows
    streaming.score_rows = lambda metrics, examples, *rest: (
        scored.append(len(examples)),
        score_rows(metrics, examples, *rest),
    )[1]
    try:
        found = score_stream(table, output=output, window=50, **OPTIONS)["rouge"]
    finally:
        streaming.score_rows = score_rows
    assert sum(scored) < len(ROWS), "what was kept is not scored again"
    again = score_stream(ROWS, window=50, **OPTIONS)["rouge"]
    assert found.mean == again.mean and found.interval == again.interval and found.counts == again.counts
    assert pyarrow.parquet.read_table(output).to_pydict()["row"] == list(range(len(ROWS)))
    assert not (tmp_path / "scores.parquet.partial").exists()


def test_another_run_does_not_go_on_from_this_one(tmp_path, monkeypatch):
    table, output = write_parquet(tmp_path / "rows.parquet", ROWS[:30]), tmp_path / "scores.parquet"
    from summarily.metrics import streaming

    monkeypatch.setattr(streaming._Kept, "finish", lambda self, done: None)
    score_stream(table, output=output, **OPTIONS)
    monkeypatch.undo()
    write_parquet(tmp_path / "rows.parquet", ROWS[5:30])
    assert score_stream(table, output=output, **OPTIONS).rows == 25


def test_mistakes_are_answered_before_anything_is_scored(tmp_path):
    with pytest.raises(InputError, match=r"name it with \.parquet"):
        score_stream(ROWS, output=tmp_path / "scores.json", **OPTIONS)
    with pytest.raises(FileError, match="there is no folder"):
        score_stream(ROWS, output=tmp_path / "no" / "scores.parquet", **OPTIONS)
    with pytest.raises(InputError, match="on_error is 'ignore'"):
        score_stream(ROWS, on_error="ignore", **OPTIONS)
    with pytest.raises(InputError, match="no rows to score"):
        score_stream([], **OPTIONS)
    with pytest.raises(InputError, match="no column 'summary'; the row has: prediction"):
        score_stream(ROWS, columns=Columns(prediction="summary"), **OPTIONS)
    with pytest.raises(InputError, match="keeps no rows"):
        score_stream(ROWS[:3], **OPTIONS).to_pandas()


def test_the_command_streams(tmp_path, capsys):
    from summarily.cli import main

    table, output = write_parquet(tmp_path / "rows.parquet", ROWS[:60]), tmp_path / "scores.parquet"
    assert main(["score", table, "--stream", "--metrics", "rouge", "--json", str(output)]) == 0
    assert "60 rows" in capsys.readouterr().out and output.is_file()
    assert main(["score", "--stream", "--sample"]) == 2
    assert "--stream and --engine read a table" in capsys.readouterr().err
    assert main(["score", table, "--on-error", "skip"]) == 2
    assert not list(Path(tmp_path).glob("*.partial"))


def test_of_a_parquet_file_no_more_is_held_than_a_part(tmp_path):
    file = tmp_path / "rows.parquet"
    generator = np.random.default_rng(0)
    with pyarrow.parquet.ParquetWriter(file, pyarrow.schema([("text", pyarrow.string())])) as writer:
        for _ in range(40):
            writer.write_table(pyarrow.table({"text": [generator.bytes(500).hex() for _ in range(100)]}))
    before = pyarrow.total_allocated_bytes()
    held = [pyarrow.total_allocated_bytes() - before for _ in stream_table(str(file), ["text"])]
    assert len(held) == 4000 and max(held) < file.stat().st_size / 2
