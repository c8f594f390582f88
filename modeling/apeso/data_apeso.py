"""Which tokens of a source belong to salient entities: those that answer a cloze question about its summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from summarily.modeling.pointer_generator.data_pointer_generator import PointerGeneratorData
from summarily.support.cloze.questions import make_cloze

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]


class ApesoData(PointerGeneratorData):
    """`salient_tokens`: 1 for the tokens of salient entities, which are those of the summary that is to be written."""

    padding = {"salient_tokens": 0}
    loss_only = ("salient_tokens",)


def salient_spans(
    source: str, references: str | Sequence[str], names: Sequence[str] | None = None, recognise: Any = None
) -> list[Span]:
    """Where the source mentions, as a whole name, an entity that the references mention.

    Args:
        source: the text to be summarized.
        references: its summary or summaries, whose entities are the answers of the cloze questions.
        names: the entities of both, if they are known; by default they are recognised.
        recognise: what finds names in texts; by default `recognition.recogniser()`.

    Example:
        >>> salient_spans("Bank of Oslo, one of many, fell.", "Bank of Oslo fell.", names=["Bank of Oslo"])
        [(0, 12)]
    """
    cloze = make_cloze(references, source=source, names=names, recognise=recognise)
    return [(start, end) for start, end, entity in cloze.entities.spans(source) if entity in cloze.salient]


def mark(offsets: Sequence[Span], spans: Sequence[Span]) -> list[int]:
    """1 for every token (given by where it starts and ends) that shares a character with a span, else 0.

    Example:
        >>> mark([(0, 4), (5, 7), (8, 12), (0, 0)], [(5, 12)])
        [0, 1, 1, 0]
    """
    return [int(any(start < right and left < end for left, right in spans)) for start, end in offsets]


def carried(offsets: Sequence[Span], values: Sequence[float], others: Sequence[Span]) -> list[float]:
    """The values of one tokenizer's tokens for those of another: the highest of all that share a character, else 0.

    Example:
        >>> carried([(0, 4), (5, 12)], [0.9, 0.2], [(0, 2), (2, 4), (4, 12), (0, 0)])
        [0.9, 0.9, 0.2, 0.0]
    """
    return [
        max(
            (
                value
                for (left, right), value in zip(offsets, values, strict=True)
                if start < right and left < end
            ),
            default=0.0,
        )
        for start, end in others
    ]


def entity_scores(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    other: PreTrainedTokenizerBase,
    sources: Sequence[str],
    prefix: str = "",
    max_length: int | None = None,
) -> torch.Tensor:
    """What an APESO's entity layer says of sources, for the tokens of another model: `entity_scores` of
    `summary_beam_search`, with which any encoder-decoder has the same entity penalty.

    Args:
        model, tokenizer: the APESO.
        other: the tokenizer of the other model.
        sources: texts, without the prefix that the other model reads before them.
        prefix, max_length: of what the other model reads.

    Returns:
        `[batch, tokens]`, padded on the right as the other tokenizer pads.
    """
    import torch

    rows = []
    for source in sources:
        own = tokenizer(source, return_tensors="pt", return_offsets_mapping=True)
        offsets = [(start, end) for start, end in own["offset_mapping"][0].tolist()]
        with torch.no_grad():
            values = model.get_encoder()(own["input_ids"].to(model.device)).entity_attention[0].tolist()
        theirs = other(
            prefix + source,
            truncation=max_length is not None,
            max_length=max_length,
            return_offsets_mapping=True,
        )
        spans = [(start - len(prefix), end - len(prefix)) for start, end in theirs["offset_mapping"]]
        rows.append(torch.tensor(carried(offsets, values, spans)))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def salient_tokens(
    tokenizer: PreTrainedTokenizerBase,
    sources: Sequence[str],
    references: Sequence[str | Sequence[str]],
    max_length: int | None = None,
    recognise: Any = None,
) -> list[list[int]]:
    """Sources' marks, 1 where a token belongs to a salient entity, for the tokens left within `max_length`.

    Only the part of a source that is left is searched for entities.

    Example:
        >>> from summarily.modeling.training.recipe import TokenizerSection
        >>> from summarily.modeling.training.tokenizers import train_tokenizer
        >>> tokenizer = train_tokenizer(["Oslo froze"], TokenizerSection(kind="word", min_frequency=1))
        >>> from summarily.support.cloze.recognition import Mention
        >>> find_oslo = lambda texts: [[Mention("Oslo", "GPE")] if "Oslo" in text else [] for text in texts]
        >>> salient_tokens(tokenizer, ["Today Oslo froze"], ["Oslo froze"], recognise=find_oslo)
        [[0, 1, 0, 0]]
    """
    if recognise is None:
        from summarily.support.cloze.recognition import recogniser

        recognise = recogniser()
    encoding = tokenizer(
        list(sources),
        truncation=max_length is not None,
        max_length=max_length,
        return_offsets_mapping=True,
    )
    offsets = encoding["offset_mapping"]
    kept = [source[: max(end for _, end in row)] for source, row in zip(sources, offsets, strict=True)]
    lists = [[texts] if isinstance(texts, str) else list(texts) for texts in references]
    # All texts at once: the recogniser reads many together, and remembers them for the calls below.
    recognise([*kept, *(text for texts in lists for text in texts)])
    return [
        mark(row, salient_spans(source, texts, recognise=recognise))
        for row, source, texts in zip(offsets, kept, lists, strict=True)
    ]
