"""News to learn copying from, and to summarize: pairs of source and target out of three collections.

Articles of CNN/DailyMail are split as for the readers of APES: no reader has been trained on an article that is
summarized here.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HIGHLIGHTS, ALL_NEWS = "highlights.jsonl.gz", "all_news.jsonl.gz"
SENTENCES, PASSAGES, LEADS = "sentences.jsonl.gz", "passages.jsonl.gz", "leads.jsonl.gz"
SHORT = "short_passages.jsonl.gz"
OPENINGS = {"opening": 170, "short_opening": 58}
"""What is learned from an article, and of how many words: for the study of APESO, and for that of rewards."""
VALIDATION = 7
"""Of every 100 training articles, those that choose the best step; the readers' own held-out ones are the test."""


def pairs(collection: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Sources and targets of a collection, with their splits.

    Highlights of CNN/DailyMail are what summaries are scored against. From BBC articles with sentences chosen out of
    them, and Reuters stories with their first paragraphs, a model learns to copy; they have no held-out rows.

    Example:
        >>> row = {"id": "a", "article": "Snow fell in Oslo.", "highlights": ["Snow fell .", "In Oslo ."]}
        >>> next(pairs("cnndm_articles", [row]))["target"]
        'Snow fell . In Oslo .'
    """
    for row in rows:
        identifier = f"{collection}/{row['id']}"
        if collection == "cnndm_articles":
            source, target = row["article"], " ".join(row["highlights"])
            split = split_of_article(source)
        elif collection == "bbc_news_summary":
            source, target, split = row["article"], row["extractive_summary"], "train"
        else:
            source, target, split = row["body"], row["first_paragraph"], "train"
        yield {"id": identifier, "source": source, "target": target, "split": split}


def cut_passages(text: str, words: int = 55, longest: int = 35) -> list[list[str]]:
    """A text as passages of at least two sentences; very short and very long sentences are left out.

    Example:
        >>> cut_passages("The snow fell late. It fell in Oslo. No. Nobody was out.", words=8)
        [['The snow fell late.', 'It fell in Oslo.']]
    """
    from summarily.support.text import sentences

    passages: list[list[str]] = [[]]
    for sentence in sentences(text):
        length = len(sentence.split())
        if not 3 <= length <= longest:
            continue
        if length + sum(len(other.split()) for other in passages[-1]) > words:
            passages.append([])
        passages[-1].append(sentence)
    return [passage for passage in passages if len(passage) > 1]


def first_of_passages(
    row: Mapping[str, str], words: int = 55, sentences: int = 2, copied: int = 55
) -> Iterator[dict[str, str]]:
    """Passages of a source of at most `words`, of which the first sentences are to be copied, but not the last.

    That is up to `sentences` of them with up to `copied` words, and at least one.

    Example:
        >>> row = {"id": "a", "source": "The snow fell late. It fell in Oslo. Nobody was out."}
        >>> [pair["target"] for pair in first_of_passages(row, sentences=1)]
        ['The snow fell late.']
    """
    for number, passage in enumerate(cut_passages(row["source"], words)):
        target = passage[:1]
        for sentence in passage[1 : min(sentences, len(passage) - 1)]:
            if len(" ".join([*target, sentence]).split()) > copied:
                break
            target.append(sentence)
        yield {**row, "id": f"{row['id']}/{number}", "source": " ".join(passage), "target": " ".join(target)}


def first_or_all(row: Mapping[str, str], column: str, first: float = 0.8) -> str:
    """The first sentence of a row's text with the probability `first`, or all of it; always the same of the two."""
    from summarily.support.text import sentences

    text = row[column]
    return sentences(text)[0] if random.Random(row["id"]).random() < first else text


def single_sentences(row: Mapping[str, str], words: int = 22) -> Iterator[dict[str, str]]:
    """Short sentences of a source, up to two of each passage, each to be copied as it is."""
    draw = random.Random(row["id"])
    for number, passage in enumerate(cut_passages(row["source"])):
        for place in sorted(draw.sample(range(len(passage)), min(2, len(passage) - 1))):
            sentence = passage[place]
            if len(sentence.split()) <= words:
                yield {**row, "id": f"{row['id']}/{number}.{place}", "source": sentence, "target": sentence}


def best_opening(source: str, summary: str, read: int, words: int = 55) -> str:
    """As many of the first sentences of a source, read for `read` words, as have most in common with a summary.

    That is by ROUGE-1 and 2; there are at most `words` words, and at least one sentence.

    Example:
        >>> best_opening("It rained. Snow fell in Oslo. Then it thawed. A king came.", "Rain, and snow in Oslo.", 12)
        'It rained. Snow fell in Oslo.'
    """
    from summarily.metrics.rouge.scorer import Rouge
    from summarily.support.text import sentences

    all_words = source.split()
    found = sentences(" ".join(all_words[:read]))
    if len(found) > 1 and len(all_words) > read:
        found = found[:-1]  # it is cut
    openings = [" ".join(found[: count + 1]) for count in range(len(found))]
    openings = openings[:1] + [text for text in openings[1:] if len(text.split()) <= words]
    scores = Rouge(types=["rouge1", "rouge2"]).compute(openings, [summary] * len(openings)).per_example
    values = [one + two for one, two in zip(scores["rouge1"], scores["rouge2"], strict=True)]
    return openings[values.index(max(values))]


def split_of_article(source: str) -> str:
    """The split of an article: what the readers of APES did not train on is the test."""
    from summarily.modeling.training.cloze_corpus import fingerprint, split_of

    if split_of(source) != "train":
        return "test"
    return "validation" if int(fingerprint(source)[8:16], 16) % 100 < VALIDATION else "train"


def prepare_pairs(folder: Path, data: str | None) -> None:
    """Write the files of pairs, unless they are there; highlights come with the openings that are learned."""
    from summarily.modeling.training.cloze_corpus import read_rows
    from summarily.support.files import write_atomically
    from summarily.support.folders import data_folder

    files = (HIGHLIGHTS, ALL_NEWS, SENTENCES, PASSAGES, LEADS, SHORT)
    if all((folder / file).is_file() for file in files):
        return
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, str]]] = {}
    for name in ("cnndm_articles", "bbc_news_summary", "reuters_train"):
        found[name] = list(pairs(name, read_rows(data_folder(data, ".") / f"news/{name}.jsonl.gz")))
    everything = [row for part in found.values() for row in part]
    passages = [passage for row in everything for passage in first_of_passages(row)]
    sentences = [sentence for row in everything for sentence in single_sentences(row)]
    leads = [lead for row in everything for lead in first_of_passages(row, words=165, sentences=4)]
    highlights = [
        row | {name: best_opening(row["source"], row["target"], read) for name, read in OPENINGS.items()}
        for row in found["cnndm_articles"]
    ]
    highlights = [row | {"shorter_opening": first_or_all(row, "short_opening")} for row in highlights]
    short = [passage | {"target": first_or_all(passage, "target")} for passage in passages]
    for file, content in zip(files, (highlights, everything, sentences, passages, leads, short), strict=True):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        write_atomically(folder / file, gzip.compress(lines.encode(), mtime=0))
