"""Padding, and batches of a given number of tokens.

>>> collate = SummaryCollator(pad_token_id=0)
>>> batch = collate([{"input_ids": [5, 6], "labels": [7]}, {"input_ids": [5], "labels": [7, 8]}])
>>> batch["input_ids"].tolist(), batch["labels"].tolist()
([[5, 6], [5, 0]], [[7, -100], [7, 8]])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from summarily.modeling.data import PADDING, TEXTS
from summarily.support.errors import InputError

IGNORED_LABEL = -100
_SOURCE_COLUMNS = ("input_ids", "attention_mask", "token_type_ids", *PADDING)
_TARGET_COLUMNS = ("labels", "decoder_input_ids", "decoder_attention_mask")
TEXT_COLUMNS = frozenset({"id", "source", "target", "references", *TEXTS})


@dataclass
class SummaryCollator:
    """Pads every ragged column of a batch with the value that column needs; also serves `Seq2SeqTrainer`.

    `attention_mask` is made from the lengths when rows do not bring one (so a token that happens to equal
    the padding id stays visible), columns of a model family are padded as it says (`modeling/data.py`), and labels with -100.

    Args:
        pad_token_id: pads `input_ids` and `decoder_input_ids`.
        decoder_start_token_id: when given, `decoder_input_ids` are the labels shifted right after it.
        pad_to_multiple_of: round the length of the source up.
        padding_side: "right" or "left", for the source.
        keep_texts: columns of texts to hand on as lists, if rows have them; others are left out.
        extra: further ragged columns and what to pad them with, such as `{"entity_mask": 0}`. Columns as long
            as the labels are padded like them, all others like the source.
    """

    pad_token_id: int
    decoder_start_token_id: int | None = None
    pad_to_multiple_of: int | None = None
    padding_side: str = "right"
    extra: Mapping[str, int] = field(default_factory=dict)
    keep_texts: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.pad_token_id is None:
            raise InputError("pad_token_id is None; give the tokenizer a padding token first.")
        if self.padding_side not in ("right", "left"):
            raise InputError(f"padding_side is {self.padding_side!r}; choose 'right' or 'left'.")

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if not rows:
            raise InputError("the batch is empty; there is nothing to pad.")
        names = [name for name in rows[0] if name not in TEXT_COLUMNS]
        self._check(rows, names)
        multiple = self.pad_to_multiple_of or 1
        width = -(-max(len(row["input_ids"]) for row in rows) // multiple) * multiple
        batch: dict[str, Any] = {name: self._pad(rows, name, width) for name in names}
        batch |= {name: [row[name] for row in rows] for name in self.keep_texts if name in rows[0]}
        if "attention_mask" not in batch:
            batch["attention_mask"] = self._stack([[1] * len(row["input_ids"]) for row in rows], 0, width)
        if self.decoder_start_token_id is not None and "labels" in batch and "decoder_input_ids" not in batch:
            batch["decoder_input_ids"] = shift_right(
                batch["labels"], self.decoder_start_token_id, self.pad_token_id
            )
        return batch

    def _check(self, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
        known = {*_SOURCE_COLUMNS, *_TARGET_COLUMNS, *self.extra}
        for name in names:
            if name not in known:
                raise InputError(
                    f"cannot pad the column {name!r}; name its padding in extra={{{name!r}: 0}}."
                )
        for i, row in enumerate(rows):
            missing = [name for name in names if name not in row]
            if missing:
                raise InputError(f"row {i} of the batch has no {missing[0]!r}, but row 0 has.")
            for name in (n for n in names if n in _SOURCE_COLUMNS):
                if len(row[name]) != len(row["input_ids"]):
                    raise InputError(
                        f"row {i} of the batch: {name} has {len(row[name])} values but input_ids has "
                        f"{len(row['input_ids'])}."
                    )
            if not len(row["input_ids"]):
                raise InputError(f"row {i} of the batch has no input_ids; drop empty sources first.")

    def _pad(self, rows: Sequence[Mapping[str, Any]], name: str, width: int) -> torch.Tensor:
        values = [list(row[name]) for row in rows]
        if name in ("input_ids", "decoder_input_ids"):
            padding = self.pad_token_id
        else:
            padding = IGNORED_LABEL if name == "labels" else {**PADDING, **self.extra}.get(name, 0)
        like_target = name in _TARGET_COLUMNS or (
            name in self.extra
            and all(len(v) == len(row.get("labels", ())) for v, row in zip(values, rows, strict=True))
        )
        if like_target:
            return self._stack(values, padding, max(map(len, values)), side="right")
        return self._stack(values, padding, width)

    def _stack(
        self, values: list[list[int]], padding: int, width: int, side: str | None = None
    ) -> torch.Tensor:
        stacked = torch.full((len(values), width), padding, dtype=torch.long)
        for row, items in zip(stacked, values, strict=True):
            if not items:
                continue
            if (side or self.padding_side) == "right":
                row[: len(items)] = torch.as_tensor(items)
            else:
                row[-len(items) :] = torch.as_tensor(items)
        return stacked


def shift_right(labels: torch.Tensor, start: int, padding: int) -> torch.Tensor:
    """What the decoder reads when it is to predict `labels`.

    Example:
        >>> shift_right(torch.tensor([[5, 6, -100]]), start=2, padding=0).tolist()
        [[2, 5, 6]]
    """
    shifted = torch.cat([labels.new_full((labels.shape[0], 1), start), labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == IGNORED_LABEL, padding)


# --- batches of tokens ------------------------------------------------------------------------------------

Lengths = Sequence[tuple[int, int]]  # source and target tokens of each row


def pack(
    lengths: Lengths, order: Iterable[int], tokens: int, max_examples: int | None = None
) -> list[list[int]]:
    """Cut `order` into batches of at most `tokens` tokens, padding included; a longer row stands alone.

    Example:
        >>> pack([(3, 1), (3, 1), (5, 1)], [0, 1, 2], tokens=8)
        [[0, 1], [2]]
    """
    batches: list[list[int]] = []
    source = target = 0
    for row in order:
        longest = max(source, lengths[row][0]), max(target, lengths[row][1])
        full = not batches or (len(batches[-1]) + 1) * sum(longest) > tokens
        if full or (max_examples and len(batches[-1]) == max_examples):
            batches.append([])
            longest = lengths[row]
        batches[-1].append(row)
        source, target = longest
    return batches


class Position(NamedTuple):
    """A place in the training data: the batch `batch` of the epoch `epoch`, both counted from 0."""

    epoch: int = 0
    batch: int = 0


class Batch(NamedTuple):
    """What one optimizer step reads: the rows of all processes, and where the next batch starts."""

    rows: list[Mapping[str, Any]]
    next: Position


@dataclass
class TokenBatches:
    """Endless, seeded batches of about `tokens` tokens, from any position, the same for any number of processes.

    An epoch is shuffled, cut into pools of `pool` rows, each pool sorted by length and packed, and its batches
    shuffled again: little padding, and every epoch in another order. A batch is the *global* batch of one
    optimizer step; `share_of` gives each process its part, so the number of processes changes nothing.

    Args:
        rows: a `datasets.Dataset` or a list of rows with `input_ids` and `labels`, or, for a stream, a
            function from the epoch to an iterable of them.

    Example:
        >>> rows = [{"input_ids": [1] * n, "labels": [1]} for n in (3, 9, 3, 8)]
        >>> batches = TokenBatches(rows, tokens=20)
        >>> first, second = (batch.rows for batch, _ in zip(batches.start(), range(2)))
        >>> sorted(len(row["input_ids"]) for row in first + second)
        [3, 3, 8, 9]
    """

    rows: Any
    tokens: int
    max_examples: int | None = None
    pool: int = 8192
    seed: int = 0

    def __post_init__(self) -> None:
        self.lengths = None if callable(self.rows) else row_lengths(self.rows)
        if self.lengths is not None and not self.lengths:
            raise InputError("there are no rows to train on.")

    def start(self, position: Position = Position()) -> Iterator[Batch]:  # noqa: B008
        """Batches from `position` on, for ever."""
        epoch, skipped = position
        while True:
            batches = self._epoch(epoch) if self.lengths is not None else self._stream(epoch)
            for i, (rows, last) in enumerate(_marking_last(batches)):
                if i >= skipped:
                    following = Position(epoch + 1, 0) if last else Position(epoch, i + 1)
                    yield Batch(rows() if callable(rows) else rows, following)
            epoch, skipped = epoch + 1, 0

    def plan(self, epoch: int) -> list[list[int]]:
        """The row numbers of every batch of an epoch."""
        assert self.lengths is not None, "a stream has no plan"
        generator = np.random.default_rng((self.seed, epoch))
        order = generator.permutation(len(self.lengths))
        pools = (order[i : i + self.pool] for i in range(0, len(order), self.pool))
        return [batch for pool in pools for batch in self._pack(self.lengths, pool, generator)]

    def _pack(self, lengths: Lengths, pool: Iterable[int], generator: np.random.Generator) -> list[list[int]]:
        # A stable sort keeps the shuffled order among rows of equal length.
        ordered = sorted(map(int, pool), key=lambda row: lengths[row])
        batches = pack(lengths, ordered, self.tokens, self.max_examples)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _epoch(self, epoch: int) -> Iterator[Callable[[], list[Mapping[str, Any]]]]:
        # Rows are fetched only when their turn has come: skipping to a position costs nothing.
        fetch = getattr(self.rows, "__getitems__", lambda batch: [self.rows[row] for row in batch])
        for batch in self.plan(epoch):
            yield functools.partial(fetch, batch)

    def _stream(self, epoch: int) -> Iterator[list[Mapping[str, Any]]]:
        generator = np.random.default_rng((self.seed, epoch))
        empty = True
        for pool in _chunks(self.rows(epoch), self.pool):
            empty = False
            for batch in self._pack(row_lengths(pool), generator.permutation(len(pool)), generator):
                yield [pool[row] for row in batch]
        if empty:
            raise InputError(f"the stream had no rows in epoch {epoch}.")


def row_lengths(rows: Any) -> list[tuple[int, int]]:
    """Source and target tokens of each row."""
    if hasattr(rows, "select_columns"):
        rows = rows.select_columns(["input_ids", "labels"]).with_format("arrow")
        table = rows[:]
        import pyarrow.compute as arrow

        columns = (arrow.list_value_length(table[name]).to_pylist() for name in ("input_ids", "labels"))
        return list(zip(*columns, strict=True))
    return [(len(row["input_ids"]), len(row["labels"])) for row in rows]


def share_of(rows: Sequence[Any], process: int, processes: int) -> tuple[list[Any], bool]:
    """The rows of one process, and whether they count.

    Every process must run a backward pass: one that has no row of its own borrows the first, with weight 0.

    Example:
        >>> share_of(["a", "b", "c"], 1, 2), share_of(["a"], 1, 2)
        ((['b'], True), (['a'], False))
    """
    mine = list(rows[process::processes])
    return (mine, True) if mine else ([rows[0]], False)


def _chunks(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _marking_last(items: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    iterator = iter(items)
    try:
        current = next(iterator)
    except StopIteration:
        return
    for following in iterator:
        yield current, False
        current = following
    yield current, True
