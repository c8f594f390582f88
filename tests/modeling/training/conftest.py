"""A tiny corpus, and tiny recipes that train on it in a second."""

import json
import random

import datasets
import pytest

from summarily.modeling.training.recipe import Recipe

NOUNS = ["oil", "gold", "wheat", "cocoa", "sugar", "copper", "rubber", "tin", "coffee", "cotton"]
VERBS = ["rises", "falls", "jumps", "slips", "gains"]

MODELS = {
    "bart": {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 64,
    },
    "summarily-attention-variant": {
        "hidden_size": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "attention_type": "local",
        "block_length": 4,
        "width": 4,
    },
}


@pytest.fixture(autouse=True, scope="session")
def own_dataset_cache(tmp_path_factory):
    before = datasets.config.HF_DATASETS_CACHE
    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("datasets")
    datasets.disable_progress_bars()
    yield
    datasets.config.HF_DATASETS_CACHE = before
    datasets.enable_progress_bars()


def make_pairs(n, seed=0):
    generator = random.Random(seed)
    rows = []
    for i in range(n):
        noun, verb = generator.choice(NOUNS), generator.choice(VERBS)
        filler = " ".join(generator.choices(["traders", "said", "on", "monday", "prices", "again"], k=i % 9))
        rows.append({"text": f"{noun} {verb} in trade number {i} {filler}", "title": f"{noun} {verb}"})
    return rows


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for split, n in (("train", 48), ("validation", 12), ("test", 8)):
        lines = (json.dumps(row) for row in make_pairs(n, seed=n))
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture
def tiny():
    """A function from a model type and changed sections to a recipe of a dozen steps."""
    return tiny_recipe


def tiny_recipe(model="bart", dropout=0.1, **sections):
    values = {
        "model": {"name": model, "config": {**MODELS[model], "dropout": dropout}},
        "tokenizer": {"kind": "word", "min_frequency": 1},
        "data": {
            "files": {split: f"{split}.jsonl" for split in ("train", "validation", "test")},
            "source": "text",
            "target": "title",
            "max_source_tokens": 24,
            "max_target_tokens": 8,
        },
        "batch": {"tokens": 128, "micro_tokens": 64, "pool": 32},
        "optimizer": {"kind": "adam"},
        "schedule": {"kind": "inverse_sqrt", "learning_rate": 0.01, "warmup_steps": 4},
        "training": {
            "max_steps": 12,
            "log_every": 1,
            "evaluate_every": 5,
            "checkpoint_every": 3,
            "tensorboard": False,
        },
        "generation": {"num_beams": 2, "max_new_tokens": 6},
    }
    for section, changes in sections.items():
        values[section] = {**values.get(section, {}), **changes}
    return Recipe.from_dict(values)
