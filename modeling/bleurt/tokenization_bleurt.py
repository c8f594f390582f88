"""Pairs of texts as BLEURT reads them: `[CLS] reference [SEP] candidate [SEP]`."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from transformers import AutoTokenizer, BertTokenizer, PreTrainedConfig
from transformers.utils import cached_file

from summarily.modeling.modeling_adapted_encoder import resolve_encoder
from summarily.support.errors import InputError, MissingRequirement

SENTENCE_PIECES = "spm.model"
"""The vocabulary of the ports that are RemBERTs."""


class PairIds(NamedTuple):
    """One pair, and whether it had to be cut."""

    input_ids: list[int]
    token_type_ids: list[int]
    truncated: bool


class PairTokenizer:
    """Makes the inputs of `BleurtForScoring`: each text is split once, however many pairs it is part of.

    Args:
        encode: from texts to the ids of their pieces, without special tokens.
        cls, sep, pad: the ids around the texts.
        max_length: of a pair; the longer of its texts is cut first, as in the original.
        save: writes the vocabulary into a folder.
        name: for signatures.

    Example:

    >>> tokenizer = PairTokenizer(lambda texts: [[ord(c) for c in text] for text in texts], 1, 2, 0, max_length=8)
    >>> tokenizer.pair([7, 7, 7, 7], [8])
    PairIds(input_ids=[1, 7, 7, 7, 7, 2, 8, 2], token_type_ids=[0, 0, 0, 0, 0, 0, 1, 1], truncated=False)
    """

    def __init__(
        self,
        encode: Callable[[list[str]], list[list[int]]],
        cls: int,
        sep: int,
        pad: int,
        max_length: int = 512,
        save: Callable[[Path], Any] | None = None,
        name: str = "function",
    ):
        self.encode = encode
        self.cls, self.sep, self.pad = cls, sep, pad
        self.max_length = max_length
        self._save = save
        self.name = name

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], revision: str | None = None) -> Self:
        """The tokenizer of a folder of ours or of a port."""
        folder = os.fspath(folder)
        values, _ = PreTrainedConfig.get_config_dict(folder, revision=revision)
        own = values.get("encoder_config") or values
        length = int(own.get("max_position_embeddings", 512))
        if values.get("encoder"):  # the words are the encoder's, and are not saved again
            return cls.of_encoder(values["encoder"], length)
        if own.get("model_type") == "rembert" or own.get("embedding_size"):
            return cls._of_sentence_pieces(
                str(cached_file(folder, SENTENCE_PIECES, revision=revision)), int(own["pad_token_id"]), length
            )
        # The ports name tokenizer classes of their own, which are BERT's.
        kind: Any = BertTokenizer if values.get("model_type") == "bleurt" else AutoTokenizer
        return cls._of_words(kind.from_pretrained(folder, revision=revision), length)

    @classmethod
    def of_encoder(cls, encoder: str, max_length: int = 512) -> Self:
        """The tokenizer of an encoder that `support.weights` knows."""
        resolved, _ = resolve_encoder(encoder)
        words = AutoTokenizer.from_pretrained(resolved.path_or_id, revision=resolved.revision)
        return cls._of_words(words, max_length)

    @classmethod
    def _of_words(cls, words: Any, length: int) -> Self:
        words.backend_tokenizer.no_truncation()
        words.backend_tokenizer.no_padding()

        def encode(texts: list[str]) -> list[list[int]]:
            return words(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []

        return cls(
            encode,
            words.cls_token_id,
            words.sep_token_id,
            words.pad_token_id,
            length,
            words.save_pretrained,
            type(words).__name__ + ("-fast" if words.is_fast else ""),
        )

    @classmethod
    def _of_sentence_pieces(cls, file: str, pad: int, length: int) -> Self:
        try:
            from sentencepiece import SentencePieceProcessor
        except ModuleNotFoundError as error:
            raise MissingRequirement("this BLEURT needs sentencepiece: pip install sentencepiece") from error
        pieces = SentencePieceProcessor(model_file=file)
        return cls(
            pieces.encode,
            pieces.piece_to_id("[CLS]"),
            pieces.piece_to_id("[SEP]"),
            pad,
            length,
            lambda folder: shutil.copyfile(file, folder / SENTENCE_PIECES),
            "sentencepiece",
        )

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the vocabulary beside a model."""
        if self._save is None:
            raise InputError("this tokenizer was made of a function and has no vocabulary to save.")
        self._save(Path(folder))

    def pair(
        self, reference: Sequence[int], candidate: Sequence[int], max_length: int | None = None
    ) -> PairIds:
        """Put two texts, given as the ids of their pieces, together."""
        room = min(max_length or self.max_length, self.max_length) - 3
        first, second = len(reference), len(candidate)
        truncated = first + second > room
        if truncated:  # the longer gives way until both are equally long
            half = room // 2
            first, second = (
                (first, room - first)
                if first <= half
                else (max(room - second, room - half), min(second, half))
            )
        input_ids = [self.cls, *reference[:first], self.sep, *candidate[:second], self.sep]
        return PairIds(input_ids, [0] * (first + 2) + [1] * (second + 1), truncated)

    def pad_pairs(self, pairs: Sequence[PairIds]) -> dict[str, torch.Tensor]:
        """`input_ids`, `attention_mask` and `token_type_ids`, padded on the right."""
        width = max(len(pair.input_ids) for pair in pairs)
        batch = {
            "input_ids": torch.full((len(pairs), width), self.pad),
            "attention_mask": torch.zeros((len(pairs), width), dtype=torch.long),
            "token_type_ids": torch.zeros((len(pairs), width), dtype=torch.long),
        }
        for row, pair in enumerate(pairs):
            length = len(pair.input_ids)
            batch["input_ids"][row, :length] = torch.tensor(pair.input_ids)
            batch["attention_mask"][row, :length] = 1
            batch["token_type_ids"][row, :length] = torch.tensor(pair.token_type_ids)
        return batch

    def __call__(self, references: Sequence[str], candidates: Sequence[str]) -> dict[str, torch.Tensor]:
        """The padded inputs of pairs of texts."""
        first, second = self.encode(list(references)), self.encode(list(candidates))
        return self.pad_pairs([self.pair(*ids) for ids in zip(first, second, strict=True)])
