"""RED around T5: what all models must show, and equality with dense references, forward and backward."""

from __future__ import annotations

import types

import peft
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from summarily.modeling import RedT5Config, RedT5ForConditionalGeneration, RedT5Model
from tests.modeling.attention.test_lsh import dense_lsh
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
from tests.modeling.led_t5.test_modeling_led_t5 import tiny_led_t5
from tests.modeling.tiny_t5 import T5_SIZES, left_padded, through_mask, tiny_t5


def tiny_red_t5(flan: bool = True, **options) -> RedT5ForConditionalGeneration:
    options = {"chunk_length": 4, "max_source_length": 64, **options}
    return RedT5ForConditionalGeneration.from_t5(tiny_t5(flan), **options)


class TestRedT5(Seq2SeqModelChecks):
    @pytest.fixture(
        params=[
            {},
            {"attention_types": ["lsh", "lsh"], "num_hashes": 2, "flan": False},
            {"attention_types": ["local", "local"]},
            {"num_buckets": [2, 4]},
        ],
        ids=["alternating", "lsh", "local", "factored"],
    )
    def model(self, request):
        return tiny_red_t5(**request.param)


def test_every_layer_hashes_in_its_own_way():
    red = tiny_red_t5(hash_seed=3, attention_types=["lsh", "lsh"])
    first, second = (m for m in red.encoder.modules() if hasattr(m, "rotations"))
    assert (first.seed, second.seed) == (6, 7), "no two seeds share a layer's"
    assert not torch.equal(first.rotations, second.rotations)
    again = tiny_red_t5(hash_seed=3, attention_types=["lsh", "lsh"])
    assert torch.equal(
        next(m.rotations for m in again.encoder.modules() if hasattr(m, "seed")), first.rotations
    )


BATCHES = {
    "right": padded_batch(60, (45, 33, 12), (9, 4, 7)),
    "left": left_padded(padded_batch(60, (45, 33, 12), (9, 4, 7))),
    "none": padded_batch(60, (37, 37), (5, 5)),
}


@pytest.mark.parametrize("side", BATCHES)
@pytest.mark.parametrize("neighbours", [(1, 1), (1, 0), (0, 2)])
def test_local_layers_equal_t5_under_a_mask(side, neighbours):
    before, after = neighbours
    batch, t5 = BATCHES[side], tiny_t5(flan=True)
    red = RedT5ForConditionalGeneration.from_t5(
        t5,
        attention_types=["local", "local"],
        chunk_length=8,
        local_chunks_before=before,
        local_chunks_after=after,
    )
    chunk = torch.arange(batch["input_ids"].shape[1]) // 8
    ahead = chunk - chunk[:, None]
    expected = through_mask(t5, batch, ((ahead >= -before) & (ahead <= after))[None, None])
    torch.testing.assert_close(logits_of(red, batch), expected.logits, rtol=1e-4, atol=1e-4)
    expected.loss.backward()
    wanted = {name: parameter.grad for name, parameter in t5.named_parameters()}
    assert_same_gradients(gradients_of(red, batch), wanted, tolerance=1e-5)


def with_dense_hashing(t5, rotations, batch, factors, chunk):
    """T5 with full matrices in the place of hashing: every layer sees what the sorted chunks would show it."""
    for block, directions in zip(t5.encoder.block, rotations, strict=True):
        attention = block.layer[0].SelfAttention

        def forward(self, hidden_states, position_bias=None, directions=directions, **kwargs):
            length = hidden_states.shape[1]
            if position_bias is None:  # by distance, from T5's own matrix: its first column and its first row
                matrix = self.compute_bias(length, length)[0]
                position_bias = torch.cat([matrix[:, 1:, 0].flip(1), matrix[:, 0]], dim=1).T
            query_key, value = (
                projection(hidden_states).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                for projection in (self.q, self.v)
            )
            states = dense_lsh(
                query_key, value, directions, factors, batch["attention_mask"], position_bias, 1.0, chunk
            )
            return self.o(states.transpose(1, 2).flatten(2)), position_bias, None

        attention.forward = types.MethodType(forward, attention)
    return t5


@pytest.mark.parametrize("hashes", [1, 2])
@pytest.mark.parametrize("side", BATCHES)
def test_hashing_layers_equal_full_matrices(side, hashes):
    batch, t5 = BATCHES[side], tiny_t5(flan=True)
    red = RedT5ForConditionalGeneration.from_t5(
        t5, attention_types=["lsh", "lsh"], chunk_length=8, num_buckets=6, num_hashes=hashes
    )
    rotations = [block.layer[0].SelfAttention.rotations for block in red.encoder.block]
    reference = with_dense_hashing(t5, rotations, batch, [6], 8)
    expected, output = reference(**batch), red(**batch)
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.loss, expected.loss)
    assert_same_gradients(gradients_of(red, batch), gradients_of(reference, batch), tolerance=1e-5)


def test_local_layers_equal_t5_within_a_chunk():
    t5, batch = tiny_t5(), padded_batch(60, (31, 12, 5), (9, 4, 7))
    red = RedT5ForConditionalGeneration.from_t5(t5, chunk_length=32, attention_types=["local", "local"])
    torch.testing.assert_close(logits_of(red, batch), logits_of(t5, batch), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("query_key", ["query", "mean"])
def test_hashing_layers_start_from_t5s_weights(query_key):
    t5 = tiny_t5()
    red = RedT5ForConditionalGeneration.from_t5(t5, query_key=query_key)
    ours, theirs = (model.encoder.block[0].layer[0].SelfAttention for model in (red, t5))
    weight = theirs.q.weight if query_key == "query" else (theirs.q.weight + theirs.k.weight) / 2
    torch.testing.assert_close(ours.q.weight, weight)
    assert torch.equal(ours.relative_attention_bias.weight, theirs.relative_attention_bias.weight)
    left_out = t5.state_dict().keys() - red.state_dict().keys()
    assert left_out == {"encoder.block.0.layer.0.SelfAttention.k.weight"}
    with pytest.raises(ValueError, match="query_key='key' is unknown"):
        RedT5ForConditionalGeneration.from_t5(t5, query_key="key")


def test_rotations_are_saved_with_the_model_and_output_repeats(tmp_path):
    model, batch = tiny_red_t5(hash_seed=7), BATCHES["right"]
    model.save_pretrained(tmp_path)
    reloaded = RedT5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    name = "encoder.block.0.layer.0.SelfAttention.rotations"
    assert torch.equal(reloaded.state_dict()[name], model.state_dict()[name])
    assert not torch.equal(tiny_red_t5(hash_seed=8).state_dict()[name], model.state_dict()[name])
    assert reloaded.config.scale_decoder_outputs is False
    torch.manual_seed(1)
    first = logits_of(reloaded, batch)
    torch.manual_seed(2)
    assert torch.equal(logits_of(reloaded, batch), first)
    torch.testing.assert_close(first, logits_of(model, batch))


@pytest.mark.parametrize("reentrant", [False, True])
def test_either_kind_of_checkpointing_keeps_the_gradients(reentrant):
    model = without_dropout(tiny_red_t5(num_hashes=2))
    plain = gradients_of(model, BATCHES["right"])
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    assert_same_gradients(plain, gradients_of(model, BATCHES["right"]))


def test_adapters_by_peft_work_on_both_attentions():
    red, batch = tiny_red_t5(dropout_rate=0.0), BATCHES["right"]
    before = logits_of(red, batch)
    adapted = peft.get_peft_model(red, peft.LoraConfig(r=2, target_modules=["q", "k", "v", "o"]))
    torch.testing.assert_close(logits_of(adapted.eval(), batch), before)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.3)
    after = logits_of(adapted, batch)
    assert not torch.allclose(after, before, atol=1e-2)
    torch.testing.assert_close(logits_of(adapted.merge_and_unload(), batch), after, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_types": ["lsh"]}, "names 1 layers, but there are 2"),
        ({"attention_types": ["lsh", "full"]}, "has 'full'; choose among lsh, local"),
        ({"num_buckets": 7}, "num_buckets=7 must be even"),
        ({"chunk_length": 0}, "chunk_length=0 must be at least 1"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RedT5Config(**{**T5_SIZES, **options})


def test_a_source_that_is_too_long_names_both_numbers():
    with pytest.raises(ValueError, match="The source has 65 tokens, but max_source_length is 64"):
        tiny_red_t5()(
            input_ids=torch.ones(1, 65, dtype=torch.long), labels=torch.ones(1, 2, dtype=torch.long)
        )


def test_auto_classes_know_the_model():
    config = AutoConfig.for_model("summarily-red-t5", **T5_SIZES)
    assert type(AutoModel.from_config(config)) is RedT5Model
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is RedT5ForConditionalGeneration


def test_led_and_red_load_as_remote_code_without_the_package(tmp_path):
    assert_loads_as_remote_code([tiny_led_t5(), tiny_red_t5()], padded_batch(60), tmp_path)


def test_trains_under_seq2seq_trainer(tmp_path):
    assert_trains_under_seq2seq_trainer(tiny_red_t5(dropout_rate=0.0), padded_batch(60), tmp_path)
