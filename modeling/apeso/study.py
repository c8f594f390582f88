"""Does the entity layer help? Tables 3 and 4 of Eyal et al. (2019) at the scale of two CPU cores.

A pointer-generator first learns to copy: single sentences, the first two of a few, the first of a longer passage.
From there one run goes on with the openings of CNN/DailyMail articles, as it is (the baseline), and another with the
entity layer (APESO), with the same number of steps on the same batches. (Highlights themselves, or sentences chosen from
all over the article, of 1,300 articles, teach a model of this size to hedge: it forgets how to copy.) The penalties of
the search are chosen on validation articles. All summaries of held-out articles are scored by APES and ROUGE, beside
the first three sentences, the references, and the references with their words shuffled.

Articles are split as for the readers of APES: no reader has been trained on an article that is summarized here.

    summarily study apeso --data FOLDER
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Literal, NamedTuple

from summarily.modeling.generation.tune_penalties import Point, Tuning
from summarily.modeling.training.study import Cell, run_cells

RECIPE = "apeso_news"
HIGHLIGHTS, ALL_NEWS = "highlights.jsonl.gz", "all_news.jsonl.gz"
SENTENCES, PASSAGES, LEADS = "sentences.jsonl.gz", "passages.jsonl.gz", "leads.jsonl.gz"
SHORT = "short_passages.jsonl.gz"
STEPS = {"sentences": 1200, "passages": 600, "leads": 600, "last": 300}
"""Optimizer steps of the stages; the paper's are 20 epochs and then 5."""
STAGES = {
    # the file to learn from, and how
    "sentences": (
        SENTENCES,
        "data.max_source_tokens=30",
        "data.max_target_tokens=30",
        "batch.tokens=2160",
        "evaluation.select=loss",
        "training.evaluate_every=400",
    ),
    "passages": (
        PASSAGES,
        "data.max_source_tokens=75",
        "data.max_target_tokens=60",
        "batch.tokens=2160",
        "evaluation.select=loss",
        "schedule.learning_rate=6e-4",
        "training.evaluate_every=300",
    ),
    "leads": (
        LEADS,
        "schedule.learning_rate=6e-4",
        "training.evaluate_every=300",
        "evaluation.select=loss",
    ),
}
OPENINGS = {"opening": 170, "short_opening": 58}
"""What is learned from an article, and of how many words: for this study, and for that of rewards."""
DELTA = 0.95
"""Of the joint loss; the paper's 0.01 is for many more steps. States that serve copying do not show what is an entity:
the encoder has to learn it, not the layer alone."""
GLANCE = ("data.limits.validation=200", "data.limits.test=16")
"""Of the stages, what is enough to see that they learn."""
VALIDATION = 7
"""Of every 100 training articles, those that choose the best step; the readers' own held-out ones are the test."""


# --- data -------------------------------------------------------------------------------------------------


def pairs(collection: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Sources and targets of a collection, with their splits.

    Highlights of CNN/DailyMail are what summaries are scored against. From BBC articles with sentences chosen out of
    them, and Reuters stories with their first paragraphs, a model learns to copy; they have no held-out rows.

    Example:
        >>> row = {"id": "a", "article": "Snow fell in Oslo.", "highlights": ["Snow fell .", "In Oslo ."]}
        >>> next(pairs("cnndm_articles", [row]))["target"]
        'Snow fell . In Oslo .'
    """
    for row in rows:
        identifier = f"{collection}/{row['id']}"
        if collection == "cnndm_articles":
            source, target = row["article"], " ".join(row["highlights"])
            split = split_of_article(source)
        elif collection == "bbc_news_summary":
            source, target, split = row["article"], row["extractive_summary"], "train"
        else:
            source, target, split = row["body"], row["first_paragraph"], "train"
        yield {"id": identifier, "source": source, "target": target, "split": split}


def cut_passages(text: str, words: int = 55, longest: int = 35) -> list[list[str]]:
    """A text as passages of at least two sentences; very short and very long sentences are left out.

    Example:
        >>> cut_passages("The snow fell late. It fell in Oslo. No. Nobody was out.", words=8)
        [['The snow fell late.', 'It fell in Oslo.']]
    """
    from summarily.metrics.text import sentences

    passages: list[list[str]] = [[]]
    for sentence in sentences(text):
        length = len(sentence.split())
        if not 3 <= length <= longest:
            continue
        if length + sum(len(other.split()) for other in passages[-1]) > words:
            passages.append([])
        passages[-1].append(sentence)
    return [passage for passage in passages if len(passage) > 1]


def first_of_passages(
    row: Mapping[str, str], words: int = 55, sentences: int = 2, copied: int = 55
) -> Iterator[dict[str, str]]:
    """Passages of a source of at most `words`, of which the first sentences are to be copied, but not the last.

    That is up to `sentences` of them with up to `copied` words, and at least one.

    Example:
        >>> row = {"id": "a", "source": "The snow fell late. It fell in Oslo. Nobody was out."}
        >>> [pair["target"] for pair in first_of_passages(row, sentences=1)]
        ['The snow fell late.']
    """
    for number, passage in enumerate(cut_passages(row["source"], words)):
        target = passage[:1]
        for sentence in passage[1 : min(sentences, len(passage) - 1)]:
            if len(" ".join([*target, sentence]).split()) > copied:
                break
            target.append(sentence)
        yield {**row, "id": f"{row['id']}/{number}", "source": " ".join(passage), "target": " ".join(target)}


def first_or_all(row: Mapping[str, str], column: str, first: float = 0.8) -> str:
    """The first sentence of a row's text with the probability `first`, or all of it; always the same of the two."""
    from summarily.metrics.text import sentences

    text = row[column]
    return sentences(text)[0] if random.Random(row["id"]).random() < first else text


def single_sentences(row: Mapping[str, str], words: int = 22) -> Iterator[dict[str, str]]:
    """Short sentences of a source, up to two of each passage, each to be copied as it is."""
    draw = random.Random(row["id"])
    for number, passage in enumerate(cut_passages(row["source"])):
        for place in sorted(draw.sample(range(len(passage)), min(2, len(passage) - 1))):
            sentence = passage[place]
            if len(sentence.split()) <= words:
                yield {**row, "id": f"{row['id']}/{number}.{place}", "source": sentence, "target": sentence}


def best_opening(source: str, summary: str, read: int, words: int = 55) -> str:
    """As many of the first sentences of a source, read for `read` words, as have most in common with a summary.

    That is by ROUGE-1 and 2; there are at most `words` words, and at least one sentence.

    Example:
        >>> best_opening("It rained. Snow fell in Oslo. Then it thawed. A king came.", "Rain, and snow in Oslo.", 12)
        'It rained. Snow fell in Oslo.'
    """
    from summarily.metrics.rouge.scorer import Rouge
    from summarily.metrics.text import sentences

    all_words = source.split()
    found = sentences(" ".join(all_words[:read]))
    if len(found) > 1 and len(all_words) > read:
        found = found[:-1]  # it is cut
    openings = [" ".join(found[: count + 1]) for count in range(len(found))]
    openings = openings[:1] + [text for text in openings[1:] if len(text.split()) <= words]
    scores = Rouge(types=["rouge1", "rouge2"]).compute(openings, [summary] * len(openings)).per_example
    values = [one + two for one, two in zip(scores["rouge1"], scores["rouge2"], strict=True)]
    return openings[values.index(max(values))]


def split_of_article(source: str) -> str:
    """The split of an article: what the readers of APES did not train on is the test."""
    from summarily.metrics.apes.corpus import fingerprint, split_of

    if split_of(source) != "train":
        return "test"
    return "validation" if int(fingerprint(source)[8:16], 16) % 100 < VALIDATION else "train"


def prepare_pairs(folder: Path, data: str | None) -> None:
    """Write the files of pairs, unless they are there; highlights come with the openings that are learned."""
    from summarily.metrics.apes.corpus import read_rows
    from summarily.metrics.files import write_atomically
    from summarily.modeling.training.corpora import data_folder

    files = (HIGHLIGHTS, ALL_NEWS, SENTENCES, PASSAGES, LEADS, SHORT)
    if all((folder / file).is_file() for file in files):
        return
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, str]]] = {}
    for name in ("cnndm_articles", "bbc_news_summary", "reuters_train"):
        found[name] = list(pairs(name, read_rows(data_folder(data) / f"news/{name}.jsonl.gz")))
    everything = [row for part in found.values() for row in part]
    passages = [passage for row in everything for passage in first_of_passages(row)]
    sentences = [sentence for row in everything for sentence in single_sentences(row)]
    leads = [lead for row in everything for lead in first_of_passages(row, words=165, sentences=4)]
    highlights = [
        row | {name: best_opening(row["source"], row["target"], read) for name, read in OPENINGS.items()}
        for row in found["cnndm_articles"]
    ]
    highlights = [row | {"shorter_opening": first_or_all(row, "short_opening")} for row in highlights]
    short = [passage | {"target": first_or_all(passage, "target")} for passage in passages]
    for file, content in zip(files, (highlights, everything, sentences, passages, leads, short), strict=True):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        write_atomically(folder / file, gzip.compress(lines.encode(), mtime=0))


# --- models -----------------------------------------------------------------------------------------------


def make_blank(folder: Path, data: Path, vectors: str = "glove-6b-50d") -> Path:
    """A new model with its tokenizer, whose words start at their GloVe vectors, unless it is there."""
    from summarily.modeling.training.building import build_model
    from summarily.modeling.training.checkpoints import is_complete, write_folder
    from summarily.modeling.training.corpora import load_corpus, texts
    from summarily.modeling.training.recipe import load_recipe
    from summarily.modeling.training.tokenizers import train_tokenizer

    if is_complete(folder):
        return folder
    import torch

    recipe = load_recipe(RECIPE, [f"data.files.all={ALL_NEWS}"])
    tokenizer = train_tokenizer(texts(load_corpus(recipe.data, data)["train"]), recipe.tokenizer)
    torch.manual_seed(recipe.training.seed)
    model = build_model(recipe, tokenizer)
    load_vectors(model, tokenizer, vectors)

    def write(partial: Path) -> None:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)

    write_folder(folder, write)
    return folder


def load_vectors(model: Any, tokenizer: Any, name: str) -> int:
    """Put word vectors into a model's embeddings, words without one stay as they are; returns how many have one.

    GloVe's are made as small as the embeddings of a new model, so that the LSTM is not saturated from the start.
    """
    import numpy as np
    import torch

    from summarily.metrics import vectors

    table = vectors.load(name)
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    rows = np.array(table.find(word.lower() for word in words))
    known = np.flatnonzero(rows >= 0)
    values = torch.tensor(np.asarray(table.take(rows[known]), dtype=np.float32))
    weight = model.get_input_embeddings().weight
    with torch.no_grad():
        weight[torch.from_numpy(known)] = values / values.std() * weight[3:].std()
        weight[model.config.pad_token_id] = 0
    return len(known)


def add_entity_layer(baseline: Path, folder: Path) -> Path:
    """A trained pointer-generator as an APESO whose entity layer is new, unless it is there."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily.modeling  # noqa: F401  our model types
    from summarily.modeling.apeso.modeling_apeso import ApesoForConditionalGeneration
    from summarily.modeling.training.checkpoints import is_complete, write_folder

    if is_complete(folder):
        return folder
    import torch

    torch.manual_seed(0)
    model = ApesoForConditionalGeneration.from_pointer_generator(
        AutoModelForSeq2SeqLM.from_pretrained(baseline, dtype=torch.float32), delta=DELTA
    )
    tokenizer = AutoTokenizer.from_pretrained(baseline)

    def write(partial: Path) -> None:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)

    write_folder(folder, write)
    return folder


# --- runs -------------------------------------------------------------------------------------------------


def cell(name: str, model: Path, steps: int, *overrides: str) -> Cell:
    """A run that goes on from the model in a folder."""
    here = (f"model.name={model}", "model.config={}", "tokenizer.kind=pretrained")
    return Cell(name, RECIPE, (*here, f"training.max_steps={steps}", *overrides))


def train_start(
    folder: Path,
    data: str | None,
    steps: Mapping[str, int],
    overrides: tuple[str, ...] = (),
    jobs: int = 2,
    last: str = "leads",
) -> Path:
    """The pointer-generator that learned to copy, in the stages up to `last`; returns where it is."""
    prepare_pairs(folder / "data", data)
    files = str(folder / "data")
    model = make_blank(folder / "blank", folder / "data")
    for name, (file, *settings) in STAGES.items():
        stage = cell(name, model, steps[name], f"data.files.all={file}", *GLANCE, *settings, *overrides)
        run_cells([stage], folder, files, jobs)
        model = folder / name / "hub"
        if name == last:
            break
    return model


def train(
    folder: Path, data: str | None, overrides: tuple[str, ...] = (), jobs: int = 2, scale: float = 1.0
) -> None:
    """All stages, each starting from what the one before has left; finished ones are not run again."""
    steps = {stage: max(1, round(scale * count)) for stage, count in STEPS.items()}
    start = train_start(folder, data, steps, overrides, jobs)
    entities = add_entity_layer(start, folder / "apeso-start")
    # The last step is kept: scores of greedy summaries say nothing about the entity layer.
    common = (
        "data.learned=opening",
        "schedule.learning_rate=3e-4",
        f"training.evaluate_every={steps['last']}",
    )
    last = [
        cell("baseline", start, steps["last"], *common, *overrides),
        cell("apeso", entities, steps["last"], *common, "data.entities=true", *overrides),
    ]
    run_cells(last, folder, str(folder / "data"), jobs)


# --- summaries --------------------------------------------------------------------------------------------

# Beams, least length, alpha and blocked trigrams as in the paper (its Section 5 and the released scripts).
SEARCH = {"num_beams": 5, "min_new_tokens": 35, "max_new_tokens": 100, "alpha": 0.9, "block_ngram": 3}
BETAS, GAMMAS = (0.5, 2.0, 10.0), (0.5, 2.0)
"""Of the paper's grid, what is tried on validation articles."""
GAMMA = 0.5
"""The paper's own; the strongest that is good on validation articles stands beside it."""


class System(NamedTuple):
    """What writes summaries: a run, with which entity penalty (none, the paper's or the chosen), and what entities."""

    run: str
    gamma: Literal["none", "paper", "chosen"] = "none"
    gold: bool = False


SYSTEMS = {
    "baseline": System("baseline"),
    "APESO, no entity penalty": System("apeso"),
    "APESO": System("apeso", "paper"),
    "APESO, gold positions": System("apeso", "paper", gold=True),
    "APESO, chosen gamma": System("apeso", "chosen"),
}


def choose_penalties(
    folder: Path, overrides: Sequence[str] = (), apes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """beta by the baseline's summaries of validation articles, then gamma by APESO's.

    What is raised is the sum of APES and ROUGE-1, both from 0 to 100; the paper chose by both as well.
    """
    found: dict[str, Any] = {"points": {}}
    for name, run in (("beta", "baseline"), ("gamma", "apeso")):
        grid = [(beta, 0.0) for beta in BETAS] if name == "beta" else [(found["beta"], g) for g in GAMMAS]
        model, tokenizer = load_run(folder, run)
        rows = encoded_rows(folder, "validation", tokenizer, overrides)
        search = {**SEARCH, "exclude_ids": [tokenizer.convert_tokens_to_ids(".")]}
        metrics = {"rouge": {}, "apes": dict(apes or {})}
        tuning = Tuning(model, tokenizer, rows, folder / "tuning" / name, metrics, search, tokens=20_000)
        scores = tuning.run([Point(SEARCH["alpha"], beta, gamma) for beta, gamma in grid])
        worth = {point: means["apes"] + 100 * means["rouge1"] for point, means in scores.items()}
        best = max(sorted(worth), key=lambda point: worth[point])
        found[name] = best.beta if name == "beta" else best.gamma
        found["points"][name] = [
            {name: getattr(point, name)} | {key: means[key] for key in ("apes", "rouge1", "words")}
            for point, means in scores.items()
        ]
    return found


def load_run(folder: Path, run: str) -> tuple[Any, Any]:
    """The model and the tokenizer of a finished run."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily.modeling  # noqa: F401  our model types

    hub = folder / run / "hub"
    return AutoModelForSeq2SeqLM.from_pretrained(hub).eval(), AutoTokenizer.from_pretrained(hub)


def encoded_rows(folder: Path, split: str, tokenizer: Any, overrides: Sequence[str] = ()) -> Any:
    """An encoded split, gold positions of entities included."""
    from summarily.modeling.training.corpora import encode, load_corpus
    from summarily.modeling.training.recipe import load_recipe

    section = load_recipe(RECIPE, ["data.entities=true", *overrides]).data
    return encode(load_corpus(section, folder / "data")[split], tokenizer, section)


def write_summaries(
    folder: Path, penalties: Mapping[str, Any], overrides: Sequence[str] = ()
) -> dict[str, list[str]]:
    """The summaries of the test split by each system; those that are there are read."""
    from summarily.metrics.files import write_atomically

    summaries: dict[str, list[str]] = {}
    for name, system in SYSTEMS.items():
        gamma = {"none": 0.0, "paper": GAMMA, "chosen": penalties["gamma"]}[system.gamma]
        search = {"beta": penalties["beta"], "gamma": gamma}
        parts = (*name.replace(",", "").split(), *(f"{key}-{value:g}" for key, value in search.items()))
        path = folder / "summaries" / f"{'-'.join(parts)}.json"
        if not path.is_file():
            model, tokenizer = load_run(folder, system.run)
            rows = encoded_rows(folder, "test", tokenizer, overrides)
            texts = summarize(model, tokenizer, rows, search, system.gold)
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, json.dumps(texts, indent=0))
        summaries[name] = json.loads(path.read_text(encoding="utf-8"))
    return summaries


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

    from summarily.modeling.generation.summary_beam_search import summary_beam_search
    from summarily.modeling.training.collators import SummaryCollator

    collate = SummaryCollator(tokenizer.pad_token_id)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    summaries = [""] * len(rows)
    for start in range(0, len(rows), batch_size):
        batch = [rows[i] for i in order[start : start + batch_size]]
        inputs = collate(
            [{"input_ids": row["input_ids"], "entity_labels": row["entity_labels"]} for row in batch]
        )
        entities = inputs.pop("entity_labels")
        with torch.no_grad():
            ids = model.generate(
                **inputs,
                **({"gold_entities": entities} if gold else {}),
                custom_generate=summary_beam_search,
                exclude_ids=[tokenizer.convert_tokens_to_ids(".")],
                **SEARCH,
                **search,
            )
        words = [row["unknown_words"] for row in batch]
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True, unknown_words=words)
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

    model, tokenizer = load_run(folder, "apeso")
    rows = encoded_rows(folder, "test", tokenizer, overrides)
    collate = SummaryCollator(tokenizer.pad_token_id)
    values, gold = [], []
    for start in range(0, len(rows), batch_size):
        inputs = collate([rows[i] for i in range(start, min(start + batch_size, len(rows)))])
        mask = inputs["attention_mask"].bool()
        with torch.no_grad():
            found = model.get_encoder()(inputs["input_ids"], inputs["attention_mask"]).entity_attention
        values.append(found[mask])
        gold.append(inputs["entity_labels"][mask] == 1)
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


def first_sentences(text: str, count: int = 3) -> str:
    """The first sentences of a text.

    Example:
        >>> first_sentences("It rained. It snowed. It froze. It thawed.", 2)
        'It rained. It snowed.'
    """
    from summarily.metrics.text import sentences

    return " ".join(sentences(text)[:count])


# --- scores -----------------------------------------------------------------------------------------------

ROUGE = ("rouge1", "rouge2", "rougeL")
APES = ("apes", "apes_entities", "apes_salient_entities")
PAPER = {
    # APES, ROUGE-1, 2 and L in Table 4
    "source": (61.1, None, None, None),
    "gold summaries": (85.5, 100, 100, 100),
    "shuffled gold summaries": (30.9, 100, 7.0, 58.3),
    "lead 3": (45.1, 40.1, 17.3, 36.3),
    "baseline": (39.8, 39.3, 17.3, 36.3),
    "APESO": (46.1, 40.2, 17.7, 37.0),
    "APESO, gold positions": (46.3, 40.4, 17.8, 37.3),
}


def score_study(
    folder: Path, overrides: Sequence[str] = (), apes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Every system scored with intervals, and each APESO compared with the baseline by paired tests.

    Args:
        folder: of the study, trained.
        overrides: as for the runs.
        apes: options of the metric, such as another reader.
    """
    import summarily
    from summarily.metrics.resampling import paired_test
    from summarily.modeling.training.corpora import load_corpus
    from summarily.modeling.training.recipe import load_recipe

    penalties = choose_penalties(folder, overrides, apes)
    rows = load_corpus(load_recipe(RECIPE, overrides).data, folder / "data")["test"]
    sources, references = list(rows["source"]), list(rows["references"])
    gold = [texts[0] for texts in references]
    written = write_summaries(folder, penalties, overrides)
    length = round(
        mean(len(text.split()) for text in written["APESO"])
    )  # longer summaries answer more questions
    systems = {
        "source": sources,
        "gold summaries": gold,
        "shuffled gold summaries": [shuffled(text, seed) for seed, text in enumerate(gold)],
        "lead 3": [first_sentences(text) for text in sources],
        f"first {length} words": [" ".join(text.split()[:length]) for text in sources],
        **written,
    }
    metrics = {"rouge": {}, "apes": dict(apes or {})}
    cards = {
        name: summarily.score(texts, references, sources, metrics=metrics, confidence=0.95, progress=False)
        for name, texts in systems.items()
    }
    result: dict[str, Any] = {"examples": len(rows), "rows": {}, "tests": {}}
    for name, card in cards.items():
        means = {**card["rouge"].mean, **card["apes"].mean}
        low, high = card["apes"].interval["apes"][:2]
        words = mean(len(text.split()) for text in systems[name])
        result["rows"][name] = {
            **{key: means[key] for key in (*ROUGE, *APES)},
            "apes_interval": [low, high],
            "words": words,
        }
    for name in (name for name in SYSTEMS if name != "baseline"):
        result["tests"][name] = {
            key: paired_test(
                cards[name][metric].per_example[key],
                cards["baseline"][metric].per_example[key],
                weights=cards[name][metric].weights if key == "apes" else None,
            )._asdict()
            for metric, key in (("apes", "apes"), ("apes", "apes_salient_entities"), ("rouge", "rouge1"))
        }
    result |= {"penalties": penalties, "entities": measure_entities(folder, overrides)}
    result["questions"] = cards["baseline"]["apes"].counts["questions"]
    result["signatures"] = [str(score.signature) for score in cards["baseline"].values()]
    result["runs"] = {
        run: json.loads((folder / run / "result.json").read_text()) for run in (*STAGES, "baseline", "apeso")
    }
    return result


# --- document ---------------------------------------------------------------------------------------------


def document(study: Mapping[str, Any]) -> str:
    """STUDY.md: the tables in the shape of the paper's 3 and 4, and what the tests say."""
    runs = study["runs"]
    lines = [
        "# APESO beside its baseline",
        "",
        "Written by `summarily study apeso --data FOLDER`, which trains (or finds) the models and goes on where it was "
        "stopped.",
        "",
        *_setting(study),
        "",
        "## Answers and overlap (Table 4 of the paper)",
        "",
        f"APES is the percentage of right answers over {study['questions']} questions about {study['examples']} "
        "held-out articles, with its 95% interval.",
        "",
        "| summaries | APES | ROUGE-1 | ROUGE-2 | ROUGE-L | words | paper: APES, R-1, R-2, R-L |",
        "|---|---|---|---|---|---|---|",
        *(_score_line(name, row) for name, row in study["rows"].items()),
        "",
        "## Entities (Table 3 of the paper)",
        "",
        "| summaries | APES | entities | salient entities |",
        "|---|---|---|---|",
        *(
            f"| {name} | {row['apes']:.1f} | {row['apes_entities']:.2f} | {row['apes_salient_entities']:.2f} |"
            for name, row in study["rows"].items()
        ),
        "",
        "The paper counts 4.99 entities and 2.61 salient ones in its baseline's summaries, 6.00 and 4.90 in the gold ones.",
        "",
        "## Does it beat its baseline?",
        "",
        "Differences to the baseline with 95% intervals of a paired bootstrap, and p of a paired permutation test:",
        "",
        "| | APES | p | salient entities | p | ROUGE-1 | p |",
        "|---|---|---|---|---|---|---|",
        *(_test_line(name, tests) for name, tests in study["tests"].items()),
        "",
        verdict(study),
        "",
        "## What was learned and chosen",
        "",
        _entity_line(study["entities"]),
        "",
        "Penalties, by APES and ROUGE-1 of validation articles:",
        "",
        "| penalty | APES | ROUGE-1 | words | |",
        "|---|---|---|---|---|",
        *_penalty_lines(study["penalties"]),
        "",
        "## Runs",
        "",
        "| run | steps | best step | minutes | best on held-out rows: loss of a token, in the last two ROUGE-1 |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {run['step']} | {run['best_step']} | {run['minutes']:.1f} | {run['best_score']:.3f} |"
            for name, run in runs.items()
        ),
        "",
        *(f"`{signature}`" for signature in study["signatures"]),
        "",
    ]
    return "\n".join(lines)


def _setting(study: Mapping[str, Any]) -> list[str]:
    runs = study["runs"]
    return [
        f"{runs['apeso']['parameters']:,} parameters, sources cut at 200 tokens, 10,000 words; word vectors start from GloVe. "
        "Unlike the paper's, attention sees its coverage and is trained not to repeat itself (See et al. 2017). "
        f"The stages: {runs['sentences']['step']} steps of copying single sentences of CNN/DailyMail, BBC and Reuters, "
        f"{runs['passages']['step']} of copying the first one or two of a short passage, {runs['leads']['step']} of copying the "
        f"first of a passage of up to 165 words; then {runs['apeso']['step']} of CNN/DailyMail articles with the entity layer "
        f"(APESO, delta {DELTA:g}) or without (baseline) on the same batches, of which the last step is kept. What they learn "
        "to write are as many of the first sentences as agree best with the highlights: highlights themselves, and "
        "sentences chosen from all over the article, taught this model to hedge, so that it no longer copied. The search has the paper's beams (5), alpha (0.9), least length "
        "(35 words) and no trigram twice; beta was chosen on validation articles, by the sum of APES and ROUGE-1. gamma is the "
        "paper's 0.5 and, in the last row, the one chosen in the same way. The paper trained on 287,000 articles, 200 times as many.",
    ]


def _score_line(name: str, row: Mapping[str, Any]) -> str:
    low, high = row["apes_interval"]
    rouge = ["" if name == "source" else f"{100 * row[key]:.1f}" for key in ROUGE]
    paper = ", ".join("-" if value is None else f"{value:g}" for value in PAPER.get(name, ()))
    cells = [name, f"{row['apes']:.1f} ({low:.1f} to {high:.1f})", *rouge, f"{row['words']:.0f}", paper]
    return f"| {' | '.join(cells)} |"


def _entity_line(entities: Mapping[str, float]) -> str:
    return (
        f"Of the tokens of test articles {entities['share']:.1%} belong to salient entities. The entity layer gives them "
        f"{entities['salient']:.3f} on average and others {entities['others']:.3f}; a salient token gets more than another "
        f"with a probability of {entities['area']:.3f}."
    )


def _penalty_lines(penalties: Mapping[str, Any]) -> Iterator[str]:
    for name, points in penalties["points"].items():
        for point in points:
            chosen = "chosen" if point[name] == penalties[name] else ""
            numbers = f"{point['apes']:.1f} | {100 * point['rouge1']:.1f} | {point['words']:.0f}"
            yield f"| {name} {point[name]:g} | {numbers} | {chosen} |"


def _test_line(name: str, tests: Mapping[str, Any]) -> str:
    cells = [name]
    for key, scale in (("apes", 1), ("apes_salient_entities", 1), ("rouge1", 100)):
        test = tests[key]
        low, high = scale * test["low"], scale * test["high"]
        cells += [
            f"{scale * test['difference']:+.2f} ({low:+.2f} to {high:+.2f})",
            f"{test['p_permutation']:.4f}",
        ]
    return f"| {' | '.join(cells)} |"


def verdict(study: Mapping[str, Any]) -> str:
    """One sentence: whether the paper's claim holds here."""
    test = study["tests"]["APESO"]["apes"]
    by = f"by {test['difference']:+.1f} points (95% interval {test['low']:+.1f} to {test['high']:+.1f})"
    if test["low"] > 0:
        return f"APESO answers more questions than its baseline, {by}: the paper's claim holds at this scale."
    if test["high"] < 0:
        return f"APESO answers fewer questions than its baseline, {by}: the paper's claim does not hold at this scale."
    return f"APESO differs from its baseline {by}: at this scale the paper's claim is neither confirmed nor refuted."


# --- command ----------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", default="runs/study-apeso", help="default: %(default)s")
    parser.add_argument(
        "--jobs",
        type=int,
        default=2,
        help="runs at a time, each with its share of the cores (default: %(default)s)",
    )
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="for every run"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiplies the steps of every stage (default: %(default)s)"
    )
    parser.add_argument("--reader", help="of APES, in place of the light preset's")


def run(options: argparse.Namespace) -> int:
    """Run or go on with the study, then write `study.json` and `STUDY.md`."""
    from summarily.metrics.files import write_atomically

    folder = Path(options.output)
    train(folder, options.data, tuple(options.set), options.jobs, options.scale)
    study = score_study(folder, options.set, {"reader": options.reader} if options.reader else None)
    write_atomically(folder / "study.json", json.dumps(study, indent=1))
    write_atomically(folder / "STUDY.md", document(study))
    print(document(study))
    print(f"written to {folder}: study.json, STUDY.md")
    return 0
