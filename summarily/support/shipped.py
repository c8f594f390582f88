"""The models that come with the package: which there are, and a folder of each for `from_pretrained`.

Most lie there whole. A summarizer is shipped as a small difference (an adapter of `peft`) from a pinned base, and is
merged with it once, into the cache.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from summarily.support.errors import InputError, MissingRequirement
from summarily.support.files import make_folder_once
from summarily.support.folders import cache_folder, package_folder
from summarily.support.inputs import read_json
from summarily.support.progress import say, without_bars
from summarily.support.requirements import pip_install
from summarily.support.suggestions import did_you_mean, nearest
from summarily.support.weights import Resolved, content_hash, resolve

ADAPTER = "adapter_config.json"
EXTRACTIVE = ("lead", "central")
"""Summarizers that copy sentences, and are no folders: see `modeling.generation.extractive`."""


def root() -> Path:
    """The folder of the shipped models' folders."""
    return package_folder("hub_cards")


def shipped() -> list[str]:
    """The names of the models that come with the package.

    Example:
        >>> "headlines" in shipped()
        True
    """
    return sorted(path.parent.name for path in root().glob("*/config.json"))


def summarizers() -> list[str]:
    """The shipped models that summarize, by their cards; others score or answer questions.

    Example:
        >>> "headlines" in summarizers()
        True
    """
    cards = {name: (root() / name / "README.md").read_text(encoding="utf-8") for name in shipped()}
    return [
        name for name, card in cards.items() if re.search(r'^pipeline_tag: "?summarization"?$', card, re.M)
    ]


def check_name(name: str) -> None:
    """Nobody's model is called almost as a summarizer of ours: neither libraries nor the Hub are needed to say so."""
    known = [*summarizers(), *EXTRACTIVE]
    if name not in known and "/" not in name and not Path(name).is_dir() and nearest(name, known, 0.75):
        raise InputError(f"there is no model {name!r};{did_you_mean(name, known)}")


def folder(name: str) -> str:
    """Where the files of a shipped model lie in the package.

    Example:
        >>> Path(folder("headlines")).name
        'headlines'
    """
    known = shipped()
    if name not in known:
        raise InputError(f"no model {name!r} is shipped;{did_you_mean(name, known)}")
    return str(root() / name)


def checkpoint(name: str) -> str:
    """A folder that `from_pretrained` reads: that of the package, or base and adapter merged, once, in the cache.

    Example:
        >>> import summarily.modeling
        >>> from transformers import AutoModelForSeq2SeqLM
        >>> type(AutoModelForSeq2SeqLM.from_pretrained(checkpoint("headlines"))).__name__
        'AttentionVariantForConditionalGeneration'
    """
    return merged(Path(folder(name)))


def merged(place: Path) -> str:
    """`place` itself, or, if it holds an adapter, the folder of base and adapter merged."""
    if not (place / ADAPTER).is_file():
        return str(place)
    base = resolve(base_of(place))
    parts = f"{base.identity} {content_hash(place)}"
    target = (
        cache_folder() / "checkpoints" / f"{place.name}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}"
    )
    return str(make_folder_once(target, functools.partial(_merge, place, base)))


def base_of(place: Path) -> str:
    """The name of the model that an adapter is a difference from."""
    base = read_json(place / ADAPTER, dict).get("base_model_name_or_path")
    if not isinstance(base, str):
        raise InputError(
            f"{place / ADAPTER} does not name the base_model_name_or_path that it is a difference from."
        )
    return base


def _merge(place: Path, base: Resolved, target: Path) -> None:
    """Base and adapter as one model, in float32, with the config, the generation settings and the base's tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        from peft import PeftConfig, PeftModel
    except ImportError:
        raise MissingRequirement(
            f"{place.name} is stored as a difference from {base_of(place)}, and merging needs peft: "
            f"{pip_install('offline')}"
        ) from None
    say(f"putting {place.name} together from {base_of(place)}, once")
    with quiet_about_tying(), without_bars():
        whole: Any = AutoModelForSeq2SeqLM.from_pretrained(
            base.path_or_id,
            config=AutoConfig.from_pretrained(place),
            revision=base.revision,
            dtype=torch.float32,
        )
        difference = PeftConfig.from_pretrained(str(place))
        # peft's wrapper for sequence-to-sequence models asks for what transformers 5 no longer has; none is needed.
        difference.task_type = None
        whole = PeftModel.from_pretrained(whole, str(place), config=difference).merge_and_unload()
        whole.save_pretrained(target)
    AutoTokenizer.from_pretrained(base.path_or_id, revision=base.revision).save_pretrained(target)
    for file in ("config.json", "generation_config.json", "tokenizer_config.json"):
        if (place / file).is_file():
            shutil.copyfile(place / file, target / file)


@contextmanager
def quiet_about_tying() -> Iterator[None]:
    """Inside, transformers and peft do not advise to change the config of a T5 whose head is its own.

    transformers 5 sets `tie_word_embeddings` for every T5, whatever its config says, then notices that the weights
    differ and rightly leaves them alone.
    """

    def other(record: logging.LogRecord) -> bool:
        return "tied weights mapping" not in record.getMessage()

    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(other)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Input and output embeddings are no longer tied")
            yield
    finally:
        logger.removeFilter(other)
