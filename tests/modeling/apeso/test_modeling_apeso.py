"""APESO: what all models must show, the joint loss, the entity attention and what beam search gets of it."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, Trainer, TrainingArguments
from transformers.utils import find_labels

from summarily.modeling import ApesoConfig, ApesoForConditionalGeneration
from summarily.modeling.generation.summary_beam_search import summary_beam_search
from tests.modeling.common import (
    Seq2SeqModelChecks,
    assert_loads_as_remote_code,
    assert_trains_under_seq2seq_trainer,
)
from tests.modeling.common import row as row_of
from tests.modeling.common import widen as widen_batch
from tests.modeling.pointer_generator.reference import Reference
from tests.modeling.pointer_generator.test_modeling_pointer_generator import (
    VOCABULARY,
    assert_gaps_change_nothing,
    copy_batch,
    unpadded,
    with_gaps,
)
from tests.modeling.pointer_generator.test_modeling_pointer_generator import tiny as tiny_baseline


def tiny(delta: float = 0.3, **options) -> ApesoForConditionalGeneration:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "embedding_size": 6, "hidden_size": 8, "init_range": 0.7}
    return ApesoForConditionalGeneration(ApesoConfig(delta=delta, **{**sizes, **options})).eval()


def entity_batch(**options) -> dict[str, torch.Tensor]:
    """Every third token of a source belongs to an entity."""
    batch = copy_batch(**options)
    places = torch.arange(batch["input_ids"].shape[1]) % 3 == 0
    batch["salient_tokens"] = batch["attention_mask"] * places
    return batch


def joint_loss(model: ApesoForConditionalGeneration, batch: dict[str, torch.Tensor]) -> float:
    """Eq. 5 of every example by the plain reference, the examples weighted by their labels."""
    reference, delta = Reference(model), model.config.delta
    total = count = 0.0
    for index in range(len(batch["input_ids"])):
        source, target = unpadded(batch, index)
        gold = batch["salient_tokens"][index].tolist()
        predicted = reference.entities(source)
        entropy = -sum(
            math.log(e if label else 1 - e) for e, label in zip(predicted, gold[: len(source)], strict=True)
        )
        nll = reference.nll(source, target)
        total += len(target) * (delta * entropy / len(source) + (1 - delta) * nll / len(target))
        count += len(target)
    return total / count


class TestLikeEveryModel(Seq2SeqModelChecks):
    @pytest.fixture
    def model(self):
        return tiny()

    @pytest.fixture
    def batch(self, model, monkeypatch):
        """The checks cut and widen batches; the salient tokens go along with the source."""

        def row(batch, index):
            alone = row_of(batch, index)
            length = alone["input_ids"].shape[1]
            return {**alone, "salient_tokens": batch["salient_tokens"][index : index + 1, :length]}

        def widen(batch, more, pad=0):
            labels = torch.nn.functional.pad(batch["salient_tokens"], (0, more))
            rest = {name: value for name, value in batch.items() if name != "salient_tokens"}
            return {**widen_batch(rest, more, pad), "salient_tokens": labels}

        monkeypatch.setattr("tests.modeling.common.row", row)
        monkeypatch.setattr("tests.modeling.common.widen", widen)
        batch = entity_batch()
        # A row alone would have fewer columns of unknown words; here all rows have the same ones.
        batch["input_ids"][:, 0] = VOCABULARY + 3
        return batch


# --- the equations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.5, 1.0])
def test_the_joint_loss_equals_the_plain_reference(delta):
    model, batch = tiny(delta).double(), entity_batch()
    expected = joint_loss(model, batch)
    assert model(**batch).loss.item() == pytest.approx(expected, abs=1e-6)
    assert model.train()(**batch).loss.item() == pytest.approx(expected, abs=1e-6)


def test_entity_attention_equals_the_plain_reference_and_is_zero_on_padding():
    model, batch = tiny().double(), entity_batch()
    with torch.no_grad():
        attention = model.model.encoder(batch["input_ids"], batch["attention_mask"]).entity_attention
    for index in range(3):
        source, _ = unpadded(batch, index)
        expected = torch.tensor(Reference(model).entities(source)).double()
        torch.testing.assert_close(attention[index, : len(source)], expected, rtol=0, atol=1e-6)
        assert (attention[index, len(source) :] == 0).all()


@pytest.mark.parametrize("gaps", ["left", "holes"])
def test_padding_on_the_left_and_holes_are_as_padding_on_the_right(gaps):
    model, batch = tiny(), entity_batch()
    assert_gaps_change_nothing(model, batch, gaps)
    moved, places = with_gaps(batch, gaps)
    with torch.no_grad():
        expected, found = (
            model.model.encoder(inputs["input_ids"], inputs["attention_mask"]).entity_attention
            for inputs in (batch, moved)
        )
    torch.testing.assert_close(found[places], expected[batch["attention_mask"].bool()])
    assert (found[~places] == 0).all()
    options = {"custom_generate": summary_beam_search, "beta": 0.5, "gamma": 2.0, "num_beams": 3}
    options |= {"max_new_tokens": 8, "min_new_tokens": 8}
    right, other = (
        model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], **options)
        for inputs in (batch, moved)
    )
    assert torch.equal(right, other)


def test_without_salient_tokens_the_loss_is_that_of_the_summary_alone():
    model, batch = tiny(), entity_batch()
    labels = batch.pop("salient_tokens")
    alone = model(**batch).loss
    assert alone.item() == pytest.approx(
        tiny(delta=0.0)(**batch, salient_tokens=labels).loss.item(), abs=1e-5
    )
    assert alone.item() != pytest.approx(model(**batch, salient_tokens=labels).loss.item(), abs=1e-4)


def test_gradients_pass_gradcheck():
    model = tiny(hidden_size=4, embedding_size=3, decoder_start_token_id=3).double().train()
    batch = entity_batch(source_lengths=(5, 4, 2), target_lengths=(3, 2, 2))
    names, parameters = zip(*model.named_parameters(), strict=True)

    def loss(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), kwargs=batch).loss

    inputs = [parameter.detach().clone().requires_grad_() for parameter in parameters]
    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)


# --- from and to ------------------------------------------------------------------------------------------


def test_a_new_entity_layer_leaves_the_pointer_generator_as_it_was():
    baseline = tiny_baseline(2)
    apeso = ApesoForConditionalGeneration.from_pointer_generator(baseline, delta=0.2).eval()
    assert apeso.config.delta == 0.2 and apeso.config.num_layers == 2
    batch = copy_batch()
    with torch.no_grad():
        torch.testing.assert_close(apeso(**batch).logits, baseline(**batch).logits)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    options = {"num_beams": 3, "max_new_tokens": 8}
    assert torch.equal(apeso.generate(**inputs, **options), baseline.generate(**inputs, **options))


def test_wrong_values_are_named():
    with pytest.raises(ValueError, match=r"delta=1\.5"):
        ApesoConfig(delta=1.5)


def test_auto_classes_know_the_model():
    config = AutoConfig.for_model("summarily-apeso", vocab_size=9, embedding_size=4, hidden_size=4)
    assert type(AutoModelForSeq2SeqLM.from_config(config)) is ApesoForConditionalGeneration


def test_loads_as_remote_code(tmp_path):
    assert_loads_as_remote_code([tiny()], copy_batch(), tmp_path)


def test_a_trainer_finds_the_labels_and_scores_its_evaluation(tmp_path):
    """transformers takes every argument of `forward` with "label" in its name for one that evaluation needs."""
    assert find_labels(ApesoForConditionalGeneration) == ["labels"]
    batch = copy_batch()
    rows = [{name: tensor[i] for name, tensor in batch.items()} for i in range(len(batch["input_ids"]))]
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to=[], disable_tqdm=True)
    trainer = Trainer(
        tiny(), arguments, eval_dataset=rows, compute_metrics=lambda p: {"rows": len(p.predictions[0])}
    )
    result = trainer.evaluate()
    assert result["eval_rows"] == len(rows)
    assert result["eval_loss"] == pytest.approx(tiny()(**batch).loss.item(), rel=1e-5)


def test_trains_under_seq2seq_trainer(tmp_path):
    """The trainer hands `salient_tokens` to the loss, and `generate` does not mind them."""
    assert_trains_under_seq2seq_trainer(tiny(delta=0.1), entity_batch(), tmp_path, steps=30)


# --- beam search ------------------------------------------------------------------------------------------


def recorded(model: ApesoForConditionalGeneration, **inputs) -> torch.Tensor:
    """The entity attention that a search gets."""
    seen = []

    def search(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        seen.append(kwargs["encoder_outputs"].entity_attention)
        return input_ids

    model.generate(**inputs, num_beams=2, max_new_tokens=3, custom_generate=search)
    return seen[0]


def test_a_search_gets_the_predicted_entities_or_the_gold_ones():
    model, batch = tiny(), entity_batch()
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        predicted = model.model.encoder(**inputs).entity_attention
    gold = batch["salient_tokens"].float()
    torch.testing.assert_close(recorded(model, **inputs), predicted)
    torch.testing.assert_close(recorded(model, **inputs, gold_entities=batch["salient_tokens"]), gold)
    # Labels that a trainer hands on are no oracle.
    torch.testing.assert_close(recorded(model, **inputs, salient_tokens=batch["salient_tokens"]), predicted)
