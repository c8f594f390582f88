"""Words, with ids of their own for those words of a source that the vocabulary has not got."""

from collections.abc import Sequence
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerFast

from summarily.support.errors import InputError


class PointerGeneratorTokenizer(PreTrainedTokenizerFast):
    """A word-level tokenizer whose unknown words keep their spelling.

    The n-th unknown word of a source (counted by first appearance, after truncation) gets the id
    `len(tokenizer) + n`, and so does the same word in the target; `encoding.unknown_words` lists them. Unknown words of a target
    that its source has not got stay `unk_token_id`. Hand the lists to `decode` to read what a model has copied.

    Example:

    >>> from summarily.modeling.training.recipe import TokenizerSection
    >>> from summarily.modeling.training.tokenizers import train_tokenizer
    >>> section = TokenizerSection(kind="copy", min_frequency=1)
    >>> tokenizer = train_tokenizer(["the goal by"], section)
    >>> encoding = tokenizer("the goal by Wilshere", text_target="Wilshere scored the goal")
    >>> encoding.input_ids, encoding.labels, encoding.unknown_words
    ([5, 4, 3, 6, 1], [6, 2, 5, 4, 1], ['Wilshere'])
    >>> tokenizer.decode([6, 4, 1], skip_special_tokens=True, unknown_words=encoding.unknown_words)
    'Wilshere goal'
    """

    def __call__(self, text=None, text_pair=None, text_target=None, **options) -> BatchEncoding:
        """As for any tokenizer, with `unknown_words` beside the ids.

        Args:
            text: sources; their unknown words are collected.
            text_pair: not supported.
            text_target: summaries; their ids become `labels` when `text` is given too.
            options: as for any tokenizer. `max_target_length` limits `text_target`; `unknown_words` are those of the
                sources when `text_target` is given alone.
        """
        if text_pair is not None:
            raise InputError("a source has one text; text_pair is not supported.")
        words = options.pop("unknown_words", None)
        longest = options.pop("max_target_length", None) or options.get("max_length")
        if text is None:
            return super().__call__(text_target=text_target, unknown_words=words or [], **options)
        encoding = super().__call__(text, **options)
        if text_target is not None:
            options["max_length"] = longest
            targets = super().__call__(text_target, unknown_words=encoding.unknown_words, **options)
            encoding["labels"] = targets["input_ids"]
        return encoding

    def _encode_plus(self, text, *args, unknown_words=None, return_tensors=None, **options):
        encoding: Any = super()._encode_plus(text, *args, **options)
        rows = encoding["input_ids"]
        single = not rows or not isinstance(rows[0], list)
        texts: Sequence[Any] = [text] if single else text
        given = unknown_words
        if given is not None and (single or not given):
            given = [[word for word in given if isinstance(word, str)]] if single else [[]] * len(texts)
        if given is not None and len(given) != len(texts):
            raise InputError(
                f"unknown_words has {len(given)} lists for {len(texts)} texts; give one per source."
            )
        lists: list[list[str]] = []
        for i, row in enumerate([rows] if single else rows):
            words = [] if given is None else list(given[i])
            self._extend(row, encoding.encodings[i], texts[i], words, collect=given is None)
            lists.append(words)
        if return_tensors is not None:
            encoding.convert_to_tensors(return_tensors, prepend_batch_axis=single)
        encoding.unknown_words = lists[0] if single and return_tensors is None else lists
        return encoding

    def _extend(self, row: list[int], encoding: Any, text: Any, words: list[str], collect: bool) -> None:
        """Give the unknown words of a row the ids of their places in `words`, to which new ones are added."""
        places = {word: i for i, word in enumerate(words)}
        for position, token in enumerate(row):
            if token != self.unk_token_id:
                continue
            start, end = encoding.offsets[position]
            piece = text if isinstance(text, str) else text[encoding.word_ids[position]]
            word = self._normalized(piece[start:end])
            if word not in places and collect and word != self.unk_token:
                places[word] = len(words)
                words.append(word)
            if word in places:
                row[position] = len(self) + places[word]

    def _normalized(self, word: str) -> str:
        normalizer = self.backend_tokenizer.normalizer
        return word if normalizer is None else normalizer.normalize_str(word)

    def decode(self, token_ids, skip_special_tokens=False, unknown_words=None, **options):
        """The text of ids, or the texts of a batch; `unknown_words` is the list (or lists) that encoding returned.

        Several summaries of each source, as `generate(num_return_sequences=...)` returns them, share its list.
        """
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        if not isinstance(ids, (list, tuple)) or not ids or not isinstance(ids[0], (list, tuple)):
            if unknown_words and not isinstance(unknown_words[0], str):
                (unknown_words,) = unknown_words
            return self._decode(ids, skip_special_tokens, unknown_words=unknown_words, **options)
        lists = [None] * len(ids) if unknown_words is None else list(unknown_words)
        if not lists or len(ids) % len(lists):
            raise InputError(
                f"unknown_words has {len(lists)} lists for {len(ids)} sequences; give one per source."
            )
        each = len(ids) // len(lists)
        return [
            self._decode(row, skip_special_tokens, unknown_words=lists[i // each], **options)
            for i, row in enumerate(ids)
        ]

    def _decode(
        self,
        token_ids,
        skip_special_tokens=False,
        clean_up_tokenization_spaces=None,
        unknown_words=None,
        **options,
    ):
        if isinstance(token_ids, int):
            token_ids = [token_ids]
        tokens, special = [], set(self.all_special_ids) if skip_special_tokens else set()
        for token in token_ids:
            if token >= len(self):
                tokens.append(self.unknown_word(token, unknown_words))
            elif token not in special:
                tokens.append(str(self.convert_ids_to_tokens(token)))
        return self.convert_tokens_to_string(tokens)

    def unknown_word(self, token: int, words: Sequence[str] | None) -> str:
        """The word that an id beyond the vocabulary stands for, from the list of its source."""
        if words is None:
            raise InputError(
                f"id {token} is a word of the source beyond the vocabulary of {len(self)}; pass the list of the source: "
                "decode(ids, unknown_words=encoding.unknown_words)."
            )
        if token - len(self) >= len(words):
            raise InputError(
                f"id {token} is unknown word {token - len(self)} of the source, which has {len(words)} of them."
            )
        return words[token - len(self)]


__all__ = ["PointerGeneratorTokenizer"]
