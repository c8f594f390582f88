"""The shipped readers: small, in single precision, and able to read what is plainly said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

import summarily.modeling  # noqa: F401 - registers the classes
from summarily.hub_cards import folder

NAMES = {
    "@entity0": "Arsenal",
    "@entity1": "Burnley",
    "@entity2": "Aaron Ramsey",
    "@entity3": "Turf Moor",
    "@entity4": "Chelsea",
}
PASSAGE = "@entity2 scored the only goal as @entity0 beat @entity1 at @entity3 on Saturday."
QUESTIONS = {
    "@placeholder scored the only goal as @entity0 beat @entity1 at @entity3 on Saturday.": "@entity2",
    "@entity2 scored the only goal as @placeholder beat @entity1 at @entity3 on Saturday.": "@entity0",
    "@entity2 scored the only goal as @entity0 beat @placeholder at @entity3 on Saturday.": "@entity1",
    "@entity2 scored the only goal as @entity0 beat @entity1 at @placeholder on Saturday.": "@entity3",
}


@pytest.fixture(scope="module")
def cross():
    return AutoModel.from_pretrained(folder("cross-reader")).eval()


def test_the_cross_reader_is_what_differs_from_its_encoder(cross):
    path = Path(folder("cross-reader"))
    assert sum(file.stat().st_size for file in path.iterdir()) < 5 * 2**20
    config = json.loads((path / "config.json").read_text())
    assert config["encoder"] == "minilm" and len(config["encoder_sha256"]) == 64
    assert cross.dtype == torch.float32


def test_the_cross_reader_finds_what_the_passage_says(cross):
    [answers] = cross.answer([PASSAGE], [list(QUESTIONS)], [NAMES])
    assert [answer.entity for answer in answers] == list(QUESTIONS.values())
    assert all(answer.name == NAMES[answer.entity] and answer.probability > 0.5 for answer in answers)
    [[answer]] = cross.answer([PASSAGE], [["The away team, @placeholder, won at @entity3."]], [NAMES])
    assert answer.entity == "@entity0"


def test_the_cross_reader_reads_long_passages_beyond_the_encoder_limit(cross):
    filler = "It rained for a long time, and people waited under the trees. " * 45
    assert len(cross.tokenizer(filler, verbose=False)["input_ids"]) > 512
    [answers] = cross.answer([f"{filler}{PASSAGE}"], [list(QUESTIONS)], [NAMES])
    right = [answer.entity == gold for answer, gold in zip(answers, QUESTIONS.values(), strict=True)]
    assert sum(right) >= 3, "a little is lost among hundreds of words that say nothing"


@pytest.fixture(scope="module")
def attentive():
    return AutoModel.from_pretrained(folder("cloze-reader")).eval()


def test_the_attentive_reader_brings_its_vocabulary(attentive):
    path = Path(folder("cloze-reader"))
    assert sum(file.stat().st_size for file in path.iterdir()) < 12 * 2**20
    assert attentive.dtype == torch.float32
    assert len(attentive.tokenizer) == attentive.config.vocab_size
    assert attentive.tokenizer.tokenize("Snow fell on @entity12") == ["snow", "fell", "on", "@entity12"]


def test_the_attentive_reader_finds_most_of_what_the_passage_says(attentive):
    [answers] = attentive.answer([PASSAGE], [list(QUESTIONS)])
    right = [answer.entity == gold for answer, gold in zip(answers, QUESTIONS.values(), strict=True)]
    assert sum(right) >= 3, answers
