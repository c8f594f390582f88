"""In how many documents each token stands: idf that does not depend on what is scored.

`python -m summarily.metrics.bertscore.frequencies MODEL --texts FILES --column NAME` counts them over a corpus. What is
kept is numbers alone: how many documents there were, and of each token of the model how many hold it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from summarily.metrics.matching import Idf
from summarily.support.errors import InputError, MissingRequirement, first_line
from summarily.support.files import write_atomically

_FOLDER = Path(__file__).parent
_AT_ONCE = 1024


def find_frequencies(model: str | os.PathLike[str], file: str | os.PathLike[str] | None = None) -> Path:
    """The file a user named, or ours for a model.

    Example:
        >>> find_frequencies("minilm").name
        'frequencies_minilm.json.gz'
    """
    if file is not None:
        if not Path(file).is_file():
            raise InputError(
                f"idf={str(file)!r} is not a file; expected True, False, 'references', 'unsmoothed', 'fixed' or a file "
                "of frequencies."
            )
        return Path(file)
    path = _FOLDER / f"frequencies_{str(model).rsplit('/', 1)[-1]}.json.gz"
    if not path.is_file():
        raise MissingRequirement(
            f"there are no fixed frequencies of the tokens of {str(model)!r} here. python -m "
            f"summarily.metrics.bertscore.frequencies {model} --texts FILES --column NAME --output FILE counts them for "
            "idf=FILE; idf='references' counts over the references, idf=False does without."
        )
    return path


def read_frequencies(path: Path) -> tuple[Idf, str]:
    """The idf of a file, and the digest of the tokens it is of."""
    try:
        kept = json.loads(gzip.decompress(path.read_bytes()).decode("utf-8"))
        counts = {token: int(count) for token, count in enumerate(kept["counts"]) if count}
        idf = Idf(int(kept["documents"]), counts)
        tokens = str(kept["tokens"])
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a file of frequencies: {first_line(error)}") from None
    if not counts or idf.documents < max(counts.values()):
        raise InputError(f"{path} counts more documents with a token than there are documents.")
    return idf, tokens


def fixed_idf(tokenizer: Any, path: Path) -> Idf:
    """The idf of a file, if it is of the tokens of this tokenizer."""
    idf, tokens = read_frequencies(path)
    if tokens != _tokens_of(tokenizer):
        raise InputError(
            f"{path.name} counts the tokens of another tokenizer; count those of this one with "
            "python -m summarily.metrics.bertscore.frequencies."
        )
    return idf


def _tokens_of(tokenizer: Any) -> str:
    """A digest of the tokens and their numbers."""
    found = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    return hashlib.sha256("\n".join(f"{token} {number}" for token, number in found).encode()).hexdigest()


# --- counting ---------------------------------------------------------------------------------------------


def count_frequencies(model: str, texts: Iterable[str]) -> dict[str, Any]:
    """What is kept of a corpus; each text is a document, read up to the model's limit.

    Example:
        >>> kept = count_frequencies("minilm", ["snow fell", "snow", "rain fell"])
        >>> kept["documents"], sum(kept["counts"])  # four words, and [CLS] and [SEP] in each
        (3, 11)
    """
    from summarily.metrics.encoding import encoder

    shared = encoder(model)
    counted = Idf(0, {})
    part: list[str] = []

    def count() -> Idf:
        return counted + Idf.count(encoded.ids for encoded in shared.tokenize(part))

    for text in texts:
        part.append(text)
        if len(part) == _AT_ONCE:
            counted, part = count(), []
    counted = count()
    if not counted.documents:
        raise InputError("there are no texts to count.")
    counts = [counted.frequencies.get(token, 0) for token in range(len(shared.tokenizer))]
    return {
        "model": shared.identity,
        "tokens": _tokens_of(shared.tokenizer),
        "documents": counted.documents,
        "counts": counts,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m summarily.metrics.bertscore.frequencies",
        description="Count in how many texts each token of a model stands, for idf that is the same for every corpus.",
    )
    parser.add_argument("model", help="a path, a pinned name or a Hub id")
    parser.add_argument(
        "--texts", required=True, nargs="+", metavar="FILE", help="JSON lines, also gzipped or xz"
    )
    parser.add_argument(
        "--column", required=True, help="of the text; one that is a list of sentences is joined"
    )
    parser.add_argument("--source", default="", help="where the texts are from, which is kept")
    parser.add_argument("--output", help="default: frequencies_MODEL.json.gz in this directory")
    options = parser.parse_args(arguments)

    import datasets

    rows = datasets.load_dataset("json", data_files=options.texts, split="train", streaming=True)
    texts = (row[options.column] for row in rows.select_columns([options.column]))
    kept = count_frequencies(
        options.model, (text if isinstance(text, str) else " ".join(text) for text in texts)
    )
    kept = {"source": options.source, **kept}
    output = options.output or f"frequencies_{Path(options.model).name}.json.gz"
    write_atomically(output, gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), mtime=0))
    print(f"wrote {output}: {kept['documents']:,} documents, {sum(map(bool, kept['counts'])):,} tokens")


if __name__ == "__main__":
    main()
