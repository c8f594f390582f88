"""Configuration of LED around T5."""

from huggingface_hub.dataclasses import strict
from transformers import T5Config

from summarily.modeling.led.configuration_led import check_global_tokens, check_window, one_sided_windows


@strict
class LedT5Config(T5Config):
    """T5 whose encoder sees a window around each token, and a few tokens everywhere if wanted.

    Reference: Beltagy et al. (2020), Longformer; with T5's bias by relative distance this is the local attention of
    LongT5 (Guo et al. 2022). All other fields are those of T5.

    Args:
        attention_window: tokens of the window, both sides together, for all layers or one number for each; even. It is
            twice LongT5's `local_radius`.
        global_tokens: which tokens see, and are seen by, all others when no `global_attention_mask` is given: `bos`,
            the first of each document, or `none`. They have no projections of their own.

    Example:

    >>> LedT5Config(num_layers=2, attention_window=254).windows
    [127, 127]
    """

    model_type = "summarily-led-t5"

    attention_window: list[int] | int = 512
    global_tokens: str = "none"

    def __post_init__(self, **kwargs):
        check_window(self.attention_window, self.num_layers)
        check_global_tokens(self.global_tokens)
        super().__post_init__(**kwargs)

    @property
    def windows(self) -> list[int]:
        """Tokens on each side, for each layer."""
        return one_sided_windows(self.attention_window, self.num_layers)


__all__ = ["LedT5Config"]
