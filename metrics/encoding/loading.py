"""Models as metrics load them: on the best device, from safe files, quietly."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch

from summarily.support import weights
from summarily.support.errors import FileError, SummarilyError, first_line
from summarily.support.processes import Lock
from summarily.support.progress import without_bars


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


_loading = Lock()
"""`from_pretrained` sets the type of new tensors, and we the progress bars, for the whole process."""


def _load(auto_class: Any, resolved: weights.Resolved, options: dict[str, Any]) -> Any:
    try:
        with without_bars():
            loaded = auto_class.from_pretrained(
                resolved.path_or_id, revision=resolved.revision or "main", trust_remote_code=False, **options
            )
    except SummarilyError:
        raise
    except OSError as error:
        if not resolved.is_local:
            raise weights.not_on_hub(resolved.path_or_id, first_line(error)) from error
        raise FileError(f"{resolved.path_or_id} cannot be loaded: {first_line(error)}") from error
    except Exception as error:  # damaged files make transformers, tokenizers and safetensors raise anything
        raise FileError(f"{resolved.path_or_id} cannot be loaded: {first_line(error)}") from error
    if isinstance(loaded, torch.nn.Module):
        weights.check_finite(loaded, resolved.path_or_id)
    return loaded


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
