"""Shipped models: whole ones as they lie, adapters merged with their base once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, T5Config, T5ForConditionalGeneration

from summarily.support import shipped
from summarily.support.errors import MissingRequirement
from tests.metrics import tiny


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A T5 with a head of its own and a tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.checkpoint("bert"))
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu",
        tie_word_embeddings=False, decoder_start_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(len(tokenizer), 16))
    model.save_pretrained(tmp_path / "base")
    stored = json.loads((tmp_path / "base" / "config.json").read_text())
    stored |= {"tie_word_embeddings": False, "scale_decoder_outputs": False}
    (tmp_path / "base" / "config.json").write_text(json.dumps(stored))
    tokenizer.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    """A difference from it that changes every linear layer but the head."""
    from peft import LoraConfig

    place = tmp_path / "difference"
    model = AutoModelForSeq2SeqLM.from_pretrained(base)
    model.add_adapter(LoraConfig(r=2, target_modules="all-linear", base_model_name_or_path=str(base)))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(place)
    stored = json.loads((place / shipped.ADAPTER).read_text()) | {"base_model_name_or_path": str(base)}
    (place / shipped.ADAPTER).write_text(json.dumps(stored))
    config = json.loads((base / "config.json").read_text())
    config["task_specific_params"] = {"summarization": {"prefix": "summarize: "}}
    (place / "config.json").write_text(json.dumps(config))
    (place / "generation_config.json").write_text(json.dumps({"num_beams": 3, "decoder_start_token_id": 0}))
    return place


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUMMARILY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_base_and_adapter_merged_compute_what_both_compute_side_by_side(base: Path, adapter: Path) -> None:
    beside = AutoModelForSeq2SeqLM.from_pretrained(base)
    alone = AutoModelForSeq2SeqLM.from_pretrained(base)
    beside.load_adapter(str(adapter))
    whole, info = AutoModelForSeq2SeqLM.from_pretrained(shipped.merged(adapter), output_loading_info=True)
    assert not any(info.values()), info
    ids = torch.tensor([[5, 9, 33, 1], [7, 8, 1, 0]])
    with torch.no_grad():
        expected, ours, before = (
            model.eval()(input_ids=ids, attention_mask=ids.ne(0), decoder_input_ids=ids).logits
            for model in (beside, whole, alone)
        )
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    assert (expected - before).abs().max() > 0.1, "the adapter changes something"


def test_the_merged_folder_has_the_settings_of_the_adapter_and_the_tokenizer_of_the_base(
    adapter: Path,
) -> None:
    place = shipped.merged(adapter)
    model = AutoModelForSeq2SeqLM.from_pretrained(place)
    assert model.generation_config.num_beams == 3
    assert model.config.task_specific_params == {"summarization": {"prefix": "summarize: "}}
    assert model.dtype == torch.float32
    assert AutoTokenizer.from_pretrained(place)("a")["input_ids"]


def test_it_is_merged_once_and_again_after_a_change(adapter: Path, cache: Path) -> None:
    first = shipped.merged(adapter)
    stamp = (Path(first) / "model.safetensors").stat().st_mtime_ns
    assert shipped.merged(adapter) == first
    assert (Path(first) / "model.safetensors").stat().st_mtime_ns == stamp
    (adapter / "generation_config.json").write_text(json.dumps({"num_beams": 5, "decoder_start_token_id": 0}))
    assert shipped.merged(adapter) != first
    assert len([path for path in (cache / "checkpoints").iterdir() if path.is_dir()]) == 2


def test_a_summarizer_reads_a_folder_with_an_adapter(adapter: Path) -> None:
    from summarily import Summarizer

    summarizer = Summarizer(str(adapter))
    assert summarizer.prefix == "summarize: "
    assert isinstance(summarizer("a cat sat on a mat", max_length=4), str)


def test_without_peft_the_error_says_how_to_get_it(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingRequirement, match=r'peft: pip install ".*\[offline\]"'):
        shipped.merged(adapter)


def test_a_whole_model_is_read_where_it_lies() -> None:
    assert shipped.checkpoint("headlines") == shipped.folder("headlines")


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(
        ValueError, match=r"shipped; did you mean 'headlines'\? Known: [a-z-]+(, [a-z-]+)+\.$"
    ):
        shipped.checkpoint("headline")
