"""Words, sentences and stop words, by rules alone: nothing is downloaded, and time is linear in the text.

Words are runs of letters, lower-cased; digits and punctuation are no words. Sentences end at full stops,
question and exclamation marks and at line breaks, with the usual exceptions (abbreviations, initials,
decimals, list numbers, wrapped lines).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

# --- words ------------------------------------------------------------------------------------------------

_ASCII_WORD = re.compile(r"[A-Za-z]+")


@cache
def _unicode_word() -> Any:
    # `re` knows no combining marks, so it would cut Hindi words at their vowel signs.
    import regex

    return regex.compile(r"\p{L}[\p{L}\p{M}]*+")


@cache
def _letter_or_mark() -> Any:
    import regex

    return regex.compile(r"[\p{L}\p{M}]")


def _pattern(text: str) -> Any:
    return _ASCII_WORD if text.isascii() else _unicode_word()


class Word(NamedTuple):
    """A lower-cased word and where it stands: `text[start:end]` is the word as written."""

    text: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """The words of a text with their places.

    Example:
        >>> words("It's 5 o'clock")
        [Word(text='it', start=0, end=2), Word(text='s', start=3, end=4), Word(text='o', start=7, end=8), Word(text='clock', start=9, end=14)]
    """
    return [Word(m.group().lower(), m.start(), m.end()) for m in _pattern(text).finditer(text)]


def word_texts(text: str) -> list[str]:
    """The words of a text without their places, several times faster than `words`.

    Example:
        >>> word_texts("Snow-bound Boston, 2015.")
        ['snow', 'bound', 'boston']
    """
    if text.isascii() or not _letter_or_mark().search("".join(c for c in set(text) if c > "\x7f")):
        # Whatever is not ASCII is no letter either, and becomes a space like all that is none.
        return text.encode("ascii", "replace").translate(_LETTERS_OR_SPACES).decode("ascii").split()
    # Lower-casing first could move letters ("İ" becomes two characters), so each word is lowered on its own.
    return [word.lower() for word in _unicode_word().findall(text)]


_LETTERS_OR_SPACES = bytes(byte if chr(byte).isalpha() and byte < 128 else 32 for byte in range(256)).lower()


def _listed(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# --- stop words -------------------------------------------------------------------------------------------

STOP_WORDS = _listed(
    # articles, demonstratives, quantifiers
    "a an the this that these those such some any each every either neither no none all both few more most "
    "much many several other others another own same only "
    # pronouns
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself "
    "she her hers herself it its itself they them their theirs themselves one ones who whom whose which what "
    # prepositions and particles
    "about above across after against along among around as at before behind below beneath beside besides "
    "between beyond by down during for from in inside into near of off on onto out outside over per since "
    "through throughout to toward towards under until up upon via with within without "
    # conjunctions
    "and but or nor so yet if because while whereas although though unless than whether "
    # auxiliaries
    "am is are was were be been being do does did doing done have has had having can could will would shall "
    "should may might must ought cannot "
    # adverbs without content of their own
    "not also again further then once here there when where why how too very just now even ever still "
    "already always almost quite rather however therefore thus else "
    # pieces that contractions fall into: "don't" is read as "don", "t"
    "s t d m ll re ve ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn "
    "wasn weren won wouldn"
)
"""English function words."""

STOP_WORDS_NAME = f"summarily-en-{len(STOP_WORDS)}"
"""How signatures name `STOP_WORDS`."""

# --- sentences --------------------------------------------------------------------------------------------

# Every alternative succeeds at the first character it can start with and gives nothing back, so that a
# megabyte of dots costs one pass, not one per dot.
_CANDIDATE = re.compile(
    r"""(?P<marks>[.!?…]++)(?P<closing>(?:["'”’»)\]]|\s'')*+)(?P<space>\s*+)
      | (?P<wide>[。！？｡]++[”’」』）]*+)\s*+
      | (?P<line>\n\s*+)""",
    re.VERBOSE,
)
_OPENING = re.compile(r"""["'“‘«`(\[—–-]*+\s?""")
_LAST_TOKEN = re.compile(r"""[^\s"'“”‘’()\[\]]*\Z""")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_HAS_WORD = re.compile(r"\w")

_NEVER_LAST = _listed(
    "adm attys brig capt cmdr col cpl det dr fr gen gov hon insp lt maj messrs mlle mme mr mrs ms mt pres prof "
    "rep reps rev sen sens sgt st supt approx ca cf e.g i.e viz vs"
)
"""Abbreviations that stand in front of something, as a name: never the end of a sentence."""

_ABBREVIATIONS = _listed(
    "al apt assn assoc ave bros co corp dept est etc ext feat ft hq inc jan feb mar apr jun jul aug sep sept "
    "oct nov dec jr sr llc ltd misc mon tue wed thu fri natl orig ph.d rd"
)
"""Abbreviations that may end a sentence, if what follows looks like a beginning."""

_BEFORE_NUMBERS = _listed("no nos fig figs p pp vol art eq eqs ch chap sect")

_STARTERS = _listed(
    "a an the this that these those he she it its they we you i his her their our my there here what who when "
    "where why how in on at by for from with after before since during as if although though while however "
    "but and or so yet then meanwhile also one some many most all both no not"
)
"""Words that, after an abbreviation, say that a new sentence has begun."""

_LONGEST_TOKEN = 24


def sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space around them.

    Example:
        >>> sentences('Dr. J. Smith paid $3.50. "Why?" he asked. Nobody knew')
        ['Dr. J. Smith paid $3.50.', '"Why?" he asked.', 'Nobody knew']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text start and end.

    Example:
        >>> sentence_spans("One. Two.")
        [(0, 4), (5, 9)]
    """
    spans: list[tuple[int, int]] = []
    # In a text without capitals, a small letter after a full stop says nothing.
    uncased = text == text.lower()
    start = 0
    for match in _CANDIDATE.finditer(text):
        if match.end() < len(text) and _is_boundary(text, match, start, uncased):
            _append(spans, text, start, match.end())
            start = match.end()
    _append(spans, text, start, len(text))
    return spans


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Where sentences start and end, also where they begin with a small letter, as highlights do.

    Example:
        >>> sentences_of("Arsenal beat Burnley. a goal won it.")
        [(0, 21), (22, 36)]
    """
    lowered = text.lower()
    # Some letters change their length ("İ"); then the places would not be those of the text.
    return sentence_spans(lowered if len(lowered) == len(text) else text)


def _append(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if not stripped:
        return
    start += len(piece) - len(piece.lstrip())
    end = start + len(stripped)
    if spans and not _HAS_WORD.search(stripped):
        # Stray punctuation belongs to the sentence before it.
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((start, end))


def _is_boundary(text: str, match: re.Match[str], sentence_start: int, uncased: bool) -> bool:
    if match["wide"]:
        return True
    following = _following(text, match.end())
    continues = following.islower() and not uncased
    if match["line"] is not None:
        wrapped = continues and match["line"].count("\n") == 1
        return not wrapped
    space = match["space"]
    if space.count("\n") > 1:
        return True
    if not space or continues:
        return False
    if match["marks"] != ".":
        return True
    return _ends_at_full_stop(text, match, sentence_start, following, "\n" in space)


def _following(text: str, position: int) -> str:
    """The first word after `position`, or the first character if it is none."""
    position = _OPENING.match(text, position).end()  # type: ignore[union-attr]
    word = _FIRST_WORD.match(text, position, position + _LONGEST_TOKEN)
    return word.group() if word else text[position : position + 1]


def _ends_at_full_stop(
    text: str, match: re.Match[str], sentence_start: int, following: str, at_line_end: bool
) -> bool:
    dot = match.start()
    left = max(sentence_start, dot - _LONGEST_TOKEN)
    token = _LAST_TOKEN.search(text[left:dot]).group()  # type: ignore[union-attr]
    if not token:
        return True  # a full stop that stands alone, as in tokenised text
    lowered = token.lower()
    if lowered.isdecimal():
        return text[sentence_start:dot].strip() != token  # else the number of a list item
    if lowered in _NEVER_LAST:
        return False
    last = lowered.rsplit(".", 1)[-1]
    if len(last) == 1 and last.isalpha():  # an initial, "U.S.", "p.m."
        return following.lower() in _STARTERS if "." not in token else at_line_end or _starts(following)
    if lowered in _ABBREVIATIONS:
        return at_line_end or _starts(following)
    if lowered in _BEFORE_NUMBERS:
        return not following[:1].isdigit()
    return True


def _starts(following: str) -> bool:
    return following.lower() in _STARTERS
