"""Where things are: the user's data, and the files that come with the package."""

from __future__ import annotations

import importlib.util
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


def package_folder(name: str) -> Path:
    """Where a sub-package lies, for the files in it; nothing of it is imported.

    Example:
        >>> (package_folder("spaces") / "style.css").is_file()
        True
    """
    spec = importlib.util.find_spec(f"summarily.{name}")
    assert spec is not None and spec.submodule_search_locations, f"summarily.{name} is a package"
    return Path(spec.submodule_search_locations[0])


def cache_folder() -> Path:
    """Where converted weights and vectors are kept: what SUMMARILY_CACHE names, else `~/.cache/summarily`."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "summarily"
    return Path(os.environ.get("SUMMARILY_CACHE") or default).expanduser()
