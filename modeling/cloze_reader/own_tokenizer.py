"""A model that brings its tokenizer along: read with the weights, written with the weights."""

import os
from typing import Any

from transformers import AutoTokenizer
from transformers.utils import cached_file

from summarily.support.errors import InputError

_PLACE = ("revision", "cache_dir", "token", "local_files_only", "force_download", "subfolder")


class OwnTokenizer:
    """In front of `PreTrainedModel`. The tokenizer beside the weights is loaded with them, so that it is there however
    long the folder lasts; a model without one is saved without."""

    _tokenizer: Any = None

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that was saved beside the weights; assign one to a new model."""
        if self._tokenizer is None:
            raise InputError("this reader has no tokenizer yet; assign model.tokenizer.")
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Any) -> None:
        self.check_tokenizer(tokenizer)
        self._tokenizer = tokenizer

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Raise a ValueError where the tokenizer does not fit."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any) -> Any:
        """As in transformers."""
        place = {key: options[key] for key in _PLACE if options.get(key) is not None}
        loaded = super().from_pretrained(pretrained_model_name_or_path, *arguments, **options)  # type: ignore[misc]
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if pretrained_model_name_or_path is not None and _has_tokenizer(pretrained_model_name_or_path, place):
            model.tokenizer = AutoTokenizer.from_pretrained(pretrained_model_name_or_path, **place)
        return loaded

    def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> None:
        """As in transformers, with the tokenizer."""
        super().save_pretrained(save_directory, **options)  # type: ignore[misc]
        # A checkpoint that names its encoder finds the tokenizer where it finds that.
        if self._tokenizer is not None and getattr(self.config, "encoder", None) is None:  # type: ignore[attr-defined]
            self._tokenizer.save_pretrained(save_directory)


def _has_tokenizer(folder: Any, place: dict[str, Any]) -> bool:
    missing = {
        "_raise_exceptions_for_missing_entries": False,
        "_raise_exceptions_for_connection_errors": False,
    }
    return cached_file(folder, "tokenizer_config.json", **missing, **place) is not None
