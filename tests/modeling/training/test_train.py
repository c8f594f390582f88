"""The loop: what it computes, and that nothing is lost however it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import summarily.modeling  # noqa: F401
from summarily.cli import main
from summarily.modeling.training import train as train_module
from summarily.modeling.training.building import build_model, build_optimizer, make_accelerator
from summarily.modeling.training.checkpoints import Checkpoints, load_state
from summarily.modeling.training.collators import SummaryCollator, pack
from summarily.modeling.training.progress import Progress, RunLog, stop_reason
from summarily.modeling.training.recipe import OptimizerSection, Recipe, TrainingSection
from summarily.modeling.training.task import Evaluation
from summarily.modeling.training.tasks.summary import SummaryTask
from summarily.modeling.training.train import backward, fit, judge, train
from summarily.support.errors import RecipeError
from summarily.support.files import is_complete, only_writer
from tests.launching import launch

from .conftest import MODELS, tiny_recipe

HERE = Path(__file__).parent


def losses(folder, value="loss"):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {line["step"]: line[value] for line in lines if value in line}


def final_state(folder):
    return load_state(Checkpoints(folder / "checkpoints").latest() / "state.pt")


def assert_same_run(first, second):
    """Bit for bit: weights, optimizer, generators, position, best weights, and every logged loss."""
    ours, theirs = final_state(first), final_state(second)
    for name, tensor in ours["model"].items():
        assert torch.equal(tensor, theirs["model"][name]), name
    for key, values in ours["optimizer"]["state"].items():
        for name, value in values.items():
            assert torch.equal(
                torch.as_tensor(value), torch.as_tensor(theirs["optimizer"]["state"][key][name])
            )
    assert torch.equal(ours["random"][0]["torch"], theirs["random"][0]["torch"])
    timeless = {"seconds"}
    for name in ours["progress"].keys() - timeless:
        assert ours["progress"][name] == theirs["progress"][name], name
    best = [
        load_state(Checkpoints(folder / "checkpoints").latest() / "best.pt") for folder in (first, second)
    ]
    assert all(torch.equal(tensor, best[1][name]) for name, tensor in best[0].items())
    assert losses(first) == losses(second)


@pytest.fixture(scope="session")
def uninterrupted(data, tmp_path_factory):
    """One whole run, which others are compared with."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, train(tiny_recipe(), folder, data=data)


def interrupting(at, action):
    """A task that does something with the loss of the n-th forward pass of the process."""

    class Interrupting(SummaryTask):
        calls = 0

        def loss(self, model, batch):
            self.calls += 1
            loss = super().loss(model, batch)
            return action(loss) if self.calls == at else loss

    return Interrupting


# --- nothing lost -----------------------------------------------------------------------------------------

KILLED = """
    import os, random, signal, sys
    sys.path.insert(0, {tests!r})
    from conftest import tiny_recipe
    from summarily.modeling.training import checkpoints
    from summarily.modeling.training.tasks.summary import SummaryTask
    from summarily.modeling.training.train import train

    where, at, calls = "", 0, 0

    def kill_at_the_nth_call():
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)

    class Killed(SummaryTask):
        def loss(self, model, batch):
            if where == "step":
                kill_at_the_nth_call()
            return super().loss(model, batch)

    real_save = checkpoints._save

    def half_saved(value, path):
        real_save(value, path)
        if where == "save":
            if calls == at - 1:
                path.write_bytes(path.read_bytes()[:1000])
            kill_at_the_nth_call()

    checkpoints._save = half_saved
    for where, at in {kills!r}:
        # A copy of a process that has imported everything and done nothing yet.
        if (child := os.fork()) == 0:
            train(tiny_recipe(), {folder!r}, data={data!r}, task=Killed)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code == -signal.SIGKILL, (where, at, code)
"""


def run_and_be_killed(kills, folder, data):
    code = textwrap.dedent(KILLED).format(kills=kills, folder=str(folder), data=str(data), tests=str(HERE))
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=1800
    )
    assert done.returncode == 0, done.stderr


def test_killed_at_three_random_steps_the_run_ends_bit_for_bit_the_same(uninterrupted, data, tmp_path):
    import random

    generator = random.Random()
    folder = tmp_path / "killed"
    # Each kill falls somewhere in the steps that are left; the second into the writing of a checkpoint.
    kills = [
        ("step", generator.randint(1, 12)),
        ("save", generator.randint(1, 2)),
        ("step", generator.randint(1, 3)),
    ]
    print("killed at", kills)  # shown if the test fails
    run_and_be_killed(kills, folder, data)
    result = train(tiny_recipe(), folder, data=data)
    assert result.step == uninterrupted[1].step
    assert result.scores == uninterrupted[1].scores
    assert_same_run(uninterrupted[0], folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends_the_run_which_then_goes_on(uninterrupted, tiny, data, tmp_path, number):
    def send(loss):
        os.kill(os.getpid(), number)
        return loss

    before = signal.getsignal(number)
    result = train(tiny(), tmp_path / "run", data=data, task=interrupting(7, send))
    assert (result.status, result.reason) == ("interrupted", number.name) and 1 <= result.step < 12
    assert signal.getsignal(number) == before
    assert final_state(tmp_path / "run")["progress"]["step"] == result.step
    assert not (tmp_path / "run" / "hub").exists()
    assert train(tiny(), tmp_path / "run", data=data).status == "finished"
    assert_same_run(uninterrupted[0], tmp_path / "run")


def test_a_loss_that_is_not_a_number_stops_before_the_step(tiny, data, tmp_path):
    recipe = tiny(batch={"micro_tokens": 128})
    with pytest.raises(
        FloatingPointError, match=r"step 5: the loss is nan .* last good checkpoint is .*step-00000003"
    ):
        train(recipe, tmp_path / "run", data=data, task=interrupting(5, lambda loss: loss * float("nan")))
    state = final_state(tmp_path / "run")
    assert state["progress"]["step"] == 3
    assert all(tensor.isfinite().all() for tensor in state["model"].values())
    assert train(recipe, tmp_path / "run", data=data).step == 12


def test_a_gradient_that_is_not_finite_stops_too(tiny, data, tmp_path):
    def explode(loss):
        # 0 * sqrt'(0): a finite loss with a gradient that is not a number
        return loss + torch.sqrt(loss * 0)

    with pytest.raises(FloatingPointError, match=r"step 2: the loss is \d.* gradient norm nan"):
        train(
            tiny(batch={"micro_tokens": 128}),
            tmp_path / "run",
            data=data,
            task=interrupting(2, explode),
        )


def test_a_full_disk_ends_the_run_and_it_goes_on_later(uninterrupted, tiny, data, tmp_path, monkeypatch):
    from summarily.modeling.training import checkpoints

    real = checkpoints._save

    def full(value, path):
        if "step-00000006" in str(path):
            raise OSError(28, "No space left on device")
        real(value, path)

    monkeypatch.setattr(checkpoints, "_save", full)
    with pytest.raises(OSError, match=r"step 6: the disk is full .* step-00000005, is intact"):
        train(tiny(), tmp_path / "run", data=data)
    monkeypatch.setattr(checkpoints, "_save", real)
    train(tiny(), tmp_path / "run", data=data)
    assert_same_run(uninterrupted[0], tmp_path / "run")


def test_a_finished_run_is_not_run_again(uninterrupted, tiny, data):
    folder, first = uninterrupted
    again = train(
        tiny(), folder, data=data, task=interrupting(1, lambda loss: pytest.fail("a step was taken"))
    )
    assert (again.scores, again.step, again.best_step) == (first.scores, first.step, first.best_step)


def test_a_finished_run_can_be_scored_in_another_way(tiny, data, tmp_path):
    recipe = tiny(training={"max_steps": 4})
    train(recipe, tmp_path / "run", data=data)
    recipe = tiny(training={"max_steps": 4}, evaluation={"max_words": 1}, generation={"num_beams": 1})
    assert train(recipe, tmp_path / "run", data=data).step == 4
    lines = (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()
    assert all(len(json.loads(line)["prediction"].split()) <= 1 for line in lines)
    assert '"num_beams": 1' in (tmp_path / "run" / "hub" / "README.md").read_text()


def test_a_run_can_be_lengthened_but_not_changed(tiny, data, tmp_path):
    train(tiny(training={"max_steps": 4}), tmp_path / "run", data=data)
    assert train(tiny(training={"max_steps": 6}), tmp_path / "run", data=data).step == 6
    other = tiny(batch={"tokens": 96})
    with pytest.raises(RecipeError, match=re.escape("batch.tokens (128 -> 96)")):
        train(other, tmp_path / "run", data=data)
    assert train(other, tmp_path / "run", data=data, resume=False).step == 12
    assert final_state(tmp_path / "run.previous-1")["progress"]["step"] == 6


def test_a_run_that_an_older_version_began_goes_on(tiny, data, tmp_path):
    """Its stored recipe lacks the sections that are new since, and its card had its limits from the recipe."""
    train(tiny(training={"max_steps": 2}), tmp_path / "run", data=data)
    path = tmp_path / "run" / "recipe.json"
    old = json.loads(path.read_text())
    del old["reading"], old["rating"]
    old["hub"]["limits"] = "Small models invent."
    path.write_text(json.dumps(old))
    assert train(tiny(training={"max_steps": 3}), tmp_path / "run", data=data).step == 3


def test_time_used_before_a_stop_counts(tiny, data, tmp_path):
    folder = tmp_path / "run"
    train(tiny(training={"max_steps": 3}), folder, data=data)
    used = final_state(folder)["progress"]["seconds"]
    assert used > 0
    minutes = used / 60
    # A little less: minutes times 60 is rounded, and may be more than the seconds.
    result = train(tiny(training={"max_minutes": 0.999 * minutes, "max_steps": 50}), folder, data=data)
    assert (result.reason, result.step) == ("max_minutes", 3)
    result = train(tiny(training={"max_minutes": minutes + 1e-5, "max_steps": 50}), folder, data=data)
    assert result.reason == "max_minutes" and result.step == 4


def test_two_runs_do_not_share_a_folder(tiny, data, tmp_path):
    with only_writer(tmp_path), pytest.raises(RuntimeError, match="another run is writing"):
        train(tiny(), tmp_path, data=data)


# --- what is computed -------------------------------------------------------------------------------------


@pytest.fixture
def parts(tiny):
    """A model, rows of different lengths, and a task with what `backward` needs."""

    class Words:
        pad_token_id, eos_token_id, bos_token_id = 0, 1, None

        def __len__(self):
            return 20

    torch.manual_seed(0)
    recipe = tiny(dropout=0.0)
    rows = [{"input_ids": [3 + i] * (2 + i), "labels": [4 + i] * (1 + i % 4) + [1]} for i in range(7)]
    return recipe, build_model(recipe, Words()), rows


class Given(SummaryTask):
    """What the engine needs of a task, without data."""

    def __init__(self, recipe, rows=(), folder=None):
        super().__init__(recipe, folder, make_accelerator(recipe.training))
        self.splits, self._collate = {"train": rows}, SummaryCollator(pad_token_id=0)


@pytest.mark.parametrize("normalize", ["tokens", "examples"])
@pytest.mark.parametrize("micro_tokens", [40, 64, 128])
def test_accumulated_gradients_are_those_of_the_whole_batch(parts, tiny, normalize, micro_tokens):
    _, model, rows = parts
    changes = {"training": {"normalize": normalize}, "batch": {"micro_tokens": micro_tokens}}
    recipe = tiny(dropout=0.0, **changes)
    task = Given(recipe)
    loss = backward(model, rows, task)
    ours = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    batch = task.collate(rows)
    logits = model(**batch).logits
    total = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch["labels"].flatten(), reduction="sum"
    )
    targets = sum(len(row["labels"]) for row in rows)
    whole = total / (targets if normalize == "tokens" else len(rows))
    whole.backward()
    assert loss == pytest.approx(whole.item(), rel=1e-5)
    for name, p in model.named_parameters():
        torch.testing.assert_close(ours[name], p.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_labels_that_are_ignored_do_not_count(parts):
    recipe, model, rows = parts
    rows = [{**row, "labels": [-100, *row["labels"]]} for row in rows]
    task = Given(recipe)
    loss = backward(model, rows, task)
    assert loss == pytest.approx(model(**task.collate(rows)).loss.item(), rel=1e-5)


def test_mixed_precision_can_change_between_runs_of_a_process(tiny, data, tmp_path):
    for precision in ("bf16", "fp32"):
        recipe = tiny(training={"precision": precision, "max_steps": 2})
        assert train(recipe, tmp_path / precision, data=data).step == 2
    assert losses(tmp_path / "bf16") == pytest.approx(losses(tmp_path / "fp32"), rel=0.05)
    assert losses(tmp_path / "bf16") != losses(tmp_path / "fp32")


def test_a_launcher_that_starts_one_process_only_is_named(monkeypatch, capsys):
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    make_accelerator(TrainingSection(max_steps=1))
    assert "starts a single process unless it uses mpirun" in capsys.readouterr().err


@pytest.mark.parametrize("model", MODELS)
def test_accumulation_by_accelerate_divides_the_batch_and_changes_nothing_else(
    model, tiny, data, tmp_path, monkeypatch
):
    recipe = tiny(model, dropout=0.0, batch={"micro_tokens": 128}, training={"max_steps": 4})
    if model != "bart":
        recipe.model.config.update(attention_dropout=0.0, activation_dropout=0.0)
    train(recipe, tmp_path / "plain", data=data)
    passes = []
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "3")
    monkeypatch.setattr(train_module, "pack", lambda *given: passes.append(given[2]) or pack(*given))
    train(recipe, tmp_path / "divided", data=data)
    assert set(passes) == {43}, "a third of 128 tokens"
    assert losses(tmp_path / "divided") == pytest.approx(losses(tmp_path / "plain"), abs=1e-4)
    norms = losses(tmp_path / "plain", "gradient_norm")  # Adam would not notice gradients of another size
    assert losses(tmp_path / "divided", "gradient_norm") == pytest.approx(norms, rel=1e-3)


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED"])
def test_what_shards_a_model_is_refused_on_a_cpu_too(monkeypatch, kind):
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    with pytest.raises(RecipeError, match=f"training by {kind} is not supported"):
        make_accelerator(TrainingSection(max_steps=1))


def test_label_smoothing_trains_any_model(tiny, data, tmp_path):
    result = train(tiny(training={"label_smoothing": 0.1, "max_steps": 3}), tmp_path / "run", data=data)
    assert result.step == 3 and result.scores["loss"] > 0


def test_label_smoothing_has_one_switch(tiny, data, tmp_path):
    """Whatever the model's own default (the attention variants': 0.1), the loss is smoothed as the recipe says."""
    name = "summarily-attention-variant"
    folders = {}
    for smoothing in (0.0, 0.1):
        recipe = tiny(name, dropout=0.0, training={"label_smoothing": smoothing, "max_steps": 1})
        recipe.model.config.update(attention_dropout=0.0, activation_dropout=0.0)
        folders[smoothing] = tmp_path / f"{smoothing}"
        train(recipe, folders[smoothing], data=data)
        assert (
            json.loads((folders[smoothing] / "hub/config.json").read_text())["label_smoothing"] == smoothing
        )
    assert losses(folders[0.0]) != losses(folders[0.1])
    twice = tiny(name)
    twice.model.config["label_smoothing"] = 0.1
    with pytest.raises(RecipeError, match=r"in a recipe, set training\.label_smoothing"):
        train(twice, tmp_path / "twice", data=data)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_learns(model, tiny, data, tmp_path):
    recipe = tiny(
        model, training={"max_steps": 80, "evaluate_every": 40, "checkpoint_every": 40}, dropout=0.0
    )
    result = train(recipe, tmp_path / "run", data=data)
    curve = losses(tmp_path / "run")
    assert curve[80] < 0.6 * curve[1] and result.scores["loss"] < 0.6 * curve[1]


def test_the_best_weights_are_those_of_the_best_evaluation(parts, tmp_path):
    recipe, model, rows = parts
    seen = []

    class Judged(Given):
        def evaluate(self, model, split):
            seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
            return Evaluation({"loss": [3.0, 1.0, 2.0][len(seen) - 1]})

    result = fit(Judged(recipe, rows, tmp_path), model)
    assert (result.best_step, result.best_score, len(seen)) == (10, 1.0, 3)  # steps 5, 10 and 12
    assert all(torch.equal(tensor, seen[1][name]) for name, tensor in model.state_dict().items())
    assert not torch.equal(
        seen[1]["final_logits_bias" if False else "lm_head.weight"], seen[2]["lm_head.weight"]
    )


@pytest.mark.parametrize(("select", "scores", "best"), [("loss", [3, 1, 2], 1), ("rougeL", [3, 4, 2], 4)])
def test_loss_is_to_fall_and_scores_are_to_rise(tiny, tmp_path, select, scores, best):
    recipe = tiny(evaluation={"select": select}, schedule={"kind": "plateau"}, training={"patience": 1})
    progress, model = Progress(), torch.nn.Linear(1, 1)
    with RunLog(tmp_path, progress, recipe.training, active=True) as log:
        kept = [judge({select: float(score)}, progress, recipe, model, log) is not None for score in scores]
        assert kept == [True, True, False] and progress.best_score == best
        assert progress.rate_factor == 0.5 and progress.stale == 1
        assert stop_reason(progress, recipe.training) == ""
        judge({select: float(scores[2])}, progress, recipe, model, log)
        assert stop_reason(progress, recipe.training) == "patience" and progress.rate_factor == 0.25
        with pytest.raises(RecipeError, match="the evaluation has other"):
            judge({"other": 1.0}, progress, recipe, model, log)


def test_a_checkpoint_can_be_chosen_by_a_score_of_generated_summaries(tiny, data, tmp_path):
    evaluation = {"select": "rouge1_recall", "validation_examples": 4, "max_words": 3}
    result = train(tiny(evaluation=evaluation), tmp_path / "run", data=data)
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    seen = {line["step"]: line["validation_rouge1_recall"] for line in lines if "validation_loss" in line}
    assert list(seen) == [5, 10, 12] and result.best_score == max(seen.values()) == seen[result.best_step]


def test_where_less_is_better_the_checkpoint_with_the_least_is_kept(tiny, data, tmp_path, monkeypatch):
    summaries = iter([["xylophone"] * 4, None, ["xylophone"] * 4])  # only the second evaluation's are right
    monkeypatch.setattr(
        "summarily.modeling.training.tasks.summary.summarize",
        lambda model, tokenizer, rows, *rest: next(summaries, None) or [row[0] for row in rows["references"]],
    )
    evaluation = {"select": "vert_distance", "metrics": ["vert"], "validation_examples": 4}
    result = train(tiny(evaluation=evaluation), tmp_path / "run", data=data)
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    seen = {line["step"]: line["validation_vert_distance"] for line in lines if "validation_loss" in line}
    assert seen[10] < seen[5] == seen[12]
    assert result.best_step == 10 and result.best_score == seen[10]
    assert "| vert_distance (lower is better) | 0.0000 |" in (tmp_path / "run/hub/README.md").read_text()


def test_a_stream_trains_as_a_file_does(tiny, data, tmp_path):
    recipe = tiny(data={"streaming": True}, training={"max_epochs": 2, "max_steps": 100})
    result = train(recipe, tmp_path / "run", data=data)
    assert (result.epoch, result.reason) == (2, "max_epochs")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        ("adagrad", torch.optim.Adagrad),
        ("sgd", torch.optim.SGD),
    ],
)
def test_optimizers_decay_matrices_only(kind, expected):
    model = torch.nn.Linear(2, 2)
    optimizer = build_optimizer(model, OptimizerSection(kind=kind, weight_decay=0.1))
    assert type(optimizer) is expected
    assert [(g["weight_decay"], g["params"][0].ndim) for g in optimizer.param_groups] == [(0.1, 2), (0.0, 1)]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"model": {"config": {"d_modell": 3}}},
            "model.config.d_modell is not a field of BartConfig; did you mean model.config.d_model?",
        ),
        (
            {"generation": {"num_beam": 3}},
            "generation.num_beam is not a generation parameter; did you mean generation.num_beams?",
        ),
    ],
)
def test_mistakes_in_the_models_values_are_named(tiny, data, tmp_path, sections, message):
    values = tiny().to_dict()
    for section, changes in sections.items():
        values[section] |= changes
    recipe = Recipe.from_dict(values)
    with pytest.raises(RecipeError, match=re.escape(message)):
        train(recipe, tmp_path / "run", data=data)


# --- what is written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_the_hub_folder_is_ready_to_publish(model, tiny, data, tmp_path):
    recipe = tiny(
        model, hub={"dtype": "float16", "name": "me/tiny", "note": "Only a test."}, training={"max_steps": 2}
    )
    result = train(recipe, tmp_path / "run", data=data)
    hub = tmp_path / "run" / "hub"
    tokenizer = AutoTokenizer.from_pretrained(hub)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(hub)
    # Stored in half precision, and loaded in float32: float16 overflows when somebody trains further.
    stored = {tensor.dtype for tensor in load_file(hub / "model.safetensors").values()}
    assert stored == {torch.float16} and loaded.dtype == torch.float32
    assert loaded.generation_config.num_beams == 2
    # A length, which what a user asks for replaces; a limit on new tokens would stand above it.
    assert (loaded.generation_config.max_length, loaded.generation_config.max_new_tokens) == (7, None)
    inputs = tokenizer("Oil rises in trade", return_tensors="pt")
    assert loaded.float().generate(**inputs).shape[0] == 1
    best = load_state(Checkpoints(tmp_path / "run" / "checkpoints").latest() / "best.pt")
    for name, tensor in loaded.state_dict().items():
        torch.testing.assert_close(tensor, best[name].half().float())
    text = (hub / "README.md").read_text()
    meta = yaml.safe_load(text.split("---")[1])
    assert meta["library_name"] == "transformers" and meta["model-index"][0]["name"] == "me/tiny"
    assert f"| rouge1 | {result.scores['rouge1']:.4f} |" in text and result.signatures["rouge"] in text
    assert f"{result.parameters:,} parameters" in text and "train: 48 rows" in text and "Only a test." in text
    assert "learning_rate 0.01" in text and "commit `" in text
    assert str(data) not in text and str(tmp_path) not in text
    predictions = [
        json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()
    ]
    assert len(predictions) == 8 and set(predictions[0]) == {"id", "prediction", "references"}


def test_tensorboard_is_written_if_it_is_installed(tiny, data, tmp_path):
    pytest.importorskip("tensorboard")
    train(tiny(training={"tensorboard": True, "max_steps": 2}), tmp_path / "run", data=data)
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


def test_tokens_a_second_are_those_of_training(tmp_path, capsys, monkeypatch):
    """From the first step of a run, a resumed one too, and without the time of evaluations."""
    monkeypatch.setattr("summarily.modeling.training.progress.SECONDS_BETWEEN_LINES", 0.0)
    progress = Progress(step=7, seconds=100.0, tokens=1000, loss_sum=1.0, loss_steps=1)
    section = TrainingSection(max_steps=19, log_every=2, tensorboard=False)
    with RunLog(tmp_path, progress, section, active=True) as log:
        for seconds, tokens in ((102.0, 1010), (104.0, 1030), (105.0, 1080)):
            progress.step, progress.seconds, progress.tokens = progress.step + 1, seconds, tokens
            progress.loss_sum, progress.loss_steps = 1.0, 1
            log.step(progress, 0.1, 1.0)
        log.evaluation(progress, {"loss": 1.0})
        progress.seconds = 165.0
        log.goes_on(progress)
        progress.step, progress.seconds, progress.tokens = 11, 170.0, 1180
        progress.loss_steps = 1
        log.step(progress, 0.1, 1.0)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step ")]
    # 10 tokens in 2 s; after the log's line of step 8 20 in 2 s, then 70 in 3 s; after the evaluation 100 in 5 s.
    assert [int(re.search(r"(\d+) tokens/s", line)[1]) for line in lines] == [5, 10, 23, 20]
    # What is over took 170 s for 11 of 19 steps.
    assert lines[-1].endswith("02:03 left")
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["tokens_per_second"] for line in logged if "tokens_per_second" in line] == [5, 23]


def test_the_log_survives_a_cut_line(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n{"step": 3, "lo')
    with RunLog(tmp_path, Progress(step=1), TrainingSection(max_steps=9, tensorboard=False), active=True):
        pass
    assert losses(tmp_path) == {1: 2.0}


# --- the command ------------------------------------------------------------------------------------------


def toml(recipe):
    lines = []
    for section, values in recipe.to_dict().items():
        lines += [
            f"[{section}]",
            *(f"{key} = {json_toml(value)}" for key, value in values.items() if value is not None),
        ]
    return "\n".join(lines)


def json_toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def test_the_command_trains_resumes_and_names_mistakes(tiny, data, tmp_path, capsys, monkeypatch):
    path = tmp_path / "tiny.toml"
    path.write_text(toml(tiny()))
    monkeypatch.chdir(tmp_path)
    command = ["train", str(path), "--data", str(data)]
    assert main([*command, "--set", "training.max_steps=3"]) == 0
    assert "Finished (max_steps) at step 3" in capsys.readouterr().out
    assert (tmp_path / "runs" / "tiny" / "hub" / "README.md").exists()
    assert main([*command, "--set", "training.max_step=3"]) == 2
    assert "did you mean training.max_steps?" in capsys.readouterr().err
    assert main([*command, "--set", "batch.tokens=64"]) == 2
    assert "holds a run of another recipe" in capsys.readouterr().err
    assert main([*command, "--no-resume", "--set", "training.max_steps=1"]) == 0
    assert (tmp_path / "runs" / "tiny.previous-1").exists()
    assert is_complete(tmp_path / "runs" / "tiny" / "checkpoints" / "step-00000001")


def test_the_command_ends_with_the_signals_code(tiny, data, tmp_path, monkeypatch, capsys):
    path = tmp_path / "tiny.toml"
    path.write_text(toml(tiny()))

    def stopping(model, rows, task):
        os.kill(os.getpid(), signal.SIGTERM)
        return backward(model, rows, task)

    monkeypatch.setattr(train_module, "backward", stopping)
    assert (
        main(["train", str(path), "--data", str(data), "--output", str(tmp_path / "run")])
        == 128 + signal.SIGTERM
    )
    assert "Stopped by SIGTERM at step 1; the same command goes on" in capsys.readouterr().out


@pytest.fixture(scope="module")
def two_processes(data, tmp_path_factory):
    """A recipe for every model, and the folder in which two processes have run it."""
    runs, commands = {}, []
    for model in MODELS:
        folder = tmp_path_factory.mktemp("two")
        # A pool of 3 leaves batches of a single row, of which one process has none.
        recipe = tiny_recipe(
            model, dropout=0.0, batch={"pool": 3}, training={"max_steps": 20}, evaluation={"select": "rougeL"}
        )
        if model != "bart":
            recipe.model.config.update(attention_dropout=0.0, activation_dropout=0.0)
        (folder / "tiny.toml").write_text(toml(recipe))
        commands.append(
            ["train", str(folder / "tiny.toml"), "--data", str(data), "--output", str(folder / "two")]
        )
        runs[model] = recipe, folder / "two"
    launch(*commands)
    return runs


@pytest.mark.parametrize("model", MODELS)
def test_two_processes_have_the_loss_curve_of_one(model, two_processes, data, tmp_path):
    recipe, together = two_processes[model]
    alone = train(recipe, tmp_path / "one", data=data)
    state = final_state(together)
    assert len(state["random"]) == 2  # both processes took part
    one, two = losses(tmp_path / "one"), losses(together)
    assert one.keys() == two.keys() and len(one) == 20
    for step, loss in one.items():
        assert two[step] == pytest.approx(loss, abs=1e-5), step
    result = json.loads((together / "result.json").read_text())
    assert result["scores"]["loss"] == pytest.approx(alone.scores["loss"], abs=1e-5)
    assert result["scores"]["rouge1"] == pytest.approx(alone.scores["rouge1"], abs=1e-5)


@pytest.mark.slow
def test_two_machines_have_the_loss_curve_of_one(tiny, data, tmp_path):
    """Two launchers with working folders of their own, each with the stock config of its machine."""
    recipe = tiny(dropout=0.0, training={"max_steps": 6})
    path = tmp_path / "tiny.toml"
    path.write_text(toml(recipe))
    train(recipe, tmp_path / "one", data=data)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    machines = []
    for rank in range(2):
        folder = tmp_path / f"machine-{rank}"
        folder.mkdir()
        config = {
            "compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "num_machines": 2, "num_processes": 2,
            "machine_rank": rank, "main_process_ip": "127.0.0.1", "main_process_port": port, "mixed_precision": "no",
            "rdzv_backend": "static", "same_network": True, "main_training_function": "main",
            "gradient_accumulation_steps": 2,
        }  # fmt: skip
        (folder / "accelerate.yaml").write_text(yaml.safe_dump(config))
        command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", "accelerate.yaml",
                   "-m", "summarily", "train", str(path), "--data", str(data), "--output", str(tmp_path / "two")]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        machines.append(
            subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        )
    for machine in machines:
        _, told = machine.communicate(timeout=900)
        assert machine.returncode == 0, told
    assert len(final_state(tmp_path / "two")["random"]) == 2  # both took part
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)


@pytest.mark.parametrize("encoder", ["own", "led", "red"])
def test_an_adapter_is_all_that_a_run_with_a_frozen_model_learns_keeps_and_ships(
    tmp_path, data, tiny, encoder
):
    """Checkpoints and the folder for the Hub hold the difference alone; merged, it is the model the run ended with."""
    from transformers import T5Config, T5ForConditionalGeneration

    import summarily
    from summarily.support.shipped import merged

    first = train(tiny(training={"max_steps": 1}), tmp_path / "words", data)
    assert first.status == "finished"
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "words" / "hub")
    base = tmp_path / "base"
    torch.manual_seed(1)
    T5ForConditionalGeneration(
        T5Config(
            vocab_size=len(tokenizer), d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2,
            pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, decoder_start_token_id=tokenizer.pad_token_id,
        )
    ).save_pretrained(base)  # fmt: skip
    tokenizer.save_pretrained(base)
    settings = tiny(training={"max_steps": 4}).to_dict()
    fields = {"own": {}, "led": {"attention_window": 4}, "red": {}}[encoder]
    model = {"name": str(base), "encoder": encoder, "config": fields}
    settings |= {"model": model, "tokenizer": {}, "adapter": {"rank": 2}}
    settings["schedule"] |= {"kind": "constant", "learning_rate": 0.05, "warmup_steps": 0}
    settings["data"]["prefix"] = "summarize: "
    settings["evaluation"]["test_examples"] = 0
    recipe = Recipe.from_dict(settings)
    result = train(recipe, tmp_path / "run", data)
    [*_, newest] = sorted((tmp_path / "run" / "checkpoints").iterdir())
    learned = load_state(newest / "best.pt")
    assert learned and all("lora_" in name for name in learned)
    assert any(value.abs().max() > 0 for name, value in learned.items() if "lora_B" in name)
    hub = tmp_path / "run" / "hub"
    assert not (hub / "model.safetensors").exists() and (hub / "adapter_model.safetensors").exists()
    assert str(tmp_path) not in (hub / "config.json").read_text()
    assert "Not scored by this run." in (hub / "README.md").read_text() and result.scores == {}

    whole = AutoModelForSeq2SeqLM.from_pretrained(merged(hub))
    assert whole.config.task_specific_params == {"summarization": {"prefix": "summarize: "}}
    before = AutoModelForSeq2SeqLM.from_pretrained(base)
    name = "encoder.block.0.layer.0.SelfAttention.q"
    up, down = (learned[f"{name}.lora_{part}.default.weight"] for part in "BA")
    assert whole.config.model_type == {"own": "t5"}.get(encoder, f"summarily-{encoder}-t5")
    if encoder == "led":
        assert whole.config.windows == [2]
    torch.testing.assert_close(whole.lm_head.weight, before.lm_head.weight)
    if encoder != "red":  # whose attention has a query that is its key
        expected = before.get_submodule(name).weight + up @ down
        torch.testing.assert_close(whole.get_submodule(name).weight, expected, rtol=1e-5, atol=1e-6)
    summarizer = summarily.Summarizer(str(hub))
    assert type(summarizer.model) is type(whole)
    assert isinstance(summarizer("the cat sat on the mat " * 20, max_length=3), str)


def test_a_run_into_a_log_says_how_far_it_is(tmp_path, data, tiny, capsys, monkeypatch):
    from summarily.modeling.training import progress

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    train(tiny(training={"max_steps": 3}, evaluation={"test_examples": 0}), tmp_path / "run", data)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step ")]
    assert len(lines) == 3
    assert re.fullmatch(r"step 3 of 3: loss \d+\.\d{3}, [\d,]+ tokens/s, 00:00 left", lines[-1])
