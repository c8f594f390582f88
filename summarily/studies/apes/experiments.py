"""The experiments behind `summarily study apes`: each returns plain numbers, which the command stores and tabulates."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from summarily.metrics.apes.readers import Reader
from summarily.metrics.apes.scorer import Apes, Read
from summarily.metrics.base import make_examples, weighted_mean
from summarily.metrics.meta_evaluation.correlation import coefficient, correlate
from summarily.metrics.meta_evaluation.human import Judgements
from summarily.metrics.resampling import mean_intervals
from summarily.modeling.training.cloze_corpus import Reading, cnndm_article, read_rows, split_of
from summarily.studies.baselines import KEYS, ROUGE
from summarily.support.cloze.entities import Entities
from summarily.support.cloze.marks import candidates
from summarily.support.cloze.recognition import Mention, recogniser
from summarily.support.cloze.truecasing import Truecaser, restored
from summarily.support.text import sentences

LEVELS = ("pooled", "input", "system")
_CHUNK = 200
Span = tuple[int, int, str]


class Document(NamedTuple):
    """An article and its reference summary."""

    source: str
    reference: str


# --- how well readers read ----------------------------------------------------------------------------------


def accuracy(readings: Sequence[Reading], reader: Reader) -> dict[str, Any]:
    """Right answers of each article, with what is needed for intervals and comparisons."""
    start = time.perf_counter()
    answers = reader.answer(
        [reading.passage for reading in readings],
        [[question.text for question in reading.questions] for reading in readings],
        [{id: names[0] for id, names in reading.names.items()} for reading in readings],
    )
    return {
        "correct": [
            sum(question.answer == given.entity for question, given in zip(r.questions, row, strict=True))
            for r, row in zip(readings, answers, strict=True)
        ],
        "questions": [len(reading.questions) for reading in readings],
        "collection": [reading.collection for reading in readings],
        "seconds": time.perf_counter() - start,
        "reader": reader.signature_fields(),
    }


def first_of_each(readings: Iterable[Reading], articles: int) -> list[Reading]:
    """The first articles of each collection, ordered by the hash of their text, so as by chance."""
    kept: dict[str, list[Reading]] = {}
    for reading in sorted(readings, key=lambda reading: reading.id):
        if len(own := kept.setdefault(reading.collection, [])) < articles:
            own.append(reading)
    return [reading for collection in sorted(kept) for reading in kept[collection]]


# --- which names are found ----------------------------------------------------------------------------------


def entities_found(documents: Sequence[Document], judge: Any, recognise: Any) -> dict[str, dict[str, float]]:
    """How many of the names that a better recogniser finds in references the metric finds, in several ways.

    Recall: the share of the judge's mentions that a mention of ours touches; precision: of ours that one of the judge's
    touches. Lower-cased: the same references in small letters, judged as before.

    Args:
        documents: articles with their references.
        judge, recognise: recognisers, see `recognition.recogniser`.
    """
    references = [document.reference for document in documents]
    small = [text.lower() for text in references]
    right = [Entities(found).spans(text) for text, found in zip(references, judge(references), strict=True)]
    in_sources = recognise([document.source for document in documents])

    def measured(found: Iterable[Iterable[Mention]], texts: Sequence[str]) -> dict[str, float]:
        spans = [Entities(names).spans(text) for names, text in zip(found, texts, strict=True)]
        return {
            "recall": _touched(right, spans),
            "precision": _touched(spans, right),
            "mentions": float(sum(map(len, spans))),
        }

    ways = {}
    for name, texts in (("as written", references), ("lower-cased", small)):
        own = recognise(texts)
        both = [[*mine, *theirs] for mine, theirs in zip(own, in_sources, strict=True)]
        cased = recognise([restored([text], [d.source])[0] for text, d in zip(texts, documents, strict=True)])
        every = [[*mine, *theirs] for mine, theirs in zip(cased, in_sources, strict=True)]
        ways[f"{name}, the reference alone"] = measured(own, texts)
        ways[f"{name}, and names of the source"] = measured(both, texts)
        if texts is small:
            ways[f"{name}, and names and capitals of the source"] = measured(every, texts)
    return ways


def _touched(of: Sequence[Sequence[Span]], by: Sequence[Sequence[Span]]) -> float:
    """Percent of spans that overlap one of the others, text by text."""
    hits = [
        any(start < b and a < end for a, b, _ in others)
        for own, others in zip(of, by, strict=True)
        for start, end, _ in own
    ]
    return 100 * sum(hits) / max(1, len(hits))


# --- summaries of known quality -----------------------------------------------------------------------------


def held_out_documents(folder: Path, split: str = "test") -> list[Document]:
    """CNN/DailyMail articles of a split of the reader's corpus, with their highlights."""
    rows = read_rows(folder / "news/cnndm_articles.jsonl.gz")
    return [
        Document(row["article"], "\n".join(row["highlights"]))
        for row in rows
        if split_of(row["article"]) == split
    ]


def published_documents(folder: Path, split: str, number: int) -> list[Document]:
    """The first articles of a split of CNN/DailyMail as it was published, "validation" or "test"."""
    rows = itertools.islice(read_rows(folder / f"news/cnndm/{split}.jsonl.xz"), number)
    found = (cnndm_article(row, split) for row in rows)
    return [Document(article.passage, article.asked) for article in found]


def judged_documents(judgements: Judgements) -> list[Document]:
    """The articles of a set of judgements, each with its first reference."""
    found: dict[str, Document] = {}
    for input, source, references in zip(
        judgements.inputs, judgements.source_texts, judgements.references, strict=True
    ):
        found.setdefault(input, Document(source or "", references[0]))
    return list(found.values())


def shuffled(text: str, names: Entities, seed: int) -> str:
    """The words of a text in random order; mentions of entities stay whole.

    Example:
        >>> sorted(shuffled("Snow fell in Oslo", Entities(), 0).split())
        ['Oslo', 'Snow', 'fell', 'in']
    """
    units: list[str] = []
    done = 0
    for start, end, _ in names.spans(text):
        units += [*text[done:start].split(), text[start:end]]
        done = end
    units += text[done:].split()
    random.Random(seed).shuffle(units)
    return " ".join(units)


def summaries_of_known_quality(
    documents: Sequence[Document], cache_folder: str | None
) -> dict[str, list[str]]:
    """The rows of the paper's Table 4 that need no summarizer, and a list of the source's entities."""
    recognise = recogniser(cache_folder=cache_folder)
    in_source = recognise([document.source for document in documents])
    in_reference = recognise([document.reference for document in documents])
    rows: dict[str, list[str]] = {
        "gold": [document.reference for document in documents],
        "source": [document.source for document in documents],
        "lead 3": [" ".join(sentences(document.source)[:3]) for document in documents],
    }
    rows["shuffled gold, names whole"] = [
        shuffled(document.reference, Entities([*mine, *theirs]), seed)
        for seed, (document, mine, theirs) in enumerate(zip(documents, in_reference, in_source, strict=True))
    ]
    rows["shuffled gold, every word"] = [
        shuffled(document.reference, Entities(), seed) for seed, document in enumerate(documents)
    ]
    rows["all entities of the source"] = [
        ", ".join(names[0] for names in Entities(mentions).names.values()) for mentions in in_source
    ]
    return rows


def score_rows(
    apes: Apes, documents: Sequence[Document], rows: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Of each row APES with its interval, entities, ROUGE, and what APES could be at most and by chance.

    At most: the share of questions whose answer the text mentions. By chance: a candidate drawn from those that the
    question does not mention.
    """
    from summarily.metrics import load

    references = [document.reference for document in documents]
    sources = [document.source for document in documents]
    rouge = load("rouge", **ROUGE)
    result: dict[str, Any] = {}
    for name, texts in rows.items():
        reads = apes.read(make_examples(list(texts), references, sources))
        scores = {} if name == "source" else rouge.compute(texts, references).mean
        result[name] = {
            **pooled(reads),
            "entities": float(np.mean([read.mentions for read in reads])),
            "salient": float(np.mean([read.salient for read in reads])),
            "signature": str(apes.signature()),
            **{key: 100 * scores[key] for key in KEYS if key in scores},
        }
    return result


def pooled(reads: Sequence[Read]) -> dict[str, Any]:
    """Right answers in percent of all questions with a bootstrap interval over documents, the ceiling and chance."""
    weights = [float(len(read.cloze.questions)) for read in reads]
    scores = [read.percentage for read in reads]
    low, high = mean_intervals({"apes": scores}, 0.95, weights)["apes"]
    questions = max(1.0, sum(weights))
    return {
        "apes": weighted_mean(scores, weights),
        "interval": [low, high],
        "at_most": 100 * sum(read.answerable for read in reads) / questions,
        "by_chance": 100 * sum(map(_chance, reads)) / questions,
        "per_example": scores,
        "weights": weights,
        "without_questions": sum(not weight for weight in weights),
    }


def _chance(read: Read) -> float:
    """Right answers to be expected from a draw among the candidates that a question does not mention."""
    present = candidates(read.passage)
    total = 0.0
    for question, text in zip(read.cloze.questions, read.questions, strict=True):
        asked_with = set(candidates(text))
        left = [id for id in present if id not in asked_with]
        total += (question.answer in left) / max(1, len(left))
    return total


# --- agreement with people ----------------------------------------------------------------------------------


def read_judged(apes: Apes, judgements: Judgements) -> dict[str, Any]:
    """Every judged summary read once with the questions of all its references.

    Returns, per summary, right answers and questions of each reference, and how densely the article mentions the
    entities that answer questions of the first: mentions over different ones.
    """
    examples = make_examples(judgements.summaries, judgements.references, judgements.sources)
    correct: list[list[int]] = []
    asked: list[list[int]] = []
    density: list[float | None] = []
    known: dict[str, float | None] = {}
    for start in range(0, len(examples), _CHUNK):
        chunk = examples[start : start + _CHUNK]
        for example, read in zip(chunk, apes.read(chunk), strict=True):
            right, questions = _by_reference(read)
            correct.append(right)
            asked.append(questions)
            source = example.source or ""
            if source not in known:
                known[source] = _density(read, source)
            density.append(known[source])
    return {"correct": correct, "asked": asked, "density": density, "signature": str(apes.signature())}


def _by_reference(read: Read) -> tuple[list[int], list[int]]:
    right = [
        question.answer == answer.entity
        for question, answer in zip(read.cloze.questions, read.answers, strict=True)
    ]
    ends = np.cumsum([0, *read.cloze.by_reference])
    return [sum(right[a:b]) for a, b in itertools.pairwise(ends)], list(read.cloze.by_reference)


def _density(read: Read, source: str) -> float | None:
    salient = {question.answer for question in read.cloze.questions[: read.cloze.by_reference[0]]}
    found = [id for _, _, id in read.cloze.entities.spans(source) if id in salient]
    return len(found) / len(set(found)) if found else None


def rouge_by_references(judgements: Judgements) -> dict[str, dict[str, list[float]]]:
    """ROUGE with the first n references, and with each reference alone: {"first 2": {"rouge1": [...]}, "only 3": ...}."""
    from summarily.metrics import load

    rouge = load("rouge", **ROUGE)
    most = min(map(len, judgements.references))
    found: dict[str, dict[str, list[float]]] = {}
    for n in range(most):
        for name, cut in ((f"first {n + 1}", slice(0, n + 1)), (f"only {n + 1}", slice(n, n + 1))):
            score = rouge.compute(
                judgements.summaries, [references[cut] for references in judgements.references]
            )
            found[name] = {key: score.per_example[key] for key in KEYS}
    return found


def apes_by_references(read: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """APES of each summary with the first n references and with each alone; NaN where nothing is asked."""
    most = min(map(len, read["asked"]))
    correct = np.array([row[:most] for row in read["correct"]], dtype=float)
    asked = np.array([row[:most] for row in read["asked"]], dtype=float)
    found = {}
    with np.errstate(invalid="ignore"):
        for n in range(most):
            found[f"first {n + 1}"] = 100 * correct[:, : n + 1].sum(1) / asked[:, : n + 1].sum(1)
            found[f"only {n + 1}"] = 100 * correct[:, n] / asked[:, n]
    return found


def correlations(
    judgements: Judgements, read: Mapping[str, Any], rouge: Mapping[str, Mapping[str, Sequence[float]]]
) -> dict[str, dict[str, dict[str, float]]]:
    """Pearson's r with people by set of references, metric and level, on the summaries about which something is asked."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, apes in apes_by_references(read).items():
        kept = np.flatnonzero(~np.isnan(apes))
        columns = {"apes": apes, **{key: np.array(values) for key, values in rouge[name].items()}}
        found[name] = {
            metric: {
                level: correlate(
                    values[kept],
                    np.array(judgements.human)[kept],
                    level,
                    "pearson",
                    [judgements.inputs[i] for i in kept],
                    [judgements.systems[i] for i in kept],
                ).value
                for level in LEVELS
            }
            for metric, values in columns.items()
        }
        found[name]["apes"]["summaries"] = float(len(kept))
    return found


def agreement(
    by_question: Mapping[str, Judgements],
    read: Mapping[str, Any],
    rouge: Mapping[str, Mapping[str, Sequence[float]]],
) -> dict[str, Any]:
    """All that is said about one reader and one set of judgements."""
    columns = {"apes": apes_by_references(read)["first 1"].tolist(), **rouge["first 1"]}
    return {
        "correlations": {question: correlations(own, read, rouge) for question, own in by_question.items()},
        "matrix": matrix(columns),
        "columns": list(columns),
        "density": density_by_score(read),
        "signature": read["signature"],
    }


def matrix(columns: Mapping[str, Sequence[float]]) -> list[list[float]]:
    """Pearson's r between metrics, over the rows where all are defined."""
    values = np.array(list(columns.values()), dtype=float)
    values = values[:, ~np.isnan(values).any(0)]
    return [[coefficient("pearson", a, b) for b in values] for a in values]


def density_by_score(read: Mapping[str, Any]) -> dict[str, tuple[float | None, int]]:
    """Mean density of salient entities in the articles of perfect and of zero summaries, and how many there are."""
    scores = apes_by_references(read)["first 1"]
    density = np.array(read["density"], dtype=float)
    found: dict[str, tuple[float | None, int]] = {}
    for name, value in (("perfect", 100.0), ("zero", 0.0)):
        own = density[scores == value]
        own = own[~np.isnan(own)]
        found[name] = (float(own.mean()) if len(own) else None, len(own))
    return found


def truecased(judgements: Judgements, folder: Path) -> Judgements:
    """The same with summaries and articles truecased through the test set's references."""
    texts = [row["reference"] for row in read_rows(folder / "news/cnndm_test_references.jsonl.gz")]
    truecase = Truecaser(texts)
    judgements.summaries = [truecase(text) for text in judgements.summaries]
    known: dict[str, str] = {}
    for source in judgements.source_texts:
        if source is not None and source not in known:
            known[source] = truecase(source)
    judgements.source_texts = [
        None if source is None else known[source] for source in judgements.source_texts
    ]
    return judgements
