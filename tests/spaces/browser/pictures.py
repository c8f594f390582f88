"""Take the pictures of the documents: `make pictures` runs the browser tests, and keeps what they saw."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

SPACES = Path(__file__).parents[3] / "spaces"
PICTURES = ("scorecard", "summarize", "attention", "judge")
"""Screenshots of this name become `spaces/<name>/picture.png`."""


def main() -> int:
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        os.environ["PICTURES"] = folder
        code = pytest.main(["-q", "-m", "browser", str(Path(__file__).parent)])
        if code == 0:
            for name in PICTURES:
                keep(Path(folder) / f"{name}.png", SPACES / name / "picture.png")
    return int(code)


def keep(source: Path, target: Path) -> None:
    """Reduce to 64 colours: a page of text needs no more."""
    from PIL import Image

    with Image.open(source) as image:
        image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
