"""The encoder itself, one for every configuration."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from summarily.metrics.encoding.batches import batches
from summarily.metrics.encoding.cache import StateCache
from summarily.metrics.encoding.encoded import Encoded, States
from summarily.metrics.encoding.loading import default_device, load_pretrained
from summarily.metrics.encoding.stack import Stack
from summarily.metrics.encoding.tokens import Tokens
from summarily.metrics.options import DTYPES, at_least, one_of
from summarily.support import models, weights
from summarily.support.errors import InputError
from summarily.support.files import write_atomically
from summarily.support.processes import Lock

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKEN_BUDGET = {"cpu": 2048, "cuda": 16384, "mps": 8192}
"""Padded tokens in one forward pass; a CPU is fastest while a batch fits in its caches."""
CACHE_BYTES = 512 * 2**20
"""Bytes of token vectors kept for metrics that come later."""


@dataclass(frozen=True)
class Request:
    """An encoder pass that a metric will want (see `Metric.requests`)."""

    encoder: Encoder
    texts: Sequence[str]
    layers: Sequence[int]


# --- the shared instances ---------------------------------------------------------------------------------


def encoder(
    model: str | os.PathLike[str] = "minilm",
    revision: str | None = None,
    device: str | torch.device | None = None,
    max_length: int | None = None,
    *,
    side: str = "encoder",
    prefix_space: bool = False,
    dtype: str = "float32",
    token_budget: int | None = None,
    cache_bytes: int = CACHE_BYTES,
    cache_folder: str | os.PathLike[str] | None = None,
) -> Encoder:
    """The encoder of this configuration, one per process.

    Args:
        model: a path, a pinned name or a Hub id (see `weights.resolve`).
        revision: of a Hub model.
        device: by default CUDA, else MPS, else the CPU.
        max_length: tokens kept of a text, special tokens included; by default the model's limit.
        side: "encoder", or "decoder" of an encoder-decoder whose decoder is fed the same text.
        prefix_space: put a space before the text; byte-level tokenizers (RoBERTa, BART) then treat the first
            word like the others, as `bert_score` does with the slow ones.
        dtype: of the model; "float32", "bfloat16" or "float16". Vectors are returned in float32.
        token_budget: padded tokens in one forward pass; by default what suits the device.
        cache_bytes: bytes of vectors kept in memory for whoever asks next.
        cache_folder: keep vectors on disk too; safe to share between processes.

    Example:
        >>> encoded = encoder().encode(["a cat"], layers=[5])[0]
        >>> encoded.tokens, tuple(encoded.states[5].shape)
        (['[CLS]', 'a', 'cat', '[SEP]'], (4, 384))
    """
    resolved = weights.resolve(model, revision)
    chosen = torch.device(device) if device is not None else default_device()
    if token_budget is None:
        token_budget = TOKEN_BUDGET.get(chosen.type, 2048)
    folder = None if cache_folder is None else os.path.abspath(os.path.expanduser(cache_folder))
    options: dict[str, Any] = {
        "max_length": max_length,
        "side": side,
        "prefix_space": bool(prefix_space),
        "dtype": dtype,
        "token_budget": token_budget,
        "cache_bytes": cache_bytes,
        "cache_folder": folder,
    }
    key = ("encoder", resolved, str(chosen), *options.values())
    return models.get(key, lambda: Encoder(str(model), resolved, chosen, **options))


def forget() -> None:
    """Drop the vectors that all encoders of this process keep in memory; the models stay loaded."""
    for shared in models.values():
        if isinstance(shared, Encoder):
            shared.clear()


# --- the encoder ------------------------------------------------------------------------------------------


class Encoder:
    """Turns texts into token vectors; see `encoder` for the options. Safe to call from several threads."""

    def __init__(
        self,
        name: str,
        resolved: weights.Resolved,
        device: torch.device,
        *,
        max_length: int | None = None,
        side: str = "encoder",
        prefix_space: bool = False,
        dtype: str = "float32",
        token_budget: int = 2048,
        cache_bytes: int = CACHE_BYTES,
        cache_folder: str | None = None,
    ):
        one_of("side", side, ("encoder", "decoder"))
        one_of("dtype", dtype, DTYPES)
        at_least("token_budget", token_budget)
        self.name = name
        self.resolved = resolved
        self.device = device
        self.side = side
        self.prefix_space = prefix_space
        self.dtype = dtype
        self.token_budget = token_budget
        self.forward_passes = 0
        """How many texts went through the model so far."""
        self._asked_max_length = max_length
        self._lock = Lock()
        self._memory = StateCache(cache_bytes)
        self._disk = None if cache_folder is None else Path(cache_folder)
        self._tokens: Tokens | None = None
        self._config: Any = None

    @property
    def identity(self) -> str:
        """The weights' name for a signature."""
        return self.resolved.identity

    @property
    def unusual_dtype(self) -> str | None:
        """For a signature, which names no "float32"."""
        return None if self.dtype == "float32" else self.dtype

    @property
    def config(self) -> Any:
        if self._config is None:
            from transformers import AutoConfig

            self._config = load_pretrained(AutoConfig, self.resolved)
        return self._config

    @property
    def num_layers(self) -> int:
        names = ("decoder_layers", "num_decoder_layers") if self.side == "decoder" else ()
        found = (getattr(self.config, name, None) for name in (*names, "num_hidden_layers", "num_layers"))
        return int(next(number for number in found if number is not None))

    @property
    def hidden_size(self) -> int:
        return int(self.config.hidden_size)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self._tokenization().tokenizer

    @property
    def tokenizer_name(self) -> str:
        """The class of the tokenizer and whether it is a fast one."""
        return self._tokenization().name

    @property
    def pieces_are_marked(self) -> bool:
        """Whether tokens that continue a word start with "##"."""
        return self._tokenization().pieces_are_marked

    @property
    def max_length(self) -> int:
        """Tokens kept of a text, special tokens included."""
        return self._tokenization().max_length

    @property
    def model(self) -> PreTrainedModel:
        """The loaded model, for reading only: it is shared."""
        return self._stack.model

    def layer(self, layer: int) -> int:
        """A layer counted from the first (0 to num_layers) or, if negative, from the last (-1)."""
        number = self.num_layers + 1 + layer if layer < 0 else layer
        if not 0 <= number <= self.num_layers:
            raise InputError(
                f"layer {layer} does not exist: {self.identity} has layers 0 to {self.num_layers}."
            )
        return number

    def last_layers(self, count: int) -> list[int]:
        """The last `count` layers, or all of them (not the embeddings) if there are fewer."""
        return list(range(max(1, self.num_layers - count + 1), self.num_layers + 1))

    def tokenize(self, texts: Iterable[str]) -> list[Encoded]:
        """The texts' tokens, without states; nothing is kept."""
        with self._lock:
            return [self._tokenization()(text) for text in texts]

    def encode(self, texts: Sequence[str], layers: Sequence[int]) -> list[Encoded]:
        """Token vectors of each text, in the order of the texts."""
        wanted = frozenset(self.layer(layer) for layer in layers)
        if not wanted:
            raise InputError("layers is empty; name at least one.")
        found: dict[str, Encoded] = {}
        with self._lock:
            for text in texts:
                if text not in found and (hit := self._memory.get(text, wanted)) is not None:
                    found[text] = hit
            missing = [text for text in dict.fromkeys(texts) if text not in found]
            for text, encoded in self._compute(missing, wanted):
                found[text] = encoded
        return [found[text] for text in texts]

    def prefetch(self, texts: Sequence[str], layers: Sequence[int]) -> None:
        """Encode now what will be asked for later."""
        self.encode(texts, layers)

    def clear(self) -> None:
        """Forget the vectors kept in memory."""
        with self._lock:
            self._memory.clear()

    def __repr__(self) -> str:
        return f"Encoder({self.identity!r}, side={self.side!r}, device={str(self.device)!r})"

    def __reduce__(self) -> Any:
        # A worker process gets its own shared instance, not a copy of the weights.
        options = {
            "side": self.side,
            "prefix_space": self.prefix_space,
            "dtype": self.dtype,
            "token_budget": self.token_budget,
            "cache_bytes": self._memory.limit,
            "cache_folder": None if self._disk is None else str(self._disk),
        }
        return _restore, (
            (self.name, self.resolved.revision, str(self.device), self._asked_max_length),
            options,
        )

    # --- inside ---

    def _tokenization(self) -> Tokens:
        if self._tokens is None:
            with self._lock:
                if self._tokens is None:
                    self._tokens = Tokens(self)
        return self._tokens

    @property
    def _stack(self) -> Stack:
        """The weights, which encoders share that differ in nothing but limits."""
        key = ("stack", self.resolved, str(self.device), self.side, self.dtype)
        return models.get(key, lambda: Stack(self))

    def _compute(self, texts: Sequence[str], layers: frozenset[int]) -> Iterator[tuple[str, Encoded]]:
        """Encode distinct texts that are not in memory, and keep what fits."""
        tokenize = self._tokenization()
        todo: list[tuple[str, Encoded]] = []
        for text in texts:
            # Layers that another metric has asked for are computed again with the new ones, not lost.
            layers |= self._memory.layers(text)
        for text in texts:
            encoded = tokenize(text)
            states = self._read_from_disk(text, encoded, layers)
            if states is None:
                todo.append((text, encoded))
            else:
                encoded = replace(encoded, states=states)
                self._memory.put([(text, encoded)])
                yield text, encoded
        for batch in batches(todo, lambda item: len(item[1]), self.token_budget):
            done = self._forward(batch, layers)
            self._memory.put(done)
            for text, encoded in done:
                self._write_to_disk(text, encoded)
                yield text, encoded

    def _forward(
        self, batch: Sequence[tuple[str, Encoded]], layers: frozenset[int]
    ) -> list[tuple[str, Encoded]]:
        lengths = [len(encoded) for _, encoded in batch]
        ids = torch.full((len(batch), max(lengths)), self._tokenization().pad_id, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, (_, encoded) in enumerate(batch):
            ids[row, : lengths[row]] = torch.tensor(encoded.ids)
            mask[row, : lengths[row]] = 1
        states = self._stack(ids.to(self.device), mask.to(self.device), layers)
        self.forward_passes += len(batch)
        # Without the padding, one text after the other.
        flat = {
            layer: torch.cat([hidden[row, :length] for row, length in enumerate(lengths)]).to(torch.float32)
            for layer, hidden in states.items()
        }
        ends = list(itertools.accumulate(lengths))
        return [
            (text, replace(encoded, states=States(flat, end - length, end)))
            for (text, encoded), length, end in zip(batch, lengths, ends, strict=True)
        ]

    def _disk_path(self, text: str, layer: int) -> Path:
        assert self._disk is not None
        parts = (
            self.identity, self.side, str(self.prefix_space), str(self.max_length), self.dtype,
            self.tokenizer_name, str(layer), text,
        )  # fmt: skip
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return self._disk / key[:2] / f"{key}.safetensors"

    def _read_from_disk(
        self, text: str, encoded: Encoded, layers: frozenset[int]
    ) -> dict[int, torch.Tensor] | None:
        if self._disk is None:
            return None
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        states = {}
        for layer in layers:
            try:
                state = load_file(self._disk_path(text, layer))["state"]
            except (FileNotFoundError, SafetensorError, KeyError):
                return None
            if state.shape != (len(encoded), self.hidden_size):
                return None
            states[layer] = state.to(self.device)
        return states

    def _write_to_disk(self, text: str, encoded: Encoded) -> None:
        if self._disk is None:
            return
        from safetensors.torch import save

        for layer, state in encoded.states.items():
            path = self._disk_path(text, layer)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, save({"state": state.cpu().contiguous()}))


def _restore(positional: tuple[Any, ...], options: dict[str, Any]) -> Encoder:
    return encoder(*positional, **options)
