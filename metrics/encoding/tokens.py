"""Texts as token ids that fit a model, long ones without tokenizing what is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from summarily.metrics.encoding.encoded import Encoded
from summarily.metrics.encoding.loading import load_pretrained
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from summarily.metrics.encoding.shared import Encoder

_NO_LIMIT = 512
"""Tokens kept for a model that names no limit, such as T5, which was trained on 512."""
_CHARACTERS_PER_TOKEN = 16
_BOUNDARY_TOKENS = 128


class Tokens:
    """A tokenizer with its special tokens, limit and character offsets."""

    def __init__(self, encoder: Encoder):
        from transformers import AutoTokenizer

        tokenizer = load_pretrained(AutoTokenizer, encoder.resolved)
        self.tokenizer = tokenizer
        self.name = f"{type(tokenizer).__name__}-{'fast' if tokenizer.is_fast else 'slow'}"
        self.prefix = " " if encoder.prefix_space else ""
        around = tokenizer("a")["input_ids"]
        inside = tokenizer("a", add_special_tokens=False)["input_ids"]
        start = _find(around, inside)
        self.before, self.after = around[:start], around[start + len(inside) :]
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self.pieces_are_marked = any(token.startswith("##") for token in tokenizer.get_vocab())
        self.max_length = self._limit(encoder)

    def _limit(self, encoder: Encoder) -> int:
        limits = [position_limit(encoder.config), int(min(self.tokenizer.model_max_length, 10**9))]
        known = [limit for limit in limits if limit is not None and limit < 10**9]
        asked = encoder._asked_max_length
        if asked is None:
            return min(known, default=_NO_LIMIT)
        least = len(self.before) + len(self.after) + 1
        if asked < least or (limits[0] is not None and asked > limits[0]):
            raise InputError(f"max_length={asked}; {encoder.identity} takes {least} to {limits[0]} tokens.")
        return asked

    def __call__(self, text: str) -> Encoded:
        ids, offsets, truncated = self._body(text)
        n_before, n_after = len(self.before), len(self.after)
        all_ids = [*self.before, *ids, *self.after]
        return Encoded(
            ids=all_ids,
            tokens=self.tokenizer.convert_ids_to_tokens(all_ids),
            offsets=None if offsets is None else [(0, 0)] * n_before + offsets + [(0, 0)] * n_after,
            special=[True] * n_before + [False] * len(ids) + [True] * n_after,
            truncated=truncated,
        )

    def _body(self, text: str) -> tuple[list[int], list[tuple[int, int]] | None, bool]:
        """The tokens of a text, without special tokens, up to the limit."""
        room = self.max_length - len(self.before) - len(self.after)
        # bert_score strips too; byte-level tokenizers make tokens of spaces at the ends.
        stripped = text.strip()
        shift = len(text) - len(text.lstrip()) - len(self.prefix)
        if not stripped:
            return [], [] if self.tokenizer.is_fast else None, False
        ids, offsets = self._tokens_of_beginning(self.prefix + stripped, room)
        if offsets is not None:
            offsets = [_without_space(text, a + shift, b + shift) for a, b in offsets[:room]]
        return ids[:room], offsets, len(ids) > room

    def _tokens_of_beginning(self, text: str, room: int) -> tuple[list[int], list[tuple[int, int]] | None]:
        """Tokens of a beginning of the text that holds the first `room` of them.

        A long text is cut before it is tokenized, at a space where there is one. A cut can change only the
        tokens next to it, so it counts only if it comes well after the first `room` tokens; a cut inside a
        word must also agree with one twice as far.
        """
        wanted = room + _BOUNDARY_TOKENS
        characters = _CHARACTERS_PER_TOKEN * wanted
        while characters < len(text):
            space = text.rfind(" ", characters // 2, characters)
            ids, offsets = self._tokenize(text[: space if space > 0 else characters])
            if len(ids) >= wanted and (
                space > 0 or ids[:wanted] == self._tokenize(text[: 2 * characters])[0][:wanted]
            ):
                return ids, offsets
            characters *= 8
        return self._tokenize(text)

    def _tokenize(self, text: str) -> tuple[list[int], list[tuple[int, int]] | None]:
        fast = self.tokenizer.is_fast
        output = self.tokenizer(
            text, add_special_tokens=False, truncation=False, return_offsets_mapping=fast, verbose=False
        )
        return list(output["input_ids"]), list(output["offset_mapping"]) if fast else None


def _without_space(text: str, start: int, end: int) -> tuple[int, int]:
    """Some tokenizers count the space before a word, and a space we have put there ourselves, to its token."""
    start, end = max(0, start), max(0, end)
    while start < end and text[start].isspace():
        start += 1
    return start, end


def _find(sequence: Sequence[int], part: Sequence[int]) -> int:
    for start in range(len(sequence) - len(part) + 1):
        if list(sequence[start : start + len(part)]) == list(part):
            return start
    raise InputError(
        "the tokenizer changes a text's tokens when it adds special tokens; it cannot be used here."
    )


def position_limit(config: Any) -> int | None:
    """How many tokens a model has positions for; None if positions are relative and unlimited."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None:
        return None
    # RoBERTa and its relatives count positions from padding_idx + 1.
    if config.model_type in _PADDED_POSITIONS:
        limit -= (config.pad_token_id or 0) + 1
    return int(limit)


_PADDED_POSITIONS = {
    "camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta",
    "xlm-roberta-xl", "xmod",
}  # fmt: skip
