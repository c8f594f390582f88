"""What is length worth? The thesis' experiments with LED (its Tables 6.7 and E.1 to E.4) on papers of PubMed.

All models are FLAN-T5-small with a low-rank difference (recipe `long`), trained on the same papers in the same order with
two seeds: LED by input length with beginning and with random starts, LED by window, and LED against the dense T5 at equal
length. What they are compared by is the test loss of a token, paired by paper, on all test papers; ROUGE of greedy
summaries of some of them stands beside it, and so do baselines that read next to nothing.

    summarily study long --data FOLDER
    summarily study long --data FOLDER --only led-512 led-4096 --model long
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from summarily.studies import report
from summarily.studies.baselines import KEYS, NAMES, rouge_of
from summarily.studies.runner import Cell, predictions, results, run_cells
from summarily.support.inputs import read_json

RECIPE = "long"
SEEDS = (0, 1)
CHOOSING = 100
"""Validation papers on which the best sentences by position are chosen."""


class Variant(NamedTuple):
    """A model of the study: what it reads and how, and the thesis' ROUGE-1/2/L of its counterpart."""

    length: int
    window: int | None = 256  # None: the dense T5
    starts: str = "beginning"
    thesis: str = ""

    def overrides(self) -> tuple[str, ...]:
        encoder = ("model.encoder=own", "model.config={dropout_rate = 0.0}")
        if self.window is not None:
            encoder = ("model.encoder=led", f"model.config.attention_window={self.window}")
        return (*encoder, f"data.max_source_tokens={self.length}", f"data.starts={self.starts}")


VARIANTS = {
    "t5-512": Variant(512, None, thesis="44.4 / 16.6 / 38.9 (BART, 1024, arXiv)"),
    "t5-1024": Variant(1024, None),
    "led-512": Variant(512, thesis="43.9 / 16.5 / 38.8 (1024, arXiv)"),
    "led-1024": Variant(1024, thesis="44.8 / 17.3 / 39.7 (2048, arXiv)"),
    "led-2048": Variant(2048, thesis="45.1 / 17.4 / 39.9 (4096, arXiv)"),
    "led-4096": Variant(4096),
    "led-512-random-starts": Variant(512, starts="random", thesis="39.5 / 12.6 / 35.1 (1024, arXiv)"),
    "led-1024-random-starts": Variant(1024, starts="random", thesis="43.1 / 15.5 / 38.0 (2048, arXiv)"),
    "led-2048-random-starts": Variant(2048, starts="random", thesis="43.6 / 16.0 / 38.4 (4096, arXiv)"),
    "led-4096-random-starts": Variant(4096, starts="random"),
    "led-1024-w32": Variant(1024, 32, thesis="41.6 / 16.8 / 36.8 (window 64)"),
    "led-1024-w64": Variant(1024, 64, thesis="42.3 / 17.2 / 37.5 (window 128)"),
    "led-1024-w128": Variant(1024, 128),
    "led-1024-w512": Variant(1024, 512, thesis="42.8 / 17.6 / 38.3 (window 512)"),
}


class Comparison(NamedTuple):
    """Models, the one that the others are tested against, and what the thesis makes one expect."""

    names: tuple[str, ...]
    base: str
    expectation: str


GROUPS = {
    "By input length, beginning starts": Comparison(
        ("led-512", "led-1024", "led-2048", "led-4096"),
        "led-512",
        "longer is a little better (Tables 6.7 and E.3)",
    ),
    "By input length, random starts": Comparison(
        tuple(f"led-{length}-random-starts" for length in (512, 1024, 2048, 4096)),
        "led-512-random-starts",
        "longer is clearly better (Table E.4)",
    ),
    "Random starts against beginning starts, 2048 tokens": Comparison(
        ("led-2048", "led-2048-random-starts"), "led-2048", "random starts are worse (Tables E.3 and E.4)"
    ),
    "By window, 1024 tokens": Comparison(
        ("led-1024-w32", "led-1024-w64", "led-1024-w128", "led-1024", "led-1024-w512"),
        "led-1024-w512",
        "smaller windows lose 1% to 7% (Table E.1)",
    ),
    "LED against the dense T5, 512 tokens": Comparison(
        ("t5-512", "led-512"), "t5-512", "about equal, dense attention slightly ahead (Table 6.7)"
    ),
    "LED against the dense T5, 1024 tokens": Comparison(
        ("t5-1024", "led-1024"), "t5-1024", "about equal, dense attention slightly ahead (Table 6.7)"
    ),
}


# --- training ---------------------------------------------------------------------------------------------


def make_cells(
    names: Sequence[str], papers: int, summaries: int, overrides: Sequence[str] = (), each: int = 4
) -> list[Cell]:
    """A run for each model and seed: the same papers in the same order, whatever their length."""
    steps = math.ceil(papers / each)
    common = (
        "data.also=[]",
        f"data.limits.train={papers}",
        f"batch.pool={each}",  # no sorting by length beyond a batch: that would change the order
        f"training.max_steps={steps}",
        f"training.evaluate_every={steps}",
        f"evaluation.test_examples={summaries}",
        "evaluation.tokens=20000",
        "generation.num_beams=1",
        "generation.length_penalty=1.0",
        "training.tensorboard=false",
    )
    return [
        Cell(
            _cell_name(name, seed),
            RECIPE,
            (*common, *VARIANTS[name].overrides(), f"training.seed={seed}", *overrides),
        )
        for seed in SEEDS
        for name in names
    ]


def _cell_name(name: str, seed: int) -> str:
    return f"{name}-seed-{seed}"


def paper_losses(folder: Path, data: str | None) -> list[float]:
    """The test loss of a token of each abstract, by a finished run; kept beside its result."""
    from accelerate import Accelerator
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily.modeling  # noqa: F401  our model types
    from summarily.modeling.training.collators import SummaryCollator
    from summarily.modeling.training.corpora import encode, load_corpus
    from summarily.modeling.training.evaluation import row_losses
    from summarily.modeling.training.recipe import Recipe
    from summarily.support.shipped import merged, quiet_about_tying

    def measure() -> list[float]:
        recipe = Recipe.from_dict(read_json(folder / "recipe.json", dict))
        place = merged(folder / "hub")
        tokenizer = AutoTokenizer.from_pretrained(place)
        with quiet_about_tying():
            model = AutoModelForSeq2SeqLM.from_pretrained(place)
        rows = encode(load_corpus(recipe.data, data)["test"], tokenizer, recipe.data, "test")
        collate = SummaryCollator(pad_token_id=tokenizer.pad_token_id)
        return row_losses(model, rows, collate, recipe.micro_tokens, Accelerator(cpu=True))

    return report.kept(folder / "losses.json", measure)


# --- baselines --------------------------------------------------------------------------------------------


class Papers(NamedTuple):
    """Test papers with their abstracts, validation papers with theirs, and the abstracts that are learned from."""

    sources: list[str]
    references: list[str]
    validation: list[tuple[str, str]]
    training_targets: list[str]


def load_papers(data: str | None, count: int, overrides: Sequence[str] = ()) -> Papers:
    """The first `count` test papers, as every run has them."""
    from summarily.modeling.training.corpora import load_corpus
    from summarily.modeling.training.recipe import load_recipe

    settings = (
        "data.also=[]",
        "data.prefix=",
        f"data.limits.validation={CHOOSING}",
        "data.limits.train=1000",
    )
    corpus = load_corpus(load_recipe(RECIPE, (*settings, *overrides)).data, data)
    test = corpus["test"].select(range(min(count, len(corpus["test"]))))
    held_out = corpus["validation"]
    pairs = list(zip(held_out["source"], held_out["target"], strict=True))
    return Papers(list(test["source"]), list(test["target"]), pairs, list(corpus["train"]["target"]))


def position(source: str, first: int, last: int) -> str:
    """So many of the first and of the last sentences, one a line.

    Example:
        >>> position("It rained. It poured. It stopped. Then it snowed.", 1, 1)
        'It rained.\\nThen it snowed.'
    """
    from summarily.support.text import sentences

    found = sentences(source)
    return "\n".join([*found[:first], *found[max(first, len(found) - last) :]] if last else found[:first])


def best_position(validation: Sequence[tuple[str, str]], count: int) -> tuple[int, int]:
    """How many of the first and how many of the last sentences, `count` together, are the best summary of validation
    papers, by ROUGE-1 and 2."""
    choices = sorted({(count, 0), (0, count), (count - count // 2, count // 2)})

    def worth(choice: tuple[int, int]) -> float:
        texts = [position(source, *choice) for source, _ in validation]
        means = rouge_of(texts, [target for _, target in validation]).mean
        return means["rouge1"] + means["rouge2"]

    return max(choices, key=worth)


def baselines(papers: Papers, others: Sequence[str] = ("central", "news")) -> dict[str, list[str]]:
    """What costs next to nothing, as long as the abstracts that are learned from; and `news`, which reads 512 tokens."""
    import warnings

    from summarily.modeling.generation.summarizer import Summarizer
    from summarily.support.text import sentences

    words = round(report.mean_words(papers.training_targets))
    count = max(1, round(fmean(len(sentences(text)) for text in papers.training_targets)))
    first, last = best_position(papers.validation, count)
    found = {
        f"first {words} words": [" ".join(text.split()[:words]) for text in papers.sources],
        f"first {first} and last {last} sentences, the best by position": [
            position(text, first, last) for text in papers.sources
        ],
        "abstract of another paper": [
            papers.training_targets[place % len(papers.training_targets)]
            for place in range(len(papers.sources))
        ],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that `news` reads the beginning alone is what it is here for
        if "central" in others:
            title = f"{count} most central sentences"
            found[title] = Summarizer("central")(papers.sources, sentences=count, progress=False)
        if "news" in others:
            found["news, on the first 512 tokens"] = Summarizer("news")(papers.sources, progress=False)
    return found


# --- scores -----------------------------------------------------------------------------------------------


def score_study(names: Sequence[str], folder: Path, data: str | None) -> dict[str, Any]:
    """Of every model the losses of all test papers, means over the seeds, and the ROUGE of its summaries; and the tests
    within each comparison."""
    from summarily.metrics.resampling import holm, paired_test

    cells = {name: [Cell(_cell_name(name, seed), RECIPE) for seed in SEEDS] for name in names}
    rows: dict[str, Any] = {}
    for name, runs in cells.items():
        stored = results(runs, folder)
        if len(stored) < len(runs):
            continue
        losses = [paper_losses(folder / run.name, data) for run in runs]
        by_seed = [fmean(values) for values in losses]
        rouge = [rouge_of(*predictions(run, folder)) for run in runs]
        rows[name] = {
            "losses": [fmean(pair) for pair in zip(*losses, strict=True)],
            "by_seed": by_seed,
            "rouge": {key: fmean(one.mean[key] for one in rouge) for key in KEYS},
            "summaries": len(rouge[0].per_example["rouge1"]),
            "minutes": sum(stored[run.name]["minutes"] for run in runs),
            "steps": stored[runs[0].name]["step"],
            "signature": str(rouge[0].signature),
        }
    tests: dict[str, Any] = {}
    for title, (members, base, _) in GROUPS.items():
        others = [name for name in members if name in rows and name != base] if base in rows else []
        found = {name: paired_test(rows[name]["losses"], rows[base]["losses"]) for name in others}
        p_values = holm([test.p_permutation for test in found.values()]) if found else []
        tests[title] = {
            name: {"difference": test.difference, "low": test.low, "high": test.high, "p": p}
            for (name, test), p in zip(found.items(), p_values, strict=True)
        }
    return {"rows": rows, "tests": tests}


def score_model(model: str, papers: Papers, folder: Path) -> dict[str, Any]:
    """A summarizer beside the baselines on the same papers: ROUGE with intervals, and what it has more than each."""
    from summarily.metrics.resampling import mean_intervals
    from summarily.modeling.generation.summarizer import Summarizer

    def written() -> dict[str, list[str]]:
        return {model: Summarizer(model)(papers.sources, batch_size=2, progress=None)}

    systems = report.kept(folder / f"summaries of {Path(model).name}.json", written)
    systems |= report.kept(folder / "baselines.json", functools.partial(baselines, papers))
    scores = {name: rouge_of(texts, papers.references) for name, texts in systems.items()}
    table = {
        name: {"words": report.mean_words(systems[name]), **report.scores_of({"rouge": found}, KEYS)}
        for name, found in scores.items()
    }
    for name in systems:
        if name == model:
            continue
        gains = {
            key: [
                a - b
                for a, b in zip(scores[model].per_example[key], scores[name].per_example[key], strict=True)
            ]
            for key in KEYS
        }
        limits = mean_intervals(gains)
        table[name]["gain"] = {key: [fmean(gains[key]), *limits[key]] for key in KEYS}
    return {
        "name": model,
        "table": table,
        "papers": len(papers.sources),
        "signature": str(scores[model].signature),
    }


# --- the document -----------------------------------------------------------------------------------------


def markdown(study: Mapping[str, Any]) -> str:
    """The document: a summarizer beside the baselines, if one was scored, and a table for each comparison."""
    lines = [
        "# What is length worth?",
        "",
        "By `summarily study long --data FOLDER`, which trains, scores and writes all of this, and goes on where it was "
        f"stopped. Papers of PubMed to their abstracts: FLAN-T5-small with a low-rank difference, {study['papers']:,} papers, "
        f"the same in the same order for all, {len(SEEDS)} seeds. The loss is that of a token of the abstract in nats, the mean "
        f"over {study['test_papers']:,} test papers and the seeds; differences are paired by paper, with 95% intervals, and p of "
        "a permutation test corrected by Holm within a table. ROUGE is that of greedy summaries, as papers report it.",
        "",
    ]
    if study.get("model"):
        lines += [*_model_table(study["model"]), ""]
    for title, (members, base, expectation) in GROUPS.items():
        shown = [name for name in members if name in study["rows"]]
        if len(shown) < 2 or base not in shown:
            continue
        rows = [_row(name, study["rows"][name], study["tests"][title].get(name), base) for name in shown]
        lines += [f"## {title}", "", f"Thesis: {expectation}.", "", *report.table(_HEAD, rows), ""]
        lines += [reading(study["tests"][title], base), ""]
    return "\n".join([*lines, *(f"`{signature}`" for signature in study["signatures"])])


_HEAD = [
    "model",
    "loss",
    "less the base's",
    "p",
    "seeds",
    *NAMES,
    "summaries",
    "minutes",
    "thesis: ROUGE-1/2/L",
]


def _row(name: str, row: Mapping[str, Any], test: Mapping[str, float] | None, base: str) -> list[str]:
    difference = "base" if name == base else ""
    if test is not None:
        difference = report.with_interval(test["difference"], (test["low"], test["high"]), "+.3f")
    return [
        name,
        f"{fmean(row['losses']):.3f}",
        difference,
        "" if test is None else f"{test['p']:.4f}",
        ", ".join(f"{loss:.3f}" for loss in row["by_seed"]),
        *(f"{100 * row['rouge'][key]:.1f}" for key in KEYS),
        str(row["summaries"]),
        f"{row['minutes']:.0f}",
        VARIANTS[name].thesis,
    ]


def reading(tests: Mapping[str, Mapping[str, float]], base: str) -> str:
    """What a table shows: which models are better and which are worse than its base beyond their intervals.

    Example:
        >>> reading({"led-4096": {"difference": -0.05, "low": -0.06, "high": -0.04}}, "led-512")
        'Beyond their intervals, better than led-512: led-4096; worse: none.'
    """
    better = [name for name, test in tests.items() if test["high"] < 0]
    worse = [name for name, test in tests.items() if test["low"] > 0]
    said = [", ".join(names) or "none" for names in (better, worse)]
    return f"Beyond their intervals, better than {base}: {said[0]}; worse: {said[1]}."


def _model_table(model: Mapping[str, Any]) -> list[str]:
    rows = []
    for name, row in model["table"].items():
        scores = [report.with_interval(row["scores"][key], row["intervals"][key], scale=100) for key in KEYS]
        gains = row.get("gain")
        over = [
            "" if gains is None else report.with_interval(gains[key][0], gains[key][1:], "+.1f", 100)
            for key in KEYS[:2]
        ]
        rows.append([name, f"{row['words']:.0f}", *scores, *over])
    head = ["summaries", "words", *NAMES, f"{model['name']} has more: ROUGE-1", "ROUGE-2"]
    title = f"## `{model['name']}` beside baselines, {model['papers']} test papers"
    return [title, "", *report.table(head, rows), "", f"`{model['signature']}`"]


# --- command ----------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--papers", type=int, default=1000, help="to learn from (default: %(default)s)")
    parser.add_argument(
        "--summaries", type=int, default=200, help="test papers that are summarized (default: %(default)s)"
    )
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), metavar="MODEL", help="train only these")
    parser.add_argument("--model", help="a summarizer to score beside the baselines, such as long")
    parser.add_argument("--no-cells", action="store_true", help="score --model, and train nothing")
    report.add_arguments(parser, "runs/study-long", jobs=2, what="model")


def run(options: argparse.Namespace) -> int:
    """Run or go on with the study, then write `study.json` and `study.md`."""
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    if not options.no_cells:
        cells = make_cells(options.only or list(VARIANTS), options.papers, options.summaries, options.set)
        run_cells(cells, folder, options.data, options.jobs)
    study: dict[str, Any] = {"papers": options.papers, **score_study(list(VARIANTS), folder, options.data)}
    if options.model:
        papers = load_papers(options.data, options.summaries, options.set)
        study["model"] = score_model(options.model, papers, folder)
    study["test_papers"] = max((len(row["losses"]) for row in study["rows"].values()), default=0)
    study["signatures"] = sorted({row["signature"] for row in study["rows"].values()})
    report.write(folder, json.loads(json.dumps(study)), markdown(study))
    return 0
