"""ROUGE: n-grams, skip-bigrams and longest common subsequences shared with a reference.

Two ways of counting, named by `mode`: "google" equals rouge_score 0.1.2 bit for bit, "perl" equals the
ROUGE-1.5.5 script.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from summarily.metrics.base import Example, InputError, Metric, Values, make_examples
from summarily.metrics.rouge.lcs import Columns, lcs_length
from summarily.metrics.rouge.texts import (
    PerlPorterStemmer,
    PorterStemmer,
    Reader,
    Stems,
    Text,
    Token,
    read_exceptions,
)

TYPES = (*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum", "rougeSU4")
DEFAULT_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


class Counts(NamedTuple):
    """What a prediction and a reference share, of how many each has."""

    hits: int
    prediction: int
    reference: int


class PRF(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f: float


class Rouge(Metric):
    """ROUGE-1 to 9, L, Lsum and SU4: precision, recall and F (Lin, 2004).

    Args:
        preset: "light" or "paper"; ROUGE has no model, so both mean the same.
        types: any of "rouge1" to "rouge9", "rougeL", "rougeLsum", "rougeSU4"; the first gives the main score.
        mode: "google" counts as rouge_score 0.1.2 does, "perl" as ROUGE-1.5.5 does. In perl mode "rougeL"
            is the summary-level LCS that the script calls ROUGE-L, the same as "rougeLsum".
        stemmer: compare Porter stems (words of more than three letters).
        multi_reference: "max" takes the reference with the highest F, for each type (google's default);
            "pooled" adds up hits and totals over references (perl's default); "mean" averages.
        limit_bytes, limit_words: read only that much of every prediction and reference, as the script's
            options -b and -l do: white-space words, UTF-8 bytes, line breaks not counted.
        tokenizer: "ascii" (letters a to z and digits) or "unicode" (letters, digits and marks of any script;
            each Chinese or Japanese character is a token).
        split_sentences: let rougeLsum compare sentences, instead of lines.
        wordnet_exceptions: WordNet's exception lists, looked up before stemming as ROUGE-1.5.5 does (perl
            mode only): a folder with .exc files, or one such file.

    Example:
        >>> score = Rouge().compute(["the cat sat on a mat"], ["the cat was on the mat"])
        >>> {name: round(value, 3) for name, value in score.mean.items() if "_" not in name}
        {'rouge1': 0.667, 'rouge2': 0.2, 'rougeL': 0.667, 'rougeLsum': 0.667}
        >>> str(score.signature)
        'rouge|mode:google|types:rouge1+rouge2+rougeL+rougeLsum|stemmer:no|refs:max|tokenizer:ascii|units:lines|version:0.1.0'
    """

    name = "rouge"
    summary = "ROUGE-1..9, L, Lsum, SU4: shared n-grams and subsequences; equals rouge_score or ROUGE-1.5.5"
    citation = """@inproceedings{lin-2004-rouge,
    title = "{ROUGE}: A Package for Automatic Evaluation of Summaries",
    author = "Lin, Chin-Yew",
    booktitle = "Text Summarization Branches Out",
    year = "2004",
    address = "Barcelona, Spain",
    publisher = "Association for Computational Linguistics",
    url = "https://aclanthology.org/W04-1013",
    pages = "74--81",
}"""

    def __init__(
        self,
        preset: str = "light",
        *,
        types: Sequence[str] = DEFAULT_TYPES,
        mode: str = "google",
        stemmer: bool = False,
        multi_reference: str | None = None,
        limit_bytes: int | None = None,
        limit_words: int | None = None,
        tokenizer: str = "ascii",
        split_sentences: bool = False,
        wordnet_exceptions: str | None = None,
    ):
        self.preset = _one_of("preset", preset, ("light", "paper"))
        self.types = _check_types(types)
        self.mode = _one_of("mode", mode, ("google", "perl"))
        self.stemmer = _flag("stemmer", stemmer)
        default_rule = "max" if mode == "google" else "pooled"
        self.multi_reference = _one_of(
            "multi_reference",
            default_rule if multi_reference is None else multi_reference,
            ("max", "mean", "pooled"),
        )
        self.limit_bytes = _limit("limit_bytes", limit_bytes)
        self.limit_words = _limit("limit_words", limit_words)
        if limit_bytes is not None and limit_words is not None:
            raise InputError("limit_bytes and limit_words exclude each other; give one of them.")
        self.tokenizer = _one_of("tokenizer", tokenizer, ("ascii", "unicode"))
        self.split_sentences = _flag("split_sentences", split_sentences)
        exceptions, self.exceptions_digest = None, None
        if wordnet_exceptions is not None:
            if mode != "perl" or not stemmer:
                raise InputError('wordnet_exceptions is only read with mode="perl" and stemmer=True.')
            exceptions, self.exceptions_digest = read_exceptions(wordnet_exceptions)
        stems = None
        if stemmer:
            porter = PorterStemmer() if mode == "google" else PerlPorterStemmer()
            stems = Stems(porter.stem, exceptions)
        self.reader = Reader(mode, tokenizer, stems, limit_bytes, limit_words, split_sentences)
        # What each type counts: "1" to "9", "SU4", "L" (the whole text) or "Lsum" (line by line).
        kinds = [name.removeprefix("rouge") for name in self.types]
        self._kinds = ["Lsum" if kind == "L" and mode == "perl" else kind for kind in kinds]
        self._with_lines = "Lsum" in self._kinds

    @property
    def keys(self) -> tuple[str, ...]:
        parts = [f"{name}_{part}" for name in self.types for part in ("precision", "recall")]
        return (*self.types, *parts)

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        limit = None
        if self.limit_bytes or self.limit_words:
            limit = f"{self.limit_bytes}bytes" if self.limit_bytes else f"{self.limit_words}words"
        return {
            "mode": self.mode,
            "types": self.types,
            "stemmer": self.stemmer,
            "wordnet": self.exceptions_digest,
            "refs": self.multi_reference,
            "tokenizer": self.tokenizer,
            "units": "sentences" if self.split_sentences else "lines",
            "limit": limit,
        }

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        seen: dict[str, Text] = {}
        read, with_lines = self.reader.read, self._with_lines
        rows: list[list[PRF]] = []
        empty_predictions = empty_references = truncated = tokens = 0
        for example in examples:
            texts = []
            for string in (example.prediction, *example.references):
                text = seen.get(string)
                if text is None:
                    text = seen[string] = read(string, with_lines)
                texts.append(text)
                truncated += text.truncated
                tokens += len(text.tokens)
            prediction, *references = texts
            empty_predictions += not prediction.tokens
            for reference in references:
                empty_references += not reference.tokens
            rows.append(self._score(prediction, references))
        columns = list(zip(*rows, strict=True))
        per_example: dict[str, list[float]] = {}
        for name, column in zip(self.types, columns, strict=True):
            per_example[name] = [value.f for value in column]
        for name, column in zip(self.types, columns, strict=True):
            per_example[f"{name}_precision"] = [value.precision for value in column]
            per_example[f"{name}_recall"] = [value.recall for value in column]
        counts = {
            "empty_predictions": empty_predictions,
            "empty_references": empty_references,
            "truncated": truncated,
        }
        return Values(per_example, counts, tokens)

    def _score(self, prediction: Text, references: Sequence[Text]) -> list[PRF]:
        """One value per type."""
        if len(references) == 1:
            return [_prf(*counts) for counts in self._count(prediction, references[0])]
        per_reference = [self._count(prediction, reference) for reference in references]
        return [self._fold(counts)[0] for counts in zip(*per_reference, strict=True)]

    def _fold(self, counts: Sequence[Counts]) -> tuple[PRF, int | None]:
        """One type's value over all references, and the index of the reference it comes from, if one."""
        values = [_prf(*count) for count in counts]
        if len(values) == 1:
            return values[0], 0
        if self.multi_reference == "pooled":
            return _prf(*map(sum, zip(*counts, strict=True))), None
        if self.multi_reference == "mean":
            return PRF(*(math.fsum(part) / len(values) for part in zip(*values, strict=True))), None
        best = max(range(len(values)), key=lambda i: values[i].f)
        return values[best], best

    def _count(self, prediction: Text, reference: Text) -> list[Counts]:
        """Hits and totals of each type."""
        counts = []
        length: int | None = None
        for kind in self._kinds:
            if kind == "L" or (kind == "Lsum" and self._is_plain(prediction, reference)):
                if length is None:
                    length = lcs_length(reference.tokens, prediction.tokens)
                counts.append(Counts(length, len(prediction.tokens), len(reference.tokens)))
            elif kind == "Lsum":
                total = sum(map(len, reference.lines))
                counts.append(
                    Counts(summary_hits(prediction, reference), len(prediction.tokens), total),
                )
            else:
                hits = gram_hits(prediction, reference, kind)
                counts.append(Counts(hits, prediction.total(kind), reference.total(kind)))
        return counts

    def _is_plain(self, prediction: Text, reference: Text) -> bool:
        """Whether there is nothing to unite or to clip: one line against one line, both whole."""
        return (
            len(prediction.lines) <= 1
            and len(reference.lines) <= 1
            and not (self.mode == "perl" and self.limit_bytes)
        )

    # --- explanations ---

    def explain(
        self, prediction: str, references: Any, source: str | None = None, statistics: Any = None
    ) -> dict[str, Any]:
        """Which n-grams and subsequences were matched, and where they stand in both texts.

        Positions count tokens; each token's `start` and `end` are characters of the text.

        Example:
            >>> why = Rouge(types=["rouge2"]).explain("the cat sat", ["a cat sat", "the dog sat"])
            >>> why["types"]["rouge2"]["reference"]
            0
            >>> why["types"]["rouge2"]["matches"][0]["gram"]
            ['cat', 'sat']
        """
        example = make_examples([prediction], [references])[0]
        texts = [self.reader.read(text, self._with_lines) for text in (prediction, *example.references)]
        places = [self.reader.places(text) for text in (prediction, *example.references)]
        per_reference = [self._count(texts[0], text) for text in texts[1:]]
        types = {}
        for i, (name, kind) in enumerate(zip(self.types, self._kinds, strict=True)):
            counts = [count[i] for count in per_reference]
            value, chosen = self._fold(counts)
            details = [
                {**count._asdict(), **_prf(*count)._asdict(), "chosen": chosen in (None, row)}
                for row, count in enumerate(counts)
            ]
            for row, detail in enumerate(details):
                if detail["chosen"]:
                    strings = prediction, example.references[row]
                    detail["matches"] = self._matches(kind, texts[0], texts[row + 1], strings)
            types[name] = {
                **value._asdict(),
                "reference": chosen,
                "matches": details[chosen]["matches"] if chosen is not None else None,
                "per_reference": details,
            }
        return {
            "metric": self.name,
            "signature": str(self.signature()),
            "prediction": _described(prediction, places[0]),
            "references": [
                _described(text, found) for text, found in zip(example.references, places[1:], strict=True)
            ],
            "types": types,
        }

    def _matches(
        self, kind: str, prediction: Text, reference: Text, strings: tuple[str, str]
    ) -> list[dict[str, Any]]:
        if kind == "L":
            found = [self.reader.places(text) for text in strings]
            alignment = Columns([prediction.tokens]).alignment(reference.tokens) if prediction.tokens else []
            return [_lcs_match(i, places, found[0], found[1], True) for i, places in alignment]
        if kind == "Lsum":
            found = [self.reader.line_places(text) for text in strings]
            return _summary_matches(prediction, reference, found[0], found[1])
        return _gram_matches(prediction, reference, kind)


# --- counting ---------------------------------------------------------------------------------------------


def _prf(hits: int, prediction: int, reference: int) -> PRF:
    # The order of operations is that of rouge_score, so that not even the last bit differs.
    precision = hits / prediction if prediction else 0.0
    recall = hits / reference if reference else 0.0
    total = precision + recall
    return PRF(precision, recall, 2 * precision * recall / total if total > 0 else 0.0)


def gram_hits(first: Text, second: Text, kind: str) -> int:
    """How many grams two texts share: the smaller of both counts, over all distinct grams."""
    if first is second:
        return first.total(kind)
    if len(first.tokens) > len(second.tokens):
        first, second = second, first
    # Only the shorter text's grams are kept; the longer text's pass by.
    distinct, repeated = first.distinct_grams(kind)
    common = distinct.intersection(second.grams(kind))
    if not common:
        return 0
    if not repeated:
        return len(common)
    counts = dict.fromkeys(common.intersection(repeated), 0)
    if counts:
        for gram in second.grams(kind):
            if gram in counts:
                counts[gram] += 1
    return len(common) + sum(min(n, repeated[gram]) - 1 for gram, n in counts.items())


def summary_hits(prediction: Text, reference: Text) -> int:
    """The words of the union LCS of every reference line with all prediction lines, each word counted no
    more often than it occurs in either text (Lin 2004, section 3.2, as ROUGE-1.5.5 clips it)."""
    if not prediction.lines or not reference.lines:
        return 0
    union: Counter[str] = Counter()
    for line in reference.lines:
        if prediction.has_line(line):
            union.update(line)
        else:
            union.update([line[i] for i in prediction.columns.union_lcs(line)])
    in_prediction, in_reference = prediction.counts, reference.counts
    return sum(min(n, in_prediction[word], in_reference[word]) for word, n in union.items())


# --- describing -------------------------------------------------------------------------------------------


def _described(text: str, places: Sequence[Token]) -> dict[str, Any]:
    return {"text": text, "tokens": [place._asdict() for place in places]}


def _gram_matches(prediction: Text, reference: Text, kind: str) -> list[dict[str, Any]]:
    grams = [_grams_with_positions(text.tokens, kind) for text in (prediction, reference)]
    return [
        {
            "gram": list(gram),
            "count": min(len(positions), len(grams[0][gram])),
            "prediction_positions": grams[0][gram],
            "reference_positions": positions,
        }
        for gram, positions in grams[1].items()
        if gram in grams[0]
    ]


def _grams_with_positions(tokens: Sequence[str], kind: str) -> dict[tuple[str, ...], list[list[int]]]:
    """Each gram with the token positions of its occurrences, in order of appearance."""
    last = len(tokens) - 1
    if kind == "SU4":
        occurrences = [[i] for i in range(last)]
        occurrences += [[i, j] for i in range(last) for j in range(i + 1, min(i + 5, last) + 1)]
    else:
        n = int(kind)
        occurrences = [list(range(i, i + n)) for i in range(len(tokens) - n + 1)]
    grams: dict[tuple[str, ...], list[list[int]]] = {}
    for positions in occurrences:
        grams.setdefault(tuple(tokens[i] for i in positions), []).append(positions)
    return grams


def _lcs_match(
    index: int,
    matched: Sequence[int],
    prediction: Sequence[Token],
    reference: Sequence[Token],
    counted: bool,
) -> dict[str, Any]:
    """A word of the LCS: where it is in the reference, and the places it is matched with."""
    here = reference[index]
    return {
        "token": here.text,
        "counted": counted,
        "reference_position": index,
        "reference_span": [here.start, here.end],
        "prediction_positions": list(matched),
        "prediction_spans": [[prediction[i].start, prediction[i].end] for i in matched],
    }


def _summary_matches(
    prediction: Text, reference: Text, prediction_places: Sequence[Token], reference_places: Sequence[Token]
) -> list[dict[str, Any]]:
    matches = []
    left = {word: min(n, reference.counts[word]) for word, n in prediction.counts.items()}
    start = 0
    for line in reference.lines if prediction.lines else []:
        for i, matched in prediction.columns.alignment(line):
            counted = left.get(line[i], 0) > 0
            if counted:
                left[line[i]] -= 1
            matches.append(_lcs_match(start + i, matched, prediction_places, reference_places, counted))
        start += len(line)
    return matches


# --- options ----------------------------------------------------------------------------------------------


def _one_of(option: str, value: Any, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise InputError(f"{option} is {value!r}; expected {' or '.join(map(repr, allowed))}.")
    return value


def _flag(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{option} is {value!r}; expected True or False.")
    return value


def _limit(option: str, value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise InputError(f"{option} is {value!r}; expected a positive whole number, or None for no limit.")
    return value


def _check_types(types: Any) -> tuple[str, ...]:
    if isinstance(types, str):
        raise InputError(f"types is a str; did you mean [{types!r}]?")
    if not isinstance(types, (list, tuple)) or not types:
        raise InputError(f"types is {types!r}; expected a list with some of {', '.join(TYPES)}.")
    for name in types:
        if name not in TYPES:
            raise InputError(f"types has {name!r}; expected some of {', '.join(TYPES)}.")
        if types.count(name) > 1:
            raise InputError(f"types has {name!r} twice.")
    return tuple(types)
