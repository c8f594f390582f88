import errno
import pickle
import random
import re
import shutil

import numpy as np
import pytest
import torch

from summarily.modeling.training import checkpoints as module
from summarily.modeling.training.checkpoints import (
    Checkpoints,
    load_state,
    random_state,
    set_random_state,
    untouched_random_state,
)
from summarily.support.errors import FileError
from summarily.support.files import MARKER, is_complete, only_writer, remove_partial, write_folder


def state(step):
    return {"step": step, "weights": torch.full((100,), float(step))}


def test_the_latest_complete_checkpoint_is_found_and_old_ones_go(tmp_path):
    store = Checkpoints(tmp_path, keep=2)
    for step in (5, 10, 15):
        store.save(step, state(step), best=state(5) if step == 5 else None)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000010", "step-00000015"]
    newest = Checkpoints(tmp_path).latest()
    assert load_state(newest / "state.pt")["step"] == 15
    assert load_state(newest / "best.pt")["step"] == 5  # carried along although its own checkpoint is gone


@pytest.mark.parametrize("damage", ["cut", "flipped", "no marker", "missing file", "half a marker"])
def test_a_damaged_checkpoint_is_never_loaded(tmp_path, damage, caplog):
    store = Checkpoints(tmp_path)
    store.save(1, state(1))
    broken = store.save(2, state(2))
    file = broken / "state.pt"
    data = file.read_bytes()
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        file.write_bytes(data[:-50] + bytes([data[-50] ^ 1]) + data[-49:])
    elif damage == "no marker":
        (broken / MARKER).unlink()
    elif damage == "missing file":
        file.unlink()
    else:
        (broken / MARKER).write_text((broken / MARKER).read_text()[:10])
    assert Checkpoints(tmp_path).latest().name == "step-00000001"
    assert "step-00000002 is damaged" in caplog.text


def test_what_a_killed_writer_left_is_not_a_checkpoint(tmp_path):
    Checkpoints(tmp_path).save(1, state(1))
    half = tmp_path / ".partial-step-00000002"
    half.mkdir()
    (half / "state.pt").write_bytes(b"half")
    assert Checkpoints(tmp_path).latest().name == "step-00000001"
    remove_partial(tmp_path)
    assert not half.exists()


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path):
    write_folder(tmp_path / "hub", lambda folder: (folder / "a").write_text("old"))
    (tmp_path / "hub").rename(tmp_path / ".partial-replaced-hub")
    remove_partial(tmp_path)
    assert is_complete(tmp_path / "hub")


def test_a_folder_is_replaced_only_by_a_whole_one(tmp_path):
    write_folder(tmp_path / "hub", lambda folder: (folder / "a").write_text("old"))

    def fail(folder):
        (folder / "a").write_text("new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "hub", fail)
    assert (tmp_path / "hub" / "a").read_text() == "old"
    write_folder(tmp_path / "hub", lambda folder: (folder / "a").write_text("new"))
    assert (tmp_path / "hub" / "a").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


def test_a_full_disk_is_named_and_the_last_checkpoint_stands(tmp_path, monkeypatch):
    store = Checkpoints(tmp_path)
    store.save(1, state(1))

    def save_to_full_disk(value, path):
        path.symlink_to("/dev/full")  # every write fails with ENOSPC, inside torch.save as on a real disk
        with path.open("wb") as file:
            torch.save(value, file)

    monkeypatch.setattr(module, "_save", save_to_full_disk)
    with pytest.raises(
        OSError, match=r"checkpoint of step 2: the disk is full .* step-00000001, is intact"
    ) as caught:
        store.save(2, state(2))
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert is_complete(store.latest())


def test_all_generators_are_saved_as_plain_values(tmp_path):
    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()  # noqa: NPY002

    torch.save(random_state(), tmp_path / "random.pt")
    first = draw()
    assert draw() != first
    set_random_state(load_state(tmp_path / "random.pt"))
    with untouched_random_state():
        draw()
    assert draw() == first


def test_two_runs_cannot_write_to_one_folder(tmp_path):
    with (
        only_writer(tmp_path),
        pytest.raises(RuntimeError, match="another run is writing"),
        only_writer(tmp_path),
    ):
        pass
    with only_writer(tmp_path):
        pass


class Runs:
    """Would create a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    torch.save({"step": 1, "more": Runs(tmp_path / "ran")}, tmp_path / "state.pt")
    with pytest.raises(FileError, match="a pickle that holds more than tensors, which is not run"):
        load_state(tmp_path / "state.pt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("hidden", ["cause", "context", "both", "deep"])
def test_a_disks_error_is_found_behind_another_one(tmp_path, hidden):
    disk = OSError(errno.EIO, "bad sector")
    error = RuntimeError("PytorchStreamWriter failed")
    if hidden in ("cause", "both"):
        error.__cause__ = disk
    if hidden in ("context", "both"):
        error.__context__ = disk
    if hidden == "deep":
        error.__context__ = ValueError("between")
        error.__context__.__cause__ = disk
    found = module._explained(error, 7, tmp_path, tmp_path / "step-00000003")
    assert isinstance(found, OSError) and found.errno == errno.EIO
    assert re.search(r"step 7: Input/output error \([\d,]+ MB free in .*step-00000003, is intact", str(found))
    assert "There is no checkpoint yet" in str(module._explained(error, 7, tmp_path, None))


def test_the_room_that_is_left_is_said_in_megabytes(tmp_path, monkeypatch):
    usage = type(shutil.disk_usage(tmp_path))(9 * 2**30, 8 * 2**30, 1234 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    found = module._explained(OSError(errno.ENOSPC, "full"), 7, tmp_path, None)
    assert f"step 7: the disk is full (1,234 MB free in {tmp_path})." in str(found)


def test_an_error_that_is_not_the_disks_stays_what_it_is(tmp_path):
    error = RuntimeError("something else")
    assert module._explained(error, 7, tmp_path, None) is error


def test_a_new_process_carries_the_best_weights_over_and_keeps_as_many_checkpoints(tmp_path):
    Checkpoints(tmp_path, keep=3).save(1, state(1), best=state(1))
    store = Checkpoints(tmp_path, keep=3)  # it has written nothing yet
    for step in (2, 3, 4):
        store.save(step, state(step))
    assert [path.name[-1] for path in sorted(tmp_path.iterdir())] == ["2", "3", "4"]
    files = [tmp_path / f"step-0000000{step}" / "best.pt" for step in (2, 3, 4)]
    assert len({file.stat().st_ino for file in files}) == 1, "one file under several names"
    assert all(load_state(file)["step"] == 1 for file in files)
    store.save(5, state(5), best=state(5))
    assert load_state(tmp_path / "step-00000005" / "best.pt")["step"] == 5
    assert load_state(files[-1])["step"] == 1


def test_best_weights_are_copied_where_files_cannot_be_linked(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    store = Checkpoints(tmp_path)
    store.save(1, state(1), best=state(1))
    monkeypatch.setattr("os.link", refuse)
    assert load_state(store.save(2, state(2)) / "best.pt")["step"] == 1
    assert is_complete(tmp_path / "step-00000002")


def test_two_checkpoints_are_kept_and_no_more(tmp_path):
    store = Checkpoints(tmp_path)
    for step in (9, 10, 99_999_999):
        assert store.save(step, state(step)).name == f"step-{step:08d}"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000010", "step-99999999"]
    assert Checkpoints(tmp_path / "nothing").latest() is None


def test_the_best_weights_come_from_a_checkpoint_that_is_whole(tmp_path):
    store = Checkpoints(tmp_path, keep=3)
    store.save(1, state(1), best=state(1))
    damaged = store.save(2, state(2), best=state(2))
    (damaged / "best.pt").write_bytes(b"half")
    carried = Checkpoints(tmp_path, keep=3).save(3, state(3))
    assert load_state(carried / "best.pt")["step"] == 1 and is_complete(carried)


def test_a_quota_is_a_full_disk_too(tmp_path):
    for number in (errno.ENOSPC, errno.EDQUOT):
        found = module._explained(OSError(number, "x"), 3, tmp_path, None)
        assert found.errno == number and "step 3: the disk is full" in str(found)


def test_generators_go_on_where_they_were_after_an_error():
    def draw():
        return random.random(), random.gauss(0, 1), np.random.randn(), torch.rand(1).item()  # noqa: NPY002

    draw()  # both gaussian generators now hold a second number back
    before = random_state()
    first = draw()
    set_random_state(before)
    with pytest.raises(KeyError), untouched_random_state():
        draw()
        raise KeyError
    assert draw() == first


def test_a_copy_that_somebody_keeps_is_not_pruned(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    mine = tmp_path / "step-00000003-mine"
    mine.mkdir()
    for step in (2, 3, 100_000_000):
        checkpoints.save(step, {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003-mine", "step-100000000"]
    assert checkpoints.latest() == tmp_path / "step-100000000"


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", pickle.dumps(print), pickle.dumps({"a": random.Random()})]
)
def test_what_is_no_checkpoint_is_refused_without_advice_to_run_it(tmp_path, content):
    path = tmp_path / "state.pt"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"state.pt cannot be loaded") as caught:
        module.load_state(path)
    assert "weights_only" not in str(caught.value)
