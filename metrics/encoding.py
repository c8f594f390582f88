"""Contextual token vectors: every distinct text once, only the layers asked for, in bounded memory.

`encoder(...)` gives the one shared `Encoder` of a configuration, so metrics that use the same model share its
passes: what one has encoded the next finds in a least-recently-used cache bounded in bytes. Layer 0 is what
enters the first layer, layer k what leaves the k-th, after the stack's final normalisation where the
architecture has one (T5, mBART), which is what a stack cut off after k layers would return.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import inspect
import itertools
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from summarily.support import weights
from summarily.support.errors import InputError
from summarily.support.files import write_atomically

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKEN_BUDGET = {"cpu": 2048, "cuda": 16384, "mps": 8192}
"""Padded tokens in one forward pass; a CPU is fastest while a batch fits in its caches."""
CACHE_BYTES = 512 * 2**20
"""Bytes of token vectors kept for metrics that come later."""
_NO_LIMIT = 512
"""Tokens kept for a model that names no limit, such as T5, which was trained on 512."""
_CHARACTERS_PER_TOKEN = 16
_BOUNDARY_TOKENS = 128
_TRIM_EVERY = 128 * 2**20
"""Bytes of states dropped between two requests to give memory back."""
_FINAL_NORMS = ("final_layer_norm", "final_norm", "layer_norm")


@dataclass(frozen=True, eq=False)
class Encoded:
    """One text as its encoder saw it: `ids`, `tokens`, `offsets` and `special` are as long as each state.

    Metrics that share an encoder get the same object for a text, so what one of them derives from it can be
    kept for the others in a `WeakKeyDictionary`.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]] | None
    """Character spans in the text, (0, 0) for special tokens; None if the tokenizer does not know them."""
    special: list[bool]
    """True for the tokens that were added around the text, such as [CLS]."""
    truncated: bool
    states: Mapping[int, torch.Tensor] = field(default_factory=dict, repr=False)
    """By layer: float tensor [length, hidden]."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_empty(self) -> bool:
        return all(self.special)


class _States(Mapping[int, torch.Tensor]):
    """One text's rows of the layers of its batch.

    The tensor of a text is made when it is asked for. Kept, thousands of these small objects would stand
    between the large temporary ones of the model, and freed memory could not be used again.
    """

    __slots__ = ("_layers", "_rows")

    def __init__(self, layers: dict[int, torch.Tensor], start: int, end: int):
        self._layers = layers
        self._rows = slice(start, end)

    def __getitem__(self, layer: int) -> torch.Tensor:
        return self._layers[layer][self._rows]

    def __iter__(self) -> Iterator[int]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


@dataclass(frozen=True)
class Request:
    """An encoder pass that a metric will want (see `Metric.requests`)."""

    encoder: Encoder
    texts: Sequence[str]
    layers: Sequence[int]


# --- the shared instances ---------------------------------------------------------------------------------

_encoders: dict[tuple[Any, ...], Encoder] = {}
_encoders_lock = threading.Lock()


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
    configuration = (
        resolved, str(chosen), max_length, side, bool(prefix_space), dtype, token_budget, cache_bytes, folder
    )  # fmt: skip
    with _encoders_lock:
        if configuration not in _encoders:
            _encoders[configuration] = Encoder(
                str(model),
                resolved,
                chosen,
                max_length=max_length,
                side=side,
                prefix_space=prefix_space,
                dtype=dtype,
                token_budget=token_budget,
                cache_bytes=cache_bytes,
                cache_folder=folder,
            )
        return _encoders[configuration]


def forget() -> None:
    """Drop the vectors that all encoders of this process keep in memory; the models stay loaded."""
    with _encoders_lock:
        for shared in _encoders.values():
            shared.clear()


def default_device() -> torch.device:
    """CUDA if there is one, else MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def load_pretrained(auto_class: Any, resolved: weights.Resolved, **options: Any) -> Any:
    """`from_pretrained` without remote code; what cannot be had is a `MissingRequirement`."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return auto_class.from_pretrained(
            resolved.path_or_id, revision=resolved.revision or "main", trust_remote_code=False, **options
        )
    except OSError as error:
        if resolved.is_local:
            raise
        raise weights.not_on_hub(resolved.path_or_id, str(error).strip().splitlines()[0]) from error
    finally:
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def _without_the_head() -> Iterator[None]:
    """Loading an encoder from a checkpoint with a head is no news; weights that are missing still are."""
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(_is_news)
    try:
        yield
    finally:
        logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return "LOAD REPORT" not in message or any(
        status in message for status in ("MISSING", "MISMATCH", "CONVERSION")
    )


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
        if side not in ("encoder", "decoder"):
            raise InputError(f"side={side!r}; expected 'encoder' or 'decoder'.")
        if dtype not in ("float32", "bfloat16", "float16"):
            raise InputError(f"dtype={dtype!r}; expected 'float32', 'bfloat16' or 'float16'.")
        if token_budget < 1:
            raise InputError(f"token_budget={token_budget}; expected at least 1.")
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
        self._lock = threading.RLock()
        self._memory = _StateCache(cache_bytes)
        self._disk = None if cache_folder is None else Path(cache_folder)
        self._stack: _Stack | None = None
        self._tokens: _Tokens | None = None
        self._config: Any = None

    @property
    def identity(self) -> str:
        """The weights' name for a signature."""
        return self.resolved.identity

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
        return self._loaded().model

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

    def _tokenization(self) -> _Tokens:
        if self._tokens is None:
            with self._lock:
                if self._tokens is None:
                    self._tokens = _Tokens(self)
        return self._tokens

    def _loaded(self) -> _Stack:
        if self._stack is None:
            with self._lock:
                if self._stack is None:
                    self._stack = _Stack(self)
        return self._stack

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
        todo.sort(key=lambda item: len(item[1]), reverse=True)
        for batch in _batches(todo, self.token_budget):
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
        states = self._loaded()(ids.to(self.device), mask.to(self.device), layers)
        self.forward_passes += len(batch)
        # Without the padding, one text after the other.
        flat = {
            layer: torch.cat([hidden[row, :length] for row, length in enumerate(lengths)]).to(torch.float32)
            for layer, hidden in states.items()
        }
        ends = list(itertools.accumulate(lengths))
        return [
            (text, replace(encoded, states=_States(flat, end - length, end)))
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


def _batches(
    items: Sequence[tuple[str, Encoded]], token_budget: int
) -> Iterator[Sequence[tuple[str, Encoded]]]:
    """Items come longest first, so the first of a batch sets its padded width."""
    start = 0
    while start < len(items):
        rows = max(1, token_budget // max(1, len(items[start][1])))
        yield items[start : start + rows]
        start += rows


@dataclass
class _Block:
    """Texts that went through the model together; their states are parts of one tensor per layer."""

    texts: set[str]
    bytes: int


class _StateCache:
    """Encoded texts, bounded by the bytes of their states.

    The least recently used are dropped first, a whole batch at a time, because that is how memory is freed.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.bytes = 0
        self._dropped = 0
        self._items: dict[str, tuple[Encoded, _Block]] = {}
        self._blocks: OrderedDict[int, _Block] = OrderedDict()

    def get(self, text: str, layers: frozenset[int]) -> Encoded | None:
        encoded, block = self._items.get(text, (None, None))
        if encoded is None or block is None or not layers <= encoded.states.keys():
            return None
        self._blocks.move_to_end(id(block))
        return encoded

    def layers(self, text: str) -> frozenset[int]:
        """The layers kept of a text."""
        return frozenset(self._items[text][0].states) if text in self._items else frozenset()

    def put(self, batch: Sequence[tuple[str, Encoded]]) -> None:
        for text, _ in batch:
            self._forget(text)
        block = _Block({text for text, _ in batch}, sum(_size(encoded) for _, encoded in batch))
        self._items.update({text: (encoded, block) for text, encoded in batch})
        self._blocks[id(block)] = block
        self.bytes += block.bytes
        while self.bytes > self.limit and self._blocks:
            oldest = next(iter(self._blocks.values()))
            self._dropped += oldest.bytes
            for text in list(oldest.texts):
                self._forget(text)
        if self._dropped > _TRIM_EVERY:
            self._dropped = 0
            _give_memory_back()

    def _forget(self, text: str) -> None:
        if text in self._items:
            block = self._items.pop(text)[1]
            block.texts.remove(text)
            if not block.texts:
                self.bytes -= self._blocks.pop(id(block)).bytes

    def clear(self) -> None:
        self._items.clear()
        self._blocks.clear()
        self.bytes = 0


def _give_memory_back() -> None:
    """Ask the C library for the memory that was freed between what is still in use.

    glibc keeps it otherwise, in pieces that the next batch may not fit in, and a process that scores a large
    corpus would come to hold twice what it uses. It takes milliseconds. Elsewhere this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _size(encoded: Encoded) -> int:
    # 200 bytes per token is about what the lists of ids, tokens, offsets and flags take.
    return sum(state.nbytes for state in encoded.states.values()) + 200 * len(encoded)


# --- tokens -----------------------------------------------------------------------------------------------


class _Tokens:
    """A tokenizer with its special tokens, limit and character offsets."""

    def __init__(self, encoder: Encoder):
        from transformers import AutoTokenizer

        tokenizer = load_pretrained(AutoTokenizer, encoder.resolved)
        self.tokenizer = tokenizer
        self.name = f"{type(tokenizer).__name__}-{'fast' if tokenizer.is_fast else 'slow'}"
        self.prefix = " " if encoder.prefix_space else ""
        around = tokenizer("a")["input_ids"]
        inside = tokenizer("a", add_special_tokens=False)["input_ids"]
        start = _find(around, inside)
        self.before, self.after = around[:start], around[start + len(inside) :]
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.pieces_are_marked = any(token.startswith("##") for token in tokenizer.get_vocab())
        self.max_length = self._limit(encoder)

    def _limit(self, encoder: Encoder) -> int:
        limits = [position_limit(encoder.config), int(min(self.tokenizer.model_max_length, 10**9))]
        known = [limit for limit in limits if limit is not None and limit < 10**9]
        asked = encoder._asked_max_length
        if asked is None:
            return min(known, default=_NO_LIMIT)
        least = len(self.before) + len(self.after) + 1
        if asked < least or (limits[0] is not None and asked > limits[0]):
            raise InputError(f"max_length={asked}; {encoder.identity} takes {least} to {limits[0]} tokens.")
        return asked

    def __call__(self, text: str) -> Encoded:
        ids, offsets, truncated = self._body(text)
        n_before, n_after = len(self.before), len(self.after)
        all_ids = [*self.before, *ids, *self.after]
        return Encoded(
            ids=all_ids,
            tokens=self.tokenizer.convert_ids_to_tokens(all_ids),
            offsets=None if offsets is None else [(0, 0)] * n_before + offsets + [(0, 0)] * n_after,
            special=[True] * n_before + [False] * len(ids) + [True] * n_after,
            truncated=truncated,
        )

    def _body(self, text: str) -> tuple[list[int], list[tuple[int, int]] | None, bool]:
        """The tokens of a text, without special tokens, up to the limit."""
        room = self.max_length - len(self.before) - len(self.after)
        # bert_score strips too; byte-level tokenizers make tokens of spaces at the ends.
        stripped = text.strip()
        shift = len(text) - len(text.lstrip()) - len(self.prefix)
        if not stripped:
            return [], [] if self.tokenizer.is_fast else None, False
        ids, offsets = self._tokens_of_beginning(self.prefix + stripped, room)
        if offsets is not None:
            offsets = [_without_space(text, a + shift, b + shift) for a, b in offsets[:room]]
        return ids[:room], offsets, len(ids) > room

    def _tokens_of_beginning(self, text: str, room: int) -> tuple[list[int], list[tuple[int, int]] | None]:
        """Tokens of a beginning of the text that holds the first `room` of them.

        A long text is cut before it is tokenized, at a space where there is one. A cut can change only the
        tokens next to it, so it counts only if it comes well after the first `room` tokens; a cut inside a
        word must also agree with one twice as far.
        """
        wanted = room + _BOUNDARY_TOKENS
        characters = _CHARACTERS_PER_TOKEN * wanted
        while characters < len(text):
            space = text.rfind(" ", characters // 2, characters)
            ids, offsets = self._tokenize(text[: space if space > 0 else characters])
            if len(ids) >= wanted and (
                space > 0 or ids[:wanted] == self._tokenize(text[: 2 * characters])[0][:wanted]
            ):
                return ids, offsets
            characters *= 8
        return self._tokenize(text)

    def _tokenize(self, text: str) -> tuple[list[int], list[tuple[int, int]] | None]:
        fast = self.tokenizer.is_fast
        output = self.tokenizer(
            text, add_special_tokens=False, truncation=False, return_offsets_mapping=fast, verbose=False
        )
        return list(output["input_ids"]), list(output["offset_mapping"]) if fast else None


def _without_space(text: str, start: int, end: int) -> tuple[int, int]:
    """Some tokenizers count the space before a word, and a space we have put there ourselves, to its token."""
    start, end = max(0, start), max(0, end)
    while start < end and text[start].isspace():
        start += 1
    return start, end


def _find(sequence: Sequence[int], part: Sequence[int]) -> int:
    for start in range(len(sequence) - len(part) + 1):
        if list(sequence[start : start + len(part)]) == list(part):
            return start
    raise InputError(
        "the tokenizer changes a text's tokens when it adds special tokens; it cannot be used here."
    )


def position_limit(config: Any) -> int | None:
    """How many tokens a model has positions for; None if positions are relative and unlimited."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None:
        return None
    # RoBERTa and its relatives count positions from padding_idx + 1.
    if config.model_type in _PADDED_POSITIONS:
        limit -= (config.pad_token_id or 0) + 1
    return int(limit)


_PADDED_POSITIONS = {
    "camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta",
    "xlm-roberta-xl", "xmod",
}  # fmt: skip


# --- the model --------------------------------------------------------------------------------------------


class _Stop(Exception):
    """All layers asked for have been seen."""


class _Stack:
    """A loaded model, and how to run it only as far as a layer."""

    def __init__(self, encoder: Encoder):
        from transformers import AutoModel

        with _without_the_head():
            model = load_pretrained(AutoModel, encoder.resolved, dtype=getattr(torch, encoder.dtype))
        has_decoder = bool(getattr(model.config, "is_encoder_decoder", False))
        if encoder.side == "decoder" and not has_decoder:
            raise InputError(f"side='decoder' needs an encoder-decoder; {encoder.identity} has no decoder.")
        if encoder.side == "encoder" and has_decoder:
            model = model.get_encoder()
        self.model = model.eval().requires_grad_(False).to(encoder.device)
        part = model.get_decoder() if encoder.side == "decoder" else model
        self.num_layers = encoder.num_layers
        self.layers, self.norm = _layers_of(part, self.num_layers)
        self.start_token = _start_token(model.config) if encoder.side == "decoder" else None
        self.accepts = set(inspect.signature(self.model.forward).parameters)

    def __call__(
        self, ids: torch.Tensor, mask: torch.Tensor, layers: frozenset[int]
    ) -> dict[int, torch.Tensor]:
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if self.start_token is not None:
            # What BartModel does itself when it is given no decoder input: the same text, shifted right.
            start = torch.full_like(ids[:, :1], self.start_token)
            inputs["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], dim=1)
        if "use_cache" in self.accepts:
            inputs["use_cache"] = False
        with torch.inference_mode():
            if self.layers is None:
                return self._all_layers(inputs, layers)
            return self._up_to_the_highest(inputs, layers)

    def _all_layers(self, inputs: dict[str, Any], layers: frozenset[int]) -> dict[int, torch.Tensor]:
        """For architectures without a plain list of layers, such as ALBERT, which shares them."""
        output = self.model(**inputs, output_hidden_states=True)
        name = "decoder_hidden_states" if self.start_token is not None else "hidden_states"
        return {layer: output[name][layer] for layer in layers}

    def _up_to_the_highest(self, inputs: dict[str, Any], layers: frozenset[int]) -> dict[int, torch.Tensor]:
        """Catch what enters layer k + 1, which is what leaves layer k; stop when nothing more is wanted."""
        assert self.layers is not None
        caught: dict[int, torch.Tensor] = {}
        highest = max(layers)

        def catch(layer: int) -> Any:
            def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                hidden = args[0] if args else kwargs["hidden_states"]
                caught[layer] = hidden if self.norm is None else self.norm(hidden)
                if layer == highest:
                    raise _Stop

            return hook

        handles = [
            self.layers[layer].register_forward_pre_hook(catch(layer), with_kwargs=True)
            for layer in layers
            if layer < self.num_layers
        ]
        try:
            output = self.model(**inputs)
            caught[self.num_layers] = output[0]
        except _Stop:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return {layer: caught[layer] for layer in layers}


def _layers_of(part: PreTrainedModel, count: int) -> tuple[nn.ModuleList | None, nn.Module | None]:
    """The list of a stack's layers and its final normalisation, if it has them."""
    if part.config.model_type == "xlnet":  # its layers put the length before the batch
        return None, None
    for module in part.modules():
        for child in module.children():
            if isinstance(child, nn.ModuleList) and len(child) == count and count > 0:
                norms = (getattr(module, name, None) for name in _FINAL_NORMS)
                return child, next((norm for norm in norms if norm is not None), None)
    return None, None


def _start_token(config: Any) -> int:
    token = config.decoder_start_token_id
    if token is None:
        raise InputError("the model's config has no decoder_start_token_id.")
    return int(token)
