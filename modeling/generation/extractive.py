"""Summaries made of a text's own sentences: baselines that are hard to beat on news, and tools that invent nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from summarily.modeling.generation.summarizer import LONG, Summarizer
from summarily.support import models
from summarily.support.errors import InputError
from summarily.support.inputs import checked_text, rows_of
from summarily.support.progress import follow, without_bars
from summarily.support.text import sentences as sentences_of
from summarily.support.weights import resolve

SENTENCES = 3
"""Of a summary, as lead-3 has them."""
_REPETITION = 0.5
"""How much a sentence loses by resembling one that is already chosen."""


class ExtractiveSummarizer(Summarizer):
    """`Summarizer("lead")`: the first sentences. `Summarizer("central")`: those most like all the others.

    How alike two sentences are is the cosine of their embeddings by MiniLM (mean of the words, of the `offline` extra);
    a sentence is central if it is like the whole text, less what it repeats of those already chosen. Sentences keep the
    order of the text, and a text of any length is read whole.

    Example:
        >>> summarize = Summarizer("lead")
        >>> summarize("It rained. It poured. It stopped. Then it snowed.", sentences=2)
        'It rained. It poured.'
    """

    def __init__(self, checkpoint: str, *, device: str | None = None, **others: Any):
        for name, value in others.items():
            if value:
                raise InputError(f"{checkpoint} has no weights of its own, so there is no {name} to choose.")
        if device is not None and checkpoint == "lead":
            raise InputError("lead copies the first sentences; it runs on no device.")
        self.name, self.device = checkpoint, device
        if checkpoint == "central":
            resolve("minilm")  # what is missing should be said now, not after the texts are read

    @property
    def parameters(self) -> int:
        """Of the encoder; 0 for lead, which has none."""
        return (
            sum(weight.numel() for weight in self._encoder()[0].parameters()) if self.name == "central" else 0
        )

    @property
    def source_limit(self) -> None:
        """A text of any length is read."""
        return None

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        sentences: int = SENTENCES,
        max_length: int | None = None,
        batch_size: int = 32,
        long: str = "truncate",
        progress: bool | None = None,
        **others: Any,
    ) -> Any:
        """Summarize one text (gives a str) or several (gives a list, in their order).

        Args:
            texts: the texts; a blank text has a blank summary.
            sentences: how many to take.
            max_length: of a summary, in words; one sentence is taken in any case.
            batch_size: sentences that are embedded together.
            long: as for any `Summarizer`; no text is too long for this one.
            progress: show a progress bar; by default for more than 32 texts.
        """
        if others:
            raise InputError(
                f"{self.name} copies sentences and generates nothing; it takes no {next(iter(others))}."
            )
        if long not in LONG:
            raise InputError(f"long={long!r} is unknown; choose one of {', '.join(LONG)}.")
        for option, value in (
            ("sentences", sentences),
            ("max_length", max_length),
            ("batch_size", batch_size),
        ):
            if value is not None and value < 1:
                raise InputError(f"{option}={value} must be at least 1.")
        rows = [texts] if isinstance(texts, str) else rows_of("texts", texts)
        documents = [checked_text(f"texts[{row}]", text) for row, text in enumerate(rows)]
        show = False if progress is None and len(documents) <= 32 else progress
        summaries = []
        with follow(len(documents), self.name, " texts", show) as work:
            for text in documents:
                summaries.append(self._summary(text, sentences, max_length, batch_size))
                work.update()
        return summaries[0] if isinstance(texts, str) else summaries

    def _summary(self, text: str, count: int, max_length: int | None, batch_size: int) -> str:
        found = [" ".join(sentence.split()) for sentence in sentences_of(text)]
        if not found:
            return ""
        if self.name == "lead" or len(found) <= count:
            order = list(range(min(count, len(found))))
        else:
            order = most_central(self._embeddings(found, batch_size), count)
        chosen: list[int] = []
        words = 0
        for place in order:
            words += len(found[place].split())
            if chosen and max_length is not None and words > max_length:
                break
            chosen.append(place)
        return " ".join(found[place] for place in sorted(chosen))

    def _embeddings(self, texts: Sequence[str], batch_size: int) -> np.ndarray:
        """One row of length 1 for each text."""
        import torch

        model, tokenizer = self._encoder()
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        rows = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
        for first in range(0, len(order), batch_size):
            places = order[first : first + batch_size]
            batch = tokenizer(
                [texts[place] for place in places],
                padding=True,
                truncation=True,
                max_length=256,
                return_tensors="pt",
            ).to(model.device)
            with torch.inference_mode():
                states = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            mean = (states * mask).sum(1) / mask.sum(1)
            rows[places] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
        return rows

    def _encoder(self) -> tuple[Any, Any]:
        found = resolve("minilm")

        def load() -> tuple[Any, Any]:
            from transformers import AutoModel, AutoTokenizer

            options = {"revision": found.revision}
            with without_bars():
                model = AutoModel.from_pretrained(found.path_or_id, use_safetensors=True, **options)
            return model.to(self.device or "cpu").eval(), AutoTokenizer.from_pretrained(
                found.path_or_id, **options
            )

        return models.get(("central", found, self.device), load)


def most_central(embeddings: np.ndarray, count: int) -> list[int]:
    """The rows that are most like all rows and least like each other, best first.

    Example:
        >>> rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> most_central(rows, 2)
        [2, 0]
    """
    n = len(embeddings)
    # The mean cosine with the others, without a matrix of all pairs: a book has many thousand sentences.
    centrality = (embeddings @ embeddings.sum(0) - 1) / max(n - 1, 1)
    chosen: list[int] = []
    likest = np.zeros(n)
    for _ in range(min(count, n)):
        value = centrality - _REPETITION * likest
        value[chosen] = -np.inf
        best = int(np.argmax(np.round(value, 6)))  # equal sentences: the first, on every machine
        chosen.append(best)
        likest = np.maximum(likest, embeddings @ embeddings[best])
    return chosen
