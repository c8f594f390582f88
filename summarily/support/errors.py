"""What can go wrong because of what we were given; the command line prints each of these in one line."""

from __future__ import annotations

import sys
import warnings


class SummarilyError(Exception):
    """The root of our errors. `exit_code` is the command line's."""

    exit_code = 2


class InputError(SummarilyError, ValueError):
    """The input cannot be used; the message names the row and the fix.

    Example:
        >>> raise InputError("predictions is empty")
        Traceback (most recent call last):
        summarily.support.errors.InputError: predictions is empty
    """


class InputTypeError(InputError, TypeError):
    """A row has the wrong type."""


class RecipeError(SummarilyError, ValueError):
    """The recipe cannot be used; the message names the key and the fix."""


class MissingRequirement(SummarilyError, ImportError):
    """A package, weight or model is missing; the message says how to get it.

    Example:
        >>> issubclass(MissingRequirement, ImportError)
        True
    """


class SummarilyWarning(UserWarning):
    """Something works, but perhaps not as meant; the command line prints it in one line."""


# What stands between a user's line and ours.
_LIBRARIES = ("summarily", "evaluate", "evaluate_modules", "transformers", "accelerate", "torch", "datasets")


def warn(message: str) -> None:
    """A `SummarilyWarning` of the user's own line, through whatever libraries it came to us: said once for each.

    Example:
        >>> with warnings.catch_warnings(record=True) as heard:
        ...     warn("this may not be what you want")
        >>> str(heard[0].message)
        'this may not be what you want'
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SummarilyWarning, stacklevel=level)


class FileError(SummarilyError, RuntimeError):
    """A file or folder is not what it should be, or another process holds it."""


class DivergedError(SummarilyError, FloatingPointError):
    """A run lost its way: a loss or a gradient that is no number; the message says where and what to change."""

    exit_code = 1


class FailedRunError(SummarilyError, RuntimeError):
    """A process of a run or a study failed or was killed; the message says which, and what it said last."""

    exit_code = 1


def first_line(error: BaseException) -> str:
    """What an error of a library says, in a line of a sentence of ours.

    Of a pickle that was refused it does not repeat the advice to run it.

    Example:
        >>> first_line(ValueError("no such key\\nat line 3")), first_line(EOFError())
        ('no such key', 'EOFError')
    """
    text = str(error).strip()
    if "weights_only" in text or type(error).__name__ == "UnpicklingError":
        return "it is damaged, or a pickle that holds more than tensors, which is not run."
    return text.splitlines()[0] if text else type(error).__name__
