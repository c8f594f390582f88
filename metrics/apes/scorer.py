"""APES: how many questions about the reference a reader can answer from the summary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from summarily.metrics.base import Example, Metric, Score, State, Values, count_empty
from summarily.metrics.explanations import Asked, Questions
from summarily.metrics.options import PRESETS, one_of
from summarily.support.cloze import recognition
from summarily.support.cloze.entities import replace_spans, without_ids
from summarily.support.cloze.marks import PLACEHOLDER, candidates
from summarily.support.cloze.questions import Cloze, is_question_file, make_cloze, question_file
from summarily.support.cloze.truecasing import restored
from summarily.support.errors import InputError, InputTypeError
from summarily.support.inputs import rows_of

if TYPE_CHECKING:
    from summarily.metrics.apes.readers import Reader
    from summarily.support.cloze.marks import Answer

LIGHT_READER = "cross"
"""Which of our readers the light preset uses: the one that reads held-out articles better (see `studies/apes/STUDY.md`)."""


@dataclass
class Read:
    """One prediction as it was read: anonymised, with the answers to its questions."""

    cloze: Cloze
    questions: list[str]
    """As in `cloze`, but entities that only the prediction made known are ids here too."""
    passage: str
    names: dict[str, str]
    mentions: int
    answers: list[Answer]

    @property
    def correct(self) -> int:
        pairs = zip(self.cloze.questions, self.answers, strict=True)
        return sum(question.answer == answer.entity for question, answer in pairs)

    @property
    def percentage(self) -> float:
        return 100 * self.correct / len(self.cloze.questions) if self.cloze.questions else 0.0

    @property
    def answerable(self) -> int:
        """How many questions have their answer among the entities of the prediction."""
        present = set(candidates(self.passage))
        return sum(question.answer in present for question in self.cloze.questions)

    @property
    def salient(self) -> int:
        """How many different entities of the prediction answer a question."""
        return len(self.cloze.salient & set(candidates(self.passage)))


class Apes(Metric):
    """Answering Performance for Evaluation of Summaries (Eyal, Baumel and Elhadad 2019).

    Every named entity of a reference is blanked in turn; a reader that sees the summary alone fills the blanks with
    entities of the summary. The score is the percentage of right answers, pooled over all questions of the corpus.

    Args:
        preset: "light" (the better of our two trained readers) or "paper" (the attentive reader, asked as the authors
            asked it, with relabel="training").
        reader: "attentive", "cross", "extractive", "zero-shot", a baseline ("most-frequent", "first", "overlap"), or
            an object with the method `answer` (see `readers.Reader`).
        model, revision, device: the reader's weights, where it has any: a folder or a Hub id.
        ner: what finds entities: "spacy-small", a folder, or an installed spaCy package.
        relabel: of the attentive reader: "always" numbers entities by first occurrence in training and in scoring;
            "training" only in training.
        cache_folder: remember the entities that were found on disk.

    Example:
        >>> apes = Apes(reader="most-frequent")
        >>> reference = "Angela Merkel flew to Oslo."
        >>> apes.compute(["Angela Merkel travelled.", "Somebody travelled."], [reference, reference]).mean["apes"]
        25.0
    """

    name = "apes"
    summary = "APES: how many cloze questions about the reference a reader answers from the summary"
    needs = "spaCy small (offline extra)"
    averaged = ("apes_entities", "apes_salient_entities")
    citation = """@inproceedings{eyal-etal-2019-question,
    title = "Question Answering as an Automatic Evaluation Metric for News Article Summarization",
    author = "Eyal, Matan and Baumel, Tal and Elhadad, Michael",
    booktitle = "Proceedings of the 2019 Conference of the North {A}merican Chapter of the Association for Computational Linguistics",
    year = "2019",
    pages = "3938--3948",
    url = "https://aclanthology.org/N19-1395",
}"""

    def __init__(
        self,
        preset: str = "light",
        reader: str | Reader | None = None,
        model: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        device: str | None = None,
        ner: str | os.PathLike[str] = "spacy-small",
        relabel: str | None = None,
        cache_folder: str | None = None,
    ):
        from summarily.metrics.apes.readers import check_options

        self.preset = one_of("preset", preset, PRESETS)
        self.reader = reader or (LIGHT_READER if preset == "light" else "attentive")
        self.model, self.revision, self.device = model, revision, device
        self.ner = ner
        if relabel is not None:
            one_of("relabel", relabel, ("always", "training"))
        check_options(self.reader, relabel, model=model, revision=revision, device=device)
        if self.reader == "attentive":
            relabel = relabel or ("training" if preset == "paper" else "always")
        self.relabel = relabel
        self.cache_folder = cache_folder

    @property
    def keys(self) -> tuple[str, ...]:
        return ("apes", *self.averaged)

    def check(self) -> None:
        recognition.check(self.ner)
        if self.model is None and self.reader in ("attentive", "cross"):
            from summarily.metrics.apes.readers import shipped_folder

            shipped_folder(str(self.reader))

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        return {
            **self._reader.signature_fields(),
            "ner": self._recogniser.identity,
            "types": [kind.lower() for kind in recognition.KINDS],
            "case": "restored",
            "aggregate": "pooled",
        }

    @cached_property
    def _reader(self) -> Reader:
        from summarily.metrics.apes.readers import load_reader

        always = None if self.relabel is None else self.relabel == "always"
        return load_reader(self.reader, self.model, self.revision, self.device, always)

    @cached_property
    def _recogniser(self) -> recognition.Recogniser:
        """Found and verified once in the life of the metric."""
        return recognition.recogniser(self.ner, self.cache_folder)

    # --- scoring ---

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        reads = self.read(examples)
        counts = {
            "questions": sum(len(read.cloze.questions) for read in reads),
            "questions_left_out": sum(read.cloze.left_out for read in reads),
            "correct": sum(read.correct for read in reads),
            "entity_mentions": sum(read.mentions for read in reads),
            "salient_entities": sum(read.salient for read in reads),
            "references_without_entities": sum(not read.cloze.questions for read in reads),
            "predictions_without_entities": sum(not read.mentions for read in reads),
            **count_empty(examples),
        }
        texts = (text for read in reads for text in (read.passage, *read.questions))
        return Values(
            _columns(reads),
            counts,
            tokens=sum(len(text.split()) for text in texts),
            weights=[float(len(read.cloze.questions)) for read in reads],
        )

    def read(self, examples: Sequence[Example]) -> list[Read]:
        """Make the questions of some examples, and answer them."""
        recognise = self._recogniser
        # One call for all texts, so that they are read in full batches; what follows finds them remembered.
        recognise(list(dict.fromkeys(text for example in examples for text in _texts(example))))
        known: dict[tuple[tuple[str, ...], str | None], Cloze] = {}
        reads = []
        for example in examples:
            about = example.references, example.source
            if about not in known:
                known[about] = make_cloze(example.references, source=example.source, recognise=recognise)
            [mentions] = recognise([_prediction(example)])
            reads.append(_anonymised(example.prediction, known[about], mentions))
        answers = self._reader.answer(
            [read.passage for read in reads],
            [read.questions for read in reads],
            [read.names for read in reads],
        )
        for read, given in zip(reads, answers, strict=True):
            read.answers = given
        return reads

    def explain_example(self, example: Example, statistics: Any) -> Questions:
        """Each question with the right answer, the reader's and its probability."""
        read = self.read([example])[0]
        questions = [
            Asked(
                _named(text, read.names),
                read.names[question.answer],
                None if answer.entity is None else read.names[answer.entity],
                answer.probability,
                question.answer == answer.entity,
            )
            for question, text, answer in zip(read.cloze.questions, read.questions, read.answers, strict=True)
        ]
        return Questions(
            self.name,
            {key: column[0] for key, column in _columns([read]).items()},
            example.prediction,
            example.references,
            read.passage,
            {id: read.names[id] for id in candidates(read.passage)},
            questions,
        )

    # --- ready questions ---

    def compute(
        self,
        predictions: Any,
        references: Any = None,
        sources: Any = None,
        confidence: float | None = None,
        questions: Any = None,
    ) -> Score:
        """Score `predictions` by questions about `references`, or by ready `questions` (see `as_references`)."""
        return self.state(predictions, either(references, questions), sources).score(confidence)

    def state(
        self, predictions: Any, references: Any = None, sources: Any = None, questions: Any = None
    ) -> State:
        return super().state(predictions, either(references, questions), sources)

    def __getstate__(self) -> dict[str, Any]:
        # A worker process loads its own reader and recogniser.
        return {
            name: value for name, value in self.__dict__.items() if name not in ("_reader", "_recogniser")
        }


def _columns(reads: Sequence[Read]) -> dict[str, list[float]]:
    return {
        "apes": [read.percentage for read in reads],
        "apes_entities": [float(read.mentions) for read in reads],
        "apes_salient_entities": [float(read.salient) for read in reads],
    }


def _texts(example: Example) -> Iterable[str]:
    """The texts of an example in which entities are looked for, as `make_cloze` and `read` ask for them."""
    yield _prediction(example)
    others = list(_others(example))
    yield from restored(others, others)


def _others(example: Example) -> Iterable[str]:
    if example.source is not None:
        yield example.source
    yield from (text for text in example.references if not is_question_file(text))


def _prediction(example: Example) -> str:
    """The prediction in which entities are looked for: without any capital, it gets those of source and references."""
    return restored([example.prediction], _others(example))[0]


def _anonymised(prediction: str, cloze: Cloze, mentions: Sequence[recognition.Mention]) -> Read:
    prediction = without_ids(prediction)
    entities = cloze.entities.extended(mentions)
    spans = entities.spans(prediction)
    questions = [question.text for question in cloze.questions]
    if entities is not cloze.entities:
        questions = [entities.anonymise(text) for text in questions]
    names = {id: names[0] for id, names in entities.names.items()}
    return Read(cloze, questions, replace_spans(prediction, spans), names, len(spans), [])


def _named(question: str, names: Mapping[str, str]) -> str:
    """The question as people read it: names for ids, a line for the blank."""
    from summarily.support.cloze.marks import rename

    return rename(question, names).replace(PLACEHOLDER, "____")


def either(references: Any, questions: Any) -> Any:
    """The references, or ready questions in their place; giving both or none is an error."""
    if (references is None) == (questions is None):
        what = (
            "both references and questions" if questions is not None else "neither references nor questions"
        )
        raise InputError(f"{what} are given; apes asks about references, or takes ready questions.")
    return references if questions is None else as_references(questions)


def as_references(questions: Any) -> list[list[str]]:
    """Ready questions in the form in which they take the place of references.

    Args:
        questions: for each prediction a list of questions. A question is the content of a CNN/DailyMail `.question`
            file, or a mapping with "question" (has `@placeholder`), "answer" and "names": the other entities of the
            question, as a list, or all entities by id.

    Example:
        >>> rows = as_references([[{"question": "@placeholder beat Burnley", "answer": "Arsenal", "names": ["Burnley"]}]])
        >>> is_question_file(rows[0][0])
        True
    """
    rows = []
    for number, row in enumerate(rows_of("questions", questions)):
        where = f"questions[{number}]"
        if isinstance(row, (str, Mapping)) or not isinstance(row, Iterable):
            raise InputTypeError(f"{where} is a {type(row).__name__}; expected a list of questions.")
        texts = [_as_text(f"{where}[{i}]", question) for i, question in enumerate(row)]
        if not texts:
            raise InputError(f"{where} is an empty list; give at least one question or drop the row.")
        rows.append(texts)
    return rows


def _as_text(where: str, question: Any) -> str:
    if isinstance(question, str):
        if not is_question_file(question):
            raise InputError(f"{where} is no .question file; give a mapping with question, answer and names.")
        return question
    if not isinstance(question, Mapping) or not {"question", "answer"} <= set(question):
        raise InputError(f'{where} is no question; expected a mapping with "question", "answer" and "names".')
    try:
        return question_file(question["question"], question["answer"], question.get("names", ()))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
