"""Where the data are, and where we keep what is worth keeping."""

from __future__ import annotations

import os
from pathlib import Path

from summarily.support.errors import InputError


def data_folder(folder: str | os.PathLike[str] | None = None, default: str | None = None) -> Path:
    """The folder of local data: the one given, else what SUMMARILY_DATA names, else `default`.

    Raises:
        InputError: there is none of them.

    Example:
        >>> data_folder("news").name
        'news'
    """
    chosen = folder or os.environ.get("SUMMARILY_DATA") or default
    if not chosen:
        raise InputError("where are the data? Give --data FOLDER or set SUMMARILY_DATA.")
    return Path(chosen).expanduser()
