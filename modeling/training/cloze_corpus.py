"""Cloze questions made from articles: what readers are trained and tested on.

Three collections of news give passages and sentences about them: CNN/DailyMail articles with their highlights, BBC and
Reuters articles whose lead sentence is asked about with the rest as the passage. Articles are split by a hash of their
text, so no article and no copy of it is in two splits. A fourth, "cnndm", is CNN/DailyMail in its published split: test
and validation articles are read first, and copies of them in the training part are left out.

    python -m summarily.modeling.training.cloze_corpus --data FOLDER --output cloze.jsonl.gz
    python -m summarily.modeling.training.cloze_corpus --data FOLDER --output highlights.jsonl.gz \\
        --collections cnndm --articles train=6000 dev=300 test=1000
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import lzma
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from summarily.modeling.training.articles import with_stops, without_dateline, without_furniture
from summarily.support.cloze.marks import candidates
from summarily.support.cloze.questions import Question, make_cloze
from summarily.support.cloze.recognition import Mention, recogniser
from summarily.support.errors import InputError
from summarily.support.text import sentences

COLLECTIONS = ("cnndm_articles", "bbc_news_summary", "reuters_train")
CNNDM = "cnndm"
"""The collection of CNN/DailyMail in its published split, and its files."""
_CNNDM_FILES = {
    "test": "news/cnndm/test.jsonl.xz",
    "dev": "news/cnndm/validation.jsonl.xz",
    "train": "news/cnndm/train-0*.jsonl.xz",
}
TRAIN_WORDS = 400
"""Of a training article of "cnndm" so many words are kept, in whole paragraphs: what a view reads at most."""
HUMAN_SETS = ("summeval_docs", "realsumm_docs", "frank_valid_docs")
"""Sets of judged summaries whose articles no reader may have seen."""
_CHUNK = 512


class Article(NamedTuple):
    """A passage, the sentences that are asked about, and the texts in which to look for names.

    Without a `split` a hash of the passage decides.
    """

    collection: str
    passage: str
    asked: str
    named_in: tuple[str, ...]
    split: str | None = None


@dataclass
class Reading:
    """An article with its questions, anonymised; ids are those of `names`, before `relabel`.

    Only questions whose answer occurs in the passage are kept. `answerable` of `asked` questions were.
    """

    id: str
    collection: str
    split: str
    passage: str
    questions: list[Question]
    names: dict[str, list[str]]
    asked: int

    @property
    def candidates(self) -> list[str]:
        """The possible answers: the ids in the passage, by first occurrence."""
        return candidates(self.passage)

    @property
    def answerable(self) -> int:
        return len(self.questions)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines that is packed by gzip or xz."""
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    unpack: Any = lzma.open if path.suffix == ".xz" else gzip.open
    with unpack(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def articles(collection: str, rows: Iterable[dict[str, Any]]) -> Iterator[Article]:
    """The passages and asked sentences of a collection's rows.

    Example:
        >>> rows = [{"article": "Ann won in Oslo. It was cold. She left."}]
        >>> next(articles("bbc_news_summary", rows))[:3]
        ('bbc_news_summary', 'It was cold. She left.', 'Ann won in Oslo.')
    """
    for row in rows:
        if collection == "cnndm_articles":
            highlights = row["highlights"]
            texts = " ".join(highlights), row["article"]
            yield Article(collection, row["article"], "\n".join(highlights), texts)
        elif collection == "bbc_news_summary":
            lead, *rest = sentences(row["article"]) or [""]
            yield Article(collection, " ".join(rest), lead, (row["article"],))
        elif collection == "reuters_train":
            lead, body = row["first_paragraph"], row["body"]
            if lead and body.startswith(lead):
                yield Article(collection, body[len(lead) :].strip(), lead, (body,))
        else:
            raise InputError(
                f"there is no collection {collection!r}; expected one of {', '.join((*COLLECTIONS, CNNDM))}."
            )


def cnndm_article(row: Mapping[str, Any], split: str) -> Article:
    """A row of CNN/DailyMail without what its sites put around an article; a training article is cut.

    Example:
        >>> row = {"article": "Oslo (CNN) -- Ann won.\\n\\nShe left.", "highlights": ["Ann won", "She left ."]}
        >>> cnndm_article(row, "test")[1:3]
        ('Ann won.\\nShe left.', 'Ann won.\\nShe left.')
    """
    passage = cleaned(row["article"])
    if split == "train":
        kept: list[str] = []
        words = 0
        for paragraph in passage.split("\n"):
            words += len(paragraph.split())
            if kept and words > TRAIN_WORDS:
                break
            kept.append(paragraph)
        passage = "\n".join(kept)
    asked = with_stops("\n".join(row["highlights"]))
    return Article(CNNDM, passage, asked, (asked.replace("\n", " "), passage), split)


def cleaned(article: str) -> str:
    """An article without byline, dates and dateline, as the passages of "cnndm" are.

    Example:
        >>> cleaned("Oslo (CNN) -- Ann won.\\n\\nScroll down for video")
        'Ann won.'
    """
    return without_dateline(without_furniture(article))


def fingerprint(text: str) -> str:
    """A hash of the letters of a text: equal for copies that differ in case, spaces or punctuation.

    Example:
        >>> fingerprint("Snow fell .") == fingerprint("snow fell.")
        True
    """
    return hashlib.sha256(re.sub(r"[\W_]+", "", text).lower().encode()).hexdigest()


def split_of(text: str) -> str:
    """The split of an article, by a hash of its text: 80 of 100 train, 10 dev, 10 test.

    Example:
        >>> split_of("Snow fell.") == split_of("snow  fell")
        True
    """
    number = int(fingerprint(text)[:8], 16) % 100
    return "train" if number < 80 else "dev" if number < 90 else "test"


def cloze_corpus(
    found: Iterable[Article], *, recognise: Any = None, unseen: Sequence[str] = (), progress: bool = False
) -> Iterator[Reading]:
    """The questions of articles, in their order; copies of an article and articles without questions are left out.

    Args:
        found: see `articles`.
        recognise: what finds names; by default `recognition.recogniser()`.
        unseen: texts that must not be among them, such as the articles of sets of human judgements.
        progress: show a bar.

    Example:
        >>> passage, asked = "Ann Lee lives in Oslo.", "Ann Lee left Oslo."
        >>> reading = next(cloze_corpus([Article("mine", passage, asked, (asked, passage))]))
        >>> reading.passage, reading.questions[0]
        ('@entity0 lives in @entity1.', Question(text='@placeholder left @entity1.', answer='@entity0'))
    """
    from tqdm.auto import tqdm

    if recognise is None:
        recognise = recogniser()
    seen = {_beginning(text) for text in unseen}
    stream = iter(found)
    with tqdm(desc="questions", unit=" articles", disable=None if progress else True) as bar:
        while chunk := list(itertools.islice(stream, _CHUNK)):
            mentions = iter(recognise([text for article in chunk for text in article.named_in]))
            for article in chunk:
                names = [mention for _ in article.named_in for mention in next(mentions)]
                beginning = _beginning(article.passage)
                if beginning not in seen:
                    seen.add(beginning)
                    if (reading := _reading(article, names)) is not None:
                        yield reading
            bar.update(len(chunk))


def _beginning(text: str) -> str:
    """What tells an article apart: copies often differ in their last lines, or in a byline taken off."""
    letters = re.sub(r"[\W_]+", "", text).lower()
    return letters[:200]


def _reading(article: Article, found: Sequence[Mention]) -> Reading | None:
    cloze = make_cloze(article.asked, names=found)
    passage = cloze.entities.anonymise(article.passage)
    present = set(candidates(passage))
    questions = [question for question in cloze.questions if question.answer in present]
    if not questions or len(present) < 2:  # with one candidate there is nothing to decide
        return None
    used = present.union(*(candidates(question.text) for question in questions))
    names = {id: names for id, names in cloze.entities.names.items() if id in used}
    return Reading(
        fingerprint(article.passage)[:16],
        article.collection,
        article.split or split_of(article.passage),
        passage,
        questions,
        names,
        len(cloze.questions),
    )


def load_articles(
    folder: Path, collections: Sequence[str] = COLLECTIONS, limits: Mapping[str, int] | None = None
) -> Iterator[Article]:
    """The articles of the data folder; of "cnndm" at most `limits` of each split, the first ones."""
    for collection in collections:
        if collection != CNNDM:
            yield from articles(collection, read_rows(folder / f"news/{collection}.jsonl.gz"))
            continue
        held_out: set[str] = set()
        for split, pattern in _CNNDM_FILES.items():
            if not (files := sorted(folder.glob(pattern))):
                raise InputError(f"there is no file {folder / pattern}.")
            number, most = 0, (limits or {}).get(split)
            for row in (row for file in files for row in read_rows(file)):
                if split == "train" and number == most:
                    break
                article = cnndm_article(row, split)
                beginning = _beginning(article.passage)
                if beginning not in held_out and number != most:
                    number += 1
                    yield article
                if split != "train":  # all of them, also those that nobody asks about here
                    held_out.add(beginning)


def human_articles(folder: Path) -> list[str]:
    """The articles of the human sets, which no reader may see: as they are, and cleaned as those of "cnndm"."""
    found = []
    for name in HUMAN_SETS:
        for row in read_rows(folder / f"human/{name}.jsonl.gz"):
            text = row.get("source") or row["article"]
            found += [text, cleaned(text)]
    return found


def held_out_articles(folder: Path) -> list[str]:
    """Articles of the first collection that are not in its training split, cleaned: other studies test on them."""
    texts = (row["article"] for row in read_rows(folder / "news/cnndm_articles.jsonl.gz"))
    return [cleaned(text) for text in texts if split_of(text) != "train"]


def write_corpus(readings: Iterable[Reading], path: str | os.PathLike[str]) -> Counter[str]:
    """Write readings as gzipped JSON lines; returns articles, questions by collection and split."""
    from summarily.support.files import write_atomically

    counts: Counter[str] = Counter()
    lines = []
    for reading in readings:
        lines.append(json.dumps(asdict(reading), ensure_ascii=False))
        where = f"{reading.collection} {reading.split}"
        counts[f"{where} articles"] += 1
        counts[f"{where} questions"] += reading.answerable
        counts[f"{where} unanswerable"] += reading.asked - reading.answerable
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, gzip.compress("\n".join(lines).encode() + b"\n", mtime=0))
    return counts


def read_corpus(path: str | os.PathLike[str], split: str | None = None) -> Iterator[Reading]:
    """Readings as `write_corpus` has written them, of one split or of all."""
    for row in read_rows(Path(path)):
        if split is None or row["split"] == split:
            row["questions"] = [Question(*question) for question in row["questions"]]
            yield Reading(**row)


def load_or_make(
    path: str | os.PathLike[str],
    data: str | os.PathLike[str] | None,
    cache_folder: str | None = None,
    collections: Sequence[str] = COLLECTIONS,
    limits: Mapping[str, int] | None = None,
) -> Path:
    """The file of the corpus, made from the data folder if it is not there; see `load_articles`."""
    from summarily.support.folders import data_folder

    path = Path(path)
    if not path.is_file():
        folder = data_folder(data)
        readings = cloze_corpus(
            load_articles(folder, collections, limits),
            recognise=recogniser(cache_folder=cache_folder),
            unseen=human_articles(folder) + (held_out_articles(folder) if CNNDM in collections else []),
            progress=True,
        )
        for what, number in sorted(write_corpus(readings, path).items()):
            print(f"{what}: {number:,}")
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m summarily.modeling.training.cloze_corpus", description=__doc__
    )
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument("--output", required=True, metavar="FILE", help="the file to write (.jsonl.gz)")
    parser.add_argument("--cache", metavar="FOLDER", help="remember the entities found here")
    parser.add_argument(
        "--collections", nargs="+", default=COLLECTIONS, choices=(*COLLECTIONS, CNNDM), help="what to read"
    )
    parser.add_argument(
        "--articles",
        nargs="+",
        default=[],
        metavar="SPLIT=N",
        help=f"of {CNNDM}: how many articles of a split",
    )
    options = parser.parse_args(arguments)
    limits = {split: int(number) for split, _, number in (part.partition("=") for part in options.articles)}
    made = load_or_make(options.output, options.data, options.cache, options.collections, limits)
    print(f"written: {made}")


if __name__ == "__main__":
    main()
