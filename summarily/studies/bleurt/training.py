"""The two stages of training a small BLEURT: signals of other metrics, then people's ratings."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from summarily.modeling.bleurt.tokenization_bleurt import PairIds, PairTokenizer
from summarily.modeling.training.recipe import Recipe, TrainingSection, load_recipe
from summarily.studies.bleurt.perturbations import Pair, make_pairs

if TYPE_CHECKING:
    from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring

ENCODER = "minilm"
UNKNOWN = -100.0
# The column with the text of each collection that stage 1 may be given.
TEXT_COLUMNS = {"bbc": "article", "cnndm": "article", "reuters": "body", "arxiv": "abstract"}
# Each rated collection: its columns and the ends of its scale.
RATINGS = {
    "stsb": ("sentence1", "sentence2", "score", 0, 5),
    "sick": ("sentence1", "sentence2", "relatedness", 1, 5),
}
HELD_OUT = 0.1
METRICS = ("rouge", "bertscore", "wms", "sms", "vert")

Row = dict[str, Any]


# --- data -------------------------------------------------------------------------------------------------


def read_rows(path: Path) -> list[dict[str, Any]]:
    from summarily.support.tables import read_table

    table = read_table(str(path))
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def measure_signals(pairs: Sequence[Pair], names: Sequence[str]) -> list[list[float]]:
    """What the metrics say about each pair, in the order of `names`."""
    from summarily.metrics.scorecard import score

    card = score(
        [pair.candidate for pair in pairs], [pair.reference for pair in pairs], metrics=list(METRICS)
    )
    columns = {key: values for score in card.values() for key, values in score.per_example.items()}
    return [[columns[name][row] for name in names] for row in range(len(pairs))]


def signal_rows(recipe: Recipe, data: Path, tokenizer: PairTokenizer, file: Path) -> list[Row]:
    """The rows of stage 1. The pairs and their signals, which take minutes, are kept in `file`."""
    from summarily.support.files import write_atomically

    names = recipe.model.config["signals"]
    if not file.exists():
        documents = {
            name: [row[TEXT_COLUMNS[name]] for row in read_rows(data / path) if row[TEXT_COLUMNS[name]]]
            for name, path in recipe.data.files.items()
        }
        pairs = make_pairs(documents, recipe.data.limits, recipe.training.seed)
        signals = measure_signals(pairs, names)
        lines = [json.dumps([*pair, values]) for pair, values in zip(pairs, signals, strict=True)]
        write_atomically(file, "\n".join([json.dumps(names), *lines]) + "\n")
    header, *stored = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    if header != names:
        raise ValueError(
            f"{file} has the signals {header}, the recipe {names}; choose another output folder."
        )
    values = np.array([line[3] for line in stored])
    # Signals on one scale, so that none of them rules the loss.
    scaled = (values - values.mean(0)) / values.std(0)
    texts = [(line[0], line[1]) for line in stored]
    return make_rows(tokenizer, texts, [[UNKNOWN, *row] for row in scaled.tolist()])


def rating_pairs(recipe: Recipe, data: Path) -> list[tuple[str, str, float]]:
    """Pairs of sentences and how similar people found them, from 0 to 1."""
    found = []
    for name, path in recipe.data.files.items():
        first, second, score, low, high = RATINGS[name]
        for row in read_rows(data / path):
            found.append((row[first], row[second], (float(row[score]) - low) / (high - low)))
    return found


def join_pairs(
    pairs: Sequence[tuple[str, str, float]], count: int, randomness: random.Random
) -> list[tuple[str, str, float]]:
    """Longer pairs, each of two to four rated ones that are about as similar as the mean of their parts.

    Example:
        >>> join_pairs([("a", "b", 0.0), ("c", "d", 1.0)], 1, random.Random(0))[0][2]
        0.5
    """
    joined = []
    for _ in range(count):
        parts = randomness.sample(pairs, min(randomness.choice((2, 3, 4)), len(pairs)))
        first = " ".join(_as_sentence(part[0]) for part in parts)
        second = " ".join(_as_sentence(part[1]) for part in parts)
        joined.append((first, second, sum(part[2] for part in parts) / len(parts)))
    return joined


def _as_sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", '"')) else f"{text}."


def rating_rows(
    recipe: Recipe, data: Path, tokenizer: PairTokenizer, signals: int
) -> tuple[list[Row], list[Row]]:
    """The rows of stage 2 to train on and to choose by. Parts of a joined row are on one side of the division."""
    randomness = random.Random(recipe.training.seed)
    pairs = rating_pairs(recipe, data)
    randomness.shuffle(pairs)
    held_out = int(HELD_OUT * len(pairs))
    count = recipe.data.limits.get("joined", 0)
    rows = []
    for part, joined in ((pairs[held_out:], count), (pairs[:held_out], int(HELD_OUT * count))):
        part = part + join_pairs(part, joined, randomness)
        labels = [[score] + [UNKNOWN] * signals for _, _, score in part]
        rows.append(make_rows(tokenizer, [(first, second) for first, second, _ in part], labels))
    return rows[0], rows[1]


def make_rows(
    tokenizer: PairTokenizer, texts: Sequence[tuple[str, str]], labels: Sequence[list[float]]
) -> list[Row]:
    """Token ids and labels of pairs, as the training loop takes them."""
    first = tokenizer.encode([pair[0] for pair in texts])
    second = tokenizer.encode([pair[1] for pair in texts])
    pairs = [tokenizer.pair(*ids) for ids in zip(first, second, strict=True)]
    return [
        {"input_ids": pair.input_ids, "token_type_ids": pair.token_type_ids, "labels": known}
        for pair, known in zip(pairs, labels, strict=True)
    ]


def collate(rows: Sequence[Mapping[str, Any]], tokenizer: PairTokenizer) -> dict[str, torch.Tensor]:
    """A padded batch with its labels."""
    batch = tokenizer.pad_pairs([PairIds(row["input_ids"], row["token_type_ids"], False) for row in rows])
    return {**batch, "labels": torch.tensor([row["labels"] for row in rows], dtype=torch.float32)}


# --- training ---------------------------------------------------------------------------------------------


def squared_errors(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], training: TrainingSection
) -> torch.Tensor:
    """The squared error, summed over the labels that are known."""
    return model(**batch).loss * (batch["labels"] != UNKNOWN).sum()


@torch.inference_mode()
def evaluate_rows(model: BleurtForScoring, rows: Sequence[Row], tokenizer: PairTokenizer) -> dict[str, float]:
    """The mean squared error of the known labels, and how their order is met on average."""
    from summarily.metrics.meta_evaluation.correlation import coefficient

    model.eval()
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
    batches = [[rows[row] for row in order[start : start + 32]] for start in range(0, len(order), 32)]
    outputs = torch.cat([model(**{**collate(batch, tokenizer), "labels": None}).logits for batch in batches])
    labels = torch.tensor([row["labels"] for batch in batches for row in batch])
    known = labels != UNKNOWN
    columns = [column for column in range(labels.shape[1]) if known[:, column].all()]
    agreement = [coefficient("spearman", outputs[:, c].numpy(), labels[:, c].numpy()) for c in columns]
    return {
        "loss": float(((outputs - labels)[known] ** 2).mean()),
        "spearman": float(np.mean(agreement)),
    }


def run_stage(
    recipe: Recipe,
    folder: Path,
    model: BleurtForScoring,
    rows: Sequence[Row],
    held_out: Sequence[Row],
    tokenizer: PairTokenizer,
) -> bool:
    """Train `model` on `rows`; it ends with the weights that were best on `held_out`. False if stopped early."""
    from summarily.modeling.training.building import make_accelerator
    from summarily.modeling.training.train import fit, run_folder

    accelerator = make_accelerator(recipe.training)
    with run_folder(folder, recipe, True, accelerator):
        result = fit(
            recipe,
            folder,
            model,
            rows,
            partial(collate, tokenizer=tokenizer),
            partial(evaluate_rows, rows=held_out, tokenizer=tokenizer),
            accelerator,
            squared_errors,
        )
    print(
        f"{folder.name}: {result.status} after {result.step} steps, loss {result.best_score:.4f}", flush=True
    )
    return result.status == "finished"


def train_bleurt(
    data: Path, output: Path, overrides: Mapping[str, Sequence[str]] | None = None
) -> Path | None:
    """Both stages; the folder of the trained model, or None if the run was stopped.

    Args:
        data: the folder of the data.
        output: what the run writes; given again, the run goes on.
        overrides: `section.key=value` for the recipes "bleurt_signals" and "bleurt_ratings".
    """
    from accelerate.utils import set_seed

    from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring

    changes = overrides or {}
    first, second = (
        load_recipe(name, changes.get(name, ())) for name in ("bleurt_signals", "bleurt_ratings")
    )
    output.mkdir(parents=True, exist_ok=True)
    set_seed(first.training.seed)
    model = BleurtForScoring.from_encoder(ENCODER, **first.model.config)
    tokenizer = PairTokenizer.of_encoder(ENCODER, first.data.max_source_tokens)
    rows = signal_rows(first, data, tokenizer, output / "pairs.jsonl")
    cut = int(HELD_OUT * len(rows))
    if not run_stage(first, output / "signals", model, rows[cut:], rows[:cut], tokenizer):
        return None
    rated, held_out = rating_rows(second, data, tokenizer, len(first.model.config["signals"]))
    if not run_stage(second, output / "ratings", model, rated, held_out, tokenizer):
        return None
    folder = output / "hub"
    model.keep_score_alone()
    model.save_pretrained(folder, stored_dtype=torch.float16)
    return folder
