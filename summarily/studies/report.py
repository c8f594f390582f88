"""What the reports of all studies share: tables, numbers with intervals, results that are kept, and pictures."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from summarily.support.errors import InputError
from summarily.support.files import is_complete, write_atomically, write_folder
from summarily.support.inputs import read_json

# --- options ----------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser, output: str, jobs: int, what: str = "run") -> None:
    """The options of every study that trains: where to write, the data, how many runs at a time, changed values."""
    parser.add_argument("--output", default=output, help="default: %(default)s")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=jobs,
        help=f"{what}s at a time, each with its share of the cores (default: %(default)s)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help=f"for every {what}"
    )


# --- what is kept -----------------------------------------------------------------------------------------


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """What `make` returns, from the file where an earlier call has left it: a study that was stopped goes on.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kept(Path(folder) / "numbers.json", lambda: [1, 2]), kept(Path(folder) / "numbers.json", lambda: 1 / 0)
        ([1, 2], [1, 2])
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(make(), allow_nan=False, ensure_ascii=False, indent=0))
    return read_json(path)


def kept_model(place: Path, make: Callable[[], tuple[Any, Any]]) -> Path:
    """The folder of the model and the tokenizer that `make` returns, made once."""
    if not is_complete(place):
        model, tokenizer = make()

        def write(partial: Path) -> None:
            model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)

        place.parent.mkdir(parents=True, exist_ok=True)
        write_folder(place, write)
    return place


def kept_copy(place: Path, source: Path, option: str) -> Path:
    """A copy of the folder of a trained model, made once; another one in the folder of a study is refused.

    `option` is what names the source on the command line.
    """
    weights = source / "model.safetensors"
    if not weights.is_file():
        raise InputError(
            f"{source} has no model.safetensors; give the folder of a trained model by {option}."
        )
    if not is_complete(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_folder(place, lambda partial: shutil.copytree(source, partial, dirs_exist_ok=True))
    elif weights.read_bytes() != (place / "model.safetensors").read_bytes():
        raise InputError(
            f"{place.parent.parent} began with another start than {source}; choose another folder by --output."
        )
    return place


# --- numbers ----------------------------------------------------------------------------------------------


def mean_words(texts: Sequence[str]) -> float:
    """The mean length of texts.

    Example:
        >>> mean_words(["It snowed.", "It snowed in Oslo."])
        3.0
    """
    return fmean(len(text.split()) for text in texts)


def with_interval(
    value: float, ends: Sequence[float], form: str = ".1f", scale: float = 1, form_of_ends: str = ""
) -> str:
    """A number and the ends of its interval.

    Example:
        >>> with_interval(0.423, (0.41, 0.436), scale=100)
        '42.3 (41.0 to 43.6)'
    """
    low, high = (format(scale * end, form_of_ends or form) for end in ends)
    return f"{scale * value:{form}} ({low} to {high})"


def scores_of(card: Mapping[str, Any], keys: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The means and the intervals of these keys, as a study stores them."""
    means = {key: value for score in card.values() for key, value in score.mean.items()}
    ends = {key: value for score in card.values() for key, value in (score.interval or {}).items()}
    return {
        "scores": {key: means[key] for key in keys},
        "intervals": {key: list(ends[key][:2]) for key in keys},
    }


def signatures(card: Mapping[str, Any]) -> dict[str, str]:
    """The signature of every metric of a scorecard."""
    return {metric: str(score.signature) for metric, score in card.items()}


# --- the document -----------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown.

    Example:
        >>> table(["model", "ROUGE-1"], [["ours", "40.1"]])
        ['| model | ROUGE-1 |', '|---|---|', '| ours | 40.1 |']
    """
    return [_line(head), "|" + "---|" * len(head), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(folder: Path, study: Any, text: str, *pictures: str, name: str = "study.md") -> None:
    """Write the numbers (`study.json`) and the document, print it, and say where all is."""
    write_atomically(folder / "study.json", json.dumps(study, indent=1))
    write_atomically(folder / name, text.rstrip("\n") + "\n")
    print(text)
    print(f"\nwritten to {folder}: {', '.join(['study.json', name, *pictures])}")


@contextmanager
def picture(path: Path, rows: int = 1, columns: int = 1, dpi: int = 110, **options: Any) -> Iterator[Any]:
    """The axes of a figure, which is written to `path` afterwards; no display is needed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, **options)
    yield axes
    figure.tight_layout()
    figure.savefig(path, dpi=dpi)
    plt.close(figure)
