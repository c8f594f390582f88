"""ROUGE: n-grams, skip-bigrams and longest common subsequences shared with a reference.

Two ways of counting, named by `mode`: "google" equals rouge_score 0.1.2 bit for bit, "perl" equals the
ROUGE-1.5.5 script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from operator import contains, itemgetter
from typing import Any, TypeAlias

from summarily.metrics.base import Example, Metric, Values
from summarily.metrics.explanations import Overlaps, Shared, SharedGram, SharedToken, Spans, Token
from summarily.metrics.options import PRESETS, between, flag, limit, one_of
from summarily.metrics.references import best, combined
from summarily.metrics.rouge.lcs import Columns, lcs_length
from summarily.metrics.rouge.texts import (
    Reader,
    Stems,
    Text,
    read_exceptions,
)
from summarily.support.errors import InputError

TYPES = (*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum", "rougeSU4")
# A line that goes on after the end of a sentence; one pattern for each mark, because one known character is found
# faster than any of three.
_SENTENCES = [re.compile(rf"\{mark}[\"')\]]*[^\S\n]+\S") for mark in ".!?"]
DEFAULT_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


# What a prediction and a reference share, how much the prediction has, and how much the reference has.
Counts: TypeAlias = tuple[int, int, int]
# Precision, recall, F.
Value: TypeAlias = tuple[float, float, float]
# What a type counts: n-grams of a length, "SU4", "L" (the LCS of whole texts) or "Lsum" (line by line).
Kind: TypeAlias = int | str


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
            each Chinese or Japanese character is a token), or "white_space" (what white space separates, in lower
            case, punctuation kept: for texts that are tokenized already).
        split_sentences: let rougeLsum compare sentences, instead of lines.
        wordnet_exceptions: WordNet's exception lists, looked up before stemming as ROUGE-1.5.5 does (perl
            mode only): a folder with .exc files, or one such file.
        alpha: the weight of precision in F = 1 / (alpha / precision + (1 - alpha) / recall), as the script's
            option -p; one half by default.
        beta: for rougeL and rougeLsum instead, F = (1 + beta^2) PR / (R + beta^2 P): recall counts beta times as
            much (Lin's definition; 1.2 where captions and stories are scored). The same as alpha = 1 / (1 + beta^2).

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
        alpha: float = 0.5,
        beta: float | None = None,
    ):
        self.preset = one_of("preset", preset, PRESETS)
        self.types = _check_types(types)
        self.mode = one_of("mode", mode, ("google", "perl"))
        self.stemmer = flag("stemmer", stemmer)
        default_rule = "max" if mode == "google" else "pooled"
        self.multi_reference = one_of(
            "multi_reference",
            default_rule if multi_reference is None else multi_reference,
            ("max", "mean", "pooled"),
        )
        self.limit_bytes = limit("limit_bytes", limit_bytes)
        self.limit_words = limit("limit_words", limit_words)
        if limit_bytes is not None and limit_words is not None:
            raise InputError("limit_bytes and limit_words exclude each other; give one of them.")
        self.tokenizer = one_of("tokenizer", tokenizer, ("ascii", "unicode", "white_space"))
        self.split_sentences = flag("split_sentences", split_sentences)
        self.alpha = between("alpha", alpha, 0, 1)
        self.beta = None if beta is None else between("beta", beta, 0)
        exceptions, self.exceptions_digest = None, None
        if wordnet_exceptions is not None:
            if mode != "perl" or not stemmer:
                raise InputError('wordnet_exceptions is only read with mode="perl" and stemmer=True.')
            exceptions, self.exceptions_digest = read_exceptions(wordnet_exceptions)
        stems = None
        if stemmer:
            from summarily.metrics.rouge import stemmers

            porter = stemmers.PorterStemmer() if mode == "google" else stemmers.PerlPorterStemmer()
            stems = Stems(porter.stem, exceptions)
        self.reader = Reader(mode, tokenizer, stems, limit_bytes, limit_words, split_sentences)
        self._kinds = [_kind(name, mode) for name in self.types]
        self._with_lines = "Lsum" in self._kinds
        lcs_alpha = self.alpha if self.beta is None else 1 / (1 + self.beta**2)
        self._alphas = [
            self.alpha if isinstance(kind, int) or kind == "SU4" else lcs_alpha for kind in self._kinds
        ]
        if self.beta is not None and not {"L", "Lsum"} & set(self._kinds):
            raise InputError(
                "beta weighs rougeL and rougeLsum, and types has neither; use alpha for the others."
            )

    @property
    def keys(self) -> tuple[str, ...]:
        parts = [f"{name}_{part}" for name in self.types for part in ("precision", "recall")]
        return (*self.types, *parts)

    def notice(self, examples: Sequence[Example]) -> str | None:
        """Where lines are to be compared and there are none."""
        if "rougeLsum" not in self.types or self.split_sentences:
            return None
        texts = [text for example in examples for text in (example.prediction, *example.references)]
        if any(map(contains, texts, repeat("\n"))):
            return None
        lines = "\n".join(texts)  # searched at once
        if not any(pattern.search(lines) for pattern in _SENTENCES):
            return None
        return (
            f"rougeLsum compares line by line, and none of these {len(texts):,} texts has a line break, so it is the same "
            "as rougeL; published numbers are of sentences: pass split_sentences=True (--set rouge.split_sentences=True "
            "on the command line), or put each sentence on a line of its own."
        )

    def signature_fields(self, statistics: Any) -> dict[str, Any]:
        cut = None
        if self.limit_bytes or self.limit_words:
            cut = f"{self.limit_bytes}bytes" if self.limit_bytes else f"{self.limit_words}words"
        return {
            "mode": self.mode,
            "types": self.types,
            "stemmer": self.stemmer,
            "wordnet": self.exceptions_digest,
            "refs": self.multi_reference,
            "tokenizer": self.tokenizer,
            "units": "sentences" if self.split_sentences else "lines",
            "limit": cut,
            "alpha": None if self.alpha == 0.5 else f"{self.alpha:g}",
            "beta": None if self.beta is None else f"{self.beta:g}",
        }

    def score_examples(self, examples: Sequence[Example], statistics: Any) -> Values:
        seen: dict[str, Text] = {}
        read, with_lines = self.reader.read, self._with_lines
        rows: list[list[Value]] = []
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
                empty_references += not text.tokens
            empty_predictions += not texts[0].tokens
            rows.append(self._score(texts[0], texts[1:]))
        counts = {
            "empty_predictions": empty_predictions,
            "empty_references": empty_references - empty_predictions,
            "truncated": truncated,
        }
        return Values(self._columns(rows), counts, tokens)

    def _columns(self, rows: Sequence[Sequence[Value]]) -> dict[str, list[float]]:
        columns: dict[str, list[float]] = {key: [] for key in self.keys}
        for name, values in zip(self.types, zip(*rows, strict=True), strict=True):
            precision, recall, f = zip(*values, strict=True)
            columns[name] = list(f)
            columns[f"{name}_precision"] = list(precision)
            columns[f"{name}_recall"] = list(recall)
        return columns

    def _score(self, prediction: Text, references: Sequence[Text]) -> list[Value]:
        """One value per type."""
        if len(references) == 1:
            counted = self._count(prediction, references[0])
            return [
                _value(hits, ours, theirs, alpha)  # no star: this is called four times for each pair
                for (hits, ours, theirs), alpha in zip(counted, self._alphas, strict=True)
            ]
        per_reference = [self._count(prediction, reference) for reference in references]
        return [
            self._fold(counts, alpha)[0] for *counts, alpha in zip(*per_reference, self._alphas, strict=True)
        ]

    def _fold(self, counts: Sequence[Counts], alpha: float) -> tuple[Value, int | None]:
        """One type's value over all references, and the index of the reference it comes from, if one."""
        values = [_value(*count, alpha) for count in counts]
        if len(values) == 1:
            return values[0], 0
        if self.multi_reference == "pooled":
            hits, prediction, reference = map(sum, zip(*counts, strict=True))
            return _value(hits, prediction, reference, alpha), None
        if self.multi_reference == "mean":
            precision, recall, f = combined(values, "mean")
            return (precision, recall, f), None
        chosen = best(values, itemgetter(2))
        return values[chosen], chosen

    def _count(self, prediction: Text, reference: Text) -> list[Counts]:
        """Hits and totals of each type."""
        counts: list[Counts] = []
        overlap = Overlap(prediction, reference)
        same = prediction is reference
        n_prediction, n_reference = len(prediction.tokens), len(reference.tokens)
        # One line against one line, both whole: there is nothing to unite or to clip.
        plain = len(prediction.lines) <= 1 and len(reference.lines) <= 1 and not self.reader.lines_differ
        for kind in self._kinds:
            if isinstance(kind, int):
                totals = max(n_prediction - kind + 1, 0), max(n_reference - kind + 1, 0)
                counts.append((totals[0] if same else overlap.hits(kind), *totals))
            elif kind == "SU4":
                totals = skip_total(n_prediction), skip_total(n_reference)
                counts.append((totals[0] if same else overlap.skip_hits(), *totals))
            elif kind == "L" or plain:
                counts.append((overlap.lcs(), n_prediction, n_reference))
            else:
                n_lines = sum(map(len, reference.lines))
                counts.append((summary_hits(prediction, reference), n_prediction, n_lines))
        return counts

    # --- explanations ---

    def explain_example(self, example: Example, statistics: Any) -> Spans:
        """Which n-grams and subsequences were matched, and where they stand in both texts.

        Positions count tokens; each token's `start` and `end` are characters of the text, as are spans.
        `reference` is the one the value comes from, or None if it comes from all of them. The positions of
        "rougeLsum" count the tokens of the lines it compares. A word of its LCS that either text has used
        up is listed with `counted` false.

        Example:
            >>> why = Rouge(types=["rouge2"]).explain("the cat sat", ["a cat sat", "the dog sat"])
            >>> why.types["rouge2"].reference
            0
            >>> why.types["rouge2"].matches[0].gram
            ('cat', 'sat')
        """
        strings = example.prediction, *example.references
        texts = [self.reader.read(string, self._with_lines) for string in strings]
        per_reference = [self._count(texts[0], text) for text in texts[1:]]
        types = {}
        for i, (name, kind) in enumerate(zip(self.types, self._kinds, strict=True)):
            counts = [count[i] for count in per_reference]
            value, chosen = self._fold(counts, self._alphas[i])
            used = range(len(counts)) if chosen is None else [chosen]
            types[name] = Shared(
                *value,
                chosen,
                [
                    match
                    for row in used
                    for match in self._matches(
                        kind, row, (texts[0], texts[row + 1]), (strings[0], strings[row + 1])
                    )
                ],
                [Overlaps(*count, *_value(*count, self._alphas[i])) for count in counts],
            )
        columns = self._columns([[(one.precision, one.recall, one.f) for one in types.values()]])
        tokens = [self.reader.places(string) for string in strings]
        return Spans(
            self.name,
            {key: column[0] for key, column in columns.items()},
            example.prediction,
            example.references,
            tokens[0],
            tokens[1:],
            types,
        )

    def _matches(
        self, kind: Kind, row: int, texts: tuple[Text, Text], strings: tuple[str, str]
    ) -> list[SharedGram | SharedToken]:
        if kind not in ("L", "Lsum"):
            return list(_gram_matches(row, texts, kind))
        whole = kind == "L"
        places_of = self.reader.places if whole else self.reader.line_places
        lines = [[text.tokens] if whole else text.lines for text in texts]
        return list(_lcs_matches(row, texts, lines, [places_of(string) for string in strings]))


# --- counting ---------------------------------------------------------------------------------------------


def _value(hits: int, prediction: int, reference: int, alpha: float = 0.5) -> Value:
    # The order of operations is that of rouge_score, so that not even the last bit differs.
    if not hits:
        return 0.0, 0.0, 0.0
    precision = hits / prediction
    recall = hits / reference
    if alpha == 0.5:
        return precision, recall, 2 * precision * recall / (precision + recall)
    return precision, recall, precision * recall / ((1 - alpha) * precision + alpha * recall)


class Overlap:
    """What two texts have in common: only words that are in both can be part of anything shared.

    Example:
        >>> overlap = Overlap(Text("a b c d".split(), [], False), Text("b c x d".split(), [], False))
        >>> overlap.hits(1), overlap.hits(2), overlap.lcs()
        (3, 1, 3)
    """

    def __init__(self, prediction: Text, reference: Text):
        if len(prediction.tokens) > len(reference.tokens):
            prediction, reference = reference, prediction
        # Of the longer text, which may be very long, nothing is kept but what the shorter one has too.
        self.shorter, self.longer = prediction.tokens, reference.tokens
        self.common = common = prediction.words.intersection(self.longer)
        self.shared = [word for word in self.shorter if word in common]
        self.shared_longer = [word for word in self.longer if word in common]
        self._lcs: int | None = None

    def hits(self, n: int) -> int:
        """How many n-grams are in both: the smaller of their two counts, added up."""
        if n == 1:
            if len(self.shared) == len(self.common):
                return len(self.common)
            return multiset_hits(self.shared, self.shared_longer)
        return self._hits(pairwise if n == 2 else lambda tokens: ngrams(tokens, n))

    def skip_hits(self) -> int:
        """As `hits`, for the pairs and unigrams of SU4."""
        return self._hits(skip_grams)

    def _hits(self, grams_of: Callable[[Sequence[str]], Iterable[tuple[str, ...]]]) -> int:
        common = self.common
        # Only what begins and ends with a word of both texts can be in both.
        grams = [gram for gram in grams_of(self.shorter) if gram[0] in common and gram[-1] in common]
        distinct = set(grams)
        matched = distinct.intersection(grams_of(self.longer)) if grams else distinct
        if not matched or len(distinct) == len(grams):
            return len(matched)
        return multiset_hits(grams, grams_of(self.longer))

    def lcs(self) -> int:
        """The length of the longest common subsequence."""
        if self._lcs is None:
            self._lcs = lcs_length(self.shared, self.shared_longer)
        return self._lcs


def ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """The n-grams of a text, one after another.

    Example:
        >>> list(ngrams(["a", "b", "c", "d"], 3))
        [('a', 'b', 'c'), ('b', 'c', 'd')]
    """
    return zip(*(tokens[i:] for i in range(n)))  # noqa: B905


def skip_grams(tokens: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Pairs with at most four words between them, and single words: all but the last one, which
    ROUGE-1.5.5 leaves out.

    Example:
        >>> list(skip_grams(["a", "b", "c"]))
        [('a',), ('b',), ('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    yield from zip(tokens[:-1])
    for gap in range(1, 6):
        yield from zip(tokens, tokens[gap:])  # noqa: B905


def skip_total(n: int) -> int:
    """How many `skip_grams` a text of n words has.

    Example:
        >>> skip_total(3)
        5
    """
    return max(n - 1, 0) + sum(max(n - gap, 0) for gap in range(1, 6))


def multiset_hits(first: Sequence[Any], second: Iterable[Any]) -> int:
    """The size of the intersection of two multisets.

    Example:
        >>> multiset_hits("aab", "abbb")
        2
    """
    left: dict[Any, int] = {}
    for item in first:
        left[item] = left.get(item, 0) + 1
    hits = 0
    for item in second:
        n = left.get(item)
        if n:
            left[item] = n - 1
            hits += 1
            if hits == len(first):
                break
    return hits


def summary_hits(prediction: Text, reference: Text) -> int:
    """The words of the union LCS of every reference line with all prediction lines, each word counted no
    more often than it occurs in either text (Lin 2004, section 3.2, as ROUGE-1.5.5 clips it).

    Example:
        >>> read = Rouge().reader.read
        >>> summary_hits(read("w1 w2 w6\\nw1 w3 w5"), read("w1 w2 w3 w4 w5"))
        4
    """
    if not prediction.lines or not reference.lines:
        return 0
    union: Counter[str] = Counter()
    for line in reference.lines:
        if tuple(line) in prediction.distinct_lines:
            union.update(line)
        else:
            union.update([line[i] for i in prediction.columns.union_lcs(line)])
    in_prediction, in_reference = prediction.counts, reference.counts
    return sum(min(n, in_prediction[word], in_reference[word]) for word, n in union.items())


# --- describing -------------------------------------------------------------------------------------------


def _gram_matches(row: int, texts: tuple[Text, Text], kind: Kind) -> Iterator[SharedGram]:
    ours, theirs = (_grams_with_positions(text.tokens, kind) for text in texts)
    for gram, positions in theirs.items():
        if gram in ours:
            yield SharedGram(row, gram, min(len(positions), len(ours[gram])), ours[gram], positions)


def _grams_with_positions(tokens: Sequence[str], kind: Kind) -> dict[tuple[str, ...], list[list[int]]]:
    """Each gram with the token positions of its occurrences, in order of appearance."""
    last = len(tokens) - 1
    if not isinstance(kind, int):
        occurrences = [[i] for i in range(last)]
        occurrences += [[i, j] for i in range(last) for j in range(i + 1, min(i + 5, last) + 1)]
    else:
        occurrences = [list(range(i, i + kind)) for i in range(len(tokens) - kind + 1)]
    grams: dict[tuple[str, ...], list[list[int]]] = {}
    for positions in occurrences:
        grams.setdefault(tuple(tokens[i] for i in positions), []).append(positions)
    return grams


def _lcs_matches(
    row: int,
    texts: tuple[Text, Text],
    lines: Sequence[Sequence[Sequence[str]]],
    places: Sequence[Sequence[Token]],
) -> Iterator[SharedToken]:
    """The words of the (union) LCS in the order of the reference; clipped ones are not counted."""
    left = texts[0].counts & texts[1].counts
    columns = Columns(lines[0])
    start = 0
    for line in lines[1]:
        for i, matched in columns.alignment(line):
            counted = left[line[i]] > 0
            left[line[i]] -= 1
            here = places[1][start + i]
            spans = [(places[0][j].start, places[0][j].end) for j in matched]
            yield SharedToken(row, line[i], counted, start + i, (here.start, here.end), matched, spans)
        start += len(line)


def _kind(name: str, mode: str) -> Kind:
    kind = name.removeprefix("rouge")
    if kind == "L" and mode == "perl":
        return "Lsum"
    return int(kind) if kind.isdigit() else kind


# --- options ----------------------------------------------------------------------------------------------


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
