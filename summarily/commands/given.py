"""What `summarily score` and `summarily compare` are given: files, tables and options, understood and checked."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from summarily.support.errors import InputError, SummarilyWarning
from summarily.support.inputs import literal
from summarily.support.processes import is_main


def lines_of(path: str) -> list[str]:
    from summarily.support.tables import read_lines

    return read_lines(path)


def _given(options: argparse.Namespace, name: str) -> bool:
    return bool(getattr(options, name, None))


def references_of(options: argparse.Namespace) -> tuple[list[Any], list[Any] | None, Mapping[str, list[Any]]]:
    """References, sources, and the table they came from (empty for text files)."""
    if options.sample and (options.data or _given(options, "predictions") or _given(options, "systems")):
        raise InputError("--sample stands alone; leave out the table, --predictions and --systems.")
    for name in ("references", "sources"):
        if (options.data or options.sample) and _given(options, name):
            raise InputError(f"--{name} goes with text files; with a table use --{name[:-1]}-column.")
    if options.data and _given(options, "predictions"):
        raise InputError("--predictions goes with text files; with a table use --prediction-column.")
    if options.sample:
        from summarily.support.sample import load_sample

        rows = load_sample()
        table: Mapping[str, list[Any]] = {name: [row[name] for row in rows] for name in rows[0]}
        return table["references"], table["source"], table
    if options.data:
        from summarily.support.tables import column, read_table

        table = read_table(options.data, options.split, options.config)
        names = [options.reference_column]
        if options.reference_column == "reference":
            names.append("references")
        sources = None
        if options.source_column in table or options.source_column != "source":
            sources = column(table, options.source_column, option="--source-column")
        return column(table, *names, option="--reference-column"), sources, table
    if not options.references:
        raise InputError("give --references FILE [FILE ...], a table, or --sample; see --help")
    files = [lines_of(path) for path in options.references]
    for path, lines in zip(options.references, files, strict=True):
        if len(lines) != len(files[0]):
            raise InputError(
                f"{path} has {len(lines)} lines but {options.references[0]} has {len(files[0])}."
            )
    sources = lines_of(options.sources) if options.sources else None
    return [list(texts) for texts in zip(*files, strict=True)], sources, {}


def systems_of(names: Sequence[str], table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    from summarily.support.tables import column

    systems: dict[str, list[Any]] = {}
    for entry in names:
        name, equals, path = entry.partition("=")
        if name in systems:
            raise InputError(f"--systems names {name!r} twice.")
        systems[name] = lines_of(path) if equals else column(table, name, option="--systems")
    if len(systems) < 2:
        raise InputError("--systems needs at least two of NAME=FILE, or of the table's columns.")
    return systems


def selection(options: argparse.Namespace) -> Any:
    """What `--metrics` and `--set` ask for, as `summarily.score` takes it."""
    settings: dict[str, dict[str, Any]] = {}
    for entry in options.set:
        left, equals, value = entry.partition("=")
        metric, dot, option = left.partition(".")
        if not equals or not dot:
            raise InputError(f"--set {entry}: expected METRIC.OPTION=VALUE, such as rouge.stemmer=True.")
        settings.setdefault(_metric_name(metric), {})[option] = literal(value)
    if options.metrics.strip().lower() == "all":
        return {"all": {}, **settings} if settings else "all"
    names = [_metric_name(name) for name in options.metrics.split(",") if name.strip()]
    unknown = sorted(set(settings) - set(names))
    if unknown:
        raise InputError(f"--set {unknown[0]}...: {unknown[0]} is not among --metrics {options.metrics}.")
    return {name: settings.get(name, {}) for name in names}


def _metric_name(name: str) -> str:
    """As people write it: ROUGE, S-WMS."""
    return name.strip().lower().replace("-", "_")


def understand(options: argparse.Namespace, command: str) -> None:
    """Text files without options: predictions and references for `score`, systems for `compare`."""
    given = options.data
    options.data = given[0] if given else None
    for name in given:
        if _ends_as_text(name) and not Path(name).exists():
            raise InputError(f"there is no file {name}.")
    if len(given) < 2 and not (given and _is_text(given[0])):
        return
    if not all(map(_is_text, given)):
        kinds = " and ".join(given)
        raise InputError(
            f"{kinds}: give one table, or text files with one text per line (.txt); see summarily {command} --help"
        )
    options.data = None
    if command == "score":
        if options.predictions or options.references:
            taken = "--predictions" if options.predictions else "--references"
            raise InputError(
                f"{given[0]} beside {taken}: give all files by options, as --predictions FILE --references FILE."
            )
        if len(given) < 2:
            raise InputError(f"what is {given[0]} compared with? summarily score {given[0]} REFERENCES.txt")
        options.predictions, options.references = given[0], given[1:]
        if is_main():
            print(f"predictions: {given[0]}; references: {', '.join(given[1:])}", file=sys.stderr)
        return
    if not options.references:
        raise InputError(
            f"compare needs references: summarily compare {' '.join(given)} --references REFERENCES.txt"
        )
    names = [Path(path).name.split(".")[0] for path in given]
    if len(set(names)) < len(names):
        names = given
    options.systems = [
        *(options.systems or []),
        *(f"{n}={path}" for n, path in zip(names, given, strict=True)),
    ]


def _is_text(name: str) -> bool:
    return _ends_as_text(name) and Path(name).is_file()


def _ends_as_text(name: str) -> bool:
    return Path(name.removesuffix(".gz")).suffix in (".txt", ".text", ".out", ".hyp", ".ref")


def check_output(options: argparse.Namespace) -> None:
    """A file that cannot be written should be known before the work, not after it."""
    if (
        options.json
        and not getattr(options, "stream", False)
        and not Path(options.json).resolve().parent.is_dir()
    ):
        raise InputError(
            f"--json {options.json}: there is no folder {Path(options.json).parent}; create it first."
        )


def check_texts(columns: Mapping[str, Sequence[Any]]) -> None:
    for name, texts in columns.items():
        empty = [row for row, text in enumerate(texts) if not any(map(str.strip, _strings(text)))]
        if empty:
            warnings.warn(
                f"{len(empty):,} of {len(texts):,} {name} are empty, the first in row {empty[0]}.",
                SummarilyWarning,
                stacklevel=2,
            )


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [text for text in values if isinstance(text, str)] or ["?"]  # what is no text is refused elsewhere


def check_swapped(options: argparse.Namespace, predictions: Sequence[Any], references: Sequence[Any]) -> None:
    """Files that were perhaps given in the wrong place: by their names, or because one is far longer."""
    message = ""
    if options.predictions and options.references:
        first, second = Path(options.predictions).name.lower(), Path(options.references[0]).name.lower()
        if re.search("ref|gold|target", first) and re.search("pred|out|hyp|sys|gen", second):
            message = f"{options.predictions} is taken for predictions and {options.references[0]} for references; are they swapped?"
    lengths = [sum(len(_strings(text)[0].split()) for text in texts) for texts in (predictions, references)]
    if not message and lengths[0] > 4 * lengths[1] > 0:
        message = f"the predictions are {lengths[0] / lengths[1]:.0f} times as long as the references; are they the sources?"
    if message:
        warnings.warn(message, SummarilyWarning, stacklevel=2)
