"""How likely an encoder-decoder finds a text, given another (Yuan et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from summarily.metrics.encoding import Encoded, Encoder, load_pretrained
from summarily.metrics.encoding.batches import batches
from summarily.support import models
from summarily.support.errors import InputError
from summarily.support.processes import Lock
from summarily.support.shipped import quiet_about_tying


class Pair(NamedTuple):
    """The text that is read and the text whose probability is asked for."""

    source: str
    target: str


@dataclass(frozen=True)
class Likelihood:
    """The log-probability of each token of a target."""

    tokens: list[str]
    log_probabilities: list[float]

    @property
    def mean(self) -> float:
        return sum(self.log_probabilities) / len(self.log_probabilities)


_lock = Lock()


class LikelihoodModel:
    """Log-probabilities of targets; each distinct source is encoded once, whatever the number of its targets."""

    def __init__(self, texts: Encoder):
        # The encoder is used for its tokenizer, limits and options; its own weights are never loaded.
        self.texts = texts
        if not getattr(self.texts.config, "is_encoder_decoder", False):
            raise InputError(
                f"{self.texts.identity} is no encoder-decoder; likelihood needs one, such as BART."
            )
        self.sources_encoded = 0

    @property
    def model(self) -> Any:
        key = ("likelihood", self.texts.resolved, str(self.texts.device), self.texts.dtype)
        return models.get(key, self._load)

    def _load(self) -> Any:
        from transformers import AutoModelForSeq2SeqLM

        options = {"dtype": getattr(torch, self.texts.dtype)}
        with quiet_about_tying():
            model = load_pretrained(AutoModelForSeq2SeqLM, self.texts.resolved, **options)
        return model.eval().requires_grad_(False).to(self.texts.device)

    def __call__(self, pairs: Sequence[Pair], encoded: dict[str, Encoded]) -> dict[Pair, Likelihood]:
        """The likelihood of every distinct pair; `encoded` holds the tokens of all their texts."""
        distinct = sorted(
            dict.fromkeys(pairs), key=lambda pair: (len(encoded[pair.source].ids), pair.source), reverse=True
        )
        found: dict[Pair, Likelihood] = {}
        with _lock, torch.inference_mode():
            for group in self._groups(distinct, encoded):
                sources = list(dict.fromkeys(pair.source for pair in group))
                ids, mask = self._pad([encoded[source] for source in sources])
                states = self.model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
                self.sources_encoded += len(sources)
                place = {source: row for row, source in enumerate(sources)}
                # The states of the sources are repeated for each target, so they count too.
                for batch in batches(group, lambda pair: len(encoded[pair.target]), self.texts.token_budget):
                    rows = torch.tensor([place[pair.source] for pair in batch], device=self.texts.device)
                    targets = [encoded[pair.target] for pair in batch]
                    values = self._log_probabilities(states[rows], mask[rows], targets)
                    for pair, target, value in zip(batch, targets, values, strict=True):
                        found[pair] = Likelihood(target.tokens, value)
        return found

    def _groups(self, pairs: Sequence[Pair], encoded: dict[str, Encoded]) -> Iterator[list[Pair]]:
        """Pairs whose sources fit in one pass of the encoder; all pairs of a source are in one group."""
        group: list[Pair] = []
        sources: dict[str, None] = {}
        for pair in pairs:
            if pair.source not in sources:
                width = len(encoded[next(iter(sources), pair.source)].ids)
                if group and (len(sources) + 1) * width > self.texts.token_budget:
                    yield group
                    group, sources = [], {}
                sources[pair.source] = None
            group.append(pair)
        if group:
            yield group

    def _pad(self, texts: Sequence[Encoded]) -> tuple[torch.Tensor, torch.Tensor]:
        pad = self.texts.tokenizer.pad_token_id
        ids = torch.full((len(texts), max(len(text.ids) for text in texts)), pad)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text.ids)] = torch.tensor(text.ids)
            mask[row, : len(text.ids)] = 1
        return ids.to(self.texts.device), mask.to(self.texts.device)

    def _log_probabilities(
        self, states: torch.Tensor, mask: torch.Tensor, targets: Sequence[Encoded]
    ) -> list[list[float]]:
        labels, label_mask = self._pad(targets)
        start = torch.full_like(labels[:, :1], int(self.model.config.decoder_start_token_id))
        logits = self.model(
            encoder_outputs=(states,),
            attention_mask=mask,
            decoder_input_ids=torch.cat([start, labels[:, :-1]], dim=1),
            use_cache=False,
        ).logits
        chosen = logits.float().log_softmax(dim=-1).gather(2, labels[:, :, None])[:, :, 0]
        lengths = label_mask.sum(dim=1).tolist()
        return [row[:length] for row, length in zip(chosen.tolist(), lengths, strict=True)]
