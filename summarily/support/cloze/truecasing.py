"""Capital letters for text that has lost them, from cased text of the same kind.

Lower-cased text ruins entity recognition. A word gets the spelling it has most often inside the sentences of the cased
texts; words they do not have stay as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from summarily.support.text import sentence_spans, sentences_of

_WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*")


class Truecaser:
    """Learns spellings from cased texts; call it with a text to restore.

    Example:
        >>> truecase = Truecaser(["He met Angela Merkel in Oslo.", "Snow fell in Oslo."])
        >>> truecase("angela merkel left oslo . snow fell .")
        'Angela Merkel left Oslo . Snow fell .'
    """

    def __init__(self, texts: Iterable[str]):
        counts: dict[str, Counter[str]] = {}
        for text in texts:
            starts = {start for start, _ in sentence_spans(text)}
            for match in _WORD.finditer(text):
                # The first word of a sentence is capitalised whatever it is.
                if match.start() not in starts:
                    counts.setdefault(match.group().lower(), Counter())[match.group()] += 1
        self._spelling = {word: found.most_common(1)[0][0] for word, found in counts.items()}

    def __call__(self, text: str) -> str:
        restored = _WORD.sub(lambda match: self._spelling.get(match.group().lower(), match.group()), text)
        pieces = []
        done = 0
        for start, end in sentences_of(text):
            pieces += [restored[done:start], restored[start : start + 1].upper(), restored[start + 1 : end]]
            done = end
        return "".join([*pieces, restored[done:]])


def restored(texts: Iterable[str], cased: Iterable[str]) -> list[str]:
    """The texts, those without any capital with the capitals that their words have in `cased`.

    Example:
        >>> restored(["angela merkel left oslo", "Snow fell in oslo"], ["He met Angela Merkel in Oslo."])
        ['Angela Merkel left Oslo', 'Snow fell in oslo']
    """
    found = list(texts)
    if any(text.islower() for text in found):
        truecase = Truecaser(text for text in cased if not text.islower())
        found = [truecase(text) if text.islower() else text for text in found]
    return found
