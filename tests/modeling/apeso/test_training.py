"""Models that copy in the training engine: extended ids, salient tokens, unknown words in predictions, resuming."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal

import datasets
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from summarily.modeling import ApesoForConditionalGeneration, PointerGeneratorTokenizer
from summarily.modeling.training.building import build_model
from summarily.modeling.training.checkpoints import Checkpoints, load_state
from summarily.modeling.training.corpora import encode, load_corpus
from summarily.modeling.training.recipe import load_recipe
from summarily.modeling.training.tasks.summary import SummaryTask
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.modeling.training.train import train
from summarily.support.cloze.recognition import Mention
from summarily.support.errors import RecipeError

SMALL = [
    "model.name=summarily-apeso", "model.config={embedding_size = 8, hidden_size = 16, delta = 0.1}",
    "data.entities=true", "data.max_source_tokens=20", "data.max_target_tokens=8", "batch.tokens=150",
    "tokenizer.vocabulary_size=30", "training.max_steps=6", "training.evaluate_every=4", "training.checkpoint_every=2",
    "training.tensorboard=false", "evaluation.test_examples=4", "generation.max_new_tokens=6",
]  # fmt: skip


class Names:
    """A recogniser that takes every capitalised word for a person."""

    def __call__(self, texts):
        return [[Mention(word, "PERSON") for word in text.split() if word[0].isupper()] for text in texts]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Invented stories about people whom no vocabulary knows."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("summarily.support.cloze.recognition.recogniser", lambda: Names())
    generator = random.Random(0)
    with gzip.open(tmp_path / "highlights.jsonl.gz", "wt") as file:
        for i in range(60):
            who, other = (f"{generator.choice('ABCDE')}{generator.choice('aeiou')}n{i}" for _ in range(2))
            row = {
                "id": f"{i}",
                "source": f"on monday {who} met {other} in the old town and they spoke for {i % 5} hours",
                "target": f"{who} met {other} in town",
                "split": "train" if i < 44 else "validation" if i < 52 else "test",
            }
            file.write(json.dumps(row) + "\n")
    return tmp_path


def test_encoded_rows_have_extended_ids_unknown_words_and_salient_tokens(data):
    recipe = load_recipe("apeso_news", SMALL)
    corpus = load_corpus(recipe.data, data)
    tokenizer = train_tokenizer([row["source"] for row in corpus["train"]], recipe.tokenizer)
    row = encode(corpus["test"], tokenizer, recipe.data)[0]
    who, other = row["source"].split()[2], row["source"].split()[4]
    assert row["unknown_words"][:2] == [who, other]
    size = len(tokenizer)
    assert row["input_ids"][2] == row["labels"][0] == size
    assert row["input_ids"][4] == row["labels"][2] == size + 1
    assert [i for i, label in enumerate(row["salient_tokens"]) if label] == [2, 4]


def weights(folder) -> dict[str, torch.Tensor]:
    return load_state(Checkpoints(folder / "checkpoints").latest() / "state.pt")["model"]


def test_a_run_that_was_stopped_ends_as_one_that_was_not(data):
    recipe = load_recipe("apeso_news", SMALL)
    whole = train(recipe, data / "whole", data=data)

    class Stopping(SummaryTask):
        calls = 0

        def loss(self, model, batch):
            self.calls += 1
            if self.calls == 4:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().loss(model, batch)

    assert train(recipe, data / "stopped", data=data, task=Stopping).status == "interrupted"
    resumed = train(recipe, data / "stopped", data=data)
    assert (whole.status, resumed.status) == ("finished", "finished")
    assert whole.scores == resumed.scores
    first, second = weights(data / "whole"), weights(data / "stopped")
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(".entities." in name for name in first)


def test_the_hub_folder_summarizes_with_copied_words(data):
    train(load_recipe("apeso_news", SMALL), data / "run", data=data)
    lines = (data / "run" / "predictions.jsonl").read_text().splitlines()
    assert len(lines) == 4  # decoding ids beyond the vocabulary did not fail
    hub = data / "run" / "hub"
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(hub), AutoTokenizer.from_pretrained(hub)
    assert type(model) is ApesoForConditionalGeneration and type(tokenizer) is PointerGeneratorTokenizer
    model.copy_switch.bias.data.fill_(50.0)  # copy and nothing else
    inputs = tokenizer("Zoltan Quux met", return_tensors="pt", add_special_tokens=False)
    ids = model.generate(**inputs, max_new_tokens=3, min_new_tokens=3)
    text = tokenizer.decode(ids[0], skip_special_tokens=True, unknown_words=inputs.unknown_words)
    assert set(text.split()) <= {"Zoltan", "Quux", "met"} and len(text.split()) == 3
    assert "unknown_words=inputs.unknown_words" in (hub / "README.md").read_text()


def test_a_recipe_holds_the_penalties_and_the_hub_folder_has_them(data):
    kept = [*SMALL, "generation.gamma=0.5", "generation.block_ngram=3", 'generation.exclude_ids=["in"]']
    train(load_recipe("apeso_news", [*kept, "training.max_steps=1"]), data / "run", data=data)
    model = AutoModelForSeq2SeqLM.from_pretrained(data / "run" / "hub")
    tokenizer = AutoTokenizer.from_pretrained(data / "run" / "hub")
    config = model.generation_config
    assert (config.gamma, config.block_ngram) == (0.5, 3)
    assert config.exclude_ids == [tokenizer.convert_tokens_to_ids("in")] != [tokenizer.unk_token_id]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["generation.gamma=-1.0"], "gamma is -1"),
        (["generation.gama=0.5"], r"did you mean generation\.gamma"),
        (["generation.exclude_ids=3"], "expected a list"),
        (["model.name=bart", "model.config={}", "generation.gamma=0.5"], "BartFor.* would ignore it"),
    ],
)
def test_penalties_that_mean_nothing_are_named(data, changes, message):
    recipe = load_recipe("apeso_news", [*SMALL, *changes])
    tokenizer = train_tokenizer(["on monday in town"], recipe.tokenizer)
    with pytest.raises(RecipeError, match=message):
        build_model(recipe, tokenizer)


def test_sources_of_the_test_may_be_whole(data):
    short = [*SMALL, "data.max_source_tokens=9", "training.max_steps=1", "data.max_test_source_tokens=0"]
    recipe = load_recipe("apeso_news", short)
    corpus = load_corpus(recipe.data, data)
    tokenizer = train_tokenizer([row["source"] for row in corpus["train"]], recipe.tokenizer)
    lengths = {
        split: {len(row["input_ids"]) for row in encode(corpus[split], tokenizer, recipe.data, split)}
        for split in ("train", "validation", "test")
    }
    assert lengths == {"train": {9}, "validation": {9}, "test": {16}}  # 15 words and the end
    limited = load_recipe("apeso_news", [*short, "data.max_test_source_tokens=12"])
    assert {len(row["input_ids"]) for row in encode(corpus["test"], tokenizer, limited.data, "test")} == {12}
    train(recipe, data / "run", data=data)
    assert AutoTokenizer.from_pretrained(data / "run" / "hub").model_max_length >= 2**20
