"""From a text to what ROUGE counts: units (lines or sentences), a length limit, tokens, stems."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import normalize

from summarily.metrics.explanations import Token
from summarily.metrics.rouge.lcs import Columns
from summarily.support.errors import InputError

# --- stems ------------------------------------------------------------------------------------------------


class Stems(dict[str, str]):
    """Words and their stems, filled as words come. Words of up to three letters are their own stem.

    Example:
        >>> from summarily.metrics.rouge.stemmers import PorterStemmer
        >>> stems = Stems(PorterStemmer().stem, exceptions={"geese": "goose"})
        >>> stems["running"], stems["geese"], stems["was"]
        ('run', 'goose', 'was')
    """

    max_size = 2**17
    longest = 64

    def __init__(self, stem: Callable[[str], str], exceptions: Mapping[str, str] | None = None):
        self.stem = stem
        self.exceptions = exceptions or {}

    def __missing__(self, word: str) -> str:
        if len(word) <= 3 or not word.isascii():
            stem = word
        else:
            stem = self.exceptions.get(word) or self.stem(word)
        if len(word) <= self.longest:
            if len(self) >= self.max_size:
                self.clear()
            self[word] = stem
        return stem


def read_exceptions(path: str) -> tuple[dict[str, str], str]:
    """WordNet's exception lists (a folder with adj.exc, adv.exc, noun.exc, verb.exc, or one file), and a
    digest of them for the signature. Where two lists disagree, the later one in this order holds."""
    source = Path(path)
    if not source.exists():
        raise InputError(f"wordnet_exceptions: there is no {path!r}.")
    files = sorted(source.glob("*.exc")) if source.is_dir() else [source]
    if not files:
        raise InputError(f"wordnet_exceptions: {path!r} has no .exc files.")
    exceptions: dict[str, str] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            form, *bases = line.split()[:2] or [""]
            if bases:
                exceptions[form] = bases[0]
    if not exceptions:
        raise InputError(f"wordnet_exceptions: {path!r} has no line of the form 'inflected base'.")
    listed = "\n".join(f"{form} {base}" for form, base in sorted(exceptions.items()))
    return exceptions, hashlib.sha256(listed.encode()).hexdigest()[:8]


# --- tokens -----------------------------------------------------------------------------------------------

_LETTERS_AND_DIGITS = b"abcdefghijklmnopqrstuvwxyz0123456789\n"
_CLEAN = bytes(code if code in _LETTERS_AND_DIGITS else ord(" ") for code in bytes(range(256)).lower())
"""For `bytes.translate`: lower case, and a space for all but ASCII letters, digits and line breaks."""

_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+")


_WHITE_SPACE_TOKEN = re.compile(r"\S+")


@cache
def _unicode_token() -> Any:
    import regex

    single = r"[[\p{Han}\p{Hiragana}\p{Katakana}ー]&&[\p{L}\p{N}]]"
    return regex.compile(rf"{single}\p{{M}}*+|[[\p{{L}}\p{{N}}\p{{M}}]--{single}]++", regex.V1)


class Text:
    """A text that has been read: its tokens, and its lines for the summary-level LCS.

    What is derived from them is computed when first asked for, and kept.
    """

    _words: set[str] | None = None
    _counts: Counter[str] | None = None
    _columns: Columns | None = None
    _distinct_lines: dict[tuple[str, ...], None] | None = None

    def __init__(self, tokens: list[str], lines: list[list[str]], truncated: bool):
        self.tokens = tokens
        self.lines = lines
        self.truncated = truncated

    @property
    def words(self) -> set[str]:
        """The distinct tokens."""
        if self._words is None:
            self._words = set(self.tokens)
        return self._words

    @property
    def counts(self) -> Counter[str]:
        if self._counts is None:
            self._counts = Counter(self.tokens)
        return self._counts

    @property
    def distinct_lines(self) -> dict[tuple[str, ...], None]:
        if self._distinct_lines is None:
            self._distinct_lines = dict.fromkeys(map(tuple, self.lines))
        return self._distinct_lines

    @property
    def columns(self) -> Columns:
        """The distinct lines; one that is there twice adds nothing to a union."""
        if self._columns is None:
            self._columns = Columns(self.distinct_lines)
        return self._columns


class Reader:
    """Reads texts in one of ROUGE's ways. `mode`, `tokenizer` and so on as for `Rouge`.

    Example:
        >>> text = Reader(limit_words=3).read("The cat\\nsat on it.")
        >>> text.tokens, text.lines, text.truncated
        (['the', 'cat', 'sat'], [['the', 'cat'], ['sat']], True)
    """

    def __init__(
        self,
        mode: str = "google",
        tokenizer: str = "ascii",
        stems: Stems | None = None,
        limit_bytes: int | None = None,
        limit_words: int | None = None,
        split_sentences: bool = False,
    ):
        self.perl = mode == "perl"
        self.ascii = tokenizer == "ascii"
        # In ASCII texts the words of both are the same, and quicker found.
        self.unicode = tokenizer == "unicode"
        self.stems = stems
        self.limit_bytes = limit_bytes
        self.limit_words = limit_words
        self.split_sentences = split_sentences
        # ROUGE-1.5.5 forgets to add up the bytes of lines when it reads them for ROUGE-L: every line that is
        # shorter than the limit is kept, up to the first that is not.
        self.lines_differ = self.perl and limit_bytes is not None
        self.whole_lines = limit_bytes is None and limit_words is None and not split_sentences

    def read(self, text: str, with_lines: bool = True) -> Text:
        """The tokens of a text, and its lines if they are wanted."""
        if self.whole_lines:
            if with_lines and "\n" in text:
                lines = self._lines(text)
                return Text([token for line in lines for token in line], lines, False)
            tokens = self._tokens(text)
            return Text(tokens, [tokens] if tokens else [], False)
        units, truncated = self.units(text)
        lines = [self._tokens(text[start:end]) for start, end in units]
        tokens = [token for line in lines for token in line]
        if with_lines and self.lines_differ:
            lines = [self._tokens(text[start:end]) for start, end in self.line_units(text)]
        return Text(tokens, [line for line in lines if line], truncated)

    # Lower-casing goes first in google mode, so that "İ" gives an "i" and the Kelvin sign a "k"; Perl reads
    # bytes and knows ASCII letters only.

    def _clean(self, text: str) -> str:
        if not self.perl and not text.isascii():
            text = text.lower()
        return text.encode("ascii", "replace").translate(_CLEAN).decode("ascii")

    def _tokens(self, text: str) -> list[str]:
        if self.ascii or self._quick(text):
            tokens = self._clean(text).split()
        else:
            tokens = [_unicode_form(word) for word in self._pattern().findall(text)]
        return tokens if self.stems is None else [self.stems[token] for token in tokens]

    def _quick(self, text: str) -> bool:
        return self.unicode and text.isascii()

    def _pattern(self) -> Any:
        return _unicode_token() if self.unicode else _WHITE_SPACE_TOKEN

    def _lines(self, text: str) -> list[list[str]]:
        if self.ascii or self._quick(text):
            lines = [tokens for line in self._clean(text).split("\n") if (tokens := line.split())]
            stems = self.stems
            return lines if stems is None else [[stems[token] for token in line] for line in lines]
        return [tokens for line in text.split("\n") if (tokens := self._tokens(line))]

    # --- units and limits ---

    def units(self, text: str) -> tuple[list[tuple[int, int]], bool]:
        """Where the lines (or sentences) start and end, as far as the limit goes; whether it cut anything."""
        return self._limited(text, self._all_units(text), add_up=True)

    def line_units(self, text: str) -> list[tuple[int, int]]:
        """As `units`, but as the summary-level LCS sees them."""
        return self._limited(text, self._all_units(text), add_up=not self.lines_differ)[0]

    def _all_units(self, text: str) -> list[tuple[int, int]]:
        if self.split_sentences:
            from summarily.support.text import sentence_spans

            return sentence_spans(text)
        units, start = [], 0
        for line in text.split("\n"):
            if line:
                units.append((start, start + len(line)))
            start += len(line) + 1
        return units

    def _limited(
        self, text: str, units: list[tuple[int, int]], add_up: bool
    ) -> tuple[list[tuple[int, int]], bool]:
        limit = self.limit_bytes or self.limit_words
        if limit is None:
            return units, False
        size_of, prefix = (_bytes, _byte_prefix) if self.limit_bytes else (self._words, self._word_prefix)
        kept: list[tuple[int, int]] = []
        used = 0
        for start, end in units:
            size = size_of(text[start:end])
            if used + size >= limit:
                stop = start + prefix(text[start:end], limit - used)
                return [*kept, (start, stop)], stop < end or len(kept) + 1 < len(units)
            kept.append((start, end))
            if add_up:
                used += size
        return kept, False

    def _words(self, line: str) -> int:
        return sum(1 for _ in self._word_ends(line))

    def _word_prefix(self, line: str, n: int) -> int:
        for k, end in enumerate(self._word_ends(line), 1):
            if k == n:
                return end
        return len(line)

    def _word_ends(self, line: str) -> Iterator[int]:
        # Perl's split gives an empty first word for a line that starts with white space, and counts it.
        if self.perl and line.strip(_WHITE) and line[0] in _WHITE:
            yield 0
        for match in _BETWEEN_WHITE.finditer(line):
            yield match.end()

    # --- places ---

    def places(self, text: str) -> list[Token]:
        """The tokens of `read(text).tokens` with their places in the text."""
        return self._places(text, self.units(text)[0])

    def line_places(self, text: str) -> list[Token]:
        """The tokens of all `read(text).lines`, one after another, with their places in the text."""
        return self._places(text, self.line_units(text))

    def _places(self, text: str, units: list[tuple[int, int]]) -> list[Token]:
        found = [
            Token(self._form(word), start + first, start + last)
            for start, end in units
            for word, first, last in self._words_with_places(text[start:end])
        ]
        stems = self.stems
        return found if stems is None else [replace(token, text=stems[token.text]) for token in found]

    def _form(self, word: str) -> str:
        return word.lower() if self.ascii else _unicode_form(word)

    def _words_with_places(self, text: str) -> Iterator[tuple[str, int, int]]:
        if not self.ascii:
            for match in self._pattern().finditer(text):
                yield match.group(), match.start(), match.end()
            return
        lowered = text if self.perl else text.lower()
        # Where lower-casing made one character two, places are found by counting.
        origin: Any = range(len(text))
        if len(lowered) != len(text):
            origin = [i for i, character in enumerate(text) for _ in character.lower()]
        for match in _ASCII_TOKEN.finditer(lowered):
            yield match.group(), origin[match.start()], origin[match.end() - 1] + 1


_WHITE = " \t\n\r\f\v"
_BETWEEN_WHITE = re.compile(r"[^ \t\n\r\f\v]+")


def _unicode_form(word: str) -> str:
    return normalize("NFC", word.lower())


def _bytes(line: str) -> int:
    return len(line.encode())


def _byte_prefix(line: str, n: int) -> int:
    # A character that is cut in two is dropped.
    return len(line.encode()[:n].decode("utf-8", "ignore"))
