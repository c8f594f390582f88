"""Options that several metrics have, checked and named in one way."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from summarily.support import text as text_rules
from summarily.support import weights
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from summarily.metrics.encoding import Encoder

PRESETS = ("light", "paper")
DTYPES = ("float32", "bfloat16", "float16")

Choice = TypeVar("Choice")


def one_of(option: str, value: Choice, allowed: Collection[Choice]) -> Choice:
    """The value of an option, if it is one of those allowed.

    Example:
        >>> one_of("mode", "java", ("google", "perl"))
        Traceback (most recent call last):
        ...
        summarily.support.errors.InputError: mode='java'; expected 'google' or 'perl'.
    """
    # By type too: True is no 1, and a list is in no set.
    if not any(type(value) is type(one) and value == one for one in allowed):
        *others, last = map(repr, allowed)
        raise InputError(f"{option}={value!r}; expected {', '.join(others)} or {last}.")
    return value


def flag(option: str, value: Any) -> bool:
    """The value of an option that is True or False."""
    return one_of(option, value, (True, False))


def at_least(option: str, value: Any, least: int = 1) -> int:
    """The value of an option that is a whole number and not less than `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{option}={value!r}; expected a whole number, at least {least}.")
    return value


def limit(option: str, value: Any, least: int = 1) -> int | None:
    """The value of an option that is a whole number, or None for no limit."""
    return None if value is None else at_least(option, value, least)


def between(option: str, value: Any, least: float, most: float = math.inf) -> float:
    """The value of an option that is a finite number and not outside its bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        inside = False
    else:
        inside = least <= value <= most
    if not inside:
        bounds = f", at least {least}" if most == math.inf else f" from {least} to {most}"
        raise InputError(f"{option}={value!r}; expected a number{bounds}.")
    return float(value)


# --- stop words -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StopWords:
    """The words that an option `stop_words` leaves out: True for our list, False for none, or a user's own.

    Example:
        >>> StopWords.of(["The", "a"]).named()
        'custom-2-11a3ae8f'
    """

    words: frozenset[str]

    @classmethod
    def of(cls, option: bool | Iterable[str]) -> StopWords:
        if isinstance(option, bool):
            return cls(text_rules.STOP_WORDS if option else frozenset())
        words = None if isinstance(option, str) or not isinstance(option, Iterable) else list(option)
        if words is None or not all(isinstance(word, str) for word in words):
            raise InputError(f"stop_words={option!r:.40}; expected True, False, or a collection of words.")
        return cls(frozenset(word.lower() for word in words))

    def named(
        self, none: str = "none", custom: str = "custom-{count}-{digest:.8}", separator: str = "\n"
    ) -> str:
        """Their name for a signature. Metrics that have signed otherwise since their first release go on so."""
        if self.words == text_rules.STOP_WORDS:
            return text_rules.STOP_WORDS_NAME
        if not self.words:
            return none
        digest = hashlib.sha256(separator.join(sorted(self.words)).encode()).hexdigest()
        return custom.format(count=len(self.words), digest=digest)


# --- encoders ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncoderOptions:
    """Which encoder a metric reads with; see `encoding.encoder` for what each option means."""

    model: str | os.PathLike[str]
    revision: str | None = None
    device: str | None = None
    max_length: int | None = None
    side: str = "encoder"
    prefix_space: bool = False
    dtype: str = "float32"
    token_budget: int | None = None
    cache_folder: str | os.PathLike[str] | None = None

    def check(self) -> None:
        """Raise `MissingRequirement` if the weights are not here."""
        weights.check(self.model, self.revision)

    @cached_property
    def encoder(self) -> Encoder:
        """Found and verified once in the life of the metric."""
        from summarily.metrics.encoding import encoder

        return encoder(
            self.model,
            self.revision,
            self.device,
            self.max_length,
            side=self.side,
            prefix_space=self.prefix_space,
            dtype=self.dtype,
            token_budget=self.token_budget,
            cache_folder=self.cache_folder,
        )
