"""Readers: batching changes nothing, what a passage lacks cannot be answered, baselines do what they say."""

from __future__ import annotations

import functools
import tempfile

import pytest
import torch
import transformers

from summarily.metrics.apes import readers
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


def test_extractive_reader_takes_every_mention_from_the_window_where_it_scores_most():
    """Against windows cut by hand: each is read alone, and a mention in two of them counts once."""
    reader = ExtractiveReader(extractive())
    passage, question = (
        " ".join(["@entity3 beat @entity1.", "Snow fell. " * 24, "@entity2 slept. " * 3]),
        "@placeholder won",
    )
    answer = reader.answer([passage], [[question]], [NAMES])[0][0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(extractive())
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(extractive()).eval()
    text, mentions = with_names(passage, NAMES)
    asked = tokenizer("who or what won?", add_special_tokens=False)["input_ids"]
    whole = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    room, overlap = tokenizer.model_max_length - len(asked) - 3, tokenizer.model_max_length // 4
    best: dict[tuple[int, str], float] = {}
    windows = 0
    for start in range(0, len(whole["input_ids"]), room - overlap):
        offsets = whole["offset_mapping"][start : start + room]
        ids = [tokenizer.cls_token_id, *asked, tokenizer.sep_token_id]
        before = len(ids)
        ids += [*whole["input_ids"][start : start + room], tokenizer.sep_token_id]
        with torch.no_grad():
            output = model(input_ids=torch.tensor([ids]))
        firsts, lasts = [a for a, _ in offsets], [b for _, b in offsets]
        for a, b, id in mentions:
            if a in firsts and b in lasts:
                score = (
                    output.start_logits[0, before + firsts.index(a)]
                    + output.end_logits[0, before + lasts.index(b)]
                )
                best[a, id] = max(best.get((a, id), -torch.inf), float(score))
        windows += 1
        if start + room >= len(whole["input_ids"]):
            break
    assert windows > 2 and len(best) == 5
    places = list(best)
    mass = torch.tensor([best[place] for place in places], dtype=torch.float64).softmax(0)
    by_entity = {
        id: sum(float(m) for m, (_, own) in zip(mass, places, strict=True) if own == id) for _, id in places
    }
    assert answer.entity == max(by_entity, key=by_entity.__getitem__)
    assert answer.probability == pytest.approx(by_entity[answer.entity], abs=1e-5)


def test_a_long_question_is_cut_around_its_blank():
    before, after = [f"b{i}" for i in range(100)], [f"a{i}" for i in range(100)]
    longest, half = readers._LONGEST_QUESTION, readers._LONGEST_QUESTION // 2
    asked = readers._as_question(" ".join([*before, "@placeholder", *after]), {})
    expected = [*before[-half:], "who", "or", "what", *after[: longest - half - 1]]
    assert asked == " ".join(expected) + "?"


@pytest.mark.parametrize("distance, found", [(0, 1.0), (readers._WINDOW - 1, 1.0), (readers._WINDOW, 0.5)])
def test_overlap_looks_at_so_many_words_on_either_side(distance, found):
    """A word of the question that far from a mention; beyond the window nobody has it, and the first answers."""
    gap = " ".join(["blue", "green", "red", "pink", "grey", "black", "white", "brown"][:distance])
    for passage in (
        f"@entity0 . {'far ' * 20} @entity1 {gap} horse",
        f"@entity0 . {'far ' * 20} horse {gap} @entity1",
    ):
        answer = load_reader("overlap").answer([passage], [["@placeholder horse"]], [NAMES])[0][0]
        assert answer.entity == ("@entity1" if found == 1.0 else "@entity0")
        assert answer.probability == found


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
    with pytest.raises(InputError, match="reads no numbered ids; leave relabel= out"):
        load_reader("cross", attentive(), relabel=False)


def answers(name, passage, question):
    return load_reader(name).answer([passage], [[question]], [NAMES])[0][0]


def test_baselines_say_how_sure_they_are():
    passage = "@entity0 slept. @entity1 rode a horse. @entity1 fell. @entity1 rose. @entity2 saw the horse."
    assert answers("most-frequent", passage, "@placeholder rode") == ("@entity1", 3 / 5, "Burnley")
    assert answers("first", passage, "@placeholder rode") == ("@entity0", 1.0, "Oslo")
    # "horse" is near the second and the third, "rode" near the first two: of those with both, the first in the text.
    assert answers("overlap", passage, "@placeholder rode horse")[:2] == ("@entity0", 2 / 6)
    assert answers("overlap", "@entity5 slept. @entity2 ate.", "@placeholder flew") == ("@entity5", 0.5, None)
    assert answers("most-frequent", "@entity0 and @entity0", "@entity0 met @placeholder") == (
        "@entity0",
        1.0,
        "Oslo",
    )


def test_an_entity_has_the_probability_of_all_its_mentions():
    import math

    scores = {("@entity0", 0): 2.0, ("@entity1", 9): 1.5, ("@entity1", 20): 1.5, ("@entity2", 30): -800.0}
    answer = readers._from_mentions(scores, NAMES)
    masses = [1.0, 2 * math.exp(-0.5), 0.0]
    assert answer.entity == "@entity1" and answer.name == "Burnley"
    assert answer.probability == pytest.approx(masses[1] / sum(masses), rel=1e-12)
    assert readers._from_mentions({}, NAMES) == (None, 0.0, None)
    assert readers._from_scores({"@entity1": [0.5], "@entity0": [0.5]}, NAMES)[:2] == ("@entity1", 0.5)


def test_the_zero_shot_reader_looks_at_the_sentences_that_name_the_candidate(monkeypatch):
    import numpy as np

    reader = load_reader("zero-shot")
    passage = "@entity0 slept. @entity1 rode. @entity0 ate."
    vectors = {
        "Oslo slept.": [1.0, 0.0],
        "Burnley rode.": [0.0, 2.0],
        "Oslo ate.": [3.0, 4.0],
        "Oslo flew": [0.0, 5.0],
        "Burnley flew": [4.0, 3.0],
    }
    monkeypatch.setattr(reader.encoder, "embed", lambda texts: np.array([vectors[text] for text in texts]))
    # Oslo is like "Oslo ate." by 0.8 (and like no other of its sentences), Burnley like "Burnley rode." by 0.6.
    (answer,) = reader.answer([passage], [["@placeholder flew"]], [NAMES])[0]
    odds = np.exp(readers._SHARPNESS * np.array([0.8, 0.6]))
    assert answer.entity == "@entity0" and answer.probability == pytest.approx(odds[0] / odds.sum())


def test_a_mention_counts_in_a_window_that_holds_it_whole():
    asked = readers._Asked(0, "who?", "Ann Lee met Bob", [(0, 7, "@entity0"), (12, 15, "@entity1")])
    offsets = [(0, 0), (0, 3), (0, 0), (0, 3), (4, 7), (8, 11), (12, 15)]
    own = [False, False, False, True, True, True, True]
    first, last = [9.0, 9, 9, 1, 2, 3, 4], [9.0, 9, 9, 10, 20, 30, 40]
    assert list(readers._mention_scores(asked, offsets, own, first, last)) == [
        (("@entity0", 0), 21.0),
        (("@entity1", 12), 44.0),
    ]
    assert list(readers._mention_scores(asked, offsets[:5], own[:5], first, last)) == [
        (("@entity0", 0), 21.0)
    ]
    assert list(readers._mention_scores(asked, offsets[4:], own[4:], first[4:], last[4:])) == [
        (("@entity1", 12), 44.0)
    ]
