"""The command `summarily summarize`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from summarily.support.documents import documents_in, read_document
from summarily.support.errors import InputError
from summarily.support.files import write_atomically
from summarily.support.parsers import add_engine, check_engine
from summarily.support.progress import say
from summarily.support.sample import load_sample
from summarily.support.shipped import check_name
from summarily.support.tables import TABLE_ENDINGS, column, read_lines, read_table

PENALTIES = {"alpha": "on length", "beta": "on repeated attention", "gamma": "on salient entities left out"}


def add_parser(commands: Any) -> None:
    """The command `summarily summarize`."""
    parser = commands.add_parser(
        "summarize",
        help="summarize documents with a shipped or a Hub model",
        description="Summarize documents (txt, md, html, pdf), a folder of them, standard input (-), or a column of a "
        "table. What is longer than the model reads is read in pieces, unless --long says otherwise.",
        epilog="examples: summarily summarize --sample;  summarily summarize report.pdf;  summarily summarize folder "
        "--output summaries.jsonl;  cat story.txt | summarily summarize - --model headlines;  "
        "summarily summarize articles.jsonl --column source --output out.jsonl",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE|FOLDER|-",
        help="documents, folders, a table (jsonl, json, csv, tsv, parquet), or -",
    )
    parser.add_argument("--sample", action="store_true", help="show a bundled article and its summary")
    parser.add_argument("--model", default="news", help="shipped name, folder or Hub id (%(default)s)")
    parser.add_argument("--column", default="source", help="of a table (default: %(default)s)")
    parser.add_argument("--lines", action="store_true", help="a text file holds one text per line")
    parser.add_argument("--max-length", type=int, help="of a summary, in tokens")
    parser.add_argument("--batch-size", type=int, default=8, help="default: %(default)s")
    parser.add_argument(
        "--long",
        choices=("truncate", "chunk", "reduce", "error"),
        help="texts beyond the model's length (default: chunk, which says so)",
    )
    parser.add_argument("--beams", type=int, default=None, help="beams (default: what the checkpoint says)")
    for name, what in PENALTIES.items():
        parser.add_argument(
            f"--{name}", type=float, help=f"penalty of the search: {what} (default: as the checkpoint says)"
        )
    parser.add_argument("--trust-remote-code", action="store_true", help="allow the checkpoint's own code")
    parser.add_argument("--output", metavar="FILE", help="write jsonl with file, text and summary to FILE")
    parser.add_argument(
        "--on-error",
        default="stop",
        choices=["stop", "skip"],
        help="with --engine: what to do at a row that holds no text (default: %(default)s)",
    )
    add_engine(parser)
    parser.set_defaults(run=_run)


def _run(options: Any) -> int:
    if options.output and not Path(options.output).resolve().parent.is_dir():
        raise InputError(f"--output {options.output}: there is no folder {Path(options.output).parent}.")
    if options.beams is not None and options.beams < 1:  # before a model is loaded
        raise InputError(f"--beams {options.beams}: give at least 1.")
    for name in PENALTIES:
        if (value := getattr(options, name)) is not None and not 0 <= value < float("inf"):
            raise InputError(f"--{name} {value}: a penalty is a number of at least 0.")
    check_engine(options)
    if options.engine:
        return _on_ray(options)
    if options.on_error != "stop":
        raise InputError("--on-error goes with --engine.")
    check_name(options.model)
    named = _texts(options)
    texts = [text for _, text in named]
    say(f"loading {options.model}")
    from summarily.modeling.generation.summarizer import Summarizer

    if options.sample:
        print(f"An article of the bundled sample:\n\n{texts[0]}\n\nIts summary by {options.model}:\n")
    summarizer = Summarizer(options.model, trust_remote_code=options.trust_remote_code)
    say(f"summarizing {len(texts):,} text{'s' if len(texts) > 1 else ''}")
    summaries = summarizer(
        texts,
        max_length=options.max_length,
        batch_size=options.batch_size,
        long=options.long or _how_to_read(summarizer, named, options.model),
        **_search(options),
    )
    if not options.output:
        _show(named, summaries)
        return 0
    rows = (
        json.dumps({**({"file": name} if name else {}), "text": text, "summary": summary}, ensure_ascii=False)
        for (name, text), summary in zip(named, summaries, strict=True)
    )
    write_atomically(options.output, "\n".join(rows) + "\n")
    print(f"{len(summaries)} summaries written to {options.output}")
    return 0


def _search(options: Any) -> dict[str, Any]:
    """What was said about the search; the rest is as the checkpoint says."""
    asked = {"num_beams": options.beams} | {name: getattr(options, name) for name in PENALTIES}
    return {name: value for name, value in asked.items() if value is not None}


def _on_ray(options: Any) -> int:
    if len(options.files) != 1 or options.sample or options.lines:
        raise InputError("--engine reads one parquet file, a folder of them, or a pattern in quotes.")
    if not options.output:
        raise InputError(
            "--engine needs --output FILE.parquet for the summaries, in a folder that every machine sees."
        )
    from summarily.modeling.generation.on_ray import summarize_on_ray

    asked = {"max_length": options.max_length, "long": options.long}
    done = summarize_on_ray(
        options.files[0],
        options.model,
        options.column,
        options.output,
        options.on_error,
        address=options.address,
        workers=options.workers,
        trust_remote_code=options.trust_remote_code,
        batch_size=options.batch_size,
        **{name: value for name, value in asked.items() if value is not None},
        **_search(options),
    )
    left_out = f", {done.errors:,} left out" if done.errors else ""
    print(f"{done.rows:,} summaries written to {options.output}{left_out}")
    return 0


def _show(named: Sequence[tuple[str, str]], summaries: Sequence[str]) -> None:
    """A summary a line; of several files, each under the name of its file."""
    lines = [summary.replace("\n", " ") for summary in summaries]
    if len(named) == 1 or not named[0][0]:
        print("\n".join(lines))
    else:
        print("\n\n".join(f"{name}\n{line}" for (name, _), line in zip(named, lines, strict=True)))


def _how_to_read(summarizer: Any, named: Sequence[tuple[str, str]], model: str) -> str:
    """In pieces, where a text is longer than the model reads; it is said which."""
    too_long = summarizer.too_long([text for _, text in named])
    if not too_long:
        return "truncate"
    which = ", ".join(name for name in (named[row][0] for row in too_long[:3]) if name) or "the text"
    more = f" and {len(too_long) - 3} more" if len(too_long) > 3 else ""
    print(
        f"summarily: {which}{more}: longer than the {summarizer.source_limit} tokens that {model} reads at once, so it is "
        "summarized in pieces (--long chunk); --long truncate reads the beginning alone.",
        file=sys.stderr,
    )
    return "chunk"


def _texts(options: Any) -> list[tuple[str, str]]:
    """Each text with the name of its file, or with none."""
    if options.sample:
        if options.files:
            raise InputError(f"--sample shows a bundled article; leave out {options.files[0]}, or --sample.")
        return [("", load_sample()[0]["source"])]
    if not options.files:
        raise InputError("name a file, a folder, - for standard input, or --sample.")
    named = [pair for name in options.files for pair in _texts_of(name, options)]
    if not any(str(text).strip() for _, text in named):
        raise InputError(f"{', '.join(options.files)} holds no text to summarize.")
    return named


def _texts_of(name: str, options: Any) -> list[tuple[str, str]]:
    if name == "-":
        whole = sys.stdin.read()
        return [("", text) for text in (whole.splitlines() if options.lines else [whole])]
    path = Path(name)
    if path.is_dir():
        return [(str(file), read_document(file)) for file in documents_in(path)]
    if name.startswith(("http://", "https://")):
        raise InputError(f"{name}: pages are not fetched; save the page, and name the file.")
    if any(ending in path.suffixes for ending in TABLE_ENDINGS):
        return [("", text) for text in column(read_table(name), options.column, option="--column")]
    if options.lines:
        return [("", line) for line in read_lines(name)]
    return [(name, read_document(path))]
