"""Entities as the readers see them: `@entityN` in passages and questions, `@placeholder` for the blank.

The ids of a text say nothing but which mentions belong together; `relabel` numbers them by first occurrence, so
that a reader cannot learn anything about an id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PLACEHOLDER = "@placeholder"
ENTITY = re.compile(r"@entity(\d+)")
"""The id of an entity in a text; the group is its number."""


class Answer(NamedTuple):
    """What a reader answers: the entity's id as it was given, or None where the passage has no entity."""

    entity: str | None
    probability: float
    """Of this answer among the entities of the passage; 0 where there is none."""
    name: str | None = None
    """The entity's name, if the reader was told the names."""


def entities_of(text: str) -> list[str]:
    """The ids of a text in the order of their first occurrence.

    Example:
        >>> entities_of("@entity7 met @entity2 ; @entity7 left .")
        ['@entity7', '@entity2']
    """
    return list(dict.fromkeys(match[0] for match in ENTITY.finditer(text)))


def relabel(passage: str, questions: Sequence[str] = ()) -> tuple[str, list[str], list[dict[str, str]]]:
    """Number the entities by first occurrence in the passage followed by the question.

    The passage comes first, so its new ids are the same for all questions; a question's own entities get the
    numbers after them. Returns the passage, the questions, and for each question `{old id: new id}`.

    Example:
        >>> passage, questions, ids = relabel("@entity7 met @entity2", ["@placeholder met @entity9", "@entity2 ."])
        >>> passage, questions
        ('@entity0 met @entity1', ['@placeholder met @entity2', '@entity1 .'])
        >>> ids[0]
        {'@entity7': '@entity0', '@entity2': '@entity1', '@entity9': '@entity2'}
    """
    known = _numbered({}, passage)
    by_question = [_numbered(known, question) for question in questions]
    renamed = [rename(question, ids) for question, ids in zip(questions, by_question, strict=True)]
    return rename(passage, known), renamed, by_question


def _numbered(known: Mapping[str, str], text: str) -> dict[str, str]:
    numbers = dict(known)
    for entity in entities_of(text):
        numbers.setdefault(entity, f"@entity{len(numbers)}")
    return numbers


def rename(text: str, names: Mapping[str, str]) -> str:
    """Replace every id by what `names` has for it.

    Example:
        >>> rename("@entity1 met @entity12 .", {"@entity1": "Ann", "@entity12": "Bob"})
        'Ann met Bob .'
    """
    return ENTITY.sub(lambda match: names.get(match[0], match[0]), text)
