"""Which tokens of a source see, and are seen by, all others."""

from summarily.modeling.model_data import ModelData


class LedData(ModelData):
    """`global_attention_mask`: 1 for global tokens; padding is none of them."""

    padding = {"global_attention_mask": 0}
