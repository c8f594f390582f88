"""Beam search with length, coverage and entity penalties, for `generate(custom_generate=summary_beam_search)`.

Of a summary Y of a source X, with a_ij the attention of token j of the summary to token i of the source,

    s(Y, X) = log P(Y | X) / lp(Y) - cp(X; Y) - ep(X; Y)                      (Eyal et al., 2019, Eq. 6)
    lp = ((5 + |Y|) / 6) ** alpha                                             (Wu et al., 2016)
    cp = beta  * (sum_i max(sum_j a_ij, 1) - |X|)                             (Gehrmann et al., 2018)
    ep = gamma * sum_i max(e_i - sum_j a_ij, 0)

where e_i is the probability that token i belongs to a salient entity. The end token counts in |Y| and in the sums. The
coverage penalty also ranks unfinished summaries, the others only finished ones; `stepwise` changes that.

    model.generate(**inputs, custom_generate=summary_beam_search, num_beams=5, alpha=0.9, beta=0.5, block_ngram=3)

What is not given comes from the model's generation config, which may hold these settings like any other and is saved
with the model; a model of ours that copies (`SearchesWithPenalties`) then searches so whenever `generate` is called.

It serves every encoder-decoder whose output has cross-attention; models with several layers and heads are read at the
mean of the heads of one layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.generation.utils import GenerateBeamEncoderDecoderOutput

from summarily.support.errors import InputError

PenaltyForm = Literal["paper", "released"]
# What a generation config may hold for this search, and what holds where it says nothing.
SETTINGS: dict[str, Any] = {
    "alpha": 0.0,
    "beta": 0.0,
    "gamma": 0.0,
    "stepwise": True,
    "penalty_form": "paper",
    "block_ngram": 0,
    "exclude_ids": (),
}
Stepwise = bool | Sequence[Literal["coverage", "entities"]]


# --- what a summary is worth ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Penalties:
    """The score of a summary; see the module. Tensors are `[..., source]` for coverage and `[...]` for scores.

    Args:
        alpha, beta, gamma: strength of the length, coverage and entity penalties; 0 turns one off.
        stepwise: the penalties that rank unfinished summaries too: "coverage", "entities", both or none; True is
            "coverage" alone, as in the paper. Only what ranks them can make the search look for other summaries.
        form: "paper", or "released" for the authors' code, which counts the start token in |Y| and, when stepwise,
            divides the coverage penalty by lp as well.

    Example:
        >>> penalties = Penalties(alpha=1.0, beta=0.5)
        >>> coverage = torch.tensor([1.5, 0.2, 0.3])  # half a token's attention too much
        >>> penalties.final(torch.tensor(-3.0), 7, penalties.coverage(coverage), torch.tensor(0.0))  # -3 / 2 - 0.25
        tensor(-1.7500)
    """

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    stepwise: Stepwise = True
    form: PenaltyForm = "paper"

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "gamma"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; a penalty is at least 0.")
        if self.form not in ("paper", "released"):
            raise InputError(f"penalty_form is {self.form!r}; choose 'paper' or 'released'.")
        if unknown := set(self._stepwise) - {"coverage", "entities"}:
            raise InputError(
                f"stepwise names {sorted(unknown)}; it takes 'coverage' and 'entities', or a bool."
            )

    @property
    def _stepwise(self) -> tuple[str, ...]:
        if isinstance(self.stepwise, str):
            return (self.stepwise,)
        if isinstance(self.stepwise, bool):
            return ("coverage",) if self.stepwise else ()
        return tuple(self.stepwise)

    def length(self, tokens: int) -> float:
        return float(((5 + tokens + (self.form == "released")) / 6) ** self.alpha)

    def coverage(self, attended: torch.Tensor) -> torch.Tensor:
        # max(C, 1) - 1, summed: padding, which is never attended to, adds nothing.
        return self.beta * (attended - 1).clamp(min=0).sum(-1)

    def entities(self, attended: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
        return self.gamma * (entities - attended).clamp(min=0).sum(-1)

    def running(
        self, log_probability: torch.Tensor, coverage: torch.Tensor, entities: torch.Tensor
    ) -> torch.Tensor:
        """What an unfinished summary is ranked by."""
        for name, penalty in (("coverage", coverage), ("entities", entities)):
            if name in self._stepwise:
                log_probability = log_probability - penalty
        return log_probability

    def final(
        self, log_probability: torch.Tensor, tokens: int, coverage: torch.Tensor, entities: torch.Tensor
    ) -> torch.Tensor:
        """The score of a finished summary of `tokens` tokens with these two penalties."""
        length = self.length(tokens)
        if self.form == "released" and "coverage" in self._stepwise:
            return (log_probability - coverage) / length - entities
        return log_probability / length - coverage - entities

    def best(
        self,
        log_probability: torch.Tensor,
        tokens: int,
        longest: int,
        coverage: torch.Tensor,
        entities: torch.Tensor,
    ) -> torch.Tensor:
        """What an unfinished summary can reach at most, if it ends with `tokens` tokens of at most `longest`.

        Log-probabilities and the coverage penalty only get worse, and a token's attention sums to one: it takes
        at most gamma off the entity penalty.
        """
        return self.final(log_probability, tokens, coverage, (entities - self.gamma * longest).clamp(min=0))


class NgramBlocker(LogitsProcessor):
    """No n-gram twice, except those with an excluded token, such as a full stop.

    Args:
        size: of the n-grams.
        exclude_ids: n-grams with one of these are neither remembered nor blocked.
        prompt_length: tokens at the beginning that are not part of the summary.

    Example:
        >>> blocker = NgramBlocker(2, prompt_length=0)
        >>> blocker(torch.tensor([[5, 6, 5]]), torch.zeros(1, 8)).isinf().nonzero().tolist()  # 5 6 was there
        [[0, 6]]
    """

    def __init__(self, size: int, exclude_ids: Sequence[int] = (), prompt_length: int = 1):
        if size < 1:
            raise InputError(f"the size of blocked n-grams is {size}; it must be at least 1.")
        self.size, self.exclude_ids, self.prompt_length = size, tuple(exclude_ids), prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        summary = input_ids[:, self.prompt_length :]
        if summary.shape[1] < self.size:
            return scores
        ngrams = summary.unfold(1, self.size, 1)  # [rows, places, size]
        last = summary[:, summary.shape[1] - self.size + 1 :]
        again = (ngrams[..., :-1] == last[:, None]).all(-1)
        if self.exclude_ids:
            excluded = torch.tensor(self.exclude_ids, device=summary.device)
            again &= ~torch.isin(ngrams, excluded).any(-1)
        blocked = torch.zeros_like(scores, dtype=torch.int).scatter_add_(1, ngrams[..., -1], again.int())
        return scores.masked_fill(blocked > 0, -torch.inf)


# --- the search -------------------------------------------------------------------------------------------


@torch.no_grad()
def summary_beam_search(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: Any,
    generation_config: Any,
    alpha: float | None = None,
    beta: float | None = None,
    gamma: float | None = None,
    stepwise: Stepwise | None = None,
    penalty_form: PenaltyForm | None = None,
    block_ngram: int | None = None,
    exclude_ids: Sequence[int] | None = None,
    entity_scores: torch.Tensor | None = None,
    attention_layer: int | None = -1,
    **model_kwargs: Any,
) -> torch.Tensor | GenerateBeamEncoderDecoderOutput:
    """Beam search; the first five arguments come from `generate`, the others are given to it.

    Of the generation config it uses `num_beams`, `num_return_sequences`, `early_stopping`, the limits on the length
    and every logits processor; `alpha` takes the place of `length_penalty`. With `early_stopping="never"` it ends only
    when no unfinished summary can still win; False, the default, compares at the present length, and True ends with
    as many finished summaries as beams. With `return_dict_in_generate` there are `sequences_scores`, `beam_indices` and,
    with `output_scores`, the `scores` of every step.

    Args:
        alpha, beta, gamma, stepwise, penalty_form: see `Penalties`; by default what the generation config says, or 0.
        block_ngram, exclude_ids: see `NgramBlocker`; 0 blocks nothing. By default as above.
        entity_scores: `[batch, source]`, the probability that a token belongs to a salient entity; by default what
            the model's encoder says (`encoder_outputs.entity_attention`, as APESO's does).
        attention_layer: the decoder layer whose cross-attention is read; None for the mean of all.

    Example:
        >>> from transformers import BartConfig, BartForConditionalGeneration
        >>> config = BartConfig(vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
        ...                     decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2)
        >>> bart = BartForConditionalGeneration(config).eval()
        >>> ids = torch.tensor([[0, 7, 8, 9, 2]])
        >>> bart.generate(ids, custom_generate=summary_beam_search, num_beams=3, max_new_tokens=4, min_new_tokens=4,
        ...               alpha=0.9, beta=0.5, block_ngram=2).shape
        torch.Size([1, 5])
    """
    _check(model, generation_config)
    given = (alpha, beta, gamma, stepwise, penalty_form, block_ngram, exclude_ids)
    found = settings_of(generation_config, dict(zip(SETTINGS, given, strict=True)))
    beta, gamma = found["beta"], found["gamma"]
    penalties = Penalties(found["alpha"], beta, gamma, found["stepwise"], found["penalty_form"])
    if found["block_ngram"]:
        blocker = NgramBlocker(found["block_ngram"], found["exclude_ids"], prompt_length=input_ids.shape[1])
        logits_processor = LogitsProcessorList([*logits_processor, blocker])
    search = _Search(model, input_ids, generation_config, penalties)
    if beta or gamma:
        model_kwargs["output_attentions"] = True
    if gamma:
        search.entities = search.entity_scores(entity_scores, model_kwargs)
    with _visible_attention(model, bool(beta or gamma)):
        outputs = model._prefill(input_ids, generation_config, model_kwargs)
        while True:
            model_kwargs = model._update_model_kwargs_for_generation(
                outputs, model_kwargs, is_encoder_decoder=True
            )
            if beta or gamma:
                search.attend(_attention(outputs, attention_layer, model))
            log_probabilities = outputs.logits[:, -1].float()
            if not getattr(model, "logits_are_log_probabilities", False):
                log_probabilities = torch.log_softmax(log_probabilities, dim=-1)
            rows: Any = search.rows()
            moved = search.advance(logits_processor(rows, log_probabilities), stopping_criteria)
            if search.over():
                return search.output(generation_config)
            _reorder_cache(model, model_kwargs, moved)
            inputs = model.prepare_inputs_for_generation(
                search.rows(), next_sequence_length=1 if model_kwargs["use_cache"] else None, **model_kwargs
            )
            outputs = model(**inputs, return_dict=True)


def settings_of(generation_config: Any, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings of the search: those given that are not None, then the generation config's, then none.

    Example:
        >>> from transformers import GenerationConfig
        >>> found = settings_of(GenerationConfig(alpha=0.9, gamma=0.5), {"gamma": 0.0})
        >>> found["alpha"], found["beta"], found["gamma"]
        (0.9, 0.0, 0.0)
    """
    stored = {name: getattr(generation_config, name, None) for name in SETTINGS}
    asked = {name: value for name, value in (given or {}).items() if name in SETTINGS and value is not None}
    return {**SETTINGS, **{name: value for name, value in stored.items() if value is not None}, **asked}


def keep_settings(model: Any, settings: Mapping[str, Any]) -> None:
    """Put settings of this search into the model's generation config, with which they are saved.

    Example:
        >>> from summarily.modeling import ApesoConfig, ApesoForConditionalGeneration
        >>> model = ApesoForConditionalGeneration(ApesoConfig(vocab_size=9, embedding_size=4, hidden_size=4))
        >>> keep_settings(model, {"alpha": 0.9, "gamma": 0.5})
        >>> model.generation_config.gamma
        0.5
    """
    if unknown := sorted(set(settings) - set(SETTINGS)):
        raise InputError(f"{unknown[0]!r} is not a setting of this search; it has {', '.join(SETTINGS)}.")
    found = settings_of(model.generation_config, settings)
    Penalties(found["alpha"], found["beta"], found["gamma"], found["stepwise"], found["penalty_form"])
    if found["block_ngram"]:
        NgramBlocker(found["block_ngram"], found["exclude_ids"])
    # A config that says it was made from the model's drops what transformers does not know when it is read.
    model.generation_config._from_model_config = False
    model.generation_config.update(**settings, allow_custom_entries=True)


class SearchesWithPenalties:
    """For a model in front of `GenerationMixin`: `generate` searches with the penalties that it is given or that the
    generation config holds. Without any it is transformers' own, and so is sampling."""

    def generate(self, inputs=None, generation_config=None, *args, custom_generate=None, **kwargs):
        if custom_generate is None and is_penalised(self, generation_config, kwargs):
            custom_generate = summary_beam_search
        return super().generate(  # type: ignore[misc]
            inputs, generation_config, *args, custom_generate=custom_generate, **kwargs
        )


def is_penalised(model: Any, generation_config: Any, given: Mapping[str, Any]) -> bool:
    """Whether `generate` with these arguments is to search with penalties."""
    if not _asks_for_penalties(model, generation_config, given):
        return False
    if given.get("length_penalty") is not None:
        raise InputError(
            "length_penalty is not what this search ranks by; give alpha, which takes its place."
        )
    return True


def _asks_for_penalties(model: Any, generation_config: Any, given: Mapping[str, Any]) -> bool:
    if any(given.get(name) is not None for name in (*SETTINGS, "entity_scores")):
        return True
    configs = [config for config in (generation_config, model.generation_config) if config is not None]
    samples = [given.get("do_sample"), *(config.do_sample for config in configs)]
    if next((value for value in samples if value is not None), False):
        return False
    found = settings_in_force(model, generation_config)
    return any(found[name] for name in ("alpha", "beta", "gamma", "block_ngram"))


def settings_in_force(
    model: Any, generation_config: Any = None, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The settings of a call of `generate`: arguments go before the config given to it, and that before the model's."""
    asked = {name: value for name, value in (given or {}).items() if value is not None}
    return settings_of(model.generation_config, {**_settings_in(generation_config), **asked})


def _settings_in(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in SETTINGS if getattr(config, name, None) is not None}


class _Search:
    """The beams of all documents: unfinished summaries, finished ones, and what each has attended to.

    Shapes: `[batch, beams]` and more; `running_` are unfinished, `best_` finished, sorted by their scores.
    """

    def __init__(self, model: Any, input_ids: torch.Tensor, config: Any, penalties: Penalties):
        self.penalties, self.beams = penalties, config.num_beams
        self.batch, self.prompt = input_ids.shape[0] // self.beams, input_ids.shape[1]
        self.longest = config.max_length - self.prompt
        self.early_stopping = config.early_stopping
        ends = config._eos_token_tensor
        # Enough candidates that `beams` of them go on even if all the others have ended.
        self.kept = max(2, 1 + (0 if ends is None else len(ends))) * self.beams
        self.tokens = 0  # written so far
        shape, device = (self.batch, self.beams), input_ids.device
        padding = config._pad_token_tensor if config._pad_token_tensor is not None else 0
        self.running = torch.full((*shape, config.max_length), int(padding), device=device)
        self.running[..., : self.prompt] = input_ids.view(*shape, -1)
        self.best = self.running.clone()
        # At first all beams of a document are alike: only one may go on.
        self.running_log = torch.full(shape, -torch.inf, device=device)
        self.running_log[:, 0] = 0.0
        self.best_scores = torch.full(shape, -torch.inf, device=device)
        self.running_beams = torch.full((*shape, self.longest), -1, device=device)
        self.best_beams = self.running_beams.clone()
        self.open = torch.ones(self.batch, dtype=torch.bool, device=device)
        self.attended: torch.Tensor | None = None
        self.entities: torch.Tensor | None = None
        self.coverage_penalty = self.entity_penalty = torch.zeros(shape, device=device)
        self.blocked = False  # no candidate can go on
        self.scores: list[torch.Tensor] | None = [] if config.output_scores else None

    def rows(self) -> torch.Tensor:
        """The unfinished summaries as a batch for the model."""
        return self.running[..., : self.prompt + self.tokens].flatten(0, 1)

    def entity_scores(self, given: torch.Tensor | None, model_kwargs: dict[str, Any]) -> torch.Tensor:
        """`[batch, 1, source]`, 0 on padding."""
        scores = given
        if scores is None:
            scores = getattr(model_kwargs["encoder_outputs"], "entity_attention", None)
        if scores is None:
            raise InputError(
                f"gamma is {self.penalties.gamma}, but the model's encoder has no entity_attention; pass entity_scores, "
                "[batch, source], or leave gamma at 0."
            )
        if given is not None and (scores.ndim != 2 or len(scores) != self.batch):
            raise InputError(
                f"entity_scores has shape {tuple(scores.shape)}; expected [{self.batch}, source], a value for every "
                "token of each source."
            )
        scores = self._per_document(scores).to(self.best_scores)
        source = model_kwargs["encoder_outputs"].last_hidden_state.shape[1]
        if scores.shape[1] != source:
            raise InputError(
                f"entity_scores are for {scores.shape[1]} tokens, but the source has {source}, padding included."
            )
        mask = model_kwargs.get("attention_mask")
        return (scores if mask is None else scores * self._per_document(mask))[:, None]

    def _per_document(self, tensor: torch.Tensor) -> torch.Tensor:
        """`generate` repeats what belongs to a document for every beam, unless the model shares it."""
        return tensor[:: len(tensor) // self.batch]

    def attend(self, attention: torch.Tensor) -> None:
        """Add the attention `[batch * beams, source]` of the step, and see what it costs."""
        attention = attention.float().unflatten(0, (self.batch, self.beams))
        self.attended = attention if self.attended is None else self.attended + attention
        self.coverage_penalty = self.penalties.coverage(self.attended)
        if self.entities is not None:
            self.entity_penalty = self.penalties.entities(self.attended, self.entities)

    def advance(self, log_probabilities: torch.Tensor, stopping_criteria: Any) -> torch.Tensor:
        """Write one more token; returns the beam that each unfinished summary goes on from, as a row of the batch."""
        size = log_probabilities.shape[-1]
        if self.scores is not None:
            self.scores.append(log_probabilities.clone())  # not a view of all logits
        # Whatever the beams add is the same for all tokens of a beam: its best tokens are found without.
        count = min(self.kept, size)
        best, tokens = log_probabilities.topk(count)
        candidates = best.view(self.batch, self.beams, count) + self.running_log[..., None]
        ranked = self.penalties.running(
            candidates, self.coverage_penalty[..., None], self.entity_penalty[..., None]
        )
        rank, places = ranked.flatten(1).topk(min(self.kept, self.beams * count))
        beam, token = places // count, tokens.view(self.batch, -1).gather(1, places)
        log = candidates.flatten(1).gather(1, places)
        sequences, history = _take(self.running, beam), _take(self.running_beams, beam)
        sequences[..., self.prompt + self.tokens] = token
        first_row = torch.arange(self.batch, device=beam.device)[:, None] * self.beams
        history[..., self.tokens] = beam + first_row
        self.tokens += 1
        written = sequences[..., : self.prompt + self.tokens].flatten(0, 1)
        ended = stopping_criteria(written, None).view(self.batch, -1)
        self._finish(log, rank, beam, sequences, history, ended)

        rank = rank.masked_fill(ended, -torch.inf)
        going_on = rank.topk(self.beams).indices
        self.blocked = bool((rank == -torch.inf).all())
        beam = beam.gather(1, going_on)
        self.running, self.running_beams = _take(sequences, going_on), _take(history, going_on)
        alive = rank.gather(1, going_on) > -torch.inf
        self.running_log = log.gather(1, going_on).masked_fill(~alive, -torch.inf)
        if self.attended is not None:
            self.attended = _take(self.attended, beam)
            self.coverage_penalty = self.coverage_penalty.gather(1, beam)
        if self.entities is not None:
            self.entity_penalty = self.entity_penalty.gather(1, beam)
        return (beam + first_row).flatten()

    def _finish(
        self,
        log: torch.Tensor,
        rank: torch.Tensor,
        beam: torch.Tensor,
        sequences: torch.Tensor,
        history: torch.Tensor,
        ended: torch.Tensor,
    ) -> None:
        """Keep the best of the finished summaries, old and new; the new ones are among the `beams` best candidates."""
        coverage, entities = self.coverage_penalty.gather(1, beam), self.entity_penalty.gather(1, beam)
        scores = self.penalties.final(log, self.tokens, coverage, entities)
        new = ended & (rank > -torch.inf) & self.open[:, None]
        new[:, self.beams :] = False
        scores = torch.cat([self.best_scores, scores.masked_fill(~new, -torch.inf)], dim=1)
        self.best_scores, places = scores.topk(self.beams)
        self.best = _take(torch.cat([self.best, sequences], dim=1), places)
        self.best_beams = _take(torch.cat([self.best_beams, history], dim=1), places)

    def over(self) -> bool:
        """Whether no document can win anything by going on."""
        full = (self.best_scores > -torch.inf).all(1)
        if self.early_stopping is True:
            self.open &= ~full
        else:
            # Log-probabilities are negative: the longest summary divides them by most.
            tokens = self.longest if self.early_stopping == "never" else self.tokens
            hope = self.penalties.best(
                self.running_log,
                tokens,
                self.longest - self.tokens,
                self.coverage_penalty,
                self.entity_penalty,
            )
            self.open &= hope.amax(1) > self.best_scores[:, -1].masked_fill(~full, -torch.inf)
        return self.blocked or not bool(self.open.any())

    def output(self, config: Any) -> torch.Tensor | GenerateBeamEncoderDecoderOutput:
        wanted = config.num_return_sequences
        beams = self.best_beams[:, :wanted].flatten(0, 1)
        length = int((beams >= 0).sum(1).max())
        sequences = self.best[:, :wanted, : self.prompt + length].flatten(0, 1)
        if not config.return_dict_in_generate:
            return sequences
        return GenerateBeamEncoderDecoderOutput(
            sequences=sequences,  # type: ignore[arg-type]
            sequences_scores=self.best_scores[:, :wanted].flatten(),  # type: ignore[arg-type]
            beam_indices=beams[:, :length],  # type: ignore[arg-type]
            scores=None if self.scores is None else tuple(self.scores),  # type: ignore[arg-type]
        )


def _take(tensor: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """`tensor[b, places[b, k]]` for every document b."""
    return tensor.gather(1, places[..., None].expand(*places.shape, tensor.shape[-1]))


# --- the model --------------------------------------------------------------------------------------------


def _check(model: Any, config: Any) -> None:
    if not model.config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} has no encoder; this search needs attention to a source.")
    if config.do_sample:
        raise InputError("do_sample=True: this search does not sample; leave it out.")
    if config.num_return_sequences > config.num_beams:
        raise InputError(
            f"num_return_sequences={config.num_return_sequences} is more than num_beams={config.num_beams}."
        )
    for name in ("output_logits", "output_attentions", "output_hidden_states"):
        if getattr(config, name):
            raise InputError(f"{name}=True: this search returns the sequences and their scores only.")


@contextmanager
def _visible_attention(model: Any, needed: bool) -> Iterator[None]:
    """The back end that shows attention weights, for the time of the search; the encoder has run already."""
    before = model.config._attn_implementation
    if not needed or before in (None, "eager"):
        yield
        return
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _attention(outputs: Any, layer: int | None, model: Any) -> torch.Tensor:
    """The attention `[rows, source]` of the newest token."""
    layers = outputs.cross_attentions
    if not layers or any(weights is None for weights in layers):
        raise InputError(
            f"{type(model).__name__} returns no cross-attention, which beta and gamma need; leave both at 0."
        )
    chosen = layers if layer is None else [layers[layer]]
    return torch.stack([weights[:, :, -1].mean(1) for weights in chosen]).mean(0)


def _reorder_cache(model: Any, model_kwargs: dict[str, Any], rows: torch.Tensor) -> None:
    cache = model_kwargs.get("past_key_values")
    if cache is None:
        return
    if hasattr(model, "_reorder_cache"):
        model_kwargs["past_key_values"] = model._reorder_cache(cache, rows)
    else:
        cache.reorder_cache(rows)
