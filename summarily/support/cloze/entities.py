"""The entities of some texts: names of one entity share an id, and every mention of a name is found by string.

>>> entities = Entities([Mention("Arsenal", "ORG"), Mention("Burnley", "ORG")])
>>> entities.anonymise("ARSENAL won at Burnley's ground.")
"@entity0 won at @entity1's ground."
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from summarily.support.cloze.recognition import Mention
from summarily.support.text import STOP_WORDS

_TOKEN = re.compile(r"@entity\d+|@placeholder|\w+|[^\w\s]")
_POSSESSIVE = re.compile(r"\s?(?:['’`]s|(?<=s)['’])$", re.IGNORECASE)
# An article before a name; the result of a match after it ("Burnley 1-0"), which recognisers take along.
_AROUND = re.compile(r"^(?:the|an?)\s+|\s+\d+\s?[-–]\s?\d+$", re.IGNORECASE)
_INITIALS = re.compile(r"(?:[^\W\d_]\.\s?)+[^\W\d_]?\.?")
_TITLES = frozenset(
    (
        "mr",
        "mrs",
        "ms",
        "miss",
        "dr",
        "sir",
        "lord",
        "lady",
        "dame",
        "prof",
        "professor",
        "rev",
        "sgt",
        "capt",
    )
)
_PARTICLES = frozenset(
    (
        "de",
        "la",
        "du",
        "da",
        "di",
        "do",
        "dos",
        "das",
        "del",
        "von",
        "van",
        "der",
        "den",
        "bin",
        "al",
        "el",
        "le",
    )
)
_COMPANY_ENDINGS = frozenset(
    (
        "inc",
        "corp",
        "corporation",
        "co",
        "company",
        "ltd",
        "limited",
        "plc",
        "llc",
        "ag",
        "sa",
        "nv",
        "fc",
        "afc",
    )
)
_SURNAME_KINDS = ("PERSON", "ORG")
"""What a recogniser calls a bare surname; "Jordan", when it is a country, is nobody's."""
# The kind of a name that somebody has written down as one, whatever it looks like.
GIVEN = "GIVEN"
_LITERAL_ID = re.compile(r"@(?=(?:entity\d+|placeholder)\b)")


def _fold(token: str) -> str:
    """A token without case and accents."""
    if token.isascii():
        return token.lower()
    apart = unicodedata.normalize("NFKD", token.replace("’", "'"))
    return "".join(c for c in apart if not unicodedata.combining(c)).lower()


def without_ids(text: str) -> str:
    """A text in which nothing looks like an id or a blank of ours: only we put those in.

    Example:
        >>> without_ids("@entity7 met @placeholder, says @entitled")
        'entity7 met placeholder, says @entitled'
    """
    return _LITERAL_ID.sub("", text) if "@" in text else text


def clean_name(name: str) -> str:
    """A name as it is listed: no possessive, no article, no quotes.

    Example:
        >>> clean_name("the Guardian's"), clean_name("U.S.")
        ('Guardian', 'U.S.')
    """
    name = " ".join(name.split()).strip('"“”‘`()[],;:- ')
    name = _POSSESSIVE.sub("", name).strip("'’")
    name = _AROUND.sub("", name)
    return name if any(c.isalpha() for c in name) else ""


def split_name(name: str) -> list[str]:
    """The names in what a recogniser took for one: it does not stop at verbs between two names.

    Example:
        >>> split_name("Arsenal beat Burnley"), split_name("Bank of England"), split_name("wayne rooney")
        (['Arsenal', 'Burnley'], ['Bank of England'], ['wayne rooney'])
    """
    words = name.split()
    small = [word[:1].islower() and word not in STOP_WORDS and word not in _PARTICLES for word in words]
    if not any(small) or all(word[:1].islower() for word in words):
        return [name]
    runs = " ".join("\n" if is_small else word for word, is_small in zip(words, small, strict=True))
    found = []
    for run in runs.split("\n"):
        inside = run.split()
        while inside and inside[-1][:1].islower():
            inside.pop()
        while inside and inside[0][:1].islower():
            inside.pop(0)
        found += [" ".join(inside)] if inside else []
    return found


def _key(name: str) -> tuple[str, ...]:
    """What equal names have in common: words without case, accents, dots, titles and company endings."""
    if _INITIALS.fullmatch(name):
        return (_fold(re.sub(r"[\s.]", "", name)),)
    words = [_fold(token) for token in re.findall(r"\w+", name)]
    while len(words) > 1 and words[0] in _TITLES:
        words = words[1:]
    while len(words) > 1 and words[-1] in _COMPANY_ENDINGS:
        words = words[:-1]
    return tuple(words)


def _spellings(name: str) -> set[str]:
    """A name with and without what varies: its final full stop, the dots of initials."""
    found = {name, name.rstrip(".")}
    if _INITIALS.fullmatch(name):
        letters = re.sub(r"[\s.]", "", name)
        found |= {letters, ".".join(letters), ".".join(letters) + "."}
    elif name.isupper() and name.isalpha() and len(name) <= 4:
        found |= {".".join(name) + "."}
    return {spelling for spelling in found if spelling}


@dataclass
class _Entity:
    id: str
    key: tuple[str, ...]
    names: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def add(self, name: str, kind: str) -> None:
        if name not in self.names:
            self.names.append(name)
        self.kinds.add(kind)


class _Pattern(NamedTuple):
    """A name; `exact` if only this spelling will do ("US" is not "us")."""

    id: str
    exact: str | None
    length: int


_Patterns = dict[str, dict[int, dict[tuple[str, ...], list[_Pattern]]]]
"""Names by their first token, their number of tokens, and all of them: a thousand people may be called Ann."""


class Entities:
    """The entities of some texts: ids, names, and where they are mentioned.

    Names are grouped as they come in: equal but for case, accents, possessive, final full stop, title or company
    ending; then a bare surname or first name joins the one person who has it, an acronym the one name it
    abbreviates, "Federal Reserve" the "US Federal Reserve", "Americans" the "American". What several entities could claim stays an entity of its own.

    Example:
        >>> entities = Entities([Mention("Aaron Ramsey", "PERSON"), Mention("Ramsey", "PERSON"), Mention("U.S.", "GPE")])
        >>> entities.names
        {'@entity0': ['Aaron Ramsey', 'Ramsey'], '@entity2': ['U.S.']}
        >>> entities.anonymise("RAMSEY left the US.")
        '@entity0 left the @entity2.'
    """

    def __init__(self, mentions: Iterable[Mention] = ()):
        self._entities: dict[str, _Entity] = {}
        self._by_key: dict[tuple[str, ...], str] = {}
        self._patterns: _Patterns | None = None
        self._add(mentions)

    @property
    def names(self) -> dict[str, list[str]]:
        """The names of each entity by its id, the first seen first."""
        return {id: list(entity.names) for id, entity in self._entities.items()}

    def __len__(self) -> int:
        return len(self._entities)

    def __contains__(self, id: object) -> bool:
        return id in self._entities

    def find(self, name: str) -> str | None:
        """The id of a name, or None."""
        return self._by_key.get(_key(clean_name(name)))

    def extended(self, mentions: Iterable[Mention]) -> Entities:
        """A copy that knows more names. The entities that are here keep their ids and never become one."""
        people = {
            entity.key
            for entity in self._entities.values()
            if "PERSON" in entity.kinds and len(entity.key) > 1
        }
        lengths = {len(key) for key in people}
        new = [
            Mention(*pair)
            for pair in _cleaned(mentions)
            if not self._knows(pair[0]) and not _holds(_key(pair[0]), people, lengths)
        ]
        if not new:
            return self
        copy = Entities()
        copy._entities = {
            id: _Entity(id, entity.key, list(entity.names), set(entity.kinds))
            for id, entity in self._entities.items()
        }
        copy._by_key = dict(self._by_key)
        copy._add(new)
        return copy

    def _knows(self, name: str) -> bool:
        id = self._by_key.get(_key(name))
        return id is not None and name in self._entities[id].names

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Where entities are mentioned: start, end and id, in the order of the text.

        Of names that overlap the longest counts (of equally long ones, the first). Case does not matter, except for
        names that are function words when written small ("US", "WHO", "May").
        """
        if not self._entities:
            return []
        tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
        folded = [_fold(token) for token, _, _ in tokens]
        patterns = self._compiled()
        matches = []
        for position, token in enumerate(folded):
            for length, same_length in patterns.get(token, {}).items():
                last = position + length - 1
                for pattern in same_length.get(tuple(folded[position : last + 1]), ()):
                    if pattern.exact is None or tokens[position][0] == pattern.exact:
                        matches.append((-pattern.length, position, last, pattern.id))
        taken = bytearray(len(tokens))
        chosen = []
        for _, first, last, id in sorted(matches):
            if not any(taken[first : last + 1]):
                taken[first : last + 1] = b"\x01" * (last + 1 - first)
                chosen.append((tokens[first][1], tokens[last][2], id))
        return sorted(chosen)

    def anonymise(self, text: str) -> str:
        """The text with every mention replaced by its entity's id."""
        return replace_spans(text, self.spans(text))

    # --- inside ---

    def _add(self, mentions: Iterable[Mention]) -> None:
        fixed = set(self._entities)
        for name, kind in _cleaned(mentions):
            key = _key(name)
            if not key or (len(key) == 1 and (len(key[0]) < 2 or name in STOP_WORDS)):
                continue
            id = self._by_key.get(key)
            if id is None:
                id = f"@entity{len(self._by_key)}"
                self._entities[id] = _Entity(id, key)
                self._by_key[key] = id
            self._entities[id].add(name, kind)
        self._join_aliases(fixed)
        self._patterns = None

    def _join_aliases(self, fixed: set[str]) -> None:
        # Longer names first: "Barack Obama" joins "Barack Hussein Obama" before "Obama" looks for its owner.
        new = [entity for entity in self._entities.values() if entity.id not in fixed]
        possible = _Owners(self._entities.values(), {len(entity.key) for entity in new})
        keys: dict[str, list[tuple[str, ...]]] = {}
        for key, id in self._by_key.items():
            keys.setdefault(id, []).append(key)
        for entity in sorted(new, key=lambda entity: -len(entity.key)):
            owners = [
                other
                for other in possible.of(entity)
                if other.id in self._entities and _is_alias(entity, other)
            ]
            if len(owners) == 1:
                for name in entity.names:
                    owners[0].add(name, next(iter(sorted(entity.kinds))))
                moved = keys.pop(entity.id)
                self._by_key.update(dict.fromkeys(moved, owners[0].id))
                keys[owners[0].id] += moved
                del self._entities[entity.id]

    def _compiled(self) -> _Patterns:
        if self._patterns is None:
            self._patterns = {}
            ends = Counter(
                word for entity in self._entities.values() for word in {entity.key[0], entity.key[-1]}
            )
            for entity in self._entities.values():
                spellings = {spelling for name in entity.names for spelling in _spellings(name)}
                for spelling in spellings | self._surnames(entity, ends):
                    tokens = tuple(_fold(token) for token in _TOKEN.findall(spelling))
                    ambiguous = len(tokens) == 1 and tokens[0] in STOP_WORDS
                    pattern = _Pattern(entity.id, spelling if ambiguous else None, len(spelling))
                    same_length = self._patterns.setdefault(tokens[0], {}).setdefault(len(tokens), {})
                    same_length.setdefault(tokens, []).append(pattern)
        return self._patterns

    def _surnames(self, entity: _Entity, ends: Counter[str]) -> set[str]:
        """The bare surname of a person, unless it is a name or a surname of somebody else here, or a word."""
        if "PERSON" not in entity.kinds or len(entity.key) < 2:
            return set()
        surname = entity.key[-1]
        claimed = self._by_key.get((surname,), entity.id) != entity.id or ends[surname] > 1
        return set() if claimed or len(surname) < 3 or surname in STOP_WORDS else {surname}


def _cleaned(mentions: Iterable[Mention]) -> Iterator[tuple[str, str]]:
    for mention in mentions:
        for part in [mention.name] if mention.kind == GIVEN else split_name(mention.name):
            if name := clean_name(part):
                yield name, mention.kind


def _holds(key: tuple[str, ...], people: set[tuple[str, ...]], lengths: set[int]) -> bool:
    """Whether a name is a person's with other words around it, which recognisers like to take along."""
    return any(
        key[i : i + length] in people
        for length in lengths
        if length < len(key)
        for i in range(len(key) - length + 1)
    )


class _Owners:
    """Which entities a name could be an alias of (`_is_alias`), found by the words that those have in common.

    Args:
        entities: all that there are.
        lengths: of the names that will be asked about, in words.
    """

    def __init__(self, entities: Iterable[_Entity], lengths: set[int]):
        self._by: dict[object, list[_Entity]] = {}
        for entity in entities:
            key = entity.key
            places: set[object] = {("key", key), ("first", key[0]), ("ends", key[0], key[-1])}
            places |= {("last", key[-length:]) for length in lengths if length < len(key)}
            places |= {("initials", initials) for initials in _initials(key)}
            for place in places:
                self._by.setdefault(place, []).append(entity)

    def of(self, short: _Entity) -> list[_Entity]:
        key = short.key
        places: list[object] = [("last", key), ("key", (*key[:-1], key[-1].removesuffix("s")))]
        if len(key) == 1:
            places += [("first", key[0]), ("initials", key[0])]
        else:
            places.append(("ends", key[0], key[-1]))
        found = {entity.id: entity for place in places for entity in self._by.get(place, ())}
        return list(found.values())


def _initials(key: tuple[str, ...]) -> tuple[str, str]:
    """Of all words, and of those that are no function words."""
    return "".join(word[0] for word in key), "".join(word[0] for word in key if word not in STOP_WORDS)


def _is_alias(short: _Entity, full: _Entity) -> bool:
    """Whether `short` is a surname, a first name, an acronym, the end ("US Federal Reserve") or the plural of `full`."""
    if "NORP" in short.kinds & full.kinds and short.key == (*full.key[:-1], full.key[-1] + "s"):
        return True
    if len(full.key) <= len(short.key):
        return False
    if "PERSON" in full.kinds and short.kinds & set(_SURNAME_KINDS):
        if len(short.key) == 1:
            return short.key[0] in (full.key[-1], full.key[0])
        return short.key == full.key[-len(short.key) :] or short.key[:1] + short.key[-1:] == (
            full.key[0],
            full.key[-1],
        )
    if "ORG" in short.kinds & full.kinds and len(short.key) > 1:
        return short.key == full.key[-len(short.key) :]
    if len(short.key) == 1 and len(short.key[0]) > 1 and any(_is_acronym(name) for name in short.names):
        return short.key[0] in _initials(full.key)
    return False


def _is_acronym(name: str) -> bool:
    letters = name.replace(".", "").replace(" ", "")
    return letters.isalpha() and letters.isupper()


def replace_spans(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text with each span (in order, not overlapping) replaced.

    Example:
        >>> replace_spans("a cat sat", [(2, 5, "dog")])
        'a dog sat'
    """
    parts = []
    done = 0
    for start, end, replacement in spans:
        parts += [text[done:start], replacement]
        done = end
    return "".join([*parts, text[done:]])
