"""Parsers of the command line that import nothing before it is needed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


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
