"""`summarily profile-memory`: the fit, the table, and one real measurement."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from summarily.cli import main
from summarily.studies import memory as memory_profile
from summarily.studies.memory import (
    Cell,
    add_parser,
    cells_of,
    fit,
    fits,
    measure,
    measure_apart,
    peak_of,
    table,
)


def test_a_line_is_told_from_a_parabola():
    lengths = [512, 1024, 2048, 4096]
    line = fit(lengths, [10 + 0.05 * length for length in lengths])
    assert line.r_squared > 0.9999 and line.slope == pytest.approx(0.05) and len(line.polynomial) == 2
    parabola = fit(lengths, [1e-4 * length**2 for length in lengths])
    assert parabola.r_squared < 0.99 and parabola.exponent == pytest.approx(2.0)
    assert line.r_squared_parabola is None and parabola.r_squared_parabola == pytest.approx(1.0)
    assert parabola.longest(1e-4 * 8000**2) == pytest.approx(8000, abs=1)
    assert line.longest(10 + 0.05 * 8000) == pytest.approx(8000, abs=1)


def test_the_table_has_a_row_for_every_model_and_window():
    cells = cells_of(["led", "bart"], [64, 512], [1024, 2048])
    measured = {cell: {"megabytes": cell.length / 10, "seconds": 1.0} for cell in cells}
    del measured[Cell("bart", None, 2048)]  # ran out of memory
    measured[Cell("led", 512, 2048)] |= {"process_megabytes": 700.4, "swapped_megabytes": 0.0}
    text = table(measured, fits(measured), memory=1000.0)
    assert "led, window 512 at 2048 tokens, held 700 MB at its peak, 0 MB of it swapped out." in text
    assert "| led, window 64 | 102.4 | 204.8 | 102.4 | 1.0000 |  | 1.00 | 10000 |" in text
    assert "| bart | 102.4 | - | - | - | - | - | - |" in text


def test_one_length_is_refused(capsys):
    assert main(["profile-memory", "led", "--lengths", "512"]) == 2
    assert "at least two lengths" in capsys.readouterr().err


def command(folder, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["profile-memory", *arguments, "--output", str(folder)])
    return options.run(options)


def test_the_command_writes_table_numbers_and_plot(tmp_path, capsys, monkeypatch):
    def measured(cell, *sizes):
        if cell.model == "bart" and cell.length == 4096:
            raise RuntimeError("bart at 4096 tokens: ended by signal 9")
        return {"megabytes": cell.length / 8, "seconds": 1.0}

    monkeypatch.setattr(memory_profile, "measure_apart", measured)
    lengths = ("--lengths", "1024", "4096", "--windows", "64")
    assert command(tmp_path, "led", "bart", *lengths) == 0
    assert len(json.loads((tmp_path / "memory.json").read_text())) == 3
    assert (tmp_path / "memory.png").stat().st_size > 5000
    output = capsys.readouterr()
    assert "| led, window 64 | 128.0 | 512.0 | 128.0 | 1.0000 |  | 1.00 |" in output.out
    assert "bart at 4096 tokens: ended by signal 9" in output.err


def test_what_is_measured_is_not_measured_again(tmp_path, monkeypatch, capsys):
    seen = []

    def measured(cell, *settings):
        seen.append((cell, *settings))
        return {"megabytes": cell.length / 8, "seconds": 1.0}

    monkeypatch.setattr(memory_profile, "measure_apart", measured)
    assert command(tmp_path, "led", "--lengths", "512", "1024") == 0
    assert command(tmp_path, "led", "bart", "--lengths", "512", "1024", "2048") == 0
    assert len(seen) == len(set(seen)) == 6
    assert "| led, window 512 | 64.0 | 128.0 | 256.0 |" in capsys.readouterr().out
    assert command(tmp_path, "led", "--lengths", "512", "1024", "--layers", "2") == 0
    assert seen[-1] == (Cell("led", 512, 1024), "train", 256, 2, 4), "another size is another measurement"


@pytest.mark.parametrize("model", ["led", "transformers-led", "bart", "bart-eager", "red"])
@pytest.mark.parametrize("work", ["train", "encode", "generate"])
def test_every_architecture_takes_a_step(model, work):
    """What it takes can be nothing here: this process has freed memory before, and takes it again."""
    window = 64 if "led" in model else None
    result = measure(Cell(model, window, 200), work, 32, 1, 2)
    assert result["megabytes"] >= 0 and result["seconds"] > 0
    assert result["process_megabytes"] > result["megabytes"]


def test_the_peak_of_a_step_is_seen_though_it_is_freed_again():
    def step():
        bytearray(200 * 2**20).count(1)

    megabytes, seconds = peak_of(step)
    assert 190 < megabytes < 230 and seconds > 0


@pytest.mark.slow
def test_cells_run_in_processes_of_their_own(tmp_path):
    assert command(tmp_path, "led", "--lengths", "1024", "4096", "--windows", "64", "--layers", "1") == 0
    short, long = (row["megabytes"] for row in json.loads((tmp_path / "memory.json").read_text()))
    assert long > short > 0
    with pytest.raises(RuntimeError, match=r"led, window 7 at 64 tokens: .*must be positive and even"):
        measure_apart(Cell("led", 7, 64), "train", 16, 1, 2)


def test_numbers_are_plain():
    assert isinstance(fit([1, 2], np.array([1.0, 2.0])).slope, float)
