"""Take the pictures of the documents: `make pictures` runs the browser tests, and keeps what they saw."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

SPACES = Path(__file__).parents[3] / "spaces"
PICTURES = {
    "scorecard": "scorecard/picture.png",
    "transport": "scorecard/why.png",
    "summarize": "summarize/picture.png",
    "attention": "attention/picture.png",
    "judge": "judge/picture.png",
}
"""Screenshot: the file that is kept of it."""


def main() -> int:
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        os.environ["PICTURES"] = folder
        code = pytest.main(["-q", "-m", "browser", str(Path(__file__).parent)])
        if code == 0:
            for name, target in PICTURES.items():
                keep(Path(folder) / f"{name}.png", SPACES / target)
    return int(code)


def keep(source: Path, target: Path) -> None:
    """Reduce to 64 colours: a page of text needs no more."""
    from PIL import Image

    with Image.open(source) as image:
        image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
