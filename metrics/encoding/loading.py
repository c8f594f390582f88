"""Models as metrics load them: on the best device, from safe files, quietly."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import torch

from summarily.support import weights


def default_device() -> torch.device:
    """CUDA if there is one, else MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def load_pretrained(auto_class: Any, resolved: weights.Resolved, **options: Any) -> Any:
    """`from_pretrained` without remote code; what cannot be had is a `MissingRequirement`."""
    with _loading:
        return _load(auto_class, resolved, options)


_loading = threading.RLock()
"""`from_pretrained` sets the type of new tensors, and we the progress bars, for the whole process."""


def _load(auto_class: Any, resolved: weights.Resolved, options: dict[str, Any]) -> Any:
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return auto_class.from_pretrained(
            resolved.path_or_id, revision=resolved.revision or "main", trust_remote_code=False, **options
        )
    except OSError as error:
        if resolved.is_local:
            raise
        raise weights.not_on_hub(resolved.path_or_id, str(error).strip().splitlines()[0]) from error
    finally:
        if bars:
            logging.enable_progress_bar()


@contextlib.contextmanager
def without_the_head() -> Iterator[None]:
    """Loading an encoder from a checkpoint with a head is no news; weights that are missing still are."""
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addFilter(_is_news)
    try:
        yield
    finally:
        logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return "LOAD REPORT" not in message or any(
        status in message for status in ("MISSING", "MISMATCH", "CONVERSION")
    )
