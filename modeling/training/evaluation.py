"""Held-out loss and scores of a model, over the processes of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather_object

from summarily.modeling.data import LOSS_ONLY, TEXTS, decode
from summarily.modeling.training.collators import IGNORED_LABEL, TEXT_COLUMNS, pack, row_lengths
from summarily.modeling.training.corpora import cut_bytes, cut_words
from summarily.modeling.training.recipe import EvaluationSection
from summarily.support.hooks import hook

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Collate = Callable[[Sequence[Mapping[str, Any]]], dict[str, torch.Tensor]]


def _batches(rows: Any, tokens: int, accelerator: Accelerator) -> list[list[int]]:
    """This process' batches: rows of similar length together, so that there is little padding."""
    lengths = row_lengths(rows)
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    return pack(lengths, order, tokens)[accelerator.process_index :: accelerator.num_processes]


@torch.no_grad()
def token_loss(
    model: PreTrainedModel, rows: Any, collate: Collate, tokens: int, accelerator: Accelerator
) -> float:
    """The negative log-likelihood of a target token, averaged over all of them; no label smoothing."""
    model.eval()
    total = torch.zeros(2, device=accelerator.device)
    for batch in _batches(rows, tokens, accelerator):
        inputs = _inputs([rows[i] for i in batch], collate, accelerator)
        targets = (inputs["labels"] != IGNORED_LABEL).sum()
        with accelerator.autocast():
            total += torch.stack([model(**inputs).loss.float() * targets, targets])
    loss, targets = accelerator.reduce(total, "sum").tolist()
    return loss / targets


@torch.no_grad()
def row_losses(
    model: PreTrainedModel, rows: Any, collate: Collate, tokens: int, accelerator: Accelerator
) -> list[float]:
    """For each row the mean negative log-likelihood of its target's tokens, on all processes: what two models can be
    compared by, row by row."""
    model.eval()
    found: list[tuple[int, float]] = []
    for batch in _batches(rows, tokens, accelerator):
        inputs = _inputs([rows[i] for i in batch], collate, accelerator)
        with accelerator.autocast():
            logits = model(**inputs).logits
        labels = inputs["labels"]
        losses = torch.nn.functional.cross_entropy(
            logits.float().transpose(1, 2), labels, ignore_index=IGNORED_LABEL, reduction="none"
        )
        means = losses.sum(1) / (labels != IGNORED_LABEL).sum(1)
        found += zip(batch, means.tolist(), strict=True)
    return [loss for _, loss in sorted(gather_object(found))]


@torch.no_grad()
def summarize(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Any,
    collate: Collate,
    section: EvaluationSection,
    tokens: int,
    accelerator: Accelerator,
    search: Mapping[str, Any] | None = None,
) -> list[str]:
    """A summary of every row, in the order of the rows, on all processes.

    `search` are arguments of `generate` beside those of the model's generation config.
    """
    model.eval()
    summaries: list[tuple[int, str]] = []
    search = search or {}
    beams = search.get("num_beams") or model.generation_config.num_beams or 1
    for batch in _batches(rows, max(1, tokens // beams), accelerator):
        inputs = _inputs([rows[i] for i in batch], collate, accelerator)
        for name in ("labels", "decoder_input_ids", *LOSS_ONLY):
            inputs.pop(name, None)
        with accelerator.autocast():
            outputs = model.generate(**inputs, **search)  # type: ignore[operator]
        beside = {name: [rows[i][name] for i in batch] for name in TEXTS if name in rows.column_names}
        texts = decode(tokenizer, outputs, beside)
        summaries += zip(batch, (shorten(text, section) for text in texts), strict=True)
    return [text for _, text in sorted(gather_object(summaries))]


def shorten(text: str, section: EvaluationSection) -> str:
    """A summary at the length the task allows (DUC: 75 bytes; the paper approximates it by 14 words)."""
    text = text.strip()
    if section.max_words is not None:
        text = cut_words(text, section.max_words)
    return text if section.max_bytes is None else cut_bytes(text, section.max_bytes)


def score_summaries(
    summaries: Sequence[str],
    rows: Any,
    section: EvaluationSection,
    accelerator: Accelerator,
    metrics: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[dict[str, float], dict[str, str]]:
    """The mean of every score of the section's metrics, or of these `metrics`, and the metrics' signatures."""
    references, sources = list(rows["references"]), list(rows["source"])
    card = hook("score")(
        list(summaries),
        references,
        sources=sources,
        metrics=section.metrics if metrics is None else metrics,
        preset=section.preset,
        progress=False,
        distributed=accelerator.num_processes > 1,
    )
    means = {key: float(value) for name in card for key, value in card[name].mean.items()}
    return means, {name: str(card[name].signature) for name in card}


def _inputs(
    rows: list[Mapping[str, Any]], collate: Collate, accelerator: Accelerator
) -> dict[str, torch.Tensor]:
    columns = [{key: row[key] for key in row if key not in TEXT_COLUMNS} for row in rows]
    return {name: tensor.to(accelerator.device) for name, tensor in collate(columns).items()}
