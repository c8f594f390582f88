"""The wheel carries what a user needs; setup.cfg lists what the tree has."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from summarily.metrics import METRICS

ROOT = Path(__file__).parents[2]
FOLDERS = ("summarily", "metrics", "modeling", "hub_cards", "spaces")


def listed() -> set[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return set(config["options"]["packages"].split())


def test_setup_lists_every_package_of_the_tree():
    found = set()
    for folder in FOLDERS:
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT).parts
            found.add(".".join(parts if parts[0] == "summarily" else ("summarily", *parts)))
    assert listed() == found


def test_every_metric_folder_is_publishable():
    for name in METRICS:
        folder = ROOT / "metrics" / name
        for file in (f"{name}.py", "scorer.py", "README.md", "app.py", "requirements.txt"):
            assert (folder / file).is_file(), f"{name} lacks {file}"
        card = (folder / "README.md").read_text()
        assert card.startswith("---\n") and "sdk: gradio" in card and "app_file: app.py" in card
        script = (folder / f"{name}.py").read_text()
        assert not any(line.startswith("import") and "," in line for line in script.splitlines())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The built wheel, without fetching anything: the build requirements are those of the environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for file in files:
        if (ROOT / file).is_file() and not file.startswith("tests/"):
            target = source / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / file).read_bytes())
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_cards_apps_and_sample(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in METRICS:
        for file in (f"{name}.py", "scorer.py", "README.md", "app.py", "requirements.txt"):
            assert f"summarily/metrics/{name}/{file}" in names
    assert "summarily/sample.jsonl" in names
    assert "summarily/py.typed" in names, "type checkers read our types only if it is there"
    assert not any(name.startswith(("tests/", "metrics/", "modeling/")) for name in names)
    for path in (ROOT / "hub_cards").rglob("*.safetensors"):
        assert f"summarily/{path.relative_to(ROOT)}" in names


def test_an_installed_wheel_scores_and_registers(wheel, tmp_path):
    """Unpacked on the path, in front of and instead of the tree."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = """
import summarily, evaluate, sys
assert summarily.__file__.startswith(sys.argv[1]), summarily.__file__
print(evaluate.load("summarily/rouge").compute(predictions=["a cat"], references=["a cat"])["rouge1"])
print(len(summarily.load_sample()))
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HF_HOME": str(tmp_path / "hf")}
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "site")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "1.0\n36\n"
