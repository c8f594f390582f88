"""InferSent's words: NLTK's Treebank tokens, looked up in a list of words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from nltk.tokenize import NLTKWordTokenizer

from summarily.modeling.infersent.configuration_infersent import InferSentConfig
from summarily.support.errors import InputError

VOCABULARY = "vocab.txt"
"""The file beside a model's weights with one word per line; line 1 is padding and no word."""


class InferSentTokenizer:
    """Turns sentences into padded ids; words that have no vector are dropped.

    Args:
        words: the vocabulary, in the order of the model's word vectors; the first entry is padding.
        config: the model's.

    Example:

    >>> tokenizer = InferSentTokenizer(["", "<s>", "</s>", "do", "n't"], InferSentConfig())
    >>> tokenizer(["Please don't"])["input_ids"]
    tensor([[1, 3, 4, 2]])
    """

    def __init__(self, words: Sequence[str], config: InferSentConfig):
        self.config = config
        self.words = list(words)
        self.ids = {word: i for i, word in enumerate(self.words) if i != config.pad_token_id}
        if config.eos_word not in self.ids:
            raise InputError(f"the vocabulary has no {config.eos_word!r}, which ends every sentence.")
        self._split = NLTKWordTokenizer().tokenize

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> InferSentTokenizer:
        """Read the words that `convert_infersent` or `save_pretrained` has put beside a model."""
        config = InferSentConfig.from_pretrained(folder)
        text = (Path(folder) / VOCABULARY).read_text(encoding="utf-8")
        words = text.removesuffix("\n").split("\n")
        if len(words) != config.vocab_size:
            raise InputError(
                f"{Path(folder) / VOCABULARY} has {len(words)} lines; the model has {config.vocab_size} words."
            )
        return cls(words, config)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        (Path(folder) / VOCABULARY).write_text("\n".join(self.words) + "\n", encoding="utf-8")

    def tokenize(self, text: str | Sequence[str]) -> list[str]:
        """The words of a text, or of a text that is given as the list of its sentences.

        NLTK's `word_tokenize` splits sentences first, for which it needs a download; only then is a full stop in
        the middle of a text a token. Give the sentences of a longer text to get that.
        """
        sentences = [text] if isinstance(text, str) else text
        words = [word for sentence in sentences for word in self._split(sentence)]
        if self.config.version == 2:
            # How version 2 brings Treebank tokens nearer to the Moses tokens that fastText was trained on.
            words = " ".join(words).replace(" n't ", "n 't ").split()
        return words if self.config.cased else [word.lower() for word in words]

    def encode(self, text: str | Sequence[str]) -> list[int]:
        """The ids of a text's words that have a vector; at least that of the end of the sentence."""
        words = [self.config.bos_word, *self.tokenize(text), self.config.eos_word]
        return [self.ids[word] for word in words if word in self.ids]

    def __call__(self, texts: Sequence[str | Sequence[str]]) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask`, padded on the right."""
        rows = [self.encode(text) for text in texts]
        ids = torch.full((len(rows), max(map(len, rows))), self.config.pad_token_id)
        for row, own in enumerate(rows):
            ids[row, : len(own)] = torch.tensor(own)
        return {"input_ids": ids, "attention_mask": (ids != self.config.pad_token_id).long()}
