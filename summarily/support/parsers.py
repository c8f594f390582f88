"""Parsers of the command line that import nothing before it is needed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from summarily.support.errors import InputError


class LazyParser(argparse.ArgumentParser):
    """A sub-command's parser that gets its arguments when the sub-command is the one asked for.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> commands = parser.add_subparsers(parser_class=LazyParser)
        >>> _ = commands.add_parser("heavy", fill=lambda heavy: heavy.add_argument("--size", type=int))
        >>> parser.parse_args(["heavy", "--size", "3"]).size
        3
    """

    def __init__(self, *arguments: Any, fill: Callable[[Any], object], **options: Any):
        super().__init__(*arguments, **options)
        self._fill: Callable[[Any], object] | None = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)
        return super().parse_known_args(args, namespace)


# --- where the work is done ---------------------------------------------------------------------------------


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The options of commands that can work on a cluster.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> add_engine(parser)
        >>> parser.parse_args(["--engine", "ray", "--workers", "4"]).workers
        4
    """
    parser.add_argument(
        "--engine",
        choices=["ray"],
        help="work on parquet files (one, a folder, a quoted pattern, s3://...) with a pool of processes, which Ray keeps "
        "running; a run that was stopped goes on",
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="with --engine: of the Ray cluster, auto for the one of this machine (default: this machine alone)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="with --engine: processes (default: one for each CPU but one)",
    )


def check_engine(options: argparse.Namespace) -> None:
    """Refuse what goes with --engine alone."""
    for name in ("address", "workers"):
        if getattr(options, name) is not None and not options.engine:
            raise InputError(f"--{name} goes with --engine ray.")
    if options.engine and getattr(options, "stream", False):
        raise InputError("--engine ray streams by itself; leave --stream out.")
