"""Self-critical training: a summarizer learns from rewards, with its own greedy summary as the baseline.

For each document the model writes a greedy summary g and a sampled one s. With the reward r and the reference y,

    L_RL  = (r(g) - r(s)) sum_t log p(s_t)                      (Rennie et al., 2016; Eq. 7 of Clark et al., 2019)
    L_MLE = -sum_t log p(y_t)                                   (Eq. 6)
    L     = gamma L_RL + (1 - gamma) L_MLE                      (Eq. 8), averaged over the documents

and gamma rises in the course of the run. Summaries are written without gradients; the sampled one is then scored
again, teacher-forced, together with the reference in a single pass that has them. The source is encoded once for all
of it. Rewards are computed in worker processes meanwhile. Dropout is off: the probabilities of a sample are those it
was drawn from (of a model with an adapter, up to rounding: `training.writer` writes).

`SelfCriticalTrainer` is transformers' `Seq2SeqTrainer` with this loss; `summarily train` uses the same loss for every
recipe with `[self_critical] rewards = [...]`. Both work for any encoder-decoder, and both go on after a kill with the
same weights, bit for bit: all random numbers come from torch's generator, and gamma depends on the step alone.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

from summarily.modeling.data import LOSS_ONLY, decode
from summarily.modeling.training.collators import IGNORED_LABEL, TEXT_COLUMNS, shift_right
from summarily.modeling.training.recipe import SelfCriticalSection
from summarily.modeling.training.rewards import RewardFunction, RewardWorkers, load_rewards
from summarily.modeling.training.writer import Writer, can_write
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Batch = Mapping[str, Any]  # tensors, and perhaps lists of texts
# Of a batch, what the encoder does not read.
_NO_INPUTS = frozenset({"labels", "decoder_input_ids", "decoder_attention_mask", *LOSS_ONLY, *TEXT_COLUMNS})


# --- the loss ---------------------------------------------------------------------------------------------


class SelfCriticalLoss:
    """The mixed loss of a batch, summed over its documents.

    Args:
        settings: gamma, reduction, and the length of the samples.
        tokenizer: decodes summaries, references and sources for the rewards.
        workers: compute the rewards.
        steps: over which gamma rises, unless the settings say so.

    Example:
        >>> loss = SelfCriticalLoss(SelfCriticalSection(rewards=["rouge"]), tokenizer, workers)  # doctest: +SKIP
        >>> loss.begin_step(1); loss(model, batch).backward(); loss.end_step()["advantage"]      # doctest: +SKIP
    """

    def __init__(
        self,
        settings: SelfCriticalSection,
        tokenizer: PreTrainedTokenizerBase,
        workers: RewardWorkers,
        steps: int | None = None,
    ):
        self.settings, self.tokenizer, self.workers = settings, tokenizer, workers
        self.steps = settings.rl_gamma_steps or steps
        if self.steps is None and settings.rl_gamma_end != settings.rl_gamma:
            raise InputError("gamma rises, but the number of steps is not known; set rl_gamma_steps.")
        self._writer: Writer | None = None
        self.begin_step(1)

    def begin_step(self, step: int) -> None:
        """Optimizer step `step`, counted from 1, begins."""
        self.gamma = gamma_at(self.settings, step, self.steps)
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._began = time.perf_counter()
        self._stale = True  # the weights of the copy that writes

    def end_step(self) -> dict[str, float]:
        """What happened since the step began: means over this process' documents, and where the seconds went."""
        sums, seconds = dict(self._sums), dict(self._seconds)
        total = time.perf_counter() - self._began
        seconds["seconds_update"] = total - sum(
            value for name, value in seconds.items() if name != "seconds_reward_workers"
        )
        documents, tokens = sums.pop("documents"), sums.pop("tokens")
        entropy = sums.pop("entropy")
        means = {name: value / documents for name, value in sums.items()}
        means |= {"entropy": entropy / tokens, "sample_tokens": tokens / documents}
        return {"gamma": self.gamma, **means, **{name: round(value, 5) for name, value in seconds.items()}}

    def __call__(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        bare: Any = getattr(model, "module", model)  # generation is not distributed
        inputs = {name: value for name, value in batch.items() if name not in _NO_INPUTS}
        references = self._references(batch)
        columns = {"sources": batch.get("source") or self._decode(batch["input_ids"], batch)}
        with without_dropout(model):
            with self._timed("encode"):
                encoded = encode(bare, inputs)
            greedy, sampled = self._write_both(bare, inputs, encoded)
            baseline = self.workers.submit(self._decode(greedy, batch), references, **columns)
            drawn = self.workers.submit(self._decode(sampled, batch), references, **columns)
            with self._timed("score"):
                pairs = score_pairs(
                    model, inputs, encoded, batch["labels"], sampled, self.settings.sample_temperature
                )
        with self._timed("reward"):
            rewards, baselines = drawn.result(), baseline.result()
        self._seconds["seconds_reward_workers"] += rewards.seconds + baselines.seconds
        advantage = torch.tensor(rewards.total, device=pairs.sampled.device) - torch.tensor(
            baselines.total, device=pairs.sampled.device
        )
        loss = mixed_loss(pairs, advantage.float(), self.gamma, self.settings.loss_reduction)
        self._count(pairs, advantage, rewards, baselines)
        return loss

    def _write_both(
        self, model: PreTrainedModel, inputs: Batch, encoded: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of the greedy and the sampled summaries after the decoder's start token, what follows the end
        ignored (-100)."""
        shared = {"num_beams": 1, "max_new_tokens": self.settings.max_summary_tokens}
        drawn = {"top_k": 0, "top_p": 1.0, "temperature": self.settings.sample_temperature}
        with torch.no_grad(), evaluating(model):
            if can_write(model):
                with self._timed("write"):
                    writer = self._current_writer(model)
                    with generation_settings(writer.model, shared | drawn):
                        both = writer.greedy_and_sampled(inputs, encoded)
            else:
                with self._timed("greedy"), generation_settings(model, shared | {"do_sample": False}):
                    greedy = self._generate(model, inputs, encoded)
                with self._timed("sample"), generation_settings(model, shared | drawn | {"do_sample": True}):
                    both = greedy, self._generate(model, inputs, encoded)
        end = model.generation_config.eos_token_id
        return until_end(both[0][:, 1:], end), until_end(both[1][:, 1:], end)

    @staticmethod
    def _generate(model: Any, inputs: Batch, encoded: Any) -> torch.Tensor:
        return model.generate(**inputs, encoder_outputs=type(encoded)(**encoded))

    def _current_writer(self, model: PreTrainedModel) -> Writer:
        """The copy of a model with an adapter, as the model is in this step."""
        if self._writer is None or self._writer.source is not model:
            kind = model.device.type
            dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else model.dtype
            self._writer = Writer(model, dtype)
        if self._stale:
            self._writer.refresh()
            self._stale = False
        return self._writer

    def _decode(self, ids: torch.Tensor, batch: Batch) -> list[str]:
        ids = ids.masked_fill(ids == IGNORED_LABEL, self.tokenizer.pad_token_id)
        return decode(self.tokenizer, ids, batch)

    def _references(self, batch: Batch) -> list[Any]:
        """The texts that come with the batch, or its labels, which may be cut."""
        if "references" not in batch:
            return self._decode(batch["labels"], batch)
        return [texts[0] if len(texts) == 1 else texts for texts in batch["references"]]

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._seconds[f"seconds_{name}"] += time.perf_counter() - start

    def _count(self, pairs: Pairs, advantage: torch.Tensor, rewards: Any, baselines: Any) -> None:
        values = {
            "documents": len(advantage),
            "tokens": pairs.sampled_tokens.sum(),
            "entropy": pairs.entropy.sum(),
            "reward_sample": sum(rewards.total),
            "reward_greedy": sum(baselines.total),
            "advantage": advantage.sum(),
            "advantage_size": advantage.abs().sum(),
            "zero_advantage": (advantage == 0).sum(),
        }
        if len(rewards.each) > 1:
            values |= {name: sum(each) for name, each in rewards.each.items()}
        for name, value in values.items():
            self._sums[name] += float(value)


def gamma_at(settings: SelfCriticalSection, step: int, steps: int | None) -> float:
    """The weight of the reward in step `step` (from 1): linear from `rl_gamma` to `rl_gamma_end`, then constant.

    Example:
        >>> rising = SelfCriticalSection(rl_gamma=0.9, rl_gamma_end=1.0)
        >>> [round(gamma_at(rising, step, steps=11), 2) for step in (1, 6, 11, 20)]
        [0.9, 0.95, 1.0, 1.0]
    """
    start, end = settings.rl_gamma, settings.rl_gamma_end
    if steps is None or steps <= 1:
        return end if steps == 1 and step > 1 else start
    return start + (end - start) * min(1.0, (step - 1) / (steps - 1))


@dataclass
class Pairs:
    """Log-probabilities of references and samples, `[documents]`, summed over tokens, and the samples' entropies."""

    reference: torch.Tensor
    reference_tokens: torch.Tensor
    sampled: torch.Tensor
    sampled_tokens: torch.Tensor
    entropy: torch.Tensor


def score_pairs(
    model: torch.nn.Module,
    inputs: Batch,
    encoded: Any,
    references: torch.Tensor,
    sampled: torch.Tensor,
    temperature: float = 1.0,
) -> Pairs:
    """Score the reference and the sample (at its temperature) of each document, teacher-forced, in one pass."""
    bare: Any = getattr(model, "module", model)
    width = max(references.shape[1], sampled.shape[1])
    both = [
        torch.nn.functional.pad(ids, (0, width - ids.shape[1]), value=IGNORED_LABEL)
        for ids in (references, sampled)
    ]
    labels = torch.stack(both, dim=1).flatten(0, 1)  # reference and sample of a document, side by side
    config = bare.generation_config
    decoder_input_ids = shift_right(labels, decoder_start(bare), config.pad_token_id)
    rest = {name: value for name, value in inputs.items() if name != bare.main_input_name}
    # As for two beams: models whose cross-attention is shared keep the document once.
    main, repeated = bare._expand_inputs_for_generation(
        expand_size=2,
        is_encoder_decoder=True,
        input_ids=inputs[bare.main_input_name],
        encoder_outputs=type(encoded)(**encoded),
        **rest,
    )
    repeated[bare.main_input_name] = main
    logits = model(**repeated, decoder_input_ids=decoder_input_ids, use_cache=False, return_dict=True).logits
    kept = labels != IGNORED_LABEL
    logits = logits.float()
    if temperature != 1.0:
        logits = logits / logits.new_tensor([1.0, temperature]).repeat(len(references))[:, None, None]
    log_probabilities = torch.log_softmax(logits, dim=-1)
    chosen = log_probabilities.gather(2, labels.clamp(min=0)[..., None])[..., 0].masked_fill(~kept, 0.0)
    with torch.no_grad():
        drawn = log_probabilities[1::2]
        entropy = -(drawn.exp() * drawn.clamp(min=-1e4)).sum(-1).masked_fill(~kept[1::2], 0.0).sum(1)
    totals, tokens = chosen.sum(1), kept.sum(1)
    return Pairs(totals[0::2], tokens[0::2], totals[1::2], tokens[1::2], entropy)


def mixed_loss(pairs: Pairs, advantage: torch.Tensor, gamma: float, reduction: str = "sum") -> torch.Tensor:
    """Eq. 8, summed over documents. `advantage` is r(sample) - r(greedy); "mean" divides by the number of tokens.

    Example:
        >>> one = torch.ones(1)
        >>> pairs = Pairs(reference=-6 * one, reference_tokens=3 * one, sampled=-4 * one, sampled_tokens=2 * one,
        ...               entropy=one)
        >>> mixed_loss(pairs, advantage=0.5 * one, gamma=0.9)  # 0.9 * 0.5 * 4 + 0.1 * 6
        tensor(2.4000)
    """
    reference, sampled = pairs.reference, pairs.sampled
    if reduction == "mean":
        reference = reference / pairs.reference_tokens.clamp(min=1)
        sampled = sampled / pairs.sampled_tokens.clamp(min=1)
    return -(gamma * advantage * sampled + (1 - gamma) * reference).sum()


# --- the model in the loop --------------------------------------------------------------------------------


def encode(model: Any, inputs: Batch) -> Any:
    """The encoder's output with its graph, made as `generate` makes it."""
    rest = {name: value for name, value in inputs.items() if name != model.main_input_name}
    prepared = model._maybe_prepare_encoder_kwargs_for_generation(
        inputs[model.main_input_name], rest, model.main_input_name, model.generation_config
    )
    return prepared["encoder_outputs"]


def decoder_start(model: Any) -> int:
    """The id the decoder begins with."""
    for config in (model.generation_config, model.config):
        for name in ("decoder_start_token_id", "bos_token_id"):
            if getattr(config, name, None) is not None:
                return int(getattr(config, name))
    raise InputError(f"{type(model).__name__} names no decoder_start_token_id; set it in generation_config.")


def until_end(ids: torch.Tensor, end: int | Sequence[int] | None) -> torch.Tensor:
    """The ids with everything behind the first end token ignored.

    Example:
        >>> until_end(torch.tensor([[5, 1, 0, 0], [5, 6, 7, 8]]), end=1).tolist()
        [[5, 1, -100, -100], [5, 6, 7, 8]]
    """
    if end is None:
        return ids
    ends = torch.isin(ids, torch.as_tensor(end, device=ids.device))
    return ids.masked_fill(ends.cumsum(1) - ends.long() > 0, IGNORED_LABEL)


@contextmanager
def without_dropout(model: torch.nn.Module) -> Iterator[None]:
    """Dropout and layer dropout are off inside; the mode of the model stays (cuDNN's LSTMs train in no other).

    Example:
        >>> layer = torch.nn.Dropout(0.5)
        >>> with without_dropout(layer):
        ...     layer(torch.ones(3))
        tensor([1., 1., 1.])
    """
    before = []
    for module in model.modules():
        names = [name for name, value in vars(module).items() if "drop" in name and isinstance(value, float)]
        names += ["p"] if isinstance(module, torch.nn.modules.dropout._DropoutNd) else []
        for name in names:
            before.append((module, name, getattr(module, name)))
            setattr(module, name, 0.0)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside: gradient checkpointing would forbid the cache."""
    mode = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(mode)


@contextmanager
def generation_settings(model: Any, options: Mapping[str, Any]) -> Iterator[None]:
    """`generate` with these options and the model's special tokens, and none of the model's other settings.

    Blocked n-grams, forced tokens or a truncated distribution would draw from other probabilities than those that
    are scored afterwards; what is left out of a call's options would come from the model's settings.
    """
    kept = ("pad_token_id", "bos_token_id", "eos_token_id")
    before = model.generation_config
    ids = {name: getattr(before, name) for name in kept}
    model.generation_config = GenerationConfig(**ids, decoder_start_token_id=decoder_start(model), **options)
    try:
        yield
    finally:
        model.generation_config = before


# --- under transformers' trainer --------------------------------------------------------------------------


@dataclass
class SelfCriticalConfig(SelfCriticalSection, Seq2SeqTrainingArguments):
    """`Seq2SeqTrainingArguments` with the settings of self-critical training.

    Example:
        >>> config = SelfCriticalConfig("runs/rl", rewards=["rouge"], reward_options={"rouge": {"types": ["rougeL"]}},
        ...                             learning_rate=1e-5, report_to=[])
        >>> config.rl_gamma
        0.97
    """


class SelfCriticalTrainer(Seq2SeqTrainer):
    """`Seq2SeqTrainer` that maximises rewards; start from a model trained with cross entropy.

    Args:
        model: any encoder-decoder with `generate`.
        args: a `SelfCriticalConfig`.
        rewards: functions `(completions, references, **columns) -> list[float]` or names of our metrics, in place of
            `args.rewards`. `references` and `columns["sources"]` are the texts of the columns `references` and `source`,
            if the collator keeps them (`keep_texts`), or the decoded labels and sources.
        processing_class: the tokenizer.
        options: as for `Seq2SeqTrainer`; `data_collator` may be a `SummaryCollator`.

    The log has, beside the loss, `reward_sample`, `reward_greedy`, `advantage`, `advantage_size` (its mean absolute
    value), `zero_advantage` (the fraction of documents that teach nothing), `entropy` (of a token), `sample_tokens`,
    `gamma`, and the seconds of a step by part (a model with an adapter writes greedy and sampled summaries together). With several processes these are the main process' own.

    Example:
        >>> trainer = SelfCriticalTrainer(                                            # doctest: +SKIP
        ...     bart, SelfCriticalConfig("runs/rl", rewards=["sms"]), train_dataset=rows, processing_class=tokenizer)
        >>> trainer.train(resume_from_checkpoint=True)                                # doctest: +SKIP
    """

    loss_is_scaled_for_ga = True

    def __init__(
        self,
        model: Any,
        args: SelfCriticalConfig,
        *,
        rewards: str | RewardFunction | Sequence[str | RewardFunction] | None = None,
        processing_class: Any,
        **options: Any,
    ):
        super().__init__(model, args, processing_class=processing_class, **options)
        self._functions = load_rewards(args.rewards if rewards is None else rewards, args.reward_options)
        self._self_critical: SelfCriticalLoss | None = None
        self._steps: list[dict[str, float]] = []  # since the last line of the log
        self.add_callback(_Steps(self))

    def train(self, *args: Any, **options: Any) -> Any:
        """As `Trainer.train`; the reward workers live as long as the call."""
        settings: Any = self.args
        weights = settings.reward_weights or None
        with RewardWorkers(self._functions, weights, settings.reward_workers) as self._workers:
            try:
                return super().train(*args, **options)
            finally:
                self._self_critical = None

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> torch.Tensor:
        """Documents in the batch of an optimizer step, over all its parts and processes."""
        documents = torch.tensor(sum(len(batch["labels"]) for batch in batch_samples), device=device)
        return self.accelerator.gather(documents).sum()

    def _set_signature_columns_if_needed(self) -> None:
        """Texts for the rewards are not among the arguments of a model, but of use."""
        super()._set_signature_columns_if_needed()
        columns: Any = self._signature_columns
        self._signature_columns: Any = [*columns, *TEXT_COLUMNS - set(columns)]

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        tensors = {name: value for name, value in inputs.items() if name not in TEXT_COLUMNS}
        return super().prediction_step(model, tensors, *args, **options)

    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        """With the means of what the steps since the last line reported."""
        if self._steps and "loss" in logs:
            logs |= {
                name: sum(step[name] for step in self._steps) / len(self._steps) for name in self._steps[0]
            }
            self._steps = []
        super().log(logs, *args, **options)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The self-critical loss in training, cross entropy in evaluation."""
        if not model.training or self._self_critical is None:
            return super().compute_loss(model, inputs, return_outputs)
        loss = self._self_critical(model, inputs)
        documents = len(inputs["labels"]) if num_items_in_batch is None else num_items_in_batch
        # Gradients are averaged over processes, but parts of a sum are to be added.
        return loss / documents * self.accelerator.num_processes


class _Steps(TrainerCallback):
    """Tells the loss where a step begins and ends."""

    def __init__(self, trainer: SelfCriticalTrainer):
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        trainer = self.trainer
        tokenizer: Any = trainer.processing_class
        trainer._self_critical = SelfCriticalLoss(args, tokenizer, trainer._workers, state.max_steps)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        assert self.trainer._self_critical is not None, "training has begun"
        self.trainer._self_critical.begin_step(state.global_step + 1)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        assert self.trainer._self_critical is not None, "training has begun"
        self.trainer._steps.append(self.trainer._self_critical.end_step())
