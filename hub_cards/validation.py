"""What must hold before a folder goes to the Hub: its card, links and sizes, and that it loads from there.

Loading is tried in a process of its own: a metric in one that has this package, a model in one that has not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from summarily.hub_cards.building import Repository, relative_links

MEGABYTE = 1 << 20
LARGEST_REPOSITORY = 500 * MEGABYTE
_COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
_REQUIRED = {
    "models": ("license", "language", "library_name", "tags", "model-index"),
    "metrics": (
        "title",
        "emoji",
        "colorFrom",
        "colorTo",
        "sdk",
        "sdk_version",
        "app_file",
        "tags",
        "description",
    ),
    "spaces": ("title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "app_file", "license"),
}
# The sections a reader looks for; evaluate's form for metrics.
_SECTIONS = {
    "models": ("Use", "Data", "Training", "Scores", "Limits", "Citation"),
    "metrics": ("Metric description", "How to use", "Examples", "Limitations and bias", "Citation"),
    "spaces": (),
}

_LOAD_METRIC = """
import sys, evaluate
module = evaluate.load(sys.argv[1])
assert module.description and module.citation, "the module has no description or citation"
"""
_LOAD_MODEL = """
import importlib.abc, json, pathlib, sys

class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "summarily":
            raise ModuleNotFoundError(f"{name}: the model must load without it", name=name)

sys.meta_path.insert(0, NotInstalled())
import transformers
folder = pathlib.Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
remote = "auto_map" in config
classes = [name for name in config.get("auto_map", {}) if name != "AutoConfig"]
for name in classes or [config["architectures"][0]]:
    loader = getattr(transformers, name)
    options = {"trust_remote_code": True} if remote else {}
    model, report = loader.from_pretrained(folder, output_loading_info=True, **options)
    whole = type(model).__name__ == config["architectures"][0]
    wrong = {key: sorted(report[key]) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if report[key]}
    assert not (whole and wrong), f"{name}: {wrong}"
if (folder / "tokenizer_config.json").exists():
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=remote)
    assert tokenizer("one two")["input_ids"], "the tokenizer makes no tokens"
"""
_LOAD_SPACE = """
import importlib.util, sys
import gradio
launched = []
gradio.Blocks.launch = lambda self, *arguments, **options: launched.append(self)
specification = importlib.util.spec_from_file_location("__main__", sys.argv[1] + "/app.py")
specification.loader.exec_module(importlib.util.module_from_spec(specification))
assert launched, "app.py launches nothing"
"""


def problems(repository: Repository, folder: Path, *, load: bool = True) -> list[str]:
    """What is wrong with a built folder, one sentence each; an empty list means that it may go.

    Args:
        load: also try to load it, in a process of its own (some seconds).
    """
    card = (folder / "README.md").read_text(encoding="utf-8")
    found = [*_metadata(repository, card, folder), *_sections(repository, card)]
    found += [
        f"README.md points to {name}, which is not there."
        for name in relative_links(card)
        if not (folder / name).exists()
    ]
    found += _sizes(folder)
    found += _paths(folder)
    if load and not found and (error := _load(repository, folder)):
        found.append(error)
    return found


def _metadata(repository: Repository, card: str, folder: Path) -> list[str]:
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    try:
        data: Any = ModelCard(card, ignore_metadata_errors=False).data
    except (ValueError, YAMLError) as error:
        return [f"the metadata of README.md cannot be read: {' '.join(str(error).split())}"]
    values = data.to_dict()
    found = [f"README.md gives no {key}." for key in _REQUIRED[repository.kind] if not values.get(key)]
    if repository.kind == "models":
        if not data.eval_results and values.get("model-index"):
            found.append("the model-index of README.md holds no result.")
        return found
    for key in ("colorFrom", "colorTo"):
        if values.get(key) not in _COLOURS:
            found.append(f"{key} is {values.get(key)!r}; the Hub knows {', '.join(sorted(_COLOURS))}.")
    if not (folder / str(values.get("app_file"))).is_file():
        found.append(f"app_file is {values.get('app_file')!r}, which is not there.")
    if repository.kind == "metrics" and not {"evaluate", "metric"} <= set(values.get("tags") or []):
        found.append(
            "the tags of README.md must hold evaluate and metric, so that the Hub lists it as a metric."
        )
    return found


def _sections(repository: Repository, card: str) -> list[str]:
    headings = set(re.findall(r"^#+ (.+?)\s*$", card, re.MULTILINE))
    return [
        f"README.md has no section {name!r}." for name in _SECTIONS[repository.kind] if name not in headings
    ]


def _sizes(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in files)
    found = [f"{path.relative_to(folder)} is empty." for path in files if path.stat().st_size == 0]
    if total > LARGEST_REPOSITORY:
        found.append(
            f"the folder holds {total / MEGABYTE:.0f} MB; at most {LARGEST_REPOSITORY // MEGABYTE} are expected."
        )
    return found


def _paths(folder: Path) -> list[str]:
    """No folder of the machine it was built on may be published."""
    here = {str(Path.home()), str(Path(__file__).resolve().parents[1])} - {"/"}
    found = []
    for path in folder.rglob("*"):
        if path.suffix in (".md", ".py", ".json", ".txt", ".toml"):
            text = path.read_text(encoding="utf-8")
            found += [
                f"{path.relative_to(folder)} names a folder of this machine."
                for name in here
                if name + "/" in text
            ]
    return found


def _load(repository: Repository, folder: Path) -> str | None:
    program = {"metrics": _LOAD_METRIC, "models": _LOAD_MODEL, "spaces": _LOAD_SPACE}[repository.kind]
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ,
            "HF_HOME": home,
            "HF_MODULES_CACHE": f"{home}/modules",
            "HF_HUB_OFFLINE": "1",
            "SUMMARILY_REGISTER": "0",
        }
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, str(folder.resolve())],
            capture_output=True,
            text=True,
            cwd=home,
            env=environment,
            timeout=600,
        )
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or ["no message"]
    return f"it does not load: {lines[-1]}"
