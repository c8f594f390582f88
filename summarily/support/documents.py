"""The text of a document as people keep them: plain text, Markdown, HTML and PDF."""

from __future__ import annotations

import bisect
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from summarily.support.errors import InputError, MissingRequirement
from summarily.support.requirements import pip_install
from summarily.support.tables import read_lines

ENDINGS = (".txt", ".text", ".md", ".markdown", ".html", ".htm", ".pdf")


def documents_in(folder: Path) -> list[Path]:
    """The documents of a folder and of those in it, by name; hidden ones are left out."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in ENDINGS
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise InputError(f"{folder} holds no document; expected some of {', '.join(ENDINGS)}.")
    return found


def read_document(path: Path) -> str:
    """The text of a document, paragraphs apart.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "page.html"
        >>> _ = file.write_text("<script>x()</script><h1>Snow</h1><p>It snowed in <b>Oslo</b>.</p>")
        >>> read_document(file)
        'Snow\\n\\nIt snowed in Oslo.'
    """
    ending = path.suffix.lower()
    if ending == ".pdf":
        return _of_pdf(path)
    text = "\n".join(read_lines(str(path)))
    if ending in (".html", ".htm"):
        return _of_html(text)
    return _of_markdown(text) if ending in (".md", ".markdown") else text


def _tidy(paragraphs: list[str]) -> str:
    lines = (" ".join(paragraph.split()) for paragraph in paragraphs)
    return "\n\n".join(line for line in lines if line)


# --- HTML -----------------------------------------------------------------------------------------------------

# What a page holds beside its text, and what begins a new paragraph.
_NO_TEXT = {
    "script",
    "style",
    "template",
    "noscript",
    "nav",
    "header",
    "footer",
    "aside",
    "form",
    "svg",
    "head",
}
_INLINE = {
    "a",
    "abbr",
    "b",
    "cite",
    "code",
    "em",
    "i",
    "mark",
    "q",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "u",
}
_EMPTY = {
    "br",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "wbr",
    "source",
    "area",
    "base",
    "col",
    "embed",
    "track",
}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self._parts: list[list[str]] = [[]]
        self._left_out: list[str] = []

    @property
    def paragraphs(self) -> list[str]:
        return ["".join(parts) for parts in self._parts]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if self._left_out:
            if tag == self._left_out[-1]:
                self._left_out.append(tag)
        elif tag in _NO_TEXT:
            self._left_out.append(tag)
        elif tag not in _INLINE:
            self._parts.append([])

    def handle_endtag(self, tag: str) -> None:
        if self._left_out:
            if tag == self._left_out[-1]:
                self._left_out.pop()
        elif tag not in _INLINE and tag not in _EMPTY:
            self._parts.append([])

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._parts[-1].append(data)


def _of_html(text: str) -> str:
    page = _Page()
    # What no ">" follows is no tag; the parser would look for one from each "<" to the end.
    tags = text.rfind(">") + 1
    page.feed(text[:tags] + text[tags:].replace("<", "&lt;"))
    page.close()
    return _tidy(page.paragraphs)


# --- Markdown -------------------------------------------------------------------------------------------------

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_FENCED = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.S | re.M)
_TABLE_LINE = re.compile(r"^[ \t]*\|.*\|[ \t]*$", re.M)
# Neither part holds the beginning of another one, so that time is linear in a text of beginnings.
_LINK = r"\[([^\[\]]*)\]\((?:(?!\]\()[^)])*\)"
_IMAGE_OR_LINK = re.compile(f"!?{_LINK}")
_PICTURE = re.compile(f"!{_LINK}")
_LINE_BEGIN = re.compile(r"^ {0,3}(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|\d+[.)][ \t]+)", re.M)
_MARKS = ("**", "__", "*", "`")


def _of_markdown(text: str) -> str:
    """The words of a Markdown text, without code, tables, pictures and marks.

    Example:
        >>> _of_markdown("# Snow\\n\\nIt *snowed* in [Oslo](https://example.org).\\n\\n```\\ncode\\n```\\n")
        'Snow\\n\\nIt snowed in Oslo.'
    """
    text = _FRONT_MATTER.sub("", text)
    for pattern in (_FENCED, _TABLE_LINE, _PICTURE):
        text = pattern.sub("", text)
    text = _IMAGE_OR_LINK.sub(r"\1", text)
    text = _LINE_BEGIN.sub("", text)
    text = "\n".join(map(_without_emphasis, text.split("\n")))
    return _tidy(re.split(r"\n\s*\n", text))


def _without_emphasis(line: str) -> str:
    """A line without the marks around a part of it; a mark that nothing closes is a character like others.

    As `(\\*\\*|__|\\*|`)(?=\\S)(.+?)(?<=\\S)\\1` replaced by its part, which looks for the end of each mark anew.

    Example:
        >>> _without_emphasis("**It** *snowed* in `Oslo`, 2 * 3 * 4")
        'It snowed in Oslo, 2 * 3 * 4'
    """
    ends: dict[str, list[int]] = {mark: [] for mark in _MARKS}
    for place in (match.start() for match in re.finditer(r"(?<=\S)[*_`]", line)):
        for mark in _MARKS:
            if line.startswith(mark, place):
                ends[mark].append(place)
    parts: list[str] = []
    done = 0
    for place in (match.start() for match in re.finditer(r"[*_`](?=.)", line)):
        if place < done:
            continue
        for mark in _MARKS:
            start = place + len(mark)
            if not line.startswith(mark, place) or line[start : start + 1].isspace():
                continue
            number = bisect.bisect_left(ends[mark], start + 1)
            if number < len(ends[mark]):
                parts += [line[done:place], line[start : ends[mark][number]]]
                done = ends[mark][number] + len(mark)
                break
    return "".join([*parts, line[done:]])


# --- PDF ------------------------------------------------------------------------------------------------------


def _of_pdf(path: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise MissingRequirement(f"{path.name} needs pypdf: {pip_install('files')}") from None
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    try:
        pages = [page.extract_text() for page in PdfReader(path).pages]
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:  # what damaged files cause in it
        raise InputError(
            f"{path} is not a PDF that can be read: {str(error) or type(error).__name__}"
        ) from None
    # A word that a line end has divided is one word.
    text = _tidy(
        [part for page in pages for part in re.split(r"\n\s*\n", re.sub(r"(\w)-\n(?=[a-z])", r"\1", page))]
    )
    if not text:
        raise InputError(f"{path} holds no text; if its pages are pictures, recognise their text first.")
    return text
