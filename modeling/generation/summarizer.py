"""Summarize texts with any sequence-to-sequence checkpoint, in one line.

>>> from summarily import Summarizer
>>> summarizer = Summarizer("headlines")
>>> summarizer("Acme Corp said its board approved a two-for-one stock split.")  # doctest: +SKIP
'acme corp sets stock split'

`pipeline("summarization")`, which transformers 5 no longer brings, is the same code.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from summarily.support.errors import InputError, SummarilyError, first_line, warn
from summarily.support.inputs import checked_text, rows_of
from summarily.support.progress import follow, is_speaking, without_bars
from summarily.support.shipped import EXTRACTIVE, check_name

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEFAULT = "news"
"""The summarizer that is used where none is named."""
LONG = ("truncate", "chunk", "reduce", "error")
# Tokenizers that know no limit say so with a very large number.
_NO_LIMIT = 10**9


class _Call(NamedTuple):
    """The options of one call."""

    limit: int | None
    long: str
    batch_size: int
    progress: bool | None
    decoding: dict[str, Any]
    generation: dict[str, Any]

    @property
    def each(self) -> int:
        """Summaries of each text."""
        return int(self.generation.get("num_return_sequences") or 1)


@dataclass(frozen=True)
class Draft:
    """A summary and its token ids, special ones included; None if it was joined of several."""

    text: str
    ids: list[int] | None


class Summarizer:
    """A summarizer and its tokenizer, ready to be called on a text or a list of texts.

    Args:
        checkpoint: the name of a shipped model (`summarily.hub_cards.summarizers()`), a folder, or a Hub id; weights
            are read from safetensors only. "lead" and "central" copy sentences (see `ExtractiveSummarizer`).
        device: such as "cuda:1"; by default an accelerator if there is one, else the CPU.
        dtype: such as "bfloat16"; by default bfloat16 where a GPU has it (float16 overflows in some models), else float32.
        revision: of the Hub id.
        token: for private models on the Hub; by default the one you are logged in with, False for none.
        trust_remote_code: allow a checkpoint to bring its own code.

    Example:
        >>> summarizer = Summarizer("headlines")
        >>> summaries = summarizer(["Acme Corp said its board approved a stock split.", ""], max_length=12)
        >>> len(summaries), summaries[1]
        (2, '')
    """

    def __new__(cls, checkpoint: str = DEFAULT, **options: Any) -> Summarizer:
        if cls is Summarizer and checkpoint in EXTRACTIVE:
            from summarily.modeling.generation.extractive import ExtractiveSummarizer

            return super().__new__(ExtractiveSummarizer)
        return super().__new__(cls)

    def __init__(
        self,
        checkpoint: str = DEFAULT,
        *,
        device: str | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        trust_remote_code: bool = False,
    ):
        check_name(checkpoint)
        _import_libraries()
        import torch

        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        place = device or (accelerator.type if accelerator else "cpu")
        half = place.startswith("cuda") and torch.cuda.is_bf16_supported()
        precision = dtype or ("bfloat16" if half else "float32")
        options = {"revision": revision, "token": token, "trust_remote_code": trust_remote_code}
        model, tokenizer = _load(checkpoint, options, precision)
        self.model: Any = model.to(place).eval()
        self.tokenizer: PreTrainedTokenizerBase = tokenizer

    @classmethod
    def of(cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Summarizer:
        """A summarizer of a model and a tokenizer that are already loaded."""
        summarizer = cls.__new__(cls)
        summarizer.model, summarizer.tokenizer = model.eval(), tokenizer
        return summarizer

    @property
    def _settings(self) -> dict[str, Any]:
        """What the checkpoint says about summarizing, such as beams and lengths."""
        tasks = getattr(self.model.config, "task_specific_params", None) or {}
        return {key: value for key, value in tasks.get("summarization", {}).items() if key != "prefix"}

    @property
    def prefix(self) -> str:
        """What the checkpoint wants before every text; T5 was trained with "summarize: "."""
        config = self.model.config
        tasks = getattr(config, "task_specific_params", None) or {}
        return tasks.get("summarization", {}).get("prefix") or getattr(config, "prefix", None) or ""

    @property
    def source_limit(self) -> int | None:
        """How many tokens of a text the model can take at once, special tokens included; None for any number."""
        config = self.model.config
        for name in ("max_encoder_position_embeddings", "max_position_embeddings"):
            if getattr(config, name, None):
                return int(getattr(config, name))
        limit = self.tokenizer.model_max_length
        return limit if limit < _NO_LIMIT else None

    @overload
    def __call__(self, texts: str, **options: Any) -> str: ...

    @overload
    def __call__(self, texts: Sequence[str], **options: Any) -> list[str]: ...

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        max_length: int | None = None,
        batch_size: int = 8,
        long: str = "truncate",
        max_source_length: int | None = None,
        progress: bool | None = None,
        **generation: Any,
    ) -> Any:
        """Summarize one text (gives a str) or several (gives a list, in their order).

        Args:
            texts: the texts; a blank text has a blank summary.
            max_length: of a summary, in tokens; by default what the checkpoint says.
            batch_size: texts generated together; it does not change the summaries beyond rounding.
            long: what to do with a text longer than the model can take: "truncate" keeps its beginning, and warns;
                "chunk" summarizes piece by piece (whole sentences) and joins the summaries; "reduce" summarizes the
                joined summaries again until they fit; "error" refuses.
            max_source_length: take at most so many tokens at once, instead of as many as the model can.
            progress: show a progress bar; by default for more than 32 texts or pieces.
            generation: anything else that `generate` takes, such as `num_beams=4`, or the penalties of
                `summary_beam_search` (`alpha`, `beta`, `gamma`, `block_ngram`; what a checkpoint holds of them applies
                anyway). With `num_return_sequences` above 1 there is a list of summaries for each text, best first.
        """
        rows = [texts] if isinstance(texts, str) else rows_of("texts", texts)
        documents = [checked_text(f"texts[{row}]", text) for row, text in enumerate(rows)]
        call = self._call(max_length, batch_size, long, max_source_length, progress, **generation)
        written = self._written(documents, call)
        found = [[draft.text for draft in drafts] if call.each > 1 else drafts[0].text for drafts in written]
        return found[0] if isinstance(texts, str) else found

    def _call(
        self,
        max_length: int | None = None,
        batch_size: int = 8,
        long: str = "truncate",
        max_source_length: int | None = None,
        progress: bool | None = None,
        **generation: Any,
    ) -> _Call:
        if long not in LONG:
            raise InputError(f"long={long!r} is unknown; choose one of {', '.join(LONG)}.")
        if batch_size < 1:
            raise InputError(f"batch_size={batch_size} must be at least 1.")
        if max_length is not None:
            if max_length < 1:
                raise InputError(f"max_length={max_length} must be at least 1.")
            generation["max_new_tokens"] = max_length
        for name in ("num_beams", "num_return_sequences"):
            asked = generation.get(name)
            if asked is not None and (not isinstance(asked, int) or asked < 1):
                raise InputError(f"{name}={asked} must be at least 1.")
        settings = dict(self._settings)
        if max_length is not None:
            settings["max_length"] = None  # one limit on the length, not two
        decoding = {name: generation.pop(name) for name in _DECODING if name in generation}
        return _Call(
            self._limit(max_source_length), long, batch_size, progress, decoding, {**settings, **generation}
        )

    def _limit(self, asked: int | None) -> int | None:
        limit = self.source_limit
        if asked is None:
            return limit
        if asked < 8:
            raise InputError(f"max_source_length={asked} leaves no room for a text; give at least 8.")
        if limit is not None and asked > limit:
            raise InputError(f"max_source_length={asked}, but the model takes at most {limit} tokens.")
        return asked

    def _written(self, documents: list[str], call: _Call) -> list[list[Draft]]:
        """For each text its drafts, best first."""
        rows = list(range(len(documents)))
        if call.long not in ("chunk", "reduce") or not self._longer_than(call.limit, documents):
            self._too_long(documents, rows, call)
            return self._generate(documents, call)
        if call.each > 1:
            raise InputError(
                f"long={call.long!r} joins one summary of each piece of a long text; num_return_sequences={call.each} "
                f"needs texts that the model takes at once."
            )
        return [[Draft(summary, None)] for summary in self._summarize(documents, rows, call)]

    def _summarize(self, documents: list[str], rows: list[int], call: _Call) -> list[str]:
        """The summaries of `documents`, which the caller knows as `texts[row]` for each of `rows`."""
        too_long = self._too_long(documents, rows, call)
        pieces = [[document] for document in documents]
        for place in too_long:
            pieces[place] = self._chunks(documents[place], self._room(call.limit))
        written = iter(self._generate([piece for document in pieces for piece in document], call))
        summaries = [" ".join(filter(None, (next(written)[0].text for _ in document))) for document in pieces]
        if call.long == "reduce" and too_long:
            self._reduce(documents, summaries, rows, too_long, call)
        return summaries

    def _too_long(self, documents: list[str], rows: list[int], call: _Call) -> list[int]:
        """The places of texts that the model cannot take at once: refused or counted in a warning, if so asked."""
        too_long = self._longer_than(call.limit, documents)
        if too_long and call.long == "error":
            raise InputError(
                f"texts[{rows[too_long[0]]}] is longer than the {call.limit} tokens the model takes; shorten it, choose "
                f"long='truncate', 'chunk' or 'reduce', or use a model for long documents."
            )
        if too_long and call.long == "truncate":
            warn(
                f"{len(too_long)} of {len(documents)} texts (the first is texts[{rows[too_long[0]]}]) are longer than the "
                f"{call.limit} tokens the model takes; only their beginning is read. long='chunk' reads everything."
            )
        return too_long

    def _reduce(
        self, documents: list[str], summaries: list[str], rows: list[int], too_long: list[int], call: _Call
    ) -> None:
        """Summarize the summaries of texts that were too long again, until each was written from one text that fits."""
        for place in too_long:
            if len(summaries[place]) >= len(documents[place]):
                raise InputError(
                    f"texts[{rows[place]}]: the summaries of its pieces are no shorter than the text, so reducing would "
                    f"never end; give a smaller max_length."
                )
        again = self._summarize(
            [summaries[place] for place in too_long], [rows[place] for place in too_long], call
        )
        for place, summary in zip(too_long, again, strict=True):
            summaries[place] = summary

    def _longer_than(self, limit: int | None, documents: list[str]) -> list[int]:
        if limit is None:
            return []
        room = self._room(limit)
        # A token has at least one byte, so a short text need not be counted.
        return [
            row
            for row, text in enumerate(documents)
            if len(text.encode()) > room and self._length(text) > room
        ]

    def too_long(self, texts: Sequence[str]) -> list[int]:
        """Which of the texts are longer than the model takes at once."""
        return self._longer_than(self.source_limit, list(texts))

    def _room(self, limit: int | None) -> int:
        """Tokens left for a text beside special tokens and the prefix."""
        assert limit is not None
        taken = self.tokenizer.num_special_tokens_to_add(pair=False)
        return limit - taken - (self._length(self.prefix) if self.prefix else 0)

    def _length(self, text: str) -> int:
        # verbose=False: that the text is too long is ours to say.
        return len(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _chunks(self, text: str, room: int) -> list[str]:
        """Pieces of at most `room` tokens: as many whole sentences as fit; a longer sentence is cut, between words if
        it has any."""
        from summarily.support.text import sentences

        chunks: list[str] = []
        current = ""
        for part in (part for sentence in sentences(text) for part in self._parts(sentence, room)):
            joined = f"{current} {part}" if current else part
            if current and self._length(joined) > room:
                chunks.append(current)
                joined = part
            current = joined
        return [*chunks, current]

    def _parts(self, sentence: str, room: int) -> Iterator[str]:
        rest = " ".join(sentence.split())
        start = 0
        while start < len(rest):
            # Not all that is left, which would make the time grow with the square of the length.
            end = min(start + 4 * room, len(rest))
            while end < len(rest) and self._length(rest[start:end]) <= room:
                end = min(start + 2 * (end - start), len(rest))
            while end > start + 1 and self._length(rest[start:end]) > room:
                end = start + max(1, (end - start) * 3 // 4)
            blank = rest.rfind(" ", start + 1, end + 1) if end < len(rest) else -1
            end = blank if blank > 0 else end
            yield rest[start:end].strip()
            start = end + (rest[end : end + 1] == " ")

    def _generate(self, texts: list[str], call: _Call) -> list[list[Draft]]:
        """The drafts of each text, texts of similar length together."""
        drafts = [[Draft("", [])] * call.each for _ in texts]
        order = sorted((row for row in range(len(texts)) if texts[row].strip()), key=lambda i: len(texts[i]))
        few = len(order) <= 32 and not is_speaking()
        show = False if call.progress is None and few else call.progress
        with follow(len(order), "summarizing", " texts", show) as bar:
            for first in range(0, len(order), call.batch_size):
                rows = order[first : first + call.batch_size]
                written = self._batch([texts[i] for i in rows], call)
                for row, found in zip(rows, written, strict=True):
                    drafts[row] = found
                bar.update(len(rows))
        return drafts

    def _search(self, generation: Mapping[str, Any]) -> Any:
        """`generate`, with penalties if any are asked for; for stock models otherwise the one whose beams share their
        document: the same tokens in less time."""
        from summarily.modeling.generation.shared_cross_attention import generate_with_shared_cross_attention
        from summarily.modeling.generation.summary_beam_search import is_penalised, summary_beam_search

        if is_penalised(self.model, None, generation):
            return functools.partial(self.model.generate, custom_generate=summary_beam_search)
        if getattr(self.model.config, "model_type", "") not in _SHARING:
            return self.model.generate
        return functools.partial(generate_with_shared_cross_attention, self.model)

    def _batch(self, texts: list[str], call: _Call) -> list[list[Draft]]:
        import torch

        from summarily.modeling.data import decode, texts_of

        inputs = self.tokenizer(
            [self.prefix + text for text in texts],
            return_tensors="pt",
            padding=True,
            truncation=call.limit is not None,
            max_length=call.limit,
            verbose=False,
        )
        beside = texts_of(self.tokenizer, inputs)
        with torch.inference_mode():
            ids = self._search(call.generation)(**inputs.to(self.model.device), **call.generation).tolist()
        each = len(ids) // len(texts)
        beside = {name: [row for row in rows for _ in range(each)] for name, rows in beside.items()}
        written = decode(self.tokenizer, ids, beside, **call.decoding)
        drafts = [Draft(text.strip(), row) for text, row in zip(written, ids, strict=True)]
        return [drafts[first : first + each] for first in range(0, len(drafts), each)]


# What a tokenizer is told when it makes text of tokens.
_DECODING = ("clean_up_tokenization_spaces",)
# Models of transformers whose beams can share what they know of a document; ours do so by themselves.
_SHARING = ("bart", "led", "t5")


def checkpoint(name: str) -> str:
    """The folder of a shipped model for `from_pretrained`, made whole in the cache if it is shipped as an adapter.

    Example:
        >>> from transformers import AutoModelForSeq2SeqLM
        >>> type(AutoModelForSeq2SeqLM.from_pretrained(checkpoint("headlines"))).__name__
        'AttentionVariantForConditionalGeneration'
    """
    import summarily.modeling  # noqa: F401  our model types
    from summarily.support import shipped

    return shipped.checkpoint(name)


@overload
def summarize(texts: str, model: str = DEFAULT, **options: Any) -> str: ...


@overload
def summarize(texts: Sequence[str], model: str = DEFAULT, **options: Any) -> list[str]: ...


def summarize(texts: str | Sequence[str], model: str = DEFAULT, **options: Any) -> str | list[str]:
    """Summarize a text, or several: `Summarizer(model)(texts, **options)`, with the model kept for the next call.

    Example:
        >>> summarize("It rained. It poured. It stopped. Then it snowed.", "lead", sentences=1)
        'It rained.'
    """
    from summarily.support import models

    summarizer = models.get(("summarizer", model), lambda: Summarizer(model))
    return summarizer(texts, **options)


def _import_libraries() -> None:
    """Import what loads models, with garbage collection paused: all of it stays, and to look through its objects again
    and again takes a tenth of the start."""
    collects = gc.isenabled()
    gc.disable()
    try:
        for name in ("torch", "transformers.modeling_utils", "summarily.modeling"):
            importlib.import_module(name)
    finally:
        if collects:
            gc.enable()


def _load(checkpoint: str, options: dict[str, Any], precision: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily.modeling  # noqa: F401  our model types
    from summarily.support.shipped import folder, merged, quiet_about_tying, shipped, summarizers
    from summarily.support.weights import check_finite

    if not hasattr(torch, precision):
        raise InputError(f"dtype={precision!r} is not a dtype of torch; try 'float32' or 'bfloat16'.")
    place = Path(checkpoint)
    if checkpoint in shipped():  # whatever lies in the working folder
        place = Path(folder(checkpoint))
    here = place.is_dir()
    try:
        name = merged(place) if here else checkpoint
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
        with quiet_about_tying(), without_bars() if here else contextlib.nullcontext():
            model = AutoModelForSeq2SeqLM.from_pretrained(
                name, dtype=getattr(torch, precision), use_safetensors=True, **options
            )
    except SummarilyError:
        raise
    except Exception as error:  # damaged files make transformers, tokenizers and safetensors raise anything
        raise InputError(
            f"cannot load a summarizer from {checkpoint!r}: {first_line(error)} Give a folder, a Hub id, or one of the shipped "
            f"models: {', '.join(summarizers())}."
        ) from error
    check_finite(model, checkpoint)
    return model, tokenizer


# --- the pipeline -------------------------------------------------------------------------------------------


def register_pipeline() -> None:
    """Make `pipeline("summarization", ...)` known to transformers. Running it again changes nothing."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, pipelines
    from transformers.pipelines import PIPELINE_REGISTRY, Pipeline

    import summarily.modeling  # noqa: F401  our model types

    if "summarization" in PIPELINE_REGISTRY.supported_tasks:
        return

    base: Any = Pipeline

    class SummarizationPipeline(base):
        """`pipeline("summarization")(texts)`: a list of `{"summary_text": ...}`.

        Takes the arguments of `Summarizer`; datasets and generators are read as in every pipeline. Those that the
        pipeline of transformers 4 took besides: `truncation` (True cuts long texts, which is the default, False refuses
        them), `clean_up_tokenization_spaces`, `return_tensors` (`{"summary_token_ids": ...}`), `return_text`. With
        `num_return_sequences` above 1 there is such a list for each text.
        """

        _load_processor = False
        _load_image_processor = False
        _load_feature_extractor = False
        _load_tokenizer = True

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            # A pipeline takes weights as they were stored; on a CPU float16 is slower and coarser than float32.
            if self.model.device.type == "cpu" and self.model.dtype == torch.float16:
                self.model.float()

        def _sanitize_parameters(
            self, return_tensors: bool | None = None, return_text: bool | None = None, **options: Any
        ) -> tuple[dict, dict, dict]:
            if return_tensors and return_text:
                raise InputError("return_tensors and return_text exclude each other; choose one.")
            shape = {"return_tensors": return_tensors} if return_tensors is not None else {}
            return {}, _without_truncation(options), shape

        def preprocess(self, input_: Any, **options: Any) -> dict[str, Any]:
            return {"text": checked_text("the text", input_)}

        def _forward(self, input_tensors: dict[str, Any], **options: Any) -> dict[str, Any]:
            texts = input_tensors["text"]
            many = isinstance(texts, list)
            rows = texts if many else [texts]
            summarizer = Summarizer.of(self.model, self.tokenizer)
            found = summarizer._written(rows, summarizer._call(batch_size=len(rows), **options))
            return {"drafts": found if many else found[0]}

        def postprocess(self, model_outputs: dict[str, Any], return_tensors: bool = False) -> Any:
            drafts: list[Any] = model_outputs["drafts"]
            if return_tensors and any(draft.ids is None for draft in drafts):
                raise InputError(
                    "return_tensors gives the tokens of one pass; a text that was read in pieces has several."
                )
            shown = [
                {"summary_token_ids": torch.tensor(draft.ids)}
                if return_tensors
                else {"summary_text": draft.text}
                for draft in drafts
            ]
            return shown[0] if len(shown) == 1 else shown

        def __call__(self, inputs: Any, **options: Any) -> Any:
            result = super().__call__(inputs, **options)
            return [result] if isinstance(inputs, str) and isinstance(result, dict) else result

    # Version 5 refuses the names of tasks it has dropped before it looks them up.
    getattr(pipelines, "REMOVED_TASKS", {}).pop("summarization", None)
    PIPELINE_REGISTRY.register_pipeline(
        "summarization", SummarizationPipeline, AutoModelForSeq2SeqLM, default=_DefaultModel(model=())
    )


class _DefaultModel(dict[str, Any]):
    """What transformers asks for a task's default model: made whole, if need be, when it is asked for."""

    def __getitem__(self, key: str) -> Any:
        return (checkpoint(DEFAULT), None) if key == "model" else super().__getitem__(key)


def _without_truncation(options: dict[str, Any]) -> dict[str, Any]:
    """The pipeline's `truncation` as the summarizer's `long`."""
    if (asked := options.pop("truncation", None)) is None:
        return options
    asked = getattr(asked, "value", asked)  # transformers' enumeration of the same words
    rules = {
        **dict.fromkeys((True, "longest_first", "only_first"), "truncate"),
        **dict.fromkeys((False, "do_not_truncate"), "error"),
    }
    if asked not in rules:
        raise InputError(
            f"truncation={asked!r}; expected True, False or one of transformers' names for them."
        )
    if "long" in options:
        raise InputError(f"truncation={asked!r} and long={options['long']!r} say the same; give one of them.")
    return {**options, "long": rules[asked]}
