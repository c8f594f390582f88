"""The command that brings an extra works where the package came from."""

from __future__ import annotations

import importlib.metadata
import json
from types import SimpleNamespace

import pytest

from summarily.support.requirements import pip_install


@pytest.mark.parametrize(
    ("told", "command"),
    [
        (None, 'pip install "summarily[plots]"'),
        ({"url": "https://example.org/summarily.whl"}, 'pip install "summarily[plots]"'),
        ({"url": "file:///nowhere/summarily-0.1.0-py3-none-any.whl"}, 'pip install "summarily[plots]"'),
        ({"url": "file://{folder}", "dir_info": {"editable": True}}, 'pip install "{folder}[plots]"'),
    ],
)
def test_it_names_the_clone_or_the_package(monkeypatch, tmp_path, told, command):
    folder = tmp_path / "a clone"
    folder.mkdir()
    (folder / "setup.cfg").touch()
    text = (
        None
        if told is None
        else json.dumps(told).replace("{folder}", folder.as_uri().removeprefix("file://"))
    )
    found = SimpleNamespace(read_text=lambda name: text)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    assert pip_install("plots") == command.replace("{folder}", str(folder))
