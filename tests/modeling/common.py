"""What every sequence-to-sequence model of the project must show, whatever it computes.

A model's test file subclasses `Seq2SeqModelChecks`, gives it a `model` fixture (a tiny model in evaluation mode), and
inherits the tests. The functions serve tests that need only one of the claims.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

from summarily.modeling.remote_code import write_remote_code

Batch = dict[str, torch.Tensor]


def padded_batch(
    vocabulary: int,
    source_lengths: tuple[int, ...] = (19, 7, 2),
    target_lengths: tuple[int, ...] = (11, 4, 6),
    pad: int = 0,
    first_token: int = 3,
    seed: int = 0,
) -> Batch:
    """Random tokens, padded on the right; labels are padded with -100."""
    generator = torch.Generator().manual_seed(seed)

    def tokens(lengths: tuple[int, ...], fill: int) -> tuple[torch.Tensor, torch.Tensor]:
        real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ids = torch.randint(first_token, vocabulary, real.shape, generator=generator)
        return ids.masked_fill(~real, fill), real.long()

    input_ids, attention_mask = tokens(source_lengths, pad)
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "labels": tokens(target_lengths, -100)[0],
    }


def row(batch: Batch, index: int) -> Batch:
    """One example of a batch, without its padding."""
    source = int(batch["attention_mask"][index].sum())
    target = int((batch["labels"][index] != -100).sum())
    return {
        "input_ids": batch["input_ids"][index : index + 1, :source],
        "attention_mask": batch["attention_mask"][index : index + 1, :source],
        "labels": batch["labels"][index : index + 1, :target],
    }


def widen(batch: Batch, more: int, pad: int = 0) -> Batch:
    """The same examples behind `more` columns of padding."""
    fills = {"input_ids": pad, "attention_mask": 0, "labels": -100}
    return {
        name: torch.nn.functional.pad(tensor, (0, more), value=fills[name]) for name, tensor in batch.items()
    }


def logits_of(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        return model(**batch).logits


def gradients_of(model: PreTrainedModel, batch: Batch, **options) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(**batch, **options).loss.backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def assert_same_gradients(
    one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float = 1e-6
):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=tolerance, msg=name)


def without_dropout(model: PreTrainedModel) -> PreTrainedModel:
    """A copy in training mode that computes what it would in evaluation mode."""
    model = copy.deepcopy(model).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model


# Runs where the package cannot be imported: loads every folder named on the command line and writes its logits.
_STRANGER = """
import sys
class NoPackage:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "summarily":
            raise ModuleNotFoundError("No module named 'summarily'")
sys.meta_path.insert(0, NoPackage())
try:
    import summarily
    raise SystemExit("summarily can be imported here: the test proves nothing")
except ModuleNotFoundError:
    pass
import torch, transformers
from safetensors.torch import load_file, save_file
for folder in sys.argv[2:]:
    model = getattr(transformers, sys.argv[1]).from_pretrained(folder, trust_remote_code=True).eval()
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    inputs = load_file(folder + "/inputs.safetensors")
    with torch.no_grad():
        logits = model(**inputs).logits
    save_file({"logits": logits.contiguous()}, folder + "/logits.safetensors")
"""


def assert_loads_as_remote_code(
    models: list[PreTrainedModel], batch: Batch, folder: Path, auto_class: str = "AutoModelForSeq2SeqLM"
) -> None:
    """Each saved model, loaded with `trust_remote_code` by a process that has no summarily, gives equal logits."""
    folders = []
    for index, model in enumerate(models):
        folders.append(folder / f"model-{index}")
        model.save_pretrained(folders[-1])
        write_remote_code(model, folders[-1])
        save_file(
            {name: tensor.contiguous() for name, tensor in batch.items()}, folders[-1] / "inputs.safetensors"
        )
    environment = {**os.environ, "HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-I", "-c", _STRANGER, auto_class, *map(str, folders)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    for model, place in zip(models, folders, strict=True):
        remote = load_file(place / "logits.safetensors")["logits"]
        torch.testing.assert_close(remote, logits_of(model, batch))


def assert_trains_under_seq2seq_trainer(
    model: PreTrainedModel, batch: Batch, folder: Path, steps: int = 12
) -> None:
    """The loss of a few memorised examples falls, with gradient accumulation, and `generate` runs in evaluation."""
    model = copy.deepcopy(model)
    examples = [{name: tensor[i] for name, tensor in batch.items()} for i in range(len(batch["input_ids"]))]
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=len(examples),
        gradient_accumulation_steps=2,
        learning_rate=5e-3,
        lr_scheduler_type="constant",
        predict_with_generate=True,
        generation_num_beams=2,
        generation_max_length=8,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    trainer = Seq2SeqTrainer(model=model, args=arguments, train_dataset=examples * 4, eval_dataset=examples)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == steps and losses[-1] < 0.9 * losses[0], losses
    assert trainer.evaluate()["eval_loss"] < 0.9 * before
    assert trainer.predict(examples).predictions.shape[0] == len(examples)


class Seq2SeqModelChecks:
    """Inherit from this beside a `model` fixture; override what a model needs otherwise."""

    auto_class = AutoModelForSeq2SeqLM

    @pytest.fixture
    def batch(self, model: PreTrainedModel) -> Batch:
        return padded_batch(model.config.vocab_size, pad=model.config.pad_token_id)

    def generate(self, model: PreTrainedModel, batch: Batch, **options) -> torch.Tensor:
        """Long enough to cross several blocks; the end of the summary is left to chance."""
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        defaults = {"max_new_tokens": 16, "min_new_tokens": 12, "do_sample": False}
        return model.generate(**inputs, **{**defaults, **options})

    @pytest.mark.parametrize("beams", [1, 3])
    def test_cached_and_uncached_decoding_give_the_same_tokens(self, model, batch, beams):
        cached = self.generate(model, batch, num_beams=beams, use_cache=True)
        uncached = self.generate(model, batch, num_beams=beams, use_cache=False)
        assert torch.equal(cached, uncached)

    def test_saving_and_reloading_keeps_the_logits(self, model, batch, tmp_path):
        model.save_pretrained(tmp_path)
        reloaded = self.auto_class.from_pretrained(tmp_path).eval()
        assert type(reloaded) is type(model)
        torch.testing.assert_close(logits_of(reloaded, batch), logits_of(model, batch))
        assert reloaded.generation_config.to_dict() == model.generation_config.to_dict()

    def test_a_batch_of_one_equals_a_batch_of_many(self, model, batch):
        together = logits_of(model, batch)
        for index in range(len(batch["input_ids"])):
            alone = logits_of(model, row(batch, index))
            torch.testing.assert_close(together[index : index + 1, : alone.shape[1]], alone)

    def test_more_padding_changes_nothing(self, model, batch):
        length = batch["labels"].shape[1]
        wide = logits_of(model, widen(batch, 9, model.config.pad_token_id))[:, :length]
        real = batch["labels"] != -100
        torch.testing.assert_close(wide[real], logits_of(model, batch)[real])

    def test_gradients_are_finite_and_reach_every_parameter(self, model, batch):
        gradients = gradients_of(copy.deepcopy(model).train(), batch)
        assert gradients.keys() == dict(model.named_parameters()).keys()
        assert all(torch.isfinite(gradient).all() for gradient in gradients.values())

    def test_gradient_checkpointing_keeps_the_gradients(self, model, batch):
        model = without_dropout(model)
        plain = gradients_of(model, batch)
        model.gradient_checkpointing_enable()
        assert model.is_gradient_checkpointing
        assert_same_gradients(plain, gradients_of(model, batch))

    def test_accumulated_gradients_are_those_of_the_whole_batch(self, model, batch):
        """Each part is divided by the number of labels of all parts."""
        model = without_dropout(model)
        whole = gradients_of(model, batch)
        count = (batch["labels"] != -100).sum()
        model.zero_grad()
        for index in range(len(batch["input_ids"])):
            model(**row(batch, index), num_items_in_batch=count).loss.backward()
        parts = {name: parameter.grad for name, parameter in model.named_parameters()}
        assert_same_gradients(whole, parts)

    def test_survives_pickle_and_deepcopy(self, model, batch):
        expected = logits_of(model, batch)
        torch.testing.assert_close(logits_of(copy.deepcopy(model), batch), expected)
        torch.testing.assert_close(logits_of(pickle.load(io.BytesIO(pickle.dumps(model))), batch), expected)

    def test_half_precision_is_finite(self, model, batch):
        assert torch.isfinite(logits_of(copy.deepcopy(model).to(torch.bfloat16), batch)).all()

    def test_mixed_precision_training_is_finite(self, model, batch):
        model = copy.deepcopy(model).train()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        assert torch.isfinite(loss)
        assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
