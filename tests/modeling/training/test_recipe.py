import re

import pytest

from summarily.modeling.training.recipe import RECIPES, Recipe, load_recipe
from summarily.support.errors import RecipeError

NAME = "attention_variants_reuters"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_package_is_valid(path):
    recipe = load_recipe(path.stem)
    assert recipe == load_recipe(path)
    assert recipe == Recipe.from_dict(recipe.to_dict())


@pytest.mark.parametrize("path", sorted((RECIPES / "data").glob("*.toml")), ids=lambda path: path.stem)
def test_every_data_set_can_be_used_by_any_model(path):
    recipe = load_recipe(NAME, [f"data.use={path.stem}", "batch.tokens=8192"])
    assert recipe.data.name or recipe.data.files


def test_public_data_is_named_as_on_the_hub():
    names = {
        load_recipe(NAME, [f"data.use={use}"]).data.name for use in ("gigaword", "cnn_dailymail", "xsum")
    }
    assert names == {"Harvard/gigaword", "abisee/cnn_dailymail", "EdinburghNLP/xsum"}


def test_overrides_are_read_as_the_type_of_the_field():
    recipe = load_recipe(
        NAME,
        [
            "training.max_steps=7",
            "training.max_minutes=none",
            "schedule.learning_rate=1",
            "data.lowercase=False",
            "data.revision=12",
            "data.files.test=duc2004",
            'data.source=["headline", "first_paragraph"]',
            "evaluation.metrics=['rouge']",
            "model.config.hidden_size=32",
            "model.config.attention_type=relative",
            "generation.early_stopping=true",
            "hub.note=a b = c",
        ],
    )
    assert recipe.training.max_steps == 7 and recipe.training.max_minutes is None
    assert recipe.schedule.learning_rate == 1.0 and isinstance(recipe.schedule.learning_rate, float)
    assert recipe.data.lowercase is False and recipe.data.revision == "12"
    assert recipe.data.files["test"] == "duc2004" and "train" in recipe.data.files
    assert recipe.data.source == ["headline", "first_paragraph"]
    assert recipe.model.config["hidden_size"] == 32 and recipe.model.config["attention_type"] == "relative"
    assert recipe.generation["early_stopping"] is True and recipe.hub.note == "a b = c"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "training.max_step=3",
            "training.max_step is not a key of a recipe; did you mean training.max_steps?",
        ),
        ("trainin.max_steps=3", "did you mean training?"),
        ("training.max_steps=many", "training.max_steps is 'many' (str); expected int or none."),
        ("training.max_steps=2.5", "training.max_steps is 2.5 (float)"),
        ("data.lowercase=1", "data.lowercase is 1 (int); expected bool."),
        ("training.max_steps=true", "training.max_steps is True (bool)"),
        ("schedule.kind=noan", "did you mean noam?"),
        ("training=3", "training is a section; name one of its keys"),
        ("training.max_steps.x=3", "training.max_steps has no keys of its own"),
        ("training.max_steps", "is not an override; write section.key=value."),
        ("training.max_steps=0", "training.max_steps is 0; it must be above 0."),
        ("training.label_smoothing=1.0", "training.label_smoothing is 1.0"),
        ("training.max_steps=none", "the run would never end"),
        (
            "batch.tokens=100",
            "must hold one example of data.max_source_tokens + data.max_target_tokens = 160",
        ),
        ("data.cut_after_conclusion=true", "need data.headings"),
        ("evaluation.select=sms", "none of evaluation.metrics = ['rouge', 'vert'] computes"),
        ("data.streaming=true", "data.drop_duplicates would remember every row of a stream"),
        ("data.use=xsun", "did you mean xsum?"),
    ],
)
def test_a_mistake_is_named_with_its_fix(override, message):
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_recipe(NAME, [override])


def test_unknown_recipes_and_broken_files_are_named(tmp_path):
    with pytest.raises(RecipeError, match=r"did you mean attention_variants_reuters\?"):
        load_recipe("attention_variant_reuters")
    (tmp_path / "broken.toml").write_text("[model\nname = 1")
    with pytest.raises(RecipeError, match=r"broken.toml is not valid TOML"):
        load_recipe(tmp_path / "broken.toml")
    with pytest.raises(RecipeError, match=r"model.name is missing"):
        Recipe.from_dict({"model": {}, "data": {"name": "x"}})


@pytest.mark.parametrize(
    ("name", "start", "epochs", "rate", "source", "target"),
    [
        ("bart_cnn_dailymail", "facebook/bart-large-cnn", 1, 3e-5, 1024, 142),
        ("led_pubmed", "led-cnn", 2, 1e-5, 4096, 200),
        ("led_arxiv", "led-cnn", 1, 1e-5, 4096, 200),
        ("red_pubmed", "red-cnn", 3, 1e-5, 4096, 200),
    ],
)
def test_the_thesis_recipes_are_those_of_its_table(name, start, epochs, rate, source, target):
    """Sections 5.2.3 and 5.2.6, Table D.2."""
    recipe = load_recipe(name)
    assert (recipe.model.name, recipe.training.max_epochs) == (start, epochs)
    assert recipe.schedule.learning_rate == rate and recipe.batch.max_examples == 1
    assert recipe.training.label_smoothing == (0.1 if name.startswith("bart") else 0.0)
    assert (recipe.data.max_source_tokens, recipe.data.max_target_tokens) == (source, target)
    assert recipe.batch.tokens == source + target, "one document of full length is a batch"
    assert recipe.generation == {"num_beams": 4, "length_penalty": 2.0, "max_new_tokens": target}


@pytest.mark.parametrize(
    "override, message",
    [
        ("optimizer.epsilon=-1e-8", r"optimizer\.epsilon is -1e-08; it must be above 0"),
        ("optimizer.epsilon=nan", r"optimizer\.epsilon is nan; expected a finite number"),
        ("schedule.learning_rate=inf", r"schedule\.learning_rate is inf; expected a finite number"),
        ("schedule.learning_rate=" + "9" * 400, r"schedule\.learning_rate is 9+.*expected a finite number"),
        ("optimizer.beta2=1.5", r"optimizer\.beta2 is 1\.5; expected 0 <= value < 1"),
        ("optimizer.weight_decay=-0.1", r"optimizer\.weight_decay is -0\.1; it must not be below 0"),
        ("batch.tokens=" + "9" * 5000, r"batch\.tokens"),
        ("batch.tokens=" + "[" * 100_000, r"batch\.tokens"),
    ],
)
def test_numbers_that_are_none_are_refused(override, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe("news", [override])


@pytest.mark.parametrize(
    "content, message",
    [
        ("[model]\nname = 'caf\xe9'\n".encode("latin-1"), "mine.toml is not UTF-8"),
        (b"a = " + b"[" * 100_000, "mine.toml is not"),
        (b"a = " + b"9" * 5000, "mine.toml is not"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path, content, message):
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(RecipeError, match=message):
        load_recipe(tmp_path / "mine.toml")


def test_a_file_in_the_working_folder_does_not_take_the_place_of_a_recipe_of_ours(tmp_path, monkeypatch):
    expected = load_recipe("news")
    (tmp_path / "news").write_text("not a recipe")
    monkeypatch.chdir(tmp_path)
    assert load_recipe("news") == expected
