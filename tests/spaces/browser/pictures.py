"""Take the pictures of the documents: `make pictures` runs the browser tests, and keeps what they saw."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

SPACES = Path(__file__).parents[3] / "spaces"
PICTURES = {
    "scorecard": ("scorecard", (100, 440, 1000, 960)),
    "summarize": ("summarize", (100, 20, 1000, 1700)),
    "attention": ("attention", (100, 20, 1000, 1560)),
    "judge": ("judge", (100, 10, 1000, 760)),
}
"""Space: the screenshot, and left, top, width and height of what is kept of it."""


def main() -> int:
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        os.environ["PICTURES"] = folder
        code = pytest.main(["-q", "-m", "browser", str(Path(__file__).parent)])
        if code == 0:
            for space, (shot, box) in PICTURES.items():
                keep(Path(folder) / f"{shot}.png", SPACES / space / "picture.png", box)
    return int(code)


def keep(source: Path, target: Path, box: tuple[int, int, int, int]) -> None:
    """Cut, and reduce to 64 colours: a page of text needs no more."""
    from PIL import Image

    left, top, width, height = box
    with Image.open(source) as image:
        part = image.crop((left, top, min(left + width, image.width), min(top + height, image.height)))
        part.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
