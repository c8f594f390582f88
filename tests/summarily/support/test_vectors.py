"""Static word vectors: the formats they come in, and what signatures call them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import zipfile

import numpy as np
import pytest

from summarily.support import models, vectors
from summarily.support.errors import InputError, MissingRequirement
from summarily.support.vectors import Vectors, load

WORDS = ["snow", "fell", ". . .", "zürich"]
MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3) / 7


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SUMMARILY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def text_lines() -> str:
    rows = zip(WORDS, MATRIX, strict=True)
    return "".join(f"{word} {' '.join(repr(float(x)) for x in row)}\n" for word, row in rows)


def write_text(path, header=False):
    path.write_text(f"{len(WORDS)} 3\n" * header + text_lines(), encoding="utf-8")
    return path


def write_binary(path):
    rows = b"".join(w.encode() + b" " + row.tobytes() + b"\n" for w, row in zip(WORDS, MATRIX, strict=True))
    path.write_bytes(b"4 3\n" + rows.replace(b". . .", b"..."))
    return path


def write_gzip(path):
    path.write_bytes(gzip.compress(text_lines().encode()))
    return path


def write_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inside.txt", text_lines())
    return path


def write_npy(path):
    np.save(path, MATRIX)
    path.with_suffix(".txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return path


def write_folder(path):
    path.mkdir()
    np.save(path / "matrix.npy", MATRIX)
    (path / "words.json").write_text(json.dumps(WORDS))
    return path


FORMATS = {
    "GloVe text": (write_text, "glove.txt"),
    "word2vec text": (lambda path: write_text(path, header=True), "fast.vec"),
    "word2vec binary": (write_binary, "google.bin"),
    "gzip": (write_gzip, "glove.txt.gz"),
    "zip": (write_zip, "glove.zip"),
    "npy": (write_npy, "mine.npy"),
    "folder": (write_folder, "mine"),
}


@pytest.mark.parametrize("case", FORMATS)
def test_every_format_gives_the_same_vectors(case, tmp_path):
    write, name = FORMATS[case]
    found = load(write(tmp_path / name))
    assert len(found) == 4 and found.dimensions == 3
    for word, row in zip(WORDS, MATRIX, strict=True):
        word = "..." if case == "word2vec binary" and word == ". . ." else word
        assert found[word] == pytest.approx(row)
    assert found.find(["unicorn", "fell"]) == [-1, 1]
    assert found.take(np.array([-1, 1])).tolist() == [[0, 0, 0], MATRIX[1].tolist()]
    assert found.identity.startswith(f"{name}@")


def test_text_is_converted_once_and_again_when_it_changes(tmp_path, cache):
    path = write_text(tmp_path / "glove.txt")
    first = load(path)
    assert load(path) is first
    assert len(list((cache / "vectors").iterdir())) == 1
    path.write_text("snow 1 2 3\n", encoding="utf-8")
    second = load(path)
    assert len(second) == 1 and second.identity != first.identity
    assert not list((cache / "vectors").glob(".new-*"))


def test_a_matrix_in_a_folder_that_was_written_anew_is_read_anew(tmp_path):
    folder = write_folder(tmp_path / "mine")
    assert load(folder)["snow"] == pytest.approx(MATRIX[0])
    before = folder.stat()
    with (folder / "matrix.npy").open("r+b") as file:
        np.save(file, MATRIX + 1)
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert load(folder)["snow"] == pytest.approx(MATRIX[0] + 1)


def test_a_matrix_that_is_not_finite_gives_no_score():
    found = Vectors(["snow", "rain"], np.array([[1.0, np.inf], [0.0, 1.0]]), "mine@0")
    assert found.take(np.array([1, -1])).tolist() == [[0, 1], [0, 0]]
    with pytest.raises(InputError, match="mine@0: the vector of 'snow' is not finite"):
        found.take(np.array([1, 0]))


def test_the_first_of_equal_words_counts():
    assert Vectors(["a", "b", "a"], np.array([[1.0], [2.0], [3.0]]), "toy")["a"] == 1.0


def test_vectors_are_mapped_not_read(tmp_path):
    found = load(write_npy(tmp_path / "mine.npy"))
    base = found.matrix
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def zipped():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("v.txt", "snow 1 2 3\n")
    return stream.getvalue()


BROKEN = {
    "a short line": ("glove.txt", b"snow 1 2 3\nfell 1 2\n", r"line 2: expected a word and 3"),
    "no number": ("glove.txt", b"snow 1 2 3\nfell 1 2 x\n", r"line 2"),
    "a NaN": ("glove.txt", b"snow 1 nan 3\n", r"line 1"),
    "an empty file": ("glove.txt", b"", "holds no word vectors"),
    "no header": ("google.bin", b"snow 123", "does not begin with the number"),
    "a cut binary": ("google.bin", b"2 3\nsnow 0123456789ab", "ends in word 2 of 2"),
    "a cut vector": ("google.bin", b"1 3\nsnow 0123", "ends in the vector of word 1"),
    "a NaN in a binary": (
        "google.bin",
        b"1 3\nsnow " + np.array([1, np.nan, 2], "<f4").tobytes(),
        "word 1 of 1 is not finite",
    ),
    "no vocabulary": ("mine.npy", b"", "needs its vocabulary beside it"),
    "more words than can be": (
        "google.bin",
        b"9999999999999 300\nsnow 0123",
        "begins with '9999999999999 300'",
    ),
    "a number of thousands of digits": ("glove.vec", b"9" * 5000 + b" 3\nsnow 1 2 3\n", "begins with '999"),
    "no dimensions": ("glove.vec", b"1 0\nsnow\n", "begins with '1 0'"),
    "a word that does not end": ("google.bin", b"1 3\n" + b"x" * 20_000, "word 1 of 1 does not end"),
    "no zip": ("glove.zip", b"PK\x03\x04 not a zip", "is not a whole .zip file"),
    "a zip that lost its first byte": ("glove.zip", zipped()[1:], "is not a whole .zip file"),
    "no gzip": ("glove.txt.gz", b"\x1f\x8b\x08 cut", "is not a whole .gz file"),
    "another format": ("mine.xyz", b"", "no file of word vectors"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_by_name_and_line(case, tmp_path, cache):
    name, content, message = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert not cache.exists() or not list((cache / "vectors").iterdir()), "nothing half-converted is left"


@pytest.mark.parametrize(
    "matrix, words, message",
    [
        (b"\x93NUMPY\x01\x00v\x00{'descr': 'O'}", b"snow\n", "mine.npy is not an .npy file that can be read"),
        (b"", b"snow\n", "mine.npy is not an .npy file"),
        # Found by make fuzz: numpy's parser of headers raises a TokenError for this one.
        (b"\x93NUMPY\x01\x00\x04\x00{\x00([", b"snow\n", "mine.npy is not an .npy file that can be read"),
        (np.array(["a", "b"]), b"snow\n", "mine.npy holds <U1; expected one of numbers"),
        (np.eye(2), b"caf\xe9\n", "mine.txt is not UTF-8"),
        (np.eye(2), b"a\nb\nc\n", "3 words do not fit"),
    ],
)
def test_a_damaged_matrix_or_vocabulary_is_refused(tmp_path, matrix, words, message):
    path = tmp_path / "mine.npy"
    if isinstance(matrix, bytes):
        path.write_bytes(matrix)
    else:
        np.save(path, matrix)
    path.with_suffix(".txt").write_bytes(words)
    with pytest.raises(InputError, match=message):
        load(path)


def test_a_header_that_promises_more_words_takes_no_room(tmp_path, cache):
    path = tmp_path / "fast.vec"
    path.write_text("400000000000 3\nsnow 1 2 3\n")
    assert len(load(path)) == 1
    [folder] = (cache / "vectors").iterdir()
    assert (folder / "vectors.npy").stat().st_size == 128 + 12


def test_more_words_than_rows_are_refused():
    with pytest.raises(InputError, match="3 words do not fit"):
        Vectors(["a", "b", "c"], MATRIX[:2], "toy")


def test_what_is_not_there_is_a_missing_requirement(monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for name in ("no/such/file.txt", "no-such-vectors"):
        with pytest.raises(MissingRequirement, match="no"):
            vectors.check(name)
        with pytest.raises(MissingRequirement):
            load(name)


def test_glove_is_hashed_once_in_a_process(monkeypatch):
    load()
    models.forget()
    monkeypatch.setattr(
        hashlib, "file_digest", lambda *_: pytest.fail("80 MB were read for their hash again")
    )
    found = load()
    assert len(found) == 400_000 and found.dimensions == 50
    assert found["the"][:2] == pytest.approx([0.418, 0.24968])  # the first line of glove.6B.50d.txt
