"""A pinned encoder with adapters: what is trained, what is saved, and that merging changes nothing."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutput

from summarily.modeling.configuration_adapted_encoder import AdaptedEncoderConfig
from summarily.modeling.modeling_adapted_encoder import AdaptedEncoderModel, AdaptedLinear, insert_adapters
from summarily.modeling.remote_code import flat_sources
from summarily.support.errors import MissingRequirement
from tests.metrics.tiny import checkpoint
from tests.modeling.common import assert_same_gradients, gradients_of, logits_of, without_dropout


class Scorer(AdaptedEncoderModel):
    """The smallest model around an encoder."""

    config_class = AdaptedEncoderConfig
    encoder_options = {"add_pooling_layer": False}

    def __init__(self, config):
        super().__init__(config)
        self.head = nn.Linear(self.encoder.config.hidden_size, 1)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None):
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits = self.head(states[:, 0])[:, 0]
        loss = None if labels is None else ((logits - labels) ** 2).mean()
        return SequenceClassifierOutput(loss=loss, logits=logits)


@pytest.fixture
def model():
    """With adapters that have learnt something, in evaluation mode."""
    torch.manual_seed(0)
    model = Scorer.from_encoder(checkpoint("bert"), adapter_rank=3, adapter_alpha=6).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "adapter_up" in name:
                parameter.normal_(std=0.1)
    return model


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return {
        "input_ids": torch.randint(5, 60, (4, 9), generator=generator),
        "attention_mask": (torch.arange(9) < torch.tensor([9, 5, 7, 2])[:, None]).long(),
        "labels": torch.randn(4, generator=generator),
    }


def test_new_adapters_leave_the_encoder_as_it_is(batch):
    from transformers import AutoModel

    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    adapted = Scorer.from_encoder(checkpoint("bert"), adapter_rank=2).eval().encoder
    plain = AutoModel.from_pretrained(checkpoint("bert"), add_pooling_layer=False).eval()
    torch.testing.assert_close(adapted(**inputs).last_hidden_state, plain(**inputs).last_hidden_state)


def test_only_adapters_and_head_are_trained(model, batch):
    gradients = gradients_of(model, batch)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert gradients.keys() == trained
    assert all("adapter_" in name or name.startswith("head.") for name in trained)
    # Six linear layers in each of six encoder layers, two matrices each, and the head's two.
    assert len(trained) == 6 * 6 * 2 + 2


def test_the_adapter_is_the_product_of_its_matrices():
    layer = AdaptedLinear(5, 3, rank=2, scale=0.5)
    nn.init.normal_(layer.adapter_up)
    states = torch.randn(4, 5)
    expected = states @ (layer.weight + 0.5 * layer.adapter_up @ layer.adapter_down).T + layer.bias
    torch.testing.assert_close(layer(states), expected)
    torch.testing.assert_close(nn.functional.linear(states, layer.folded(), layer.bias), expected)


def test_a_checkpoint_has_only_what_differs_and_comes_back(model, batch, tmp_path):
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert all("adapter_" in name or name.startswith("head.") for name in stored)
    assert stored.keys() == model.own_state().keys()
    loaded = Scorer.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch))
    assert {n for n, p in loaded.named_parameters() if p.requires_grad} == {
        n for n, p in model.named_parameters() if p.requires_grad
    }


def test_half_precision_is_of_the_file_alone(model, batch, tmp_path):
    model.save_pretrained(tmp_path / "half", stored_dtype=torch.float16)
    model.save_pretrained(tmp_path / "full")
    half = load_file(tmp_path / "half" / "model.safetensors")
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("half", "full")]
    assert sizes[0] < 0.7 * sizes[1]
    loaded = Scorer.from_pretrained(tmp_path / "half").eval()
    assert loaded.dtype == torch.float32
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch), rtol=0, atol=5e-3)


def test_merged_computes_the_same_and_stands_alone(model, batch, tmp_path):
    merged = model.merged()
    assert merged.config.encoder is None and merged.config.adapter_rank == 0
    assert not any(isinstance(module, AdaptedLinear) for module in merged.modules())
    torch.testing.assert_close(logits_of(merged, batch), logits_of(model, batch))
    merged.save_pretrained(tmp_path)
    assert "encoder.embeddings.word_embeddings.weight" in load_file(tmp_path / "model.safetensors")
    loaded = Scorer.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(merged, batch))
    assert all(parameter.requires_grad for parameter in loaded.parameters())


def test_the_encoders_tokenizer_is_found(model):
    assert model.encoder_tokenizer().cls_token_id is not None


def test_merging_leaves_the_adapted_model_alone(model, batch):
    before = copy.deepcopy(model.state_dict())
    merged = model.merged()
    with torch.no_grad():
        for parameter in merged.parameters():
            parameter.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_no_path_of_this_machine_is_saved_for_a_pinned_encoder(tmp_path):
    model = Scorer.from_encoder("minilm", adapter_rank=1)
    model.save_pretrained(tmp_path, stored_dtype=torch.float16)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["encoder"] == "minilm"
    assert config["encoder_sha256"].startswith("53aa51172d14")  # as pinned in summarily/support/weights.py
    assert "site-packages" not in json.dumps(config)
    assert (tmp_path / "model.safetensors").stat().st_size < 120_000  # of an encoder of 90 MB
    assert Scorer.from_pretrained(tmp_path).encoder.config.hidden_size == 384


def test_another_encoder_than_the_pinned_one_is_refused(model, tmp_path):
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["encoder"] = checkpoint("bert", seed=1)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="SHA-256"):
        Scorer.from_pretrained(tmp_path)


def test_an_encoder_that_is_not_there_is_named(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["encoder"] = "no folder and no name"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(MissingRequirement, match="no folder and no name"):
        Scorer.from_pretrained(tmp_path)


def test_a_checkpoint_without_its_adapters_is_refused(model, tmp_path):
    model.save_pretrained(tmp_path, state_dict={"head.weight": model.head.weight})
    with pytest.raises(ValueError, match="adapters missing: 72"):
        Scorer.from_pretrained(tmp_path)


def test_without_a_checkpoint_adapters_are_new_ones(model):
    """As transformers has it: from_pretrained(None) with a configuration makes a model that can learn."""
    made = Scorer.from_pretrained(None, config=model.config, state_dict={})
    layers = [module for module in made.modules() if isinstance(module, AdaptedLinear)]
    assert layers
    for layer in layers:
        spread = float(layer.adapter_down.detach().std() * layer.in_features**0.5)
        assert 0.5 < spread < 1.5 and (layer.adapter_up == 0).all()


def test_gradient_checkpointing_keeps_the_gradients(model, batch):
    model = without_dropout(model)
    plain = gradients_of(model, batch)
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    assert_same_gradients(plain, gradients_of(model, batch))


def test_layers_are_chosen_by_the_end_of_their_name():
    config = AdaptedEncoderConfig(
        encoder_config={
            "model_type": "bert",
            "hidden_size": 8,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 8,
            "vocab_size": 9,
        },
        adapter_rank=1,
        adapter_targets=["query", "value"],
    )
    adapted = [name for name, module in Scorer(config).named_modules() if isinstance(module, AdaptedLinear)]
    assert len(adapted) == 4 and all(name.endswith(("query", "value")) for name in adapted)
    with pytest.raises(ValueError, match="no linear layer ends in"):
        insert_adapters(nn.Sequential(nn.ReLU()), 1, 1, ["query"])


def test_embeddings_that_would_not_be_saved_are_not_resized(model, tmp_path):
    with pytest.raises(ValueError, match="which has its own"):
        model.resize_token_embeddings(model.config.vocab_size + 1)
    whole = model.merged()
    size = whole.config.vocab_size + 1
    whole.resize_token_embeddings(size)
    whole.save_pretrained(tmp_path)
    assert type(model).from_pretrained(tmp_path).get_input_embeddings().num_embeddings == size


def test_a_config_says_what_is_wrong():
    with pytest.raises(ValueError, match="adapter_rank=-1"):
        AdaptedEncoderConfig(adapter_rank=-1)
    with pytest.raises(ValueError, match="go together"):
        AdaptedEncoderConfig(encoder="minilm")
    with pytest.raises(ValueError, match="model_type"):
        AdaptedEncoderConfig(encoder_config={"hidden_size": 8}).for_encoder()


def test_the_code_stands_alone_for_a_merged_model(tmp_path):
    """Copied out of the package, it imports where the package cannot be had, and says what it lacks."""
    sources = flat_sources("summarily.modeling.modeling_adapted_encoder")
    assert sorted(sources) == ["configuration_adapted_encoder", "errors", "modeling_adapted_encoder"]
    package = tmp_path / "code"
    package.mkdir()
    for name, text in sources.items():
        (package / f"{name}.py").write_text(text)
    program = """
import sys
class NoPackage:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "summarily":
            raise ModuleNotFoundError("No module named 'summarily'")
sys.meta_path.insert(0, NoPackage())
sys.path.insert(0, sys.argv[1])
from code.modeling_adapted_encoder import AdaptedEncoderModel
try:
    AdaptedEncoderModel.from_encoder("minilm")
except ImportError as error:
    assert "summarily[offline]" in str(error), error
    print("said so")
"""
    program = program.replace("from code.", "from own_code.")
    package.rename(tmp_path / "own_code")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(tmp_path),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout.strip() == "said so", done.stderr[-2000:]
