"""The study of long documents is resumable, its runs differ in one thing, and its tables say what they stored."""

from __future__ import annotations

import argparse
import json
import lzma

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, T5ForConditionalGeneration

from summarily.modeling.training.recipe import TokenizerSection, load_recipe
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.studies.long import study
from summarily.support.shipped import merged
from tests.modeling.tiny_t5 import T5_SIZES, tiny_t5
from tests.summarily.studies.small_study import run_here


def paper(i: int) -> dict:
    body = " ".join(f"Sentence {n} of paper {i} is about windows <cit> and tokens." for n in range(40 + i))
    return {"id": str(i), "article": body, "abstract": f"Paper {i} is about windows.\nIt has {i} tokens."}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "long"
    folder.mkdir(parents=True)
    for split, papers in (("train", range(12)), ("validation", range(20, 24)), ("test", range(30, 36))):
        with lzma.open(folder / f"pubmed_{split}.jsonl.xz", "wt") as file:
            file.writelines(json.dumps(paper(i)) + "\n" for i in papers)
    return str(tmp_path / "data")


@pytest.fixture
def base(tmp_path):
    section = TokenizerSection(kind="word", min_frequency=1, vocabulary_size=T5_SIZES["vocab_size"])
    tokenizer = train_tokenizer([f"summarize : {paper(i)['article']}" for i in range(3)], section)
    model: T5ForConditionalGeneration = tiny_t5(pad_token_id=0, eos_token_id=1)
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    return str(tmp_path / "base")


def options(tmp_path, data, base, *more):
    parser = argparse.ArgumentParser()
    study.add_arguments(parser)
    settings = [
        f"model.name={base}", "data.max_target_tokens=20", "generation.max_new_tokens=6", "adapter.rank=2",
        "training.precision=fp32", "data.min_source_words=1", "data.min_target_words=1", "schedule.warmup_steps=1",
    ]  # fmt: skip
    chosen = [argument for override in settings for argument in ("--set", override)]
    place = ["--output", str(tmp_path / "out"), "--data", data, "--papers", "8", "--summaries", "4"]
    return parser.parse_args([*place, *more, *chosen])


def test_a_study_trains_scores_and_goes_on(tmp_path, data, base, monkeypatch, capsys):
    variants = {
        "led-512": study.Variant(64, 8, thesis="43.9 / 16.5 / 38.8 (1024, arXiv)"),
        "led-4096": study.Variant(256, 8),
    }
    monkeypatch.setattr(study, "VARIANTS", variants)
    ran = run_here(monkeypatch, study)
    given = options(tmp_path, data, base)
    assert study.run(given) == 0
    assert ran == ["led-512-seed-0", "led-4096-seed-0", "led-512-seed-1", "led-4096-seed-1"]
    stored = json.loads((tmp_path / "out" / "study.json").read_text())
    rows = stored["rows"]
    assert (stored["test_papers"], rows["led-512"]["summaries"], rows["led-512"]["steps"]) == (6, 4, 2)
    seeds = [
        json.loads((tmp_path / "out" / f"led-512-seed-{seed}" / "losses.json").read_text()) for seed in (0, 1)
    ]
    assert rows["led-512"]["losses"] == pytest.approx([sum(pair) / 2 for pair in zip(*seeds, strict=True)])
    assert seeds[0] != seeds[1]
    test = stored["tests"]["By input length, beginning starts"]["led-4096"]
    means = [sum(rows[name]["losses"]) / 6 for name in ("led-4096", "led-512")]
    assert test["difference"] == pytest.approx(means[0] - means[1])
    table = (tmp_path / "out" / "study.md").read_text()
    assert "## By input length, beginning starts" in table and "By window" not in table
    assert "43.9 / 16.5 / 38.8" in table and "units:sentences" in table and "stemmer:yes" in table
    # A row's loss is that of the model alone with its paper.
    hub = merged(tmp_path / "out" / "led-512-seed-0" / "hub")
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(hub), AutoTokenizer.from_pretrained(hub)
    row = paper(30)
    source = "summarize: " + row["article"].replace("<cit>", " ")
    inputs = tokenizer(source, return_tensors="pt", truncation=True, max_length=64)
    labels = tokenizer(text_target=row["abstract"], return_tensors="pt", truncation=True, max_length=20)
    assert seeds[0][0] == pytest.approx(
        float(model.eval()(**inputs, labels=labels["input_ids"]).loss), abs=2e-3
    )
    capsys.readouterr()
    assert study.run(given) == 0
    assert len(ran) == 4, "finished cells are not run again"


def test_runs_differ_in_one_thing():
    cells = study.make_cells(list(study.VARIANTS), papers=1000, summaries=200)
    recipes = {cell.name: load_recipe(cell.recipe, cell.overrides) for cell in cells}
    assert len(recipes) == 2 * len(study.VARIANTS)
    for name, recipe in recipes.items():
        variant = study.VARIANTS[name.partition("-seed-")[0]]
        assert recipe.model.encoder == ("own" if variant.window is None else "led")
        assert recipe.model.config.get("attention_window") == variant.window
        assert (recipe.data.max_source_tokens, recipe.data.starts) == (variant.length, variant.starts)
        # The same four papers in every step: as many as a pool that is sorted by length, and as fit.
        assert (recipe.batch.pool, recipe.batch.max_examples, recipe.training.max_steps) == (4, 4, 250)
        assert recipe.batch.tokens >= 4 * (variant.length + recipe.data.max_target_tokens)
        same = recipes["led-512-seed-0"]
        for section in ("adapter", "optimizer", "schedule", "batch", "generation"):
            assert getattr(recipe, section) == getattr(same, section)
    assert all(name in study.VARIANTS for names, base, _ in study.GROUPS.values() for name in (*names, base))


def test_the_order_of_papers_does_not_depend_on_their_length():
    from summarily.modeling.training.collators import TokenBatches

    orders = []
    for cut in (5, 50):
        rows = [{"input_ids": [i] * min(cut, 7 * i % 60 + 1), "labels": [1]} for i in range(16)]
        batches = TokenBatches(rows, tokens=10_000, max_examples=4, pool=4, seed=3)
        steps = [batch.rows for batch, _ in zip(batches.start(), range(4), strict=False)]
        orders.append([{row["input_ids"][0] for row in step} for step in steps])
    assert orders[0] == orders[1]


def test_baselines_are_as_long_as_abstracts_and_positions_are_chosen_on_validation():
    ends = "Snow fell on hills. Nothing was said. A dog barked. Nobody came. The airport of Oslo was closed by snow."
    papers = study.Papers(
        [ends, "One. Two."],
        ["x", "y"],
        [(ends, "Snow closed the airport of Oslo.")] * 3,
        ["a b c d. e.", "f g."],
    )
    assert study.best_position(papers.validation, 1) == (0, 1)
    assert study.best_position([(ends, "Snow fell on hills.")] * 3, 1) == (1, 0)
    found = study.baselines(papers, others=())
    assert found["first 4 words"] == ["Snow fell on hills.", "One. Two."]
    [name] = [name for name in found if "by position" in name]
    assert name.startswith("first 0 and last 1")
    assert found["abstract of another paper"] == ["a b c d. e.", "f g."]
    assert study.position("One. Two. Three.", 2, 2) == "One.\nTwo.\nThree.", "no sentence twice"


def test_a_model_stands_beside_the_baselines(tmp_path, data, monkeypatch):
    monkeypatch.setattr(
        study, "baselines", lambda papers: {"first words": [text[:20] for text in papers.sources]}
    )
    papers = study.load_papers(data, 4, ["data.min_source_words=1", "data.min_target_words=1"])
    assert len(papers.sources) == 4 and "<cit>" not in papers.sources[0]
    found = study.score_model("lead", papers, tmp_path)
    gain = found["table"]["first words"]["gain"]["rouge1"]
    means = [found["table"][name]["scores"]["rouge1"] for name in ("lead", "first words")]
    assert gain[0] == pytest.approx(means[0] - means[1]) and gain[1] <= gain[0] <= gain[2]
    text = study.markdown(
        {"papers": 8, "test_papers": 0, "rows": {}, "tests": {}, "signatures": [], "model": found}
    )
    assert "## `lead` beside baselines, 4 test papers" in text and "| first words |" in text
