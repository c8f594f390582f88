from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarily.metrics.rouge import lcs
from summarily.metrics.rouge.lcs import Columns, lcs_length

words = st.lists(st.sampled_from("abcd"), max_size=25)


def table(first, second):
    """The textbook table, as a reference for the bit-vectors."""
    rows = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first, 1):
        for j, b in enumerate(second, 1):
            rows[i][j] = rows[i - 1][j - 1] + 1 if a == b else max(rows[i - 1][j], rows[i][j - 1])
    return rows


def walk(first, second):
    """ROUGE's way back through the table: (index, column) of each match."""
    rows, i, j, found = table(first, second), len(first), len(second), []
    while i and j:
        if first[i - 1] == second[j - 1]:
            i, j = i - 1, j - 1
            found.append((i, j))
        elif rows[i][j - 1] > rows[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return found[::-1]


@given(words, words)
def test_length_is_that_of_the_table(first, second):
    assert lcs_length(first, second) == table(first, second)[-1][-1]


@given(words, words)
def test_alignment_with_one_line_is_the_walk_through_the_table(first, second):
    assert Columns([second]).alignment(first) == [(i, [j]) for i, j in walk(first, second)]


@settings(deadline=None)
@given(words, st.lists(words, max_size=6))
def test_union_is_that_of_the_walks_with_each_line(first, lines):
    expected, start = {}, 0
    for line in lines:
        for i, j in walk(first, line):
            expected.setdefault(i, []).append(start + j)
        start += len(line)
    columns = Columns(lines)
    assert columns.alignment(first) == sorted(expected.items())
    assert columns.union_lcs(first) == sorted(expected)


@pytest.mark.parametrize("stored", [0, 1, 20])
@settings(deadline=None)
@given(first=words, lines=st.lists(words, max_size=4))
def test_nothing_changes_when_rows_and_masks_do_not_fit_into_memory(stored, first, lines):
    expected = Columns(lines).union_lcs(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lcs, "_STORED_BYTES", stored)
        assert Columns(lines).union_lcs(first) == expected


@pytest.mark.parametrize("repeats", [3, 400])
def test_length_of_long_texts(repeats):
    # Above 1,024 words masks are built another way; "x" * n against itself in between is n.
    first = ["a", *["x", "y"] * repeats, "b"]
    second = ["b", *["x", "y", "z"] * repeats, "a"]
    assert lcs_length(first, second) == 2 * repeats
    assert lcs_length(second, first) == 2 * repeats
