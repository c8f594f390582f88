"""Beams share the cross-attention of their document: the same tokens, one copy, nothing moved."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    StaticCache,
    T5Config,
    T5ForConditionalGeneration,
)

from summarily.modeling.generation.shared_cross_attention import (
    SharedCrossAttentionCache,
    generate_with_shared_cross_attention,
    share_cross_attention,
)
from summarily.modeling.led.modeling_led import LedForConditionalGeneration
from tests.modeling.common import padded_batch
from tests.modeling.tiny_bart import roughen, tiny_bart, tiny_transformers_led
from tests.modeling.tiny_t5 import tiny_t5

MODELS = {
    "bart": tiny_bart,
    "transformers' LED": tiny_transformers_led,
    "t5": lambda: tiny_t5(flan=True),
    "ours": lambda: LedForConditionalGeneration.from_transformers_led(tiny_transformers_led()),
}
OPTIONS = {"max_new_tokens": 14, "min_new_tokens": 6}


def sources() -> dict[str, torch.Tensor]:
    batch = padded_batch(60, (30, 12, 21), pad=1)
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 4},
        {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 2.0},
        {"num_beams": 1},
        {"num_beams": 3, "no_repeat_ngram_size": 2, "early_stopping": True},
    ],
)
@pytest.mark.parametrize("name", ["bart", "transformers' LED", "t5"])
def test_stock_models_give_the_same_tokens(name, options):
    model = MODELS[name]()
    options = {**OPTIONS, **options}
    expected = model.generate(**sources(), **options)
    assert torch.equal(generate_with_shared_cross_attention(model, **sources(), **options), expected)


@pytest.mark.parametrize("name", ["bart", "t5"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_every_attention_implementation_gives_the_same_tokens(implementation, name):
    model = MODELS[name]()
    expected = model.generate(**sources(), num_beams=4, **OPTIONS)
    model.set_attn_implementation(implementation)
    assert torch.equal(
        generate_with_shared_cross_attention(model, **sources(), num_beams=4, **OPTIONS), expected
    )


def test_sampling_with_several_sequences_gives_the_same_tokens():
    model = tiny_bart()
    options = {**OPTIONS, "do_sample": True, "num_return_sequences": 3}
    torch.manual_seed(0)
    expected = model.generate(**sources(), **options)
    torch.manual_seed(0)
    assert torch.equal(generate_with_shared_cross_attention(model, **sources(), **options), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_document_is_kept_once_whatever_the_beams(name):
    model = MODELS[name]()
    options = {**OPTIONS, "num_beams": 4, "return_dict_in_generate": True}
    if name == "ours":
        cache = model.generate(**sources(), **options).past_key_values
    else:
        cache = generate_with_shared_cross_attention(model, **sources(), **options).past_key_values
    for layer in cache.cross_attention_cache.layers:
        assert layer.keys.shape[0] == layer.values.shape[0] == 3
    assert all(layer.keys.shape[0] == 12 for layer in cache.self_attention_cache.layers)


def test_ours_also_keeps_the_encoders_output_once():
    model = MODELS["ours"]()
    rows = []
    model.model.decoder.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(kwargs["encoder_hidden_states"].shape[0]), with_kwargs=True
    )
    model.generate(**sources(), num_beams=4, **OPTIONS)
    assert set(rows) == {3}


def test_the_model_is_left_as_it_was_and_no_weight_is_copied():
    model = tiny_bart()
    classes = [type(module) for module in model.modules()]
    twin = share_cross_attention(model)
    assert [type(module) for module in model.modules()] == classes
    assert [type(module) for module in twin.modules()] != classes
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert ours.data_ptr() == theirs.data_ptr()


def test_the_cache_alone_serves_a_model_that_does_not_know_it():
    """A T5 that is not told to share: cross-attention has a row per beam, but stays in place."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=60, d_model=16, d_kv=8, num_heads=2, num_layers=2, d_ff=24, decoder_start_token_id=0
    )
    model = roughen(T5ForConditionalGeneration(config))
    options = {**OPTIONS, "num_beams": 4}
    expected = model.generate(**sources(), **options)
    moved = []

    class Watched(DynamicCache):
        def reorder_cache(self, beam_idx):
            moved.append(beam_idx)
            super().reorder_cache(beam_idx)

    cache = SharedCrossAttentionCache(examples=3)
    cache.cross_attention_cache = Watched()
    assert torch.equal(model.generate(**sources(), **options, past_key_values=cache), expected)
    assert not moved


def test_attentions_have_a_row_for_every_beam():
    model = tiny_bart()
    model.set_attn_implementation("eager")
    options = {**OPTIONS, "num_beams": 4, "return_dict_in_generate": True, "output_attentions": True}
    expected = model.generate(**sources(), **options).cross_attentions
    output = generate_with_shared_cross_attention(model, **sources(), **options).cross_attentions
    for step, wanted in zip(output, expected, strict=True):
        for weights, theirs in zip(step, wanted, strict=True):
            torch.testing.assert_close(weights, theirs)


def test_a_users_own_cache_still_works_with_our_models():
    model = MODELS["ours"]()
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    expected = model.generate(**sources(), num_beams=4, **OPTIONS)
    assert torch.equal(model.generate(**sources(), num_beams=4, **OPTIONS, past_key_values=cache), expected)


@pytest.mark.parametrize(("implementation", "kind"), [("static", StaticCache), ("dynamic", DynamicCache)])
def test_the_summaries_own_cache_is_of_the_kind_that_was_asked_for(implementation, kind):
    options = {**OPTIONS, "cache_implementation": implementation, "return_dict_in_generate": True}
    cache = MODELS["ours"]().generate(**sources(), **options).past_key_values
    assert isinstance(cache, SharedCrossAttentionCache) and type(cache.self_attention_cache) is kind


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="nothing to summarize"):
        generate_with_shared_cross_attention(tiny_bart(), num_beams=2)
    with pytest.raises(ValueError, match="past_key_values is given"):
        generate_with_shared_cross_attention(
            tiny_bart(), **sources(), past_key_values=SharedCrossAttentionCache(3)
        )
    with pytest.raises(ValueError, match="a batch of 7 rows does not hold 3 documents"):
        SharedCrossAttentionCache(3).beams(7)


@pytest.mark.parametrize("name", ["bart", "transformers' LED", "t5"])
def test_several_rows_read_one_document_without_a_cache(name):
    """As for a reference and a sample of one document: two rows each, beside the document repeated for both."""
    model = share_cross_attention(MODELS[name]())
    batch = sources()
    documents = len(batch["input_ids"])
    with torch.no_grad():
        encoded = model.get_encoder()(**batch).last_hidden_state
        rows = torch.randint(3, 60, (2 * documents, 5), generator=torch.Generator().manual_seed(0))

        def logits(states, mask):
            return model(
                encoder_outputs=(states,), attention_mask=mask, decoder_input_ids=rows, use_cache=False
            ).logits

        twice = logits(encoded.repeat_interleave(2, 0), batch["attention_mask"].repeat_interleave(2, 0))
        once = logits(encoded, batch["attention_mask"])
    torch.testing.assert_close(once, twice, rtol=1e-5, atol=1e-5)
