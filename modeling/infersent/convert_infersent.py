"""Makes a transformers folder of a published InferSent state dict and a file of word vectors.

The state dicts are https://dl.fbaipublicfiles.com/infersent/infersent1.pkl (with GloVe 840B 300-d) and
infersent2.pkl (with fastText crawl-300d-2M). They are read without unpickling code.

    python -m summarily.modeling.infersent.convert_infersent infersent1.pkl glove.840B.300d.txt infersent-v1 \\
        --version 1 --words 1000000
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from summarily.modeling.infersent.configuration_infersent import InferSentConfig
from summarily.modeling.infersent.modeling_infersent import InferSentModel
from summarily.modeling.infersent.tokenization_infersent import InferSentTokenizer
from summarily.support.errors import InputError
from summarily.support.weights import load_tensors

STATE_KEYS = [
    f"enc_lstm.{kind}_l0{direction}"
    for direction in ("", "_reverse")
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
]


def convert_infersent(
    state_dict: str | os.PathLike[str],
    word_vectors: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    version: int = 1,
    words: int | None = 1_000_000,
) -> InferSentModel:
    """Convert and save a published model.

    Args:
        state_dict: the `.pkl` file.
        word_vectors: GloVe's or fastText's text file.
        folder: where `config.json`, `model.safetensors` and `vocab.txt` go.
        version: 1 or 2; each needs the vectors it was trained with.
        words: how many of the vectors to keep, from the first; None for all.
    """
    state = load_state(state_dict)
    embedding_size, hidden_size = state[STATE_KEYS[0]].shape[1], state[STATE_KEYS[1]].shape[1]
    vocabulary, vectors = read_word_vectors(word_vectors, embedding_size, words)
    config = InferSentConfig(
        vocab_size=len(vocabulary), embedding_size=embedding_size, hidden_size=hidden_size, version=version
    )
    tokenizer = InferSentTokenizer(vocabulary, config)
    model = InferSentModel(config)
    model.load_state_dict({**state, "word_embeddings.weight": vectors})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval()


def load_state(path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """The LSTM's weights from a published file; anything but tensors in it is refused."""
    state = load_tensors(path)
    if not isinstance(state, dict):
        raise InputError(f"{path} is no InferSent state dict: it holds a {type(state).__name__}.")
    missing = [key for key in STATE_KEYS if key not in state]
    if missing:
        raise InputError(f"{path} is no InferSent state dict: it has no {', '.join(missing)}.")
    unknown = sorted(set(state) - set(STATE_KEYS))
    if unknown:
        raise InputError(f"{path} has weights that InferSent does not: {', '.join(unknown)}.")
    return {key: state[key].float() for key in STATE_KEYS}


def read_word_vectors(
    path: str | os.PathLike[str], size: int, limit: int | None = None
) -> tuple[list[str], torch.Tensor]:
    """The words of a text file, padding before them, and their vectors."""
    vocabulary, rows = [""], [torch.zeros(size)]
    seen: set[str] = set()
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, (word, vector) in enumerate(islice(_lines(file, size), limit), 1):
            if len(vector) != size:
                raise InputError(f"{path}, vector {number}: expected {size} numbers, got {len(vector)}.")
            if word and word not in seen:
                seen.add(word)
                vocabulary.append(word)
                try:
                    rows.append(torch.tensor([float(x) for x in vector]))
                except ValueError:
                    raise InputError(f"{path}, vector {number}: {size} numbers are expected.") from None
    return vocabulary, torch.stack(rows)


def _lines(file: Iterator[str], size: int) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(file):
        word, *vector = line.rstrip().rsplit(" ", size)  # GloVe 840B has words with spaces
        is_header = number == 0 and len(vector) == 1 and word.isdecimal()
        if not is_header:
            yield word, vector


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state_dict", type=Path)
    parser.add_argument("word_vectors", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", type=int, choices=(1, 2), default=1)
    parser.add_argument("--words", type=int, default=1_000_000, help="how many vectors to keep")
    options = parser.parse_args(arguments)
    convert_infersent(
        options.state_dict, options.word_vectors, options.folder, options.version, options.words
    )


if __name__ == "__main__":
    main()
