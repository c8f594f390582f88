"""The command `summarily summarize`."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from summarily.support.errors import InputError
from summarily.support.files import write_atomically
from summarily.support.sample import load_sample
from summarily.support.tables import TABLE_ENDINGS, column, read_lines, read_table


def add_parser(commands: Any) -> None:
    """The command `summarily summarize`."""
    parser = commands.add_parser(
        "summarize",
        help="summarize texts with a shipped or a Hub model",
        description="Summarize a text file, standard input (-), or a column of a table.",
        epilog="examples: summarily summarize --sample;  summarily summarize story.txt;  "
        "cat story.txt | summarily summarize - --model headlines;  "
        "summarily summarize articles.jsonl --column source --output out.jsonl",
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE|-", help="a text, a table (jsonl, csv, tsv, parquet), or -"
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
        default="truncate",
        help="texts beyond the model's length (%(default)s)",
    )
    parser.add_argument("--beams", type=int, default=None, help="beams (default: what the checkpoint says)")
    parser.add_argument("--trust-remote-code", action="store_true", help="allow the checkpoint's own code")
    parser.add_argument("--output", metavar="FILE", help="write jsonl with text and summary to FILE")
    parser.set_defaults(run=_run)


def _run(options: Any) -> int:
    from summarily.modeling.generation.summarizer import Summarizer

    if options.beams is not None and options.beams < 1:  # before a model is loaded
        raise InputError(f"--beams {options.beams}: give at least 1.")
    texts = _texts(options)
    if options.sample:
        print(f"An article of the bundled sample:\n\n{texts[0]}\n\nIts summary by {options.model}:\n")
    summarizer = Summarizer(options.model, trust_remote_code=options.trust_remote_code)
    generation = {} if options.beams is None else {"num_beams": options.beams}
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: _note(str(message))
        summaries = summarizer(
            texts,
            max_length=options.max_length,
            batch_size=options.batch_size,
            long=options.long,
            **generation,
        )
    if not options.output:
        print("\n".join(summary.replace("\n", " ") for summary in summaries))
        return 0
    rows = (
        json.dumps({"text": t, "summary": s}, ensure_ascii=False)
        for t, s in zip(texts, summaries, strict=True)
    )
    write_atomically(options.output, "\n".join(rows) + "\n")
    print(f"{len(summaries)} summaries written to {options.output}")
    return 0


def _note(message: str) -> None:
    print(f"summarily: {message}", file=sys.stderr)


def _texts(options: Any) -> list[str]:
    if options.sample:
        if options.file:
            raise InputError(f"--sample shows a bundled article; leave out {options.file}, or --sample.")
        return [load_sample()[0]["source"]]
    if not options.file:
        raise InputError("name a file, - for standard input, or --sample.")
    if options.file == "-":
        whole = sys.stdin.read()
        texts = whole.splitlines() if options.lines else [whole]
    elif any(ending in Path(options.file).suffixes for ending in TABLE_ENDINGS):
        texts = column(read_table(options.file), options.column)
    else:
        lines = read_lines(options.file)
        texts = lines if options.lines else ["\n".join(lines)]
    if not any(str(text).strip() for text in texts):
        raise InputError(f"{options.file} holds no text to summarize.")
    return texts
