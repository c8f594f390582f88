"""What builds the package: setuptools, and beside its files `summarily.pth`, by which `evaluate` knows our metrics.

Python runs a .pth of an installed package whenever it starts. Ours only waits: when `evaluate` is imported, `summarily` is
too, which registers the metrics. SUMMARILY_REGISTER=0 switches it off, and uninstalling removes it.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the hooks that are not ours

PTH = "summarily.pth"
# One line, which is all that a .pth can run. Nothing is imported that Python has not imported to start, and nothing of
# ours may keep `evaluate` from being imported. The first of its own modules says that it is: libraries look for
# `evaluate` itself to see whether it is there.
_WAIT = """
class Wait:
    done = False
    def find_spec(self, name, path=None, target=None):
        if not self.done and name.startswith("evaluate."):
            self.done = True
            try: import summarily
            except Exception: pass
if os.environ.get("SUMMARILY_REGISTER") != "0":
    sys.meta_path.insert(0, Wait())
"""
LINE = f"import os, sys; exec({_WAIT!r}, {{'os': os, 'sys': sys}})\n"


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    return _with_pth(wheel_directory, name)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return _with_pth(wheel_directory, name)


def _with_pth(folder: str, name: str) -> str:
    """Add the file and its line in the list of what is installed."""
    with zipfile.ZipFile(Path(folder) / name, "a", zipfile.ZIP_DEFLATED) as wheel:
        record = next(info for info in wheel.infolist() if info.filename.endswith(".dist-info/RECORD"))
        listed = wheel.read(record).decode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(LINE.encode()).digest()).rstrip(b"=").decode()
        # The old list is left out of the archive's index, and the new one written behind the rest.
        wheel.filelist.remove(record)
        del wheel.NameToInfo[record.filename]
        wheel.writestr(PTH, LINE)
        wheel.writestr(record.filename, f"{PTH},sha256={digest},{len(LINE.encode())}\n{listed}")
    return name
