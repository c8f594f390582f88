"""RED: what all models must show, its start from BART, and the thesis' defects, one by one."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from summarily.modeling import RedConfig, RedForConditionalGeneration, RedModel
from tests.modeling.common import (
    Seq2SeqModelChecks,
    assert_loads_as_remote_code,
    assert_same_gradients,
    assert_trains_under_seq2seq_trainer,
    gradients_of,
    logits_of,
    padded_batch,
    without_dropout,
)
from tests.modeling.led.test_modeling_led import tiny_led
from tests.modeling.tiny_bart import SIZES, assert_random_weights, roughen, tiny_bart

FIELDS = {**SIZES, "max_position_embeddings": 64, "max_encoder_position_embeddings": 64, "chunk_length": 4}


def tiny_red(**options) -> RedForConditionalGeneration:
    torch.manual_seed(0)
    return roughen(RedForConditionalGeneration(RedConfig(**{**FIELDS, **options})))


class TestRed(Seq2SeqModelChecks):
    @pytest.fixture(
        params=[
            {},
            {"attention_types": ["lsh", "lsh"], "num_hashes": 2},
            {"attention_types": ["local", "local"]},
            {"num_buckets": [2, 4], "pre_norm": True, "attention_bias": False, "attention_head_size": 4},
        ],
        ids=["alternating", "lsh", "local", "factored"],
    )
    def model(self, request):
        return tiny_red(**request.param)


def encoded(model, batch) -> torch.Tensor:
    with torch.no_grad():
        return model.model.encoder(batch["input_ids"], batch["attention_mask"]).last_hidden_state


def test_output_repeats_exactly_whatever_the_global_generator():
    model = tiny_red()
    batch = padded_batch(60, (40, 12), (5, 5), pad=1)
    torch.manual_seed(1)
    first = logits_of(model, batch)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert torch.equal(logits_of(model, batch), first)
    assert torch.equal(torch.get_rng_state(), state)


def test_rotations_are_saved_with_the_model(tmp_path):
    model = tiny_red(hash_seed=7)
    model.save_pretrained(tmp_path)
    reloaded = RedForConditionalGeneration.from_pretrained(tmp_path)
    name = "model.encoder.layers.0.self_attn.rotations"
    assert torch.equal(reloaded.state_dict()[name], model.state_dict()[name])
    assert not torch.equal(tiny_red(hash_seed=8).state_dict()[name], model.state_dict()[name])


def test_gradient_checkpointing_sees_the_same_buckets():
    model = without_dropout(tiny_red(attention_types=["lsh", "lsh"], num_hashes=2))
    batch = padded_batch(60, (40, 23), (5, 5), pad=1)
    plain = gradients_of(model, batch)
    model.gradient_checkpointing_enable()
    assert_same_gradients(plain, gradients_of(model, batch), tolerance=1e-7)


def test_local_layers_started_from_bart_equal_bart_within_a_chunk():
    bart = tiny_bart()
    red = RedForConditionalGeneration.from_bart(
        bart, max_length=64, chunk_length=32, attention_types=["local", "local"]
    )
    batch = padded_batch(60, (31, 12, 5), (9, 4, 7), pad=1)
    torch.testing.assert_close(logits_of(red, batch), logits_of(bart, batch))


@pytest.mark.parametrize("query_key", ["query", "mean"])
def test_hashing_layers_start_from_barts_weights(query_key):
    bart = tiny_bart()
    red = RedForConditionalGeneration.from_bart(bart, query_key=query_key)
    ours, theirs = red.model.encoder.layers[0].self_attn, bart.model.encoder.layers[0].self_attn
    expected = theirs.q_proj if query_key == "query" else None
    weight = expected.weight if expected else (theirs.q_proj.weight + theirs.k_proj.weight) / 2
    torch.testing.assert_close(ours.query_key.weight, weight)
    assert torch.equal(ours.value.weight, theirs.v_proj.weight)
    assert torch.equal(ours.out_proj.bias, theirs.out_proj.bias)


def test_random_attention_repeats():
    bart = tiny_bart()
    name = "model.encoder.layers.0.self_attn.query_key.weight"
    one, same, other = (
        RedForConditionalGeneration.from_bart(bart, attention="random", seed=seed).state_dict()[name]
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same) and not torch.equal(one, other)
    red = RedForConditionalGeneration.from_bart(bart, attention="random", seed=5)
    for index, layer in enumerate(red.model.encoder.layers):
        assert_random_weights(layer.self_attn, red.config.init_std, 5 + index)


def test_every_layer_hashes_in_its_own_way():
    red = tiny_red(hash_seed=3, attention_types=["lsh", "lsh"])
    first, second = (layer.self_attn for layer in red.model.encoder.layers)
    assert (first.seed, second.seed) == (6, 7), "no two seeds share a layer's"
    assert not torch.equal(first.rotations, second.rotations)


class TestTheThesis:
    """Each defect is a switch; off, it is fixed."""

    def test_the_whole_set_up_runs_and_is_as_described(self):
        bart = tiny_bart()
        model = RedForConditionalGeneration.from_bart(
            bart, max_length=64, thesis=True, chunk_length=4, encoder_attention_heads=2, attention_head_size=4
        ).eval()
        attention = model.model.encoder.layers[0].self_attn
        assert attention.query_key.weight.shape == (8, 16) and attention.query_key.bias is None
        assert attention.norm.eps == 1e-12 and attention.rotations.shape == (2, 4, 1, 96)
        assert model.config.attention_types == ["lsh", "local"]
        batch = padded_batch(60, (31, 12), (5, 4), pad=1)
        assert torch.isfinite(logits_of(model, batch)).all()

    @pytest.mark.parametrize("causal", [False, True])
    def test_a_causal_encoder_does_not_look_ahead(self, causal):
        model = tiny_red(causal_encoder=causal, attention_types=["local", "local"])
        batch = padded_batch(60, (12,), (3,), pad=1)
        changed = {**batch, "input_ids": batch["input_ids"].clone()}
        changed["input_ids"][0, 6] = 3 + (changed["input_ids"][0, 6] - 2) % 57
        moved = (encoded(model, batch) != encoded(model, changed)).any(-1)[0].nonzero().flatten()
        assert moved.max() > 6 and (moved.min() == 6) == causal

    @pytest.mark.parametrize("kind", ["lsh", "local"])
    def test_seen_padding_changes_the_output(self, kind):
        batch = padded_batch(60, (12, 5), (3, 3), pad=1)
        alone = {name: tensor[1:, :5] for name, tensor in batch.items()}
        for seen in (False, True):
            model = tiny_red(padding_is_seen=seen, attention_types=[kind, kind])
            same = torch.allclose(encoded(model, batch)[1:, :5], encoded(model, alone), atol=1e-5)
            assert same == (not seen)

    def test_the_lost_offset_reads_two_rows_early_but_not_from_a_cache(self):
        bart = tiny_bart()
        fixed, lost = (
            RedForConditionalGeneration.from_bart(bart, max_length=64, lost_position_offset=flag).model
            for flag in (False, True)
        )
        ids = torch.zeros(1, 5, dtype=torch.long)
        table = bart.model.encoder.embed_positions.weight
        assert torch.equal(fixed.encoder.embed_positions(ids), table[2:7])
        assert torch.equal(lost.encoder.embed_positions(ids), table[0:5])
        cached = lost.decoder.embed_positions(None, 3, position_ids=torch.tensor([3]))
        assert torch.equal(cached[0], bart.model.decoder.embed_positions.weight[5])

    def test_the_circle_makes_the_output_depend_on_the_padding(self):
        batch = padded_batch(60, (30, 13), (3, 3), pad=1)
        alone = {name: tensor[1:, :13] for name, tensor in batch.items()}
        for circular in (False, True):
            model = tiny_red(circular=circular, attention_types=["lsh", "lsh"])
            same = torch.allclose(encoded(model, batch)[1:, :13], encoded(model, alone), atol=1e-5)
            assert same == (not circular)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_types": ["lsh"]}, "names 1 layers, but there are 2"),
        ({"attention_types": ["lsh", "full"]}, "has 'full'; choose among lsh, local"),
        ({"num_buckets": 7}, "num_buckets=7 must be even"),
        ({"chunk_length": 0}, "chunk_length=0 must be at least 1"),
        ({"encoder_attention_heads": 3}, "d_model=16 is not a multiple"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RedConfig(**{**FIELDS, **options})


def test_copied_attention_must_fit():
    with pytest.raises(ValueError, match=r"\(16, 16\) do not fit \(16, 8\)"):
        RedForConditionalGeneration.from_bart(tiny_bart(), attention_head_size=4)
    with pytest.raises(ValueError, match="query_key='key' is unknown"):
        RedForConditionalGeneration.from_bart(tiny_bart(), query_key="key")


def test_auto_classes_know_the_model():
    config = AutoConfig.for_model("summarily-red", **SIZES)
    assert type(AutoModel.from_config(config)) is RedModel
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is RedForConditionalGeneration


def test_led_and_red_load_as_remote_code_without_the_package(tmp_path):
    assert_loads_as_remote_code([tiny_led(), tiny_red()], padded_batch(60, pad=1), tmp_path)


def test_trains_under_seq2seq_trainer(tmp_path):
    assert_trains_under_seq2seq_trainer(tiny_red(dropout=0.0), padded_batch(60, pad=1), tmp_path)
