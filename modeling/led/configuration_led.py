"""Configuration of LED."""

from typing import cast

from huggingface_hub.dataclasses import strict

from summarily.modeling.configuration_long_bart import LongBartConfig
from summarily.support.errors import InputError

GLOBAL_TOKENS = ("bos", "none")


def check_window(window: list[int] | int, layers: int) -> None:
    """Raise a ValueError unless `window`, both sides together, fits an encoder of `layers` layers."""
    for width in [window] if isinstance(window, int) else window:
        if width <= 0 or width % 2:
            raise InputError(f"attention_window={window} must be positive and even: half of it on each side.")
    if isinstance(window, list) and len(window) != layers:
        raise InputError(
            f"attention_window has {len(window)} numbers, but there are {layers} encoder layers."
        )


def check_global_tokens(global_tokens: str) -> None:
    """Raise a ValueError that names the choices."""
    if global_tokens not in GLOBAL_TOKENS:
        raise InputError(
            f"global_tokens={global_tokens!r} is unknown; choose one of {', '.join(GLOBAL_TOKENS)}."
        )


def one_sided_windows(window: list[int] | int, layers: int) -> list[int]:
    """Tokens on each side, for each layer.

    Example:

    >>> one_sided_windows(64, 2)
    [32, 32]
    """
    return [width // 2 for width in ([window] * layers if isinstance(window, int) else window)]


@strict
class LedConfig(LongBartConfig):
    """BART whose encoder sees a window around each token, and a few tokens everywhere.

    Reference: Beltagy et al. (2020), Longformer: the long-document transformer. Sizes are those of BART.

    Args:
        attention_window: tokens of the window, both sides together, for all layers or one number for each; even.
        global_tokens: which tokens see, and are seen by, all others when no `global_attention_mask` is given: `bos`,
            the first of each document, or `none`. Without any global token the global projections have no
            gradient, which distributed training has to be told (`find_unused_parameters`).
        max_encoder_position_embeddings: the longest source.
        max_position_embeddings: the longest summary.
        summary_window: tokens that a token of the summary sees of the summary; all when left out.
        label_smoothing: in training only.

    Example:

    >>> LedConfig(encoder_layers=2, attention_window=64).windows
    [32, 32]
    """

    model_type = "summarily-led"

    attention_window: list[int] | int = 512
    global_tokens: str = "bos"

    def __post_init__(self, **kwargs):
        check_window(self.attention_window, cast(int, self.encoder_layers))
        check_global_tokens(self.global_tokens)
        super().__post_init__(**kwargs)

    @property
    def windows(self) -> list[int]:
        """Tokens on each side, for each layer."""
        return one_sided_windows(self.attention_window, cast(int, self.encoder_layers))


__all__ = ["LedConfig"]
