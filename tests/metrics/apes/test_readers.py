"""Readers: batching changes nothing, what a passage lacks cannot be answered, baselines do what they say."""

from __future__ import annotations

import functools
import tempfile

import pytest
import torch
import transformers

from summarily.metrics.apes.readers import READERS, ExtractiveReader, load_reader, with_names
from summarily.support.errors import InputError
from tests.metrics import tiny
from tests.metrics.apes.tiny_reader import attentive

PASSAGES = [
    "@entity3 beat @entity1 in @entity0. @entity3 rejoiced.",
    "Nobody was there.",
    "@entity2 slept. Rain fell on @entity0.",
]
QUESTIONS = [
    ["@placeholder beat @entity1", "@entity3 won in @placeholder", "@placeholder lost to @entity3"],
    ["@placeholder slept"],
    ["rain on @placeholder"],
]
NAMES = {"@entity0": "Oslo", "@entity1": "Burnley", "@entity2": "Ann Lee", "@entity3": "Arsenal"}


@functools.cache
def extractive() -> str:
    """A tiny BERT with a head for spans."""
    folder = tempfile.mkdtemp()
    transformers.AutoTokenizer.from_pretrained(tiny.checkpoint("bert")).save_pretrained(folder)
    torch.manual_seed(0)
    transformers.BertForQuestionAnswering.from_pretrained(tiny.checkpoint("bert")).save_pretrained(folder)
    return folder


def make(name: str):
    models = {"attentive": attentive, "extractive": extractive}
    return load_reader(name, models[name]() if name in models else None)


RUNNABLE = [name for name in READERS if name != "cross"]


@pytest.mark.parametrize("name", RUNNABLE)
def test_answers_are_entities_of_the_passage_and_do_not_depend_on_the_batch(name):
    reader = make(name)
    together = reader.answer(PASSAGES, QUESTIONS, [NAMES] * 3)
    assert [len(row) for row in together] == [3, 1, 1]
    assert together[1][0].entity is None and together[1][0].probability == 0
    for passage, texts, row in zip(PASSAGES, QUESTIONS, together, strict=True):
        for text, answer in zip(texts, row, strict=True):
            assert answer.entity is None or answer.entity in passage
            assert 0 <= answer.probability <= 1 + 1e-6
            alone = reader.answer([passage], [[text]], [NAMES])[0][0]
            assert alone.entity == answer.entity
            assert alone.probability == pytest.approx(answer.probability, abs=1e-5)
    assert reader.signature_fields()["reader"] == name


def best(name: str, passage: str, question: str) -> str | None:
    return load_reader(name).answer([passage], [[question]], [NAMES])[0][0].entity


def test_baselines():
    passage = "@entity0 slept. @entity1 rode a horse to town, said @entity2. @entity2 agreed."
    assert best("first", passage, "@placeholder rode a horse") == "@entity0"
    assert best("most-frequent", passage, "@placeholder rode a horse") == "@entity2"
    far = f"@entity0 slept. {'It rained all day. ' * 4}@entity1 rode a horse to town."
    assert best("overlap", far, "@placeholder rode a horse") == "@entity1"
    assert (
        best("zero-shot", "Oslo. @entity1 rode a horse. @entity2 ate bread.", "@placeholder was on horseback")
        == "@entity1"
    )
    assert best("first", passage, "@placeholder met @entity0") == "@entity1", "it is in the question"
    assert best("first", "@entity0 slept.", "@placeholder met @entity0") == "@entity0", "there is no other"


def test_names_return_where_they_were():
    text, mentions = with_names("@entity1 met @entity2, @entity9.", NAMES)
    assert text == "Burnley met Ann Lee, @entity9."
    assert [text[a:b] for a, b, _ in mentions] == ["Burnley", "Ann Lee", "@entity9"]


def test_extractive_reader_adds_up_the_mentions_of_all_windows():
    """Against the model called by hand on a passage that fits in one window."""
    reader = ExtractiveReader(extractive())
    passage, question = "@entity3 beat @entity1.", "@placeholder won"
    answer = reader.answer([passage], [[question]], [NAMES])[0][0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(extractive())
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(extractive()).eval()
    inputs = tokenizer(
        "who or what won?", "Arsenal beat Burnley.", return_tensors="pt", return_offsets_mapping=True
    )
    offsets = inputs.pop("offset_mapping")[0].tolist()
    side = inputs.sequence_ids(0)
    with torch.no_grad():
        output = model(**inputs)
    first = [i for i, (a, _) in enumerate(offsets) if side[i] == 1 and a in (0, 13)]
    last = [i for i, (_, b) in enumerate(offsets) if side[i] == 1 and b in (7, 20)]
    scores = torch.stack(
        [output.start_logits[0, i] + output.end_logits[0, j] for i, j in zip(first, last, strict=True)]
    )
    probabilities = scores.softmax(0)
    assert answer.entity == ("@entity3", "@entity1")[int(probabilities.argmax())]
    assert answer.probability == pytest.approx(float(probabilities.max()), abs=1e-5)
    long = " ".join([passage, "Snow fell. " * 60, "@entity2 slept."])
    assert reader.answer([long], [[question]], [NAMES])[0][0].entity in ("@entity1", "@entity2", "@entity3")


def test_relabelling_makes_ids_meaningless():
    passage, question = "@entity3 beat @entity1.", "@placeholder won"
    other = passage.replace("@entity3", "@entity40"), question
    always = load_reader("attentive", attentive())
    training = load_reader("attentive", attentive(), relabel=False)
    mine = always.answer([passage], [[question]], [{}])[0][0]
    renamed = always.answer([other[0]], [[other[1]]], [{}])[0][0]
    assert renamed.probability == pytest.approx(mine.probability)
    raw, raw_renamed = (training.answer([p], [[question]], [{}])[0][0] for p in (passage, other[0]))
    assert raw.probability != pytest.approx(raw_renamed.probability)
    assert training.signature_fields()["relabel"] == "training"


def test_wrong_choices_are_named():
    with pytest.raises(InputError, match="there is no reader 'oracle'"):
        load_reader("oracle")
    with pytest.raises(InputError, match="has no model"):
        load_reader("first", "minilm")
    with pytest.raises(InputError, match="reads names, not ids"):
        load_reader("cross", attentive(), relabel=False)
