"""LED: what all models must show, equality with transformers' LED, equality with BART within the window."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    LEDForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

import summarily.modeling
from summarily.modeling import LedConfig, LedForConditionalGeneration, LedModel
from summarily.modeling.led.convert_led import led_from_transformers, led_to_transformers
from summarily.modeling.training.collators import SummaryCollator
from tests.modeling.common import (
    Seq2SeqModelChecks,
    assert_same_gradients,
    assert_trains_under_seq2seq_trainer,
    gradients_of,
    logits_of,
    padded_batch,
    without_dropout,
)
from tests.modeling.tiny_bart import SIZES, assert_random_weights, roughen, tiny_bart, tiny_transformers_led


def tiny_led(**options) -> LedForConditionalGeneration:
    torch.manual_seed(0)
    fields = {
        **SIZES,
        "max_position_embeddings": 64,
        "max_encoder_position_embeddings": 64,
        "attention_window": 8,
    }
    return roughen(LedForConditionalGeneration(LedConfig(**{**fields, **options})))


class TestLed(Seq2SeqModelChecks):
    @pytest.fixture(
        params=[{}, {"attention_window": [4, 16]}, {"summary_window": 4}, {"attention_dropout": 0.2}],
        ids=["plain", "windows", "summary-window", "dropout"],
    )
    def model(self, request):
        return tiny_led(**request.param)


def led_batch(batch: int, length: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Ragged rows, several global tokens in each, one of them far from the others."""
    lengths = tuple(max(1, length - 7 * row) for row in range(batch))
    inputs = padded_batch(60, lengths, tuple(9 - row for row in range(batch)), pad=1, seed=seed)
    inputs["global_attention_mask"] = torch.zeros_like(inputs["input_ids"])
    inputs["global_attention_mask"][:, 0] = 1
    inputs["global_attention_mask"][0, length // 2 :: 5] = 1
    inputs["global_attention_mask"] *= inputs["attention_mask"]
    return inputs


@pytest.mark.parametrize(
    ("batch", "length", "window"), [(1, 45, 8), (2, 32, 8), (3, 50, [8, 16]), (4, 61, 16), (2, 5, 32)]
)
def test_equals_transformers_led_in_logits_loss_and_gradients(batch, length, window):
    theirs = tiny_transformers_led(window)
    ours = LedForConditionalGeneration.from_transformers_led(theirs)
    inputs = led_batch(batch, length)
    expected, output = theirs(**inputs), ours(**inputs)
    torch.testing.assert_close(output.logits, expected.logits)
    torch.testing.assert_close(output.loss, expected.loss)
    torch.testing.assert_close(output.encoder_last_hidden_state, expected.encoder_last_hidden_state)
    gradients = led_to_transformers(gradients_of(ours, inputs))
    wanted = gradients_of(theirs, inputs)
    assert gradients.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(gradients[name], gradient, msg=name)


def test_equals_transformers_led_without_global_tokens():
    theirs = tiny_transformers_led()
    ours = LedForConditionalGeneration.from_transformers_led(theirs, global_tokens="none")
    inputs = padded_batch(60, (45, 20), (5, 5), pad=1)
    torch.testing.assert_close(logits_of(ours, inputs), logits_of(theirs, inputs))


def test_bfloat16_is_as_near_to_transformers_led_as_bfloat16_allows():
    theirs = tiny_transformers_led()
    ours = LedForConditionalGeneration.from_transformers_led(theirs)
    inputs = led_batch(2, 45)
    exact = logits_of(theirs, inputs)
    half = [logits_of(copy.deepcopy(model).to(torch.bfloat16), inputs).float() for model in (ours, theirs)]
    errors = [(logits - exact).abs().mean() / exact.abs().mean() for logits in half]
    assert errors[0] < 0.05 and errors[0] < 1.5 * errors[1], errors


def test_the_first_token_is_global_unless_told_otherwise():
    model = tiny_led()
    inputs = padded_batch(60, (45, 20), (5, 5), pad=1)
    first = torch.zeros_like(inputs["input_ids"])
    first[:, 0] = 1
    assert torch.equal(logits_of(model, inputs), logits_of(model, {**inputs, "global_attention_mask": first}))
    nowhere = logits_of(model, {**inputs, "global_attention_mask": torch.zeros_like(first)})
    assert not torch.allclose(logits_of(model, inputs), nowhere)


@pytest.mark.parametrize("global_tokens", ["bos", "none"])
def test_a_converted_bart_equals_bart_within_the_window(global_tokens):
    """The oracle of the conversion: copied positions (offset two), copied projections, local and global."""
    bart = tiny_bart()
    led = LedForConditionalGeneration.from_bart(bart, max_length=100, window=64, global_tokens=global_tokens)
    inputs = padded_batch(60, (31, 12, 5), (9, 4, 7), pad=1)
    expected = logits_of(bart, inputs)
    assert expected.abs().max() > 1
    torch.testing.assert_close(logits_of(led, inputs), expected)
    options = {"num_beams": 3, "max_new_tokens": 12, "min_new_tokens": 6}
    sources = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    assert torch.equal(led.generate(**sources, **options), bart.generate(**sources, **options))


def test_positions_are_tiled_behind_the_two_reserved_rows():
    bart = tiny_bart()
    led = LedForConditionalGeneration.from_bart(bart, max_length=70)
    table, source = led.model.encoder.embed_positions.weight, bart.model.encoder.embed_positions.weight
    assert table.shape == (70, 16)
    for position in (0, 31, 32, 69):
        assert torch.equal(table[position], source[2 + position % 32])


def test_random_attention_repeats_and_leaves_the_rest_of_bart():
    bart = tiny_bart()
    one, same, other = (
        LedForConditionalGeneration.from_bart(bart, attention="random", seed=seed) for seed in (1, 1, 2)
    )
    weight = "model.encoder.layers.0.self_attn.q_proj.weight"
    assert torch.equal(one.state_dict()[weight], same.state_dict()[weight])
    assert not torch.equal(one.state_dict()[weight], other.state_dict()[weight])
    assert torch.equal(one.model.encoder.layers[0].fc1.weight, bart.model.encoder.layers[0].fc1.weight)
    for index, layer in enumerate(one.model.encoder.layers):  # seeds 1, 2 and so on
        assert_random_weights(layer.self_attn, one.config.init_std, 1 + index)
    with pytest.raises(ValueError, match="attention='zero' is unknown"):
        LedForConditionalGeneration.from_bart(bart, attention="zero")


def test_round_trip_with_transformers_led_keeps_every_tensor():
    theirs = tiny_transformers_led([8, 16])
    back = LedForConditionalGeneration.from_transformers_led(theirs).to_transformers_led()
    assert isinstance(back, LEDForConditionalGeneration)
    assert back.config.attention_window == [8, 16]
    expected, got = theirs.state_dict(), back.state_dict()
    assert expected.keys() == got.keys() and all(torch.equal(got[name], expected[name]) for name in expected)
    assert led_to_transformers(led_from_transformers(expected)).keys() == expected.keys()


def test_what_transformers_led_cannot_do_is_not_converted_silently():
    with pytest.raises(ValueError, match="summary_window=4"):
        tiny_led(summary_window=4).to_transformers_led()
    with pytest.raises(ValueError, match="summary_window=4 has a cache of its own"):
        tiny_led(summary_window=4).generate(
            torch.tensor([[5, 6, 7]]), cache_implementation="static", max_new_tokens=2
        )
    with pytest.raises(ValueError, match="scale_embedding"):
        tiny_led(scale_embedding=True).to_transformers_led()
    with pytest.raises(TypeError, match="model is a LedForConditionalGeneration"):
        LedForConditionalGeneration.from_bart(tiny_led())


def test_a_window_on_the_summary_hides_what_is_further_back():
    model = tiny_led(summary_window=3, decoder_layers=1)
    inputs = padded_batch(60, (10,), (9,), pad=1)
    labels = inputs["labels"]
    changed = labels.clone()
    changed[0, 2] = (changed[0, 2] + 1 - 3) % 57 + 3
    before, after = logits_of(model, inputs), logits_of(model, {**inputs, "labels": changed})
    moved = (before != after).any(-1)[0].nonzero().flatten().tolist()
    assert moved == [3, 4, 5]  # label 2 is read at position 3, and seen by three positions


def test_attentions_are_rows_over_the_whole_source():
    model = tiny_led()
    model.set_attn_implementation("eager")
    inputs = padded_batch(60, (21, 12), (4, 4), pad=1)
    output = model(**inputs, output_attentions=True, output_hidden_states=True)
    assert [tuple(weights.shape) for weights in output.encoder_attentions] == [(2, 2, 21, 21)] * 2
    real = inputs["attention_mask"].bool()
    sums = output.encoder_attentions[0].sum(-1)
    torch.testing.assert_close(sums[0], torch.ones(2, 21))
    assert (sums[1][:, ~real[1]] == 0).all() and (output.encoder_attentions[0][1][:, :, ~real[1]] == 0).all()
    assert len(output.encoder_hidden_states) == 3 and len(output.cross_attentions) == 2
    model.set_attn_implementation("sdpa")
    torch.testing.assert_close(logits_of(model, inputs), output.logits)


def test_label_smoothing_is_for_training_only():
    model = without_dropout(tiny_led(label_smoothing=0.1))
    inputs = padded_batch(60, (21, 12), (4, 4), pad=1)
    training = model(**inputs)
    # The mass is spread over the other 59 tokens, and the least value that the loss can have is taken off.
    target = torch.full((*inputs["labels"].shape, 60), 0.1 / 59).scatter(
        2, inputs["labels"].clamp(min=0)[..., None], 0.9
    )
    kept = inputs["labels"] != -100
    expected = (target * (target.log() - training.logits.log_softmax(-1))).sum(-1)[kept].mean()
    torch.testing.assert_close(training.loss, expected)
    plain = model.eval()(**inputs)
    torch.testing.assert_close(
        plain.loss, torch.nn.functional.cross_entropy(plain.logits.flatten(0, 1), inputs["labels"].flatten())
    )


def test_checkpointing_with_dropout_in_the_attention_keeps_the_gradients():
    model = tiny_led(attention_dropout=0.3).train()
    inputs = led_batch(2, 40)
    torch.manual_seed(5)
    plain = gradients_of(model, inputs)
    model.gradient_checkpointing_enable()
    torch.manual_seed(5)
    assert_same_gradients(plain, gradients_of(model, inputs))


def test_a_source_longer_than_the_positions_names_both_numbers():
    with pytest.raises(ValueError, match="The source has 65 tokens, but there are 64 positions"):
        tiny_led()(input_ids=torch.zeros(1, 65, dtype=torch.long), labels=torch.zeros(1, 2, dtype=torch.long))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_window": 7}, "must be positive and even"),
        ({"attention_window": [8]}, "has 1 numbers, but there are 2"),
        ({"global_tokens": "all"}, "global_tokens='all' is unknown"),
        ({"summary_window": 1}, "summary_window=1 must be at least 2"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LedConfig(**{**SIZES, **options})


def test_auto_classes_know_the_model():
    assert summarily.modeling.LedForConditionalGeneration is LedForConditionalGeneration
    config = AutoConfig.for_model("summarily-led", **SIZES)
    assert type(AutoModel.from_config(config)) is LedModel
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is LedForConditionalGeneration


def test_generation_takes_a_global_attention_mask():
    theirs = tiny_transformers_led()
    ours = LedForConditionalGeneration.from_transformers_led(theirs)
    inputs = {name: tensor for name, tensor in led_batch(3, 45).items() if name != "labels"}
    options = {"num_beams": 4, "max_new_tokens": 12, "min_new_tokens": 6}
    assert torch.equal(ours.generate(**inputs, **options), theirs.generate(**inputs, **options))
    none = torch.zeros_like(inputs["global_attention_mask"])
    without = ours.generate(**{**inputs, "global_attention_mask": none}, **options)
    assert not torch.equal(without, ours.generate(**inputs, **options))


def test_trains_under_seq2seq_trainer(tmp_path):
    assert_trains_under_seq2seq_trainer(tiny_led(dropout=0.0), padded_batch(60, pad=1), tmp_path)


def test_trainer_with_ragged_global_attention_masks(tmp_path):
    """Rows of different lengths, each with its own mask; transformers' collator fails on that column."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for length in (12, 7, 30, 21):
        tokens = torch.randint(3, 60, (length,), generator=generator).tolist()
        mask = [int(i % 6 == 0) for i in range(length)]
        rows.append({"input_ids": tokens, "global_attention_mask": mask, "labels": tokens[:4]})
    model = tiny_led(dropout=0.0)
    seen = []
    model.model.encoder.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["global_attention_mask"]), with_kwargs=True
    )
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=4,
        per_device_train_batch_size=2,
        learning_rate=5e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Seq2SeqTrainer(
        model=model, args=arguments, train_dataset=rows, data_collator=SummaryCollator(pad_token_id=1)
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 4 and all(0 < loss < 50 for loss in losses)
    assert all(mask is not None and mask.sum() > len(mask) for mask in seen)
    trainer.save_model(tmp_path / "saved")
    reloaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")
    assert type(reloaded) is LedForConditionalGeneration


def test_the_encoder_compiles_in_one_graph():
    encoder = tiny_led().model.encoder
    batch = padded_batch(60, (40, 23), (3, 3), pad=1)
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        states, expected = (
            run(batch["input_ids"], batch["attention_mask"]).last_hidden_state for run in (compiled, encoder)
        )
    torch.testing.assert_close(states, expected)


def test_a_long_document_is_summarised():
    """A reduced form of summarising 16,384 tokens: 2,000, two hundred windows."""
    model = tiny_led(max_encoder_position_embeddings=2048)
    ids = torch.randint(3, 60, (1, 2000), generator=torch.Generator().manual_seed(0))
    tokens = model.generate(ids, num_beams=4, max_new_tokens=8, min_new_tokens=8)
    assert tokens.shape == (1, 9)


# --- projections that are more than their weights ---------------------------------------------------------


def test_adapters_on_the_global_projections_are_used_and_learn():
    from peft import LoraConfig, get_peft_model

    model, batch = tiny_led(), padded_batch(60, (45, 20), (5, 5), pad=1)
    before = logits_of(model, batch)
    settings = LoraConfig(
        r=2, target_modules=["k_proj_global", "v_proj_global"], init_lora_weights=False, lora_dropout=0.0
    )
    adapted = get_peft_model(copy.deepcopy(model), settings).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    found = logits_of(adapted, batch)
    assert (found - before).abs().max() > 1e-2
    adapted(**batch).loss.backward()
    learns = {name: p.grad for name, p in adapted.named_parameters() if "lora_" in name}
    assert learns and all(gradient is not None and gradient.abs().max() > 0 for gradient in learns.values())
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(logits_of(merged, batch), found, rtol=1e-4, atol=1e-4)


def test_offloaded_weights_are_loaded_for_the_global_projections():
    from accelerate import cpu_offload

    model, batch = tiny_led(), padded_batch(60, (45, 20), (5, 5), pad=1)
    expected = logits_of(model, batch)
    offloaded = cpu_offload(copy.deepcopy(model), execution_device=torch.device("cpu"))
    assert offloaded.model.encoder.layers[0].self_attn.k_proj_global.weight.device.type == "meta"
    torch.testing.assert_close(logits_of(offloaded, batch), expected)
