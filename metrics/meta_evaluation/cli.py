"""The command `summarily meta`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from summarily.metrics.meta_evaluation import LIMITS
from summarily.metrics.options import PRESETS
from summarily.support.progress import say

_SETS = (
    "chaganty, summeval, realsumm, frank, a table (csv, tsv, jsonl, parquet), the folder of an evaluation archive of DUC or "
    "TAC, or the name of a data set"
)


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "meta",
        help="which metric to trust: agreement with people",
        description="Which metric to trust: studies of metrics on judged summaries, paraphrases and damaged texts.",
    )
    studies = parser.add_subparsers(title="studies", required=True, metavar="STUDY")
    _add_human(studies)
    _add_paraphrase(studies)
    _add_corruption(studies)
    _add_benchmark(studies)
    _add_profile(studies)
    _add_all(studies)
    _add_sweep(studies)
    _add_disagree(studies)
    _add_holdout(studies)
    _add_report(studies)
    _add_recommend(studies)
    _add_thesis(studies)


# --- options ------------------------------------------------------------------------------------------------


def _common(parser: argparse.ArgumentParser, metrics: bool = True) -> None:
    parser.add_argument("--data", metavar="FOLDER", help="folder of the named sets (default: SUMMARILY_DATA)")
    if metrics:
        parser.add_argument(
            "--metrics",
            default="all",
            help='names, such as "rouge,sms(embeddings=contextual)" (default: %(default)s)',
        )
    parser.add_argument("--preset", default="light", choices=PRESETS, help="default: %(default)s")
    parser.add_argument(
        "--scores",
        metavar="FILE",
        help="file where scores are kept by content and signature (default: the cache folder)",
    )
    _output(parser)


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", metavar="FILE", help="write tables and plots to FILE, one HTML page")
    parser.add_argument("--json", metavar="FILE", help="write the tables to FILE")
    parser.add_argument(
        "--keep", metavar="FOLDER", help="keep the numbers (no texts) in FOLDER, for `meta report`"
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")


def _columns(parser: argparse.ArgumentParser) -> None:
    from summarily.metrics.meta_evaluation.human import Columns

    for name, default in vars(Columns()).items():
        parser.add_argument(
            f"--{name}-column",
            default=default,
            metavar="NAME",
            help="of a table of yours (default: %(default)s)",
        )
    parser.add_argument("--split", help="of a data set by name")
    parser.add_argument(
        "--reference-file", metavar="FILE", help="one text that every row is compared with (essays)"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="COLUMN=VALUE", help="take only these rows of a table"
    )


def _chosen_columns(options: argparse.Namespace) -> Any:
    from summarily.metrics.meta_evaluation.human import Columns

    return Columns(**{name: getattr(options, f"{name}_column") for name in vars(Columns())})


def _judgements(options: argparse.Namespace) -> Any:
    from summarily.metrics.meta_evaluation.human import read_judgements
    from summarily.support.errors import InputError

    say(f"reading {options.judgements}")
    text = None
    if options.reference_file:
        if not Path(options.reference_file).is_file():
            raise InputError(f"there is no file {options.reference_file}.")
        text = Path(options.reference_file).read_text(encoding="utf-8")
    where = {}
    for entry in options.where:
        name, equals, value = entry.partition("=")
        if not equals:
            raise InputError(f"--where {entry}: expected COLUMN=VALUE.")
        where[name] = value
    return read_judgements(
        options.judgements,
        options.question,
        options.data,
        _chosen_columns(options),
        options.split,
        text,
        where,
    )


def _store(options: argparse.Namespace) -> Any:
    from summarily.metrics.meta_evaluation.scores import ScoreStore
    from summarily.support.folders import cache_folder

    path = Path(options.scores) if options.scores else cache_folder() / "scores.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    return ScoreStore(path)


def _metrics(options: argparse.Namespace) -> dict[str, Any]:
    say("loading the metrics")
    from summarily.metrics.meta_evaluation.scores import choose_metrics

    metrics, skipped = choose_metrics(options.metrics, options.preset, getattr(options, "only", None))
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}", file=sys.stderr)  # the first line of the output is the answer
    return metrics


def _show(options: argparse.Namespace, sections: Sequence[Any], results: dict[str, dict[str, Any]]) -> int:
    """Print, and write what was asked for. With --report the sections have their plots."""
    from summarily.metrics.meta_evaluation.reports import page
    from summarily.metrics.meta_evaluation.scores import save_result
    from summarily.support.files import write_atomically

    if options.report:
        write_atomically(options.report, page("Which metric to trust", sections))
    if options.json:
        tables = [vars(table) for section in sections for table in section.tables]
        write_atomically(options.json, json.dumps(tables, indent=2, ensure_ascii=False))
    if options.keep:
        for kind, by_name in results.items():
            for name, result in by_name.items():
                save_result(options.keep, kind, name, result)
    # After the files: who reads along may have seen enough of it (head, less).
    if options.markdown:
        tables = [table for section in sections for table in section.tables]
        answers = ["\n".join(section.first) for section in sections if section.first]
        print("\n\n".join([*answers, *(f"{table.title}\n\n{table.markdown()}" for table in tables)]))
    else:
        print("\n\n".join(section.terminal() for section in sections))
    if options.report:
        print(f"\nwritten to {options.report}")
    return 0


# --- studies ------------------------------------------------------------------------------------------------


def _add_human(studies: Any) -> None:
    parser = studies.add_parser(
        "human",
        help="correlation with people's judgements",
        description="Correlate every metric with people's judgements: pooled, by input and by system, with intervals "
        "and tests against a baseline.",
    )
    parser.add_argument("judgements", metavar="DATA", help=_SETS)
    parser.add_argument("--question", help="which human score, where there are several")
    parser.add_argument("--baseline", help="value to test against (default: rougeL)")
    parser.add_argument(
        "--coefficient",
        default="spearman",
        choices=["pearson", "spearman", "kendall"],
        help="default: %(default)s",
    )
    _columns(parser)
    _common(parser)
    parser.set_defaults(run=run_human)


def run_human(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import agreement

    judgements = _judgements(options)
    scored = agreement.score_judgements([judgements], _metrics(options), _store(options))
    study = agreement.analyse(scored, judgements.question, options.coefficient, options.baseline)
    section = agreement.section(scored, [study], bool(options.report))
    return _show(options, [section], {"human": {scored.name: scored}})


def _add_paraphrase(studies: Any) -> None:
    parser = studies.add_parser(
        "paraphrase",
        help="telling paraphrases from other pairs",
        description="Correlate every metric with the label of sentence pairs, and classify by a boundary learnt on half.",
    )
    parser.add_argument("pairs", metavar="DATA", help="quora, stsb, a table, or the name of a data set")
    for name, default in (("first", "question1"), ("second", "question2"), ("label", "is_duplicate")):
        parser.add_argument(f"--{name}-column", default=default, metavar="NAME", help="default: %(default)s")
    parser.add_argument("--limit", type=int, help="only the first so many pairs")
    parser.add_argument("--split", default="validation", help="of a data set by name (default: %(default)s)")
    parser.add_argument("--config", help="of a data set by name")
    _common(parser)
    parser.set_defaults(run=run_paraphrase)


def run_paraphrase(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import paraphrase

    columns = (options.first_column, options.second_column, options.label_column)
    pairs = paraphrase.read_pairs(
        options.pairs, options.data, columns, options.limit, options.split, options.config
    )
    scored = paraphrase.score_pairs(pairs, _metrics(options), _store(options))
    section = paraphrase.section(scored, paraphrase.analyse_pairs(scored), bool(options.report))
    return _show(options, [section], {"paraphrase": {scored.name: scored}})


def _refill(options: argparse.Namespace) -> tuple[Any, str]:
    from summarily.metrics.meta_evaluation import corruption

    if options.masked_model:
        return corruption.masked_language_model(
            options.masked_model
        ), f"the masked model {options.masked_model}"
    return None, "nearest words of GloVe"


def _add_corruption(studies: Any) -> None:
    parser = studies.add_parser(
        "corruption",
        help="noticing dropped, swapped and refilled words",
        description="How often a clean summary scores above its damaged version, both against a separate reference.",
    )
    parser.add_argument("outputs", metavar="DATA", help="simcls, a table, or the name of a data set")
    parser.add_argument("--summary-column", default="summary", metavar="NAME", help="default: %(default)s")
    parser.add_argument(
        "--reference-column", default="reference", metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument("--kinds", default="drop,swap,refill", help="default: %(default)s")
    parser.add_argument("--seeds", default="0,1,2", help="default: %(default)s")
    parser.add_argument(
        "--masked-model", metavar="MODEL", help="refill by this masked language model (path or Hub id)"
    )
    parser.add_argument(
        "--limit", type=int, default=200, help="only the first so many (default: %(default)s)"
    )
    parser.add_argument("--split", default="test", help="of a data set by name (default: %(default)s)")
    _common(parser)
    parser.set_defaults(run=run_corruption)


def run_corruption(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import corruption

    name, summaries, references = corruption.read_outputs(
        options.outputs,
        options.data,
        options.summary_column,
        options.reference_column,
        options.limit,
        options.split,
    )
    refill, refill_name = _refill(options)
    result = corruption.corruption_study(
        name, summaries, references, _metrics(options), _store(options),
        kinds=options.kinds.split(","), seeds=_numbers("--seeds", options.seeds), refill=refill, refill_name=refill_name,
    )  # fmt: skip
    return _show(options, [corruption.section(result)], {"corruption": {name: result}})


def _numbers(option: str, text: str) -> list[int]:
    from summarily.support.errors import InputError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: expected whole numbers with commas between them.") from None


def _add_benchmark(studies: Any) -> None:
    parser = studies.add_parser(
        "benchmark",
        help="several systems under every metric",
        description="Mean, standard deviation and paired tests of several systems under every metric.",
    )
    parser.add_argument("outputs", metavar="DATA", help="xsum, a table, or the name of a data set")
    parser.add_argument("--systems", nargs="+", default=[], metavar="COLUMN", help="columns of the systems")
    parser.add_argument(
        "--reference-column", default="reference", metavar="NAME", help="default: %(default)s"
    )
    parser.add_argument("--limit", type=int, help="only the first so many rows")
    parser.add_argument("--split", default="test", help="of a data set by name (default: %(default)s)")
    _common(parser)
    parser.set_defaults(run=run_benchmark)


def run_benchmark(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import benchmark

    outputs = benchmark.read_systems(
        options.outputs, options.data, options.systems, options.reference_column, options.limit, options.split
    )
    result = benchmark.benchmark(outputs, _metrics(options), _store(options))
    return _show(
        options, [benchmark.section(result, bool(options.report))], {"benchmark": {outputs.name: result}}
    )


def _add_profile(studies: Any) -> None:
    parser = studies.add_parser(
        "profile",
        help="seconds per 1,000 summaries and peak memory",
        description="What every metric costs, each alone in a process.",
    )
    parser.add_argument("judgements", metavar="DATA", help=_SETS)
    parser.add_argument("--question", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, default=200, help="summaries to score (default: %(default)s)")
    parser.add_argument("--fresh", action="store_true", help="measure again what was measured before")
    _columns(parser)
    _common(parser)
    parser.set_defaults(run=run_profile)


def run_profile(options: argparse.Namespace) -> int:
    from summarily.metrics.base import make_examples
    from summarily.metrics.meta_evaluation import profiling

    judgements = _judgements(options)
    n = options.limit
    sources = judgements.sources[:n] if judgements.sources else None
    examples = make_examples(judgements.summaries[:n], judgements.references[:n], sources)
    result = profiling.profile(_metrics(options), examples, _store(options), options.fresh)
    return _show(options, [profiling.section(result)], {"profile": {judgements.name: result}})


def _add_all(studies: Any) -> None:
    parser = studies.add_parser(
        "all",
        help="every study",
        description="Every study, on the published sets of a data folder or on one table of judged summaries.",
    )
    parser.add_argument(
        "judgements", metavar="DATA", nargs="?", help="a data folder (default: --data), or a table"
    )
    parser.add_argument("--question", help="which human score of the table, where there are several")
    parser.add_argument(
        "--masked-model", metavar="MODEL", help="refill by this masked language model (path or Hub id)"
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="STUDY=N",
        help=f"rows of the large sets (default: {', '.join(f'{k}={v}' for k, v in LIMITS.items())})",
    )
    parser.add_argument(
        "--sweep-models", default="minilm", help="encoders whose layers are compared (default: %(default)s)"
    )
    parser.add_argument("--fresh", action="store_true", help="measure the cost again")
    parser.add_argument(
        "--only",
        metavar="LABELS",
        help='compute some of all metrics, such as "rouge,sms contextual"; in the folder of --keep the others stay',
    )
    _columns(parser)
    _common(parser)
    parser.set_defaults(run=run_all)


def run_all(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import everything
    from summarily.metrics.meta_evaluation.scores import choose_metrics
    from summarily.support.errors import InputError
    from summarily.support.folders import data_folder

    limits = dict(LIMITS)
    for entry in options.limit:
        study, equals, value = entry.partition("=")
        if study not in limits or not equals:
            raise InputError(f"--limit {entry}: expected STUDY=N with a study of {', '.join(limits)}.")
        limits[study] = _numbers("--limit", value)[0]
    refill, refill_name = _refill(options)
    metrics = _metrics(options)
    order = None if options.only is None else list(choose_metrics("all", options.preset)[0])
    plan = everything.Plan(
        metrics, _store(options), limits, refill, refill_name,
        sweep_models=options.sweep_models.split(","), fresh=options.fresh,
        encoders=options.only is None or "bertscore" in metrics, keep=everything.keeper(options.keep, order),
    )  # fmt: skip
    if options.judgements and not Path(options.judgements).is_dir():
        results = everything.run_on_table(
            options.judgements, _chosen_columns(options), options.question, plan
        )
    else:
        results = everything.run_on_folder(data_folder(options.judgements or options.data), plan)
    return _show(options, everything.sections(results, bool(options.report)), results)


def _add_sweep(studies: Any) -> None:
    parser = studies.add_parser(
        "sweep",
        help="models and layers of a metric against people",
        description="Choose an encoder: score with every model and layer and correlate with people.",
    )
    parser.add_argument("judgements", metavar="DATA", help=_SETS)
    parser.add_argument("--question", help="which human score, where there are several")
    parser.add_argument("--metric", default="bertscore", help="default: %(default)s")
    parser.add_argument("--models", default="minilm", help="names, paths or Hub ids (default: %(default)s)")
    parser.add_argument("--layers", help="such as 4,5,6 or -1 (default: all)")
    _columns(parser)
    _common(parser, metrics=False)
    parser.set_defaults(run=run_sweep)


def run_sweep(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import sweep

    judgements = _judgements(options)
    layers = _numbers("--layers", options.layers) if options.layers else None
    models = [model.strip() for model in options.models.split(",")]
    scored = sweep.sweep(judgements, options.metric, models, layers, options.preset, _store(options))
    name = f"{options.metric}.{scored.name}"
    return _show(options, [sweep.section(scored, bool(options.report))], {"sweep": {name: scored}})


def _add_disagree(studies: Any) -> None:
    parser = studies.add_parser(
        "disagree",
        help="the examples where two metrics, or a metric and people, differ most",
        description="Show the summaries that two metrics (or a metric and people) rank high together, low together, and "
        "most differently: a share of all in each group.",
    )
    parser.add_argument("judgements", metavar="DATA", help=_SETS)
    parser.add_argument("--question", help="which human score, where there are several")
    parser.add_argument("--first", default="sms", help="a value of --metrics (default: %(default)s)")
    parser.add_argument("--second", default="rougeL", help='another, or "people" (default: %(default)s)')
    parser.add_argument("--share", type=float, default=0.01, help="of the examples (default: %(default)s)")
    parser.add_argument(
        "--metrics", default="rouge,sms", help="whose scores are shown (default: %(default)s)"
    )
    _columns(parser)
    parser.add_argument("--data", metavar="FOLDER", help="folder of the named sets (default: SUMMARILY_DATA)")
    parser.add_argument("--preset", default="light", choices=PRESETS, help="default: %(default)s")
    parser.add_argument(
        "--scores", metavar="FILE", help="file where scores are kept (default: the cache folder)"
    )
    parser.add_argument("--report", metavar="FILE", help="write the examples to FILE, one HTML page")
    parser.set_defaults(run=run_disagree)


def run_disagree(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation.agreement import score_judgements
    from summarily.metrics.meta_evaluation.disagreement import HUMAN, Reading, disagreements
    from summarily.support.files import write_atomically

    judgements = _judgements(options)
    scored = score_judgements([judgements], _metrics(options), _store(options))
    columns = {HUMAN: judgements.human, **scored.columns}
    groups = disagreements(columns, options.first, options.second, options.share)
    names = [f"{a}, {b}" for a, b in zip(judgements.inputs, judgements.systems, strict=True)]
    title = f"{options.first} and {options.second} on {judgements.name}"
    reading = Reading(title, groups, columns, judgements.references, judgements.summaries, names)
    if options.report:
        write_atomically(options.report, reading.html())
    print(reading.text())
    if options.report:
        print(f"\nwritten to {options.report}")
    return 0


def _add_holdout(studies: Any) -> None:
    parser = studies.add_parser(
        "holdout",
        help="what people's own summaries score",
        description="Score each reference against the others of its text, beside the summaries of systems.",
    )
    parser.add_argument("judgements", metavar="DATA", help=_SETS)
    parser.add_argument("--question", help=argparse.SUPPRESS)
    _columns(parser)
    _common(parser)
    parser.set_defaults(run=run_holdout)


def run_holdout(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import holdout

    table = holdout.holdout(_judgements(options), _metrics(options), _store(options))
    return _show(options, [holdout.section(table)], {})


def _add_report(studies: Any) -> None:
    parser = studies.add_parser(
        "report",
        help="the report again, from the numbers that were kept",
        description="Tables and plots from the numbers that --keep has written; the same numbers give the same bytes.",
    )
    parser.add_argument(
        "folder", nargs="?", help="of --keep (default: the results that come with the package)"
    )
    _output(parser)
    parser.set_defaults(run=run_report)


def run_report(options: argparse.Namespace) -> int:
    from summarily.metrics.meta_evaluation import everything
    from summarily.metrics.meta_evaluation.recommendation import STORED
    from summarily.metrics.meta_evaluation.scores import load_results

    results = load_results(options.folder or STORED)
    return _show(options, everything.sections(results, bool(options.report)), results)


def _add_recommend(studies: Any) -> None:
    parser = studies.add_parser(
        "recommend",
        help="which metric for whom, from the numbers that were kept",
        description="Which metric for whom, with intervals, as Markdown; the same numbers give the same bytes.",
    )
    _from_kept(parser)
    parser.add_argument(
        "--picture", metavar="FILE", help="draw agreement with people against cost to FILE, as SVG"
    )
    parser.set_defaults(run=run_recommend)


def _add_thesis(studies: Any) -> None:
    parser = studies.add_parser(
        "thesis",
        help="kept results in the shape of the thesis' tables, next to its numbers",
        description="Tables 6.1, 6.3 to 6.6 and 7.1 of the thesis with our numbers beside its own, as Markdown.",
    )
    _from_kept(parser)
    parser.set_defaults(run=run_thesis)


def _from_kept(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", help="of --keep (default: the results that come with the package)"
    )
    parser.add_argument(
        "--update",
        metavar="FILE",
        help="put the text between the lines of FILE that are named after the command",
    )


def run_recommend(options: argparse.Namespace) -> int:
    if options.picture:
        from summarily.metrics.meta_evaluation import recommendation, scores
        from summarily.support.files import write_atomically

        kept = scores.load_results(options.folder or recommendation.STORED)
        write_atomically(options.picture, recommendation.picture(kept) + "\n")
        print(f"written to {options.picture}")
        return 0
    if _shown_from_the_document(options, "summarily meta recommend"):
        return 0
    from summarily.metrics.meta_evaluation.recommendation import STORED, recommend
    from summarily.metrics.meta_evaluation.scores import load_results

    return _print_kept(options, "summarily meta recommend", recommend(load_results(options.folder or STORED)))


def run_thesis(options: argparse.Namespace) -> int:
    if _shown_from_the_document(options, "summarily meta thesis"):
        return 0
    from summarily.metrics.meta_evaluation.recommendation import STORED
    from summarily.metrics.meta_evaluation.scores import load_results
    from summarily.metrics.meta_evaluation.thesis import thesis_tables

    tables = thesis_tables(load_results(options.folder or STORED))
    text = "\n\n".join(f"{table.title}\n\n{table.markdown()}" for table in tables)
    return _print_kept(options, "summarily meta thesis", f"{text}\n")


def _shown_from_the_document(options: argparse.Namespace, command: str) -> bool:
    """What the results of the package say stands in its document: a test compares them, nobody need wait for it."""
    if options.folder or options.update:
        return False
    from summarily.metrics.meta_evaluation.reports import section_of
    from summarily.support.folders import package_folder

    print(section_of(package_folder("metrics.meta_evaluation") / "README.md", command))
    return True


def _print_kept(options: argparse.Namespace, command: str, text: str) -> int:
    from summarily.metrics.meta_evaluation.reports import update_document

    if options.update:
        update_document(options.update, command, text)
    else:
        print(text, end="")
    return 0
