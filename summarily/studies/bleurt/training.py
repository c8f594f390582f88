"""The two stages of training a small BLEURT: signals of other metrics, then people's ratings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from summarily.modeling.training.recipe import load_recipe
from summarily.studies.bleurt.perturbations import Pair, make_pairs
from summarily.support.errors import FileError, InputError
from summarily.support.files import write_atomically
from summarily.support.tables import column, read_table

# Where stage 1 takes its passages: the file, the column with the text, and of 11 pairs how many.
DOCUMENTS = {
    "bbc": ("news/bbc_news_summary.jsonl.gz", "article", 3),
    "cnndm": ("news/cnndm_articles.jsonl.gz", "article", 3),
    "reuters": ("news/reuters_train.jsonl.gz", "body", 3),
    "arxiv": ("sentence/arxiv_abstract_title.jsonl.gz", "abstract", 2),
}
HELD_OUT = 0.1
# BERTScore as it was when BLEURT learnt from it, without weights.
METRICS: dict[str, dict[str, bool]] = {
    "rouge": {},
    "bertscore": {"idf": False},
    "wms": {},
    "sms": {},
    "vert": {},
}


def measure_signals(pairs: Sequence[Pair], names: Sequence[str]) -> list[list[float]]:
    """What the metrics say about each pair, in the order of `names`."""
    from summarily.metrics.scorecard import score

    card = score([pair.candidate for pair in pairs], [pair.reference for pair in pairs], metrics=METRICS)
    columns = {key: values for score in card.values() for key, values in score.per_example.items()}
    return [[columns[name][row] for name in names] for row in range(len(pairs))]


def write_signals(file: Path, data: Path, names: Sequence[str], count: int, seed: int) -> None:
    """The pairs of stage 1 with their signals, which take minutes; a file that is there is left as it is."""
    if file.exists():
        with file.open(encoding="utf-8") as lines:
            try:
                known = json.loads(next(lines)).keys() >= set(names)
            except (StopIteration, AttributeError, ValueError):  # a file of another version, or none of ours
                known = False
        if not known:
            raise FileError(f"{file} lacks signals that the recipe names; choose another output folder.")
        return
    documents, counts = {}, {}
    for name, (path, text, share) in DOCUMENTS.items():
        documents[name] = [row for row in column(read_table(str(data / path)), text) if row]
        counts[name] = count * share // 11
    pairs = make_pairs(documents, counts, seed)
    cut = int(HELD_OUT * len(pairs))
    lines_out = []
    for number, (pair, values) in enumerate(zip(pairs, measure_signals(pairs, names), strict=True)):
        split = "validation" if number < cut else "train"
        row = {**pair._asdict(), "split": split, **dict(zip(names, values, strict=True))}
        lines_out.append(json.dumps(row))
    write_atomically(file, "\n".join(lines_out) + "\n")


def train_bleurt(
    data: Path, output: Path, pairs: int, overrides: Mapping[str, Sequence[str]] | None = None
) -> Path | None:
    """Both stages; the folder of the trained model, or None if the run was stopped.

    Args:
        data: the folder of the data.
        output: what the run writes; given again, the run goes on.
        pairs: how many to make for stage 1.
        overrides: `section.key=value` for the recipes "bleurt_signals" and "bleurt_ratings".
    """
    from summarily.modeling.training.train import train

    output.mkdir(parents=True, exist_ok=True)
    file = (output / "pairs.jsonl").resolve()
    places = {
        "bleurt_signals": [f'rating.pairs=[{{file = "{file.as_posix()}", split = "split"}}]'],
        "bleurt_ratings": [f"model.name={output / 'signals' / 'hub'}"],
    }
    changes = overrides or {}
    if unknown := sorted(changes.keys() - places.keys()):
        raise InputError(f"there is no stage {unknown[0]}; the stages are {', '.join(places)}.")
    recipes = {name: load_recipe(name, [*place, *changes.get(name, ())]) for name, place in places.items()}
    first = recipes["bleurt_signals"]
    write_signals(file, data, first.model.config["signals"], pairs, first.training.seed)
    for name, recipe in recipes.items():
        stage = name.removeprefix("bleurt_")
        result = train(recipe, output / stage, data=data)
        print(f"{stage}: {result.status} after {result.step} steps, loss {result.best_score:.4f}", flush=True)
        if result.status != "finished":
            return None
    return output / "ratings" / "hub"
