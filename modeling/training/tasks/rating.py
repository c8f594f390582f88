"""Learning to rate a candidate beside its reference: BLEURT (Sellam et al. 2020).

Three kinds of pairs teach it: those with what other metrics say (signals, brought to one scale so that none of them rules
the loss), those with what people say, and duels: two candidates of one reference, of which people found one better. A
recipe that has people's labels alone leaves a model that gives the score alone.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
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
SHARPNESS = 10.0
"""How many points of log-odds a difference of 1 between two scores is: scores of good and bad texts are about 1 apart."""


class Rated(NamedTuple):
    """A pair, the score and the signals it is to have, and whether it is held out (None: chance decides).

    With `worse`, a duel: another candidate that is to have a lower score, in place of labels.
    """

    reference: str
    candidate: str
    labels: list[float]
    held_out: bool | None = None
    worse: str | None = None


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
    labels: list[list[float]]
    if source.worse is not None:
        labels = [[] for _ in first]
    elif source.rating is not None:
        scale = source.high - source.low
        scores = [(float(score) - source.low) / scale for score in column(table, source.rating)]
        labels = [[score] + [UNKNOWN] * len(signals) for score in scores]
    else:
        # Signals on one scale, so that none of them rules the loss.
        values = np.array(list(zip(*(column(table, name) for name in signals), strict=True)))
        scaled = (values - values.mean(0)) / values.std(0)
        labels = [[UNKNOWN, *row] for row in scaled.tolist()]
    worse: Sequence[Any] = column(table, source.worse) if source.worse else [None] * len(first)
    return [
        Rated(*row, held_out[i] if held_out else None, worse[i])
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
    for part, count in ((learned, section.joined), (held_out, int(section.held_out * section.joined))):
        part += join_pairs([pair for pair in part if pair.worse is None], count, randomness)
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
        if not signals and not all(source.by_people for source in section.pairs):
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
        """The squared error, summed over the labels that are known, and the surprise at the outcome of each duel."""
        given, duels = batch["labels"], batch["duels"]
        texts = {key: value for key, value in batch.items() if key not in ("labels", "duels")}
        error, surprise = _losses(model(**texts).logits, given, duels)
        return error.sum() + surprise.sum()

    def evaluate(self, model: Any, split: str) -> Evaluation:
        """See `agreement`; there is no test split."""
        if split == "test":
            return Evaluation()
        return Evaluation(agreement(model, self.splits[split], self.tokenizer))

    def save(self, model: BleurtForScoring, folder: Path) -> None:
        if all(source.by_people for source in self.recipe.rating.pairs):
            model.keep_score_alone()
        model.save_pretrained(folder, stored_dtype=getattr(torch, self.recipe.hub.dtype))
        if model.config.encoder is None:  # otherwise the words are the encoder's
            self.tokenizer.save_pretrained(folder)

    def card(self, result: RunResult, examples: int) -> str:
        recipe = self.recipe
        name = recipe.hub.name or recipe.model.name.rstrip("/").split("/")[-1]
        files = card.file_names(source.file for source in recipe.rating.pairs)
        people = all(source.by_people for source in recipe.rating.pairs)
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
    """Token ids and labels of pairs, as the training loop takes them; a duel is one target."""
    texts = [[pair.reference for pair in pairs], [pair.candidate for pair in pairs]]
    first, second, third = (
        tokenizer.encode(column) for column in (*texts, [pair.worse or "" for pair in pairs])
    )
    rows: list[dict[str, Any]] = []
    for pair, reference, candidate, worse in zip(pairs, first, second, third, strict=True):
        own = tokenizer.pair(reference, candidate, max_length=max_tokens)
        if pair.worse is None:
            rows.append(
                {"input_ids": own.input_ids, "token_type_ids": own.token_type_ids, "labels": pair.labels}
            )
        else:
            other = tokenizer.pair(reference, worse, max_length=max_tokens)
            # The engine only counts the tokens of a row; `collate_pairs` has the two pairs themselves.
            both = range(len(own.input_ids) + len(other.input_ids))
            rows.append({"input_ids": both, "labels": [1.0], "duel": (own, other)})
    return rows


def collate_pairs(tokenizer: PairTokenizer, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """A padded batch: first the pairs that have labels, then those of duels.

    `duels` are the places of the better and the worse pair of each [duels, 2].
    """
    labelled = [row for row in rows if "duel" not in row]
    ids = [PairIds(row["input_ids"], row["token_type_ids"], False) for row in labelled]
    ids += [pair for row in rows if "duel" in row for pair in row["duel"]]
    labels = torch.tensor([row["labels"] for row in labelled], dtype=torch.float32)
    duels = torch.arange(len(labelled), len(ids)).reshape(-1, 2)
    return {**tokenizer.pad_pairs(ids), "labels": labels, "duels": duels}


def _losses(
    logits: torch.Tensor, labels: torch.Tensor, duels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The squared errors of the known labels, and the negative log-likelihood of each duel's outcome."""
    known = labels != UNKNOWN
    error = (logits[: len(labels)] - labels)[known] ** 2 if len(labels) else logits.new_zeros(0)
    better, worse = logits[duels[:, 0], 0], logits[duels[:, 1], 0]
    return error, F.softplus(-SHARPNESS * (better - worse).float())


@torch.inference_mode()
def agreement(
    model: BleurtForScoring, rows: Sequence[Mapping[str, Any]], tokenizer: PairTokenizer
) -> dict[str, float]:
    """The mean loss of the targets; Spearman's correlation with labels that all rated rows have; percent of duels won."""
    from scipy.stats import ConstantInputWarning, spearmanr

    model.eval()
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
    losses: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    given: list[torch.Tensor] = []
    won: list[torch.Tensor] = []
    for start in range(0, len(order), ROWS_AT_ONCE):
        batch = collate_pairs(tokenizer, [rows[row] for row in order[start : start + ROWS_AT_ONCE]])
        labels, duels = batch.pop("labels"), batch.pop("duels")
        logits = model(**batch).logits
        losses += [part.double() for part in _losses(logits, labels, duels)]
        won.append(logits[duels[:, 0], 0] > logits[duels[:, 1], 0])
        if len(labels):
            outputs.append(logits[: len(labels)])
            given.append(labels)
    found: dict[str, float] = {LOSS: float(torch.cat(losses).mean())}
    if outputs:
        answers, known = torch.cat(outputs).double().numpy(), torch.cat(given).double().numpy()
        columns = [index for index in range(known.shape[1]) if (known[:, index] != UNKNOWN).all()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantInputWarning)  # NaN says it
            orders = [spearmanr(answers[:, c], known[:, c]).statistic for c in columns]
        found["spearman"] = float(np.mean(orders))
    if len(duels_won := torch.cat(won)):
        found["won"] = 100 * float(duels_won.double().mean())
    return found
