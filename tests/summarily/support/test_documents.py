"""The text of documents, and the command that summarizes them."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarily.cli import main
from summarily.support import documents
from summarily.support.documents import documents_in, read_document
from summarily.support.errors import InputError


def pdf(*lines: str) -> bytes:
    """A page of text, as small as the format allows."""
    shown = " 0 -14 Td ".join(f"({line}) Tj" for line in lines)
    stream = f"BT /F1 12 Tf 72 720 Td {shown} ET"
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    text, places = "%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(text))
        text += f"{number} 0 obj{content}endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer<</Size 6/Root 1 0 R>>\nstartxref\n{len(text)}\n%%EOF\n"
    return f"{text}xref\n0 6\n0000000000 65535 f \n{table}{end}".encode()


def test_a_page_is_its_text_without_menus_and_scripts(tmp_path):
    file = tmp_path / "a.html"
    file.write_text(
        "<html><head><title>T</title></head><body><nav><a href=x>Menu</a></nav><h1>Snow &amp; ice</h1>"
        "<p>It <b>snowed</b> in\n Oslo.<br>Twice.</p><script>if (a < b) x()</script><footer>(c)</footer></body></html>"
    )
    assert read_document(file) == "Snow & ice\n\nIt snowed in Oslo.\n\nTwice."


def test_markdown_is_its_words(tmp_path):
    file = tmp_path / "a.md"
    file.write_text(
        "---\na: b\n---\n# Snow\n\n- It **snowed**\n\n![map](m.png)\n\n| a | b |\n|---|---|\n\nin `Oslo`.\n"
    )
    assert read_document(file) == "Snow\n\nIt snowed\n\nin Oslo."


def test_a_pdf_is_its_text_with_divided_words_whole(tmp_path):
    pytest.importorskip("pypdf", reason='pip install "summarily[files]"')
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf("It snowed in Oslo, and the air-", "port was closed."))
    assert read_document(file) == "It snowed in Oslo, and the airport was closed."
    file.write_bytes(b"no pdf")
    with pytest.raises(InputError, match="is not a PDF that can be read"):
        read_document(file)


def test_a_folder_gives_its_documents_by_name(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/two.md", "one.txt", ".hidden.txt", "picture.png"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in documents_in(tmp_path)] == ["two.md", "one.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no document"):
        documents_in(tmp_path / "empty")


def test_the_command_prints_a_summary_for_each_file(tmp_path, capsys):
    (tmp_path / "one.txt").write_text("It rained. It poured.")
    (tmp_path / "two.md").write_text("# Snow\n\nIt snowed in *Oslo*. It melted.")
    assert main(["summarize", str(tmp_path), "--model", "lead"]) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path / 'one.txt'}\nIt rained. It poured.\n\n{tmp_path / 'two.md'}\n" in out
    assert main(["summarize", str(tmp_path), "--model", "lead", "--output", str(tmp_path / "t.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row["file"] for row in rows] == [str(tmp_path / "one.txt"), str(tmp_path / "two.md")]
    for wrong, says in (
        ("https://example.org/a.html", "save the page"),
        (str(tmp_path / "no.txt"), "there is no file"),
    ):
        assert main(["summarize", wrong, "--model", "lead"]) == 2
        assert says in capsys.readouterr().err


def test_a_long_text_is_read_in_pieces_and_that_is_said(tmp_path, capsys):
    file = tmp_path / "long.txt"
    file.write_text(
        "Acme Corp said its board approved a stock split and raised its dividend on Tuesday. " * 12
    )
    assert main(["summarize", str(file), "--model", "headlines", "--max-length", "6", "--beams", "1"]) == 0
    pieces = capsys.readouterr()
    assert "long.txt: longer than the 128 tokens that headlines reads at once" in pieces.err
    assert (
        main(
            [
                "summarize",
                str(file),
                "--model",
                "headlines",
                "--max-length",
                "6",
                "--beams",
                "1",
                "--long",
                "truncate",
            ]
        )
        == 0
    )
    beginning = capsys.readouterr()
    assert "only their beginning is read" in beginning.err
    assert len(pieces.out.split()) > len(beginning.out.split())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[" * 300_000, "a.md"),
        ("[a](" * 80_000, "a.md"),
        ("*a " * 100_000, "a.md"),
        ("`a " * 100_000, "a.md"),
        ("<a " * 100_000, "a.html"),
        ("<a b='" * 50_000, "a.html"),
        ("a<b>" * 80_000, "a.html"),
    ],
    ids=["brackets", "links", "emphasis", "code", "tags", "quotes", "inline"],
)
def test_marks_that_never_end_take_no_more_time_than_others(text, name, tmp_path):
    """Each was looked for to the end of the text: 20,000 characters took seconds, these would take many minutes."""
    file = tmp_path / name
    file.write_text(text)
    start = time.process_time()
    assert read_document(file)
    assert time.process_time() - start < 30


@given(st.text("*_`ab ", max_size=16))
@settings(max_examples=300, deadline=None)
def test_emphasis_is_what_its_pattern_finds(line):
    pattern = r"(\*\*|__|\*|`)(?=\S)(.+?)(?<=\S)\1"
    assert documents._without_emphasis(line) == re.sub(pattern, r"\2", line)
