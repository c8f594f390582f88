"""Learning to answer cloze questions about articles: the readers of APES.

The questions are those of `training.cloze_corpus`: articles with questions about them, split by article. An article of the
training split is read in two views that are drawn anew each time: its beginning, where sentences that are taken out are
asked about too, and a short text such as a summary, of sentences of the article or of the very sentences that are asked
about. What is measured is the share of right answers on articles that were not trained on.
"""

from __future__ import annotations

import functools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import set_seed

from summarily.modeling.training import card
from summarily.modeling.training.cloze_corpus import COLLECTIONS, Reading, load_or_make, read_corpus
from summarily.modeling.training.collators import pack, row_lengths
from summarily.modeling.training.recipe import Recipe
from summarily.modeling.training.task import Evaluation, Task
from summarily.support.cloze.marks import PLACEHOLDER, candidates, rename
from summarily.support.errors import RecipeError
from summarily.support.files import is_complete, write_folder

if TYPE_CHECKING:
    from summarily.modeling.cloze_reader.modeling_cloze_reader import ClozeReader
    from summarily.modeling.cross_reader.modeling_cross_reader import CrossReader
    from summarily.modeling.training.progress import RunResult

    Reader = ClozeReader | CrossReader

HELD_OUT = 4
"""Sentences taken out of a full view at most, to be asked about."""
MOST_QUESTIONS = 12
"""Questions of a view in training."""
SHORT_SENTENCES = (2, 6)
"""Sentences of a short view, fewest and most."""

PASSES = {"cnndm_articles": 2.0, "bbc_news_summary": 1.0, "reuters_train": 0.2}
"""How often an epoch reads an article, by collection; others once. Highlights ask for what summaries say, while the
dispatches of Reuters are many, short and alike."""
BERT_LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


@dataclass(frozen=True)
class View:
    """A passage made from an article, questions that it can answer, and the entities' names."""

    passage: str
    questions: list[str]
    answers: list[str]
    names: Mapping[str, str]


# --- views ------------------------------------------------------------------------------------------------


def whole(reading: Reading) -> View:
    """The article as it is with its questions: what the held-out accuracy is measured on."""
    return _view(reading, reading.passage, reading.questions)


def gold(reading: Reading) -> View:
    """The sentences that are asked about, as the passage."""
    return _view(reading, " ".join(asked_sentences(reading.questions)), reading.questions)


def asked_sentences(questions: Sequence[tuple[str, str]]) -> list[str]:
    """The sentences that questions were made of, once each.

    Example:
        >>> asked_sentences([("@placeholder met @entity1.", "@entity0"), ("@entity0 met @placeholder.", "@entity1")])
        ['@entity0 met @entity1.']
    """
    return list(dict.fromkeys(text.replace(PLACEHOLDER, answer) for text, answer in questions))


def full_view(reading: Reading, words: int, generator: random.Random) -> View:
    """The beginning of the article, of at most `words` words, without a few sentences, which are asked about."""
    parts = clip(sentences_of(reading.passage), generator.randint(words // 4, words))
    eligible = [i for i, part in enumerate(parts) if len(candidates(part)) > 1] if len(parts) > 5 else []
    held = set(generator.sample(eligible, min(len(eligible), generator.randint(0, HELD_OUT))))
    passage = " ".join(part for i, part in enumerate(parts) if i not in held)
    more = [question for i in sorted(held) for question in blanked(parts[i])]
    return _view(reading, passage, _some([*reading.questions, *more], generator))


def short_view(reading: Reading, words: int, generator: random.Random) -> View:
    """A few sentences: of the article, or those that are asked about with others of the article among them."""
    parts = clip(sentences_of(reading.passage), words)
    number = min(len(parts), generator.randint(*SHORT_SENTENCES))
    chosen = sorted(generator.sample(range(len(parts)), number))
    kind = generator.random()
    if kind < 0.5:
        asked = asked_sentences(reading.questions)
        others = [parts[i] for i in chosen[: generator.randint(0, 3)]]
        passage = [*asked, *others]
        if kind < 0.25:
            generator.shuffle(passage)
    else:
        passage = [parts[i] for i in (range(number) if kind < 0.75 else chosen)]
    return _view(reading, " ".join(passage), _some(reading.questions, generator))


def blanked(sentence: str) -> list[tuple[str, str]]:
    """A question and its answer for each entity of a sentence.

    Example:
        >>> blanked("@entity3 met @entity1.")
        [('@placeholder met @entity1.', '@entity3'), ('@entity3 met @placeholder.', '@entity1')]
    """
    return [(rename(sentence, {entity: PLACEHOLDER}), entity) for entity in candidates(sentence)]


def clip(sentences: Sequence[str], words: int) -> list[str]:
    """The first sentences, as many as have `words` words together, but at least one.

    Example:
        >>> clip(["One two.", "Three four.", "Five."], 4)
        ['One two.', 'Three four.']
    """
    kept: list[str] = []
    total = 0
    for sentence in sentences:
        total += len(sentence.split())
        if kept and total > words:
            break
        kept.append(sentence)
    return kept


@functools.lru_cache(maxsize=50_000)
def sentences_of(passage: str) -> tuple[str, ...]:
    """The sentences of a passage, remembered from epoch to epoch."""
    from summarily.support.text import sentences

    return tuple(sentences(passage))


def _some(questions: Sequence[tuple[str, str]], generator: random.Random) -> list[tuple[str, str]]:
    return generator.sample(questions, min(len(questions), MOST_QUESTIONS))


def _view(reading: Reading, passage: str, questions: Iterable[tuple[str, str]]) -> View:
    present = set(candidates(passage))
    kept = [question for question in questions if question[1] in present]
    names = {entity: names[0] for entity, names in reading.names.items()}
    return View(passage, [text for text, _ in kept], [answer for _, answer in kept], names)


# --- rows of the training engine --------------------------------------------------------------------------


def encode_views(reader: Reader, views: Sequence[View]) -> list[dict[str, Any]]:
    """Rows of views that ask something and leave something to decide."""
    kept = [view for view in views if view.questions and len(candidates(view.passage)) > 1]
    texts: list[Any] = [[view.passage for view in kept], [view.questions for view in kept]]
    if reader.reads_names:
        texts.append([view.names for view in kept])
    passages: list[Any] = list(reader.encode_texts(*texts))
    rows = []
    for view, passage in zip(kept, passages, strict=True):
        labels = {entity: label for label, entity in passage.entities.items()}
        known = [i for i, answer in enumerate(view.answers) if answer in labels]
        passage.questions = [passage.questions[i] for i in known]
        if known:
            answers = [labels[view.answers[i]] for i in known]
            # The engine only counts the tokens of a row; `collate` has the passage itself.
            rows.append({"input_ids": range(passage.tokens), "labels": answers, "passage": passage})
    return rows


def collate_rows(reader: Reader, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """A batch for the reader's `forward`."""
    labels = torch.tensor([label for row in rows for label in row["labels"]], device=reader.device)
    return {**reader.collate([row["passage"] for row in rows]), "labels": labels}


def training_rows(
    reader: Reader, readings: Sequence[Reading], words: int, seed: int, epoch: int, chunk: int = 256
) -> Iterator[dict[str, Any]]:
    """The rows of an epoch in a shuffled order: two views of an article each time it is read."""
    generator = random.Random(f"{seed} {epoch}")
    order = []
    for reading in readings:
        passes = PASSES.get(reading.collection, 1.0)
        times = int(passes) + (generator.random() < passes % 1)
        order += [(reading, view) for view in (full_view, short_view) for _ in range(times)]
    generator.shuffle(order)
    for start in range(0, len(order), chunk):
        views = [make(reading, words, generator) for reading, make in order[start : start + chunk]]
        yield from encode_views(reader, views)


# --- accuracy ---------------------------------------------------------------------------------------------


@torch.inference_mode()
def right_answers(reader: Reader, rows: Sequence[Mapping[str, Any]], tokens: int) -> list[list[float]]:
    """For each row and question, 1 if the reader is right and 0 if not."""
    reader.eval()
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
    right: dict[int, list[float]] = {}
    for batch in pack(row_lengths(rows), order, tokens):
        inputs = collate_rows(reader, [rows[row] for row in batch])
        found = (reader(**inputs).logits.argmax(-1) == inputs["labels"]).tolist()
        for row in batch:
            number = len(rows[row]["labels"])
            right[row], found = [float(value) for value in found[:number]], found[number:]
    return [right[row] for row in range(len(rows))]


def accuracies(reader: Reader, readings: Sequence[Reading], tokens: int) -> dict[str, float]:
    """Percent of questions answered right: `accuracy` on articles, by collection too, `accuracy_gold` on gold."""
    scores = {}
    for name, make in (("accuracy", whole), ("accuracy_gold", gold)):
        by_collection = defaultdict(list)
        for collection in dict.fromkeys(reading.collection for reading in readings):
            rows = encode_views(reader, [make(r) for r in readings if r.collection == collection])
            by_collection[collection] = [x for row in right_answers(reader, rows, tokens) for x in row]
        everything = [x for values in by_collection.values() for x in values]
        scores[name] = 100 * sum(everything) / max(1, len(everything))
        for collection, values in by_collection.items():
            scores[f"{name}_{collection}"] = 100 * sum(values) / max(1, len(values))
    return scores


def build_reader(recipe: Recipe, train: Sequence[Reading], folder: Path) -> Reader:
    """The recipe's reader before training: one to go on from, words with their vectors, or an encoder with adapters."""
    import summarily.modeling as modeling

    options = dict(recipe.model.config)
    if recipe.reading.start is not None:
        return _started(recipe)
    if recipe.model.name == modeling.CrossReaderConfig.model_type:
        layers = options.pop("adapted_layers", None)
        if layers is not None:
            options["adapter_targets"] = [f"layer.{layer}.{end}" for layer in layers for end in BERT_LINEAR]
        return modeling.CrossReader.from_encoder(options.pop("encoder", "minilm"), **options)
    if recipe.model.name != modeling.ClozeReaderConfig.model_type:
        raise RecipeError(f"model.name is {recipe.model.name!r}, which is no reader.")
    from transformers import AutoTokenizer

    from summarily.modeling.training.tokenizers import train_reader_tokenizer
    from summarily.support import vectors

    glove = vectors.load(options.pop("vectors", "glove-6b-50d"))
    place = folder / "tokenizer"
    if not is_complete(place):
        texts = (text for reading in train for text in (reading.passage, *asked_sentences(reading.questions)))
        most = options.get("max_entities", modeling.ClozeReaderConfig.max_entities)
        made = train_reader_tokenizer(texts, recipe.tokenizer.vocabulary_size, most, glove.words)
        write_folder(place, made.save_pretrained)
    tokenizer = AutoTokenizer.from_pretrained(place)
    config = modeling.ClozeReaderConfig(
        vocab_size=len(tokenizer),
        embedding_size=glove.dimensions,
        pad_token_id=tokenizer.pad_token_id,
        **options,
    )
    reader = modeling.ClozeReader(config)
    reader.tokenizer = tokenizer
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    found = [(row, place) for row, place in enumerate(glove.find(words)) if place >= 0]
    with torch.no_grad():
        for row, place_of_word in found:
            reader.word_embeddings.weight[row] = torch.tensor(glove.matrix[place_of_word])
    return reader


def _started(recipe: Recipe) -> Reader:
    """The reader that the recipe goes on from."""
    from transformers import AutoModel

    from summarily.support.shipped import folder

    if recipe.model.config:
        raise RecipeError(
            f"reading.start goes on from a reader as it is; take {next(iter(recipe.model.config))} out of model.config."
        )
    start = str(recipe.reading.start)
    reader = AutoModel.from_pretrained(start if Path(start).is_dir() else folder(start))
    if reader.config.model_type != recipe.model.name:
        raise RecipeError(
            f"reading.start={start!r} is a {reader.config.model_type}, but model.name is {recipe.model.name!r}."
        )
    return reader.float()


# --- the task ---------------------------------------------------------------------------------------------


class ReadingTask(Task):
    """The questions of `reading.questions`; a split of theirs is "train", "dev" or "test"."""

    limits = (
        "It answers from the entities of a passage, right or wrong. What it was not trained on (other languages, other "
        "kinds of text) has not been measured."
    )

    def load(self) -> Reader:
        section = self.recipe.reading
        with self.accelerator.main_process_first():
            collections = section.collections or COLLECTIONS
            path = load_or_make(
                section.questions, self.data, collections=collections, limits=section.articles
            )
        train, dev, test = (list(read_corpus(path, split)) for split in ("train", "dev", "test"))
        self.readings = {
            "train": train,
            "validation": _spread(dev, section.validation_articles),
            "test": _spread(test, section.test_articles),
        }
        set_seed(self.recipe.training.seed)
        self.reader = build_reader(self.recipe, train, self.folder)
        return self.reader

    def rows(self) -> Any:
        return functools.partial(
            training_rows,
            self.reader,
            self.readings["train"],
            self.recipe.reading.max_words,
            self.recipe.training.seed,
        )

    def collate(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return collate_rows(self.reader, rows)

    def loss(self, model: torch.nn.Module, batch: dict[str, Any]) -> torch.Tensor:
        return model(**batch).loss * len(batch["labels"])

    def evaluate(self, model: Any, split: str) -> Evaluation:
        readings = self.readings[split]
        tokens = self.recipe.evaluation.tokens or self.recipe.micro_tokens
        return Evaluation(accuracies(model, readings, tokens), examples=len(readings))

    def save(self, model: Any, folder: Path) -> None:
        model.save_pretrained(folder, stored_dtype=getattr(torch, self.recipe.hub.dtype))

    def card(self, result: RunResult, examples: int) -> str:
        name = self.recipe.hub.name or self.recipe.model.name
        measured = {key: round(x, 2) for key, x in result.scores.items()}
        kind = {"type": "question-answering", "name": "cloze questions about news"}
        dataset = {"name": "held-out articles", "type": "news"}
        meta = {
            "tags": ["question-answering", "cloze", "apes", "summarily", *self.recipe.hub.tags],
            "metrics": ["accuracy"],
            "model-index": card.model_index(name, kind, dataset, measured, type="accuracy"),
        }
        return card.render(
            "reading",
            self,
            result,
            class_name=type(self.reader).__name__,
            name=name,
            front_matter=card.front_matter(self.recipe, meta),
            splits=card.bullets(_described(split, self.readings[split]) for split in ("train", "test")),
            best_score=f"{result.best_score:.1f}",
            scores=_scores(result),
        )


def _described(split: str, readings: Sequence[Reading]) -> str:
    collections = Counter(reading.collection for reading in readings)
    asked = sum(reading.answerable for reading in readings)
    by = ", ".join(f"{collection} {number:,}" for collection, number in collections.items())
    return f"{split}: {asked:,} questions about {len(readings):,} articles ({by})"


def _scores(result: RunResult) -> str:
    rows = [f"| {key.replace('_', ' ')} | {value:.1f} |" for key, value in result.scores.items()]
    return "\n".join(["| | accuracy |", "|---|---|", *rows])


def _spread(readings: Sequence[Reading], limit: int | None) -> list[Reading]:
    """At most `limit` articles of each collection."""
    counts: dict[str, int] = defaultdict(int)
    kept = []
    for reading in readings:
        counts[reading.collection] += 1
        if limit is None or counts[reading.collection] <= limit:
            kept.append(reading)
    return kept
