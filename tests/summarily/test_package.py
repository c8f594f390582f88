"""The wheel carries what a user needs; setup.cfg lists what the tree has."""

from __future__ import annotations

import base64
import configparser
import hashlib
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


WITHOUT_IMPORT = """
import site, sys
site.addsitedir(sys.argv[1])
import importlib.util
importlib.util.find_spec("evaluate")
assert "summarily" not in sys.modules, "to look for evaluate is not to import it"
import evaluate
print(evaluate.load("apes").metric_name)
"""


@pytest.mark.parametrize("switch", ["1", "0"])
def test_evaluate_finds_the_metrics_of_an_installed_wheel_by_itself(wheel, tmp_path, switch):
    """In a fresh process with an empty cache, which never says `import summarily`; and not if that is switched off."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {
        **os.environ,
        "PYTHONPATH": "",
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
        "SUMMARILY_REGISTER": switch,
    }
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_IMPORT, str(tmp_path / "site")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    if switch == "1":
        assert (result.returncode, result.stdout) == (0, "apes\n"), result.stderr
    else:
        assert "doesn't exist on the Hugging Face Hub" in result.stderr


def test_every_file_of_the_wheel_is_listed_once(wheel):
    """What is not listed is not uninstalled."""
    archive = zipfile.ZipFile(wheel)
    [record] = [name for name in archive.namelist() if name.endswith("RECORD")]
    rows = [line.split(",") for line in archive.read(record).decode().splitlines()]
    assert sorted(row[0] for row in rows) == sorted(archive.namelist())
    [row] = [row for row in rows if row[0] == "summarily.pth"]
    text = archive.read("summarily.pth")
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    assert row[1:] == [f"sha256={digest}", str(len(text))] and text.count(b"\n") == 1 == text.startswith(
        b"import"
    )


def test_an_editable_install_has_the_line_too(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))
    import backend

    monkeypatch.setattr(backend.build_meta, "build_editable", lambda folder, *_: made(folder))

    def made(folder):
        with zipfile.ZipFile(os.path.join(folder, "x.whl"), "w") as archive:
            archive.writestr("x-1.dist-info/RECORD", "x-1.dist-info/RECORD,,\n")
        return "x.whl"

    assert backend.build_editable(str(tmp_path)) == "x.whl"
    archive = zipfile.ZipFile(tmp_path / "x.whl")
    assert archive.testzip() is None and archive.read("summarily.pth").decode() == backend.LINE
    assert archive.read("x-1.dist-info/RECORD").decode().splitlines()[1:] == ["x-1.dist-info/RECORD,,"]


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
