"""`evaluate.load` finds our metrics offline, from anywhere, whatever else is going on."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import time

import pytest

from summarily import registration
from summarily.metrics import METRICS
from summarily.registration import OWNED_BY_THE_HUB, register

PATIENCE = 900  # seconds after which a process hangs, however busy the machine is
BARE = [name for name in METRICS if name not in OWNED_BY_THE_HUB]


def run(code: str, tmp_path, **environment: str) -> subprocess.CompletedProcess:
    """Run Python in an unrelated folder with an empty home and no Hub."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    settings = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=elsewhere,
        env=settings,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_metrics_load_by_name_from_an_unrelated_folder_offline(tmp_path):
    # Evaluate asks in vain for three kinds of module before it takes a bare name: two of them stand for all.
    names = [*(f"summarily/{name}" for name in METRICS), BARE[0], BARE[-1]]
    code = f"""
import evaluate, summarily
for name in {names}:
    print(name, type(evaluate.load(name)).__name__)
score = evaluate.load("summarily/rouge").compute(predictions=["a cat sat"], references=["the cat sat"])
print("rouge1", round(score["rouge1"], 4))
"""
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == [*names, "rouge1"]
    assert result.stdout.endswith("rouge1 0.6667\n")
    assert "latest cached version" not in result.stderr


def test_metrics_load_from_the_tree_and_from_an_installed_path():
    import evaluate

    from summarily import metrics

    for name in METRICS:
        assert evaluate.load(os.path.join(metrics.__path__[0], name)).metric_name == name


def test_names_the_hub_owns_are_not_taken(tmp_path):
    names = register(tmp_path)
    assert "rouge" not in names and "summarily/rouge" in names
    assert not (tmp_path / "evaluate_modules/metrics/evaluate-metric--rouge").exists()


def test_a_bare_name_leads_to_what_the_full_name_does(tmp_path):
    register(tmp_path)
    modules = tmp_path / "evaluate_modules/metrics"
    for name in BARE:
        scripts = [
            list((modules / f"{owner}--{name}").glob(f"*/{name}.py"))
            for owner in ("summarily", "evaluate-metric")
        ]
        assert [len(found) for found in scripts] == [1, 1], name
        (full,), (bare,) = scripts
        assert full.parent.name == bare.parent.name and full.read_text() == bare.read_text()


def test_registering_twice_changes_nothing(tmp_path):
    def files():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    register(tmp_path)
    before = files()
    register(tmp_path)
    assert files() == before


def test_processes_registering_at_once_leave_whole_modules(tmp_path):
    code = "import summarily; print(len(summarily.register()))"
    settings = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=settings, stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert all(process.wait(PATIENCE) == 0 for process in running)
    folders = list((tmp_path / "modules/evaluate_modules/metrics").glob("summarily--*/*/"))
    assert len([folder for folder in folders if len(folder.name) == 64]) == len(METRICS)
    assert not list(tmp_path.rglob(".new-*")), "no temporary folder is left behind"
    for script in (tmp_path / "modules").rglob("summarily--rouge/*/rouge.py"):
        compile(script.read_text(), str(script), "exec")


def test_an_older_version_does_not_win_because_it_was_written_later(tmp_path):
    register(tmp_path)
    folder = tmp_path / "evaluate_modules/metrics/summarily--rouge"
    (ours,) = [path for path in folder.iterdir() if len(path.name) == 64]
    other = folder / ("0" * 64)
    other.mkdir()
    (other / "rouge.py").write_text("raise RuntimeError('another version')")
    os.utime(other / "rouge.py", (time.time() + 100, time.time() + 100))
    register(tmp_path)
    assert (ours / "rouge.py").stat().st_mtime > (other / "rouge.py").stat().st_mtime


@pytest.fixture
def unwritable(tmp_path):
    """A cache that nobody, not even root, can write: its parent is a file."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "modules"


def test_a_cache_that_cannot_be_written_gives_a_clear_message(unwritable):
    with pytest.raises(OSError, match="Set HF_MODULES_CACHE to a folder you can write"):
        register(unwritable)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_gives_a_clear_message(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(OSError, match="Set HF_MODULES_CACHE to a folder you can write"):
        register(tmp_path / "modules")


def test_importing_with_a_cache_that_cannot_be_written_breaks_nothing(tmp_path, unwritable):
    code = "import summarily; print(summarily.score(['a'], ['a'], metrics='rouge'))"
    result = run(code, tmp_path, HF_MODULES_CACHE=str(unwritable))
    assert result.returncode == 0, result.stderr
    assert result.stdout == "Scorecard(rouge: 1.0000)\n"
    assert "cannot register the metrics" in result.stderr
    command = subprocess.run(
        [sys.executable, "-m", "summarily", "register"],
        env={**os.environ, "HF_MODULES_CACHE": str(unwritable)},
        capture_output=True,
        text=True,
    )
    assert command.returncode == 2 and "HF_MODULES_CACHE" in command.stderr


def test_registration_is_silent_and_can_be_switched_off(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(registration, "modules_cache", lambda: tmp_path / "modules")
    monkeypatch.setenv("SUMMARILY_REGISTER", "0")
    registration.register_on_import()
    assert not (tmp_path / "modules").exists()
    monkeypatch.delenv("SUMMARILY_REGISTER")
    with caplog.at_level(logging.DEBUG):
        registration.register_on_import()
    assert (tmp_path / "modules").exists() and not caplog.records


@pytest.mark.parametrize("variable", [None, "HF_HOME", "HF_MODULES_CACHE", "XDG_CACHE_HOME"])
def test_the_cache_is_found_as_evaluate_finds_it(variable, monkeypatch, tmp_path):
    """Evaluate's configuration is run anew in an environment of our choice; ours does not look at it."""
    for name in ("HF_HOME", "HF_MODULES_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "somewhere"))
    specification = importlib.util.find_spec("evaluate.config")
    theirs = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(theirs)
    monkeypatch.delitem(sys.modules, "evaluate.config", raising=False)
    assert registration.modules_cache() == theirs.HF_MODULES_CACHE


def test_loading_one_of_ours_is_silent():
    def says(message):
        return registration._is_no_news(logging.LogRecord("evaluate.loading", 30, "", 0, message, None, None))

    text = "Using the latest cached version of the module from {}/metrics/{}/abc (last modified ...)"
    assert not says(text.format("/home/me", "summarily--rouge"))
    assert not says(text.format("/home/me", "evaluate-metric--apes"))
    assert says(text.format("/home/me", "evaluate-metric--accuracy"))
    assert says("something else about summarily--rouge/")


def test_a_module_that_was_cut_short_is_repaired(tmp_path):
    registration._place(b"whole = 1\n", "apes", tmp_path)
    [script] = tmp_path.glob("*/apes.py")
    script.write_bytes(b"who")
    registration._place(b"whole = 1\n", "apes", tmp_path)
    assert script.read_bytes() == b"whole = 1\n"
