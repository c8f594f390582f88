"""Configuration of APESO."""

from huggingface_hub.dataclasses import strict

from summarily.modeling.pointer_generator.configuration_pointer_generator import PointerGeneratorConfig
from summarily.support.errors import InputError


@strict
class ApesoConfig(PointerGeneratorConfig):
    """A pointer-generator with a layer that finds the salient entities of the source.

    Reference: Eyal et al. (2019), Question Answering as an Automatic Evaluation Metric for News Article Summarization.

    Args:
        delta: weight of the entity layer in the loss, `delta * BCE + (1 - delta) * NLL` (Eq. 5).

    Example:

    >>> ApesoConfig(vocab_size=30000).delta
    0.01
    """

    model_type = "summarily-apeso"

    delta: float | int = 0.01

    def __post_init__(self, **kwargs):
        if not 0 <= self.delta <= 1:
            raise InputError(f"delta={self.delta} is not between 0 and 1.")
        super().__post_init__(**kwargs)


__all__ = ["ApesoConfig"]
