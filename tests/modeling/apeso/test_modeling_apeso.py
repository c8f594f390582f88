"""APESO: what all models must show, the joint loss, the entity attention and what beam search gets of it."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)
from transformers.utils import find_labels

from summarily.modeling import ApesoConfig, ApesoForConditionalGeneration
from summarily.modeling.generation.summary_beam_search import keep_settings, summary_beam_search
from summarily.modeling.remote_code import write_custom_generate, write_remote_code
from summarily.support.errors import InputError
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


STRENGTHS = {"alpha": 0.9, "beta": 0.5, "gamma": 20.0, "block_ngram": 2}
PENALTIES = {**STRENGTHS, "stepwise": ["coverage", "entities"]}
SEARCH = {"num_beams": 4, "max_new_tokens": 8}


def sharp(**options) -> ApesoForConditionalGeneration:
    """Its attention is uneven enough that every entity counts."""
    return tiny(init_range=1.5, **options)


@pytest.fixture
def penalised():
    """A model that keeps penalties, the inputs of three sources, and their summaries with and without penalties."""
    model, batch = sharp(), entity_batch()
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    plain = model.generate(**inputs, **SEARCH)
    expected = model.generate(**inputs, **SEARCH, custom_generate=summary_beam_search, **PENALTIES)
    assert not torch.equal(plain, expected)
    keep_settings(model, PENALTIES)
    return model, inputs, plain, expected


def test_a_checkpoint_keeps_its_penalties_and_plain_generate_applies_them(penalised, tmp_path):
    model, inputs, _, expected = penalised
    assert torch.equal(model.generate(**inputs, **SEARCH), expected)
    model.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(again.generate(**inputs, **SEARCH), expected)
    # What is asked for goes before what is kept, also when it is nothing, and also in a config.
    off = dict.fromkeys(STRENGTHS, 0)
    one = model.generate(**inputs, **SEARCH, gamma=0.0)
    other = {**PENALTIES, "gamma": 0.0}
    assert torch.equal(one, sharp().generate(**inputs, **SEARCH, **other))
    assert not torch.equal(one, expected)
    config = GenerationConfig(**SEARCH, gamma=0.0)
    assert torch.equal(model.generate(**inputs, generation_config=config), one)
    without = sharp().generate(**inputs, **SEARCH, length_penalty=0.0)  # as alpha = 0
    same = model.generate(**inputs, **SEARCH, **off)
    assert torch.equal(
        same.masked_fill(same == 1, 0), without.masked_fill(without == 1, 0)
    )  # the end or padding


def test_each_penalty_that_is_kept_counts(penalised):
    _, inputs, _, _ = penalised
    for name in STRENGTHS:
        model, less = sharp(), {**PENALTIES, name: 0}
        keep_settings(model, less)
        given = sharp().generate(**inputs, **SEARCH, custom_generate=summary_beam_search, **less)
        assert torch.equal(model.generate(**inputs, **SEARCH), given)


def test_sampling_is_transformers_own_and_a_length_penalty_is_refused(penalised):
    model, inputs, _, _ = penalised
    plain, drawn = sharp(), []
    for one in (model, plain):
        torch.manual_seed(0)
        drawn.append(one.generate(**inputs, do_sample=True, max_new_tokens=5))
    assert torch.equal(*drawn)
    with pytest.raises(InputError, match="alpha, which takes its place"):
        model.generate(**inputs, length_penalty=2.0)
    with pytest.raises(InputError, match="at least 0"):
        keep_settings(model, {"gamma": -1.0})
    with pytest.raises(InputError, match="'delta' is not a setting"):
        keep_settings(model, {"delta": 0.5})


def test_gold_entities_that_nothing_would_use_are_refused(penalised):
    model, inputs, _, _ = penalised
    gold = entity_batch()["salient_tokens"]
    asked = model.generate(**inputs, **SEARCH, gold_entities=gold)
    own = sharp().generate(**inputs, **SEARCH, **PENALTIES, entity_scores=gold.float())
    assert torch.equal(asked, own)
    with torch.no_grad():
        encoded = model.model.encoder(**inputs)
    refused = [
        {"gamma": 0.0},
        {"encoder_outputs": encoded},
        {"generation_config": GenerationConfig(gamma=0.0)},
    ]
    for options in refused:
        with pytest.raises(InputError, match="gold_entities would be ignored"):
            model.generate(**inputs, gold_entities=gold, **options)
    with pytest.raises(InputError, match="gold_entities would be ignored"):
        sharp().generate(**inputs, gold_entities=gold)
    with pytest.raises(InputError, match="nothing in a forward pass"):
        model(**inputs, decoder_input_ids=inputs["input_ids"][:, :2], gold_entities=gold)


def test_summarizer_pipeline_and_command_apply_what_is_kept(tmp_path, capsys):
    from transformers import pipeline

    import summarily
    from summarily.cli import main
    from summarily.modeling.training.recipe import TokenizerSection
    from summarily.modeling.training.tokenizers import train_tokenizer

    text = "the goal by the man in the old town by the sea"
    tokenizer = train_tokenizer([text], TokenizerSection(kind="copy", min_frequency=1))
    model = sharp(vocab_size=len(tokenizer))
    model.generation_config.update(**SEARCH)
    keep_settings(model, PENALTIES)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    inputs = tokenizer(text, return_tensors="pt")
    ids = {
        gamma: model.generate(**inputs, custom_generate=summary_beam_search, **{**PENALTIES, "gamma": gamma})
        for gamma in (0.0, 20.0)
    }
    written = {gamma: tokenizer.decode(rows[0], skip_special_tokens=True) for gamma, rows in ids.items()}
    assert written[0.0] != written[20.0]
    summarizer = summarily.Summarizer(str(tmp_path))
    assert summarizer(text) == written[20.0] and summarizer(text, gamma=0.0) == written[0.0]
    pipe = pipeline("summarization", model=str(tmp_path))
    assert pipe(text)[0]["summary_text"] == written[20.0]
    (tmp_path / "story.txt").write_text(text)
    for options, gamma in (([], 20.0), (["--gamma", "0"], 0.0)):
        assert main(["summarize", str(tmp_path / "story.txt"), "--model", str(tmp_path), *options]) == 0
        assert capsys.readouterr().out.strip() == written[gamma]
    assert main(["summarize", str(tmp_path / "story.txt"), "--gamma", "-1"]) == 2


def test_what_is_published_searches_by_itself_and_lends_its_search(penalised, tmp_path):
    model, inputs, _, expected = penalised
    model.save_pretrained(tmp_path)
    write_remote_code(model, tmp_path)
    write_custom_generate(tmp_path)
    published = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, trust_remote_code=True)
    assert "custom_generate" in published.generate.func.__module__
    assert torch.equal(published.generate(**inputs, **SEARCH), expected)
    gold = entity_batch()["salient_tokens"]
    theirs = published.generate(**inputs, **SEARCH, gold_entities=gold)
    assert torch.equal(theirs, model.generate(**inputs, **SEARCH, gold_entities=gold))
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    t5, ids = T5ForConditionalGeneration(config).eval(), inputs["input_ids"].clamp(max=19)
    lent = {**SEARCH, "alpha": 0.9, "block_ngram": 1}
    ours = t5.generate(ids, custom_generate=summary_beam_search, **lent)
    assert torch.equal(t5.generate(ids, custom_generate=str(tmp_path), trust_remote_code=True, **lent), ours)
    assert not torch.equal(t5.generate(ids, **SEARCH), ours)
