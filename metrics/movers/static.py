"""Points from word vectors that do not depend on the context."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np

from summarily.metrics.movers.points import Embedded, Embedder, Sentence
from summarily.support import text as text_rules
from summarily.support import vectors as word_vectors


class StaticEmbedder(Embedder):
    """Word vectors that do not depend on the context.

    Args:
        name: which vectors (see `vectors.load`).
        stop_words: words to leave out.
        out_of_vocabulary: give words without a vector the "zero" vector, as the paper, or "drop" them.
        split: whether the sentences matter; if not, the text is taken as one.

    Example:
        >>> embedded = StaticEmbedder("glove-6b-50d", frozenset({"the"})).embed(["The cat. The cat!"])
        >>> [sentence.words for sentence in embedded["The cat. The cat!"].sentences]
        [['cat'], ['cat']]
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        stop_words: frozenset[str],
        out_of_vocabulary: str = "zero",
        split: bool = True,
    ):
        self.name = name
        self.stop_words = stop_words
        self.out_of_vocabulary = out_of_vocabulary
        self.split = split

    @cached_property
    def _source(self) -> word_vectors.Source:
        """Found and verified once in the life of the metric."""
        return word_vectors.Source.of(self.name)

    @property
    def vectors(self) -> word_vectors.Vectors:
        return self._source.load()

    def check(self) -> None:
        word_vectors.check(self.name)

    def signature_fields(self) -> dict[str, Any]:
        return {"vectors": self.vectors.identity, "out_of_vocabulary": self.out_of_vocabulary}

    def embed(self, distinct: Collection[str]) -> dict[str, Embedded]:
        """All texts at once: a loop over numpy calls for each text would cost more than the transport."""
        parts = {text: text_rules.sentences(text) if self.split else [text] for text in distinct}
        sentences, missing = self._embed([part for text in parts for part in parts[text]])
        result = {}
        for text, own in parts.items():
            kept = [sentence for sentence in islice(sentences, len(own)) if sentence is not None]
            lost = sum(islice(missing, len(own)))
            is_known = not lost or any(sentence.points.any() for sentence in kept)
            result[text] = Embedded(kept, lost, is_known=is_known)
        return result

    def _embed(self, parts: Sequence[str]) -> tuple[Iterator[Sentence | None], Iterator[int]]:
        """For each part its sentence, None if no word is left, and how many words have no vector."""
        table = self.vectors
        stop_words, find = self.stop_words, table.find
        # A word is known by its row; one without a vector, by a number beyond all rows.
        numbers: dict[str, int] = {}
        flat: list[int] = []
        sizes, missing = [], []
        for part in parts:
            words = [word for word in text_rules.word_texts(part) if word not in stop_words]
            rows = find(words)
            lost = rows.count(-1)
            if lost and self.out_of_vocabulary == "drop":
                rows = [row for row in rows if row != -1]
            elif lost:
                for i, word in enumerate(words):
                    if rows[i] == -1:
                        rows[i] = numbers.setdefault(word, len(table.matrix) + len(numbers))
            flat += rows
            sizes.append(len(rows))
            missing.append(lost)
        return self._counted(parts, flat, sizes, list(numbers), table), iter(missing)

    @staticmethod
    def _counted(
        parts: Sequence[str],
        flat: list[int],
        sizes: list[int],
        unknown: list[str],
        table: word_vectors.Vectors,
    ) -> Iterator[Sentence | None]:
        """Sentences with each of their words once, in the order of the rows: any order of words gives the same."""
        span = len(table.matrix) + len(unknown)
        part_of = np.repeat(np.arange(len(parts)), sizes)
        codes, counts = np.unique(part_of * span + np.array(flat, np.int64), return_counts=True)
        part_of, rows = np.divmod(codes, span)
        starts = np.searchsorted(part_of, np.arange(len(parts) + 1)).tolist()
        known, found = table.words, len(table.matrix)
        keys = rows.tolist()

        def name(row: int) -> str:
            return known[row] if row < found else unknown[row - found]

        rows[rows >= found] = -1
        points = table.take(rows).astype(np.float64)
        for part, size, (start, end) in zip(parts, sizes, pairwise(starts), strict=True):
            yield (
                Sentence(part, keys[start:end], counts[start:end], points[start:end], size, name)
                if size
                else None
            )
