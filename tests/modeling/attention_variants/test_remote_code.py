"""How a model's files are flattened into one folder."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import summarily.modeling.remote_code as remote_code
from summarily.modeling import AttentionVariantConfig, AttentionVariantForConditionalGeneration
from summarily.modeling.remote_code import flat_sources, write_remote_code


@pytest.fixture
def saved(tmp_path):
    config = AttentionVariantConfig(vocab_size=9, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    model = AttentionVariantForConditionalGeneration(config)
    model.save_pretrained(tmp_path)
    return model, tmp_path


def test_every_file_comes_along_and_nothing_names_the_package(saved):
    model, folder = saved
    written = write_remote_code(model, folder)
    assert [path.name for path in written] == [
        "blocks.py",
        "configuration_attention_variants.py",
        "errors.py",
        "masks.py",
        "modeling_attention_variants.py",
        "relative.py",
        "summary_loss.py",
    ]
    for path in written:
        compile(path.read_text(), str(path), "exec")
        lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith(">>>")]
        assert not any(line.startswith(("from summarily", "import summarily")) for line in lines)
    assert json.loads((folder / "config.json").read_text())["auto_map"] == {
        "AutoConfig": "configuration_attention_variants.AttentionVariantConfig",
        "AutoModel": "modeling_attention_variants.AttentionVariantModel",
        "AutoModelForSeq2SeqLM": ("modeling_attention_variants.AttentionVariantForConditionalGeneration"),
    }


def test_writing_twice_changes_nothing(saved):
    model, folder = saved
    first = {path: path.read_bytes() for path in write_remote_code(model, folder)}
    config = (folder / "config.json").read_bytes()
    assert {path: path.read_bytes() for path in write_remote_code(type(model), folder)} == first
    assert (folder / "config.json").read_bytes() == config


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"call model\.save_pretrained"):
        write_remote_code(AttentionVariantForConditionalGeneration, tmp_path)


def test_a_class_without_an_entry_is_refused(saved):
    from transformers import BartModel

    with pytest.raises(ValueError, match="BartModel is not loaded by an auto class"):
        write_remote_code(BartModel, saved[1])


def test_imports_that_cannot_be_flattened_are_named(monkeypatch):
    sources = {
        "summarily.a.one": "import summarily.b.two\n",
        "summarily.c.one": "from summarily.a.two import x\nfrom summarily.b.two import y\n",
        "summarily.a.two": "x = 1\n",
    }
    monkeypatch.setattr(remote_code, "_source", lambda module: sources.get(module, ""))
    with pytest.raises(ValueError, match=r"'import summarily\.b\.two' cannot be made relative"):
        flat_sources("summarily.a.one")
    with pytest.raises(ValueError, match=r"would both become two\.py"):
        flat_sources("summarily.c.one")


def test_importing_the_package_does_not_load_model_code():
    code = (
        "import sys, summarily.modeling as m; "
        "assert 'summarily.modeling.attention_variants.modeling_attention_variants' not in sys.modules; "
        "assert 'transformers.modeling_utils' not in sys.modules; "
        "m.AttentionVariantModel"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
