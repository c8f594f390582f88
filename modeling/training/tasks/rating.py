"""Learning to rate a candidate beside its reference: BLEURT (Sellam et al. 2020).

Two kinds of pairs teach it: those with what other metrics say (signals, brought to one scale so that none of them rules
the loss), and those with what people say. A recipe that has ratings alone leaves a model that gives the score alone.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import set_seed

from summarily.modeling.bleurt.modeling_bleurt import UNKNOWN, BleurtForScoring
from summarily.modeling.bleurt.tokenization_bleurt import PairIds, PairTokenizer
from summarily.modeling.training import card
from summarily.modeling.training.recipe import LOSS, PairSource, RatingSection, Recipe
from summarily.modeling.training.task import Evaluation, Task
from summarily.support.errors import RecipeError
from summarily.support.folders import data_folder
from summarily.support.tables import column, read_table

if TYPE_CHECKING:
    from summarily.modeling.training.progress import RunResult

ENCODER = "minilm"
ROWS_AT_ONCE = 32


class Rated(NamedTuple):
    """A pair, the score and the signals it is to have, and whether it is held out (None: chance decides)."""

    reference: str
    candidate: str
    labels: list[float]
    held_out: bool | None = None


# --- pairs ------------------------------------------------------------------------------------------------


def read_pairs(source: PairSource, folder: Path, signals: Sequence[str]) -> list[Rated]:
    """The pairs of a file, their labels not yet on the scale of the model's outputs."""
    path = folder / source.file
    if not path.is_file():
        raise RecipeError(
            f"there is no file {path}; give the folder of rating.pairs by --data or the environment variable "
            "SUMMARILY_DATA."
        )
    table = read_table(str(path))
    first, second = column(table, source.reference), column(table, source.candidate)
    held_out = [split == "validation" for split in column(table, source.split)] if source.split else None
    if source.rating is not None:
        scale = source.high - source.low
        scores = [(float(score) - source.low) / scale for score in column(table, source.rating)]
        labels = [[score] + [UNKNOWN] * len(signals) for score in scores]
    else:
        # Signals on one scale, so that none of them rules the loss.
        values = np.array(list(zip(*(column(table, name) for name in signals), strict=True)))
        scaled = (values - values.mean(0)) / values.std(0)
        labels = [[UNKNOWN, *row] for row in scaled.tolist()]
    return [
        Rated(*row, held_out[i] if held_out else None)
        for i, row in enumerate(zip(first, second, labels, strict=True))
    ]


def join_pairs(pairs: Sequence[Rated], count: int, randomness: random.Random) -> list[Rated]:
    """Longer pairs, each of two to four others that are about as similar as the mean of their parts.

    Example:
        >>> pairs = [Rated("a", "b", [0.0]), Rated("c", "d", [1.0])]
        >>> join_pairs(pairs, 1, random.Random(0))[0].labels
        [0.5]
    """
    joined = []
    for _ in range(count):
        parts = randomness.sample(pairs, min(randomness.choice((2, 3, 4)), len(pairs)))
        first = " ".join(_as_sentence(part.reference) for part in parts)
        second = " ".join(_as_sentence(part.candidate) for part in parts)
        columns = zip(*(part.labels for part in parts), strict=True)
        labels = [UNKNOWN if UNKNOWN in values else sum(values) / len(parts) for values in columns]
        joined.append(Rated(first, second, labels))
    return joined


def _as_sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", '"')) else f"{text}."


def divide(
    pairs: Iterable[Rated], section: RatingSection, randomness: random.Random
) -> tuple[list[Rated], list[Rated]]:
    """The pairs to learn from and those to choose by. The parts of a joined pair are on one side of the division."""
    pairs = list(pairs)
    left_to_chance = [pair for pair in pairs if pair.held_out is None]
    randomness.shuffle(left_to_chance)
    cut = int(section.held_out * len(left_to_chance))
    learned = left_to_chance[cut:] + [pair for pair in pairs if pair.held_out is False]
    held_out = left_to_chance[:cut] + [pair for pair in pairs if pair.held_out]
    learned += join_pairs(learned, section.joined, randomness)
    held_out += join_pairs(held_out, int(section.held_out * section.joined), randomness)
    return learned, held_out


# --- the task ---------------------------------------------------------------------------------------------


class RatingTask(Task):
    """The pairs of `[[rating.pairs]]`; the model is a new one on an encoder, or one that a run has trained."""

    limits = (
        "It says how similar people would find two sentences; whether a summary is good is another question. What it was "
        "not trained on (other languages, other kinds of text) has not been measured."
    )

    def load(self) -> BleurtForScoring:
        section = self.recipe.rating
        set_seed(self.recipe.training.seed)
        self.model = build_rater(self.recipe)
        place = self.model.config.encoder
        self.tokenizer = (
            PairTokenizer.of_encoder(place)
            if place
            else PairTokenizer.from_pretrained(self.recipe.model.name)
        )
        folder, signals = data_folder(self.data, "."), self.model.config.signals or []
        if not signals and not all(source.rating for source in section.pairs):
            raise RecipeError(
                "rating.pairs has a file without a rating, but model.config.signals names no signals."
            )
        pairs = [pair for source in section.pairs for pair in read_pairs(source, folder, signals)]
        parts = divide(pairs, section, random.Random(self.recipe.training.seed))
        self.splits = {
            split: make_rows(self.tokenizer, part, section.max_tokens)
            for split, part in zip(("train", "validation"), parts, strict=True)
        }
        return self.model

    def rows(self) -> Any:
        return self.splits["train"]

    def collate(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return collate_pairs(self.tokenizer, rows)

    def loss(self, model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
        """The squared error, summed over the labels that are known."""
        return model(**batch).loss * (batch["labels"] != UNKNOWN).sum()

    def evaluate(self, model: Any, split: str) -> Evaluation:
        """The mean squared error of the known labels, and how their order is met on average; there is no test split."""
        if split == "test":
            return Evaluation()
        return Evaluation(agreement(model, self.splits[split], self.tokenizer))

    def save(self, model: BleurtForScoring, folder: Path) -> None:
        if all(source.rating for source in self.recipe.rating.pairs):
            model.keep_score_alone()
        model.save_pretrained(folder, stored_dtype=getattr(torch, self.recipe.hub.dtype))
        if model.config.encoder is None:  # otherwise the words are the encoder's
            self.tokenizer.save_pretrained(folder)

    def card(self, result: RunResult, examples: int) -> str:
        recipe = self.recipe
        name = recipe.hub.name or recipe.model.name.rstrip("/").split("/")[-1]
        files = card.file_names(source.file for source in recipe.rating.pairs)
        people = all(source.rating for source in recipe.rating.pairs)
        meta = {"tags": ["bleurt", "summarily", *recipe.hub.tags]}
        return card.render(
            "rating",
            self,
            result,
            class_name=type(self.model).__name__,
            name=name,
            front_matter=card.front_matter(recipe, meta),
            data=files,
            outputs="the score" if people else "the score and the signals",
            splits=card.bullets(f"{split}: {len(rows):,} pairs" for split, rows in self.splits.items()),
            best_score=f"{result.best_score:.4f}",
        )


def build_rater(recipe: Recipe) -> BleurtForScoring:
    """A new BLEURT on its encoder (`model.config.encoder`), or a trained one."""
    name, options = recipe.model.name, dict(recipe.model.config)
    if name == BleurtForScoring.config_class.model_type:
        return BleurtForScoring.from_encoder(options.pop("encoder", ENCODER), **options)
    if options:
        raise RecipeError(
            f"model.config.{next(iter(options))} is for a new model; {name} has a config of its own."
        )
    try:
        return BleurtForScoring.from_pretrained(name)
    except OSError as error:
        raise RecipeError(
            f"model.name is {name!r}; expected {BleurtForScoring.config_class.model_type!r} or a trained model: "
            + str(error).splitlines()[0]
        ) from None


def make_rows(tokenizer: PairTokenizer, pairs: Sequence[Rated], max_tokens: int) -> list[dict[str, Any]]:
    """Token ids and labels of pairs, as the training loop takes them."""
    first = tokenizer.encode([pair.reference for pair in pairs])
    second = tokenizer.encode([pair.candidate for pair in pairs])
    ids = [tokenizer.pair(*both, max_length=max_tokens) for both in zip(first, second, strict=True)]
    return [
        {"input_ids": one.input_ids, "token_type_ids": one.token_type_ids, "labels": pair.labels}
        for one, pair in zip(ids, pairs, strict=True)
    ]


def collate_pairs(tokenizer: PairTokenizer, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """A padded batch with its labels."""
    batch = tokenizer.pad_pairs([PairIds(row["input_ids"], row["token_type_ids"], False) for row in rows])
    return {**batch, "labels": torch.tensor([row["labels"] for row in rows], dtype=torch.float32)}


@torch.inference_mode()
def agreement(
    model: BleurtForScoring, rows: Sequence[Mapping[str, Any]], tokenizer: PairTokenizer
) -> dict[str, float]:
    """The mean squared error of the known labels, and Spearman's correlation with those that all rows have."""
    from scipy.stats import ConstantInputWarning, spearmanr

    model.eval()
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
    batches = [
        [rows[row] for row in order[start : start + ROWS_AT_ONCE]]
        for start in range(0, len(order), ROWS_AT_ONCE)
    ]
    outputs = torch.cat(
        [model(**{**collate_pairs(tokenizer, batch), "labels": None}).logits for batch in batches]
    )
    labels = torch.tensor([row["labels"] for batch in batches for row in batch])
    known = labels != UNKNOWN
    columns = [index for index in range(labels.shape[1]) if known[:, index].all()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)  # NaN says it
        orders = [
            spearmanr(outputs[:, c].double().numpy(), labels[:, c].double().numpy()).statistic
            for c in columns
        ]
    return {
        LOSS: float(((outputs - labels)[known] ** 2).mean()),
        "spearman": float(np.mean(orders)),
    }
