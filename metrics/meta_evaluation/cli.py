"""The command `summarily meta`."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("meta", help="which metric to trust: agreement with people")
    kinds = parser.add_subparsers(title="studies", required=True, metavar="STUDY")
    human = kinds.add_parser(
        "human",
        help="correlation with people's judgements",
        description="Correlate every metric with people's judgements, pooled and by article, and test each against "
        "a baseline (Williams' test on the pooled Spearman correlation, one-sided).",
    )
    human.add_argument(
        "judgements", help="chaganty, summeval, realsumm, frank, a table, or a data set's name"
    )
    human.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    human.add_argument("--question", help="which human score, where there are several")
    human.add_argument(
        "--metrics", default="all", help='comma-separated names, or "all" (default: %(default)s)'
    )
    human.add_argument("--baseline", default="rougeL", help="value to test against (default: %(default)s)")
    human.add_argument("--preset", default="light", choices=["light", "paper"], help="default: %(default)s")
    human.add_argument("--json", metavar="FILE", help="write everything to FILE")
    human.add_argument("--markdown", action="store_true", help="print the Spearman correlations as Markdown")
    human.set_defaults(run=run_human)


def run_human(options: argparse.Namespace) -> int:
    from summarily.metrics import load
    from summarily.metrics.files import write_atomically
    from summarily.metrics.meta_evaluation import agreement as human
    from summarily.metrics.meta_evaluation.human import read_judgements

    judgements = read_judgements(options.judgements, options.question, options.data)
    if options.metrics == "all":
        metrics = human.default_metrics(options.preset)
    else:
        metrics = {
            name.strip(): load(name.strip(), preset=options.preset) for name in options.metrics.split(",")
        }
    rows, signatures = human.agreement(judgements, metrics, options.baseline)
    articles, undefined = rows[0].articles, rows[0].undefined_articles
    print(judgements.describe())
    print(f"by input: {articles} articles; {undefined} have one summary or constant scores and are left out")
    table = human.agreement_markdown(rows) if options.markdown else human.agreement_table(rows)
    print(f"\n{table}\n\nsignatures")
    print("\n".join(signatures.values()))
    if options.json:
        result = {
            "judgements": judgements.name,
            "rows": [asdict(row) for row in rows],
            "signatures": signatures,
        }
        write_atomically(options.json, json.dumps(_without_nan(result), indent=2, allow_nan=False))
    return 0


def _without_nan(value: Any) -> Any:
    """An undefined correlation is null in JSON."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
