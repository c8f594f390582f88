"""One training loop for every task: `train(recipe, output_dir)`.

Nothing is lost: the state of a run is checkpointed atomically, and the same call goes on where the last complete
checkpoint was written; on a CPU the final weights are bit for bit those of a run that was never stopped.

    >>> from summarily.modeling.training.recipe import load_recipe
    >>> recipe = load_recipe("attention_variants_reuters", ["training.max_minutes=10"])
    >>> result = train(recipe, "runs/reuters", data="path/to/data")  # doctest: +SKIP
    >>> result.scores["rouge1"]  # doctest: +SKIP

The output folder holds `checkpoints/`, `log.jsonl` (one line for each logged step and evaluation), `tensorboard/`,
`tokenizer/`, `recipe.json`, `predictions.jsonl` and `result.json` of the test split, and `hub/`, ready to publish.

Of a stock Accelerate config, kinds of processes and machines and `gradient_accumulation_steps` hold: the batch of a
step is the recipe's, whatever the number of processes and passes. On several machines the same command is started on
each, from any folder, with the same recipe and data and an output folder that all see (CPUs too, by gloo):

    accelerate launch --multi_gpu --num_machines 2 --num_processes 2 --machine_rank 0 --main_process_ip ADDRESS \\
        --main_process_port 29500 -m summarily train news --output /shared/runs/news

Limits: data parallelism only (no FSDP, DeepSpeed or tensor parallelism), and every process reads the whole of
a stream.
"""

from __future__ import annotations

import json
import math
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, send_to_device, set_seed

from summarily.modeling.training.building import build_optimizer, make_accelerator, model_width
from summarily.modeling.training.checkpoints import (
    Checkpoints,
    load_state,
    random_state,
    set_random_state,
    untouched_random_state,
)
from summarily.modeling.training.collators import (
    IGNORED_LABEL,
    Position,
    TokenBatches,
    pack,
    row_lengths,
    share_of,
)
from summarily.modeling.training.objective import learning_rate
from summarily.modeling.training.progress import Clock, Progress, RunLog, RunResult, budget_used, stop_reason
from summarily.modeling.training.recipe import LOSS, Recipe, TrainingSection, flat
from summarily.modeling.training.task import Task
from summarily.modeling.training.tasks import task_of
from summarily.support.errors import DivergedError, RecipeError
from summarily.support.files import only_writer, remove_partial, write_atomically, write_folder
from summarily.support.inputs import read_json
from summarily.support.keys import Key, keyed
from summarily.support.progress import say

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# --- the run ----------------------------------------------------------------------------------------------


def train(
    recipe: Recipe,
    output_dir: str | Path,
    data: str | Path | None = None,
    resume: bool = True,
    task: type[Task] | None = None,
) -> RunResult:
    """Train what the recipe describes, evaluate it on the test split, and write a folder for the Hub.

    Args:
        recipe: from `load_recipe`.
        output_dir: everything the run writes; given again, the run goes on.
        data: the folder of local files; by default the environment variable `SUMMARILY_DATA`.
        resume: go on with the run in `output_dir`. Otherwise that folder is moved aside first.
        task: a kind of training of your own, in place of the one that the recipe names.
    """
    accelerator = make_accelerator(recipe.training)
    folder = Path(output_dir)
    with run_folder(folder, recipe, resume, accelerator):
        say("reading and preparing the data")
        run = (task or task_of(recipe))(recipe, folder, accelerator, data)
        say("building the model")
        model = run.load()
        say(
            f"training, up to {_budget(recipe.training)}; how far it is stands in {folder / 'log.jsonl'}, too"
        )
        with run.running():
            result = fit(run, model)
        if result.status == "finished":
            say("evaluating on the test split, and writing the folder for the Hub")
            finish(run, model, result)
    return result


def _budget(training: TrainingSection) -> str:
    """
    Example:
        >>> _budget(TrainingSection(max_steps=100, max_epochs=None, max_minutes=5.0))
        '100 steps, 5 minutes'
    """
    budget = {"steps": training.max_steps, "epochs": training.max_epochs, "minutes": training.max_minutes}
    return ", ".join(f"{value:g} {unit}" for unit, value in budget.items() if value is not None)


def fit(task: Task, model: PreTrainedModel) -> RunResult:
    """The loop: from the latest checkpoint in the task's folder to the end of the recipe's budget.

    It leaves the best weights in `model`.
    """
    recipe, accelerator = task.recipe, task.accelerator
    training = recipe.training
    width = model_width(model, recipe.schedule)
    # Every process drops out on its own; process 0 as a single one would.
    set_seed(training.seed, device_specific=True)
    wrapped, optimizer = accelerator.prepare(model, build_optimizer(model, recipe.optimizer))
    checkpoints = Checkpoints(task.folder / "checkpoints", training.keep_checkpoints)
    progress = restore(checkpoints, model, optimizer, accelerator)
    batches = TokenBatches(
        task.rows(), recipe.batch.tokens, recipe.batch.max_examples, recipe.batch.pool, training.seed
    ).start(progress.position)
    log = RunLog(task.folder, progress, training, accelerator.is_main_process)
    clock = Clock(progress.seconds)
    checkpoint_due = progress.seconds + training.checkpoint_minutes * 60
    interrupted = 0
    with catch_signals() as signals, log:
        while not (reason := stop_reason(progress, training)):
            batch = next(batches)
            step = progress.step + 1
            rate = learning_rate(
                recipe.schedule, step, budget_used(progress, training), progress.rate_factor, width
            )
            for group in optimizer.param_groups:
                group["lr"] = rate
            task.begin_step(step)
            local_loss = backward(wrapped, batch.rows, task)
            loss, interrupted, seconds = agree(local_loss, signals, clock, accelerator)
            norm = gradient_norm(wrapped, recipe.optimizer.max_gradient_norm, accelerator)
            if not math.isfinite(loss) or not (math.isfinite(norm) or accelerator.scaler):
                raise diverged(step, loss, norm, rate, checkpoints)
            optimizer.step()
            optimizer.zero_grad()
            reported = task.end_step()

            progress.step, progress.position, progress.seconds = step, batch.next, seconds
            progress.tokens += sum(len(row["input_ids"]) + len(row["labels"]) for row in batch.rows)
            progress.loss_sum, progress.loss_steps = progress.loss_sum + loss, progress.loss_steps + 1
            log.step(progress, rate, norm, reported)
            evaluated, best = step % training.evaluate_every == 0, None
            if evaluated:
                best = judge(validate(task, model), progress, recipe, model, log)
                progress.seconds = shared_seconds(clock, accelerator)
                log.goes_on(progress)
            if evaluated or interrupted or step % training.checkpoint_every == 0 or seconds > checkpoint_due:
                save(checkpoints, progress, model, optimizer, best, accelerator)
                checkpoint_due = progress.seconds + training.checkpoint_minutes * 60
            if interrupted:
                reason = signal.Signals(interrupted).name
                break
        if not interrupted and progress.evaluated_step != progress.step:
            best = judge(validate(task, model), progress, recipe, model, log)
            save(checkpoints, progress, model, optimizer, best, accelerator)
    if not interrupted:
        newest = checkpoints.latest()
        assert newest is not None, "a finished run has a checkpoint"
        load_learned(model, load_state(newest / "best.pt"))
    return RunResult(
        status="interrupted" if interrupted else "finished",
        reason=reason,
        step=progress.step,
        epoch=progress.position.epoch,
        minutes=progress.seconds / 60,
        best_score=progress.best_score,
        best_step=progress.best_step,
        parameters=sum(p.numel() for p in model.parameters()),
    )


def validate(task: Task, model: PreTrainedModel) -> dict[str, float]:
    """The scores of the validation split; the random numbers of training do not move."""
    with untouched_random_state():
        return task.evaluate(model, "validation").scores


def backward(model: torch.nn.Module, rows: Sequence[Mapping[str, Any]], task: Task) -> float:
    """Gradients of the loss of the global batch, whatever its division into processes and forward passes.

    The loss is the sum of the token losses of all processes over the number of all their targets (or
    examples). Returns this process' part of it.
    """
    recipe, accelerator = task.recipe, task.accelerator
    by_tokens = recipe.training.normalize == "tokens"
    normalizer = sum(map(count_targets, rows)) if by_tokens else len(rows)
    mine, counts = share_of(rows, accelerator.process_index, accelerator.num_processes)
    passes = accelerator.gradient_accumulation_steps
    # Gradients are averaged over processes, and by Accelerate over passes, but parts of a sum are to be added.
    scale = accelerator.num_processes * passes / normalizer * counts
    forwards = pack(row_lengths(mine), range(len(mine)), tokens_of_a_pass(recipe, accelerator))
    model.train()
    total = 0.0
    for i, forward in enumerate(forwards):
        batch = send_to_device(task.collate([mine[row] for row in forward]), accelerator.device)
        last = i == len(forwards) - 1
        with nullcontext() if last else accelerator.no_sync(model):  # exchange gradients once
            with accelerator.autocast():
                loss = task.loss(model, batch)
            accelerator.backward(loss * scale)
        total += loss.item() / normalizer * counts
    return total


def tokens_of_a_pass(recipe: Recipe, accelerator: Accelerator) -> int:
    """What the recipe says, or less: Accelerate's `gradient_accumulation_steps` divides the batch of a step into at
    least so many passes, and leaves the batch what it is."""
    passes = accelerator.gradient_accumulation_steps
    share = math.ceil(recipe.batch.tokens / (passes * accelerator.num_processes))
    return min(recipe.micro_tokens, share) if passes > 1 else recipe.micro_tokens


def count_targets(row: Mapping[str, Any]) -> int:
    return sum(label != IGNORED_LABEL for label in row["labels"])


def agree(
    loss: float, signals: list[int], clock: Clock, accelerator: Accelerator
) -> tuple[float, int, float]:
    """What all processes must see alike: the loss of the step, a signal to stop, the time used."""
    if accelerator.num_processes == 1:
        return loss, max(signals, default=0), clock.seconds()
    main = accelerator.is_main_process
    values = [loss, float(max(signals, default=0)), clock.seconds() if main else 0.0]
    everyone = accelerator.gather(torch.tensor([values], device=accelerator.device))
    return everyone[:, 0].sum().item(), int(everyone[:, 1].max()), everyone[0, 2].item()


def shared_seconds(clock: Clock, accelerator: Accelerator) -> float:
    return agree(0.0, [], clock, accelerator)[2]


def gradient_norm(model: torch.nn.Module, limit: float | None, accelerator: Accelerator) -> float:
    """The norm of the gradients, which are clipped to `limit` if there is one."""
    return float(accelerator.clip_grad_norm_(model.parameters(), math.inf if limit is None else limit))


def diverged(step: int, loss: float, norm: float, rate: float, checkpoints: Checkpoints) -> DivergedError:
    newest = checkpoints.latest()
    stands = f"the last good checkpoint is {newest}" if newest else "there is no checkpoint yet"
    return DivergedError(
        f"step {step}: the loss is {loss} and the gradient norm {norm} at learning rate {rate:.3g}; the step was not "
        f"taken, and {stands}. Lower schedule.learning_rate, lengthen schedule.warmup_steps, or set "
        f"optimizer.max_gradient_norm, and start again."
    )


def judge(
    scores: dict[str, float], progress: Progress, recipe: Recipe, model: torch.nn.Module, log: RunLog
) -> dict[str, torch.Tensor] | None:
    """Compare an evaluation with the best so far; returns the weights if they are the new best."""
    select = recipe.evaluation.select
    if select not in scores:
        raise RecipeError(f"evaluation.select is {select!r}; the evaluation has {', '.join(sorted(scores))}.")
    key, score = next((Key(name), x) for name, x in keyed(scores, [LOSS]).items() if name == select)
    better = progress.best_score is None or key.goodness(score) > key.goodness(progress.best_score)
    progress.evaluated_step = progress.step
    progress.stale = 0 if better else progress.stale + 1
    progress.stale_rate = 0 if better else progress.stale_rate + 1
    if recipe.schedule.kind == "plateau" and progress.stale_rate > recipe.schedule.patience:
        progress.rate_factor *= recipe.schedule.factor
        progress.stale_rate = 0
    log.evaluation(progress, scores)
    if not better:
        return None
    progress.best_score, progress.best_step = score, progress.step
    return {name: tensor.detach().cpu().clone() for name, tensor in learned_state(model).items()}


# --- checkpoints ------------------------------------------------------------------------------------------


def save(
    checkpoints: Checkpoints,
    progress: Progress,
    model: torch.nn.Module,
    optimizer: Any,
    best: dict[str, torch.Tensor] | None,
    accelerator: Accelerator,
) -> None:
    random_states = gather_object([random_state()])
    if accelerator.is_main_process:
        state = {
            "progress": asdict(progress) | {"position": tuple(progress.position)},
            "model": learned_state(model),
            "optimizer": optimizer.state_dict(),
            "scaler": accelerator.scaler.state_dict() if accelerator.scaler else {},
            "random": random_states,
        }
        checkpoints.save(progress.step, state, best)
    accelerator.wait_for_everyone()


def learned_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The tensors that training changes: all of them, or, where a part is frozen, those that are not."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    if not frozen:
        return model.state_dict()
    return {name: parameter for name, parameter in model.named_parameters() if name not in frozen}


def load_learned(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Put back what `learned_state` gave."""
    expected = learned_state(model).keys()
    if expected != state.keys():
        odd = sorted(expected ^ state.keys())
        raise RecipeError(
            f"the checkpoint is of another model: {len(odd)} tensors differ, among them {odd[0]}."
        )
    model.load_state_dict(state, strict=False)


def restore(
    checkpoints: Checkpoints, model: torch.nn.Module, optimizer: Any, accelerator: Accelerator
) -> Progress:
    newest = checkpoints.latest()
    if newest is None:
        return Progress()
    state = load_state(newest / "state.pt")
    load_learned(model, state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if accelerator.scaler:
        accelerator.scaler.load_state_dict(state["scaler"])
    if accelerator.process_index < len(
        state["random"]
    ):  # more processes than before: theirs are freshly seeded
        set_random_state(state["random"][accelerator.process_index])
    values = state["progress"]
    return Progress(**values | {"position": Position(*values["position"])})


@contextmanager
def catch_signals() -> Iterator[list[int]]:
    """The list receives SIGTERM and SIGINT; a second Ctrl-C interrupts at once."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def remember(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, remember) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def run_folder(folder: Path, recipe: Recipe, resume: bool, accelerator: Accelerator) -> Iterator[None]:
    """Hold the output folder, moved aside if the run is to start afresh, and check that the recipe is the same."""
    if not accelerator.is_main_process:
        accelerator.wait_for_everyone()
        yield
        return
    if not resume and folder.exists():
        number = 1
        while (aside := folder.with_name(f"{folder.name}.previous-{number}")).exists():
            number += 1
        folder.rename(aside)
    with only_writer(folder):
        for place in (folder, folder / "checkpoints"):
            remove_partial(place)
        check_same_recipe(folder / "recipe.json", recipe)
        write_atomically(folder / "recipe.json", json.dumps(recipe.to_dict(), indent=1))
        accelerator.wait_for_everyone()
        yield


_MAY_CHANGE = re.compile(
    r"training\.(max|log|evaluate|checkpoint|keep)_|training\.(patience|tensorboard)$|generation\.|hub\."
    r"|evaluation\.(?!select$)"
)


def check_same_recipe(path: Path, recipe: Recipe) -> None:
    """A run goes on with the recipe it began with, apart from its budget, its scoring and its outputs."""
    if not path.exists():
        return
    # A run of an older version lacks keys that are new since; it had their defaults.
    stored = Recipe.from_dict(read_json(path, dict))
    before, now = (flat(values.to_dict()) for values in (stored, recipe))
    changed = [
        f"{key} ({before.get(key)!r} -> {now.get(key)!r})"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not _MAY_CHANGE.match(key)
    ]
    if changed:
        raise RecipeError(
            f"{path.parent} holds a run of another recipe: {', '.join(changed)}. Choose another output folder, or "
            "start afresh (--no-resume), which moves the old one aside."
        )


# --- the end of a run -------------------------------------------------------------------------------------


def finish(task: Task, model: PreTrainedModel, result: RunResult) -> None:
    """Score the test split with the best weights, and write the folder for the Hub; only once."""
    recipe, accelerator = task.recipe, task.accelerator
    model.to(accelerator.device)
    stored, hub = task.folder / "result.json", task.folder / "hub"
    settings = {key: recipe.to_dict()[key] for key in ("evaluation", "generation", "hub")}
    if stored.exists() and hub.is_dir():
        previous = read_json(stored, dict)
        same = {"step": result.step, "best_step": result.best_step, "settings": settings}
        if {key: previous.get(key) for key in same} == same:
            result.scores, result.signatures = previous["scores"], previous["signatures"]
            return
    test = task.evaluate(model, "test")
    result.scores, result.signatures = test.scores, test.signatures
    if accelerator.is_main_process:
        if test.predictions is not None:
            lines = [json.dumps(row, ensure_ascii=False) for row in test.predictions]
            write_atomically(task.folder / "predictions.jsonl", "\n".join(lines) + "\n")
        text = task.card(result, test.examples)

        def write(partial: Path) -> None:
            task.save(model, partial)
            (partial / "README.md").write_text(text, encoding="utf-8")

        write_folder(hub, write, marker=False)
        write_atomically(stored, json.dumps(asdict(result) | {"settings": settings}, indent=1))
    accelerator.wait_for_everyone()
