"""Does a metric notice damage? Words dropped, swapped or refilled: `summarily meta corruption`.

A summary is cut into chunks of ten tokens and damaged once per chunk. The clean and the damaged summary are both
scored against a separate reference; a metric wins if the clean one scores strictly higher. Ties lose and are counted
(the thesis' section 5.1.4 and Table 6.5).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from summarily.metrics.base import Metric, make_examples
from summarily.metrics.meta_evaluation.human import _column
from summarily.metrics.meta_evaluation.reports import Section, Table, number
from summarily.metrics.meta_evaluation.scores import ScoreStore, reported
from summarily.support.errors import InputError
from summarily.support.folders import data_folder
from summarily.support.tables import read_table

KINDS = ("drop", "swap", "refill")
CHUNK = 10
SEEDS = (0, 1, 2)
_CORE = re.compile(r"[^\W\d_](?:[\w'’-]*[^\W_])?")
"""The part of a token that is refilled: punctuation around a word stays."""

Refill = Callable[[Sequence[Sequence[str]], Sequence[Sequence[int]], Sequence[int]], list[dict[int, str]]]
"""Words for the given places of tokenised texts: (texts, places of each, a seed for each) to {place: word}."""


def corrupt(texts: Sequence[str], kind: str, seed: int = 0, refill: Refill | None = None) -> list[str]:
    """Damage each text once per chunk of ten tokens; the same seed gives the same damage.

    Args:
        kind: "drop" a token, "swap" a token with the next one, or "refill" a word by `refill`.
        refill: where "refill" takes its words from; by default neighbours in the static word vectors.

    A chunk too short to be damaged stays as it is, as does a text of one token that would be dropped.

    Example:
        >>> corrupt(["one two three"], "drop", seed=0)
        ['one two']
        >>> corrupt(["one two three"], "swap", seed=0)
        ['one three two']
    """
    if kind not in KINDS:
        raise InputError(f"there is no corruption {kind!r}; expected one of {', '.join(KINDS)}.")
    tokenised = [text.split() for text in texts]
    generators = [np.random.default_rng([seed, KINDS.index(kind), row]) for row in range(len(texts))]
    places = [
        [place for chunk in _chunks(tokens) if (place := _place(tokens, chunk, kind, generator)) is not None]
        for tokens, generator in zip(tokenised, generators, strict=True)
    ]
    if kind == "refill":
        seeds = [int(generator.integers(2**31)) for generator in generators]
        filled = (refill or neighbours())(tokenised, places, seeds)
        return [
            " ".join(words.get(i, token) for i, token in enumerate(tokens))
            for tokens, words in zip(tokenised, filled, strict=True)
        ]
    damage = _drop if kind == "drop" else _swap
    return [" ".join(damage(tokens, own)) for tokens, own in zip(tokenised, places, strict=True)]


def _chunks(tokens: Sequence[str]) -> list[range]:
    return [range(start, min(start + CHUNK, len(tokens))) for start in range(0, len(tokens), CHUNK)]


def _place(tokens: Sequence[str], chunk: range, kind: str, generator: np.random.Generator) -> int | None:
    """Which token of the chunk is damaged; None if none can be."""
    if kind == "drop":
        choices = list(chunk) if len(tokens) > 1 else []
    elif kind == "swap":
        # Two equal tokens swapped are no damage.
        choices = [place for place in chunk[:-1] if tokens[place] != tokens[place + 1]]
    else:
        choices = [place for place in chunk if _CORE.search(tokens[place])]
    return int(generator.choice(choices)) if choices else None


def _drop(tokens: Sequence[str], places: Sequence[int]) -> list[str]:
    gone = set(places)
    return [token for place, token in enumerate(tokens) if place not in gone]


def _swap(tokens: Sequence[str], places: Sequence[int]) -> list[str]:
    changed = list(tokens)
    for place in places:
        changed[place], changed[place + 1] = changed[place + 1], changed[place]
    return changed


# --- refilling ----------------------------------------------------------------------------------------------


def neighbours(vectors: Any = None, nearest: int = 10, frequent: int = 30_000) -> Refill:
    """Refill without a language model: one of the nearest words in the static vectors, drawn by the seed.

    Args:
        vectors: as `vectors.load` takes them; by default GloVe of the light preset.
        nearest: how many of the nearest are drawn from.
        frequent: candidates are the first so many words, which GloVe orders by frequency.

    A word without a vector is left as it is.
    """

    def refill(
        texts: Sequence[Sequence[str]], places: Sequence[Sequence[int]], seeds: Sequence[int]
    ) -> list[dict[int, str]]:
        from summarily.support.vectors import load

        known = load(vectors or "glove-6b-50d")
        cores = [[_core(tokens[place]) for place in own] for tokens, own in zip(texts, places, strict=True)]
        wanted = sorted({core.lower() for own in cores for core in own if core.lower() in known})
        table = _nearest(known, wanted, nearest, frequent)
        filled: list[dict[int, str]] = []
        for tokens, own, words, seed in zip(texts, places, cores, seeds, strict=True):
            generator = np.random.default_rng(seed)
            found = {}
            for place, word in zip(own, words, strict=True):
                if word.lower() in table:
                    choice = str(generator.choice(table[word.lower()]))
                    found[place] = _put(tokens[place], choice)
            filled.append(found)
        return filled

    return refill


def _nearest(known: Any, words: Sequence[str], nearest: int, frequent: int) -> dict[str, list[str]]:
    """The nearest other words by cosine, of each word."""
    candidates = [i for i, word in enumerate(known.words[:frequent]) if word.isalpha()]
    names = [known.words[i] for i in candidates]
    matrix = np.array(known.matrix[candidates], dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    found = {}
    for start in range(0, len(words), 256):
        block = words[start : start + 256]
        cosine = np.stack([known[word] for word in block]).astype(np.float32) @ matrix.T
        best = np.argpartition(-cosine, nearest + 1, axis=1)[:, : nearest + 1]
        for word, line, places in zip(block, cosine, best, strict=True):
            order = sorted(places, key=lambda place: -line[place])
            found[word] = [names[place] for place in order if names[place] != word][:nearest]
    return found


def masked_language_model(
    model: str | os.PathLike[str], batch: int = 16, device: str | None = None
) -> Refill:
    """Refill by a masked language model: the likeliest whole word that is not the one that was there.

    All places of a window of a text are masked at once, as the words around them are what is left to go by.

    Args:
        model: a path or Hub id of any masked language model.
    """

    def refill(
        texts: Sequence[Sequence[str]], places: Sequence[Sequence[int]], seeds: Sequence[int]
    ) -> list[dict[int, str]]:
        fill = _Filler(model, device)
        jobs = [
            (row, window)
            for row, tokens in enumerate(texts)
            for window in (range(s, min(s + _WINDOW, len(tokens))) for s in range(0, len(tokens), _WINDOW))
        ]
        filled: list[dict[int, str]] = [{} for _ in texts]
        for start in range(0, len(jobs), batch):
            part = jobs[start : start + batch]
            asked = [
                (texts[row], window, [place for place in places[row] if place in window])
                for row, window in part
            ]
            for (row, _), words in zip(part, fill(asked), strict=True):
                filled[row].update(words)
        return filled

    return refill


_WINDOW = 10 * CHUNK
"""Tokens that are shown to the model at once, well within the limit of any."""


class _Filler:
    def __init__(self, model: str | os.PathLike[str], device: str | None):
        import transformers

        from summarily.metrics.encoding import default_device, load_pretrained
        from summarily.support.weights import resolve

        resolved = resolve(model)
        self.tokenizer = load_pretrained(transformers.AutoTokenizer, resolved)
        if self.tokenizer.mask_token is None:
            raise InputError(f"{model} has no mask token; refilling needs a masked language model.")
        self.device = device or default_device()
        self.model = load_pretrained(transformers.AutoModelForMaskedLM, resolved).eval().to(self.device)
        self.words = self._whole_words()

    def _whole_words(self) -> Any:
        """Which entries of the vocabulary are words by themselves; byte-level ones begin with a space."""
        import torch

        size = self.model.get_output_embeddings().weight.shape[0]
        pieces = self.tokenizer.convert_ids_to_tokens(list(range(min(size, len(self.tokenizer)))))
        marked = any(piece.startswith("Ġ") for piece in pieces)
        allowed = torch.zeros(size, dtype=torch.bool)
        for i, piece in enumerate(pieces):
            whole = piece.startswith("Ġ") if marked else not piece.startswith("##")
            allowed[i] = whole and self.tokenizer.decode([i]).strip().isalpha()
        return allowed

    def __call__(self, asked: Sequence[tuple[Sequence[str], range, Sequence[int]]]) -> list[dict[int, str]]:
        import torch

        mask = self.tokenizer.mask_token
        texts = []
        for tokens, window, places in asked:
            hidden = set(places)
            texts.append(" ".join(_put(tokens[i], mask) if i in hidden else tokens[i] for i in window))
        inputs = self.tokenizer(texts, return_tensors="pt", padding=True, truncation=True).to(self.device)
        with torch.inference_mode():
            logits = self.model(**inputs).logits.cpu().masked_fill(~self.words, -math.inf)
        filled = []
        for row, (tokens, _, places) in enumerate(asked):
            masked = (inputs["input_ids"][row] == self.tokenizer.mask_token_id).nonzero()[:, 0].tolist()
            found = {}
            for place, at in zip(places, masked, strict=False):  # what was cut off at the limit stays
                # The best word that is another one; the original may come several times, in other cases.
                best = logits[row, at].topk(min(8, logits.shape[-1])).indices.tolist()
                words = [self.tokenizer.decode([i]).strip() for i in best]
                was = _core(tokens[place]).lower()
                other = next((word for word in words if word.lower() != was), None)
                if other is not None:
                    found[place] = _put(tokens[place], other)
            filled.append(found)
        return filled


def _core(token: str) -> str:
    match = _CORE.search(token)
    return match.group() if match else token


def _put(token: str, word: str) -> str:
    """The token with its word replaced; a capital and the punctuation stay."""
    match = _CORE.search(token)
    if match is None:
        return word
    if match.group()[0].isupper() and word[:1].islower():
        word = word[0].upper() + word[1:]
    return token[: match.start()] + word + token[match.end() :]


# --- the study ----------------------------------------------------------------------------------------------


def read_outputs(
    data: str,
    folder: str | os.PathLike[str] | None = None,
    summary: str = "summary",
    reference: str = "reference",
    limit: int | None = None,
    split: str = "test",
) -> tuple[str, list[str], list[Any]]:
    """Summaries with separate references: "simcls" (with the cased references of the test set), a table, or a data
    set on the Hub; the first `limit` rows."""
    if data == "simcls":
        base = data_folder(folder) / "news"
        table = read_table(str(base / "cnndm_simcls_outputs.jsonl.gz"))
        cased = read_table(str(base / "cnndm_test_references.jsonl.gz"))
        known = dict(zip(cased["cnndm_hash"], cased["reference"], strict=True))
        references = [
            known.get(key, text) for key, text in zip(table["cnndm_hash"], table["reference"], strict=True)
        ]
        return "cnndm_simcls_outputs", table["simcls"][:limit], references[:limit]
    table = read_table(data, split)
    column = (
        "references"
        if reference == "reference" and "reference" not in table and "references" in table
        else reference
    )
    texts = _column(table, summary, "summary")[:limit], _column(table, column, "reference")[:limit]
    if not texts[0]:
        raise InputError(f"{data} has no rows.")
    return Path(data).name, *texts


def corruption_study(
    name: str,
    summaries: Sequence[str],
    references: Sequence[Any],
    metrics: Mapping[str, Metric],
    store: ScoreStore | None = None,
    kinds: Sequence[str] = KINDS,
    seeds: Sequence[int] = SEEDS,
    refill: Refill | None = None,
    refill_name: str = "nearest words of GloVe",
    progress: bool | None = None,
) -> dict[str, Any]:
    """How often each metric scores the clean summary strictly above its damaged version, by kind and seed.

    All versions are scored in one pass, so corpus statistics (idf) are the same for all of them.
    """
    for row, (summary, own) in enumerate(zip(summaries, references, strict=True)):
        if summary in ([own] if isinstance(own, str) else own):
            raise InputError(
                f"row {row}: the summary is its own reference; a text against its own corruption proves nothing."
            )
    # Damage leaves single spaces; line breaks in the clean text alone would be a difference of another kind.
    summaries = [" ".join(text.split()) for text in summaries]
    versions = {(kind, seed): corrupt(summaries, kind, seed, refill) for kind in kinds for seed in seeds}
    texts = [*summaries, *(text for version in versions.values() for text in version)]
    examples = make_examples(texts, list(references) * (1 + len(versions)))
    scores = (store or ScoreStore()).score(metrics, examples, progress)
    n = len(summaries)
    result: dict[str, Any] = {}
    for label, column in reported(scores).items():
        clean = column[:n]
        result[label] = {kind: [] for kind in kinds}
        for number_, (kind, _) in enumerate(versions, start=1):
            damaged = column[number_ * n : (number_ + 1) * n]
            scored = ~np.isnan(clean) & ~np.isnan(damaged)
            result[label][kind].append(
                {
                    "wins": int((clean > damaged)[scored].sum()),
                    "ties": int((clean == damaged)[scored].sum()),
                    "n": int(scored.sum()),
                }
            )
    unchanged = {
        kind: [sum(a == b for a, b in zip(summaries, versions[kind, seed], strict=True)) for seed in seeds]
        for kind in kinds
    }
    return {
        "name": name,
        "n": n,
        "seeds": list(seeds),
        "refill": refill_name,
        "unchanged": unchanged,
        "metrics": result,
        "signatures": {label: str(score.signature) for label, score in scores.items()},
    }


def summary_of(runs: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Mean accuracy over seeds in percent, its standard deviation, and the share of ties."""
    wins = np.array([100 * run["wins"] / run["n"] if run["n"] else math.nan for run in runs])
    ties = np.array([100 * run["ties"] / run["n"] if run["n"] else math.nan for run in runs])
    spread = float(wins.std(ddof=1)) if len(wins) > 1 else math.nan
    return {"accuracy": float(wins.mean()), "deviation": spread, "ties": float(ties.mean())}


def corruption_table(result: Mapping[str, Any]) -> Table:
    """In the shape of the thesis' Table 6.5: percent of summaries where the clean one scores higher."""
    kinds = list(next(iter(result["metrics"].values())))
    header = ["metric"]
    for kind in kinds:
        header += [f"{kind} %", "sd", "ties %"]
    rows = []
    for label, by_kind in result["metrics"].items():
        cells = [label]
        for kind in kinds:
            found = summary_of(by_kind[kind])
            cells += [number(found["accuracy"], 1), number(found["deviation"], 1), number(found["ties"], 1)]
        rows.append(cells)
    unchanged = ", ".join(f"{kind} {max(counts)}" for kind, counts in result["unchanged"].items())
    note = (
        f"{result['n']} summaries, {len(result['seeds'])} seeds (sd over seeds); a tie is lost. Refilled by "
        f"{result['refill']}. Texts that could not be damaged, at most: {unchanged}."
    )
    return Table(f"{result['name']}: clean summary scored above its corruption", header, rows, note)


def section(result: Mapping[str, Any]) -> Section:
    """The part of a report about corruption."""
    return Section(f"Corruption: {result['name']}", tables=[corruption_table(result)])
