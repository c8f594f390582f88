"""A summarizer of news beside the first three sentences, its untouched base and published models, on CNN/DailyMail.

How it searches (beams, length penalty, lengths) is chosen on articles of the validation split, by the mean of ROUGE-1,
ROUGE-2 and ROUGE-Lsum; articles of the test split are then summarized once. Summaries are kept as they are written: a
study that is stopped goes on where it was.

    summarily study news --data FOLDER --model news
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from summarily.studies.baselines import KEYS, NAMES, lead, published_cells, rouge_of
from summarily.studies.report import mean_words, scores_of, table, with_interval
from summarily.support.inputs import read_json

# None asks for a least length: a short text would be summarized by more words than it has.
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1, "no_repeat_ngram_size": 3},
    "beam 4": {"num_beams": 4, "no_repeat_ngram_size": 3},
    "beam 4, a little longer": {"num_beams": 4, "no_repeat_ngram_size": 3, "length_penalty": 1.5},
    "beam 4, longer": {"num_beams": 4, "no_repeat_ngram_size": 3, "length_penalty": 2.0},
}
MOST_TOKENS = 128
CHUNK = 8  # articles a process summarizes together, and after which they are kept
EXAMPLES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="news", help="a shipped model, a folder or a Hub id (%(default)s)")
    parser.add_argument("--base", default="flan-t5-small", help="the untouched base (%(default)s)")
    parser.add_argument("--data", help="the folder with news/cnndm (default: $SUMMARILY_DATA)")
    parser.add_argument("--output", default="studies/news", help="default: %(default)s")
    parser.add_argument(
        "--validation", type=int, default=100, help="articles to choose the search on (%(default)s)"
    )
    parser.add_argument("--test", type=int, default=1000, help="articles to report (%(default)s)")
    parser.add_argument(
        "--base-test", type=int, default=100, help="of these, for the untouched base (%(default)s)"
    )
    parser.add_argument(
        "--card", action="store_true", help="write scores and search into the card of --model FOLDER"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread each (%(default)s)")


def run(options: argparse.Namespace) -> int:
    folder = Path(options.output)
    rows = articles(options.data)
    chosen, tried = choose(options, rows["validation"][: options.validation], folder)
    test = rows["test"][: options.test]
    written = summaries(options.model, test, SEARCHES[chosen], folder / "test.jsonl", options.jobs)
    untouched = summaries(
        options.base, test[: options.base_test], SEARCHES[chosen], folder / "base.jsonl", options.jobs
    )
    result = report(test, written, untouched, tried) | {"search": {chosen: SEARCHES[chosen]}}
    result["seconds_per_article"] = seconds_per_article(options.model, test[:EXAMPLES], SEARCHES[chosen])
    from summarily.support.files import write_atomically

    write_atomically(folder / "result.json", json.dumps(result, indent=1, ensure_ascii=False))
    text = markdown(result)
    write_atomically(folder / "report.md", text)
    print(text)
    if options.card:
        fill_card(Path(options.model), text, result)
    return 0


def fill_card(place: Path, text: str, result: Mapping[str, Any]) -> None:
    """Write the scores into a model's card and the chosen search into its generation config."""
    from summarily.modeling.training.card import with_scores
    from summarily.support.files import write_atomically

    card = place / "README.md"
    command = f"By `summarily study news`, {result['seconds_per_article']:.1f} s an article on one core."
    measured = result["table"]["ours"]["scores"]
    filled = with_scores(card.read_text(encoding="utf-8"), f"{command}\n\n{text}", measured, "test")
    write_atomically(card, filled)
    [search] = result["search"].values()
    path = place / "generation_config.json"
    settings = read_json(path, dict) | search
    settings.pop("max_new_tokens", None)  # it would go before what a user says of the length
    settings["max_length"] = MOST_TOKENS + 1
    write_atomically(path, json.dumps(settings, indent=1) + "\n")


def articles(data: str | None) -> dict[str, list[dict[str, Any]]]:
    """The held-out splits, cleaned as for training: id, source and references of each article."""
    from summarily.modeling.training.corpora import load_corpus
    from summarily.modeling.training.recipe import load_recipe

    section = load_recipe("news", ["data.prefix=", "data.files.train=news/cnndm/validation.jsonl.xz"]).data
    corpus = load_corpus(section, data)
    names = ["id", "source", "references"]
    return {split: list(corpus[split].select_columns(names)) for split in ("validation", "test")}


# --- writing ----------------------------------------------------------------------------------------------


def choose(
    options: argparse.Namespace, rows: Sequence[Mapping[str, Any]], folder: Path
) -> tuple[str, dict[str, dict[str, float]]]:
    """The best search of the validation articles, and what each of them scored."""
    tried = {}
    for name, search in SEARCHES.items():
        path = folder / f"validation {name}.jsonl"
        texts = summaries(options.model, rows, search, path, options.jobs)
        means = scored(texts, rows).mean
        tried[name] = {key: means[key] for key in KEYS} | {"words": mean_words(texts)}
        print(f"{name}: " + " / ".join(f"{100 * means[key]:.1f}" for key in KEYS), flush=True)
    return max(tried, key=lambda name: sum(tried[name][key] for key in KEYS)), tried


def summaries(
    model: str, rows: Sequence[Mapping[str, Any]], search: Mapping[str, Any], path: Path, jobs: int = 1
) -> list[str]:
    """A summary of each row; those that `path` already holds are not written again."""
    from tqdm.auto import tqdm

    path.parent.mkdir(parents=True, exist_ok=True)
    done = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # the last line of a killed process may be cut
                continue
            done[row["id"]] = row["summary"]
    missing = [row for row in rows if row["id"] not in done]
    # Articles of similar length together: there is less padding.
    missing.sort(key=lambda row: len(row["source"]))
    chunks = [missing[first : first + CHUNK] for first in range(0, len(missing), CHUNK)]
    if chunks:
        context = multiprocessing.get_context("spawn")
        with (
            ProcessPoolExecutor(jobs, context, initializer=_load, initargs=(model,)) as pool,
            path.open("a", encoding="utf-8") as file,
            tqdm(total=len(missing), desc=path.stem, unit="article", disable=None) as bar,
        ):
            texts = [[row["source"] for row in chunk] for chunk in chunks]
            for chunk, found in zip(
                chunks, pool.map(_write, texts, [dict(search)] * len(texts)), strict=True
            ):
                for row, summary in zip(chunk, found, strict=True):
                    done[row["id"]] = summary
                    file.write(json.dumps({"id": row["id"], "summary": summary}, ensure_ascii=False) + "\n")
                file.flush()
                bar.update(len(chunk))
    return [done[row["id"]] for row in rows]


_summarizer: Any = None


def _load(model: str) -> None:
    """In a process of its own, with one thread: as many processes as cores are faster than threads."""
    import warnings

    import torch

    from summarily.modeling.generation.summarizer import Summarizer
    from summarily.support.weights import WEIGHTS, resolve

    global _summarizer
    warnings.simplefilter("ignore")  # that sources are cut is known
    torch.set_num_threads(1)
    _summarizer = Summarizer(resolve(model).path_or_id if model in WEIGHTS else model)


def seconds_per_article(model: str, rows: Sequence[Mapping[str, Any]], search: Mapping[str, Any]) -> float:
    """One at a time, on one core, once the model is loaded: CPU seconds, whatever else the machine does."""
    _load(model)
    start = time.process_time()
    for row in rows:
        _write([row["source"]], dict(search))
    return (time.process_time() - start) / len(rows)


def _write(texts: list[str], search: dict[str, Any]) -> list[str]:
    return list(_summarizer(texts, batch_size=len(texts), max_length=MOST_TOKENS, **search))


# --- reporting --------------------------------------------------------------------------------------------


def scored(texts: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Any:
    """ROUGE as papers report it."""
    return rouge_of(texts, [row["references"] for row in rows])


def report(
    rows: Sequence[Mapping[str, Any]],
    written: Sequence[str],
    untouched: Sequence[str],
    tried: Mapping[str, Any],
) -> dict[str, Any]:
    """Every system's scores with intervals, the differences from lead-3, and ten summaries by a fixed seed."""
    from summarily.metrics.resampling import mean_intervals
    from summarily.modeling.generation.summarizer import Summarizer
    from summarily.studies.oracle import oracle

    sources = [row["source"] for row in rows]
    systems = {
        "ours": (written, rows),
        "lead-3": ([lead(source) for source in sources], rows),
        "central, 3 sentences": (Summarizer("central")(sources), rows),
        "oracle, 3 sentences chosen by the reference": (
            [oracle(row["source"], row["references"]) for row in rows],
            rows,
        ),
        "the base, untouched": (untouched, rows[: len(untouched)]),
    }
    described_rows, examples = {}, {}
    for name, (texts, described) in systems.items():
        found = examples[name] = scored(texts, described)
        described_rows[name] = {
            "articles": len(texts),
            "words": mean_words(texts),
            **scores_of({"rouge": found}, KEYS),
        }
    ours, first = (examples[name].per_example for name in ("ours", "lead-3"))
    gains = {key: [a - b for a, b in zip(ours[key], first[key], strict=True)] for key in KEYS}
    limits = mean_intervals(gains)
    difference = {key: [sum(gains[key]) / len(gains[key]), *limits[key]] for key in KEYS}
    picked = sorted(random.Random(0).sample(range(len(rows)), min(EXAMPLES, len(rows))))
    shown = [{"source": lead(rows[i]["source"], 1), "summary": written[i]} for i in picked]
    return {
        "table": described_rows,
        "difference": difference,
        "validation": dict(tried),
        "examples": shown,
        "signature": str(examples["ours"].signature),
    }


def markdown(result: Mapping[str, Any]) -> str:
    """The report: a table, the differences, how the search was chosen, ten summaries."""
    names = NAMES
    rows = [
        [
            name,
            f"{row['articles']:,}",
            f"{row['words']:.0f}",
            *(with_interval(row["scores"][key], row["intervals"][key], scale=100) for key in KEYS),
        ]
        for name, row in result["table"].items()
    ]
    for name, cells in published_cells().items():
        rows.append([name, "11,490", "", *cells])
    lines = table(["system", "articles", "words", *names], rows)
    gains = ", ".join(
        f"{name} {with_interval(result['difference'][key][0], result['difference'][key][1:], '+.1f', 100)}"
        for name, key in zip(names, KEYS, strict=True)
    )
    lines += ["", f"Ours less lead-3, paired by article: {gains}.", "", f"`{result['signature']}`", ""]
    [(chosen, search)] = result["search"].items()
    lines += [f"Search: {chosen}, `{json.dumps(search)}`, the best of the validation articles:", ""]
    rows = [
        [name, f"{scores['words']:.0f}", *(f"{100 * scores[key]:.1f}" for key in KEYS)]
        for name, scores in result["validation"].items()
    ]
    lines += table(["search", "words", *names], rows)
    lines += ["", "Ten test articles by a fixed seed: the first sentence, and what the model wrote.", ""]
    for example in result["examples"]:
        lines += [f"- *{' '.join(example['source'].split())}*", "", f"  {example['summary']}", ""]
    return "\n".join(lines)
