"""Writing files and folders so that a reader sees the old content or the new, never a part.

A folder is written under another name, synced to disk, given a marker with the size and hash of each file,
and renamed: a process killed at any moment leaves the previous folders as they were. What does not agree with
its marker is never loaded.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from summarily.support.errors import FileError, SummarilyError, first_line

MARKER = "complete.json"
_PARTIAL = ".partial-"


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write text (as UTF-8) or bytes to `path` through a temporary file beside it.

    Example:
        >>> import tempfile, pathlib
        >>> target = pathlib.Path(tempfile.mkdtemp()) / "scores.json"
        >>> write_atomically(target, "{}"); target.read_text()
        '{}'
    """
    path = Path(os.path.realpath(path))  # the file behind a link, not the link
    content = content.encode("utf-8") if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a pipe or a terminal: there is nothing to replace
        path.write_bytes(content)
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{_PARTIAL}{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def write_folder(path: Path, write: Callable[[Path], object], marker: bool = True) -> None:
    """Create or replace the folder `path` by what `write` puts into it, all or nothing.

    Example:
        >>> write_folder(Path("/tmp/summarily-example"), lambda folder: (folder / "a").write_text("1"))
        >>> is_complete(Path("/tmp/summarily-example"))
        True
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(path.parent):
        _write_folder(path, write, marker)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Only one process at a time is inside for a folder; it is the folder that is locked, so nothing is left in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_folder(path: Path, write: Callable[[Path], object], marker: bool) -> None:
    partial = path.with_name(f"{_PARTIAL}{path.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        write(partial)
        for file in _files(partial):
            _sync(file)
        if marker:
            (partial / MARKER).write_text(json.dumps(_fingerprints(partial), indent=1))
            _sync(partial / MARKER)
        _sync(partial)
        if path.exists():  # a folder cannot be renamed over another
            replaced = path.with_name(f"{_PARTIAL}replaced-{path.name}")
            shutil.rmtree(replaced, ignore_errors=True)
            path.rename(replaced)
            partial.rename(path)
            shutil.rmtree(replaced)
        else:
            partial.rename(path)
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def make_folder_once(path: Path, write: Callable[[Path], object]) -> Path:
    """The folder `path`, filled by `write` unless it is there; a second process waits for the first.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "made"
        >>> for text in ("first", "second"):
        ...     folder = make_folder_once(path, lambda folder: (folder / "a").write_text(text))
        >>> (folder / "a").read_text()
        'first'
    """
    if path.is_dir():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (path.parent / f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released with the process, however it ends
            if not path.is_dir():
                write_folder(path, write, marker=False)
    except SummarilyError:
        raise
    except Exception as error:
        from safetensors import SafetensorError  # of a disk that is full, too

        if not isinstance(error, OSError | SafetensorError):
            raise
        raise FileError(
            f"{path} cannot be made ({first_line(error)}); give SUMMARILY_CACHE a folder that can be written and has "
            "room."
        ) from error
    return path


def is_complete(folder: Path) -> bool:
    """Whether every file is the one that was written."""
    try:
        return bool(json.loads((folder / MARKER).read_text()) == _fingerprints(folder))
    except (OSError, ValueError):
        return False


def remove_partial(folder: Path) -> None:
    """Remove what a killed process left half-written."""
    for path in folder.glob(f"{_PARTIAL}*"):
        replaced = folder / path.name.removeprefix(f"{_PARTIAL}replaced-")
        if path.name.startswith(f"{_PARTIAL}replaced-") and not replaced.exists():
            path.rename(replaced)  # killed between the two renames: the old folder is still good
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)


def _fingerprints(folder: Path) -> dict[str, list[Any]]:
    prints = {}
    for path in _files(folder):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        prints[str(path.relative_to(folder))] = [path.stat().st_size, digest]
    return prints


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder against a second run; the lock dies with the process, however it dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileError(
                f"another run is writing to {folder}; wait for it to end or choose another output folder."
            ) from None
        yield
