"""The cross reader: equal to the plain encoder under a mask of blocks, one question at a time."""

from __future__ import annotations

import math
import re

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from summarily.modeling import CrossReader, CrossReaderConfig
from summarily.modeling.cross_reader.modeling_cross_reader import _linear, _spans_of_sentences
from summarily.modeling.modeling_adapted_encoder import AdaptedLinear
from summarily.support.cloze.marks import Answer, with_names
from tests.metrics.tiny import checkpoint
from tests.modeling.common import assert_loads_as_remote_code, gradients_of, logits_of

NAMES = {"@entity0": "Oslo", "@entity3": "Ann Berg", "@entity8": "Bob", "@entity5": "North Sea Oil"}
PASSAGES = [
    "@entity3 flew to @entity0 . It snowed there, said @entity8's wife! Nobody from @entity5 came to the party. "
    "@entity8 stayed at home and @entity3 left.",
    "@entity8 sleeps.",
    "It rained and nobody came.",
]
QUESTIONS = [
    [
        "@placeholder arrived in @entity0",
        "@entity3 and @placeholder, who is not @placeholder",
        "@entity0: @placeholder",
    ],
    ["@placeholder was asleep"],
    ["@placeholder came"],
]


@pytest.fixture
def model() -> CrossReader:
    """With adapters that have learnt something, in evaluation mode; long passages are cut."""
    torch.manual_seed(0)
    model = CrossReader.from_encoder(
        checkpoint("bert"), adapter_rank=3, chunk_tokens=20, question_tokens=50
    ).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("encoder.") or "adapter_up" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def encoded(model, number=2):
    return model.encode_texts(PASSAGES[:number], QUESTIONS[:number], [NAMES] * number)


@pytest.fixture
def batch(model) -> dict[str, torch.Tensor]:
    return {**model.collate(encoded(model)), "labels": torch.tensor([1, 2, 0, 0])}


def by_hand(model: CrossReader, passage, question) -> list[float]:
    """The probabilities of one question: the encoder itself on chunks and question under a dense mask."""
    parts = [*(chunk.ids for chunk in passage.chunks), question.ids]
    owner = torch.tensor([number for number, part in enumerate(parts) for _ in part])
    last = owner == len(parts) - 1
    visible = (owner[:, None] == owner[None]) | last[:, None]  # the question sees everything
    states = model.encoder(
        input_ids=torch.tensor([[token for part in parts for token in part]]),
        position_ids=torch.tensor([[place for part in parts for place in range(len(part))]]),
        attention_mask=torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None],
    ).last_hidden_state[0]
    entities = [entity for chunk in passage.chunks for entity in chunk.entities]
    lengths = [length for chunk in passage.chunks for length in chunk.lengths]
    blank = model.blank_projection(states[last][question.blank])
    pointed = dict.fromkeys(passage.entities, 0.0)
    counts = dict.fromkeys(passage.entities, 0.0)
    for token, (entity, length) in enumerate(zip(entities, lengths, strict=True)):
        if entity >= 0:
            score = torch.dot(blank, model.mention_projection(states[token])) / math.sqrt(len(blank))
            pointed[entity] += math.exp(score) / length
            counts[entity] += 1 / length
    often, asked = model.prior.weight[0].tolist()
    mass = {
        entity: pointed[entity]
        * math.exp(often * math.log(counts[entity]) + asked * (entity in question.entities))
        for entity in pointed
    }
    return [mass[entity] / sum(mass.values()) for entity in passage.entities]


@torch.no_grad()
def test_one_pass_equals_the_encoder_under_a_mask_of_blocks(model):
    passages = encoded(model)
    assert len(passages[0].chunks) > 2 and len(passages[1].chunks) == 1
    together = torch.softmax(model(**model.collate(passages)).logits, -1)
    row = 0
    for passage in passages:
        for question in passage.questions:
            expected = torch.tensor(by_hand(model, passage, question))
            torch.testing.assert_close(together[row, : len(expected)], expected, rtol=0, atol=2e-6)
            assert (together[row, len(expected) :] == 0).all()
            row += 1
    assert together[0].max() < 0.99, "nothing was decided in advance"


def test_company_rows_and_batches_change_nothing(model):
    every = model.answer(PASSAGES, QUESTIONS, [NAMES] * 3)
    model.config.row_tokens = 10  # every question in a row of its own
    apart = model.answer(PASSAGES, QUESTIONS, [NAMES] * 3, batch_tokens=1)
    for row, (passage, asked) in enumerate(zip(PASSAGES, QUESTIONS, strict=True)):
        for number, question in enumerate(asked):
            [[alone]] = model.answer([passage], [[question]], [NAMES])
            for other in (apart[row][number], alone):
                assert other.entity == every[row][number].entity
                assert other.probability == pytest.approx(every[row][number].probability, abs=1e-5)


def test_many_questions_about_a_passage_are_read_some_at_a_time(model, monkeypatch):
    ids = [f"@entity{number}" for number in range(40)]
    names = {id: f"name{id[7:]}" for id in ids}
    passage, asked = " ".join(ids), [f"snow @placeholder {id}" for id in ids]
    [together] = model.answer([passage], [asked], [names], batch_tokens=100_000)
    sizes = []
    forward = model.forward

    def record(**batch):
        sizes.append((len(batch["blanks"]), len(batch["input_ids"])))
        return forward(**batch)

    monkeypatch.setattr(model, "forward", record)
    [apart] = model.answer([passage], [asked], [names], batch_tokens=300)
    assert len(sizes) > 2 and sum(questions for questions, _ in sizes) == 40
    length = model.encode_texts([passage], [[]], [names])[0].length
    assert max(tokens for _, tokens in sizes) <= max(300, length + 150)
    assert [answer.entity for answer in apart] == [answer.entity for answer in together]
    for one, other in zip(apart, together, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-5)


def test_words_that_look_like_special_tokens_are_words(model):
    asked = "[MASK] [SEP] wrote @placeholder"
    [passage] = model.encode_texts(["@entity0 [SEP] [CLS] [PAD] x"], [[asked]], [NAMES])
    special = set(model.tokenizer.all_special_ids)
    [question] = passage.questions
    assert [place for place, token in enumerate(question.ids) if token == model.tokenizer.mask_token_id] == [
        question.blank
    ]
    assert question.blank == len(question.ids) - 2
    assert not special & set(passage.chunks[0].ids[1:-1]) - {model.tokenizer.unk_token_id}


def test_what_cannot_be_answered(model):
    assert model.answer(PASSAGES[2:], QUESTIONS[2:], [NAMES]) == [[Answer(None, 0.0)]]
    assert model.answer(["", "@entity0"], [["@placeholder"], []], [NAMES] * 2) == [[Answer(None, 0.0)], []]
    [[only]] = model.answer(PASSAGES[1:2], QUESTIONS[1:2], [NAMES])
    assert only.entity == "@entity8" and only.name == "Bob" and only.probability == pytest.approx(1)


def test_mentions_are_the_tokens_of_the_names(model):
    [passage] = encoded(model, 1)
    tokenizer = model.tokenizer
    for chunk in passage.chunks:
        assert chunk.ids[0] == tokenizer.cls_token_id and chunk.ids[-1] == tokenizer.sep_token_id
        assert len(chunk.ids) == len(chunk.entities) == len(chunk.lengths) <= model.config.chunk_tokens
    ids = [token for chunk in passage.chunks for token in chunk.ids[1:-1]]
    plain = with_names(PASSAGES[0], NAMES)[0]
    assert ids == tokenizer(plain, add_special_tokens=False)["input_ids"]
    found: dict[str, set[int]] = {}
    for chunk in passage.chunks:
        for token, entity in zip(chunk.ids, chunk.entities, strict=True):
            if entity >= 0:
                found.setdefault(passage.entities[entity], set()).add(token)
    for entity, tokens in found.items():
        assert tokens == set(tokenizer(NAMES[entity], add_special_tokens=False)["input_ids"])
    assert found.keys() == NAMES.keys()


@pytest.mark.parametrize(
    "text, most, expected",
    [
        ("A b. C d. E f g h", 4, [(0, 4), (4, 8)]),  # the second sentence ends exactly at the limit
        ("A b. C d. E f g h", 3, [(0, 2), (2, 4), (4, 7), (7, 8)]),
        ("A b. C d. E f g h", 8, [(0, 8)]),
        ("A b. C d. E f g h", 7, [(0, 4), (4, 8)]),
        ("a b c d", 3, [(0, 3), (3, 4)]),
        ("", 3, [(0, 0)]),
    ],
)
def test_spans_hold_as_many_sentences_as_fit(text, most, expected):
    offsets = [match.span() for match in re.finditer(r"\w", text)]
    assert list(_spans_of_sentences(text, offsets, most)) == expected


def test_chunks_end_with_sentences_where_they_can(model):
    model.config.chunk_tokens = 60
    text = "Snow fell. " * 30
    sizes = {len(chunk.ids) for chunk in model.encode_texts([text], [[]], [{}])[0].chunks[:-1]}
    sentence = len(model.tokenizer("Snow fell.", add_special_tokens=False)["input_ids"])
    assert all((size - 2) % sentence == 0 and 60 - size < sentence for size in sizes)
    endless = model.encode_texts(["snow " * 300], [[]], [{}])[0].chunks
    assert max(len(chunk.ids) for chunk in endless) == 60


def test_a_long_question_is_read_around_its_blank(model):
    model.config.question_tokens = 20
    long = "snow " * 60 + "@placeholder" + " rain" * 60
    [passage] = model.encode_texts(["@entity0 x"], [[long, "@placeholder " + "snow " * 60]], [NAMES])
    for question in passage.questions:
        assert len(question.ids) == 20
        assert question.ids[question.blank] == model.tokenizer.mask_token_id
    assert passage.questions[1].blank == 1 and 5 < passage.questions[0].blank < 15


def test_gradients_of_adapters_are_those_of_autograd():
    torch.manual_seed(0)
    layer = AdaptedLinear(5, 4, rank=2, scale=0.7)
    torch.nn.init.normal_(layer.adapter_up)
    torch.nn.init.normal_(layer.bias)
    inputs = torch.randn(9, 5, requires_grad=True)
    results = []
    for compute in (layer, lambda x: _linear(layer, x)):
        output = compute(inputs)
        wanted = (inputs, layer.adapter_down, layer.adapter_up)
        results.append([output, *torch.autograd.grad((output**3).sum(), wanted)])
    for plain, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)


def test_gradients_reach_adapters_and_head_and_nothing_else(model, batch):
    gradients = gradients_of(model.train(), batch)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert gradients.keys() == trained
    assert all(name.startswith(("blank_", "mention_", "prior")) or ".adapter_" in name for name in trained)
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
    assert all(gradient.abs().sum() > 0 for name, gradient in gradients.items() if not name.endswith("bias"))


def test_training_computes_what_reading_does(model, batch):
    assert torch.equal(logits_of(model.train(), batch), logits_of(model.eval(), batch)), "there is no dropout"


def test_a_checkpoint_is_what_differs_and_computes_in_single_precision(model, tmp_path):
    model.save_pretrained(tmp_path, stored_dtype=torch.float16)
    stored = load_file(tmp_path / "model.safetensors")
    assert all(not name.startswith("encoder.") or ".adapter_" in name for name in stored)
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    loaded = AutoModel.from_pretrained(tmp_path).eval()
    assert type(loaded) is CrossReader and loaded.dtype == torch.float32
    before, after = (m.answer(PASSAGES, QUESTIONS, [NAMES] * 3)[0][0] for m in (model, loaded))
    assert after.probability == pytest.approx(before.probability, abs=1e-2)


def test_a_merged_reader_is_complete_and_loads_as_remote_code(model, batch, tmp_path):
    tokenizer = model.tokenizer
    merged = model.merged()
    merged.tokenizer = tokenizer
    torch.testing.assert_close(logits_of(merged, batch), logits_of(model, batch), rtol=0, atol=1e-4)
    assert_loads_as_remote_code([merged], batch, tmp_path, "AutoModel")
    loaded = AutoModel.from_pretrained(tmp_path / "model-0")
    assert loaded.answer(PASSAGES, QUESTIONS, [NAMES] * 3)[1][0].entity == "@entity8"


def test_bad_inputs_are_named(model):
    with pytest.raises(ValueError, match="passage 1 mentions @entity9"):
        model.answer(["@entity0", "@entity9 x"], [[], ["@placeholder"]], [NAMES] * 2)
    with pytest.raises(ValueError, match="has no @placeholder"):
        model.answer(["@entity0 x"], [["who?"]], [NAMES])
    with pytest.raises(ValueError, match="1 passages, 2 lists of questions and 1 of names"):
        model.answer(["@entity0"], [[], []], [NAMES])
    with pytest.raises(ValueError, match="must hold a question"):
        CrossReaderConfig(encoder_config={"model_type": "bert"}, row_tokens=10)
    with pytest.raises(ValueError, match="question_tokens=96 must not exceed the 64 positions"):
        CrossReader.from_encoder(checkpoint("bert"), chunk_tokens=20)
    with pytest.raises(ValueError, match="not a distilbert"):
        CrossReader.from_encoder(checkpoint("distilbert"))
    whole = model.merged()
    assert whole.tokenizer is model.tokenizer
    whole.tokenizer = None
    with pytest.raises(ValueError, match="no tokenizer yet"):
        whole.tokenizer  # noqa: B018
