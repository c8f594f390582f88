"""Writing files so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


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
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
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
