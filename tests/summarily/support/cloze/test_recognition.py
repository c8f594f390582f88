"""The recogniser: remembered by content, on disk and in memory, the same with a helper and for long texts."""

from __future__ import annotations

import pytest

from summarily.support.cloze import recognition
from summarily.support.cloze.recognition import Mention, Recogniser, _pieces
from summarily.support.errors import MissingRequirement
from summarily.support.sample import load_sample

TEXTS = ["Angela Merkel flew to Oslo.", "", "Snow fell.", "The Norwegians met Microsoft at Wembley Stadium."]


def test_types_are_the_papers():
    found = Recogniser("spacy-small", None, 1)([*TEXTS, "It cost $5 on Monday in the Alps."])
    assert found[0] == (Mention("Angela Merkel", "PERSON"), Mention("Oslo", "GPE"))
    assert found[1] == found[2] == ()
    assert {kind for mentions in found for _, kind in mentions} <= set(recognition.KINDS)
    assert {"NORP", "ORG"} <= {kind for _, kind in found[3]}
    assert found[4] == (), "money, dates and mountains are not asked about"


def test_vectors_that_nobody_reads_are_not_computed(monkeypatch):
    """Which is a third of the time; a recogniser that does read them keeps them."""
    import spacy

    own = Recogniser("spacy-small", None, 1)
    assert recognition._pipeline(own.path).pipe_names == ["ner"]
    listening = spacy.blank("en")
    listening.add_pipe("tok2vec")
    model = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
    listening.add_pipe("ner", config={"model": {"tok2vec": model}})
    monkeypatch.setattr(spacy, "load", lambda path, exclude: listening)
    assert recognition._pipeline("listening").pipe_names == ["tok2vec", "ner"]


def test_a_text_is_read_once(monkeypatch, tmp_path):
    read: list[str] = []
    original = recognition.recognise
    monkeypatch.setattr(
        recognition, "recognise", lambda path, texts: read.extend(texts) or original(path, texts)
    )
    one = Recogniser("spacy-small", str(tmp_path), 1)
    expected = one(TEXTS)
    assert sorted(read) == sorted(TEXTS)
    assert one([*TEXTS, TEXTS[0]]) == [*expected, expected[0]]
    another = Recogniser("spacy-small", str(tmp_path), 1)
    assert another(TEXTS) == expected
    another.clear()
    assert another(TEXTS) == expected
    assert len(read) == len(TEXTS), "from memory, or from disk"


def test_a_helper_finds_the_same(monkeypatch):
    texts = [row["source"] for row in load_sample()[:6]] + TEXTS
    alone = Recogniser("spacy-small", None, 1)(texts)
    monkeypatch.setattr(recognition, "WORTH_A_PROCESS", 2)
    helped = Recogniser("spacy-small", None, 2)
    assert helped(texts) == alone
    assert helped._helper is not None
    assert helped(["Snow fell in Paris."]) == [(Mention("Paris", "GPE"),)], "it is used again"
    helped._helper._process.kill()
    assert helped(["Snow fell in Berlin."]) == [(Mention("Berlin", "GPE"),)], "it may die"
    helped.clear()
    assert helped(texts) == alone, "and another takes its place"


def test_a_long_text_is_read_in_pieces_that_lose_nothing(monkeypatch):
    monkeypatch.setattr(recognition, "_LONGEST_PIECE", 60)
    text = "Angela Merkel flew to Oslo on Monday. " * 5 + "x" * 150
    pieces = list(_pieces(text))
    assert max(map(len, pieces)) <= 60
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert (
        Recogniser("spacy-small", None, 1)([text])[0]
        == (Mention("Angela Merkel", "PERSON"), Mention("Oslo", "GPE")) * 5
    )


@pytest.mark.parametrize(
    ("longest", "text", "expected"),
    [
        (21, "Snow fell. Rain fell. Hail fell.", ["Snow fell. Rain fell.", "Hail fell."]),
        (20, "Snow fell. Rain fell. Hail fell.", ["Snow fell.", "Rain fell.", "Hail fell."]),
        (11, "Snow fell. ", ["Snow fell. "]),
        (10, "Snow fell. ", ["Snow fell."]),
        (10, "x" * 20, ["x" * 10] * 2),
        (10, "x" * 25, ["x" * 10, "x" * 10, "x" * 5]),
    ],
)
def test_what_ends_exactly_at_the_limit_is_one_piece(longest, text, expected, monkeypatch):
    monkeypatch.setattr(recognition, "_LONGEST_PIECE", longest)
    assert list(_pieces(text)) == expected


def test_a_model_that_is_not_here_says_how_to_get_it():
    with pytest.raises(MissingRequirement, match="python -m spacy download en_core_web_xl"):
        Recogniser("en_core_web_xl", None, 1)


def test_the_helper_imports_nothing_of_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "spacy.py").write_text("open('ran', 'w').close()\nraise SystemExit(1)\n")
    path = recognition.recogniser().path
    monkeypatch.chdir(tmp_path)
    helper = recognition._Helper(path)
    try:
        helper.send(["Angela Merkel arrived in Oslo."])
        [[mention, *_]] = helper.receive()
    finally:
        helper.end()
    assert mention.name == "Angela Merkel" and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text", ["Snow fell in Oslo. " * 60_000, "x" * 1_100_000], ids=["sentences", "one word"]
)
def test_no_piece_is_longer_than_spacy_reads_at_once(text):
    assert len(text) > 1_000_000, "which spaCy refuses"
    pieces = list(_pieces(text))
    assert max(map(len, pieces)) <= recognition._LONGEST_PIECE < 1_000_000
    assert sum(piece.count("Oslo") for piece in pieces) == text.count("Oslo")
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
