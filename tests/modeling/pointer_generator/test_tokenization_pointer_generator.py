"""The tokenizer of models that copy: unknown words keep their spelling from the source to the decoded summary."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from transformers import AutoTokenizer

from summarily.modeling import (
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
    PointerGeneratorTokenizer,
)
from summarily.modeling.remote_code import write_remote_code
from summarily.modeling.training.collators import SummaryCollator
from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import train_tokenizer

TEXT = "the striker scored a goal in the match against the keeper ."


@pytest.fixture
def tokenizer():
    return train_tokenizer([TEXT], TokenizerSection(kind="copy", min_frequency=1))


def test_unknown_words_of_source_and_target_share_ids(tokenizer):
    size = len(tokenizer)
    encoding = tokenizer(
        "Özil scored against Čech, Özil said",
        text_target="Čech beat Özil and Ramsey",
        add_special_tokens=False,
    )
    assert encoding.unknown_words == ["Özil", "Čech", ",", "said"]
    assert [id - size for id in encoding.input_ids if id >= size] == [0, 1, 2, 0, 3]
    unknown = tokenizer.unk_token_id
    assert encoding.labels == [size + 1, unknown, size, unknown, unknown]


@pytest.mark.parametrize("lowercase", [False, True])
def test_decoding_gives_the_words_back_as_the_tokenizer_reads_them(lowercase):
    tokenizer = train_tokenizer([TEXT], TokenizerSection(kind="copy", min_frequency=1, lowercase=lowercase))
    text = "The U.S. keeper O'Neill-Smith scored 3.5 goals in Île-de-France"
    encoding = tokenizer(text)
    decoded = tokenizer.decode(
        encoding.input_ids, skip_special_tokens=True, unknown_words=encoding.unknown_words
    )
    pieces = "The U.S. keeper O ' Neill-Smith scored 3.5 goals in Île-de-France"
    assert decoded == (pieces.lower() if lowercase else pieces)


def test_batches_tensors_and_single_texts_agree(tokenizer):
    texts = ["Özil scored", "the match in Oslo against Čech"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    assert batch.unknown_words == [["Özil"], ["Oslo", "Čech"]]
    for i, text in enumerate(texts):
        alone = tokenizer(text)
        assert alone.unknown_words == batch.unknown_words[i]
        assert batch.input_ids[i, batch.attention_mask[i] == 1].tolist() == alone.input_ids
        tensors = tokenizer(text, return_tensors="pt")
        assert tensors.input_ids.tolist() == [alone.input_ids]
        assert tensors.unknown_words == [alone.unknown_words]
    decoded = tokenizer.batch_decode(
        batch.input_ids, skip_special_tokens=True, unknown_words=batch.unknown_words
    )
    assert decoded == texts


def test_words_behind_the_cut_have_no_ids(tokenizer):
    encoding = tokenizer("Özil scored against Čech", text_target="Čech", truncation=True, max_length=3)
    assert encoding.unknown_words == ["Özil"]
    assert encoding.labels[0] == tokenizer.unk_token_id


def test_targets_have_a_length_of_their_own(tokenizer):
    encoding = tokenizer(
        "Özil scored", text_target="the goal in the match", truncation=True, max_length=9, max_target_length=3
    )
    assert len(encoding.labels) == 3 and len(encoding.input_ids) == 3


def test_split_words_are_read_one_by_one(tokenizer):
    encoding = tokenizer(["the", "Özil", "goal"], is_split_into_words=True)
    assert encoding.unknown_words == ["Özil"]
    assert encoding.input_ids[1] == len(tokenizer)


def test_several_summaries_of_a_source_share_its_words(tokenizer):
    size = len(tokenizer)
    texts = tokenizer.batch_decode([[size], [size], [size], [size]], unknown_words=[["Ann"], ["Bo"]])
    assert texts == ["Ann", "Ann", "Bo", "Bo"]


def test_mistakes_name_the_fix(tokenizer):
    size = len(tokenizer)
    with pytest.raises(ValueError, match=f"id {size} .*unknown_words=encoding.unknown_words"):
        tokenizer.decode([size])
    with pytest.raises(ValueError, match="unknown word 1 of the source, which has 1"):
        tokenizer.decode([size + 1], unknown_words=["Ann"])
    with pytest.raises(ValueError, match="2 lists for 3 sequences"):
        tokenizer.batch_decode([[3], [3], [3]], unknown_words=[["Ann"], ["Bo"]])
    with pytest.raises(ValueError, match="1 lists for 2 texts"):
        tokenizer(text_target=["a", "b"], unknown_words=[["Ann"]])
    with pytest.raises(ValueError, match="text_pair"):
        tokenizer("a", "b")


def test_auto_tokenizer_loads_it_in_a_new_process(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    assert type(AutoTokenizer.from_pretrained(tmp_path)) is PointerGeneratorTokenizer
    code = (
        "import sys, json, summarily.modeling\n"
        "before = [m for m in sys.modules if 'tokenization_pointer' in m]\n"
        "from transformers import AutoTokenizer\n"
        "t = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "print(json.dumps([before, t('the Čech').unknown_words]))"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(result.stdout) == [[], ["Čech"]]  # imported only when it is needed


def test_the_tokenizer_loads_as_remote_code_beside_its_model(tokenizer, tmp_path):
    config = PointerGeneratorConfig(vocab_size=len(tokenizer), embedding_size=4, hidden_size=4)
    model = PointerGeneratorForConditionalGeneration(config)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    names = [path.name for path in write_remote_code(model, tmp_path / "model")]
    assert "tokenization_pointer_generator.py" in names and "modeling_pointer_generator.py" in names
    code = (
        "import sys; sys.modules['summarily'] = None\n"  # cannot be imported
        "from transformers import AutoTokenizer\n"
        "t = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
        "assert type(t).__module__.startswith('transformers_modules.'), type(t)\n"
        "print(t('the Čech').unknown_words)"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-I", "-c", code, str(tmp_path / "model")]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.strip() == "['Čech']"


@pytest.mark.parametrize("beams", [1, 4])
def test_unknown_words_reach_the_text_verbatim(tokenizer, beams):
    """A model that always copies and attends to unknown words: what it writes are words of the source."""
    torch.manual_seed(1)
    config = PointerGeneratorConfig(
        vocab_size=len(tokenizer), embedding_size=8, hidden_size=16, init_range=0.8
    )
    model = PointerGeneratorForConditionalGeneration(config).eval()
    model.copy_switch.bias.data.fill_(20.0)
    sources = ["Mesut Özil met Petr Čech", "O'Neill-Smith flew to Île-de-France"]
    inputs = tokenizer(sources, padding=True, return_tensors="pt", add_special_tokens=False)
    ids = model.generate(**inputs, num_beams=beams, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    for source, text in zip(
        sources,
        tokenizer.batch_decode(ids, skip_special_tokens=True, unknown_words=inputs.unknown_words),
        strict=True,
    ):
        assert len(text.split()) == 5
        assert all(word in source for word in text.split())


def test_encoded_rows_go_through_the_collator(tokenizer):
    rows = [dict(tokenizer(text, text_target=text)) for text in ("Özil scored", "the match against Čech")]
    batch = SummaryCollator(tokenizer.pad_token_id)(rows)
    assert batch["input_ids"].max() == len(tokenizer)
    assert batch["labels"][0, -1] == -100
