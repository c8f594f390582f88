"""How to get what is missing, in a form that works where this package came from."""

from __future__ import annotations

import importlib.metadata
import json
import urllib.parse
import urllib.request
from pathlib import Path


def pip_install(extra: str) -> str:
    """The command that brings an extra: from the clone, if the package was installed from one, else by name.

    Example:
        >>> pip_install("offline").endswith('[offline]"')
        True
    """
    return f'pip install "{_origin()}[{extra}]"'


def _origin() -> str:
    """The folder that pip installed this package from, or its name."""
    try:
        told = importlib.metadata.distribution("summarily").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        told = None
    url = urllib.parse.urlparse(json.loads(told)["url"] if told else "")
    if url.scheme != "file":
        return "summarily"
    folder = Path(urllib.request.url2pathname(url.path))
    return str(folder) if (folder / "setup.cfg").is_file() else "summarily"
