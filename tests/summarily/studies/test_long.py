"""The study of long documents is resumable, and its tables say what its cells stored."""

from __future__ import annotations

import argparse
import gzip
import json

import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
)

from summarily.modeling.training.random_starts import StartTokenizer
from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.studies.long import study

TINY = (
    "data.limits.train=6",
    "data.limits.test=4",
    "generation.max_new_tokens=6",
    "data.max_target_tokens=20",
)


def paper(i: int) -> dict:
    body = " ".join(f"Sentence {n} of paper {i} is about windows and tokens." for n in range(40 + i))
    sections = [
        {"heading": None, "text": "The abstract, by mistake."},
        {"heading": "1 Introduction", "text": body},
    ]
    return {"id": str(i), "abstract": f"Paper {i} is about windows of {i} tokens.", "sections": sections}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "long"
    folder.mkdir(parents=True)
    for name, papers in (("train", range(60)), ("dev", range(100, 108))):
        with gzip.open(folder / f"arxiv_{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(paper(i)) + "\n" for i in papers)
    return str(tmp_path / "data")


@pytest.fixture
def denoiser(tmp_path):
    texts = [paper(i)["sections"][1]["text"] for i in range(5)]
    section = TokenizerSection(kind="bpe", special_tokens="bart", vocabulary_size=320)
    tokenizer = train_tokenizer(texts, section, max_length=64)
    torch.manual_seed(0)
    config = BartConfig(vocab_size=len(tokenizer), d_model=16, encoder_layers=2, decoder_layers=1,
                        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
                        max_position_embeddings=64)  # fmt: skip
    BartForConditionalGeneration(config).half().save_pretrained(tmp_path / "denoiser")
    tokenizer.save_pretrained(tmp_path / "denoiser")
    return str(tmp_path / "denoiser")


def test_a_study_trains_scores_and_goes_on(tmp_path, data, denoiser, monkeypatch, capsys):
    variants = {
        "led-512": study.Variant("led", 128, 16, thesis="43.9 / 16.5 / 38.8 (1024)"),
        "led-512-random-starts": study.Variant("led", 128, 16, starts="random"),
    }
    monkeypatch.setattr(study, "VARIANTS", variants)
    parser = argparse.ArgumentParser()
    study.add_arguments(parser)
    settings = [argument for override in TINY for argument in ("--set", override)]
    options = parser.parse_args(
        ["--steps", "2", "--denoiser", denoiser, "--output", str(tmp_path / "out"), "--data", data, *settings]
    )
    assert study.run(options) == 0
    stored = json.loads((tmp_path / "out" / "study.json").read_text())
    assert list(stored["rows"]) == [
        "first 130 words of the body", "abstract of another paper", "led-512", "led-512-random-starts",
    ]  # fmt: skip
    row = stored["rows"]["led-512"]
    assert row["step"] == 2 and len(row["per_example"]["sms"]) == stored["documents"] == 4
    assert row["losses"]["own"] != row["losses"]["exchanged"]
    result = json.loads((tmp_path / "out" / "led-512" / "result.json").read_text())
    assert row["losses"]["own"] == pytest.approx(result["scores"]["loss"], abs=1e-3), "float16 weights"
    assert "normalised start" in stored["correlations"]["led-512-random-starts"]
    table = (tmp_path / "out" / "study.md").read_text()
    assert (
        "43.9 / 16.5 / 38.8" in table
        and "sms|" in table
        and "| led-512-random-starts | normalised start |" in table
    )
    assert "2 steps" in table and "**Do they read?**" in table and "beside" in table
    for name in ("by_length.png", "by_document.png"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    capsys.readouterr()
    assert study.run(options) == 0
    assert "started" not in capsys.readouterr().out, "finished cells are not run again"


@pytest.mark.parametrize(
    ("variant", "kind", "fields"),
    [
        (study.Variant("bart", 64), "bart", {}),
        (study.Variant("led", 128, 32), "summarily-led", {"attention_window": 32, "max_encoder_position_embeddings": 128}),
        (study.Variant("red", 128, layers=("lsh",), attention="random"), "summarily-red", {"attention_types": ["lsh"] * 2}),
        (study.Variant("red", 128, layers=("lsh", "local")), "summarily-red", {"attention_types": ["lsh", "local"]}),
    ],
)  # fmt: skip
def test_every_variant_starts_from_the_denoiser(tmp_path, denoiser, variant, kind, fields):
    place = study.make_base(variant, denoiser, tmp_path)
    config = AutoConfig.from_pretrained(place)
    assert config.model_type == kind and {name: getattr(config, name) for name in fields} == fields
    assert len(AutoTokenizer.from_pretrained(place)) == config.vocab_size
    written = (place / "config.json").stat().st_mtime_ns
    assert study.make_base(variant, denoiser, tmp_path) == place
    assert (place / "config.json").stat().st_mtime_ns == written, "made once"


def test_a_variant_from_scratch_has_none_of_the_denoisers_weights(tmp_path, denoiser):
    trained, scratch = (
        AutoModelForSeq2SeqLM.from_pretrained(study.make_base(variant, denoiser, tmp_path)).state_dict()
        for variant in (study.Variant("led", 128, 32), study.Variant("led", 128, 32, pretrained=False))
    )
    name = "model.decoder.layers.0.fc1.weight"
    assert not torch.equal(trained[name], scratch[name])


def test_names_of_bases_tell_variants_apart():
    by_base = {}
    for variant in study.VARIANTS.values():
        by_base.setdefault(variant.base, set()).add(variant._replace(starts="", thesis=""))
    assert all(len(variants) == 1 for variants in by_base.values())
    assert all(name in study.VARIANTS for names, base, _ in study.GROUPS.values() for name in (*names, base))


def test_normalised_starts_are_those_of_the_tokenizer(denoiser):
    tokenizer = AutoTokenizer.from_pretrained(denoiser)
    sources = [paper(i)["sections"][1]["text"] for i in range(4)]
    tokens = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in sources]
    documents = study.Documents(["a", "b", "c", "d"], sources, [""] * 4, tokens, ["x"])
    cut = StartTokenizer(tokenizer, 128, "random")
    expected = [
        cut(text, example_id=name).normalised_start for text, name in zip(sources, "abcd", strict=True)
    ]
    assert study.normalised_starts(documents, 128) == pytest.approx(expected)
    assert np.ptp(expected) > 0


def test_the_reading_follows_the_numbers():
    def row(score, own=6.0, exchanged=6.0):
        return {"scores": {"rouge1": score}, "losses": {"own": own, "exchanged": exchanged}}

    rows = {
        "first 130 words of the body": {"scores": {"rouge1": 0.30}},
        "bart-512": row(0.20, exchanged=6.1),
        "led-512": row(0.25),
    }
    title = "LED against BART at equal length"
    tests = {key: {} for key in study.GROUPS} | {title: {"led-512": 0.01}}
    clear = study.reading({"rows": rows, "tests": tests})
    assert "clearly different in ROUGE-1: led-512 +5.0" in clear[0] and "5.0 apart" in clear[0]
    assert "by 0.000 to 0.100 nats (bart-512)" in clear[1]
    assert "led-512, has ROUGE-1 25.0, beside 30.0 by the first 130 words" in clear[2]
    unclear = study.reading({"rows": rows, "tests": tests | {title: {"led-512": 0.2}}})
    assert "no clear difference" in unclear[0]
