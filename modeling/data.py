"""What the rows of a model family have beyond ids, mask and labels, and how its ids are read as text.

A family says so in `<folder>/data_<folder>.py`, in a subclass of `ModelData` that `FAMILIES` names. What encodes, pads or
decodes rows asks here, and knows no family.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from summarily.modeling import FAMILIES, ModelFamily
from summarily.modeling.model_data import ModelData


def data_of_family(family: ModelFamily) -> type[ModelData]:
    """What a family's file says."""
    if family.data is None:
        return ModelData
    module = importlib.import_module(f"{__package__}.{family.folder}.data_{family.folder}")
    return getattr(module, family.data)


def data_of(tokenizer: Any) -> type[ModelData]:
    """The data of the family whose tokenizer this is, also when its code came with a checkpoint.

    Example:
        >>> from summarily.modeling.training.recipe import TokenizerSection
        >>> from summarily.modeling.training.tokenizers import train_tokenizer
        >>> data_of(train_tokenizer(["a b"], TokenizerSection(kind="copy", min_frequency=1))).texts
        ('unknown_words',)
    """
    names = {base.__name__ for base in type(tokenizer).__mro__}
    found = (family for family in FAMILIES if family.tokenizer in names)
    return next(map(data_of_family, found), ModelData)


def texts_of(tokenizer: Any, encoding: Any) -> dict[str, Any]:
    """What `decode` will need of an encoding."""
    return data_of(tokenizer).texts_of(encoding)


def decode(
    tokenizer: Any, ids: Any, columns: Mapping[str, Any], skip_special_tokens: bool = True, **options: Any
) -> list[str]:
    """The texts of a batch of ids, copied words included if the columns of the same rows have them.

    Example:
        >>> from summarily.modeling.training.recipe import TokenizerSection
        >>> from summarily.modeling.training.tokenizers import train_tokenizer
        >>> tokenizer = train_tokenizer(["the goal by"], TokenizerSection(kind="copy", min_frequency=1))
        >>> encoding = tokenizer(["the goal by Wilshere"])
        >>> decode(tokenizer, encoding.input_ids, texts_of(tokenizer, encoding))
        ['the goal by Wilshere']
    """
    data = data_of(tokenizer)
    return data.decode(tokenizer, ids, columns, skip_special_tokens=skip_special_tokens, **options)


_EVERY = [data_of_family(family) for family in FAMILIES]
# Of all families together: a collator pads whatever rows have.
PADDING = {name: value for data in _EVERY for name, value in data.padding.items()}
LOSS_ONLY = tuple(dict.fromkeys(name for data in _EVERY for name in data.loss_only))
TEXTS = tuple(dict.fromkeys(name for data in _EVERY for name in data.texts))
