"""Learning to restore corrupted text: the pretraining of BART (Lewis et al. 2020, section 2.2).

Sentences are put in another order, then spans of tokens, their lengths drawn from Poisson(3), are each replaced by
one mask token until 30% of the tokens are gone; a span of length 0 inserts a mask. The model reads what is left and
writes the text. Noise depends on the seed, the epoch and the text only, so a stopped run goes on as if it had not
stopped, and an epoch never repeats the noise of another:

    >>> noise = Noise(mask_token_id=4, sentence_ends=frozenset({9}))
    >>> noise(list(range(10, 30)), np.random.default_rng(0))
    [10, 11, 12, 13, 14, 4, 17, 18, 19, 4, 20, 21, 22, 23, 4, 28, 29]

A recipe with `[[denoising.texts]]` trains so; its texts take the place of pairs.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from summarily.modeling.training import card
from summarily.modeling.training.corpora import (
    SPLITS,
    Corpus,
    clean,
    column,
    content_id,
    cut_words,
    joined,
    share,
)
from summarily.modeling.training.random_starts import special_tokens_around
from summarily.modeling.training.recipe import Recipe, TextSource
from summarily.modeling.training.tasks.summary import SummaryTask
from summarily.support.errors import RecipeError
from summarily.support.folders import data_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HELD_OUT = {"validation": (98.0, 99.0), "test": (99.0, 100.0), "train": (0.0, 98.0)}
_FIXED_EPOCH = 0  # held-out texts keep the noise of one epoch


# --- noise ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise:
    """BART's two kinds of noise, on token ids without special tokens.

    Args:
        mask_token_id: what stands for a span.
        sentence_ends: tokens that end a sentence.
        masked: the share of tokens that spans take away.
        span: the mean length of a span.
        permute: put sentences in another order.
    """

    mask_token_id: int
    sentence_ends: frozenset[int] = frozenset()
    masked: float = 0.3
    span: float = 3.0
    permute: bool = True

    def __call__(self, ids: Sequence[int], generator: np.random.Generator) -> list[int]:
        ids = permute_sentences(ids, self.sentence_ends, generator) if self.permute else list(ids)
        return infill(ids, self.mask_token_id, self.masked, self.span, generator)


def permute_sentences(ids: Sequence[int], ends: frozenset[int], generator: np.random.Generator) -> list[int]:
    """The sentences in random order; what follows the last end is a sentence too.

    Example:
        >>> permute_sentences([5, 9, 6, 9, 7], frozenset({9}), np.random.default_rng(2))
        [7, 5, 9, 6, 9]
    """
    sentences: list[list[int]] = [[]]
    for token in ids:
        sentences[-1].append(token)
        if token in ends:
            sentences.append([])
    sentences = [sentence for sentence in sentences if sentence]
    return [token for i in generator.permutation(len(sentences)) for token in sentences[i]]


def infill(
    ids: Sequence[int], mask: int, share_masked: float, span: float, generator: np.random.Generator
) -> list[int]:
    """`ids` with spans replaced by one `mask` each, at least one token between two spans.

    Example:
        >>> infill([5, 6, 7, 8], mask=4, share_masked=0.5, span=3.0, generator=np.random.default_rng(3))
        [4, 6, 4, 8]
    """
    budget = round(share_masked * len(ids))
    spans: list[int] = []
    while sum(spans) < budget:
        spans.append(min(int(generator.poisson(span)), budget - sum(spans)))
    kept = len(ids) - budget
    spans = spans[: kept + 1]
    # Every span stands behind another number of kept tokens, all choices equally likely.
    places = np.sort(generator.choice(kept + 1, size=len(spans), replace=False))
    noisy: list[int] = []
    position = copied = 0
    for place, length in zip(places.tolist(), spans, strict=True):
        noisy += [*ids[position : position + place - copied], mask]
        position, copied = position + place - copied + length, place
    return [*noisy, *ids[position:]]


def sentence_ends(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens of a vocabulary that end with a full stop, an exclamation or a question mark."""
    return frozenset(i for token, i in tokenizer.get_vocab().items() if token.endswith((".", "!", "?")))


# --- texts ------------------------------------------------------------------------------------------------


def load_texts(recipe: Recipe, data: str | Path | None = None) -> Corpus:
    """The documents of the recipe, cut to `denoising.max_words`, split by the hash of their content."""
    from datasets import Dataset

    rows: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    dropped: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    seen: set[str] = set()
    for source in recipe.denoising.texts:
        for text in _read(source, data_folder(data, ".")):
            text = cut_words(clean(text, recipe.data), recipe.denoising.max_words)
            identifier = content_id(text)
            place = share(identifier, recipe.data.split_seed)
            split = next(name for name, (low, high) in HELD_OUT.items() if low <= place < high)
            if not text or identifier in seen:
                dropped[split]["duplicate text" if text else "empty text"] += 1
                continue
            seen.add(identifier)
            rows[split].append({"id": identifier, "source": text, "target": "", "references": [text]})
    for split, found in rows.items():
        if not found:
            raise RecipeError(f"denoising.texts leave nothing for the {split} split; name more texts.")
    return Corpus({split: Dataset.from_list(found) for split, found in rows.items()}, dropped)


def _read(source: TextSource, folder: Path) -> Iterator[str]:
    path = folder / source.file
    if not path.is_file():
        raise RecipeError(
            f"there is no file {path}; give the folder of denoising.texts by --data or the environment variable "
            "SUMMARILY_DATA."
        )
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if all(row.get(key) == value for key, value in source.only.items()):
                yield joined(column(row, source.column))


def pieces(ids: Sequence[int], lengths: Sequence[int], generator: np.random.Generator) -> Iterator[list[int]]:
    """A document cut into pieces whose lengths are drawn from `lengths`; a rest under half of the least is dropped.

    Example:
        >>> [len(piece) for piece in pieces(range(10), [4], np.random.default_rng(0))]
        [4, 4, 2]
    """
    position = 0
    while len(ids) - position >= min(lengths) / 2:
        length = int(generator.choice(list(lengths)))
        yield list(ids[position : position + length])
        position += length


@dataclass
class NoisyTexts:
    """The training rows of an epoch, each piece of text with new noise: what `TokenBatches` takes for a stream.

    Example:
        >>> texts = NoisyTexts([[5, 6, 7, 8]], Noise(mask_token_id=4), before=[0], behind=[2])
        >>> row = next(iter(texts(epoch=0)))
        >>> row["labels"], 4 in row["input_ids"]
        ([0, 5, 6, 7, 8, 2], True)
    """

    pieces: Sequence[Sequence[int]]
    noise: Noise
    before: Sequence[int]
    behind: Sequence[int]
    seed: int = 0

    def __call__(self, epoch: int) -> Iterator[dict[str, list[int]]]:
        for i in np.random.default_rng([self.seed, epoch]).permutation(len(self.pieces)):
            yield self.row(int(i), epoch)

    def row(self, number: int, epoch: int) -> dict[str, list[int]]:
        """One piece, corrupted, and as it was."""
        ids = self.pieces[number]
        noisy = self.noise(ids, np.random.default_rng([self.seed, epoch, number]))
        return {
            "input_ids": [*self.before, *noisy, *self.behind],
            "labels": [*self.before, *ids, *self.behind],
        }


def noisy_splits(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, recipe: Recipe) -> dict[str, Any]:
    """Pieces of every split with their noise: the training split anew in every epoch, the others once."""
    from datasets import Dataset

    if tokenizer.mask_token_id is None:
        raise RecipeError(
            'the tokenizer has no mask token; train one with tokenizer.special_tokens = "bart".'
        )
    section, seed = recipe.denoising, recipe.training.seed
    noise = Noise(
        tokenizer.mask_token_id,
        sentence_ends(tokenizer),
        section.masked,
        section.span,
        section.permute_sentences,
    )
    around = special_tokens_around(tokenizer)
    room = [length - sum(map(len, around)) for length in section.lengths]
    splits: dict[str, Any] = {}
    for split, documents in corpus.splits.items():
        ids = tokenizer(list(documents["source"]), add_special_tokens=False)["input_ids"]
        cut = [piece for i, text in enumerate(ids) for piece in pieces(text, room, _generator(seed, i))]
        if limit := recipe.data.limits.get(split):  # some of every source, not the first source alone
            chosen = np.random.default_rng(seed).permutation(len(cut))[:limit]
            cut = [cut[i] for i in np.sort(chosen)]
        splits[split] = NoisyTexts(cut, noise, *around, seed)
    for split in ("validation", "test"):
        texts = splits[split]
        rows = []
        for i, text in enumerate(tokenizer.batch_decode(list(texts.pieces))):
            shown = {"id": str(i), "source": text, "target": text, "references": [text]}
            rows.append(shown | texts.row(i, _FIXED_EPOCH))
        splits[split] = Dataset.from_list(rows)
    return splits


def _generator(seed: int, document: int) -> np.random.Generator:
    return np.random.default_rng([seed, document])


class DenoisingTask(SummaryTask):
    """The texts of `[[denoising.texts]]`, each the target of itself with noise."""

    def read(self) -> Corpus:
        return load_texts(self.recipe, self.data)

    def encode(self) -> dict[str, Any]:
        return noisy_splits(self.corpus, self.tokenizer, self.recipe)

    def data_name(self) -> str:
        return card.file_names(text.file for text in self.recipe.denoising.texts)

    def what_is_learned(self) -> str:
        noise = self.recipe.denoising
        return (
            f"texts restored from noise (spans of {noise.span:g} tokens on average masked until {noise.masked:.0%} are "
            f"gone{', sentences in random order' if noise.permute_sentences else ''}), in pieces of {noise.lengths} tokens"
        )

    def tested_split(self) -> str:
        return "test"
