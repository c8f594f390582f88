"""Does the entity layer help? Tables 3 and 4 of Eyal et al. (2019) at the scale of two CPU cores.

From a pointer-generator that has learned to copy (`learning_to_copy`) one run goes on with the openings of CNN/DailyMail
articles, as it is (the baseline), and another with the entity layer (APESO), with the same numbers of steps on the same
batches: first with nearly all weight on the entities, then with more on the words. The penalties of the search are chosen
on validation articles. All summaries of held-out articles are scored by APES and ROUGE, beside the first three sentences,
the references, and the references with their words shuffled.

    summarily study apeso --data FOLDER
    summarily study apeso --data FOLDER --models baseline/hub apeso/hub    (of the recipes pointer_generator and apeso)
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from summarily.studies import report
from summarily.studies.apeso.report import document
from summarily.studies.baselines import KEYS, ROUGE, lead
from summarily.studies.copying.learning_to_copy import RECIPE, STAGES, cell, scaled, train_start
from summarily.studies.penalties import Point, Tuning
from summarily.studies.runner import run_cells
from summarily.support.inputs import read_json

APES = ("apes", "apes_entities", "apes_salient_entities")


class Phase(NamedTuple):
    """Of both runs after the stages of copying; the paper's are 20 epochs and then 5."""

    steps: int
    rate: float
    delta: float  # of the joint loss


PHASES = {"": Phase(600, 6e-4, 0.998), "-settled": Phase(300, 3e-4, 0.9)}
"""By what is added to the name of a run. The paper's delta is 0.01, for many more steps. States that serve copying do not
show what is salient: the encoder has to learn it, not the layer alone, against much larger gradients of copying; that
costs some copying, which the second phase brings back."""
BASELINE, APESO = "baseline-settled", "apeso-settled"


# --- models -----------------------------------------------------------------------------------------------


def add_entity_layer(baseline: Path, folder: Path) -> Path:
    """A trained pointer-generator as an APESO whose entity layer is new, unless it is there."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily.modeling  # noqa: F401  our model types
    from summarily.modeling.apeso.modeling_apeso import ApesoForConditionalGeneration

    def make() -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = ApesoForConditionalGeneration.from_pointer_generator(
            AutoModelForSeq2SeqLM.from_pretrained(baseline, dtype=torch.float32)
        )
        return model, AutoTokenizer.from_pretrained(baseline)

    return report.kept_model(folder, make)


# --- runs -------------------------------------------------------------------------------------------------


def train(
    folder: Path, data: str | None, overrides: tuple[str, ...] = (), jobs: int = 2, scale: float = 1.0
) -> None:
    """All stages, each starting from what the one before has left; finished ones are not run again."""
    start = train_start(folder, data, scale, overrides, jobs)
    models = {"baseline": start, "apeso": add_entity_layer(start, folder / "apeso-start")}
    for ending, phase in PHASES.items():
        steps = scaled(phase.steps, scale)
        # The last step is kept: scores of greedy summaries say nothing about the entity layer.
        common = (
            "data.learned=opening",
            f"schedule.learning_rate={phase.rate}",
            f"training.evaluate_every={steps}",
        )
        entities = ("data.entities=true", f"model.config.delta={phase.delta}")
        cells = [
            cell(
                name + ending,
                model,
                steps,
                *common,
                *(entities if name == "apeso" else ()),
                *overrides,
            )
            for name, model in models.items()
        ]
        run_cells(cells, folder, str(folder / "data"), jobs)
        models = {name: folder / (name + ending) / "hub" for name in models}


# --- summaries --------------------------------------------------------------------------------------------

# Beams, least length, alpha and blocked trigrams as in the paper (its Section 5 and the released scripts).
SEARCH = {"num_beams": 5, "min_new_tokens": 35, "max_new_tokens": 100, "alpha": 0.9, "block_ngram": 3}
BETAS, GAMMAS = (0.5, 2.0, 10.0), (0.5, 2.0, 5.0)
"""Of the paper's grid, what is tried on validation articles."""
GAMMA = 0.5
"""The paper's own, of a model with other attention, beside the one that is chosen."""


class System(NamedTuple):
    """What writes summaries: a model, with which entity penalty (none, the paper's or the chosen), and what entities.

    `longer` raises the least length by as much as APESO's summaries are longer.
    """

    run: str
    gamma: Literal["none", "paper", "chosen"] = "none"
    gold: bool = False
    longer: bool = False


SYSTEMS = {
    "baseline": System(BASELINE),
    "APESO, no entity penalty": System(APESO),
    "APESO, the paper's gamma": System(APESO, "paper"),
    "APESO": System(APESO, "chosen"),
    "APESO, gold positions": System(APESO, "chosen", gold=True),
    "baseline, longer": System(BASELINE, longer=True),
}
COMPARED = [(name, "baseline") for name in SYSTEMS if name != "baseline"]
COMPARED += [("APESO", "baseline, longer"), ("APESO, gold positions", "baseline, longer")]


def choose_penalties(
    folder: Path, overrides: Sequence[str] = (), apes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """beta and gamma of each model by its summaries of validation articles; the baseline has no gamma.

    What is raised is the sum of APES and ROUGE-1, both from 0 to 100; the paper chose by both as well.
    """
    found: dict[str, Any] = {}
    for run, gammas in ((BASELINE, (0.0,)), (APESO, GAMMAS)):
        model, tokenizer = load_run(folder, run)
        rows = encoded_rows(folder, "validation", tokenizer, overrides)
        search = {**SEARCH, "exclude_ids": [tokenizer.convert_tokens_to_ids(".")]}
        metrics = {"rouge": ROUGE, "apes": dict(apes or {})}
        tuning = Tuning(model, tokenizer, rows, folder / "tuning" / run, metrics, search, tokens=20_000)
        scores = tuning.run([Point(SEARCH["alpha"], beta, gamma) for beta in BETAS for gamma in gammas])
        worth = {point: means["apes"] + 100 * means["rouge1"] for point, means in scores.items()}
        best = max(sorted(worth), key=lambda point: worth[point])
        points = [
            {"beta": point.beta, "gamma": point.gamma}
            | {key: means[key] for key in ("apes", "rouge1", "words")}
            for point, means in scores.items()
        ]
        found[run] = {"beta": best.beta, "gamma": best.gamma, "points": points}
    return found


def load_run(folder: Path, run: str) -> tuple[Any, Any]:
    """The model and the tokenizer of a finished run."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily.modeling  # noqa: F401  our model types

    hub = folder / run / "hub"
    return AutoModelForSeq2SeqLM.from_pretrained(hub).eval(), AutoTokenizer.from_pretrained(hub)


class Origin(NamedTuple):
    """Where the texts of a study come from: a recipe with overrides, and the folder of its data."""

    recipe: str
    overrides: list[str]
    data: str | None


def origin(folder: Path) -> Origin:
    """Of the small study its own files, or, for models that were given, CNN/DailyMail in its published split."""
    given = folder / "origin.json"
    return Origin(**read_json(given, dict)) if given.is_file() else Origin(RECIPE, [], str(folder / "data"))


def keep_models(folder: Path, baseline: Path, apeso: Path, data: str | None, articles: int) -> None:
    """Let the study be of trained models: they are copied to where its runs would be, and the texts are others."""
    for run, place in ((BASELINE, baseline), (APESO, apeso)):
        report.kept_copy(folder / run / "hub", place, "--models")
    held_out = [
        "data.files.train=news/cnndm/validation.jsonl.xz",  # none is learned from
        "data.limits.train=1",
        "data.limits.validation=100",
        f"data.limits.test={articles}",
    ]
    report.kept(folder / "origin.json", Origin("apeso", held_out, data)._asdict)


def encoded_rows(folder: Path, split: str, tokenizer: Any, overrides: Sequence[str] = ()) -> Any:
    """An encoded split, gold positions of entities included."""
    from summarily.modeling.training.corpora import encode, load_corpus
    from summarily.modeling.training.recipe import load_recipe

    place = origin(folder)
    section = load_recipe(place.recipe, ["data.entities=true", *place.overrides, *overrides]).data
    return encode(load_corpus(section, place.data)[split], tokenizer, section, split)


def write_summaries(
    folder: Path, penalties: Mapping[str, Any], overrides: Sequence[str] = ()
) -> dict[str, list[str]]:
    """The summaries of the test split by each system; those that are there are read."""
    summaries: dict[str, list[str]] = {}
    for name, system in SYSTEMS.items():
        chosen = penalties[system.run]
        gamma = {"none": 0.0, "paper": GAMMA, "chosen": chosen["gamma"]}[system.gamma]
        search = {"beta": chosen["beta"], "gamma": gamma}
        if system.longer:
            more = report.mean_words(summaries["APESO"]) / report.mean_words(summaries["baseline"])
            search["min_new_tokens"] = round(more * SEARCH["min_new_tokens"])
        parts = [system.run, *(f"{key}-{value:g}" for key, value in search.items()), *["gold"] * system.gold]

        def texts(system: System = system, search: dict[str, Any] = search) -> list[str]:
            model, tokenizer = load_run(folder, system.run)
            rows = encoded_rows(folder, "test", tokenizer, overrides)
            return summarize(model, tokenizer, rows, search, system.gold)

        summaries[name] = report.kept(folder / "summaries" / f"{'-'.join(parts)}.json", texts)
    return summaries


NEWS = {"news": False, "news, entity penalty": True}
"""The shipped summarizer, without and with the entities that APESO's layer finds; its gamma is chosen like APESO's."""


def write_news(
    folder: Path, gamma: float, split: str, overrides: Sequence[str] = (), model: str = "news"
) -> list[str]:
    """Summaries of a split by a shipped summarizer, searched with the entity penalty of our APESO; kept."""

    def texts() -> list[str]:
        from summarily.modeling.generation.summarizer import Summarizer

        rows = encoded_rows(folder, split, load_run(folder, APESO)[1], overrides)
        return with_entities(Summarizer(model), *load_run(folder, APESO), list(rows["source"]), gamma)

    return report.kept(folder / "summaries" / f"{Path(model).name}-{split}-gamma-{gamma:g}.json", texts)


def with_entities(
    summarizer: Any, apeso: Any, words: Any, sources: Sequence[str], gamma: float, batch_size: int = 8
) -> list[str]:
    """Summaries by any summarizer, for which an APESO finds the entities that the search is to attend to."""
    import torch

    from summarily.modeling.apeso.data_apeso import entity_scores
    from summarily.modeling.generation.summary_beam_search import summary_beam_search

    tokenizer, prefix, limit = summarizer.tokenizer, summarizer.prefix, summarizer.source_limit
    search = {
        name: SEARCH[name]
        for name in ("num_beams", "min_new_tokens", "max_new_tokens", "alpha", "block_ngram")
    }
    found: list[str] = []
    for start in range(0, len(sources), batch_size):
        texts = list(sources[start : start + batch_size])
        inputs = tokenizer(
            [prefix + text for text in texts],
            padding=True,
            truncation=True,
            max_length=limit,
            return_tensors="pt",
        )
        entities = entity_scores(apeso, words, tokenizer, texts, prefix, limit) if gamma else None
        with torch.no_grad():
            ids = summarizer.model.generate(
                **inputs,
                custom_generate=summary_beam_search,
                entity_scores=entities,
                gamma=gamma,
                stepwise=["entities"],
                **search,
            )
        found += [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]
    return found


def choose_news_gamma(
    folder: Path, overrides: Sequence[str] = (), apes: Mapping[str, Any] | None = None, model: str = "news"
) -> dict[str, Any]:
    """The gamma of the shipped summarizer on validation articles, by the sum of APES and ROUGE-1 as for the others."""
    from summarily.metrics.scorecard import score

    def measure() -> list[dict[str, float]]:
        rows = encoded_rows(folder, "validation", load_run(folder, APESO)[1], overrides)
        metrics = {"rouge": ROUGE, "apes": dict(apes or {})}
        points = []
        for gamma in GAMMAS:
            texts = write_news(folder, gamma, "validation", overrides, model)
            card = score(
                texts, list(rows["references"]), list(rows["source"]), metrics=metrics, progress=False
            )
            means = {"apes": card["apes"].mean["apes"], "rouge1": card["rouge"].mean["rouge1"]}
            points.append({"beta": 0.0, "gamma": gamma, **means, "words": report.mean_words(texts)})
        return points

    points = report.kept(folder / "tuning" / f"{Path(model).name}.json", measure)
    best = max(points, key=lambda point: (point["apes"] + 100 * point["rouge1"], -point["gamma"]))
    return {"beta": 0.0, "gamma": best["gamma"], "points": points}


def summarize(
    model: Any,
    tokenizer: Any,
    rows: Any,
    search: Mapping[str, Any],
    gold: bool = False,
    batch_size: int = 16,
) -> list[str]:
    """Summaries of encoded rows by beam search with these penalties, in the order of the rows."""
    import torch

    from summarily.modeling.data import data_of, decode
    from summarily.modeling.generation.summary_beam_search import summary_beam_search
    from summarily.modeling.training.collators import SummaryCollator

    collate = SummaryCollator(tokenizer.pad_token_id)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    summaries = [""] * len(rows)
    for start in range(0, len(rows), batch_size):
        batch = [rows[i] for i in order[start : start + batch_size]]
        inputs = collate(
            [{"input_ids": row["input_ids"], "salient_tokens": row["salient_tokens"]} for row in batch]
        )
        entities = inputs.pop("salient_tokens")
        with torch.no_grad():
            ids = model.generate(
                **inputs,
                **({"gold_entities": entities} if gold else {}),
                custom_generate=summary_beam_search,
                exclude_ids=[tokenizer.convert_tokens_to_ids(".")],
                **{**SEARCH, **search},
            )
        beside = {name: [row[name] for row in batch] for name in data_of(tokenizer).texts}
        texts = decode(tokenizer, ids, beside)
        for i, text in zip(order[start : start + batch_size], texts, strict=True):
            summaries[i] = text
    return summaries


def measure_entities(folder: Path, overrides: Sequence[str] = (), batch_size: int = 16) -> dict[str, float]:
    """How well the entity layer knows the salient tokens of test articles.

    `area` is the probability that a salient token gets a higher value than another of any article (0.5 for guessing).
    """
    import torch
    from scipy.stats import rankdata

    from summarily.modeling.training.collators import SummaryCollator

    model, tokenizer = load_run(folder, APESO)
    rows = encoded_rows(folder, "test", tokenizer, overrides)
    collate = SummaryCollator(tokenizer.pad_token_id)
    values, gold = [], []
    for start in range(0, len(rows), batch_size):
        inputs = collate([rows[i] for i in range(start, min(start + batch_size, len(rows)))])
        mask = inputs["attention_mask"].bool()
        with torch.no_grad():
            found = model.get_encoder()(inputs["input_ids"], inputs["attention_mask"]).entity_attention
        values.append(found[mask])
        gold.append(inputs["salient_tokens"][mask] == 1)
    every, salient = torch.cat(values), torch.cat(gold)
    ranks = torch.from_numpy(rankdata(every.numpy()))
    count = int(salient.sum())
    area = (ranks[salient].sum() - count * (count + 1) / 2) / (count * (len(every) - count))
    return {
        "area": float(area),
        "salient": float(every[salient].mean()),
        "others": float(every[~salient].mean()),
        "share": count / len(every),
    }


def shuffled(text: str, seed: int) -> str:
    """The words of a text in random order.

    Example:
        >>> sorted(shuffled("a b c", seed=0).split())
        ['a', 'b', 'c']
    """
    words = text.split()
    random.Random(seed).shuffle(words)
    return " ".join(words)


# --- scores -----------------------------------------------------------------------------------------------


def score_study(
    folder: Path,
    overrides: Sequence[str] = (),
    apes: Mapping[str, Any] | None = None,
    news: str | None = None,
) -> dict[str, Any]:
    """Every system scored with intervals, and each APESO compared with the baseline by paired tests.

    Args:
        folder: of the study, trained.
        overrides: as for the runs.
        apes: options of the metric, such as another reader.
        news: a summarizer that is scored without and with the same entity penalty, such as "news".
    """
    from summarily.metrics.resampling import paired_test
    from summarily.metrics.scorecard import score
    from summarily.modeling.training.corpora import load_corpus
    from summarily.modeling.training.recipe import load_recipe

    penalties = choose_penalties(folder, overrides, apes)
    place = origin(folder)
    rows = load_corpus(load_recipe(place.recipe, [*place.overrides, *overrides]).data, place.data)["test"]
    sources, references = list(rows["source"]), list(rows["references"])
    gold = [texts[0] for texts in references]
    written = write_summaries(folder, penalties, overrides)
    compared = list(COMPARED)
    if news:
        penalties["news"] = choose_news_gamma(folder, overrides, apes, news)
        gammas = {name: penalties["news"]["gamma"] if penalised else 0.0 for name, penalised in NEWS.items()}
        written |= {
            name: write_news(folder, gamma, "test", overrides, news) for name, gamma in gammas.items()
        }
        compared.append(("news, entity penalty", "news"))
    length = round(report.mean_words(written["APESO"]))  # longer summaries answer more questions
    systems = {
        "source": sources,
        "gold summaries": gold,
        "shuffled gold summaries": [shuffled(text, seed) for seed, text in enumerate(gold)],
        "lead 3": [lead(text) for text in sources],
        f"first {length} words": [" ".join(text.split()[:length]) for text in sources],
        **written,
    }
    metrics = {"rouge": ROUGE, "apes": dict(apes or {})}
    cards = {
        name: score(texts, references, sources, metrics=metrics, confidence=0.95, progress=False)
        for name, texts in systems.items()
    }
    result: dict[str, Any] = {"examples": len(rows), "rows": {}, "tests": []}
    for name, card in cards.items():
        means = {**card["rouge"].mean, **card["apes"].mean}
        intervals = card["apes"].interval
        assert intervals is not None, "asked for above"
        low, high = intervals["apes"][:2]
        result["rows"][name] = {
            **{key: means[key] for key in (*KEYS, *APES)},
            "apes_interval": [low, high],
            "words": report.mean_words(systems[name]),
        }
    for name, other in compared:
        tests = {
            key: paired_test(
                cards[name][metric].per_example[key],
                cards[other][metric].per_example[key],
                weights=cards[name][metric].weights if key == "apes" else None,
            )._asdict()
            for metric, key in (("apes", "apes"), ("apes", "apes_salient_entities"), ("rouge", "rouge1"))
        }
        result["tests"].append({"system": name, "other": other, **tests})
    result |= {"penalties": penalties, "entities": measure_entities(folder, overrides)}
    runs = [name + ending for ending in PHASES for name in ("baseline", "apeso")]
    finished = [run for run in (*STAGES, *runs) if (folder / run / "result.json").is_file()]
    trained = [run for run in finished if run.startswith("apeso")]
    result["deltas"] = [load_run(folder, run)[0].config.delta for run in trained]
    result["parameters"] = load_run(folder, APESO)[0].num_parameters()
    result["questions"] = cards["baseline"]["apes"].counts["questions"]
    result["signatures"] = list(report.signatures(cards["baseline"]).values())
    result["runs"] = {run: read_json(folder / run / "result.json") for run in finished}
    return result


# --- command ----------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    report.add_arguments(parser, "runs/study-apeso", jobs=2)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiplies the steps of every stage (default: %(default)s)"
    )
    parser.add_argument(
        "--models",
        nargs=2,
        metavar="FOLDER",
        help="a trained pointer-generator and an APESO to score on CNN/DailyMail, in place of training small ones",
    )
    parser.add_argument(
        "--articles", type=int, default=1000, help="of the test split, with --models (default: %(default)s)"
    )
    parser.add_argument("--reader", help="of APES, in place of the light preset's")
    parser.add_argument(
        "--news",
        default="news",
        help="a summarizer to search with the same entity penalty (default: %(default)s)",
    )
    parser.add_argument("--no-news", dest="news", action="store_const", const=None, help="leave it out")


def run(options: argparse.Namespace) -> int:
    """Run or go on with the study, then write `study.json` and `STUDY.md`."""
    folder = Path(options.output)
    if options.models:
        baseline, apeso = map(Path, options.models)
        keep_models(folder, baseline, apeso, options.data, options.articles)
    else:
        train(folder, options.data, tuple(options.set), options.jobs, options.scale)
    study = score_study(
        folder, options.set, {"reader": options.reader} if options.reader else None, options.news
    )
    report.write(folder, study, document(study), name="STUDY.md")
    return 0
