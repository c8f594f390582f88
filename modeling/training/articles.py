"""What news sites put around an article and what is no part of its text: one cleaning for all models and baselines."""

from __future__ import annotations

import re

# "By Ann Author", "By\nAnn Author\nand Bob Writer for MailOnline": a paragraph of short lines at the top.
_BYLINE = re.compile(
    r"\A\s*By\s*\n(?:[^\n]{1,60}\n){1,4}\s*\n|\A\s*By [A-Z][^\n.]{1,60}\n\s*\n", re.MULTILINE
)
_DATES = re.compile(
    r"^\s*(?:PUBLISHED:|UPDATED:|CREATED:|\||Last updated at [^\n]{5,40}"
    r"|\d{1,2}:\d\d (?:EST|GMT|BST|EDT), \d{1,2} \w+ \d{4})\s*$",
    re.MULTILINE,
)
_ASIDE = re.compile(
    r"^\s*(?:scroll down (?:for|to)[^\n]{0,40}|warning: graphic[^\n]{0,40}|view\s*comments|\d+\s*(?:shares|comments)"
    r"|(?:shares|comments)\s*\(?\d*\)?)\s*$",
    re.MULTILINE | re.IGNORECASE,
)
# "(CNN)", "Moscow (CNN) --": the dateline at the start of an article.
_DATELINE = re.compile(r"^[^().\n]{0,60}\(CNN\)\s*(?:--?)?\s*")
_CASED_WORD = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W\d_]+(?:['\u2019][^\W\d_]+)?")  # U.S., don't
_ENDS = re.compile(r"[.!?][\"'\u2019\u201d)\]]*$")


def without_furniture(text: str) -> str:
    """A Daily Mail or CNN article without byline, dates and calls to scroll down.

    Lines of one paragraph, which are broken in odd places, become one.

    Example:
        >>> without_furniture("By\\nAnn Author\\n\\nPUBLISHED:\\n\\n10:50 EST, 4 October 2012\\n\\nIt\\nrained.\\n\\nScroll down for video")
        'It rained.'
    """
    text = _ASIDE.sub("", _DATES.sub("", _BYLINE.sub("", text.replace("\u00a0", " "), count=1)))
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return "\n".join(part for part in paragraphs if part)


def without_dateline(text: str) -> str:
    """An article without "Moscow (CNN) --" at its start.

    Example:
        >>> without_dateline("Moscow (CNN) -- It rained.")
        'It rained.'
    """
    return _DATELINE.sub("", text)


def with_stops(text: str) -> str:
    """The text with a full stop after each line that ends in no punctuation, so that sentences can be told apart.

    Example:
        >>> with_stops("Snow closed the airport\\n'It was cold.'")
        "Snow closed the airport.\\n'It was cold.'"
    """
    lines = (re.sub(r"\s+([.!?,])", r"\1", line.strip()) for line in text.splitlines())
    return "\n".join(line if _ENDS.search(line) else f"{line}." for line in lines if line)


def cased_as(text: str, source: str) -> str:
    """A text in capitals with the case that its words have in the source; others stay as they are.

    A word that the source has in small letters, or has not got, is small; the first is capitalised.

    Example:
        >>> cased_as("STANDARD OIL TO FORM UNIT OF U.S. BANK", "Standard Oil Co said a unit of a U.S. bank will form.")
        'Standard Oil to form unit of U.S. bank'
    """
    if text != text.upper():
        return text
    cases: dict[str, str] = {}
    for word in _CASED_WORD.findall(source):
        known = cases.get(word.lower())
        if known is None or word.islower():
            cases[word.lower()] = word
    found = _CASED_WORD.sub(lambda match: cases.get(match[0].lower(), match[0].lower()), text)
    return found[:1].upper() + found[1:]
