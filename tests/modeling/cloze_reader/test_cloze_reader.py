"""The attentive reader: equal to a plain loop, whatever stands beside a question; saved, loaded, bad inputs."""

from __future__ import annotations

import copy
import io
import json
import pickle
import shutil

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import AutoModel

from summarily.modeling import ClozeReader, ClozeReaderConfig
from summarily.modeling.cloze_reader.modeling_cloze_reader import BidirectionalGru
from summarily.modeling.cloze_reader.reader_output import masked_answer_loss
from summarily.modeling.training.tokenizers import train_reader_tokenizer
from summarily.support.cloze.marks import Answer, relabel, with_names
from tests.modeling.common import (
    assert_loads_as_remote_code,
    gradients_of,
    logits_of,
    without_dropout,
)

PASSAGES = [
    "@entity4 beat @entity2 on snow . @entity4 won again , said @entity7 .",
    "@entity0 left .",
    "It rained and nobody came .",
]
QUESTIONS = [
    ["@placeholder lost to @entity4", "@entity7 said that @placeholder won on the snow , again and again"],
    ["@placeholder left @entity9"],
    ["@placeholder came"],
]


@pytest.fixture
def model() -> ClozeReader:
    texts = [text.replace("@", "") for text in [*PASSAGES, *QUESTIONS[0], *QUESTIONS[1]]] * 2
    tokenizer = train_reader_tokenizer(texts, size=80, max_entities=6, more_words=["storm"])
    torch.manual_seed(0)
    config = ClozeReaderConfig(
        vocab_size=len(tokenizer), embedding_size=7, hidden_size=5, max_entities=6, pad_token_id=0
    )
    model = ClozeReader(config).eval()
    with torch.no_grad():  # far from zero, so that attention is not flat
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        model.word_embeddings.weight[0] = 0
    model.tokenizer = tokenizer
    return model


@pytest.fixture
def batch(model) -> dict[str, torch.Tensor]:
    rows = model.encode_texts(PASSAGES[:2], QUESTIONS[:2])
    return {**model.collate(rows), "labels": torch.tensor([1, 2, 0])}


def final_and_all(encoder: BidirectionalGru, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One direction and one step at a time, with two plain GRU cells."""
    ends, directions = [], []
    for gru, order in (
        (encoder.forwards, range(len(vectors))),
        (encoder.backwards, reversed(range(len(vectors)))),
    ):
        cell = nn.GRUCell(gru.input_size, gru.hidden_size)
        cell.load_state_dict({name.removesuffix("_l0"): value for name, value in gru.state_dict().items()})
        state, states = torch.zeros(1, gru.hidden_size), {}
        for step in order:
            state = cell(vectors[step : step + 1], state)
            states[step] = state[0]
        ends.append(state[0])
        directions.append(torch.stack([states[step] for step in range(len(vectors))]))
    return torch.cat(ends), torch.cat(directions, -1)


def by_hand(model: ClozeReader, passage: list[int], question: list[int]) -> torch.Tensor:
    """The probabilities of the entities of one question, by the equations of the paper."""
    _, states = final_and_all(model.passage_encoder, model.word_embeddings(torch.tensor(passage)))
    asked, _ = final_and_all(model.question_encoder, model.word_embeddings(torch.tensor(question)))
    attention = torch.softmax(torch.stack([(model.attention.weight @ asked) @ state for state in states]), 0)
    output = sum(weight * state for weight, state in zip(attention, states, strict=True))
    likely = torch.exp(model.classifier.weight @ output + model.classifier.bias)
    present = torch.zeros_like(likely)
    for token in passage:
        if token >= model.config.first_entity_id:
            present[token - model.config.first_entity_id] = 1
    return likely * present / (likely * present).sum()


@torch.no_grad()
def test_a_batch_equals_a_plain_loop_over_its_questions(model):
    rows = model.encode_texts(PASSAGES[:2], QUESTIONS[:2])
    together = torch.softmax(model(**model.collate(rows)).logits, -1)
    alone = [by_hand(model, row.passage, question) for row in rows for question in row.questions]
    torch.testing.assert_close(together, torch.stack(alone))
    assert together[0].max() < 0.999 and (together[0] > 0).sum() == 3, "three entities, nothing decided"


def test_the_encoder_equals_a_packed_bidirectional_gru_gradients_included():
    torch.manual_seed(0)
    ours = BidirectionalGru(4, 3)
    theirs = nn.GRU(4, 3, bidirectional=True, batch_first=True)
    theirs.load_state_dict(
        ours.forwards.state_dict() | {f"{k}_reverse": v for k, v in ours.backwards.state_dict().items()}
    )
    inputs, lengths = torch.randn(3, 6, 4), torch.tensor([6, 1, 4])
    mask = torch.arange(6) < lengths[:, None]
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    expected, final = theirs(packed)
    expected, _ = pad_packed_sequence(expected, batch_first=True)
    states, last = ours(inputs, mask)
    torch.testing.assert_close(states, expected)
    torch.testing.assert_close(last, torch.cat([final[0], final[1]], -1))
    ((states**2).sum() + last.sum()).backward()
    ((expected**2).sum() + final.sum()).backward()
    for name, parameter in ours.named_parameters():
        direction, name = name.split(".")
        other = getattr(theirs, name if direction == "forwards" else f"{name}_reverse")
        torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_many_questions_about_a_passage_are_read_some_at_a_time(model, monkeypatch):
    passage, asked = PASSAGES[0], [f"{'snow ' * n} @placeholder" for n in range(30)]
    [together] = model.answer([passage], [asked], batch_tokens=100_000)
    sizes = []
    forward = model.forward

    def record(**batch):
        sizes.append(batch["question_ids"].numel())
        return forward(**batch)

    monkeypatch.setattr(model, "forward", record)
    [apart] = model.answer([passage], [asked], batch_tokens=100)
    assert len(sizes) > 3 and max(sizes) <= 100
    assert [answer.entity for answer in apart] == [answer.entity for answer in together]
    for one, other in zip(apart, together, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-5)


def test_a_text_may_hold_the_letters_of_the_padding(model):
    [[answer]] = model.answer(["<pad> @entity2 <pad> won"], [["<pad> <pad> @placeholder"]])
    assert answer.entity == "@entity2"


def test_padding_and_company_change_nothing(model, batch):
    together = logits_of(model, batch)
    wide = dict(batch)
    for name in ("input_ids", "question_ids"):
        wide[name] = nn.functional.pad(batch[name], (0, 9))
    torch.testing.assert_close(logits_of(model, wide), together)
    every = model.answer(PASSAGES, QUESTIONS)
    for passage, asked, answers in zip(PASSAGES, QUESTIONS, every, strict=True):
        for question, answer in zip(asked, answers, strict=True):
            [[alone]] = model.answer([passage], [[question]])
            assert alone.entity == answer.entity
            assert alone.probability == pytest.approx(answer.probability, abs=1e-5)
    small = model.answer(PASSAGES, QUESTIONS, batch_tokens=1)
    assert [[a.entity for a in row] for row in small] == [[a.entity for a in row] for row in every]


def test_answers_do_not_depend_on_how_entities_are_numbered(model):
    other = {"@entity4": "@entity0", "@entity2": "@entity31", "@entity7": "@entity4"}
    renamed = [with_names(text, other)[0] for text in (PASSAGES[0], *QUESTIONS[0])]
    before = model.answer(PASSAGES[:1], QUESTIONS[:1])[0]
    after = model.answer(renamed[:1], [renamed[1:]])[0]
    assert [answer.entity for answer in after] == [other[answer.entity] for answer in before]
    assert [a.probability for a in after] == [a.probability for a in before]


def test_numbers_as_they_are_read_differently_from_numbers_by_occurrence(model):
    as_given = model.answer(PASSAGES[:1], QUESTIONS[:1], relabelled=False)[0]
    by_occurrence = model.answer(PASSAGES[:1], QUESTIONS[:1])[0]
    assert as_given[0].entity in ("@entity4", "@entity2"), "@entity7 is beyond the last label"
    assert as_given[0].probability != pytest.approx(by_occurrence[0].probability, abs=1e-6)


def test_what_cannot_be_answered(model):
    nothing = Answer(None, 0.0)
    assert model.answer(PASSAGES[2:], QUESTIONS[2:]) == [[nothing]]
    assert model.answer(["@entity40 left"], [["@placeholder left"]], relabelled=False) == [[nothing]]
    assert model.answer(["", "@entity1 x"], [["@placeholder"], []]) == [[nothing], []]
    assert model.answer([], []) == []
    [[answer]] = model.answer(["@entity5 left ."], [["  "]], [{"@entity5": "Ann"}])
    assert answer.entity == "@entity5" and answer.name == "Ann" and answer.probability == pytest.approx(1)


def test_a_passage_with_more_entities_than_labels_is_read(model):
    many = " ".join(f"@entity{n}" for n in range(20, 40))
    [[answer]] = model.answer([many], [["@placeholder met @entity39"]])
    assert answer.entity in [f"@entity{n}" for n in range(20, 26)]


def test_relabelling_counts_through_passage_and_question():
    found = relabel("@entity7 met @entity2, @entity7.", ["@placeholder and @entity5", "@entity9 @entity2"])
    assert found.passage == "@entity0 met @entity1, @entity0."
    assert found.questions == ["@placeholder and @entity2", "@entity2 @entity1"]
    assert found.original == {"@entity0": "@entity7", "@entity1": "@entity2"}


def test_the_vocabulary_is_words_then_entities(model):
    tokenizer = model.tokenizer
    ids = tokenizer("Snow @entity5's @placeholder @entity0", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids)[0] == "snow"
    first = model.config.first_entity_id
    assert ids[1] == first + 5 and ids[-1] == first
    assert tokenizer.convert_tokens_to_ids("storm") != tokenizer.unk_token_id, "filled up from the vectors"
    with pytest.raises(ValueError, match="the reader has 30"):
        ClozeReader(ClozeReaderConfig(vocab_size=30, max_entities=5)).tokenizer = tokenizer


def test_saved_readers_bring_their_vocabulary_and_compute_in_single_precision(model, tmp_path):
    model.save_pretrained(tmp_path / "whole")
    loaded = AutoModel.from_pretrained(tmp_path / "whole").eval()
    assert type(loaded) is ClozeReader
    assert loaded.answer(PASSAGES, QUESTIONS) == model.answer(PASSAGES, QUESTIONS)
    model.save_pretrained(tmp_path / "half", stored_dtype=torch.float16)
    half = AutoModel.from_pretrained(tmp_path / "half")
    assert half.dtype == torch.float32
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("half", "whole")]
    assert sizes[0] < 0.7 * sizes[1]
    assert half.answer(PASSAGES, QUESTIONS)[0][0].probability == pytest.approx(
        model.answer(PASSAGES, QUESTIONS)[0][0].probability, abs=1e-2
    )
    assert (
        json.loads((tmp_path / "half" / "config.json").read_text())["model_type"] == model.config.model_type
    )


def test_a_reader_keeps_its_vocabulary_when_its_folder_is_gone(model, tmp_path):
    model.save_pretrained(tmp_path / "first")
    loaded = ClozeReader.from_pretrained(pretrained_model_name_or_path=tmp_path / "first")
    shutil.rmtree(tmp_path / "first")
    loaded.save_pretrained(tmp_path / "second")
    again = ClozeReader.from_pretrained(tmp_path / "second")
    assert again.answer(PASSAGES, QUESTIONS) == model.answer(PASSAGES, QUESTIONS)


def test_more_embeddings_leave_the_entities_where_they_are(model, tmp_path):
    expected = model.answer(PASSAGES, QUESTIONS)
    first = model.config.first_entity_id
    model.resize_token_embeddings(len(model.tokenizer) + 9)
    assert model.config.first_entity_id == first and model.answer(PASSAGES, QUESTIONS) == expected
    model.save_pretrained(tmp_path)
    loaded = ClozeReader.from_pretrained(tmp_path)
    assert loaded.config.first_entity_id == first and loaded.answer(PASSAGES, QUESTIONS) == expected
    with pytest.raises(ValueError, match="would cut off entities"):
        model.resize_token_embeddings(len(model.tokenizer) - 1)


def test_loads_as_remote_code(model, batch, tmp_path):
    assert_loads_as_remote_code([model], batch, tmp_path, "AutoModel")


def test_survives_pickle_and_deepcopy(model, batch):
    expected = logits_of(model, batch)
    torch.testing.assert_close(logits_of(copy.deepcopy(model), batch), expected)
    torch.testing.assert_close(logits_of(pickle.load(io.BytesIO(pickle.dumps(model))), batch), expected)


def test_gradients_reach_every_parameter_and_a_few_steps_learn(model, batch):
    gradients = gradients_of(without_dropout(model), batch)
    assert gradients.keys() == dict(model.named_parameters()).keys()
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
    learner = without_dropout(model)
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.02)
    first = learner(**batch).loss.item()
    for _ in range(30):
        loss = learner(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss.item() < 0.5 * first


def test_an_answer_that_is_not_in_the_passage_costs_a_constant_and_teaches_nothing():
    logits = torch.tensor([[0.0, 2.0, -torch.inf]], requires_grad=True)
    loss = masked_answer_loss(logits, torch.tensor([2]))
    assert loss.item() == pytest.approx(16.118, abs=1e-3)  # -log 1e-7
    loss.backward()
    assert (logits.grad == 0).all()


def test_bad_inputs_are_named(model, batch):
    with pytest.raises(ValueError, match="question_ids is missing"):
        model(batch["input_ids"])
    with pytest.raises(ValueError, match="3 questions about 2 passages"):
        model(batch["input_ids"], question_ids=batch["question_ids"])
    with pytest.raises(ValueError, match="passage 0 has no words"):
        model(torch.tensor([[0, 5]]), question_ids=torch.tensor([[5]]))
    with pytest.raises(ValueError, match="question has words after padding"):
        model(torch.tensor([[5]]), question_ids=torch.tensor([[5, 0, 5]]))
    with pytest.raises(ValueError, match="1 passages, 2 lists of questions"):
        model.answer(["@entity0"], [[], []])
    with pytest.raises(ValueError, match="leaves no words"):
        ClozeReaderConfig(vocab_size=10, max_entities=10)
    with pytest.raises(ValueError, match="no tokenizer yet"):
        ClozeReader(ClozeReaderConfig(vocab_size=30, max_entities=5)).tokenizer  # noqa: B018
