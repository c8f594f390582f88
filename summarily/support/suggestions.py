"""Names that were probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], alike: float = 0.5) -> str | None:
    """The known name that looks most like this one, or None if none does.

    Example:
        >>> nearest("rogue", ["rouge", "sms"])
        'rouge'
    """
    return next(iter(difflib.get_close_matches(str(name), list(known), n=1, cutoff=alike)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message, after a semicolon: the nearest of the known names, and all of them.

    Example:
        >>> did_you_mean("rogue", ["rouge", "sms"])
        " did you mean 'rouge'? Known: rouge, sms."
    """
    known = list(known)
    near = nearest(name, known)
    return (f" did you mean {near!r}?" if near else "") + f" Known: {', '.join(known)}."
