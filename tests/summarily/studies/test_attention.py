"""The study is resumable and its table says what its cells stored."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from summarily.studies import attention as study
from summarily.studies.runner import Cell, run_cells
from summarily.support.errors import FailedRunError

TINY = [
    "model.config.hidden_size=16", "model.config.num_attention_heads=2", "model.config.encoder_layers=1",
    "model.config.decoder_layers=1", "model.config.intermediate_size=16", "model.config.block_length=4",
    "model.config.width=4", "model.config.memory_length=4", "tokenizer.vocabulary_size=300", "batch.tokens=400",
    "generation.num_beams=2", "generation.max_new_tokens=6", "training.tensorboard=false",
]  # fmt: skip


@pytest.fixture
def data(tmp_path):
    """A hundred invented articles in the form of the Reuters file."""
    folder = tmp_path / "data" / "news"
    folder.mkdir(parents=True)
    with gzip.open(folder / "reuters_train.jsonl.gz", "wt") as file:
        for i in range(100):
            who, what = ("oslo", "bergen", "lima", "quito")[i % 4], ("bank", "port", "mill")[i % 3]
            text = f"The {what} of {who} said on day {i} that it will open {i % 7} new halls next year."
            file.write(
                json.dumps({"headline": f"{who} {what} to open halls {i}", "first_paragraph": text}) + "\n"
            )
    return str(tmp_path / "data")


def options(tmp_path, data, steps=2):
    parser = argparse.ArgumentParser()
    study.add_arguments(parser)
    settings = [argument for override in TINY for argument in ("--set", override)]
    return parser.parse_args(
        ["--steps", str(steps), "--output", str(tmp_path / "out"), "--data", data, *settings]
    )


def test_a_study_runs_scores_and_goes_on(tmp_path, data, monkeypatch, capsys):
    kept = {name: study.MECHANISMS[name] for name in ("dot_product", "dilated_leaky")}
    monkeypatch.setattr(study, "MECHANISMS", kept)
    assert study.run(options(tmp_path, data)) == 0
    table = (tmp_path / "out" / "study.md").read_text()
    stored = json.loads((tmp_path / "out" / "study.json").read_text())
    assert list(stored["rows"]) == ["lead-14 words", "dot_product", "dilated_leaky"]
    assert "dilated leaky" in table and "0.01, 18.10" in table and "vert|" in table
    assert stored["rows"]["dot_product"]["step"] == 2
    assert (tmp_path / "out" / "study.png").stat().st_size > 1000
    capsys.readouterr()
    assert study.run(options(tmp_path, data)) == 0
    assert "started" not in capsys.readouterr().out, "finished cells are not run again"


def test_a_cell_that_fails_is_named_with_its_last_words(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)broken failed.*no recipe file 'no_such_recipe'"):
        run_cells([Cell("broken", "no_such_recipe")], tmp_path)


def test_what_cannot_be_used_is_not_tried_in_every_cell(tmp_path):
    with pytest.raises(
        FailedRunError, match=r"^one failed; .*one.log ends: summarily: .*no_such_recipe"
    ) as caught:
        run_cells([Cell("one", "no_such_recipe"), Cell("two", "no_such_recipe")], tmp_path)
    assert "\n" not in str(caught.value) and not (tmp_path / "two.log").exists()


def test_a_terminated_study_takes_its_cells_with_it(tmp_path):
    script = tmp_path / "study.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom summarily.studies import runner\n"
        "class Sleeper(runner.Cell):\n"
        "    def command(self, folder, data):\n"
        '        code = \'import os, time; open("pid.new", "w").write(str(os.getpid())); os.rename("pid.new", "pid")\'\n'
        "        return [sys.executable, '-c', code + '; time.sleep(900)']\n"
        f"runner.run_cells([Sleeper('a', 'b')], Path({str(tmp_path)!r}))\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() or process.poll() is not None)
    process.terminate()
    assert process.wait(timeout=600) == 143

    def is_gone():
        try:
            os.kill(int(pid.read_text()), 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(is_gone)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_a_signal_just_after_a_start_leaves_no_child_behind(tmp_path, monkeypatch, request, number):
    started = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            os.kill(os.getpid(), number)  # before anybody else knows of the child
            time.sleep(0.01)

    class Sleeper(Cell):
        def command(self, folder, data):
            return ["sleep", "900"]

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    usual = signal.signal(number, signal.default_int_handler)  # under nohup a hang-up is ignored
    request.addfinalizer(lambda: signal.signal(number, usual))
    with pytest.raises((SystemExit, KeyboardInterrupt)) as caught:
        run_cells([Sleeper("a", "b"), Sleeper("b", "b")], tmp_path)
    if number != signal.SIGINT:
        assert caught.value.code == 128 + number
    [child] = started
    assert child.returncode is not None, "it was waited for"
    assert signal.getsignal(number) == signal.default_int_handler


def test_nothing_in_the_working_folder_is_imported_by_a_cell(tmp_path, monkeypatch):
    (tmp_path / "spacy.py").write_text("raise SystemExit('the module beside the data was run')")
    monkeypatch.chdir(tmp_path)
    command = Cell("a", "b").command(tmp_path, None)
    place = command.index("-m")
    done = subprocess.run([*command[:place], "-c", "import spacy"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def wait_until(holds, seconds=600):
    """However busy the machine is; what never holds is an error."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
