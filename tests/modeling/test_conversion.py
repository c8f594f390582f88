"""`summarily convert`: from folder to folder, no downloads."""

from __future__ import annotations

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    LEDForConditionalGeneration,
    PreTrainedTokenizerFast,
)

from summarily.cli import main
from summarily.modeling import (
    ApesoForConditionalGeneration,
    LedForConditionalGeneration,
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
    RedForConditionalGeneration,
    RedT5ForConditionalGeneration,
)
from tests.modeling.common import logits_of, padded_batch
from tests.modeling.tiny_bart import tiny_bart, tiny_transformers_led
from tests.modeling.tiny_t5 import tiny_t5


def run(*arguments: object) -> int:
    return main(["convert", *map(str, arguments)])


@pytest.fixture
def bart(tmp_path):
    """A BART in a folder."""
    folder = tmp_path / "bart"
    tiny_bart().save_pretrained(folder)
    return folder


def test_bart_to_led_and_on_to_transformers_and_back(bart, tmp_path, capsys):
    options = ("--max-length", 64, "--window", 32, "--set", "label_smoothing=0.1")
    assert run("bart-to-led", bart, tmp_path / "led", *options) == 0
    assert "LedForConditionalGeneration" in capsys.readouterr().out
    led = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "led").eval()
    assert type(led) is LedForConditionalGeneration
    assert led.config.label_smoothing == 0.1 and led.config.max_encoder_position_embeddings == 64
    batch = padded_batch(60, (15, 9), (4, 4), pad=1)
    torch.testing.assert_close(logits_of(led, batch), logits_of(tiny_bart(), batch))
    assert run("led", tmp_path / "led", tmp_path / "theirs") == 0
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs")
    assert type(theirs) is LEDForConditionalGeneration
    assert run("led", tmp_path / "theirs", tmp_path / "back") == 0
    back = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back").eval()
    torch.testing.assert_close(logits_of(back, batch), logits_of(led, batch))


def test_bart_to_red(bart, tmp_path):
    fields = ("--set", "chunk_length=8", "--set", "attention_types=['local','lsh']")
    assert run("bart-to-red", bart, tmp_path / "red", "--max-length", 64, *fields) == 0
    red = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "red")
    assert type(red) is RedForConditionalGeneration and red.config.attention_types == ["local", "lsh"]


@pytest.mark.parametrize("flan", [False, True])
def test_t5_to_led_and_red(flan, tmp_path, capsys):
    t5 = tiny_t5(flan)
    t5.save_pretrained(tmp_path / "t5")
    save_tokenizer(tmp_path / "t5")
    options = ("--window", 32, "--set", "global_tokens='bos'", "--max-length", 99)
    assert run("t5-to-led", tmp_path / "t5", tmp_path / "led", *options) == 0
    assert "LedT5ForConditionalGeneration" in capsys.readouterr().out
    led = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "led").eval()
    assert led.config.attention_window == 32 and led.config.global_tokens == "bos"
    assert AutoTokenizer.from_pretrained(tmp_path / "led").model_max_length == 99
    batch = padded_batch(60, (15, 9), (4, 4))
    torch.testing.assert_close(logits_of(led, batch), logits_of(t5, batch), rtol=1e-4, atol=1e-5)
    fields = ("--set", "chunk_length=8", "--set", "attention_types=['local','lsh']", "--query-key", "mean")
    assert run("t5-to-red", tmp_path / "t5", tmp_path / "red", *fields) == 0
    red = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "red")
    assert type(red) is RedT5ForConditionalGeneration and red.config.attention_types == ["local", "lsh"]
    assert red.config.max_source_length == AutoTokenizer.from_pretrained(tmp_path / "red").model_max_length
    hashing, theirs = (model.encoder.block[1].layer[0].SelfAttention for model in (red, t5))
    torch.testing.assert_close(hashing.q.weight, (theirs.q.weight + theirs.k.weight) / 2)
    assert run("t5-to-led", tmp_path / "led", tmp_path / "again") == 2
    assert "is a model of type 'summarily-led-t5'; expected 't5'" in capsys.readouterr().err


def save_tokenizer(folder) -> None:
    words = ("<s>", "<pad>", "</s>", "<unk>", *(f"w{n}" for n in range(56)))
    tokens = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", model_max_length=32).save_pretrained(
        folder
    )


def test_the_tokenizer_comes_along_and_knows_the_length(tmp_path, bart):
    save_tokenizer(bart)
    assert run("bart-to-led", bart, tmp_path / "led", "--max-length", 64) == 0
    assert AutoTokenizer.from_pretrained(tmp_path / "led").model_max_length == 64


def test_mistakes_are_named(bart, tmp_path, capsys):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("x")
    tiny_transformers_led().save_pretrained(tmp_path / "led")
    for arguments, message in (
        (("bart-to-led", bart, tmp_path / "taken"), "is not empty; name another folder"),
        (("bart-to-led", tmp_path / "led", tmp_path / "new"), "is a model of type 'led'; expected 'bart'"),
        (("led", bart, tmp_path / "new"), "is a model of type 'bart'; expected 'led' or 'summarily-led'"),
        (("bart-to-led", bart, tmp_path / "new", "--window", "7"), "must be positive and even"),
        (("bart-to-led", bart, tmp_path / "new", "--set", "dropout"), "expected FIELD=VALUE"),
    ):
        assert run(*arguments) == 2
        assert message in capsys.readouterr().err


def test_pointer_generator_to_apeso(bart, tmp_path, capsys):
    config = PointerGeneratorConfig(vocab_size=20, embedding_size=4, hidden_size=4)
    PointerGeneratorForConditionalGeneration(config).save_pretrained(tmp_path / "baseline")
    assert run("pointer-generator-to-apeso", tmp_path / "baseline", tmp_path / "apeso") == 0
    baseline, apeso = (
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path / name).eval() for name in ("baseline", "apeso")
    )
    assert type(apeso) is ApesoForConditionalGeneration
    batch = padded_batch(20)
    torch.testing.assert_close(logits_of(apeso, batch), logits_of(baseline, batch))
    assert run("pointer-generator-to-apeso", bart, tmp_path / "wrong") == 2
    assert "expected 'summarily-pointer-generator'" in capsys.readouterr().err
