"""One piece of logic stands in one place: no ten lines are written twice, outside tests and tables of names."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.test_direction import modules

LINES = 10


def lines_of_code(text: str) -> list[tuple[int, str]]:
    """Numbered lines without their white space; blank lines, comments, imports and lone punctuation do not count."""
    found = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    return [
        (number, line)
        for number, line in found
        if re.search(r"\w", line) and not re.match(r"#|(from|import)\s", line)
    ]


def repeated(texts: dict[str, str]) -> list[str]:
    places = defaultdict(list)
    for name, text in texts.items():
        lines = lines_of_code(text)
        for first in range(len(lines) - LINES + 1):
            run = tuple(line for _, line in lines[first : first + LINES])
            places[run].append(f"{name}, line {lines[first][0]}")
    return [" and ".join(found) for found in places.values() if len(found) > 1]


def test_no_ten_lines_stand_in_two_places():
    texts = {
        module: path.read_text(encoding="utf-8")
        for module, path in modules().items()
        if path.name != "__init__.py"
    }
    assert not repeated(texts)


def test_what_is_written_twice_is_found():
    body = "\n".join(f"value_{i} = {i}" for i in range(LINES))
    assert repeated({"a": body, "b": f"import os\n\n{body}\n"}) == ["a, line 1 and b, line 3"]
    assert not repeated({"a": body, "b": body.rpartition("\n")[0]})
