"""Cloze questions about the named entities of a summary, and the entities themselves.

One table of entities (`Entities`) serves a source, its references and a prediction: names of one entity share an id
(`@entity3`), and every mention of a name in a text is found by string. A question is a reference sentence in which
one entity is `@placeholder` and the others are their ids:

    >>> cloze = make_cloze("Arsenal beat Burnley. Arsenal's win stands.", names=["Arsenal", "Burnley"])
    >>> cloze.questions[0]
    Question(text='@placeholder beat @entity1.', answer='@entity0')
    >>> cloze.entities.anonymise("ARSENAL won at Burnley's ground.")
    "@entity0 won at @entity1's ground."

A reader numbers the ids anew, by their first occurrence in passage and question, in training and in scoring alike
(`summarily.support.cloze.marks.relabel`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from summarily.support.cloze.entities import GIVEN, Entities, replace_spans, without_ids
from summarily.support.cloze.marks import ENTITY, PLACEHOLDER
from summarily.support.cloze.recognition import Mention
from summarily.support.cloze.truecasing import restored
from summarily.support.errors import InputError
from summarily.support.text import sentences_of


class Question(NamedTuple):
    """A sentence with `@placeholder` for one entity (at each of its mentions), and that entity's id."""

    text: str
    answer: str


LONGEST_SENTENCE = 2000
"""Characters. Of a longer "sentence", such as a list of names, this much around the blank is asked: else a text of n
names would give n questions of n names."""
MOST_READ, READ_OVER = 100_000, 6
"""Characters that the questions of one reference may have together: so many, or so many times its own. Whole articles of
CNN/DailyMail, 10,000 characters, have 5 times their own where they name most. Of a list of names, which would be read over
for each of them, questions at even distances are asked and the others counted (`Cloze.left_out`)."""


# --- questions --------------------------------------------------------------------------------------------


@dataclass
class Cloze:
    """The questions of a summary, the entities they are about, and how many questions each reference gave.

    `left_out` counts the questions that were not asked because a reference has too many (`MOST_READ`).
    """

    questions: list[Question]
    entities: Entities
    by_reference: list[int]
    left_out: int = 0

    @property
    def salient(self) -> set[str]:
        """The entities that answer a question."""
        return {question.answer for question in self.questions}


def make_cloze(
    references: str | Sequence[str],
    *,
    names: Iterable[str | Mention] | None = None,
    source: str | None = None,
    recognise: Any = None,
) -> Cloze:
    """The questions of one or several references of the same text.

    Each sentence gives one question for each entity that it mentions. They depend on the references and the
    source alone, so all systems answer the same ones; the names in a prediction are added afterwards
    (`entities.extended`).

    Args:
        references: the summary or summaries that are asked about; or the contents of CNN/DailyMail `.question`
            files, whose questions are taken as they are.
        names: the entities, if they are known; by default those found in the source and the references.
        source: the text they summarize: its entities are possible answers too, and give full names to surnames; a
            reference without any capital is read with those of the source.
        recognise: what finds the names in a list of texts; by default `recognition.recogniser()`.

    Example:
        >>> make_cloze("Snow fell in Oslo.", names=["Oslo"]).questions
        [Question(text='Snow fell in @placeholder.', answer='@entity0')]
    """
    references = [references] if isinstance(references, str) else list(references)
    ready = [parse_question_file(text) if is_question_file(text) else None for text in references]
    references = [text if given else without_ids(text) for text, given in zip(references, ready, strict=True)]
    source = None if source is None else without_ids(source)
    mentions: list[Mention] = []
    if names is not None:
        mentions = [
            n if isinstance(n, Mention) else Mention(n, "PERSON" if " " in n else "ORG") for n in names
        ]
    else:
        texts = [text for text, given in zip(references, ready, strict=True) if given is None]
        texts += [] if source is None else [source]
        if recognise is None and texts:
            from summarily.support.cloze.recognition import recogniser

            recognise = recogniser()
        texts = restored(texts, texts)
        mentions = [mention for found in (recognise(texts) if texts else []) for mention in found]
    for given in ready:
        if given is not None:
            mentions += [Mention(name, GIVEN) for name in given.names.values()]
    entities = Entities(mentions)
    asked: list[list[Question]] = []
    left_out = 0
    for text, given in zip(references, ready, strict=True):
        if given is not None:
            asked.append([given.question_about(entities)])
        else:
            possible = list(_blanks(text, entities))
            chosen = _affordable(possible, max(MOST_READ, READ_OVER * len(text)))
            asked.append([blank.question(text) for blank in chosen])
            left_out += len(possible) - len(chosen)
    return Cloze(
        [question for own in asked for question in own], entities, [len(own) for own in asked], left_out
    )


def blank(text: str, entities: Entities) -> list[Question]:
    """One question for each sentence and entity that it mentions.

    All mentions of the entity in the sentence are blanked, so that the question does not hold its answer.

    Example:
        >>> entities = Entities([Mention("Ann", "PERSON"), Mention("Oslo", "GPE")])
        >>> [question.text for question in blank("Ann left Oslo. It rained.", entities)]
        ['@placeholder left @entity1.', '@entity0 left @placeholder.']
    """
    return [blank.question(text) for blank in _blanks(text, entities)]


class _Blank(NamedTuple):
    """A question before it is written: the part of the text, the mentions of all the text, those in it, the answer."""

    left: int
    right: int
    spans: Sequence[tuple[int, int, str]]
    first: int
    last: int
    answer: str

    @property
    def length(self) -> int:
        return self.right - self.left

    def question(self, text: str) -> Question:
        inside = self.spans[self.first : self.last]
        blanked = [
            (a - self.left, b - self.left, PLACEHOLDER if id == self.answer else id) for a, b, id in inside
        ]
        return Question(replace_spans(text[self.left : self.right], blanked), self.answer)


def _blanks(text: str, entities: Entities) -> Iterator[_Blank]:
    spans = entities.spans(text)
    for start, end in sentences_of(text):
        first = bisect.bisect_left(spans, start, key=lambda span: span[0])
        last = bisect.bisect_right(spans, end, key=lambda span: span[1])
        mentioned: dict[str, int] = {}
        for number in range(first, last):
            mentioned.setdefault(spans[number][2], number)
        for answer, number in mentioned.items():
            if end - start <= LONGEST_SENTENCE:
                yield _Blank(start, end, spans, first, last, answer)
            else:
                yield _around(number, spans, first, last, start, end)


def _around(
    number: int, spans: Sequence[tuple[int, int, str]], first: int, last: int, start: int, end: int
) -> _Blank:
    """The part of a sentence that never ends that is asked about one of its mentions, `first` to `last`."""
    left = max(start, spans[number][0] - LONGEST_SENTENCE // 2)
    right = min(end, max(left + LONGEST_SENTENCE, spans[number][1]))
    inside = bisect.bisect_left(spans, left, first, last, key=lambda span: span[0])
    outside = bisect.bisect_right(spans, right, first, last, key=lambda span: span[1])
    # No part of a name stays, which might be that of the answer.
    left = max(left, spans[inside - 1][1] if inside > first else start)
    right = min(right, spans[outside][0] if outside < last else end)
    return _Blank(left, right, spans, inside, outside, spans[number][2])


def _affordable(blanks: list[_Blank], most: int) -> list[_Blank]:
    """All of them, or as many as have `most` characters, at even distances.

    >>> blanks = [_Blank(0, 10, [], 0, 0, f"@entity{n}") for n in range(6)]
    >>> [blank.answer for blank in _affordable(blanks, 30)]
    ['@entity1', '@entity3', '@entity5']
    """
    total = sum(blank.length for blank in blanks)
    if total <= most:
        return blanks
    chosen: list[_Blank] = []
    saved = 0
    for blank in blanks:  # in whole numbers, so that it is the same everywhere
        saved += blank.length * most
        if saved >= blank.length * total:
            saved -= blank.length * total
            chosen.append(blank)
    return chosen


# --- ready questions --------------------------------------------------------------------------------------


class QuestionFile(NamedTuple):
    """A CNN/DailyMail `.question` file: where from, the passage, the question, the answer, names by id."""

    url: str
    passage: str
    question: str
    answer: str
    names: dict[str, str]

    def question_about(self, entities: Entities) -> Question:
        """The question with the ids of a table that knows the names."""

        text = ENTITY.sub(lambda match: _id_of(self.names[match.group()], entities), self.question)
        return Question(text, _id_of(self.names[self.answer], entities))

    def to_text(self) -> str:
        """The content of the file."""
        lines = "\n".join(f"{id}:{name}" for id, name in self.names.items())
        return "\n\n".join([self.url, self.passage, self.question, self.answer, lines])


def _id_of(name: str, entities: Entities) -> str:
    if (id := entities.find(name)) is None:
        raise InputError(f"{name!r:.60} cannot be the name of an entity; give a name with letters.")
    return id


def is_question_file(text: str) -> bool:
    """Whether a text is the content of a `.question` file.

    Example:
        >>> is_question_file("Snow fell in Oslo.")
        False
    """
    return PLACEHOLDER in text and text.count("\n\n") >= 3


def parse_question_file(text: str) -> QuestionFile:
    """Read the content of a `.question` file.

    Example:
        >>> parse_question_file("url\\n\\n@entity0 won .\\n\\n@placeholder won\\n\\n@entity0\\n\\n@entity0:Ann").names
        {'@entity0': 'Ann'}
    """
    parts = text.strip("\n").split("\n\n")
    if len(parts) < 5:
        raise InputError(
            f"a .question file has 5 parts between empty lines (url, passage, question, answer, names), not {len(parts)}."
        )
    url, passage, question, answer, lines = parts[0], *parts[1:4], "\n".join(parts[4:])
    names = dict(line.split(":", 1) for line in lines.splitlines() if ":" in line)
    names = {id.strip(): name.strip() for id, name in names.items()}
    missing = [id for id in (answer.strip(), *ENTITY.findall(question)) if id not in names]
    if missing:
        raise InputError(
            f"a .question file names no entity for {missing[0]}; its last part lists {list(names)[:5]}."
        )
    return QuestionFile(url, passage, question.strip(), answer.strip(), names)


def question_file(question: str, answer: str, names: Mapping[str, str] | Sequence[str] = ()) -> str:
    """A question as the content of a `.question` file: what APES takes in place of a reference.

    Args:
        question: a sentence with `@placeholder`; other entities by name or as ids.
        answer: the missing entity, by name or as an id.
        names: the entities by id; or a list of names that occur in the question.

    Example:
        >>> text = question_file("@placeholder beat Burnley", "Arsenal", ["Burnley"])
        >>> parse_question_file(text).question
        '@placeholder beat @entity1'
    """
    if PLACEHOLDER not in question:
        raise InputError(
            f"the question {question!r:.60} has no {PLACEHOLDER}; put it where the answer is missing."
        )
    if isinstance(names, Mapping):
        table = dict(names)
    else:
        table = {f"@entity{n}": name for n, name in enumerate(dict.fromkeys([answer, *names]))}
    if answer not in table:
        known = {name: id for id, name in table.items()}
        if answer not in known:
            raise InputError(f"the answer {answer!r:.60} is not among the names {list(known)[:5]}.")
        answer = known[answer]
    given = Entities(Mention(name, GIVEN) for name in table.values())
    ids = {_id_of(name, given): id for id, name in table.items()}
    spans = [(start, end, ids[id]) for start, end, id in given.spans(question)]
    return QuestionFile("-", "-", replace_spans(question, spans), answer, table).to_text()
