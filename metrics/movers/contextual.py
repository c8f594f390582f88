"""Points from an encoder, which sees words in their context."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from summarily.metrics.movers.points import Embedded, Embedder, Sentence
from summarily.metrics.options import EncoderOptions
from summarily.support import text as text_rules
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from summarily.metrics.encoding import Encoded, Request


class ContextualEmbedder(Embedder):
    """Words in their context: the mean of the layers, then of a word's pieces. Each token is its own type.

    Args:
        reading: the encoder.
        layers: the layers whose mean is taken; by default the last three.
        context: "sentence" encodes each sentence on its own, "text" the whole text, up to the model's limit.
        stop_words: words to leave out after encoding.
        max_words: a text is cut after the sentence in which it passes this many words ("sentence" only).
    """

    def __init__(
        self,
        reading: EncoderOptions,
        layers: Sequence[int] | None,
        context: str,
        stop_words: frozenset[str],
        max_words: int,
    ):
        self.reading = reading
        self.asked_layers = layers
        self.context = context
        self.stop_words = stop_words
        self.max_words = max_words

    @property
    def layers(self) -> list[int]:
        shared = self.reading.encoder
        if self.asked_layers is None:
            return shared.last_layers(3)
        return sorted({shared.layer(layer) for layer in self.asked_layers})

    def check(self) -> None:
        self.reading.check()

    def signature_fields(self) -> dict[str, Any]:
        shared = self.reading.encoder
        return {
            "model": shared.identity,
            "layers": self.layers,
            "context": self.context,
            "tokenizer": shared.tokenizer_name,
            "truncation": shared.max_length,
            "dtype": shared.unusual_dtype,
        }

    def requests(self, distinct: Collection[str]) -> list[Request]:
        from summarily.metrics.encoding import Request

        parts = dict.fromkeys(part for text in distinct for part, _ in self._parts(text)[0])
        return [Request(self.reading.encoder, list(parts), self.layers)]

    def _parts(self, text: str) -> tuple[list[tuple[str, int]], bool]:
        """What is encoded of a text, each with the number of its kept words, and whether it was cut."""
        if self.context == "text":
            return [(text, 0)], False
        parts: list[tuple[str, int]] = []
        total = 0
        for sentence in text_rules.sentences(text):
            if total >= self.max_words:
                return parts, True
            size = sum(word not in self.stop_words for word in text_rules.word_texts(sentence))
            if size:
                parts.append((sentence, size))
                total += size
        return parts, False

    def embed(self, distinct: Collection[str]) -> dict[str, Embedded]:
        shared, layers = self.reading.encoder, self.layers
        result = {}
        for text in distinct:
            parts, cut = self._parts(text)
            encoded = shared.encode([part for part, _ in parts], layers)
            sentences = [
                sentence
                for (part, _), states in zip(parts, encoded, strict=True)
                for sentence in self._sentences(part, states, layers)
            ]
            result[text] = Embedded(sentences, 0, cut or any(states.truncated for states in encoded))
        return result

    def _sentences(self, part: str, encoded: Encoded, layers: Sequence[int]) -> Iterable[Sentence]:
        """The sentences of an encoded part, which is one sentence or a text of several."""
        words = [word for word in text_rules.words(part) if word.text not in self.stop_words]
        words, points = _word_points(words, encoded, layers)
        spans = [(0, len(part))] if self.context == "sentence" else text_rules.sentence_spans(part)
        starts = np.array([word.start for word in words])
        for start, end in spans:
            first, last = np.searchsorted(starts, [start, end])
            if last > first:
                own = points[first:last]
                keys: list[Hashable] = [point.tobytes() for point in own]
                names = dict(zip(keys, (word.text for word in words[first:last]), strict=True))
                ones = np.ones(len(own), np.int64)
                yield Sentence(part[start:end], keys, ones, own, len(own), names.__getitem__)


def _word_points(
    words: list[text_rules.Word], encoded: Encoded, layers: Sequence[int]
) -> tuple[list[text_rules.Word], NDArray[np.float64]]:
    """The words that have pieces (the others were cut off), and the mean of the pieces of each."""
    import torch

    if encoded.offsets is None:
        raise InputError("contextual embeddings need a fast tokenizer, which knows where its tokens stand.")
    states = torch.stack([encoded.states[layer] for layer in layers]).to(torch.float64).mean(0).cpu().numpy()
    if not words:
        return [], states[:0]
    # A piece belongs to the word that its last character is in; some pieces begin with a space.
    ends = np.array([end for _, end in encoded.offsets]) - 1
    ends[np.array(encoded.special)] = -1
    place = np.searchsorted([word.start for word in words], ends, side="right") - 1
    inside = (place >= 0) & (ends < np.array([word.end for word in words])[place])
    sums = np.zeros((len(words), states.shape[1]))
    np.add.at(sums, place[inside], states[inside])
    pieces = np.bincount(place[inside], minlength=len(words))
    found = pieces.nonzero()[0]
    return [words[i] for i in found], sums[found] / pieces[found, None]
