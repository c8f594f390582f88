"""The command `summarily study`."""

from __future__ import annotations

import argparse
import functools
import importlib
from typing import Any

from summarily.support.parsers import LazyParser

STUDIES = {
    "apes": (
        "summarily.studies.apes.study",
        "does APES measure what it should? readers, known summaries, people",
    ),
    "apeso": (
        "summarily.studies.apeso.study",
        "does the entity layer help? pointer-generator and APESO on news",
    ),
    "attention": (
        "summarily.studies.attention",
        "attention mechanisms on headlines, equal budgets",
    ),
    "bleurt": (
        "summarily.studies.bleurt.study",
        "our small BLEURT: signals of other metrics, then people's ratings",
    ),
    "bleurt-summaries": (
        "summarily.studies.bleurt.summaries",
        "our small BLEURT learns which of two summaries people prefer, tested on whole sets",
    ),
    "long": (
        "summarily.studies.long.study",
        "LED and RED on papers: by length, starts, window and attention",
    ),
    "models": (
        "summarily.studies.shipped",
        "the table of shipped summarizers: ROUGE beside lead, seconds and megabytes",
    ),
    "news": (
        "summarily.studies.news",
        "a summarizer of news beside lead-3, its base and published models",
    ),
    "self-critical": (
        "summarily.studies.self_critical.study",
        "learning from ROUGE-L, WMS, SMS, S+WMS, BERTScore and their mean",
    ),
}


def add_parser(commands: Any) -> None:
    """Add `summarily study NAME`; each study's module has `add_arguments` and `run`."""
    parser = commands.add_parser("study", help="train and compare: the papers' tables at our scale")
    kinds = parser.add_subparsers(title="studies", required=True, metavar="STUDY", parser_class=LazyParser)
    for name, (module, text) in STUDIES.items():
        kinds.add_parser(
            name,
            help=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            fill=functools.partial(_fill, module),
        )


def _fill(name: str, parser: argparse.ArgumentParser) -> None:
    module = importlib.import_module(name)
    parser.description = module.__doc__
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)
