"""Take the pictures of the documents: `make pictures` runs the browser tests, and keeps what they saw.

All of it, in the dark and on a phone too, lies in `build/pictures`, to be looked at.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SEEN = ROOT / "build" / "pictures"
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

    shutil.rmtree(SEEN, ignore_errors=True)
    SEEN.mkdir(parents=True)
    os.environ["PICTURES"] = str(SEEN)
    code = pytest.main(["-q", "-m", "browser", str(Path(__file__).parent)])
    if code == 0:
        for name, target in PICTURES.items():
            keep(SEEN / f"{name}.png", ROOT / "spaces" / target)
    return int(code)


def keep(source: Path, target: Path) -> None:
    """Reduce to 64 colours: a page of text needs no more."""
    from PIL import Image

    with Image.open(source) as image:
        image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
