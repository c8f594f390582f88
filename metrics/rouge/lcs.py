"""Longest common subsequences by bit-vectors: a row of the table is one integer.

The table t[i][j] holds the length of the longest common subsequence (LCS) of the first i words of one text
and the first j of the other. Along a row it grows by 0 or 1, so a row is stored as an integer whose bit j-1
is *zero* where t[i][j] = t[i][j-1] + 1, and the next row follows in four operations on integers (Hyyrö,
"Bit-Parallel LCS-length Computation Revisited", 2004).

Among equally long subsequences, ROUGE takes the one found by walking back from the last cell: through a
match if the two words are equal, else up if t[i-1][j] >= t[i][j-1], else left. For the walk, all that has to
be known of the table is where it grows from one row to the next, and that is the difference of two rows'
integers (see `Columns._growth`).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Iterator, Sequence

_STORED_BYTES = 32 * 2**20
"""Rows and word masks kept in memory; what goes beyond is computed again when it is needed."""


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    Example:
        >>> lcs_length("the cat sat on the mat".split(), "the mat the cat sat on".split())
        4
    """
    if first == second:
        return len(first)
    rows, columns = (first, second) if len(first) <= len(second) else (second, first)
    masks, known = _masks(columns)
    all_columns = (1 << len(columns)) - 1
    row = all_columns
    for word in rows:
        if word in known:
            matches = row & masks[word]
            # Carries out of the last column pile up above it, where they do no harm.
            row = (row + matches) | (row - matches)
    return len(columns) - (row & all_columns).bit_count()


def _masks(words: Sequence[str]) -> tuple[dict[str, int], Collection[str]]:
    """For each word the integer with a bit set wherever it stands, and which words there are."""
    if len(words) > 1024:
        masks = _Masks(words, range(len(words)))
        return masks, masks.positions
    few: dict[str, int] = {}
    bit = 1
    for word in words:
        few[word] = few.get(word, 0) | bit
        bit <<= 1
    return few, few


class _Masks(dict[str, int]):
    """The masks of a long text, each built when it is first asked for, and kept while there is room."""

    def __init__(self, words: Sequence[str], positions: Sequence[int]):
        self.positions: dict[str, list[int]] = {}
        for word, position in zip(words, positions, strict=True):
            if word in self.positions:
                self.positions[word].append(position)
            else:
                self.positions[word] = [position]
        self.bytes_left = _STORED_BYTES

    def __missing__(self, word: str) -> int:
        positions = self.positions[word]
        mask = 0
        if len(positions) <= 8:
            for position in positions:
                mask |= 1 << position
        else:
            bits = bytearray(positions[-1] // 8 + 1)
            for position in positions:
                bits[position >> 3] |= 1 << (position & 7)
            mask = int.from_bytes(bits, "little")
        self.bytes_left -= positions[-1] // 8
        if self.bytes_left > 0:
            self[word] = mask
        return mask


class Columns:
    """The lines of one text side by side, to be compared with lines of another text all at once.

    Every line takes one bit per word and one more, always zero, that stops carries from running into the
    next line.

    Example:
        >>> columns = Columns([["a", "c"], ["b"]])
        >>> columns.union_lcs(["a", "b", "c", "d"])
        [0, 1, 2]
    """

    def __init__(self, lines: Collection[Sequence[str]]):
        words: list[str] = []
        positions: list[int] = []
        starts: list[int] = []
        start = 0
        for line in lines:
            starts.append(start)
            words += line
            positions += range(start, start + len(line))
            start += len(line) + 1
        self.width = start
        self.starts = starts
        self.masks = _Masks(words, positions)
        self.lengths = [len(line) for line in lines]
        self.all = self._shifted_mask(0)
        longest = max(self.lengths, default=0)
        shifts = [1 << k for k in range(max(longest - 1, 1).bit_length())]
        self.shifts = [(shift, self._shifted_mask(shift)) for shift in shifts]

    def _shifted_mask(self, shift: int) -> int:
        """The bits that have another bit of the same line `shift` places above them."""
        pieces = ["0" * (min(shift, n) + 1) + "1" * (n - shift) for n in reversed(self.lengths)]
        return int("".join(pieces) or "0", 2)

    def _fill_down(self, bits: int) -> int:
        """In every line, set all bits below the highest one that is set."""
        if len(self.lengths) == 1:
            return (1 << bits.bit_length()) - 1
        for shift, mask in self.shifts:
            bits |= bits >> shift & mask
        return bits

    def _growth(self, words: Sequence[str]) -> Iterator[int]:
        """For the rows of `words`, last row first: the columns in which t[i][j] = t[i-1][j] + 1.

        A zero of row i-1 that moves from bit q down to bit p makes the table grow in columns p to q-1, the
        bits of 2**q - 2**p. Zeros that stay cancel out, so all of them are the bits of row[i] - row[i-1].
        Rows that do not fit into memory are computed again from the last one kept, sqrt(n) of n being kept.
        """
        keep_all = len(words) * self.width <= 8 * _STORED_BYTES
        step = len(words) if keep_all else math.isqrt(len(words)) + 1
        masks, everything = self.masks, self.all
        starts = range(0, len(words), step)
        row = everything
        kept = [row]
        for start in starts[:-1]:
            for word in words[start : start + step]:
                matches = row & masks[word]
                row = ((row + matches) | (row - matches)) & everything
            kept.append(row)
        for start in reversed(starts):
            row = kept.pop()
            grown = []
            for word in words[start : start + step]:
                matches = row & masks[word]
                following = (row + matches) | (row - matches)
                grown.append(following - row)
                row = following & everything
            yield from reversed(grown)

    def walk(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """The walks back through the tables of `words` with every line, all in step.

        Yields, last first, each index of `words` that is in the LCS with some line, and the bits of the
        columns it is matched with.
        """
        indices = [i for i, word in enumerate(words) if word in self.masks.positions]
        if not indices:
            return
        known = [words[i] for i in indices]
        masks, everything = self.masks, self.all
        one, below = self.shifts[0]
        assert one == 1
        reach = everything  # per line, the columns up to where its walk stands
        for i, word, grown in zip(reversed(indices), reversed(known), self._growth(known), strict=True):
            mask = masks[word]
            # Left over columns that neither match nor have the value of the row above.
            reach = self._fill_down(reach & (mask | (everything ^ grown)))
            matched = (reach ^ (reach >> 1 & below)) & mask
            if matched:
                yield i, matched
                reach ^= matched
            if not reach:
                return

    def union_lcs(self, words: Sequence[str]) -> list[int]:
        """The indices of `words` that are in its LCS with at least one of the lines, in order."""
        return [i for i, _ in self.walk(words)][::-1]

    def alignment(self, words: Sequence[str]) -> list[tuple[int, list[int]]]:
        """As `union_lcs`, with the places (counted over all lines) that each word is matched with."""
        return [(i, [self._place(bit) for bit in _bits(matched)]) for i, matched in self.walk(words)][::-1]

    def _place(self, bit: int) -> int:
        lines_before = bisect.bisect_right(self.starts, bit) - 1
        return bit - lines_before


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
