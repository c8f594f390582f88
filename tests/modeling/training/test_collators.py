import itertools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.bart.modeling_bart import shift_tokens_right

from summarily.modeling.training.collators import (
    Position,
    SummaryCollator,
    TokenBatches,
    pack,
    share_of,
    shift_right,
)


def test_every_ragged_column_is_padded_with_its_own_value():
    rows = [
        {"input_ids": [5, 0, 7], "global_attention_mask": [1, 0, 0], "labels": [4], "entity": [1, 1, 0]},
        {"input_ids": [8], "global_attention_mask": [1], "labels": [4, 5], "entity": [1]},
    ]
    batch = SummaryCollator(pad_token_id=0, pad_to_multiple_of=4, extra={"entity": 9})(rows)
    assert {name: tensor.tolist() for name, tensor in batch.items()} == {
        "input_ids": [[5, 0, 7, 0], [8, 0, 0, 0]],
        "global_attention_mask": [[1, 0, 0, 0], [1, 0, 0, 0]],
        "labels": [[4, -100], [4, 5]],
        "entity": [[1, 1, 0, 9], [1, 9, 9, 9]],
        "attention_mask": [[1, 1, 1, 0], [1, 0, 0, 0]],  # the 0 inside the text is a token, not padding
    }


def test_left_padding_moves_the_source_only():
    rows = [{"input_ids": [5, 6], "labels": [4]}, {"input_ids": [8], "labels": [4, 5]}]
    batch = SummaryCollator(pad_token_id=0, padding_side="left")(rows)
    assert batch["input_ids"].tolist() == [[5, 6], [0, 8]] and batch["attention_mask"].tolist() == [
        [1, 1],
        [0, 1],
    ]
    assert batch["labels"].tolist() == [[4, -100], [4, 5]]


def test_decoder_inputs_are_those_of_bart():
    labels = torch.tensor([[5, 6, 1, -100], [7, 1, -100, -100]])
    assert torch.equal(shift_right(labels, start=2, padding=0), shift_tokens_right(labels, 0, 2))
    batch = SummaryCollator(pad_token_id=0, decoder_start_token_id=2)([{"input_ids": [3], "labels": [5, 1]}])
    assert batch["decoder_input_ids"].tolist() == [[2, 5]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the batch is empty"),
        ([{"input_ids": []}], "row 0 of the batch has no input_ids"),
        ([{"input_ids": [1], "labels": [1]}, {"input_ids": [1]}], "row 1 of the batch has no 'labels'"),
        ([{"input_ids": [1], "attention_mask": [1, 1]}], "attention_mask has 2 values but input_ids has 1"),
        (
            [{"input_ids": [1], "entity": [1]}],
            "cannot pad the column 'entity'; name its padding in extra={'entity': 0}",
        ),
    ],
)
def test_a_batch_that_cannot_be_padded_is_refused(rows, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SummaryCollator(pad_token_id=0)(rows)


def test_a_collator_needs_a_padding_token_and_a_side():
    with pytest.raises(ValueError, match="pad_token_id is None"):
        SummaryCollator(pad_token_id=None)
    with pytest.raises(ValueError, match="padding_side is 'up'"):
        SummaryCollator(pad_token_id=0, padding_side="up")


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 10)), min_size=1, max_size=60)


def make_rows(lengths):
    return [{"input_ids": [i] * source, "labels": [i] * target} for i, (source, target) in enumerate(lengths)]


def epoch_of(batches):
    rows, position = [], Position()
    endless = batches.start()
    while position != Position(1, 0):
        batch, position = next(endless)
        rows.append(batch)
    return rows


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(10, 200), st.sampled_from([None, 1, 3]), st.integers(1, 20), st.booleans())
def test_an_epoch_is_every_row_once_in_batches_within_the_budget(lengths, tokens, max_examples, pool, stream):
    rows = make_rows(lengths)
    batches = TokenBatches((lambda epoch: rows) if stream else rows, tokens, max_examples, pool)
    epoch = epoch_of(batches)
    assert sorted(row["input_ids"][0] for batch in epoch for row in batch) == list(range(len(rows)))
    for batch in epoch:
        padded = SummaryCollator(pad_token_id=0)(batch)
        size = padded["input_ids"].numel() + padded["labels"].numel()
        assert size <= tokens or len(batch) == 1
        assert max_examples is None or len(batch) <= max_examples


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(0, 25), st.booleans())
def test_batches_go_on_from_any_position(lengths, after, stream):
    rows = make_rows(lengths)
    source = (lambda epoch: rows[epoch % 2 :] + rows[: epoch % 2]) if stream else rows
    whole = list(itertools.islice(TokenBatches(source, 60, pool=7, seed=3).start(), after + 5))
    resumed = TokenBatches(source, 60, pool=7, seed=3).start(whole[after].next)
    assert list(itertools.islice(resumed, 4)) == whole[after + 1 :]


def test_epochs_and_seeds_differ_and_repeat():
    rows = make_rows([(i % 7 + 1, 1) for i in range(50)])
    plan = TokenBatches(rows, 40).plan
    assert plan(0) == TokenBatches(rows, 40).plan(0) != plan(1)
    assert plan(0) != TokenBatches(rows, 40, seed=1).plan(0)


def test_sorting_within_pools_saves_padding():
    rows = make_rows([(i * 37 % 50 + 1, 1) for i in range(200)])

    def padded(batches):
        return sum(len(batch) * max(len(rows[i]["input_ids"]) for i in batch) for batch in batches)

    tokens = sum(len(row["input_ids"]) for row in rows)
    batches = TokenBatches(rows, 400)
    assert padded(batches.plan(0)) < 1.1 * tokens
    assert padded(pack(batches.lengths, range(200), 400)) > 1.5 * tokens


def test_shares_of_processes_add_up_to_the_global_batch():
    rows = list(range(7))
    shares = [share_of(rows, process, 3) for process in range(3)]
    assert sorted(row for share, counts in shares for row in share if counts) == rows
    assert [share_of([5], process, 2) for process in range(2)] == [([5], True), ([5], False)]


def test_packing_never_reorders():
    assert pack([(9, 1), (1, 1), (1, 1)], [0, 1, 2], 10) == [[0], [1, 2]]
    assert pack([(50, 1)], [0], 10) == [[0]]


def test_there_must_be_rows():
    with pytest.raises(ValueError, match="no rows to train on"):
        TokenBatches([], 10)
    with pytest.raises(ValueError, match="the stream had no rows in epoch 0"):
        next(TokenBatches(lambda epoch: [], 10).start())
