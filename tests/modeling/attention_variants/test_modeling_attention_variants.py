"""The attention-variant transformer: what all models must show, and what only this one computes."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, DynamicCache, EncoderDecoderCache

import summarily.modeling
from summarily.modeling import (
    AttentionVariantConfig,
    AttentionVariantForConditionalGeneration,
    AttentionVariantModel,
)
from summarily.modeling.attention.masks import MASKED_TWIN, MECHANISMS
from summarily.modeling.attention_variants.modeling_attention_variants import (
    SelfAttention,
    sinusoids,
)
from summarily.modeling.summary_loss import summary_loss
from tests.modeling.common import (
    Seq2SeqModelChecks,
    assert_loads_as_remote_code,
    assert_trains_under_seq2seq_trainer,
    logits_of,
    padded_batch,
    row,
    without_dropout,
)


def tiny(mechanism: str = "dot_product", **options) -> AttentionVariantForConditionalGeneration:
    """Blocks so small that the mechanisms differ on twenty tokens."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 60,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "intermediate_size": 32,
        "block_length": 3,
        "width": 2,
        "memory_length": 2,
        "max_relative_position": 4,
    }
    config = AttentionVariantConfig(attention_type=mechanism, **{**sizes, **options})
    return AttentionVariantForConditionalGeneration(config).eval()


class TestEveryMechanism(Seq2SeqModelChecks):
    @pytest.fixture(params=MECHANISMS)
    def model(self, request):
        return tiny(request.param)

    def test_no_token_depends_on_a_later_one(self, model, batch):
        labels = batch["labels"].clamp(min=0)
        changed = labels.clone()
        changed[:, 5] = (changed[:, 5] + 1) % 60
        before = logits_of(model, {**batch, "labels": labels})
        after = logits_of(model, {**batch, "labels": changed})
        # Label 5 is the decoder's input 6.
        torch.testing.assert_close(before[:, :6], after[:, :6])
        assert not torch.allclose(before[:, 6], after[:, 6])

    def test_eager_attention_equals_sdpa_and_shows_the_weights(self, model, batch):
        eager = copy.deepcopy(model)
        eager.set_attn_implementation("eager")
        with torch.no_grad():
            outputs = eager(**batch, output_attentions=True, output_hidden_states=True)
        torch.testing.assert_close(outputs.logits, logits_of(model, batch))
        assert [tuple(weights.shape) for weights in outputs.encoder_attentions] == [(3, 2, 19, 19)] * 2
        assert [tuple(weights.shape) for weights in outputs.cross_attentions] == [(3, 2, 11, 19)] * 2
        assert len(outputs.decoder_hidden_states) == 3
        positions = torch.arange(11)
        visible = model.config.decoder_pattern.visible(positions[:, None], positions[None, :])
        assert all(torch.equal(weights[0, 0] > 0, visible) for weights in outputs.decoder_attentions)

    def test_a_prompt_continues_like_a_fresh_start(self, model, batch):
        """Several tokens on top of a cache, as when a prefix is given, equal one pass over all of them."""
        ids = model.prepare_decoder_input_ids_from_labels(batch["labels"].clamp(min=1))
        encoded = model.get_encoder()(batch["input_ids"], batch["attention_mask"])
        inputs = {"encoder_outputs": encoded, "attention_mask": batch["attention_mask"]}
        with torch.no_grad():
            whole = model(**inputs, decoder_input_ids=ids).logits
            first = model(**inputs, decoder_input_ids=ids[:, :5], use_cache=True)
            rest = model(**inputs, decoder_input_ids=ids[:, 5:], past_key_values=first.past_key_values)
        torch.testing.assert_close(torch.cat([first.logits, rest.logits], 1), whole)

    def test_the_cache_keeps_only_what_can_still_be_seen(self, model, batch):
        cache = model.model.decoder.new_cache()
        self.generate(model, batch, num_beams=1, past_key_values=cache)
        kept = cache.self_attention_cache.layers[0].keys.shape[-2]
        reach = model.config.decoder_pattern.reach()
        assert cache.get_seq_length() >= 12
        assert kept == (cache.get_seq_length() if reach is None else reach - 1)

    def test_a_plain_cache_works_too(self, model, batch):
        plain = EncoderDecoderCache(DynamicCache(), DynamicCache())
        assert torch.equal(
            self.generate(model, batch, num_beams=1, past_key_values=plain),
            self.generate(model, batch, num_beams=1),
        )


@pytest.mark.parametrize("mechanism", ["dot_product", "dilated", "relative"])
def test_trains_under_seq2seq_trainer(mechanism, tmp_path):
    batch = padded_batch(60, source_lengths=(19, 7, 5, 12), target_lengths=(6, 4, 6, 3))
    assert_trains_under_seq2seq_trainer(tiny(mechanism), batch, tmp_path)


@pytest.mark.parametrize("mechanism", MASKED_TWIN)
def test_a_leaky_decoder_leaks_and_the_default_does_not(mechanism):
    batch = padded_batch(60)
    changed = {**batch, "labels": batch["labels"].clone()}
    changed["labels"][0, 4] += (
        1  # input 5: seen by query 3, of the block of tokens 3 to 5, in a leaky decoder
    )
    for leaky in (False, True):
        model = tiny(mechanism, leaky_decoder=leaky)
        assert model.config.decoder_leaks == leaky
        same = torch.allclose(logits_of(model, batch)[0, 3], logits_of(model, changed)[0, 3], atol=1e-6)
        assert same != leaky


@pytest.mark.parametrize("mechanism", MASKED_TWIN)
def test_a_leaky_decoder_ignores_padding_and_decodes_without_a_cache(mechanism):
    model = tiny(mechanism, leaky_decoder=True)
    batch = padded_batch(60)
    together = logits_of(model, batch)
    alone = logits_of(model, row(batch, 1))
    torch.testing.assert_close(together[1:2, : alone.shape[1]], alone)
    generated = model.generate(batch["input_ids"], num_beams=2, max_new_tokens=5, use_cache=True)
    assert torch.equal(
        generated, model.generate(batch["input_ids"], num_beams=2, max_new_tokens=5, use_cache=False)
    )
    with pytest.raises(ValueError, match="cannot use a cache"):
        model(**{**batch, "labels": None}, decoder_input_ids=batch["input_ids"], use_cache=True)


@pytest.mark.parametrize("mechanism", ["local", "local_masked", "dilated"])
def test_t2t_padding_attends_to_padding_only_in_blocked_mechanisms(mechanism):
    batch = padded_batch(60)
    alone, together = row(batch, 1), batch
    for option, invariant in ((False, True), (True, False)):
        model = tiny(mechanism, t2t_padding=option)
        one = model.get_encoder()(alone["input_ids"], alone["attention_mask"]).last_hidden_state
        many = model.get_encoder()(together["input_ids"], together["attention_mask"]).last_hidden_state
        assert torch.allclose(one, many[1:2, : one.shape[1]], atol=1e-5) == invariant
    dot_product = tiny("dot_product", t2t_padding=True)
    torch.testing.assert_close(logits_of(dot_product, row(batch, 1)), logits_of(dot_product, batch)[1:2, :4])


def test_remote_code_gives_equal_logits(tmp_path):
    models = [tiny(mechanism) for mechanism in MECHANISMS]
    assert_loads_as_remote_code(models, padded_batch(60), tmp_path)


def test_a_source_of_padding_only_gives_no_nan():
    batch = padded_batch(60)
    batch["attention_mask"][2] = 0
    for mechanism in MECHANISMS:
        model = tiny(mechanism).train()
        output = model(**batch)
        output.loss.backward()
        assert torch.isfinite(output.logits).all()
        assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_mechanisms_agree_on_inputs_of_one_block():
    """Up to B tokens, local and dilated are full attention, and the masked ones are causal in the encoder."""
    batch = padded_batch(60)
    weights = tiny("dot_product", block_length=32).state_dict()

    def logits(mechanism, preset):
        model = tiny(mechanism, block_length=32, preset=preset)
        model.load_state_dict(weights)
        return logits_of(model, batch)

    plain = logits("dot_product", "paper")
    for mechanism in ("local", "dilated"):
        torch.testing.assert_close(logits(mechanism, "paper"), plain)
    causal = logits("local_block_masked", "t2t")
    assert not torch.allclose(causal, plain, atol=1e-3)
    for mechanism in ("local_masked", "dilated_masked"):
        torch.testing.assert_close(logits(mechanism, "t2t"), causal)


def test_loss_is_the_smoothed_cross_entropy_of_the_definition():
    """Mass eps over the other V - 1 tokens, minus the entropy of that target, per label."""
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 3, 7), torch.tensor([[1, 6, -100], [0, -100, -100]])
    eps, size = 0.1, 7
    total = 0.0
    for log_probability, label in zip(logits.log_softmax(-1).flatten(0, 1), labels.flatten(), strict=True):
        if label == -100:
            continue
        target = torch.full((size,), eps / (size - 1))
        target[label] = 1 - eps
        total += float((target * (target.log() - log_probability)).sum())
    loss = summary_loss(logits, labels, smoothing=eps)
    assert float(loss) == pytest.approx(total / 3, abs=1e-5)
    assert float(summary_loss(logits, labels, num_items_in_batch=12, smoothing=eps)) == pytest.approx(
        total / 12, abs=1e-5
    )


def test_smoothing_is_for_training_only():
    model, batch = tiny(label_smoothing=0.3), padded_batch(60)
    logits = logits_of(model, batch)
    with torch.no_grad():
        evaluated, trained = model(**batch).loss, without_dropout(model)(**batch).loss
    torch.testing.assert_close(evaluated, summary_loss(logits, batch["labels"]))
    torch.testing.assert_close(trained, summary_loss(logits, batch["labels"], smoothing=0.3))


def test_sinusoids_are_a_block_of_sines_and_a_block_of_cosines():
    table = sinusoids(torch.arange(50), 512)
    for position, channel in ((0, 0), (7, 3), (49, 255)):
        angle = position * math.exp(-channel * math.log(1e4) / 255)
        assert float(table[position, channel]) == pytest.approx(math.sin(angle), abs=1e-5)
        assert float(table[position, 256 + channel]) == pytest.approx(math.cos(angle), abs=1e-5)


def test_relative_attention_knows_no_absolute_position():
    """Without its tables, all positions of a text of one word are alike; sinusoids tell them apart."""
    for mechanism, alike in (("relative", True), ("dot_product", False)):
        encoder = tiny(mechanism).get_encoder()
        for name, parameter in encoder.named_parameters():
            if "relative" in name:
                parameter.data.zero_()
        states = encoder(torch.full((1, 12), 9)).last_hidden_state
        assert torch.allclose(states[0, :1], states[0, 1:], atol=1e-5) == alike


def test_the_decoder_starts_from_a_zero_vector_even_when_the_row_is_trained():
    model, batch = tiny().train(), padded_batch(60)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(**batch).loss.backward()
    optimizer.step()
    pad = model.config.pad_token_id
    assert model.lm_head.weight[pad].abs().sum() > 0
    assert model.get_input_embeddings()(torch.tensor([pad])).abs().sum() == 0
    assert model.prepare_decoder_input_ids_from_labels(torch.tensor([[7, 8, -100]])).tolist() == [[pad, 7, 8]]


def test_embeddings_are_shared_and_scaled():
    model = tiny()
    embeddings = model.get_input_embeddings()
    assert model.lm_head.weight is embeddings.weight
    assert model.model.encoder.embed_tokens.weight is model.model.decoder.embed_tokens.weight
    torch.testing.assert_close(embeddings(torch.tensor([5]))[0], embeddings.weight[5] * 4.0)
    model.resize_token_embeddings(70)
    assert (
        model.lm_head.weight.shape == (70, 16) and model.lm_head.weight is model.get_input_embeddings().weight
    )


def test_weights_start_as_in_tensor2tensor():
    model = tiny("relative", hidden_size=64, vocab_size=2000)
    layer = model.model.encoder.layers[0]
    assert float(model.lm_head.weight.detach().std()) == pytest.approx(64**-0.5, rel=0.05)
    bound = math.sqrt(6 / 128)  # each of query, key and value is a 64 x 64 projection
    largest = float(layer.attention.query_key_value.weight.detach().abs().max())
    assert 0.95 * bound < largest <= bound
    assert float(layer.attention.relative_keys.detach().abs().max()) > 0


@pytest.mark.parametrize(("preset", "dropout"), [("paper", 0.1), ("t2t", 0.0)])
def test_attention_dropout_of_blocked_mechanisms_follows_the_preset(preset, dropout):
    model = tiny("local", preset=preset)
    assert {module.dropout for module in model.modules() if isinstance(module, SelfAttention)} == {dropout}
    assert model.model.decoder.layers[0].cross_attention.dropout == 0.1


def test_beam_search_favours_longer_summaries():
    """A larger length penalty, or a less probable end, gives longer summaries of the same sources."""
    model = tiny()
    assert model.generation_config.num_beams == 8 and model.generation_config.length_penalty == 2.0
    sources = torch.randint(3, 60, (12, 9), generator=torch.Generator().manual_seed(1))
    end = model.config.eos_token_id

    def mean_length(length_penalty, end_bias):
        # The tiny model hardly ever ends by itself, so the end is made more probable in all runs.
        summaries = model.generate(
            sources,
            num_beams=4,
            max_length=21,
            length_penalty=length_penalty,
            sequence_bias=[[[end], end_bias]],
        )
        return float((summaries[:, 1:] != 0).sum(1).float().mean())

    assert mean_length(0.0, end_bias=4.0) < mean_length(1.0, end_bias=4.0)
    assert mean_length(0.0, end_bias=5.0) < mean_length(0.0, end_bias=4.0)


def test_beams_share_the_cross_attention_cache():
    """Only the summary's own past moves between beams; the tokens are those of a full reordering."""
    batch = padded_batch(60)
    model = tiny("local_masked")
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    options = {"num_beams": 5, "max_new_tokens": 15, "num_return_sequences": 3}
    expected = model.generate(**inputs, **options)

    class Moving(AttentionVariantForConditionalGeneration):
        @staticmethod
        def _reorder_cache(past_key_values, beam_idx):
            past_key_values.reorder_cache(beam_idx)
            return past_key_values

    moving = Moving(model.config).eval()
    moving.load_state_dict(model.state_dict())
    assert torch.equal(moving.generate(**inputs, **options), expected)


def test_static_caches_and_foreign_caches_are_refused():
    model, batch = tiny(), padded_batch(60)
    with pytest.raises(ValueError, match="cache_implementation='static' is not supported"):
        model.generate(batch["input_ids"], cache_implementation="static", max_new_tokens=2)
    with pytest.raises(TypeError, match="past_key_values is a DynamicCache; pass an EncoderDecoderCache"):
        model(
            input_ids=batch["input_ids"], decoder_input_ids=batch["input_ids"], past_key_values=DynamicCache()
        )


def test_token_ids_and_embeddings_exclude_each_other():
    model, ids = tiny(), torch.tensor([[5, 6]])
    embedded = model.get_input_embeddings()(ids)
    with torch.no_grad():
        by_ids = model(input_ids=ids, labels=ids).logits
        by_embeddings = model(inputs_embeds=embedded, labels=ids).logits
    torch.testing.assert_close(by_ids, by_embeddings)
    with pytest.raises(ValueError, match="either token ids or embeddings"):
        model(input_ids=ids, inputs_embeds=embedded, labels=ids)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_type": "sparse"}, "attention_type='sparse' is unknown; choose one of dot_product"),
        ({"decoder_attention_type": "local"}, "use 'local_masked', or leaky_decoder=True"),
        ({"preset": "google"}, "preset='google' is unknown; choose one of paper, t2t"),
        ({"hidden_size": 30, "num_attention_heads": 4}, "hidden_size=30 must be even and a multiple of"),
        ({"block_length": 0}, "block_length is 0; it must be at least 1"),
        ({"gap": -1}, "gap is -1"),
        ({"max_relative_position": 0}, "max_relative_position=0 must be at least 1"),
        ({"dropout": 1.5}, "dropout=1.5 must be at least 0 and less than 1"),
        ({"pad_token_id": 99, "vocab_size": 50}, "pad_token_id=99 is not a token of a vocabulary of 50"),
    ],
)
def test_bad_configurations_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionVariantConfig(**options)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_decoder_defaults_to_the_masked_twin(mechanism):
    config = AttentionVariantConfig(attention_type=mechanism)
    assert config.decoder_attention_type == MASKED_TWIN.get(mechanism, mechanism)
    assert config.decoder_pattern.causal and config.use_cache
    leaky = AttentionVariantConfig(attention_type=mechanism, leaky_decoder=True)
    assert leaky.decoder_attention_type == mechanism
    assert leaky.decoder_leaks == (mechanism in MASKED_TWIN) == (not leaky.use_cache)


def test_presets_set_the_gap_unless_told_otherwise():
    assert AttentionVariantConfig().gap == 2
    assert AttentionVariantConfig(preset="t2t").gap == 0
    assert AttentionVariantConfig(preset="t2t", gap=5).gap == 5


def test_encoder_and_decoder_may_differ():
    model = tiny("dilated", decoder_attention_type="relative")
    assert torch.isfinite(logits_of(model, padded_batch(60))).all()
    assert hasattr(model.model.decoder.layers[0].attention, "relative_keys")
    assert not hasattr(model.model.encoder.layers[0].attention, "relative_keys")


def test_auto_classes_know_the_model(tmp_path):
    options = {"vocab_size": 60, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    config = AutoConfig.for_model("summarily-attention-variant", **options)
    assert type(config) is AttentionVariantConfig
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is AttentionVariantForConditionalGeneration
    assert type(AutoModel.from_config(config)) is AttentionVariantModel
    tiny().save_pretrained(tmp_path)
    assert type(AutoModel.from_pretrained(tmp_path)) is AttentionVariantModel
    summarily.modeling.register()
    assert type(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) is AttentionVariantForConditionalGeneration


def test_public_names_are_listed_and_unknown_ones_are_refused():
    assert {"AttentionVariantConfig", "AttentionVariantForConditionalGeneration"} <= set(
        summarily.modeling.__all__
    )
    assert set(summarily.modeling.__all__) <= set(dir(summarily.modeling))
    with pytest.raises(AttributeError, match="has no attribute 'Summarizer'"):
        summarily.modeling.Summarizer  # noqa: B018
