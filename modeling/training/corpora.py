"""Pairs of documents and summaries: loading, the papers' preprocessing, stable splits, filters that count.

Every row becomes `id`, `source`, `target` and `references` (a list; `target` is its first, unless `learned` names
another). What a split has lost, and why, is in `Corpus.dropped`.

    >>> from summarily.modeling.training.recipe import DataSection
    >>> section = DataSection(files={"train": "pairs.jsonl"}, source="text", target="title", lowercase=True)
    >>> prepare_row({"text": "Two Cats sat.", "title": "Cats sit"}, section)["source"]
    'two cats sat.'
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from summarily.modeling.data import data_of, texts_of
from summarily.modeling.training import articles
from summarily.modeling.training.articles import cased_as, with_stops, without_dateline, without_furniture
from summarily.modeling.training.random_starts import StartTokenizer
from summarily.modeling.training.recipe import DataSection, data_section
from summarily.support.errors import RecipeError
from summarily.support.folders import data_folder

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase

SPLITS = ("train", "validation", "test")
UNKNOWN = "UNK"
FORMATS = {"json": "json", "jsonl": "json", "csv": "csv", "tsv": "csv", "parquet": "parquet"}


@dataclass
class Corpus:
    """The splits, and for each of them how many rows were dropped for which reason."""

    splits: dict[str, Any]
    dropped: dict[str, Counter[str]] = field(default_factory=dict)

    def __getitem__(self, split: str) -> Any:
        return self.splits[split]

    def report(self) -> str:
        """One line for each split: what is left, what was dropped and why."""
        lines = []
        for name, rows in self.splits.items():
            size = f"{len(rows):,} rows" if hasattr(rows, "__len__") else "a stream"
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.dropped[name].most_common())
            lines.append(f"{name}: {size}" + (f"; dropped {reasons}" if reasons else ""))
        return "\n".join(lines)


# --- columns ----------------------------------------------------------------------------------------------


def column(row: Mapping[str, Any], path: str) -> Any:
    """The value at a path: `a`, `a.b`, `a[].b` for the list of every `b`, or `a[0]` for the first of a list ("" if it
    is empty).

    Example:
        >>> column({"sections": [{"text": "x"}, {"text": "y"}]}, "sections[].text")
        ['x', 'y']
        >>> column({"highlights": ["It snowed.", "It thawed."]}, "highlights[0]")
        'It snowed.'
    """
    values: Any = row
    for i, part in enumerate(path.split(".")):
        name, _, place = part.removesuffix("]").partition("[")
        try:
            values = [item[name] for item in values] if i and isinstance(values, list) else values[name]
        except (KeyError, TypeError):
            known = ", ".join(map(str, row)) if isinstance(row, Mapping) else type(row).__name__
            raise RecipeError(f"column {path!r}: there is no {name!r}; the row has {known}.") from None
        if part.endswith("]") and not isinstance(values, list):
            raise RecipeError(
                f"column {path!r}: {name!r} is a {type(values).__name__}, not a list; drop the [{place}]."
            )
        if place:
            values = next(iter(values[int(place) :]), "")
    return values


def _parts(row: Mapping[str, Any], paths: str | list[str]) -> list[str]:
    """The texts of one or several columns; nested lists of sentences are joined by spaces."""
    texts: list[str] = []
    for path in [paths] if isinstance(paths, str) else paths:
        value = column(row, path)
        texts += [joined(item) for item in value] if isinstance(value, list) else [joined(value)]
    return texts


def joined(value: Any) -> str:
    """A text, or nested lists of texts joined by blanks.

    Example:
        >>> joined(["A", ["b", None]])
        'A b '
    """
    if value is None:
        return ""
    return " ".join(map(joined, value)) if isinstance(value, list) else str(value)


# --- preprocessing ----------------------------------------------------------------------------------------

_CONCLUSION = re.compile(r"\b(conclusions?|concluding remarks|summary)\b", re.IGNORECASE)
_SENTENCE_MARKS = re.compile(r"<\s*/?\s*S\s*>", re.IGNORECASE)
# Of formulas and citations: "@xmath3" and "@xcite" of the papers of Cohan et al. (2018), "<cit>" of others.
_MATH_MARKS = re.compile(r"@x(?:math|cite)\d*|<cit>")
_EDITING = re.compile(r"^by\s|\s--?\s*by\s|[\[\]{}*]|\b(?:writethru|eds)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")
# Function words: sharing only these says nothing about a headline and its sentence.
_FUNCTION_WORDS = frozenset(
    """a about above after again against all also an and any are as at be because been before being
    below between both but by can could did do does doing down during each few for from further had
    has have he her here hers him his how i if in into is it its just may me might more most must my
    no nor not now of off on once only or other our out over own said same she should so some such
    than that the their them then there these they this those through to too under until up us very
    was we were what when where which while who whom why will with would you your""".split()  # noqa: SIM905  a list of 119 lines reads worse
)


def cut_after_conclusion(headings: Sequence[str], parts: Sequence[str]) -> int:
    """How many parts to keep: up to the first one headed as a conclusion, or all of them.

    An opening part is never taken for the end of a paper ("Summary" may head the first section).

    Example:
        >>> cut_after_conclusion(["1 Introduction", "5 Concluding remarks", "Appendix"], ["a", "b", "c"])
        2
    """
    if len(headings) != len(parts):
        raise RecipeError(f"data.headings has {len(headings)} entries but the source has {len(parts)} parts.")
    for i, heading in enumerate(headings):
        if i and _CONCLUSION.search(heading):
            return i + 1
    return len(parts)


def ptb_tokens(text: str) -> str:
    """Penn Treebank tokens, separated by spaces.

    Example:
        >>> ptb_tokens("It isn't so.")
        "It is n't so ."
    """
    return " ".join(_treebank().tokenize(text))


@functools.cache
def _treebank() -> Any:
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer()


def clean(text: str, section: DataSection) -> str:
    """The text after the options of `section` that work on one text."""
    if section.cnn_marker == "strip":
        text = without_dateline(text)
    if section.sentence_marks == "strip":
        text = _SENTENCE_MARKS.sub(" ", text)
    if section.math_marks == "strip":
        text = _MATH_MARKS.sub(" ", text)
    if section.ptb_tokens:
        text = ptb_tokens(text)
    if section.lowercase:
        text = text.lower()
    if section.digits_to_hash:
        text = re.sub(r"\d", "#", text)
    # Lines are kept (sentences of a summary, sections of a document), other white space is one blank.
    return "\n".join(line for line in (" ".join(line.split()) for line in text.splitlines()) if line)


def content_id(text: str) -> str:
    """An identifier of the text itself: equal for texts that differ in case and white space only.

    Example:
        >>> content_id("A  cat") == content_id("a cat")
        True
    """
    return hashlib.blake2b(
        " ".join(text.lower().split()).encode("utf-8", "replace"), digest_size=16
    ).hexdigest()


def share(identifier: str, seed: int = 0) -> float:
    """Where a row falls between 0 and 100, decided by its identifier and the seed alone.

    Example:
        >>> 0 <= share("row 1") < 100 and share("row 1") == share("row 1")
        True
    """
    digest = hashlib.blake2b(f"{seed}:{identifier}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 * 100


def prepare_row(row: Mapping[str, Any], section: DataSection) -> dict[str, Any]:
    """One raw row as id, source, target, references, with its split and the reason to drop it, if any."""
    parts = _parts(row, section.source)
    raw = section.joiner.join(parts)
    if section.headings:
        headings = [joined(item) for item in column(row, section.headings)]
        if section.drop_unheaded and any(headings):
            headed = [(heading, part) for heading, part in zip(headings, parts, strict=True) if heading]
            headings, parts = map(list, zip(*headed, strict=True))
        if section.cut_after_conclusion:
            parts = parts[: cut_after_conclusion(headings, parts)]
        if section.keep_headings:
            parts = [f"{heading}\n{part}".strip() for heading, part in zip(headings, parts, strict=False)]
    source = section.joiner.join(parts)
    if section.news_furniture == "strip":  # of articles; the lines of a summary are sentences
        source = without_furniture(source)
    source = clean(source, section)
    if section.first_paragraph:
        source = source.partition("\n")[0]
    if section.references:
        references = [clean(joined(text), section) for text in column(row, section.references)]
    else:
        references = [clean(section.joiner.join(_parts(row, section.target)), section)]
    if section.target_case == "source":
        references = [cased_as(text, raw) for text in references]
    if section.target_stops:
        references = [with_stops(text) for text in references]
    learned = [clean(joined(column(row, section.learned)), section)] if section.learned else references
    identifier = str(column(row, section.id)) if section.id else content_id(raw)
    return {
        "id": identifier,
        "source": section.prefix + source,
        "target": learned[0] if learned else "",
        "references": references,
        "split": str(column(row, section.split_column)) if section.split_column else "",
        "share": share(identifier, section.split_seed),
        "reason": reason_to_drop(source, references, section),
        "fault": training_fault(source, references[0], section) if references else "",
    }


def reason_to_drop(source: str, references: Sequence[str], section: DataSection) -> str:
    """Why a pair is of no use, or "" when it is."""
    words = len(source.split())
    if not words or not references or not references[0]:
        return "empty source or target"
    if words < section.min_source_words:
        return f"source under {section.min_source_words} words"
    if len(references[0].split()) < section.min_target_words:
        return f"target under {section.min_target_words} words"
    if section.max_copied < 1 and copied(source, references[0]) > section.max_copied:
        return f"over {section.max_copied:.0%} of the target in the source"
    return ""


def copied(source: str, target: str) -> float:
    """The share of the target's trigrams of words that stand in the source.

    Example:
        >>> copied("the cat sat on the mat", "A cat sat on the mat")
        0.75
    """
    there, here = (
        set(zip(words, words[1:], words[2:], strict=False))
        for words in (source.lower().split(), target.lower().split())
    )
    return len(here & there) / len(here) if here else 0.0


def training_fault(source: str, target: str, section: DataSection) -> str:
    """Why a pair is not to be learned from, though it is a fair question in a test.

    Example:
        >>> section = DataSection(min_copied=0.5, copied_words=4)
        >>> training_fault("the cat sat down on the mat", "it sat on the mat", section)
        'under 50% of the target in the first 4 words of the source'
    """
    fault = headline_fault(source, target) if section.headline_filter else ""
    if fault or not section.min_copied:
        return fault
    read = " ".join(source.split()[: section.copied_words])
    if copied(read, target) >= section.min_copied:
        return ""
    part = f"the first {section.copied_words} words of the source" if section.copied_words else "the source"
    return f"under {section.min_copied:.0%} of the target in {part}"


def headline_fault(sentence: str, headline: str) -> str:
    """What makes a headline unfit as the summary of its first sentence, after the heuristics of Rush et al. (2015).

    Example:
        >>> headline_fault("Oil rose again on Monday.", "Is oil too dear?")
        'question or colon in the headline'
        >>> headline_fault("Oil rose again on Monday.", "Crude gains")
        'no content word in common'
    """
    if "?" in headline or ":" in headline:
        return "question or colon in the headline"
    if _EDITING.search(headline):
        return "byline or editing mark in the headline"
    shared = set(_WORD.findall(sentence.lower())) & set(_WORD.findall(headline.lower()))
    return "" if shared - _FUNCTION_WORDS else "no content word in common"


# --- loading ----------------------------------------------------------------------------------------------


def load_corpus(section: DataSection, data: str | Path | None = None) -> Corpus:
    """Load, preprocess, split and filter what a recipe's data section describes.

    Args:
        section: the recipe's data section.
        data: the folder of local files; by default the environment variable `SUMMARILY_DATA`.
    """
    loaded: dict[str, Any] = {}
    corpus = Corpus({})
    for split in SPLITS:
        name, low, high = parse_split(getattr(section, split))
        raw_name = "" if section.split_column else name
        if raw_name not in loaded:
            loaded[raw_name] = _prepared(section, raw_name, data)
        rows = _part(loaded[raw_name], section, name, low, high)
        corpus.splits[split], corpus.dropped[split] = _filtered(rows, section, split)
        if not section.streaming and not len(corpus.splits[split]):
            raise RecipeError(
                f"data.{split} = {getattr(section, split)!r} has no rows left: {corpus.dropped[split]}"
            )
    for name in section.also:
        _add_training_rows(corpus, data_section(name, section), data)
    if section.rare_words_below:
        _replace_rare_words(corpus, section.rare_words_below)
    return corpus


def _add_training_rows(corpus: Corpus, section: DataSection, data: str | Path | None) -> None:
    """Of another data set what is learned from; its other splits are not for this model."""
    from datasets import concatenate_datasets

    name, low, high = parse_split(section.train)
    rows = _prepared(section, "" if section.split_column else name, data)
    rows, dropped = _filtered(_part(rows, section, name, low, high), section, "train")
    corpus.splits["train"] = concatenate_datasets([corpus["train"], rows])
    corpus.dropped["train"] += dropped


def parse_split(text: str) -> tuple[str, float, float]:
    """`train@0-90` as its name and the range of percents.

    Example:
        >>> parse_split("train@90-95"), parse_split("test")
        (('train', 90.0, 95.0), ('test', 0.0, 100.0))
    """
    match = re.fullmatch(r"([^@]+)(?:@([\d.]+)-([\d.]+))?", text)
    if not match or (match[2] and not 0 <= float(match[2]) < float(match[3]) <= 100):
        raise RecipeError(
            f"{text!r} is not a split; write a name, or name@from-to in percent such as train@0-90."
        )
    return match[1], float(match[2] or 0), float(match[3] or 100)


def _part(rows: Any, section: DataSection, name: str, low: float, high: float) -> Any:
    """The rows of a split, by the split column and by their share, where these say so."""
    if section.split_column:
        rows = rows.filter(functools.partial(_in_split, name=name))
    if (low, high) != (0, 100):
        rows = rows.filter(functools.partial(_in_share, low=low, high=high))
    return rows


def _in_split(row: Mapping[str, Any], name: str) -> bool:
    return row["split"] == name


def _in_share(row: Mapping[str, Any], low: float, high: float) -> bool:
    return low <= row["share"] < high


def _prepared(section: DataSection, name: str, data: str | Path | None) -> Any:
    """The raw rows of a split (or, with a split column, of all of them), each through `prepare_row`."""
    folder = data_folder(data, ".")
    if section.split_column and len(section.files) > 1:
        raise RecipeError(
            f"data.split_column divides one file, but data.files has {', '.join(section.files)}."
        )
    path = section.files.get(name) if name else next(iter(section.files.values()), None)
    if path and (folder / path / "input.txt").is_file():
        raw = read_duc(folder / path)
        section = replace(
            section,
            source="source",
            references="references",
            id=None,
            headings=None,
            cut_after_conclusion=False,
            keep_headings=False,
        )
        raw = raw.to_iterable_dataset() if section.streaming else raw
    else:
        raw = _load(section, name, folder / path if path else None)
    columns = raw.column_names or list(next(iter(raw)))
    options = {"remove_columns": columns, "features": _prepared_features()}
    if not section.streaming:
        # The cache of `datasets` knows a function by its name alone: what was prepared by other code is not used.
        options["new_fingerprint"] = _fingerprint(raw, section)
    return raw.map(functools.partial(prepare_row, section=section), **options)


def _fingerprint(rows: Any, section: DataSection) -> str:
    from datasets.fingerprint import Hasher

    code = [inspect.getsource(module) for module in (articles, sys.modules[__name__])]
    return Hasher.hash([rows._fingerprint, dataclasses.asdict(section), code])


def _prepared_features() -> Any:
    """Named outright: a raw column of the same name but another type would decide otherwise."""
    from datasets import Features, List, Value

    text = Value("string")
    texts = dict.fromkeys(("id", "source", "target", "split", "reason", "fault"), text)
    return Features(texts | {"references": List(text), "share": Value("float64")})


def _load(section: DataSection, name: str, path: Path | None) -> Dataset | IterableDataset:
    import datasets

    if path is None:
        if not section.name:
            known = ", ".join(section.files) or "none"
            raise RecipeError(
                f"there is no split {name!r}: data.files has {known}. Add data.files.{name}, or take a part of "
                f"another split by its hash, such as 'train@95-100'."
            )
        split = name or "+".join(SPLITS)
        return datasets.load_dataset(
            section.name, section.config, split=split, revision=section.revision, streaming=section.streaming
        )
    paths = sorted(path.parent.glob(path.name)) if "*" in path.name else [path]
    if not paths or not paths[0].is_file():
        raise RecipeError(
            f"there is no file {path}; give the folder of data.files by --data or the environment variable "
            "SUMMARILY_DATA."
        )
    kind = next((FORMATS[end] for end in path.name.lower().split(".")[:0:-1] if end in FORMATS), None)
    if kind is None:
        raise RecipeError(f"{path.name}: unknown kind of file; known are {', '.join(FORMATS)}, also gzipped.")
    options = {"delimiter": "\t"} if ".tsv" in path.name.lower() else {}
    files = {"train": list(map(str, paths))}
    return datasets.load_dataset(
        kind, data_files=files, split="train", streaming=section.streaming, **options
    )


def _filtered(rows: Any, section: DataSection, split: str) -> tuple[Any, Counter[str]]:
    dropped: Counter[str] = Counter()
    limit = section.limits.get(split)
    columns = ["split", "share", "reason", "fault"]
    check = _CountingFilter(dropped, section.drop_duplicates, split == "train")
    if section.streaming:
        # A stream is filtered as it passes, so its counts grow while it is read.
        rows = rows.filter(check).remove_columns(columns)
        return (rows.take(limit) if limit else rows), dropped
    keep: list[int] = []
    for i, row in enumerate(rows.select_columns(["source", "reason", "fault"])):
        if len(keep) == limit:
            break
        if check(row):
            keep.append(i)
    return rows.select(keep).remove_columns(columns), dropped


@dataclass
class _CountingFilter:
    dropped: Counter[str]
    duplicates: bool
    training: bool
    seen: set[str] = field(default_factory=set)

    def __call__(self, row: Mapping[str, Any]) -> bool:
        # Bad headlines are kept out of training, but held-out splits stay as they are: no easier than the data.
        reason = row["reason"] or (row["fault"] if self.training else "")
        if not reason and self.duplicates:
            key = content_id(row["source"])
            reason = "duplicate source" if key in self.seen else ""
            self.seen.add(key)
        if reason:
            self.dropped[reason] += 1
        return not reason


def _replace_rare_words(corpus: Corpus, minimum: int) -> None:
    """Words seen fewer than `minimum` times in the training split become UNK; references stay as they are."""
    counts: Counter[str] = Counter()
    for name in ("source", "target"):
        for text in corpus["train"][name]:
            counts.update(text.split())
    frequent = frozenset(word for word, n in counts.items() if n >= minimum)
    replace_words = functools.partial(_without_rare, frequent=frequent)
    corpus.splits = {name: rows.map(replace_words) for name, rows in corpus.splits.items()}


def _without_rare(row: Mapping[str, Any], frequent: frozenset[str]) -> dict[str, str]:
    return {name: _known_words(row[name], frequent) for name in ("source", "target")}


def _known_words(text: str, frequent: frozenset[str]) -> str:
    lines = (" ".join(w if w in frequent else UNKNOWN for w in line.split()) for line in text.splitlines())
    return "\n".join(lines)


# --- DUC --------------------------------------------------------------------------------------------------


def read_duc(folder: str | Path) -> Dataset:
    """DUC2003 and DUC2004 task 1, one line for each document: `input.txt` and `task1_ref0.txt` to `_ref3.txt`.

    The data is licensed by NIST and not ours to ship; this is the layout in which it is usually
    passed on together with the Gigaword pairs of Rush et al. (2015). The task is scored by ROUGE recall of the first 75 bytes against the four
    references: `evaluation.max_bytes = 75`, and `rouge1_recall` and its siblings.
    """
    import datasets

    folder = Path(folder)
    sources = (folder / "input.txt").read_text(encoding="utf-8").splitlines()
    files = sorted(folder.glob("task1_ref*.txt"))
    if len(files) != 4:
        raise RecipeError(
            f"{folder.name}: expected task1_ref0.txt to task1_ref3.txt, found {len(files)} of them."
        )
    references = [path.read_text(encoding="utf-8").splitlines() for path in files]
    for path, lines in zip(files, references, strict=True):
        if len(lines) != len(sources):
            raise RecipeError(f"{path.name} has {len(lines)} lines but input.txt has {len(sources)}.")
    rows = {"source": sources, "references": [list(texts) for texts in zip(*references, strict=True)]}
    return datasets.Dataset.from_dict(rows)


def cut_words(text: str, limit: int) -> str:
    """The first `limit` words.

    Example:
        >>> cut_words("one two three", 2)
        'one two'
    """
    return " ".join(text.split()[:limit])


def cut_bytes(text: str, limit: int) -> str:
    """The first `limit` bytes (DUC: 75), never splitting a character.

    Example:
        >>> cut_bytes("naïve", 3)
        'na'
    """
    return text.encode("utf-8")[:limit].decode("utf-8", "ignore")


# --- tokens -----------------------------------------------------------------------------------------------


WHOLE = 2**20
"""The tokens of a source that is not cut."""


def lengths_of(section: DataSection, split: str) -> DataSection:
    """The section with the lengths of a split: sources of the test may be longer than those of training, or whole.

    Example:
        >>> section = DataSection(max_source_tokens=400, max_test_source_tokens=800)
        >>> [lengths_of(section, split).max_source_tokens for split in SPLITS]
        [400, 400, 800]
    """
    if split != "test" or section.max_test_source_tokens is None:
        return section
    return replace(section, max_source_tokens=section.max_test_source_tokens or WHOLE)


def encode(
    rows: Any, tokenizer: PreTrainedTokenizerBase, section: DataSection, split: str | None = None
) -> Any:
    """Add `input_ids` and `labels`, cut to the section's lengths, special tokens included.

    `split` says which rows these are, where the lengths of the test are others.

    A tokenizer that gives the unknown words of a source ids of their own adds these words as `unknown_words`;
    `entities` adds `salient_tokens`.
    A source is cut at its end, or at both ends (`starts = "random"`), at a place that its id decides.
    """
    section = lengths_of(section, split or "train")
    return rows.map(functools.partial(_encode_rows, tokenizer=tokenizer, section=section), batched=True)


def _encode_rows(
    rows: Mapping[str, list[str]], tokenizer: PreTrainedTokenizerBase, section: DataSection
) -> dict[str, list[Any]]:
    options: dict[str, Any] = {
        "truncation": True,
        "add_special_tokens": True,
        "return_attention_mask": False,
    }
    longest = section.max_source_tokens
    if section.starts == "random":
        if section.entities or data_of(tokenizer).texts:
            raise RecipeError(
                "data.starts = 'random' goes neither with data.entities nor with a tokenizer that copies unknown "
                "words; both read a source from its beginning."
            )
        # The prefix stays, wherever the rest of a source starts.
        prefix = tokenizer(section.prefix, add_special_tokens=False)["input_ids"] if section.prefix else []
        cut = StartTokenizer(tokenizer, longest - len(prefix), section.starts, section.starts_seed)
        pairs = zip(rows["source"], rows["id"], strict=True)
        sources = [
            _behind_start(
                prefix, cut(text.removeprefix(section.prefix), example_id=name).input_ids, tokenizer
            )
            for text, name in pairs
        ]
        targets = tokenizer(text_target=rows["target"], max_length=section.max_target_tokens, **options)
        return {"input_ids": sources, "labels": targets["input_ids"]}
    # Both at once: the unknown words of a target are looked up among those of its source.
    options |= {"max_length": longest, "max_target_length": section.max_target_tokens}
    encoding = tokenizer(rows["source"], text_target=rows["target"], **options)
    columns = {"input_ids": encoding["input_ids"], "labels": encoding["labels"]}
    columns |= texts_of(tokenizer, encoding)
    if section.entities:
        from summarily.modeling.apeso.data_apeso import salient_tokens

        columns["salient_tokens"] = salient_tokens(tokenizer, rows["source"], rows["references"], longest)
    return columns


def _behind_start(prefix: list[int], ids: list[int], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The ids with a prefix, behind the start token if they have one."""
    start = int(bool(ids) and tokenizer.bos_token_id is not None and ids[0] == tokenizer.bos_token_id)
    return [*ids[:start], *prefix, *ids[start:]]


def texts(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Sources and targets in turn: what a tokenizer is trained on."""
    for row in rows:
        yield row["source"]
        yield row["target"]
