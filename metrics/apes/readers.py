"""Who answers the questions: our two trained readers, any extractive model, and baselines that need no training.

A reader gets anonymised passages, for each of them its questions and the names of its entities, and answers with
entities of the passage. All questions of a call are read in batches.

    >>> reader = load_reader("most-frequent")
    >>> reader.answer(["@entity1 met @entity0. @entity1 left."], [["@placeholder met @entity0"]], [{}])[0][0].entity
    '@entity1'
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from summarily.metrics.options import EncoderOptions
from summarily.support import models, weights
from summarily.support.cloze.marks import (
    ENTITY,
    PLACEHOLDER,
    Answer,
    candidates,
    rename,
    with_names,
)
from summarily.support.errors import InputError, MissingRequirement
from summarily.support.text import STOP_WORDS, sentence_spans

SHIPPED = {"attentive": "cloze-reader", "cross": "cross-reader"}
"""The readers that come with the package, by the name of their folder in `hub_cards`."""
PAPER_EXTRACTIVE = "distilbert/distilbert-base-cased-distilled-squad"
_WINDOW = 8
"""Words on each side of a blank or a mention that the overlap baseline compares."""
_LONGEST_QUESTION = 60
"""Words of a question that an extractive model sees."""
_SHARPNESS = 20.0
"""Turns cosines into probabilities; the answer does not depend on it."""


class Reader(Protocol):
    """Answers cloze questions."""

    def answer(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]],
    ) -> list[list[Answer]]:
        """For each passage and each of its questions an entity of the passage, None where it has none."""
        ...

    def signature_fields(self) -> dict[str, Any]: ...


# --- trained here -----------------------------------------------------------------------------------------


def shipped_folder(reader: str) -> str:
    """Where the weights of a reader of ours are."""
    from summarily.support.shipped import folder, shipped

    name = SHIPPED[reader]
    if name not in shipped():
        raise MissingRequirement(f"the {reader} reader is not in this installation; pass model= a folder.")
    return folder(name)


def _load_trained(resolved: weights.Resolved, device: str | None) -> Any:
    from transformers import AutoModel

    import summarily.modeling  # noqa: F401  (registers the readers)
    from summarily.metrics.encoding import default_device, load_pretrained

    return load_pretrained(AutoModel, resolved).eval().to(device or default_device())


class TrainedReader:
    """A reader of `summarily.modeling`: the attentive reader (`ClozeReader`) or the cross reader (`CrossReader`).

    Args:
        kind: "attentive" or "cross".
        model: its folder or Hub id; by default the one we ship.
        relabel: number the entities by first occurrence, as in training. False reads the ids as they are, which is
            what the authors of APES did; the cross reader reads names and has no ids to number.
    """

    def __init__(
        self,
        kind: str,
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        device: str | None = None,
        relabel: bool | None = None,
    ):
        self.kind = kind
        self.relabel = relabel is not False
        self.resolved = weights.resolve(model or shipped_folder(kind), revision)
        self.device = device

    def answer(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]],
    ) -> list[list[Answer]]:
        key = ("reader", self.resolved, self.device)
        model = models.get(key, lambda: _load_trained(self.resolved, self.device))
        options = {"relabelled": self.relabel} if self.kind == "attentive" else {}
        return model.answer(passages, questions, names, **options)

    def signature_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"reader": self.kind, "model": self.resolved.identity}
        if self.kind == "attentive":
            fields["relabel"] = "always" if self.relabel else "training"
        return fields


# --- extractive models ------------------------------------------------------------------------------------


class ExtractiveReader:
    """Any extractive question answering model (`AutoModelForQuestionAnswering`).

    The blank becomes "who or what"; of each mention the model's scores of its first and last token are added, and an
    entity has the probability of all its mentions. Long passages are read in overlapping windows.

    Args:
        model, revision: a folder or a Hub id.
        batch_size: windows read at a time.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        device: str | None = None,
        batch_size: int = 16,
    ):
        self.resolved = weights.resolve(model or PAPER_EXTRACTIVE, revision)
        self.device = device
        self.batch_size = batch_size

    def signature_fields(self) -> dict[str, Any]:
        return {"reader": "extractive", "model": self.resolved.identity}

    def answer(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]],
    ) -> list[list[Answer]]:
        asked: list[_Asked] = []
        for row, (passage, texts, own) in enumerate(zip(passages, questions, names, strict=True)):
            text, mentions = with_names(passage, own)
            for text_of_question in texts if mentions else ():
                asked.append(_Asked(row, _as_question(text_of_question, own), text, mentions))
        best: list[dict[tuple[str, int], float]] = [{} for _ in asked]
        for number, mention_scores in self._read(asked):
            for mention, value in mention_scores:  # a mention may stand in two windows
                best[number][mention] = max(value, best[number].get(mention, -math.inf))
        answers = iter([_from_mentions(found, names[a.row]) for a, found in zip(asked, best, strict=True)])
        return [
            [next(answers) if ENTITY.search(passage) else Answer(None, 0.0) for _ in texts]
            for passage, texts in zip(passages, questions, strict=True)
        ]

    def _read(self, asked: Sequence[_Asked]) -> Iterator[tuple[int, list[tuple[tuple[str, int], float]]]]:
        """For each window the number of its question, and its mentions with their scores."""
        import torch

        key = ("extractive", self.resolved, self.device)
        model, tokenizer = models.get(key, lambda: _load_extractive(self.resolved, self.device))
        longest = min(tokenizer.model_max_length, 384)
        order = sorted(range(len(asked)), key=lambda number: len(asked[number].text))
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            inputs = tokenizer(
                [asked[number].question for number in batch],
                [asked[number].text for number in batch],
                truncation="only_second",
                max_length=longest,
                stride=longest // 4,
                padding=True,
                return_tensors="pt",
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
            )
            owners = inputs.pop("overflow_to_sample_mapping").tolist()
            offsets = inputs.pop("offset_mapping").tolist()
            with torch.inference_mode():
                output = model(**inputs.to(model.device))
            firsts, lasts = output.start_logits.float().cpu().numpy(), output.end_logits.float().cpu().numpy()
            for window, owner in enumerate(owners):
                number = batch[owner]
                own = [side == 1 for side in inputs.sequence_ids(window)]
                yield (
                    number,
                    list(_mention_scores(asked[number], offsets[window], own, firsts[window], lasts[window])),
                )


class _Asked(NamedTuple):
    row: int
    question: str
    text: str
    mentions: list[tuple[int, int, str]]


def _mention_scores(
    asked: _Asked, offsets: Sequence[Sequence[int]], own: Sequence[bool], first: Any, last: Any
) -> Iterator[tuple[tuple[str, int], float]]:
    """The mentions that a window holds whole: id and place, and score."""
    starts = {offset[0]: token for token, offset in reversed(list(enumerate(offsets))) if own[token]}
    ends = {offset[1]: token for token, offset in enumerate(offsets) if own[token]}
    for start, end, id in asked.mentions:
        if start in starts and end in ends:
            yield (id, start), float(first[starts[start]] + last[ends[end]])


def _as_question(text: str, names: Mapping[str, str]) -> str:
    """A sentence with a blank as a question; of a very long one, the words around the blank.

    >>> _as_question("@entity0 met @placeholder .", {"@entity0": "Ann"})
    'Ann met who or what?'
    """
    words = text.split()
    place = next(i for i, word in enumerate(words) if PLACEHOLDER in word)
    words = words[max(0, place - _LONGEST_QUESTION // 2) :][:_LONGEST_QUESTION]
    return rename(" ".join(words), names).replace(PLACEHOLDER, "who or what").rstrip(" .") + "?"


def _from_mentions(scores: Mapping[tuple[str, int], float], names: Mapping[str, str]) -> Answer:
    by_entity: dict[str, list[float]] = {}
    for (id, _), value in scores.items():
        by_entity.setdefault(id, []).append(value)
    return _from_scores(by_entity, names)


def _from_scores(scores: Mapping[str, Sequence[float]], names: Mapping[str, str]) -> Answer:
    """The entity whose mentions have most of the probability."""
    if not scores:
        return Answer(None, 0.0)
    top = max(max(values) for values in scores.values())
    mass = {id: sum(math.exp(value - top) for value in values) for id, values in scores.items()}
    best = max(mass, key=lambda id: (mass[id], id))
    return Answer(best, mass[best] / sum(mass.values()), names.get(best))


def _load_extractive(resolved: weights.Resolved, device: str | None) -> tuple[Any, Any]:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    from summarily.metrics.encoding import default_device, load_pretrained

    model = load_pretrained(AutoModelForQuestionAnswering, resolved).eval()
    tokenizer = load_pretrained(AutoTokenizer, resolved)
    if not tokenizer.is_fast:
        raise InputError(
            f"{resolved.path_or_id} has no fast tokenizer, so mentions cannot be found in its tokens."
        )
    return model.to(device or default_device()), tokenizer


# --- without training -------------------------------------------------------------------------------------


class ZeroShotReader:
    """Fill the blank with each candidate and compare with the sentences that mention it, by sentence embeddings.

    The embedding is the mean of MiniLM's last states; an entity has the cosine of its most similar sentence.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        device: str | None = None,
    ):
        from summarily.metrics.encoding.pooling import MeanPooling

        self.encoder = MeanPooling(EncoderOptions(model or "minilm", revision, device))

    def signature_fields(self) -> dict[str, Any]:
        return {"reader": "zero-shot", **self.encoder.signature_fields()}

    def answer(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]],
    ) -> list[list[Answer]]:
        answers = []
        for passage, texts, own in zip(passages, questions, names, strict=True):
            answers.append(self._answer_one(passage, texts, own))
        return answers

    def _answer_one(self, passage: str, texts: Sequence[str], names: Mapping[str, str]) -> list[Answer]:
        ids = candidates(passage)
        if not ids or not texts:
            return [Answer(None, 0.0)] * len(texts)
        mentioned = [passage[start:end] for start, end in sentence_spans(passage)]
        filled = [rename(text.replace(PLACEHOLDER, id), names) for text in texts for id in ids]
        distinct = list(dict.fromkeys([*filled, *(rename(text, names) for text in mentioned)]))
        vectors = self.encoder.embed(distinct)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        row = {text: number for number, text in enumerate(distinct)}
        similarity = (
            vectors[[row[text] for text in filled]] @ vectors[[row[rename(t, names)] for t in mentioned]].T
        )
        holds = np.array([[id in candidates(text) for text in mentioned] for id in ids])  # [ids, sentences]
        similarity = similarity.reshape(len(texts), len(ids), len(mentioned))
        best = np.where(holds, similarity, -np.inf).max(-1)  # [questions, ids]
        return [
            _from_scores({id: [_SHARPNESS * value] for id, value in zip(ids, values, strict=True)}, names)
            for values in best
        ]


class RuleReader:
    """A baseline: gives each candidate a number (see `RULES`) and answers the one with the highest.

    Candidates that the question mentions already are out, unless there are no others: a sentence seldom mentions
    somebody twice. Of equals the first in the passage is taken.
    """

    def __init__(self, rule: str):
        self.rule = rule

    def signature_fields(self) -> dict[str, Any]:
        return {"reader": self.rule}

    def answer(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]],
    ) -> list[list[Answer]]:
        return [
            [self._answer_one(passage, text, own) for text in texts]
            for passage, texts, own in zip(passages, questions, names, strict=True)
        ]

    def _answer_one(self, passage: str, question: str, names: Mapping[str, str]) -> Answer:
        ids = candidates(passage)
        asked_with = set(candidates(question))
        ids = [id for id in ids if id not in asked_with] or ids
        if not ids:
            return Answer(None, 0.0)
        values = RULES[self.rule](passage, question, ids)
        best = max(range(len(ids)), key=values.__getitem__)
        total = sum(values)
        return Answer(ids[best], values[best] / total if total else 1 / len(ids), names.get(ids[best]))


def _frequency(passage: str, question: str, ids: Sequence[str]) -> list[float]:
    counts = Counter(ENTITY.findall(passage))
    return [counts[id] for id in ids]


def _earliness(passage: str, question: str, ids: Sequence[str]) -> list[float]:
    return [1.0, *[0.0] * (len(ids) - 1)] if ids else []


def _overlap(passage: str, question: str, ids: Sequence[str]) -> list[float]:
    """How many words near the blank are also near a mention, at the best mention."""
    near_blank = next((near for target, near in _neighbours(question) if target == PLACEHOLDER), frozenset())
    best = dict.fromkeys(ids, 0.0)
    for target, near in _neighbours(passage):
        if target in best:
            best[target] = max(best[target], float(len(near_blank & near)))
    return list(best.values())


def _neighbours(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Each blank and entity of a text with the words and entities around it, without function words."""
    tokens = _ID_OR_WORD.findall(text.lower())
    for place, token in enumerate(tokens):
        if token.startswith("@"):
            around = tokens[max(0, place - _WINDOW) : place] + tokens[place + 1 : place + 1 + _WINDOW]
            yield token, frozenset(word for word in around if word not in STOP_WORDS)


_ID_OR_WORD = re.compile(r"@entity\d+|@placeholder|\w+")

RULES: dict[str, Callable[[str, str, Sequence[str]], list[float]]] = {
    "most-frequent": _frequency,
    "first": _earliness,
    "overlap": _overlap,
}
"""The baselines by name."""

READERS = ("attentive", "cross", "extractive", "zero-shot", *RULES)


def load_reader(
    reader: str | Reader,
    model: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    device: str | None = None,
    relabel: bool | None = None,
) -> Reader:
    """A reader by name (one of `READERS`), or the one that is given; options that it has not got are refused.

    Example:
        >>> load_reader("first").signature_fields()
        {'reader': 'first'}
    """
    check_options(reader, model=model, revision=revision, device=device, relabel=relabel)
    if not isinstance(reader, str):
        return reader
    if reader in SHIPPED:
        return TrainedReader(reader, model, revision, device, relabel)
    if reader in RULES:
        return RuleReader(reader)
    if reader == "extractive":
        return ExtractiveReader(model, revision, device)
    if reader == "zero-shot":
        return ZeroShotReader(model, revision, device)
    raise InputError(f"there is no reader {reader!r}; expected one of {', '.join(READERS)}, or a Reader.")


def check_options(reader: str | Reader, relabel: Any = None, **of_models: Any) -> None:
    """Raise an InputError that names an option which this reader has no use for."""
    if not isinstance(reader, str):
        given = {"relabel": relabel, **of_models}
        name = next((name for name, value in given.items() if value is not None), "")
        why = "a reader that is given as an object is used as it is"
    elif relabel is not None and reader != "attentive":
        name, why = "relabel", f"reader={reader!r} reads no numbered ids"
    elif reader in RULES:
        name = next((name for name, value in of_models.items() if value is not None), "")
        why = f"reader={reader!r} has no model"
    else:
        return
    if name:
        raise InputError(f"{why}; leave {name}= out.")
