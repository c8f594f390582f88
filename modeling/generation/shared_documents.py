"""Beams that share their document.

`generate` repeats what the encoder made of a document for every beam, although the copies never differ. A model that
reads `[documents, ...]` for `[documents * beams, ...]` rows keeps it from doing so with this mixin.
"""

from typing import Any


class SharedDocuments:
    """For a model in front of `GenerationMixin`: beams multiply the summaries only.

    `shared_cache` is the class of the caches with which the model can read documents in this way.
    """

    shared_cache: type

    def _expand_inputs_for_generation(self, expand_size=1, is_encoder_decoder=True, input_ids=None, **kwargs):
        """As in transformers, but documents, and what the encoder made of them, stay as they are."""
        kept: dict[str, Any] = {}
        cache = kwargs.get("past_key_values")
        if cache is None or isinstance(cache, self.shared_cache):
            kept = {name: kwargs.pop(name, None) for name in ("encoder_outputs", "attention_mask")}
        input_ids, kwargs = super()._expand_inputs_for_generation(  # type: ignore[misc]
            expand_size, is_encoder_decoder and not kept, input_ids, **kwargs
        )
        return input_ids, {**kwargs, **{name: value for name, value in kept.items() if value is not None}}
