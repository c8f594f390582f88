"""What is renamed into place is on the disk before: a crash leaves the old content or the new one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from summarily.support import files
from summarily.support.files import MARKER, is_complete, write_atomically, write_folder


@pytest.fixture
def events(monkeypatch):
    """What is synced and what is renamed, by name and in order."""
    seen: list[tuple[str, str]] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def synced(descriptor):
        fsync(descriptor)
        seen.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))

    def moved(move):
        def recorded(source, target, **options):
            seen.append(("rename", Path(source).name))
            move(source, target, **options)

        return recorded

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved(replace))
    monkeypatch.setattr(os, "rename", moved(rename))
    return seen


def test_a_file_is_synced_before_it_takes_its_name(tmp_path, events):
    write_atomically(tmp_path / "scores.json", "{}")
    (kind, temporary), *rest = events
    assert kind == "sync" and "scores.json" in temporary and rest == [("rename", temporary)]
    assert (tmp_path / "scores.json").read_text() == "{}"


def test_a_file_has_the_usual_rights(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "scores.json", b"{}")
    finally:
        os.umask(before)
    assert (tmp_path / "scores.json").stat().st_mode & 0o777 == 0o640


def test_a_folder_is_synced_before_it_takes_its_name(tmp_path, events):
    def write(folder):
        (folder / "state.pt").write_text("1")
        (folder / "part").mkdir()
        (folder / "part" / "best.pt").write_text("2")

    partial = ".partial-step-1"
    write_folder(tmp_path / "step-1", write)
    at = events.index(("rename", partial))
    assert set(events[:at]) == {("sync", name) for name in ("state.pt", "best.pt", MARKER, partial)}
    assert events[at - 1] == ("sync", partial), "last the folder itself: it names the files"
    assert events[at + 1 :] == [("sync", tmp_path.name)]
    assert is_complete(tmp_path / "step-1")

    events.clear()
    write_folder(tmp_path / "step-1", lambda folder: (folder / "a").write_text("new"), marker=False)
    assert [event for event in events if event[0] == "rename"] == [("rename", "step-1"), ("rename", partial)]
    assert events[0] == ("sync", "a") and events[-1] == ("sync", tmp_path.name)
    assert [path.name for path in (tmp_path / "step-1").iterdir()] == ["a"], "no marker was asked for"


def test_a_folder_is_complete_only_with_all_it_was_written_with(tmp_path):
    folder = tmp_path / "run"
    write_folder(folder, lambda into: (into / "a").write_text("1"))
    assert is_complete(folder)
    (folder / "b").write_text("more")
    assert not is_complete(folder)
    (folder / "b").unlink()
    (folder / "a").write_text("2")
    assert not is_complete(folder), "as long as before, but another content"
    assert not is_complete(tmp_path / "nothing")


def test_what_was_left_half_written_goes(tmp_path):
    (tmp_path / ".partial-card.md").write_text("half")
    (tmp_path / ".partial-step-2").mkdir()
    (tmp_path / ".partial-replaced-hub").mkdir()
    (tmp_path / "hub").mkdir()
    files.remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]
