"""Training of readers: views of articles, rows, and runs that repeat and go on where they were stopped."""

from __future__ import annotations

import itertools
import json
import random

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModel

from summarily.cli import main
from summarily.modeling.training.cloze_corpus import Reading, write_corpus
from summarily.modeling.training.recipe import Recipe, load_recipe
from summarily.modeling.training.tasks import reading as reading_module
from summarily.modeling.training.tasks.reading import (
    accuracies,
    asked_sentences,
    encode_views,
    full_view,
    gold,
    short_view,
    training_rows,
    whole,
)
from summarily.modeling.training.train import train
from summarily.support.cloze.marks import PLACEHOLDER, candidates
from summarily.support.cloze.questions import Question
from summarily.support.errors import RecipeError
from tests.metrics.tiny import checkpoint

VERBS = ["beat", "met", "left", "hired", "praised", "sued"]
NAMES = ["Oslo", "Ann Berg", "Bob", "Rome", "Kim Lee", "Acme", "Paris", "Eva"]


def make_reading(number: int, split: str = "train", collection: str = "cnndm_articles") -> Reading:
    """An article of eight sentences about some of the names, and two of its facts as questions."""
    generator = random.Random(number)
    ids = generator.sample([f"@entity{n}" for n in range(len(NAMES))], 5)
    facts = [
        f"{a} {generator.choice(VERBS)} {b} on day {i}." for i, (a, b) in enumerate(itertools.pairwise(ids))
    ]
    filler = [f"It snowed on day {i} again." for i in range(4)]
    questions = [
        Question(fact.replace(entity, PLACEHOLDER), entity)
        for fact in facts[:2]
        for entity in candidates(fact)
    ]
    names = {f"@entity{n}": [name] for n, name in enumerate(NAMES)}
    return Reading(f"{number}", collection, split, " ".join([*facts, *filler]), questions, names, 4)


READINGS = [make_reading(number) for number in range(12)]


@pytest.mark.parametrize("make", [full_view, short_view])
def test_a_view_asks_what_its_passage_can_answer(make):
    generator = random.Random(0)
    for _ in range(20):
        view = make(READINGS[0], 60, generator)
        present = candidates(view.passage)
        assert len(view.questions) == len(view.answers) <= reading_module.MOST_QUESTIONS
        for question, answer in zip(view.questions, view.answers, strict=True):
            assert PLACEHOLDER in question and answer in present and answer not in question
            assert view.names[answer] == READINGS[0].names[answer][0]


def test_sentences_that_are_asked_about_are_not_in_the_passage():
    generator = random.Random(1)
    original = {question.text for question in READINGS[0].questions}
    extra = 0
    for _ in range(20):
        view = full_view(READINGS[0], 1000, generator)
        for question, answer in zip(view.questions, view.answers, strict=True):
            if question not in original:
                extra += 1
                assert question.replace(PLACEHOLDER, answer) not in view.passage
    assert extra


def test_short_views_are_sometimes_the_sentences_asked_about():
    generator = random.Random(2)
    views = [short_view(READINGS[0], 1000, generator) for _ in range(40)]
    asked = asked_sentences(READINGS[0].questions)
    held = sum(all(sentence in view.passage for sentence in asked) for view in views)
    assert 10 < held < 40
    assert gold(READINGS[0]).passage == " ".join(asked)
    assert whole(READINGS[0]).passage == READINGS[0].passage


def test_an_epoch_repeats_and_the_next_one_differs(tmp_path):
    reader = reading_module.build_reader(recipe("cross"), READINGS, tmp_path)

    def ids(epoch):
        return [row["passage"].chunks[0].ids for row in training_rows(reader, READINGS, 60, 0, epoch)]

    assert ids(0) == ids(0) != ids(1)
    assert 40 < len(ids(0)) <= 48, "two views in each of two passes"


def test_rows_have_the_label_of_the_answer(tmp_path):
    reader = reading_module.build_reader(recipe("cloze"), READINGS, tmp_path)
    for row, reading in zip(encode_views(reader, [whole(r) for r in READINGS]), READINGS, strict=True):
        answers = [row["passage"].entities[label] for label in row["labels"]]
        assert answers == [question.answer for question in reading.questions]
        assert len(row["input_ids"]) == row["passage"].tokens
    nothing = Reading(
        "x", "mine", "train", "@entity0 left.", [Question("@placeholder left.", "@entity0")], {}, 1
    )
    assert encode_views(reader, [whole(nothing)]) == [], "one candidate leaves nothing to decide"


def test_accuracy_counts_right_answers(tmp_path):
    reader = reading_module.build_reader(recipe("cloze"), READINGS, tmp_path)
    scores = accuracies(reader, READINGS, 2000)
    right = total = 0
    for reading in READINGS:
        [answers] = reader.answer([reading.passage], [[question.text for question in reading.questions]])
        right += sum(a.entity == q.answer for a, q in zip(answers, reading.questions, strict=True))
        total += len(reading.questions)
    assert scores["accuracy"] == scores["accuracy_cnndm_articles"] == pytest.approx(100 * right / total)
    assert {"accuracy_gold", "accuracy_gold_cnndm_articles"} < scores.keys()


def recipe(kind: str, questions="questions.jsonl.gz", **training) -> Recipe:
    models = {
        "cloze": {
            "name": "summarily-cloze-reader",
            "config": {"hidden_size": 6, "max_entities": 10, "vectors": ""},
        },
        "cross": {
            "name": "summarily-cross-reader",
            "config": {
                "encoder": checkpoint("bert"),
                "adapter_rank": 2,
                "adapted_layers": [4, 5],
                "chunk_tokens": 60,
                "question_tokens": 60,
            },
        },
    }
    return Recipe.from_dict(
        {
            "model": models[kind],
            "tokenizer": {"kind": "word", "vocabulary_size": 60},
            "reading": {"questions": str(questions), "max_words": 60, "validation_articles": 4},
            "batch": {"tokens": 400, "pool": 16},
            "schedule": {"kind": "linear", "learning_rate": 0.01},
            "training": {
                "max_steps": 6,
                "evaluate_every": 3,
                "checkpoint_every": 2,
                "log_every": 1,
                "tensorboard": False,
                **training,
            },
            "evaluation": {"select": "accuracy"},
            "hub": {"dtype": "float16"},
        }
    )


@pytest.fixture(autouse=True)
def tiny_vectors(monkeypatch, tmp_path):
    """Five words with vectors instead of GloVe's 400,000."""
    import numpy as np

    from summarily.support import vectors

    small = vectors.Vectors(["day", "snowed", "beat", "rain", "on"], np.eye(5, 4, dtype=np.float32), "small")
    monkeypatch.setattr(vectors, "load", lambda name: small)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "cloze.jsonl.gz"
    others = [make_reading(100 + n, split) for n in range(6) for split in ("dev", "test")]
    write_corpus([*READINGS, *others], path)
    return path


@pytest.mark.parametrize("kind", ["cloze", "cross"])
def test_a_run_that_was_stopped_ends_with_the_same_weights(kind, corpus, tmp_path):
    whole_run = train(recipe(kind, corpus), tmp_path / "whole")
    # The schedule sees the end it was told at first: stop by a budget of epochs after the fourth step's checkpoint.
    monkey = pytest.MonkeyPatch()
    taken = []

    def stop_after_four(progress, training):
        taken.append(progress.step)
        return "stopped" if progress.step == 4 and len(taken) < 10 else original(progress, training)

    from summarily.modeling.training import train as train_module

    original = train_module.stop_reason
    with monkey.context() as patch:
        patch.setattr(train_module, "stop_reason", stop_after_four)
        train(recipe(kind, corpus), tmp_path / "parts")
    resumed = train(recipe(kind, corpus), tmp_path / "parts")
    assert whole_run.status == resumed.status == "finished" and resumed.step == 6
    states = [
        torch.load(
            sorted((tmp_path / run / "checkpoints").glob("step-*"))[-1] / "state.pt", weights_only=True
        )
        for run in ("whole", "parts")
    ]
    for name, tensor in states[0]["model"].items():
        assert torch.equal(tensor, states[1]["model"][name]), name
    assert whole_run.scores.keys() == {
        f"accuracy{view}{where}" for view in ("", "_gold") for where in ("", "_cnndm_articles")
    }
    assert json.loads((tmp_path / "whole/result.json").read_text())["scores"] == whole_run.scores


def test_the_folder_for_the_hub_loads(corpus, tmp_path):
    train(recipe("cloze", corpus, max_steps=1), tmp_path)
    stored = load_file(tmp_path / "hub/model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    reader = AutoModel.from_pretrained(tmp_path / "hub")
    [[answer]] = reader.answer(
        ["@entity1 beat @entity2 on day 1."], [["@placeholder beat @entity2 on day 1."]]
    )
    assert answer.entity in ("@entity1", "@entity2")


def test_a_run_goes_on_from_a_reader(corpus, tmp_path):
    first = train(recipe("cross", corpus, max_steps=2), tmp_path / "first")
    values = recipe("cross", corpus, max_steps=1).to_dict()
    values["reading"]["start"] = str(tmp_path / "first/hub")
    with pytest.raises(RecipeError, match=r"take encoder out of model\.config"):
        reading_module.build_reader(Recipe.from_dict(values), READINGS, tmp_path)
    values["model"]["config"] = {}
    reader = reading_module.build_reader(Recipe.from_dict(values), READINGS, tmp_path)
    stored = load_file(tmp_path / "first/hub/model.safetensors")
    state = reader.state_dict()
    assert all(torch.equal(state[name], tensor.float()) for name, tensor in stored.items())
    assert {p.dtype for p in reader.parameters()} == {torch.float32}
    assert any(p.requires_grad for p in reader.parameters())
    second = train(Recipe.from_dict(values), tmp_path / "second")
    assert second.step == 1 and second.scores.keys() == first.scores.keys()
    values["model"]["name"] = "summarily-cloze-reader"
    with pytest.raises(RecipeError, match=r"is a summarily-cross-reader, but model\.name"):
        reading_module.build_reader(Recipe.from_dict(values), READINGS, tmp_path)


def test_words_start_with_their_vectors(tmp_path):
    reader = reading_module.build_reader(recipe("cloze"), READINGS, tmp_path)
    row = reader.tokenizer.convert_tokens_to_ids("snowed")
    assert reader.word_embeddings.weight[row].tolist() == [0, 1, 0, 0]
    assert reader.tokenizer.convert_tokens_to_ids("rain") != reader.tokenizer.unk_token_id


def test_the_card_says_what_the_run_did(corpus, tmp_path):
    result = train(recipe("cloze", corpus, max_steps=1), tmp_path)
    text = (tmp_path / "hub/README.md").read_text()
    meta = yaml.safe_load(text.split("---")[1])
    [index] = meta["model-index"]
    assert index["results"][0]["metrics"][0] == {
        "type": "accuracy", "name": "accuracy", "value": round(result.scores["accuracy"], 2)
    }  # fmt: skip
    assert f"| accuracy | {result.scores['accuracy']:.1f} |" in text
    assert "train: 48 questions about 12 articles (cnndm_articles 12)" in text
    assert "right or wrong" in text and "$" not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"max_source_tokens": 60}}, "data.max_source_tokens is 60, but reading does not read it"),
        ({"training": {"label_smoothing": 0.1}}, "training.label_smoothing is 0.1, but reading"),
        ({"evaluation": {"select": "rouge1"}}, "reading is chosen by 'accuracy'"),
        ({"rating": {"pairs": [{"file": "x"}]}}, "reading and rating are filled in"),
        ({"reading": {"max_words": 0}}, "reading.max_words is 0"),
    ],
)
def test_what_reading_does_not_read_is_refused(change, message):
    values = recipe("cloze").to_dict()
    for section, new in change.items():
        values[section] |= new
    with pytest.raises(RecipeError, match=message):
        Recipe.from_dict(values)


def test_bad_recipes_are_named(corpus, tmp_path, capsys):
    wrong = Recipe.from_dict(recipe("cloze", corpus).to_dict() | {"model": {"name": "bart"}})
    with pytest.raises(RecipeError, match="'bart', which is no reader"):
        train(wrong, tmp_path / "bart")
    assert main(["train", "cloze_raeder"]) == 2
    assert "did you mean cloze_reader?" in capsys.readouterr().err


def test_a_run_of_the_time_when_readers_had_a_command_of_their_own_is_refused_with_a_sentence(tmp_path):
    old = load_recipe("cloze_reader").to_dict()
    del old["reading"], old["rating"]
    old["data"] |= {"files": {"corpus": "cloze.jsonl.gz"}, "max_source_tokens": 240}
    old["evaluation"] |= {"metrics": ["accuracy"], "validation_examples": 150}
    (tmp_path / "recipe.json").write_text(json.dumps(old))
    with pytest.raises(RecipeError, match=r"holds a run of another recipe: data\.files\.corpus"):
        train(load_recipe("cloze_reader"), tmp_path)
