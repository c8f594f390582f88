"""A summary with its beams, its attention and its cost; nothing here needs Gradio."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch

from summarily.metrics.cost import Meter
from summarily.modeling.data import decode, texts_of
from summarily.modeling.generation.extractive import ExtractiveSummarizer
from summarily.modeling.generation.summarizer import Summarizer
from summarily.modeling.generation.summary_beam_search import summary_beam_search
from summarily.spaces.serving import check_length
from summarily.support import models
from summarily.support.errors import InputError
from summarily.support.markup import heat_map, note, number, shaded_words, table
from summarily.support.processes import Lock
from summarily.support.shipped import EXTRACTIVE, summarizers
from summarily.support.text import sentences

LONGEST_TEXT = 80_000
LARGEST_CHECKPOINT = 2 * 2**30
"""Bytes of weights that are fetched from the Hub."""
MOST_MODELS = 3
"""Side by side."""
MOST_COLUMNS = 48
"""Source tokens of a heat map."""


@dataclass(frozen=True)
class Settings:
    """How to search: see `summary_beam_search` for the penalties."""

    beams: int = 4
    max_length: int = 128
    alpha: float = 0.9
    beta: float = 0.0
    gamma: float = 0.0
    block_ngram: int = 3

    def __post_init__(self) -> None:
        for name, least, most in (
            ("beams", 1, 12),
            ("max_length", 4, 256),
            ("alpha", 0, 3),
            ("beta", 0, 10),
            ("gamma", 0, 10),
            ("block_ngram", 0, 8),
        ):
            value = getattr(self, name)
            if value is None or not least <= value <= most:
                raise InputError(f"{name.replace('_', ' ')} is {value}; it goes from {least} to {most}.")

    def options(self) -> dict[str, Any]:
        """As `Summarizer` and `generate` take them."""
        return {
            "custom_generate": summary_beam_search,
            "num_beams": self.beams,
            "max_new_tokens": self.max_length,
            "max_length": None,  # one limit, not two
            "alpha": self.alpha,
            "beta": self.beta,
            "gamma": self.gamma,
            "block_ngram": self.block_ngram,
        }


@dataclass
class Written:
    """What came out: the beams, best first, and for the best one the attention `[summary token, source token]`."""

    model: str
    settings: Settings
    summaries: list[str]
    scores: list[float]
    summary_tokens: list[str]
    source_tokens: list[str]
    attention: list[list[float]]
    entities: list[float] | None
    cut: bool
    seconds: float
    peak_memory: int
    parameters: int

    @property
    def summary(self) -> str:
        return self.summaries[0]


# --- models -----------------------------------------------------------------------------------------------

_lock = Lock()


def names() -> list[str]:
    """What can be chosen without the Hub."""
    return [*summarizers(), *EXTRACTIVE]


def summarizer(name: str) -> Summarizer:
    """A shipped checkpoint or one from the Hub."""
    name = (name or "").strip()
    ours = name in names()
    if not ours:
        _check_hub_id(name)

    def load() -> Summarizer:
        if not ours:
            _check_size(name)
        # Never with the server's own token: what its owner may read is not for every visitor.
        return Summarizer(name, token=None if ours else False)

    return models.get(("summarizer", name), load)


def _check_hub_id(name: str) -> None:
    # A folder of the server is nobody's business, whatever it is called.
    if not re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", name) or ".." in name or Path(name).exists():
        raise InputError(
            f"{name!r} is neither a shipped model ({', '.join(names())}) nor a Hub id such as owner/name."
        )


def _check_size(name: str) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        files = HfApi(token=False).model_info(name, files_metadata=True, timeout=10).siblings or []
    except RepositoryNotFoundError:
        raise InputError(f"the Hub has no public model {name!r}.") from None
    except Exception:  # whatever the network does, the visitor gets a sentence
        raise InputError(f"the Hub cannot be reached for {name!r}; try one of the shipped models.") from None
    # These are the files that are loaded; others are never fetched.
    weights = [file for file in files if re.fullmatch(r"model[\w.-]*\.safetensors", file.rfilename)]
    if not weights:
        raise InputError(f"{name} has no safetensors; other formats are not loaded here.")
    size = sum(file.size or 0 for file in weights)
    if size > LARGEST_CHECKPOINT:
        raise InputError(
            f"{name} has {size / 2**30:.1f} GB of weights; this Space takes up to {LARGEST_CHECKPOINT / 2**30:g} GB."
        )


# --- writing ----------------------------------------------------------------------------------------------


def write(name: str, text: str, settings: Settings) -> Written:
    """Summarize one text.

    Example:
        >>> written = write("headlines", "Acme Corp said its board approved a stock split.", Settings(beams=2))
        >>> len(written.attention) == len(written.summary_tokens)
        True
    """
    text = check_length("the text", text or "", LONGEST_TEXT)
    if not text:
        raise InputError("Please give a text to summarize.")
    found = summarizer(name)
    if isinstance(found, ExtractiveSummarizer):
        return _copied(found, text, settings)
    model: Any = found.model
    if settings.gamma and not hasattr(model.get_encoder(), "entities"):
        raise InputError(
            f"{name} has no entity attention, which the entity penalty needs; set it to 0, or choose an APESO model."
        )
    with _lock, torch.inference_mode():
        inputs = _inputs(found, text, return_tensors="pt").to(model.device)
        with Meter() as meter:
            output = model.generate(
                **inputs,
                **settings.options(),
                num_return_sequences=settings.beams,
                return_dict_in_generate=True,
            )
        attention, entities = _looked(model, inputs, output.sequences[:1])
    return _described(found, name, text, settings, inputs, output, attention, entities, meter)


def write_all(
    models: Sequence[str], text: str, settings: Settings, tell: Callable[[int, str], None]
) -> list[Written]:
    """The summaries of several models; `tell` hears how many are done, and who writes next."""
    chosen = list(dict.fromkeys(models or []))
    if not 1 <= len(chosen) <= MOST_MODELS:
        raise InputError(f"Please choose one to {MOST_MODELS} models; {len(chosen)} are chosen.")
    for name in chosen:  # before the first of them has worked in vain
        if name not in names():
            _check_hub_id(name)
    written: list[Written] = []
    for name in chosen:
        tell(len(written), name)
        written.append(write(name, text, settings))
    return written


def _copied(found: ExtractiveSummarizer, text: str, settings: Settings) -> Written:
    """A summary of the text's own sentences: there are no beams, and nothing to look at."""
    with Meter() as meter:
        summary = found(text, max_length=settings.max_length)
    return Written(
        model=found.name,
        settings=settings,
        summaries=[summary],
        scores=[],
        summary_tokens=summary.split(),
        source_tokens=text.split(),
        attention=[],
        entities=None,
        cut=False,
        seconds=meter.seconds,
        peak_memory=meter.peak_memory,
        parameters=found.parameters,
    )


def _inputs(found: Summarizer, text: str, **options: Any) -> Any:
    limit = found.source_limit
    return found.tokenizer(
        [found.prefix + text], truncation=limit is not None, max_length=limit, verbose=False, **options
    )


def _looked(
    model: Any, inputs: Any, sequence: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The attention `[summary, source]` with which each token of the best summary was written (mean of the heads of
    the last layer), and APESO's attention to entities."""
    encoder_outputs = model.get_encoder()(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    before = model.config._attn_implementation
    visible = before in (None, "eager")
    with suppress(ValueError):  # a model with one implementation only
        if not visible:
            model.set_attn_implementation("eager")
    try:
        outputs = model(
            attention_mask=inputs["attention_mask"],
            encoder_outputs=encoder_outputs,
            decoder_input_ids=sequence[:, :-1],
            output_attentions=True,
            use_cache=False,
        )
    finally:
        if not visible:
            with suppress(ValueError):
                model.set_attn_implementation(before)
    layers = outputs.cross_attentions
    attention = None if not layers or layers[-1] is None else layers[-1][0].mean(0).float()
    entities = getattr(encoder_outputs, "entity_attention", None)
    return attention, None if entities is None else entities[0].float()


def _described(
    found: Summarizer,
    name: str,
    text: str,
    settings: Settings,
    inputs: Any,
    output: Any,
    attention: torch.Tensor | None,
    entities: torch.Tensor | None,
    meter: Meter,
) -> Written:
    beside = texts_of(found.tokenizer, inputs)
    summaries = [part.strip() for part in decode(found.tokenizer, output.sequences, beside)]
    special = set(found.tokenizer.all_special_ids)
    source_ids = inputs["input_ids"][0].tolist()
    source = _source_tokens(found, text, source_ids, special, beside)
    places = list(source)
    best = output.sequences[0, 1:].tolist()
    steps = [step for step, token in enumerate(best) if token not in special]
    return Written(
        model=name,
        settings=settings,
        summaries=summaries,
        scores=[float(score) for score in output.sequences_scores],
        summary_tokens=[_token(found, best[step], beside) or "·" for step in steps],
        source_tokens=list(source.values()),
        attention=[] if attention is None else attention[steps][:, places].tolist(),
        entities=None if entities is None else entities[places].tolist(),
        cut=_is_cut(found, text, len(source_ids)),
        seconds=meter.seconds,
        peak_memory=meter.peak_memory,
        parameters=sum(weight.numel() for weight in found.model.parameters()),
    )


def _token(found: Summarizer, token: int, beside: dict[str, Any]) -> str:
    return decode(found.tokenizer, [[token]], beside, skip_special_tokens=False)[0].strip()


def _source_tokens(
    found: Summarizer, text: str, ids: Sequence[int], special: set[int], beside: dict[str, Any]
) -> dict[int, str]:
    """The tokens of the text by place, without the model's prefix, as they stand in it, each with the space before it."""
    places = [place for place, token in enumerate(ids) if token not in special]
    if not found.tokenizer.is_fast:
        skipped = found._length(found.prefix) if found.prefix else 0
        return {place: " " + _token(found, ids[place], beside) for place in places[skipped:]}
    offsets = _inputs(found, text, return_offsets_mapping=True)["offset_mapping"][0]
    whole, before = found.prefix + text, len(found.prefix)
    tokens = {}
    for place in places:
        if (end := offsets[place][1]) > len(found.prefix):
            tokens[place] = whole[before : max(end, before)]
            before = max(end, before)
    return tokens


def _is_cut(found: Summarizer, text: str, read: int) -> bool:
    limit = found.source_limit
    if limit is None or read < limit:
        return False
    return len(found.tokenizer(found.prefix + text, verbose=False)["input_ids"]) > limit


# --- pages ------------------------------------------------------------------------------------------------


def summary_html(written: Sequence[Written], text: str) -> str:
    """The summaries side by side, where each of their sentences comes from, the other beams, and the cost."""
    source = sentences(text)
    panels, rules, drawn = [], [], 0
    from_place: dict[int, list[int]] = {}
    for one in written:
        parts = []
        for sentence in sentences(one.summary):
            places = sources_of(sentence, source)
            for place in places:
                from_place.setdefault(place, []).append(drawn)
            kind = f"said said-{drawn}" if places else "said"
            parts.append(f'<span class="{kind}" tabindex="0">{escape(sentence)}</span>')
            rules.append(f".result:has(.said-{drawn}:is(:hover, :focus)) .from-{drawn}")
            drawn += 1
        shown = " ".join(parts) or "<i>(the model wrote nothing)</i>"
        cut = note(f"Only the first {len(one.source_tokens)} tokens were read.") if one.cut else ""
        panels.append(f'<div><h3>{escape(one.model)}</h3><div class="text summary">{shown}</div>{cut}</div>')
    origin = " ".join(
        f'<span class="{" ".join(f"from-{number}" for number in from_place.get(place, ()))}">{escape(sentence)}</span>'
        for place, sentence in enumerate(source)
    )
    style = f"<style>{', '.join(rules)} {{ background: rgb(250 204 21 / .45); }}</style>" if rules else ""
    return (
        f'<div class="result">{style}<div class="grid-of-two summaries">{"".join(panels)}</div>'
        f"<h3>Where it comes from</h3>{note('Point at a sentence of a summary, or step to it with the tab key.')}"
        f'<div class="text origin scroll" tabindex="0" role="region" aria-label="The text">{origin}</div>'
        f"{''.join(_beams(one) for one in written if one.scores)}"
        f'<div class="cost">{table("What it cost", ["cost", *(one.model for one in written)], cost_rows(written))}</div></div>'
    )


def _beams(written: Written) -> str:
    rows = [
        [str(i + 1), number(score), text]
        for i, (text, score) in enumerate(zip(written.summaries, written.scores, strict=True))
    ]
    listed = table("Finished summaries, best first", ["", "score", "summary"], rows)
    listed = re.sub(r"<td>(?=[^<]{60})", '<td class="long">', listed)
    return f"<details><summary>All {len(rows)} beams of {escape(written.model)}</summary>{listed}</details>"


def sources_of(sentence: str, source: Sequence[str]) -> list[int]:
    """The sentences of the source that a sentence of the summary comes from: those that share its rarest words, the
    second only if it has more of them that the first lacks.

    Example:
        >>> sources_of("Ada Lovelace wrote programs.", ["It rained.", "Lovelace wrote the first programs."])
        [1]
    """
    words = set(_words(sentence))
    spread = Counter(word for other in source for word in set(_words(other)))
    rarity = {word: math.log(1 + len(source) / spread[word]) for word in words if word in spread}
    shared = [{word for word in _words(other) if word in rarity} for other in source]
    found: list[int] = []
    seen: set[str] = set()
    first = 0.0
    for _ in range(min(2, len(source))):
        gain, place = max(
            (sum(rarity[word] for word in sorted(found_words - seen)), -place)
            for place, found_words in enumerate(shared)
        )
        if len(shared[-place] - seen) < 2 or gain < first / 3:
            break
        found.append(-place)
        seen |= shared[-place]
        first = first or gain
    return sorted(found)


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) > 3 or word.isdigit()]


def _speed(written: Written) -> float:
    return len(written.summary_tokens) / max(written.seconds, 1e-9)


def cost_rows(written: Sequence[Written]) -> list[list[str]]:
    """Time, memory, size and tokens, in words; one column for each model."""

    def row(name: str, tell: Callable[[Written], str]) -> list[str]:
        return [name, *(tell(one) for one in written)]

    return [
        row("time", lambda one: f"{one.seconds:.2f} seconds"),
        row("speed", lambda one: f"{_speed(one):.0f} tokens a second" if one.scores else "it copies"),
        row("memory on top of the model", lambda one: f"{one.peak_memory / 2**20:.0f} MB"),
        row(
            "size",
            lambda one: f"{one.parameters / 1e6:.1f} million parameters" if one.parameters else "no model",
        ),
        row("read", lambda one: f"{len(one.source_tokens):,} tokens"),
        row("written", lambda one: f"{len(one.summary_tokens):,} tokens"),
    ]


def attention_html(written: Written, token: int) -> str:
    """Where the model looked: for all tokens of the summary (0), or for one of them."""
    if not written.attention:
        return f'<div class="result">{note("This model shows no attention over the source.")}</div>'
    if not 0 <= token <= len(written.attention):
        raise InputError(f"the summary has {len(written.attention)} tokens; there is no number {token}.")
    rows = written.attention if token == 0 else [written.attention[token - 1]]
    looked = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    of = "all tokens" if token == 0 else f"“{written.summary_tokens[token - 1]}” (token {token})"
    title = f"Attention over the source while writing {of}"
    parts = [f"<h3>{escape(title)}</h3>", shaded_words(written.source_tokens, looked, title)]
    if token == 0:
        parts.append(_map(written, looked))
        if written.entities is not None:
            title = "Attention to entities: what the model takes for salient"
            parts.append(f"<h3>{title}</h3>{shaded_words(written.source_tokens, written.entities, title)}")
    return f'<div class="result">{"".join(parts)}</div>'


def _map(written: Written, looked: Sequence[float]) -> str:
    """The heat map; of a long source, the tokens that were looked at most, in the order of the text."""
    places = sorted(sorted(range(len(looked)), key=lambda place: -looked[place])[:MOST_COLUMNS])
    values = [[row[place] for place in places] for row in written.attention]
    columns = [written.source_tokens[place].strip() or "·" for place in places]
    what = "Each token of the summary (row) over the source (column)"
    if len(places) < len(looked):
        what += f": the {len(places)} of {len(looked)} tokens that were looked at most"
    return heat_map(what, written.summary_tokens, columns, values)


def to_json(written: Sequence[Written]) -> str:
    """Of each model its summary, beams, settings and cost."""
    return json.dumps({"summaries": [_as_dict(one) for one in written]}, indent=2, ensure_ascii=False)


def _as_dict(written: Written) -> dict[str, Any]:
    return {
        "model": written.model,
        "summary": written.summary,
        "beams": [
            {"score": score, "summary": text}
            for text, score in zip(written.summaries, written.scores, strict=False)
        ],
        "settings": asdict(written.settings),
        "cost": {
            "seconds": written.seconds,
            "peak_memory": written.peak_memory,
            "parameters": written.parameters,
            "source_tokens": len(written.source_tokens),
            "summary_tokens": len(written.summary_tokens),
        },
    }
