"""Scoring on Ray: the numbers of one process, with a worker lost, after a stop, and with rows that cannot be scored."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
import types
from pathlib import Path

import psutil
import pyarrow.parquet
import pytest

from summarily.cli import main
from summarily.metrics import streaming
from summarily.metrics.on_ray import _worker, score_on_ray
from summarily.metrics.streaming import score_stream
from summarily.support import cluster
from summarily.support.errors import FailedRunError, InputError, MissingRequirement
from tests.metrics import tiny
from tests.metrics.test_streaming import ROWS

ROUGE = {"rouge": {"types": ["rouge1", "rougeL"]}}


@pytest.fixture(scope="module")
def ray():
    """One Ray for all tests, begun and ended as a run does it; starting it takes seconds."""
    with cluster._started(None, 2) as (ray, _):
        yield ray


def write(folder, rows, sizes=(70, 30), row_group_size=32):
    """The rows as files whose ends are not those of windows or row groups."""
    folder.mkdir(exist_ok=True)
    first = 0
    for number, size in enumerate((*sizes, len(rows))):
        part = pyarrow.Table.from_pylist(rows[first : first + size])
        pyarrow.parquet.write_table(part, folder / f"{number}.parquet", row_group_size=row_group_size)
        first += size
    return str(folder)


def same(one, other):
    assert list(one) == list(other) and (one.rows, one.errors) == (other.rows, other.errors)
    for label, score in one.items():
        for name in ("mean", "interval", "counts"):
            assert getattr(other[label], name) == getattr(score, name), name
        assert str(other[label].signature) == str(score.signature)


def test_two_workers_have_the_numbers_of_one_process_to_the_last_bit(tmp_path, ray):
    rows = [dict(row) for row in ROWS[:110]]
    rows[3]["prediction"] = None
    rows[105]["references"] = []
    table = write(tmp_path / "table", rows)
    metrics = {**ROUGE, "bertscore": {"model": tiny.checkpoint("bert"), "idf": True}}
    options = {"on_error": "skip", "window": 20}
    expected = score_stream(table, metrics, output=tmp_path / "one.parquet", **options)
    found = score_on_ray(table, metrics, output=tmp_path / "many.parquet", workers=2, **options)
    same(expected, found)
    one, many = (pyarrow.parquet.read_table(tmp_path / name) for name in ("one.parquet", "many.parquet"))
    assert many.equals(one) and many.num_rows == 108
    lines = (tmp_path / "many.parquet.errors.jsonl").read_text()
    assert [json.loads(line)["row"] for line in lines.splitlines()] == [3, 105]
    assert lines == (tmp_path / "one.parquet.errors.jsonl").read_text()
    assert not list(tmp_path.glob("*.partial"))


def test_a_row_that_cannot_be_scored_stops_a_run_with_its_number(tmp_path, ray):
    rows = [*ROWS[:30], {**ROWS[0], "prediction": None}]
    table = write(tmp_path / "table", rows, ())
    with pytest.raises(InputError, match=r"row 30: .*\(on_error='skip'\)\.$"):
        score_on_ray(table, ROUGE, output=tmp_path / "scores.parquet", window=10, workers=1)
    assert not (tmp_path / "scores.parquet").exists()


def slow_worker(**options):
    """So that there is a middle of the run."""
    work = _worker(**options)

    def slowly(first, rows):
        time.sleep(0.1)
        return work(first, rows)

    return slowly


def kill_a_worker(windows: Path, written: list[int]) -> None:
    """As soon as a window is written; how many were by then."""
    deadline = time.monotonic() + 1800
    while time.monotonic() < deadline and not list(windows.glob("*.parquet")):
        time.sleep(0.02)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "(_Worker)" in " ".join(process.cmdline()):
                process.kill()
                written.append(len(list(windows.glob("*.parquet"))))


def test_a_lost_worker_is_replaced_and_a_stopped_run_goes_on(tmp_path, ray, monkeypatch):
    table = write(tmp_path / "table", ROWS * 3, (1000, 31), 512)
    output = tmp_path / "scores.parquet"
    windows = tmp_path / "scores.parquet.partial" / "windows"
    written: list[int] = []
    killer = threading.Thread(target=kill_a_worker, args=(windows, written))
    killer.start()

    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(streaming.Stream, "add_up", stop)
    monkeypatch.setattr("summarily.metrics.on_ray._worker", slow_worker)
    with pytest.raises(KeyboardInterrupt):
        score_on_ray(table, ROUGE, output=output, window=64, workers=1)
    monkeypatch.undo()
    killer.join()
    files = cluster.Results(windows).files
    assert written and written[0] < len(files) == 41, "killed in the middle, and all were scored"
    gone, cut, *kept = files.values()
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:50])
    dates = {file: file.stat().st_mtime_ns for file in kept}
    scored = []
    run = cluster.run
    monkeypatch.setattr(
        "summarily.metrics.on_ray.run", lambda *arguments: scored.append(run(*arguments)) or scored[0]
    )
    monkeypatch.setattr(streaming._Kept, "finish", lambda self, done: None)
    found = score_on_ray(table, ROUGE, output=output, window=64, workers=1)
    assert {file: file.stat().st_mtime_ns for file in kept} == dates, "what was kept is not scored again"
    assert set(scored[0].files) == set(files)
    same(score_stream(table, ROUGE, window=64), found)


def test_the_command_summarizes_on_ray(tmp_path, ray, capsys):
    from summarily import Summarizer

    rows = [{"source": row["source"]} for row in ROWS[:108:3]]
    rows.insert(2, {"source": None})
    table = write(tmp_path / "table", rows, (5,), 4)
    output = tmp_path / "summaries.parquet"
    command = ["summarize", table, "--model", "lead", "--engine", "ray", "--workers", "1"]
    assert main([*command, "--on-error", "skip", "--output", str(output)]) == 0
    assert f"{len(rows) - 1} summaries written to {output}, 1 left out" in capsys.readouterr().out
    found = pyarrow.parquet.read_table(output).to_pydict()
    assert found["row"] == [place for place in range(len(rows)) if place != 2]
    assert found["summary"] == Summarizer("lead")([row["source"] for row in rows if row["source"]])
    [error] = map(json.loads, (tmp_path / "summaries.parquet.errors.jsonl").read_text().splitlines())
    assert error["row"] == 2 and "source" in error["reason"]
    assert not list(tmp_path.glob("*.partial"))


# --- without Ray --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 32, 50, 1000])
def test_windows_are_cut_at_the_same_rows_whatever_the_files(tmp_path, size):
    table = cluster.Table.of(write(tmp_path / "table", ROWS[:120], (70, 0, 3), 32))
    firsts = table.windows(size)
    found = dict(table.read(firsts, size, ["prediction", "references"]))
    assert table.rows == 120 and list(found) == firsts
    texts = [row["prediction"] for rows in found.values() for row in rows.to_pylist()]
    assert texts == [row["prediction"] for row in ROWS[:120]]
    some = firsts[1::3]
    for first, rows in table.read(some, size, ["prediction"]):
        assert rows.equals(found[first].select(["prediction"]))
    assert [first for windows, _ in table.spans(some, size) for first in windows] == some


def test_tables_are_named_by_file_folder_pattern_and_address(tmp_path):
    folder = write(tmp_path / "table", ROWS[:50], (20,))
    assert cluster.Table.of(folder).rows == 50
    assert cluster.Table.of(f"{folder}/0.parquet").rows == 20
    assert cluster.Table.of(f"{folder}/[1-9]*.parquet").rows == 30
    there = cluster.Table.of(f"file://{folder}")
    assert there.rows == 50 and there.identity == cluster.Table.of(folder).identity
    texts = [row for _, rows in there.read([0], 50, ["prediction"]) for row in rows.to_pylist()]
    assert texts == [{"prediction": row["prediction"]} for row in ROWS[:50]]


def test_mistakes_are_answered_before_ray_is_begun(tmp_path, monkeypatch, capsys):
    table = write(tmp_path / "table", ROWS[:10], ())
    output = str(tmp_path / "scores.parquet")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingRequirement, match=r"needs Ray: pip install .*\[ray\]"):
        score_on_ray(table, ROUGE, output=output)
    with pytest.raises(InputError, match="workers=0"):
        score_on_ray(table, ROUGE, output=output, workers=0)
    with pytest.raises(InputError, match="nor a folder or a pattern of parquet files"):
        score_on_ray(str(tmp_path / "no*.parquet"), ROUGE, output=output)
    with pytest.raises(InputError, match="nor a folder of parquet files"):
        cluster.Table.of(f"file://{tmp_path}/none")
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(InputError, match=r"bad\.parquet is not a parquet file that can be read"):
        cluster.Table.of(str(tmp_path / "bad.parquet"))
    for arguments, told in (
        (["score", table, "--engine", "ray"], "--engine needs --json"),
        (["score", table, "--engine", "ray", "--stream"], "leave --stream out"),
        (["score", table, "--workers", "2"], "--workers goes with --engine ray"),
        (["score", "--sample", "--engine", "ray", "--json", output], "read a table"),
        (["summarize", table, "--engine", "ray"], "--engine needs --output"),
        (["summarize", "a", "b", "--engine", "ray"], "reads one parquet file"),
        (["summarize", table, "--on-error", "skip"], "--on-error goes with --engine"),
        (
            ["summarize", table, "--engine", "ray", "--output", str(tmp_path / "a.json")],
            "name it with .parquet",
        ),
    ):
        assert main(arguments) == 2
        assert told in capsys.readouterr().err


def test_a_ray_that_does_not_start_is_told_in_a_sentence(monkeypatch):
    def init(*arguments, **options):  # word for word what Ray 2.60 raises on a machine that is too busy
        raise Exception("The current node timed out during startup. This could happen because ...")

    ray = types.SimpleNamespace(init=init, is_initialized=lambda: False, data=None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", ray)
    told = pytest.raises(FailedRunError, match=r"^Ray did not start: The current node timed out")
    with told, cluster._started(None, 1):
        pass
