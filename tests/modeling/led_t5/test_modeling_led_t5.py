"""LED around T5: what all models must show, equality with T5 within the window, with LongT5 and a mask beyond."""

from __future__ import annotations

import copy

import peft
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, T5ForConditionalGeneration
from transformers.activations import NewGELUActivation

from summarily.modeling import LedT5Config, LedT5ForConditionalGeneration, LedT5Model
from summarily.modeling.generation.shared_cross_attention import SharedCrossAttentionCache
from summarily.modeling.modeling_sparse_t5 import fuse_gelu
from tests.modeling.common import (
    Seq2SeqModelChecks,
    assert_same_gradients,
    assert_trains_under_seq2seq_trainer,
    gradients_of,
    logits_of,
    padded_batch,
    without_dropout,
)
from tests.modeling.tiny_t5 import (
    T5_SIZES,
    left_padded,
    long_t5_like,
    long_t5_name,
    through_mask,
    tiny_t5,
)


def tiny_led_t5(flan: bool = True, **options) -> LedT5ForConditionalGeneration:
    return LedT5ForConditionalGeneration.from_t5(tiny_t5(flan), **{"window": 8, **options})


class TestLedT5(Seq2SeqModelChecks):
    @pytest.fixture(
        params=[{}, {"flan": False}, {"window": [4, 16], "global_tokens": "bos"}, {"dropout_rate": 0.0}],
        ids=["flan", "tied", "windows-and-global", "no-dropout"],
    )
    def model(self, request):
        return tiny_led_t5(**request.param)


BATCHES = {
    "right": padded_batch(60, (31, 12, 5), (9, 4, 7)),
    "left": left_padded(padded_batch(60, (31, 12, 5), (9, 4, 7))),
    "one": padded_batch(60, (1,), (3,)),
    "none": padded_batch(60, (33, 33), (5, 5)),
}


def real_states(output, batch) -> torch.Tensor:
    return output.encoder_last_hidden_state[batch["attention_mask"].bool()]


@pytest.mark.parametrize("flan", [False, True])
@pytest.mark.parametrize("side", BATCHES)
def test_equals_t5_within_the_window_in_logits_loss_and_gradients(flan, side):
    t5, batch = tiny_t5(flan), BATCHES[side]
    led = LedT5ForConditionalGeneration.from_t5(t5, window=64)
    expected, output = t5(**batch), led(**batch)
    assert expected.logits.abs().max() > 1
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.loss, expected.loss)
    torch.testing.assert_close(real_states(output, batch), real_states(expected, batch))
    assert_same_gradients(gradients_of(led, batch), gradients_of(t5, batch), tolerance=1e-5)


@pytest.mark.parametrize("side", [*BATCHES, "long"])
@pytest.mark.parametrize("radius", [1, 4, 7])
def test_equals_long_t5_beyond_the_window_in_logits_loss_and_gradients(radius, side):
    """Their local attention sees |distance| < local_radius + 1, whatever the block: our window of twice the radius."""
    batch = BATCHES.get(side) or padded_batch(60, (150, 149, 67), (5, 4, 7))
    t5 = tiny_t5(flan=True)
    theirs = long_t5_like(t5, radius)
    led = LedT5ForConditionalGeneration.from_t5(t5, window=2 * radius)
    expected, output = theirs(**batch), led(**batch)
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.loss, expected.loss)
    torch.testing.assert_close(real_states(output, batch), real_states(expected, batch))
    ours = {long_t5_name(name): gradient for name, gradient in gradients_of(led, batch).items()}
    assert_same_gradients(ours, gradients_of(theirs, batch), tolerance=1e-5)
    if side != "one":
        assert not torch.allclose(logits_of(t5, batch), output.logits, atol=1e-2), "the window hides nothing"


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("side", ["right", "left", "none"])
def test_global_tokens_equal_t5_under_a_mask(side, eager):
    """A pair is seen within the window, or if one of its tokens is global; T5's weights and bias are all there is."""
    batch, t5 = BATCHES[side], tiny_t5(flan=True)
    led = LedT5ForConditionalGeneration.from_t5(t5, window=6)
    if eager:
        led.set_attn_implementation("eager")
    everywhere = torch.zeros_like(batch["input_ids"])
    everywhere[:, 3::11] = 1
    everywhere[0] = 0  # rows have different numbers of them, one none
    everywhere *= batch["attention_mask"]
    positions = torch.arange(everywhere.shape[1])
    near = (positions - positions[:, None]).abs() <= 3
    is_global = everywhere.bool()
    seen = (near | is_global[:, None, :] | is_global[:, :, None])[:, None]
    expected, output = through_mask(t5, batch, seen), led(**batch, global_attention_mask=everywhere)
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(real_states(output, batch), real_states(expected, batch))
    ours = gradients_of(led, batch, global_attention_mask=everywhere)
    t5.zero_grad()
    expected.loss.backward()
    wanted = {name: parameter.grad for name, parameter in t5.named_parameters()}
    assert_same_gradients(ours, wanted, tolerance=1e-5)


def test_the_first_token_is_global_by_option():
    batch = padded_batch(60, (45, 20), (5, 5))
    led = tiny_led_t5(global_tokens="bos")
    first = torch.zeros_like(batch["input_ids"])
    first[:, 0] = 1
    torch.testing.assert_close(
        logits_of(led, batch), logits_of(led, {**batch, "global_attention_mask": first})
    )
    assert not torch.allclose(logits_of(led, batch), logits_of(tiny_led_t5(), batch))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    options = {"num_beams": 3, "max_new_tokens": 8, "min_new_tokens": 8}
    assert torch.equal(
        led.generate(**inputs, **options),
        tiny_led_t5().generate(**inputs, global_attention_mask=first, **options),
    )


@pytest.mark.parametrize("flan", [False, True])
def test_weights_are_those_of_t5_name_by_name(flan):
    t5 = tiny_t5(flan)
    led = LedT5ForConditionalGeneration.from_t5(t5)
    expected, got = t5.state_dict(), led.state_dict()
    assert expected.keys() == got.keys() and all(torch.equal(got[name], expected[name]) for name in expected)
    assert dict(led.named_parameters()).keys() == dict(t5.named_parameters()).keys()
    assert (led.lm_head.weight is led.shared.weight) == (not flan)
    assert led.encoder.embed_tokens.weight is led.shared.weight
    assert got["shared.weight"].data_ptr() != expected["shared.weight"].data_ptr()
    copy.deepcopy(t5).load_state_dict(got)


@pytest.mark.parametrize("flan", [False, True])
def test_what_flan_does_otherwise_survives_saving(flan, tmp_path):
    """T5's configuration says tied embeddings in any case; that the head is scaled, and its own, has to come back."""
    t5 = tiny_t5(flan)
    t5.save_pretrained(tmp_path / "t5")
    led = LedT5ForConditionalGeneration.from_t5(str(tmp_path / "t5"), window=64).eval()
    led.save_pretrained(tmp_path / "led")
    config = AutoConfig.from_pretrained(tmp_path / "led")
    assert config.scale_decoder_outputs == (not flan) == t5.config.scale_decoder_outputs
    assert config.model_type == "summarily-led-t5" and config.attention_window == 64
    reloaded, loading = LedT5ForConditionalGeneration.from_pretrained(
        tmp_path / "led", output_loading_info=True
    )
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    state, expected = reloaded.state_dict(), t5.state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    batch = BATCHES["right"]
    torch.testing.assert_close(logits_of(reloaded.eval(), batch), logits_of(t5, batch), rtol=1e-4, atol=1e-4)


def test_beams_share_the_document_and_give_t5s_tokens():
    t5, batch = tiny_t5(flan=True), BATCHES["left"]
    led = LedT5ForConditionalGeneration.from_t5(t5, window=64)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    for options in (
        {"num_beams": 4, "length_penalty": 2.0},
        {"num_beams": 1},
        {"num_beams": 3, "use_cache": False},
    ):
        options |= {"max_new_tokens": 12, "min_new_tokens": 6, "no_repeat_ngram_size": 3}
        assert torch.equal(led.generate(**inputs, **options), t5.generate(**inputs, **options))
    output = led.generate(**inputs, num_beams=4, max_new_tokens=4, return_dict_in_generate=True)
    cache = output.past_key_values
    assert isinstance(cache, SharedCrossAttentionCache)
    assert cache.cross_attention_cache.layers[0].keys.shape[0] == 3, "a document is kept once"


@pytest.mark.parametrize("reentrant", [False, True])
def test_either_kind_of_checkpointing_keeps_the_gradient_of_the_bias(reentrant):
    model, batch = without_dropout(tiny_led_t5(global_tokens="bos")), BATCHES["right"]
    plain = gradients_of(model, batch)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    assert_same_gradients(plain, gradients_of(model, batch))


@pytest.mark.parametrize("targets", [["q", "k", "v", "o"], "all-linear"])
def test_adapters_by_peft_train_and_merge(targets):
    led, batch = tiny_led_t5(global_tokens="bos", dropout_rate=0.0), BATCHES["right"]
    before = logits_of(led, batch)
    config = peft.LoraConfig(r=2, target_modules=targets)
    adapted = peft.get_peft_model(led, config)
    torch.testing.assert_close(logits_of(adapted.eval(), batch), before)
    trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert any("encoder.block.1.layer.0.SelfAttention.k.lora_B" in name for name in trained)
    optimizer = torch.optim.Adam(adapted.parameters(), lr=0.05)
    for _ in range(2):
        loss = adapted.train()(**batch).loss
        loss.backward()
        optimizer.step()
    moved = {
        name for name, value in adapted.named_parameters() if value.requires_grad and (value.grad != 0).any()
    }
    assert moved == trained
    after = logits_of(adapted.eval(), batch)
    assert not torch.allclose(after, before, atol=1e-2)
    torch.testing.assert_close(logits_of(adapted.merge_and_unload(), batch), after, rtol=1e-4, atol=1e-4)


def test_attentions_are_rows_over_the_whole_source():
    model = tiny_led_t5()
    model.set_attn_implementation("eager")
    batch = padded_batch(60, (21, 12), (4, 4))
    output = model(**batch, output_attentions=True, output_hidden_states=True)
    assert [tuple(weights.shape) for weights in output.encoder_attentions] == [(2, 2, 21, 21)] * 2
    assert len(output.encoder_hidden_states) == 3 and len(output.cross_attentions) == 2
    assert (output.encoder_attentions[0][0, :, 0, 5:] == 0).all()
    model.set_attn_implementation("sdpa")
    torch.testing.assert_close(logits_of(model, batch), output.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_window": 7}, "must be positive and even"),
        ({"attention_window": [8]}, "has 1 numbers, but there are 2"),
        ({"global_tokens": "all"}, "global_tokens='all' is unknown"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LedT5Config(**{**T5_SIZES, **options})


def test_only_a_t5_can_be_converted():
    with pytest.raises(TypeError, match="model is a LedT5ForConditionalGeneration; give a T5"):
        LedT5ForConditionalGeneration.from_t5(tiny_led_t5())
    with pytest.raises(ValueError, match=r"do not fit \(8, 16\)"):
        LedT5ForConditionalGeneration.from_t5(tiny_t5(), d_kv=4)


def test_auto_classes_know_the_model():
    config = AutoConfig.for_model("summarily-led-t5", **T5_SIZES)
    assert type(AutoModel.from_config(config)) is LedT5Model
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is LedT5ForConditionalGeneration
    assert isinstance(AutoModelForSeq2SeqLM.from_config(config), T5ForConditionalGeneration)


def test_trains_under_seq2seq_trainer(tmp_path):
    assert_trains_under_seq2seq_trainer(tiny_led_t5(dropout_rate=0.0), padded_batch(60), tmp_path)


def test_the_encoder_compiles_in_one_graph():
    encoder = tiny_led_t5(global_tokens="bos").encoder
    batch = padded_batch(60, (40, 23), (3, 3))
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        states, expected = (
            run(batch["input_ids"], batch["attention_mask"]).last_hidden_state for run in (compiled, encoder)
        )
    torch.testing.assert_close(states, expected)


def test_one_operation_computes_t5s_gelu_and_its_gradient():
    batch = padded_batch(T5_SIZES["vocab_size"])
    t5, fused = tiny_t5(flan=True), tiny_t5(flan=True)
    fuse_gelu(fused)
    assert not any(isinstance(module, NewGELUActivation) for module in fused.modules())
    torch.testing.assert_close(fused(**batch).logits, t5(**batch).logits, rtol=1e-5, atol=1e-5)
    for model in (t5, fused):
        model(**batch).loss.backward()
    for (name, ours), (_, theirs) in zip(fused.named_parameters(), t5.named_parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6, msg=name)
