"""What can go wrong because of what we were given; the command line prints each of these in one line."""

from __future__ import annotations


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
