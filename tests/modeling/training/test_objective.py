import math
from types import SimpleNamespace

import pytest
import torch

from summarily.modeling import (
    LedForConditionalGeneration,
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
)
from summarily.modeling.summary_loss import summary_loss as smoothed
from summarily.modeling.training.objective import (
    is_plain,
    learning_rate,
    only_logits_at,
    summary_loss,
    unwrapped,
)
from summarily.modeling.training.recipe import ScheduleSection, TrainingSection
from tests.modeling.tiny_bart import tiny_bart


def rate(step, kind, done=0.0, factor=1.0, width=512, **options):
    options = {"learning_rate": 1.0, "warmup_steps": 10, **options}
    return learning_rate(ScheduleSection(kind=kind, **options), step, done, factor, width)


def test_noam_is_the_schedule_of_tensor2tensor():
    # transformer_base v3: 2.0 * min(1, step/8000) * max(step, 8000)^-0.5 * 512^-0.5, with its peak at 8000.
    options = {"learning_rate": 2.0, "warmup_steps": 8000}
    assert rate(8000, "noam", **options) == pytest.approx(9.882e-4, rel=1e-3)
    for step in (1, 100, 7999, 8001, 50_000):
        # The legacy form of the same: 512^-0.5 * min(step * 8000^-1.5, step^-0.5), times 2.
        legacy = 2 * 512**-0.5 * min(step * 8000**-1.5, step**-0.5)
        assert rate(step, "noam", **options) == pytest.approx(legacy)


@pytest.mark.parametrize("kind", ["constant", "linear", "inverse_sqrt", "plateau"])
def test_all_schedules_warm_up(kind):
    assert [rate(step, kind) for step in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1.0])
    assert rate(1, kind, warmup_steps=0) == 1.0


def test_after_the_warmup_schedules_differ():
    assert rate(1000, "constant", done=0.9) == 1.0
    assert rate(1000, "linear", done=0.75) == pytest.approx(0.25) and rate(1000, "linear", done=1.5) == 0
    assert rate(1000, "inverse_sqrt") == pytest.approx(0.1)
    assert rate(1000, "plateau", factor=0.25) == 0.25


def test_label_smoothing_is_tensor2tensors():
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 3, 7), torch.tensor([[1, 2, -100], [6, -100, -100]])
    smoothing, size = 0.1, 7
    # torch spreads the mass over all words, the right one included: the same with eps' = eps V / (V - 1).
    theirs = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing * size / (size - 1), reduction="sum"
    )
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1 / 6))
    assert smoothed(logits, labels, 1, smoothing).item() == pytest.approx(
        theirs.item() - 3 * entropy, rel=1e-5
    )


@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_the_loss_at_labels_alone_is_the_models_own_loss(kind):
    """The head reads only the places that have a label; value and gradients are those of transformers' own loss."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    sizes = {"d_model": 16, "vocab_size": 30}
    sizes |= (
        {"d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0, "decoder_start_token_id": 0}
        if kind == "t5"
        else {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 1), ("ffn_dim", 16), ("attention_heads", 2))}
        | {"dropout": 0.0}
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForSeq2SeqLM.from_config(AutoConfig.for_model(kind, **sizes))
    assert is_plain(model)
    batch = {
        "input_ids": torch.tensor([[5, 6, 7, 2], [8, 9, 2, 1]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]),
        "labels": torch.tensor([[4, 5, 2], [6, 2, -100]]),
    }
    expected = model(**batch).loss * 5
    expected.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    ours = summary_loss(model, batch, TrainingSection())
    ours.backward()
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    for name, parameter in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-5)


def batch_of(model):
    ids = torch.tensor([[3, 4, 5, 6, 2], [7, 8, 2, 1, 1]])
    labels = torch.tensor([[9, 3, 4, 2], [5, 2, -100, -100]])
    return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": labels}


def by_the_token(model, batch):
    """Minus the log-probability of every label, one at a time."""
    total = 0.0
    for i in range(2):
        labels = [label for label in batch["labels"][i].tolist() if label != -100]
        source = batch["input_ids"][i][batch["attention_mask"][i].bool()][None]
        start = torch.tensor([[model.config.decoder_start_token_id, *labels[:-1]]])
        with torch.no_grad():
            logits = model(input_ids=source, decoder_input_ids=start).logits[0]
        total -= sum(torch.log_softmax(logits, -1)[k, label].item() for k, label in enumerate(labels))
    return total


MODELS = {
    "bart": tiny_bart,
    "led": lambda: LedForConditionalGeneration.from_bart(tiny_bart(), attention_window=4).eval(),
    "pointer-generator": lambda: PointerGeneratorForConditionalGeneration(
        PointerGeneratorConfig(vocab_size=60, embedding_size=8, hidden_size=8)
    ).eval(),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_is_the_sum_over_all_labels(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    batch = batch_of(model)
    loss = summary_loss(model, batch, TrainingSection())
    assert is_plain(model) == (name != "pointer-generator")
    assert loss.item() == pytest.approx(by_the_token(model, batch), rel=1e-5)
    parallel = SimpleNamespace(module=model)
    assert unwrapped(parallel) is model and is_plain(parallel) == is_plain(model)


@pytest.mark.parametrize("name", MODELS)
def test_a_loss_keeps_no_cache_of_what_was_read(name):
    model, caches = MODELS[name](), []
    model.register_forward_hook(lambda module, inputs, output: caches.append(output.past_key_values))
    summary_loss(model, batch_of(model), TrainingSection())
    assert caches == [None]


def test_the_head_reads_all_places_again_afterwards():
    model = tiny_bart()
    batch = batch_of(model)
    inputs = {"input_ids": batch["input_ids"], "decoder_input_ids": batch["labels"].clamp(min=0)}
    kept = batch["labels"] != -100
    with torch.no_grad():
        before = model(**inputs).logits
        with only_logits_at(model, kept):
            torch.testing.assert_close(model(**inputs).logits, before[kept])
        with pytest.raises(KeyError), only_logits_at(model, kept):
            raise KeyError
        torch.testing.assert_close(model(**inputs).logits, before)


def test_a_smoothed_loss_is_that_of_the_models_logits():
    model = tiny_bart()
    batch = batch_of(model)
    batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])  # as collated
    with torch.no_grad():
        expected = smoothed(model(**batch).logits, batch["labels"], 1, 0.2)
    found = summary_loss(model, batch, TrainingSection(label_smoothing=0.2))
    torch.testing.assert_close(found, expected)


def test_a_model_that_smooths_its_own_loss_is_asked_for_it():
    """By the same formula; and a decoder that looks ahead is told by the labels what is padding."""
    from summarily.modeling import AttentionVariantConfig, AttentionVariantForConditionalGeneration

    torch.manual_seed(0)
    sizes = {
        "vocab_size": 20,
        "hidden_size": 8,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "dropout": 0.0,
    }
    sizes |= {"attention_dropout": 0.0, "activation_dropout": 0.0, "encoder_layers": 1, "decoder_layers": 1}
    leaky = {"attention_type": "local", "leaky_decoder": True, "decoder_attention_type": "local"}
    labels = torch.tensor([[5, 6, 7, 1], [8, 1, -100, -100]])
    batch = {"input_ids": torch.tensor([[4, 5, 6, 1], [7, 8, 9, 1]]), "labels": labels}
    training = TrainingSection(label_smoothing=0.2)
    for options in ({}, leaky):
        model = AttentionVariantForConditionalGeneration(
            AttentionVariantConfig(label_smoothing=0.2, **sizes, **options)
        ).train()
        with torch.no_grad():
            found = summary_loss(model, batch, training)
            alone = [
                summary_loss(
                    model,
                    {"input_ids": batch["input_ids"][i : i + 1], "labels": labels[i : i + 1, :n]},
                    training,
                )
                for i, n in ((0, 4), (1, 2))
            ]
        torch.testing.assert_close(found, sum(alone))
        if not options:
            inputs = {"input_ids": batch["input_ids"]}
            inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
            torch.testing.assert_close(found, smoothed(model(**inputs).logits, labels, 1, 0.2))
