"""BLEURT: a model that has learnt from people's ratings reads the reference and the summary together."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from summarily.metrics.base import Example, Metric, Values, count_empty, weighted_mean
from summarily.metrics.encoding import TOKEN_BUDGET, default_device, load_pretrained
from summarily.metrics.encoding.batches import batches
from summarily.metrics.explanations import Word, Words, WordsOf
from summarily.metrics.options import DTYPES, PRESETS, limit, one_of
from summarily.metrics.references import over_references
from summarily.support import models, weights
from summarily.support import text as text_rules
from summarily.support.inputs import read_json

if TYPE_CHECKING:
    from summarily.modeling.bleurt.tokenization_bleurt import PairIds

PAPER_MODEL = "Elron/bleurt-large-512"
"""The large model of 512 tokens, which the thesis used."""
LIGHT_MODEL = "bleurt-light"
MULTI_REFERENCE = ("max", "mean")
UNITS = ("text", "sentence")


class Pair(NamedTuple):
    """What the model reads, in this order."""

    reference: str
    prediction: str


class PairModel:
    """Scores of pairs: each distinct pair once, pairs of similar length together."""

    def __init__(self, resolved: weights.Resolved, device: torch.device, dtype: str):
        from summarily.modeling.bleurt.modeling_bleurt import BleurtForScoring
        from summarily.modeling.bleurt.tokenization_bleurt import PairTokenizer

        model = load_pretrained(BleurtForScoring, resolved, dtype=getattr(torch, dtype))
        # Folded in once, adapters cost nothing any more.
        self.model = (model.merged() if model.config.adapter_rank else model).to(device).eval()
        self.device = device
        self.tokenizer = PairTokenizer.from_pretrained(resolved.path_or_id, resolved.revision)

    def encode(self, pairs: Sequence[Pair], max_length: int | None) -> dict[Pair, PairIds]:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        pieces = dict(zip(texts, self.tokenizer.encode(texts), strict=True))
        room = self.tokenizer.max_length if max_length is None else max_length
        return {
            pair: self.tokenizer.pair(pieces[pair.reference], pieces[pair.prediction], room)
            for pair in dict.fromkeys(pairs)
        }

    @torch.inference_mode()
    def score(self, encoded: dict[Pair, PairIds], token_budget: int) -> dict[Pair, float]:
        """The score of each pair."""
        found: dict[Pair, float] = {}
        for batch in batches(encoded, lambda pair: len(encoded[pair].input_ids), token_budget):
            inputs = self.tokenizer.pad_pairs([encoded[pair] for pair in batch])
            logits = self.model(**{name: tensor.to(self.device) for name, tensor in inputs.items()}).logits
            found.update(zip(batch, logits[:, 0].double().tolist(), strict=True))
        return found


def pair_model(resolved: weights.Resolved, device: str | None, dtype: str) -> PairModel:
    """The one model of a configuration in this process."""
    chosen = torch.device(device) if device is not None else default_device()
    key = ("bleurt", resolved, str(chosen), dtype)
    return models.get(key, lambda: PairModel(resolved, chosen, dtype))


class Bleurt(Metric):
    """BLEURT (Sellam et al. 2020): `y = W v + b` of an encoder that reads reference and summary together.

    The only one of our metrics that was trained to score: see the card for what it was trained on.

    Args:
        preset: "light" (our own, adapters on MiniLM) or "paper" (BERT-large of the Hub, as the thesis).
        model: a folder or a Hub id of any model that `BleurtForScoring.from_pretrained` reads: ours, or one of
            the PyTorch ports (`Elron/bleurt-*`, `lucadiliello/BLEURT-20*`, `lucadiliello/bleurt-*`).
        revision: of a Hub model.
        multi_reference: "max" over the references, or "mean".
        max_references: how many references are read, the first ones; by default all. Every reference is a pass
            through the model of its own.
        unit: "text" as published, or "sentence": each sentence of the summary counts with the sentence of the
            reference that suits it best, each of the reference with that of the summary, and the score is the mean
            of both means. For models that have learnt from single sentences, as the light one has.
        max_length: tokens kept of a pair; by default the model's limit. The longer text is cut first.
        device, dtype, token_budget: see `encoding.encoder`.

    Empty texts are scored by the model like any other, as its authors do, and counted.

    Example:
        >>> scores = Bleurt().compute(["Snow fell in Oslo.", "Stocks fell."], ["Oslo had snow.", "Oslo had snow."])
        >>> better, worse = scores.per_example["bleurt"]
        >>> better > worse
        True
    """

    name = "bleurt"
    empty_score = None
    summary = "a model trained on people's ratings of similarity reads reference and summary together"
    needs = "MiniLM (offline extra); the adapters come with the package"
    citation = """@inproceedings{sellam-etal-2020-bleurt,
    title = "{BLEURT}: Learning Robust Metrics for Text Generation",
    author = "Sellam, Thibault and Das, Dipanjan and Parikh, Ankur",
    booktitle = "Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics",
    year = "2020",
    pages = "7881--7892",
    url = "https://aclanthology.org/2020.acl-main.704",
}"""

    def __init__(
        self,
        preset: str = "light",
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        multi_reference: str = "max",
        max_references: int | None = None,
        unit: str = "text",
        max_length: int | None = None,
        device: str | None = None,
        dtype: str = "float32",
        token_budget: int | None = None,
    ):
        self.preset = one_of("preset", preset, PRESETS)
        self.named_model = model
        self.revision = revision
        self.multi_reference = one_of("multi_reference", multi_reference, MULTI_REFERENCE)
        self.max_references = limit("max_references", max_references)
        self.unit = one_of("unit", unit, UNITS)
        self.max_length = limit("max_length", max_length, least=5)  # less does not hold a pair
        self.device = device
        self.dtype = one_of("dtype", dtype, DTYPES)
        self.token_budget = limit("token_budget", token_budget)

    @property
    def model(self) -> str | os.PathLike[str]:
        if self.named_model is not None:
            return self.named_model
        if self.preset == "paper":
            return PAPER_MODEL
        from summarily.support.shipped import folder

        return folder(LIGHT_MODEL)

    def check(self) -> None:
        weights.check(self.model, self.revision)
        config = Path(self.model).expanduser() / "config.json"
        if config.is_file() and (encoder := read_json(config, dict).get("encoder")):
            weights.check(encoder)

    @property
    def keys(self) -> tuple[str, ...]:
        return ("bleurt",)

    @functools.cached_property
    def resolved(self) -> weights.Resolved:
        """Found and verified once in the life of the metric."""
        return weights.resolve(self.model, self.revision)

    @property
    def loaded(self) -> PairModel:
        return pair_model(self.resolved, self.device, self.dtype)

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        loaded = self.loaded
        return {
            "model": self.resolved.identity,
            "tokenizer": loaded.tokenizer.name,
            "refs": self.multi_reference,
            "max_references": self.max_references,
            "unit": None if self.unit == "text" else self.unit,
            "truncation": self.max_length or loaded.tokenizer.max_length,
            "dtype": None if self.dtype == "float32" else self.dtype,
        }

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        pairs = [Pair(reference, e.prediction) for e in examples for reference in e.references]
        found, encoded = self._score_pairs(pairs)
        scores = [
            over_references([found[Pair(text, e.prediction)] for text in e.references], self.multi_reference)
            for e in examples
        ]
        cut = {pair for pair in found if any(encoded[part].truncated for part in self._parts(pair))}
        counts = {"truncated": sum(pair in cut for pair in pairs), **count_empty(examples)}
        return Values({"bleurt": scores}, counts, sum(len(ids.input_ids) for ids in encoded.values()))

    def _score_pairs(self, pairs: Sequence[Pair]) -> tuple[dict[Pair, float], dict[Pair, PairIds]]:
        """The score of each distinct pair of texts, and what the model has read for it."""
        parts = {pair: self._parts(pair) for pair in dict.fromkeys(pairs)}
        loaded = self.loaded
        encoded = loaded.encode([part for own in parts.values() for part in own], self.max_length)
        found = loaded.score(encoded, self.token_budget or TOKEN_BUDGET.get(loaded.device.type, 2048))
        return {
            pair: best_matches([(*part, found[part]) for part in own]) for pair, own in parts.items()
        }, encoded

    def _parts(self, pair: Pair) -> list[Pair]:
        """The pairs that the model reads: the texts themselves, or every two of their sentences."""
        if self.unit == "text":
            return [pair]
        return [Pair(*two) for two in itertools.product(*(_sentences(text) for text in pair))]

    def explain_example(self, example: Example, statistics: Any) -> Words:
        """How much each word of the summary adds to the score against each reference, by leaving it out."""
        words = example.prediction.split()
        without = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(words))]
        pairs = [Pair(r, text) for r in example.references for text in (example.prediction, *without)]
        found, _ = self._score_pairs(pairs)
        scores = [found[Pair(reference, example.prediction)] for reference in example.references]
        texts = [
            WordsOf(
                example.prediction,
                reference,
                {"bleurt": score},
                [
                    Word(word, score - found[Pair(reference, text)])
                    for word, text in zip(words, without, strict=True)
                ],
            )
            for reference, score in zip(example.references, scores, strict=True)
        ]
        values = {"bleurt": over_references(scores, self.multi_reference)}
        return Words(self.name, values, example.prediction, example.references, "adds", texts)


def best_matches(scored: Sequence[tuple[str, str, float]]) -> float:
    """The mean of the best scores of the sentences of each side, averaged over both sides.

    Example:
        >>> best_matches([("a", "x", 0.9), ("a", "y", 0.1), ("b", "x", 0.2), ("b", "y", 0.3)])  # (.9+.3 + .9+.3) / 4
        0.6
    """
    sides: list[dict[str, float]] = [{}, {}]
    for *texts, score in scored:
        for best, text in zip(sides, texts, strict=True):
            best[str(text)] = max(best.get(str(text), -math.inf), score)
    return weighted_mean([weighted_mean(list(best.values())) for best in sides])


@functools.lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(text_rules.sentences(text)) or (text,)
