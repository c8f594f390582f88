"""The command `summarily`."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from summarily.commands.completion import complete, completion
from summarily.commands.given import (
    check_output,
    check_swapped,
    check_texts,
    lines_of,
    references_of,
    selection,
    systems_of,
    understand,
)
from summarily.metrics.options import PRESETS
from summarily.support.errors import (
    InputError,
    MissingRequirement,
    SummarilyError,
    SummarilyWarning,
    first_line,
)
from summarily.support.parsers import add_engine, check_engine
from summarily.support.processes import is_main, leave
from summarily.support.progress import say, speaking
from summarily.support.suggestions import did_you_mean
from summarily.support.version import __version__

_DESCRIPTION = """\
Score summaries with metrics that agree with human readers, and compare systems.

examples:
  summarily score --sample                                    the bundled sample, every metric that runs here
  summarily score --predictions out.txt --references ref.txt  one text per line
  summarily score outputs.jsonl --metrics rouge,sms           columns "prediction" and "reference"
  summarily compare --systems A=a.txt B=b.txt --references ref.txt
  accelerate launch --multi_gpu --num_processes 2 -m summarily score outputs.jsonl
                                                              the same numbers, on two processes (CPUs too)
"""

_LESSON = """\
Score summaries, compare systems, summarize texts. Try:

  summarily score --sample --metrics rouge        the bundled sample, with intervals
  summarily score predictions.txt references.txt  your texts, one per line
  summarily compare a.txt b.txt --references references.txt
  summarily summarize story.txt                   a summary, on this machine
  summarily metrics                               what can be measured here
  summarily demo                                  all of it in the browser

summarily --help lists every command, summarily COMMAND --help its options."""

_INPUT_HELP = """\
a table (jsonl, json, csv, tsv or parquet, also gzipped), the name of a data set, or text files"""

# Sub-commands that live with what they run: the module with `add_parser`, and the help shown before it is imported.
_EXTENSIONS = {
    "meta": ("summarily.metrics.meta_evaluation.cli", "which metric to trust: agreement with people"),
    "demo": ("summarily.spaces.cli", "open a Space in the browser: scorecard, summarize, attention, judge"),
    "convert": (
        "summarily.commands.convert",
        "BART or T5 to LED or RED, pointer-generator to APESO, LED to transformers' and back",
    ),
    "profile-memory": (
        "summarily.studies.memory",
        "peak memory of a training step by length and window",
    ),
    "publish": ("summarily.hub_cards.publish", "build, check and upload metrics, models and demos"),
    "study": ("summarily.studies.cli", "train and compare: the papers' tables at our scale"),
    "summarize": ("summarily.commands.summarize", "summarize texts with a shipped or a Hub model"),
    "train": (
        "summarily.commands.train",
        "train from a recipe: a summarizer, a denoiser, a reader or a BLEURT",
    ),
    "tune-penalties": (
        "summarily.studies.penalties",
        "choose alpha, beta and gamma of the beam search",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (2 for bad input)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments:
        print(_LESSON)
        return 0
    parser = _parser(arguments)
    if (unknown := _unknown_command(parser, arguments[0])) is not None:
        return _fail(unknown)
    options = parser.parse_args(arguments)
    with warnings.catch_warnings(), speaking():
        warnings.simplefilter("always", SummarilyWarning)
        warnings.showwarning = functools.partial(_show_warning, warnings.showwarning)
        say(f"starting {arguments[0]}")
        return _run(options)


def _unknown_command(parser: argparse.ArgumentParser, word: str) -> str | None:
    [commands] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if word.startswith("-") or word in commands.choices:
        return None
    known = [name for name in commands.choices if name != "complete"]  # which people do not type
    return f"there is no command {word!r};{did_you_mean(word, known)}"


def _show_warning(others: Any, message: Any, category: type[Warning], *where: Any, **rest: Any) -> None:
    """Ours in one line; those of other packages as always."""
    if not issubclass(category, SummarilyWarning):
        others(message, category, *where, **rest)
    elif is_main():
        print(f"summarily: {message}", file=sys.stderr)


def _run(options: argparse.Namespace) -> int:
    try:
        code = options.run(options) or 0
        if code == 0:  # after a failure the others may never come
            leave()
        return code
    except SummarilyError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except OSError as error:
        return _fail(
            f"{error.strerror or first_line(error)}{f': {error.filename}' if error.filename else ''}"
        )


def _fail(message: str, code: int = 2) -> int:
    if is_main():
        print(f"summarily: {message}", file=sys.stderr)
    return code


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="summarily", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"summarily {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_score(commands)
    _add_compare(commands)
    command = commands.add_parser("metrics", help="list the metrics, what each measures and needs")
    command.set_defaults(run=_metrics)
    command = commands.add_parser(
        "completion",
        help="complete words with the tab key: the code for your shell",
        description='Print what makes the tab key complete our commands; put eval "$(summarily completion bash)" into '
        "~/.bashrc, or the same with zsh into ~/.zshrc.",
    )
    command.add_argument("shell", choices=["bash", "zsh"])
    command.set_defaults(run=completion)
    command = commands.add_parser("complete")  # asked by that code; without help it is not listed
    command.add_argument("words", nargs=argparse.REMAINDER)
    command.set_defaults(run=functools.partial(complete, _parser))
    command = commands.add_parser("register", help="make the metrics known to evaluate.load")
    command.set_defaults(run=_register)
    for name, (module, text) in _EXTENSIONS.items():
        # Only the command that is asked for is imported, so that the others answer at once.
        if name in arguments[:1]:
            importlib.import_module(module).add_parser(commands)
        else:
            commands.add_parser(name, help=text)
    return parser


def _add_score(commands: Any) -> None:
    parser = commands.add_parser(
        "score",
        help="score predictions against references",
        description="Score predictions against references, with confidence intervals and signatures.",
    )
    _add_inputs(parser)
    parser.add_argument("--predictions", metavar="FILE", help="text file, one prediction per line")
    parser.add_argument(
        "--prediction-column", default="prediction", metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument(
        "--sample",
        nargs="?",
        const="good",
        choices=["good", "mediocre", "broken"],
        help="score the bundled sample; which of its systems (default: good)",
    )
    parser.add_argument(
        "--stream",
        action="store_true",
        help="score a table of any size in constant memory; --json FILE.parquet then gets the scores row by row, and a "
        "run that was stopped goes on",
    )
    parser.add_argument(
        "--on-error",
        default="stop",
        choices=["stop", "skip"],
        help="with --stream or --engine: what to do at a row that cannot be scored (default: %(default)s)",
    )
    add_engine(parser)
    parser.set_defaults(run=_score)


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="compare systems on the same references",
        description="Compare systems: scores with intervals, a ranking, and paired tests of every pair.",
    )
    _add_inputs(parser)
    parser.add_argument(
        "--systems",
        nargs="+",
        metavar="NAME[=FILE]",
        help="columns of the table, or NAME=FILE for text files with one prediction per line",
    )
    parser.add_argument(
        "--sample", action="store_true", help="compare the three systems of the bundled sample"
    )
    parser.set_defaults(run=_compare)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", nargs="*", help=_INPUT_HELP)
    parser.add_argument(
        "--references", nargs="+", metavar="FILE", help="text files; several give several references per line"
    )
    parser.add_argument("--sources", metavar="FILE", help="text file of source documents")
    parser.add_argument(
        "--reference-column", default="reference", metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument(
        "--source-column", default="source", metavar="NAME", help="default: %(default)s, if there"
    )
    parser.add_argument("--split", default="test", help="split of a data set by name (default: %(default)s)")
    parser.add_argument("--config", help="configuration of a data set by name")
    parser.add_argument(
        "--metrics",
        default="all",
        help='comma-separated names, or "all" that can run here (default: %(default)s)',
    )
    parser.add_argument("--preset", default="light", choices=PRESETS, help="default: %(default)s")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="METRIC.OPTION=VALUE",
        help="an option of a metric, such as rouge.stemmer=True",
    )
    parser.add_argument(
        "--confidence", type=float, default=0.95, help="of the intervals (default: %(default)s)"
    )
    parser.add_argument("--no-signatures", action="store_true", help="leave the signatures out of the table")
    parser.add_argument(
        "--json", metavar="FILE", help="write everything, per-example values included, to FILE"
    )


# --- commands ---------------------------------------------------------------------------------------------


def _score(options: argparse.Namespace) -> int:
    understand(options, "score")
    check_output(options)
    say("loading the metrics")
    from summarily.metrics.scorecard import score

    check_engine(options)
    if options.stream or options.engine:
        say("scoring row by row")
        return _score_stream(options)
    if options.on_error != "stop":
        raise InputError("--on-error goes with --stream or --engine.")
    references, sources, table = references_of(options)
    if options.sample:
        predictions = table[options.sample]
    elif options.predictions:
        predictions = lines_of(options.predictions)
    elif options.data:
        from summarily.support.tables import column

        predictions = column(table, options.prediction_column, option="--prediction-column")
    else:
        raise InputError(
            "give --predictions FILE with --references FILE, a table, or --sample; see summarily score --help"
        )
    check_texts({"predictions": predictions, "references": references})
    check_swapped(options, predictions, references)
    confidence = options.confidence if len(predictions) > 1 else None
    say(f"scoring {len(predictions):,} summaries")
    card = score(
        predictions,
        references,
        sources,
        metrics=selection(options),
        preset=options.preset,
        confidence=confidence,
        distributed=True,
    )
    _report(card, options)
    return 0


def _score_stream(options: argparse.Namespace) -> int:
    from summarily.metrics.streaming import Columns, score_stream

    if not options.data or options.predictions or options.references or options.sources or options.sample:
        raise InputError(
            "--stream and --engine read a table: a jsonl, csv or parquet file (for --engine parquet), a folder of them, or "
            "(for --stream) a data set by name."
        )
    if options.engine and not options.json:
        raise InputError(
            "--engine needs --json FILE.parquet for the scores, in a folder that every machine sees."
        )
    asked = {
        "metrics": selection(options),
        "preset": options.preset,
        "confidence": options.confidence,
        "columns": Columns(options.prediction_column, options.reference_column, options.source_column),
        "output": options.json,
        "on_error": options.on_error,
    }
    if options.engine:
        from summarily.metrics.on_ray import score_on_ray

        card = score_on_ray(options.data, address=options.address, workers=options.workers, **asked)
    else:
        card = score_stream(options.data, split=options.split, config=options.config, **asked)
    print(card.table(signatures=not options.no_signatures))
    if options.json:
        print(f"\nrows written to {options.json}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    understand(options, "compare")
    check_output(options)
    say("loading the metrics")
    from summarily.metrics.comparison import compare

    references, sources, table = references_of(options)
    if options.sample:
        from summarily.support.sample import SYSTEMS

        systems = {name: table[name] for name in SYSTEMS}
    else:
        systems = systems_of(options.systems or [], table)
    check_texts({**systems, "references": references})
    say(f"scoring {len(systems)} systems, {len(references):,} summaries each")
    result = compare(
        systems,
        references,
        sources,
        metrics=selection(options),
        preset=options.preset,
        confidence=options.confidence,
        distributed=True,
    )
    _report(result, options)
    return 0


def _metrics(options: argparse.Namespace) -> int:
    from summarily.metrics import METRICS, load, metric_class
    from summarily.support.tables import format_table

    rows, reasons = [], []
    for name in METRICS:
        metric = metric_class(name)
        try:
            load(name).check()
            ready = "yes"
        except MissingRequirement as error:
            ready = "no"
            reasons.append(f"{name}: {error}")
        rows.append([name, ready, metric.summary, metric.needs])
    print(format_table(["metric", "runs here", "what it measures", "what the light preset needs"], rows))
    if reasons:
        print("\n".join(["", "what is missing", *reasons]))
    return 0


def _register(options: argparse.Namespace) -> int:
    from summarily.registration import modules_cache, register

    names = register()
    print(f"evaluate.load now knows: {', '.join(names)}\n(registered in {modules_cache()})")
    return 0


def _report(result: Any, options: argparse.Namespace) -> None:
    """Print and write, once even when several processes have worked."""
    if not is_main():
        return
    if options.json:
        result.to_json(
            options.json
        )  # before the table, of which the reader may have seen enough (head, less)
    print(result.table(signatures=not options.no_signatures))
    if options.json:
        print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    sys.exit(main())
