"""The thesis' experiments with LED and RED (its sections 6.2 and 7.2) at the scale of two CPU cores.

Papers are summarized into their abstracts by models that all start from one small denoiser (a BART of 6 million
parameters, trained first; recipe `denoiser`) and train on the same 200 documents for the same number of steps: BART
and LED at equal length, LED by input length with beginning and random starts, LED by window, and RED against LED when
neither has pretrained self-attention. All are scored with ROUGE, SMS and BERTScore beside two baselines that read
nothing or next to nothing.

    summarily study long --data FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from summarily.studies import report
from summarily.studies.runner import Cell, predictions, results, run_cells
from summarily.support.inputs import read_json

RECIPE = "long_arxiv"
METRICS = ("rouge", "sms", "bertscore")
KEYS = ("rouge1", "rouge2", "rougeL", "sms", "bertscore")
LEAD_WORDS = 130  # about as long as an abstract


class Variant(NamedTuple):
    """A model of the study: what its encoder is, what it reads, and the thesis' ROUGE-1/2/L of its counterpart."""

    kind: str  # bart, led, or red
    length: int
    window: int | None = None
    starts: str = "beginning"
    attention: str = "copy"
    layers: tuple[str, ...] = ()  # of RED: one type for each encoder layer, in turn
    pretrained: bool = True  # starts from the denoiser; otherwise all weights are random
    thesis: str = ""

    @property
    def base(self) -> str:
        """The name of the model it starts from."""
        parts = [self.kind, str(self.length), *(["w" + str(self.window)] if self.window else [])]
        ends = {"random": self.attention == "random", "scratch": not self.pretrained}
        return "-".join([*parts, *self.layers, *(end for end, true in ends.items() if true)])


# Thesis: Tables 6.7, E.3 and E.4 (arXiv), E.1 and 6.8 (PubMed). Its lengths and windows are twice to four times ours.
VARIANTS = {
    "bart-512": Variant("bart", 512, thesis="44.4 / 16.6 / 38.9 (BART, 1024)"),
    "led-512": Variant("led", 512, 128, thesis="43.9 / 16.5 / 38.8 (1024)"),
    "led-1024": Variant("led", 1024, 128, thesis="44.8 / 17.3 / 39.7 (2048)"),
    "led-2048": Variant("led", 2048, 128, thesis="45.1 / 17.4 / 39.9 (4096)"),
    "led-4096": Variant("led", 4096, 128),
    "led-512-random-starts": Variant("led", 512, 128, starts="random", thesis="39.5 / 12.6 / 35.1 (1024)"),
    "led-1024-random-starts": Variant("led", 1024, 128, starts="random", thesis="43.1 / 15.5 / 38.0 (2048)"),
    "led-2048-random-starts": Variant("led", 2048, 128, starts="random", thesis="43.6 / 16.0 / 38.4 (4096)"),
    "led-1024-w32": Variant("led", 1024, 32, thesis="41.6 / 16.8 / 36.8 (PubMed, window 64)"),
    "led-1024-w64": Variant("led", 1024, 64, thesis="42.3 / 17.2 / 37.5 (PubMed, window 128)"),
    "led-1024-w256": Variant("led", 1024, 256, thesis="42.8 / 17.6 / 38.3 (PubMed, window 512)"),
    "led-1024-random-attention": Variant(
        "led", 1024, 128, attention="random", thesis="38.0 / 12.6 / 33.3 (PubMed)"
    ),
    "red-1024": Variant(
        "red", 1024, layers=("lsh", "local"), attention="random", thesis="40.8 / 16.4 / 36.6 (PubMed)"
    ),
    "red-1024-local": Variant("red", 1024, layers=("local",), attention="random", thesis="below alternating"),
    "red-1024-lsh": Variant("red", 1024, layers=("lsh",), attention="random", thesis="below alternating"),
    "led-1024-from-scratch": Variant("led", 1024, 128, pretrained=False),
}


class Comparison(NamedTuple):
    """Models, the one that the others are tested against, and what the thesis makes one expect."""

    names: tuple[str, ...]
    base: str
    expectation: str


GROUPS = {
    "LED against BART at equal length": Comparison(
        ("bart-512", "led-512"), "bart-512", "about equal, BART slightly ahead (Table 6.7)"
    ),
    "By input length, beginning starts": Comparison(
        ("led-512", "led-1024", "led-2048", "led-4096"),
        "led-512",
        "on arXiv, longer is a little better (Table E.3)",
    ),
    "By input length, random starts": Comparison(
        ("led-512-random-starts", "led-1024-random-starts", "led-2048-random-starts"),
        "led-512-random-starts",
        "longer is clearly better, and all are below beginning starts (Table E.4)",
    ),
    "By window, 1024 tokens": Comparison(
        ("led-1024-w32", "led-1024-w64", "led-1024", "led-1024-w256"),
        "led-1024-w256",
        "smaller windows lose 1% to 7% (Table E.1)",
    ),
    "RED against LED, self-attention not pretrained": Comparison(
        ("led-1024-random-attention", "red-1024", "red-1024-local", "red-1024-lsh", "led-1024"),
        "led-1024-random-attention",
        "RED with alternating layers is ahead, pretrained self-attention further still (Table 6.8)",
    ),
    "What the denoiser is worth": Comparison(
        ("led-1024", "led-1024-from-scratch"), "led-1024-from-scratch", "not asked there"
    ),
}


# --- training ---------------------------------------------------------------------------------------------


# First on single sentences or two, where a decoder soon finds what it has to copy, then on pieces of every length.
SHORT = (
    "denoising.lengths=[32, 64]",
    "schedule.kind=constant",
    "training.max_steps=1000",
    "training.evaluate_every=500",
)


def trained_denoiser(folder: Path, data: str | None) -> str:
    """The BART that all start from, trained if it is not there yet."""
    short, last = folder / "denoiser-short", folder / "denoiser"
    go_on = (
        f"model.name={short / 'hub'}",
        "model.start=usual",
        "model.config={}",
        "tokenizer.kind=pretrained",
    )
    run_cells([Cell(short.name, "denoiser", SHORT)], folder, data)
    run_cells([Cell(last.name, "denoiser", go_on)], folder, data)
    return str(last / "hub")


def make_base(variant: Variant, denoiser: str, folder: Path) -> Path:
    """Write the model that a variant starts from, with its tokenizer, unless it is there."""
    import torch
    from transformers import AutoTokenizer, BartForConditionalGeneration

    from summarily.modeling import LedForConditionalGeneration, RedForConditionalGeneration

    def make() -> tuple[Any, Any]:
        bart: Any = BartForConditionalGeneration.from_pretrained(denoiser, dtype="float32")
        if not variant.pretrained:
            torch.manual_seed(0)
            bart = BartForConditionalGeneration(bart.config)
        model = bart
        if variant.kind == "led":
            model = LedForConditionalGeneration.from_bart(
                bart, max_length=variant.length, window=variant.window, attention=variant.attention
            )
        elif variant.kind == "red":
            layers = [variant.layers[i % len(variant.layers)] for i in range(bart.config.encoder_layers)]
            model = RedForConditionalGeneration.from_bart(
                bart, max_length=variant.length, attention=variant.attention, attention_types=layers
            )
        return model, AutoTokenizer.from_pretrained(denoiser)

    return report.kept_model(folder / "bases" / variant.base, make)


def make_cells(
    names: Sequence[str], denoiser: str, folder: Path, steps: int, overrides: Sequence[str] = ()
) -> list[Cell]:
    """One run per model: the same documents, order and number of steps."""
    cells = []
    for name in names:
        variant = VARIANTS[name]
        settings = (
            f"model.name={make_base(variant, denoiser, folder)}",
            f"data.max_source_tokens={variant.length}",
            f"data.starts={variant.starts}",
            f"training.max_steps={steps}",
            f"training.evaluate_every={steps}",
            f"hub.name=summarily-{name}",
        )
        cells.append(Cell(name, RECIPE, (*settings, *overrides)))
    return cells


# --- documents --------------------------------------------------------------------------------------------


class Documents(NamedTuple):
    """The test documents: ids, texts, abstracts, their lengths in tokens, and the abstracts to train on."""

    ids: list[str]
    sources: list[str]
    references: list[str]
    tokens: list[int]
    training_targets: list[str]


def load_documents(denoiser: str, data: str | None, overrides: Sequence[str]) -> Documents:
    """The test documents of the recipe, as every cell has them."""
    from transformers import AutoTokenizer

    from summarily.modeling.training.corpora import load_corpus
    from summarily.modeling.training.recipe import load_recipe

    corpus = load_corpus(load_recipe(RECIPE, overrides).data, data)
    test, tokenizer = corpus["test"], AutoTokenizer.from_pretrained(denoiser)
    tokens = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in test["source"]]
    return Documents(
        list(test["id"]),
        list(test["source"]),
        list(test["target"]),
        tokens,
        list(corpus["train"]["target"]),
    )


def normalised_starts(documents: Documents, length: int, special: int = 2, seed: int = 0) -> list[float]:
    """The part of each document that a model of `length` tokens with random starts does not read before its start."""
    from summarily.modeling.training.random_starts import random_start

    return [
        random_start(tokens, length - special, example_id=name, seed=seed) / tokens
        for name, tokens in zip(documents.ids, documents.tokens, strict=True)
    ]


def baselines(documents: Documents) -> dict[str, list[str]]:
    """What costs nothing: the first words of the body, and the abstract of some other paper."""
    count = len(documents.training_targets)
    return {
        f"first {LEAD_WORDS} words of the body": [
            " ".join(text.split()[:LEAD_WORDS]) for text in documents.sources
        ],
        "abstract of another paper": [
            documents.training_targets[i % count] for i in range(len(documents.sources))
        ],
    }


def exchanged_loss(folder: Path, variant: Variant, data: str | None) -> dict[str, float]:
    """The test loss of a finished cell, and that with every source exchanged for the next document's.

    A model that reads its source finds the right one more useful. Stored beside the cell's result.
    """
    from accelerate import Accelerator
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    from summarily.modeling.training.collators import SummaryCollator
    from summarily.modeling.training.corpora import encode, load_corpus
    from summarily.modeling.training.evaluation import token_loss
    from summarily.modeling.training.recipe import Recipe

    def measure() -> dict[str, float]:
        recipe = Recipe.from_dict(read_json(folder / "recipe.json", dict))
        tokenizer = AutoTokenizer.from_pretrained(folder / "hub")
        model = AutoModelForSeq2SeqLM.from_pretrained(folder / "hub", dtype="float32")
        rows = list(encode(load_corpus(recipe.data, data)["test"], tokenizer, recipe.data, "test"))
        moved = [{**row, "input_ids": rows[i - 1]["input_ids"]} for i, row in enumerate(rows)]
        collate = SummaryCollator(pad_token_id=tokenizer.pad_token_id)
        accelerator = Accelerator(cpu=True)
        return {
            name: token_loss(model, some, collate, recipe.micro_tokens, accelerator)
            for name, some in (("own", rows), ("exchanged", moved))
        }

    return report.kept(folder / "exchanged.json", measure)


# --- scores -----------------------------------------------------------------------------------------------


def score_study(names: Sequence[str], folder: Path, documents: Documents, data: str | None) -> dict[str, Any]:
    """Every finished model and the baselines, scored with intervals, and the tests within each comparison."""
    from summarily.metrics.scorecard import score

    cells = [Cell(name, RECIPE) for name in names]
    stored = results(cells, folder)
    systems = baselines(documents)
    for cell in cells:
        if cell.name in stored:
            systems[cell.name] = predictions(cell, folder)[0]
    cards = {
        name: score(texts, documents.references, metrics=list(METRICS), confidence=0.95)
        for name, texts in systems.items()
    }
    rows = {}
    for name, card in cards.items():
        found: dict[str, Any] = report.scores_of(card, KEYS)
        values = {key: column for scored in card.values() for key, column in scored.per_example.items()}
        found["per_example"] = {key: list(map(float, values[key])) for key in KEYS}
        found["words"] = report.mean_words(systems[name])
        found["distinct"] = len(set(systems[name]))
        if name in stored:
            found |= {key: stored[name][key] for key in ("step", "minutes", "parameters")}
            found["losses"] = exchanged_loss(folder / name, VARIANTS[name], data)
        rows[name] = found
    steps = sorted({row["step"] for row in rows.values() if "step" in row})
    return {
        "documents": len(documents.ids),
        "steps": " or ".join(map(str, steps)),
        "tokens": documents.tokens,
        "rows": rows,
        "tests": group_tests(rows),
        "correlations": correlations(rows, documents),
        "signatures": report.signatures(next(iter(cards.values()))),
    }


def group_tests(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """For each comparison the p of ROUGE-1 against its base: paired permutation test, corrected by Holm."""
    from summarily.metrics.resampling import holm, paired_test

    tests: dict[str, dict[str, float]] = {}
    for title, (names, base, _) in GROUPS.items():
        others = [name for name in names if name in rows and name != base] if base in rows else []
        values = [
            paired_test(
                rows[name]["per_example"]["rouge1"], rows[base]["per_example"]["rouge1"]
            ).p_permutation
            for name in others
        ]
        tests[title] = dict(zip(others, holm(values), strict=True)) if others else {}
    return tests


def correlations(rows: Mapping[str, Mapping[str, Any]], documents: Documents) -> dict[str, dict[str, Any]]:
    """Pearson's r, with its p, of each score with document length and, for random starts, with the start."""
    from scipy.stats import pearsonr

    found: dict[str, dict[str, Any]] = {}
    for name in (name for name in rows if name in VARIANTS and VARIANTS[name].kind == "led"):
        variant, scores = VARIANTS[name], rows[name]["per_example"]
        against = {"document length": np.log(documents.tokens)}
        if variant.starts == "random":
            against["normalised start"] = np.asarray(normalised_starts(documents, variant.length))
        found[name] = {
            what: {key: [float(value) for value in pearsonr(x, scores[key])] for key in KEYS}
            for what, x in against.items()
            if np.ptp(x) > 0
        }
    return found


# --- tables and plots -------------------------------------------------------------------------------------


def markdown(study: Mapping[str, Any]) -> str:
    """The document: the reading, a table for each comparison, and the correlations of section 7.2.3."""
    lines = [*_INTRODUCTION.format(**study).splitlines(), "", *reading(study), ""]
    lines += ["![Scores by length and window](by_length.png)", ""]
    lines += ["![Scores by document length and start](by_document.png)", "", "## Tables", ""]
    floor = [name for name in study["rows"] if name not in VARIANTS]
    for number, (title, (names, base, _)) in enumerate(GROUPS.items()):
        shown = [*(floor if not number else []), *(name for name in names if name in study["rows"])]
        rows = [
            _row(name, study["rows"][name], study["tests"][title].get(name), name == base) for name in shown
        ]
        lines += [f"### {title}", "", *report.table(_HEAD, rows), ""]
    lines += ["### Score against document length and start, Pearson's r (p)", ""]
    rows = [
        [name, what, *(f"{values[key][0]:+.2f} ({values[key][1]:.2f})" for key in KEYS)]
        for name, by_what in study["correlations"].items()
        for what, values in by_what.items()
    ]
    lines += report.table(["model", "against", *KEYS], rows)
    return "\n".join([*lines, "", *(f"`{signature}`" for signature in study["signatures"].values())])


_INTRODUCTION = """\
# LED and RED on long documents, at the scale of one CPU core

By `summarily study long --data FOLDER` (`make study-long`), which trains, scores and writes all of this. Papers of
arXiv, body to abstract: models of 6 to 8 million parameters, all from the same small denoiser, all {steps} steps of two
documents (200 papers, each read once), all summaries greedy; {documents} held-out papers, chosen by nothing but their place in the file. Parts before
the first heading are cut off and papers that repeat their abstract left out, since both hold the answer. One seed.
`p` is a paired permutation test of ROUGE-1 against the base of the comparison, corrected by Holm. "Source exchanged" is the test loss
when every abstract is predicted from another paper's body: as high as the test loss, the model does not use its source.
Minutes are those of a machine that was shared with other work.

## What it says
"""


def reading(study: Mapping[str, Any]) -> list[str]:
    """What each comparison shows, and whether that is what the thesis makes one expect; from the numbers alone."""
    lines = []
    for title, (names, base, expectation) in GROUPS.items():
        tests = study["tests"][title]
        found = {name: study["rows"][name]["scores"]["rouge1"] for name in names if name in study["rows"]}
        if not tests:
            continue
        clear = [name for name, p in tests.items() if p < 0.05]
        told = [f"{name} {100 * (found[name] - found[base]):+.1f}" for name in clear]
        ours = (
            f"against {base}, clearly different in ROUGE-1: {', '.join(told)}"
            if clear
            else "no clear difference"
        )
        spread = 100 * (max(found.values()) - min(found.values()))
        lines.append(
            f"- **{title}.** Thesis: {expectation}. Here: {ours} (ROUGE-1 from {100 * min(found.values()):.1f} to "
            f"{100 * max(found.values()):.1f}, {spread:.1f} apart)."
        )
    trained = {name: row["losses"] for name, row in study["rows"].items() if "losses" in row}
    gains = {name: losses["exchanged"] - losses["own"] for name, losses in trained.items()}
    if gains:
        best = max(gains, key=gains.__getitem__)
        lines.append(
            f"- **Do they read?** The right source lowers the loss of a target token by {min(gains.values()):.3f} to "
            f"{gains[best]:.3f} nats ({best}), of {trained[best]['own']:.2f}."
        )
    floor = {name: row["scores"]["rouge1"] for name, row in study["rows"].items() if name not in VARIANTS}
    top = max(trained, key=lambda name: study["rows"][name]["scores"]["rouge1"], default=None)
    if top:
        beside = " and ".join(f"{100 * score:.1f} by the {name}" for name, score in floor.items())
        lines.append(
            f"- **Against doing nothing.** The best model, {top}, has ROUGE-1 "
            f"{100 * study['rows'][top]['scores']['rouge1']:.1f}, beside {beside}."
        )
    return lines


_HEAD = [
    *(
        "model",
        "ROUGE-1",
        "p",
        "ROUGE-2",
        "ROUGE-L",
        "SMS",
        "BERTScore",
        "test loss",
        "source exchanged",
        "words",
    ),
    *("minutes", "thesis: ROUGE-1/2/L"),
]


def _row(name: str, row: Mapping[str, Any], p: float | None, base: bool) -> list[str]:
    scores = row["scores"]
    losses = row.get("losses")
    return [
        name,
        report.with_interval(scores["rouge1"], row["intervals"]["rouge1"], scale=100),
        "base" if base else "" if p is None else f"{p:.3f}",
        *(f"{100 * scores[key]:.1f}" for key in ("rouge2", "rougeL")),
        f"{scores['sms']:.3f}",
        f"{scores['bertscore']:.3f}",
        *([f"{losses['own']:.3f}", f"{losses['exchanged']:.3f}"] if losses else ["", ""]),
        f"{row['words']:.0f}",
        f"{row['minutes']:.1f}" if "minutes" in row else "",
        VARIANTS[name].thesis if name in VARIANTS else "",
    ]


def plot_lengths(study: Mapping[str, Any], path: Path) -> None:
    """Scores by model length for both starts and by window, with intervals, and loss beside them."""
    groups = {
        "beginning starts": ["led-512", "led-1024", "led-2048", "led-4096"],
        "random starts": ["led-512-random-starts", "led-1024-random-starts", "led-2048-random-starts"],
        "by window, 1024 tokens": ["led-1024-w32", "led-1024-w64", "led-1024", "led-1024-w256"],
    }
    shown = (("rouge1", "ROUGE-1"), ("sms", "SMS"), ("bertscore", "BERTScore"))
    with report.picture(path, columns=4, figsize=(14, 3.4)) as axes:
        for axis, (key, label) in zip(axes, (*shown, ("loss", "test loss")), strict=True):
            for title, names in groups.items():
                names = [name for name in names if name in study["rows"]]
                if not names:
                    continue
                window = "window" in title
                x = [VARIANTS[name].window if window else VARIANTS[name].length for name in names]
                found = [study["rows"][name] for name in names]
                if key == "loss":
                    axis.plot(x, [row["losses"]["own"] for row in found], "o-", label=title)
                    continue
                y = np.array([row["scores"][key] for row in found])
                errors = np.abs(np.array([row["intervals"][key] for row in found]).T - y)
                axis.errorbar(x, y, errors, fmt="o-", capsize=3, label=title)
            axis.set(xscale="log", xlabel="tokens read, or of the window", ylabel=label)
            axis.set_xticks([32, 64, 128, 256, 512, 1024, 2048, 4096], labels=[])
            axis.set_xticks([64, 256, 1024, 4096], labels=["64", "256", "1024", "4096"])
        axes[0].legend(fontsize=7, frameon=False)


def plot_documents(study: Mapping[str, Any], documents: Documents, path: Path) -> None:
    """Figures 7.2 to 7.4 of the thesis: score against document length, and against the normalised start."""
    lengths = [512, 1024, 2048]
    with report.picture(path, 3, 3, figsize=(11, 8.5), sharey=True) as axes:
        for column, length in enumerate(lengths):
            panels = (
                (f"led-{length}", "document length", "beginning starts"),
                (f"led-{length}-random-starts", "document length", "random starts"),
                (f"led-{length}-random-starts", "normalised start", "random starts"),
            )
            for axis, (name, what, title) in zip(axes[:, column], panels, strict=True):
                if name not in study["rows"]:
                    axis.set_axis_off()
                    continue
                x = documents.tokens if what == "document length" else normalised_starts(documents, length)
                axis.plot(x, study["rows"][name]["per_example"]["rouge1"], ".", markersize=4)
                values = study["correlations"][name].get(what, {})
                r = {key: values[key][0] for key in ("rouge1", "sms", "bertscore") if key in values}
                axis.set_title(f"LED-{length}, {title}", fontsize=9)
                text = ", ".join(f"{key} {value:+.2f}" for key, value in r.items())
                axis.text(0.02, 0.96, f"r: {text}", transform=axis.transAxes, fontsize=7, va="top")
                unit = " (tokens)" if what == "document length" else ""
                axis.set_xlabel(what + unit, fontsize=8)
                if not unit:
                    continue
                axis.set_xscale("log")
                axis.minorticks_off()
                axis.set_xticks([2500, 5000, 10000, 20000], labels=["2500", "5000", "10000", "20000"])
        for axis in axes[:, 0]:
            axis.set_ylabel("ROUGE-1", fontsize=8)


# --- command ----------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--denoiser", metavar="FOLDER", help="the BART that all start from (default: trained first)"
    )
    parser.add_argument("--steps", type=int, default=100, help="of every model (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), metavar="MODEL", help="train only these")
    parser.add_argument("--no-scores", action="store_true", help="train, but leave scoring to another call")
    report.add_arguments(parser, "runs/study-long", jobs=2, what="model")


def run(options: argparse.Namespace) -> int:
    """Run or go on with the study, then write `study.json`, `study.md` and the plots."""
    folder = Path(options.output)
    denoiser = options.denoiser or trained_denoiser(folder, options.data)
    names = options.only or list(VARIANTS)
    cells = make_cells(names, denoiser, folder, options.steps, options.set)
    run_cells(cells, folder, options.data, options.jobs)
    if options.no_scores:
        return 0
    documents = load_documents(denoiser, options.data, options.set)
    study = score_study(list(VARIANTS), folder, documents, options.data)
    plot_lengths(study, folder / "by_length.png")
    plot_documents(study, documents, folder / "by_document.png")
    report.write(folder, study, markdown(study), "by_length.png", "by_document.png")
    return 0
