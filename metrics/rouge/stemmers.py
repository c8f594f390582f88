"""The stemmers of ROUGE. Apart from the rest, because nltk takes longer to import than a thousand summaries to score."""

from __future__ import annotations

import re

from nltk.stem.porter import PorterStemmer

__all__ = ["PerlPorterStemmer", "PorterStemmer"]


class PerlPorterStemmer(PorterStemmer):
    """The Porter stemmer that is inside ROUGE-1.5.5.

    It has Porter's own later rules for -bli and -logi, and in step 4 tries -ment and then -ent or -ion also
    after another suffix was tried: "experimental" ends as "experi", "agreement" as "agreem".

    Example:
        >>> PerlPorterStemmer().stem("agreement"), PerlPorterStemmer().stem("they")
        ('agreem', 'thei')
    """

    _step4_suffixes = (
        re.compile("(al|ance|ence|er|ic|able|ible|ant|ement|ou|ism|ate|iti|ous|ive|ize)$"),
        re.compile("ment$"),
        re.compile("(ent|(?<=[st])ion)$"),
    )

    def __init__(self) -> None:
        super().__init__(mode=PorterStemmer.MARTIN_EXTENSIONS)

    def _ends_double_consonant(self, word: str) -> bool:
        return not word.endswith("yy") and super()._ends_double_consonant(word)

    def _step4(self, word: str) -> str:
        for suffix in self._step4_suffixes:
            found = suffix.search(word)
            if found and self._measure(word[: found.start()]) > 1:
                word = word[: found.start()]
        return word
