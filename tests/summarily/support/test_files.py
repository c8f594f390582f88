"""What is renamed into place is on the disk before: a crash leaves the old content or the new one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from safetensors import SafetensorError

from summarily.support import files
from summarily.support.errors import FileError
from summarily.support.files import (
    MARKER,
    is_complete,
    make_folder_once,
    only_writer,
    write_atomically,
    write_folder,
)


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


def test_what_is_synced_is_the_whole_content(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    write_atomically(tmp_path / "scores.json", "é" * 5)
    assert sizes == [10]


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


def test_a_folder_that_was_put_aside_comes_back_if_no_other_took_its_name(tmp_path):
    """A kill between the two renames of `write_folder` leaves the old folder under a name of ours."""
    for name in (".partial-replaced-hub", ".partial-hub"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    files.remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]
    assert (tmp_path / "hub" / "a").read_text() == ".partial-replaced-hub"


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_else(step, tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    write_atomically(path, "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_a_killed_process_began_is_begun_anew(tmp_path):
    for name in (".partial-run", ".partial-replaced-run", "run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text("1")
    write_folder(tmp_path / "run", lambda folder: (folder / "new").write_text("2"))
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [MARKER, "new"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"] and is_complete(tmp_path / "run")
    write_folder(tmp_path / "deep" / "er" / "run", lambda folder: None)
    assert is_complete(tmp_path / "deep" / "er" / "run")


def test_a_marker_of_its_own_is_not_part_of_what_it_marks(tmp_path):
    write_folder(tmp_path / "run", lambda folder: (folder / "a").write_text("1"))
    (tmp_path / "run" / MARKER).write_text('{"a": [1, "other"]}')
    assert not is_complete(tmp_path / "run")
    (tmp_path / "run" / MARKER).write_text("{")
    assert not is_complete(tmp_path / "run")


def test_a_folder_is_made_once_however_many_want_it(tmp_path):
    path = tmp_path / "cache" / "made"
    made, begun, go_on = [], threading.Event(), threading.Event()

    def write(folder):
        made.append(folder)
        begun.set()
        go_on.wait(600)
        (folder / "a").write_text("1")

    first, second = (threading.Thread(target=make_folder_once, args=(path, write)) for _ in range(2))
    first.start()
    assert begun.wait(600)
    second.start()
    second.join(0.2)
    assert second.is_alive() and not path.exists(), "it waits, and sees no half of it"
    go_on.set()
    first.join(600)
    second.join(600)
    assert len(made) == 1 and [file.name for file in path.iterdir()] == ["a"]
    assert make_folder_once(path, lambda folder: pytest.fail("made again")) == path


def test_a_folder_that_could_not_be_made_is_made_the_next_time(tmp_path):
    def fail(folder):
        (folder / "half").write_text("1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_folder_once(tmp_path / "made", fail)
    assert not (tmp_path / "made").exists()
    make_folder_once(tmp_path / "made", lambda folder: (folder / "a").write_text("1"))
    assert [file.name for file in (tmp_path / "made").iterdir()] == ["a"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("File too large")])
def test_a_folder_that_the_disk_refuses_is_refused_in_a_sentence(tmp_path, error):
    """Found by make faults: the library that writes tensors has an error of its own for a full disk."""

    def write(folder):
        raise error

    told = r"made cannot be made \(.*(No space|too large).*\); give SUMMARILY_CACHE a folder"
    with pytest.raises(FileError, match=told):
        make_folder_once(tmp_path / "made", write)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="Not a directory"):
        make_folder_once(tmp_path / "file" / "cache" / "made", lambda folder: None)
    with pytest.raises(KeyError):  # a fault of ours is not one of the disk
        make_folder_once(tmp_path / "made", lambda folder: {}["nothing"])


def test_a_folder_has_one_writer_until_it_is_done(tmp_path):
    folder = tmp_path / "new" / "run"
    with only_writer(folder):
        assert folder.is_dir()
        with pytest.raises(FileError, match="another run is writing to"), only_writer(folder):
            pytest.fail("two writers")
        with only_writer(tmp_path / "other"):
            pass
    with pytest.raises(ZeroDivisionError), only_writer(folder):
        raise ZeroDivisionError
    with only_writer(folder):
        pass


def test_two_processes_that_write_one_folder_do_not_take_it_from_each_other(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys, time; from pathlib import Path; from summarily.support.files import write_folder\n"
        "def write(folder):\n"
        "    for number in range(20):\n"
        "        (folder / str(number)).write_text(sys.argv[2]); time.sleep(0.005)\n"
        "write_folder(Path(sys.argv[1]), write)\n"
    )
    folder = tmp_path / "shared"
    both = [subprocess.Popen([sys.executable, "-c", code, str(folder), name]) for name in ("a", "b")]
    assert [process.wait(900) for process in both] == [0, 0]
    assert len({(folder / str(number)).read_text() for number in range(20)}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]
