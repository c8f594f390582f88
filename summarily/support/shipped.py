"""The models that come with the package: the folders of `hub_cards`, one each."""

from __future__ import annotations

import re
from pathlib import Path

from summarily.support.errors import InputError
from summarily.support.folders import package_folder
from summarily.support.suggestions import did_you_mean


def _models() -> Path:
    return package_folder("hub_cards")


def shipped() -> list[str]:
    """The names of the models that come with the package.

    Example:
        >>> "headlines" in shipped()
        True
    """
    return sorted(path.parent.name for path in _models().glob("*/config.json"))


def summarizers() -> list[str]:
    """The shipped models that summarize, by their cards; others score or answer questions.

    Example:
        >>> "headlines" in summarizers()
        True
    """
    here = _models()
    cards = {name: (here / name / "README.md").read_text(encoding="utf-8") for name in shipped()}
    return [
        name for name, card in cards.items() if re.search(r'^pipeline_tag: "?summarization"?$', card, re.M)
    ]


def folder(name: str) -> str:
    """Where a shipped model lies, for `from_pretrained`.

    Example:
        >>> import summarily.modeling
        >>> from transformers import AutoModelForSeq2SeqLM
        >>> type(AutoModelForSeq2SeqLM.from_pretrained(folder("headlines"))).__name__
        'AttentionVariantForConditionalGeneration'
    """
    known = shipped()
    if name not in known:
        raise InputError(f"no model {name!r} is shipped;{did_you_mean(name, known)}")
    return str(_models() / name)
