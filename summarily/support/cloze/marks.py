"""Entities as the readers see them: `@entityN` in passages and questions, `@placeholder` for the blank.

The ids of a text say which mentions belong together and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PLACEHOLDER = "@placeholder"
ENTITY = re.compile(r"@entity\d+")
"""An id in an anonymised text."""


class Answer(NamedTuple):
    """What a reader answers: the entity's id as it was given, or None where the passage has no entity."""

    entity: str | None
    probability: float
    """Of this answer among the entities of the passage; 0 where there is none."""
    name: str | None = None
    """The entity's name, if the reader was told the names."""


class Relabelled(NamedTuple):
    """A passage and its questions with new ids; `original` maps the passage's new ids to those before."""

    passage: str
    questions: list[str]
    original: dict[str, str]


def candidates(passage: str) -> list[str]:
    """The ids in a text, by first occurrence: what a reader may answer.

    Example:
        >>> candidates("@entity4 met @entity1; @entity4 left.")
        ['@entity4', '@entity1']
    """
    return list(dict.fromkeys(ENTITY.findall(passage)))


def relabel(passage: str, questions: Sequence[str] = ()) -> Relabelled:
    """Number the entities by their first occurrence in passage + question, each question for itself.

    As the passage comes first, its ids are the same for all questions; entities that only a question mentions
    follow. So an id says nothing about who is meant, and a reader has to read.

    Example:
        >>> relabel("@entity7 met @entity2.", ["@placeholder met @entity2 in @entity5"])
        Relabelled(passage='@entity0 met @entity1.', questions=['@placeholder met @entity1 in @entity2'], original={'@entity0': '@entity7', '@entity1': '@entity2'})
    """
    known = _numbered({}, passage)
    renamed = [rename(question, _numbered(known, question)) for question in questions]
    return Relabelled(rename(passage, known), renamed, {new: old for old, new in known.items()})


def _numbered(known: Mapping[str, str], text: str) -> dict[str, str]:
    numbers = dict(known)
    for entity in candidates(text):
        numbers.setdefault(entity, f"@entity{len(numbers)}")
    return numbers


def rename(text: str, names: Mapping[str, str]) -> str:
    """Replace every id by what `names` has for it.

    Example:
        >>> rename("@entity1 met @entity12 .", {"@entity1": "Ann", "@entity12": "Bob"})
        'Ann met Bob .'
    """
    return ENTITY.sub(lambda match: names.get(match[0], match[0]), text)


def with_names(text: str, names: Mapping[str, str]) -> tuple[str, list[tuple[int, int, str]]]:
    """The text with names for ids, and where each mention is: start, end, id.

    Example:
        >>> with_names("@entity0 met @entity1.", {"@entity0": "Ann", "@entity1": "Bob"})
        ('Ann met Bob.', [(0, 3, '@entity0'), (8, 11, '@entity1')])
    """
    parts: list[str] = []
    mentions = []
    done = length = 0
    for match in ENTITY.finditer(text):
        before, name = text[done : match.start()], names.get(match[0], match[0])
        parts += [before, name]
        start = length + len(before)
        length = start + len(name)
        mentions.append((start, length, match[0]))
        done = match.end()
    return "".join([*parts, text[done:]]), mentions


def entity_number(entity: str) -> int:
    """The N of `@entityN`.

    Example:
        >>> entity_number("@entity12")
        12
    """
    return int(entity.removeprefix("@entity"))
