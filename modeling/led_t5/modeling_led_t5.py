"""LED around T5: T5's layers, sliding-window attention in the encoder.

The attention, with T5's bias by relative distance, is in `modeling/attention/window.py`; encoder, decoder, loss and
generation are those of `modeling/modeling_sparse_t5.py`. The weights are T5's, name by name.
"""

import torch
from transformers import T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Attention

from summarily.modeling.attention.window import (
    attend_everywhere,
    put_global_rows,
    window_attention,
)
from summarily.modeling.attention.window_plan import (
    WindowPlan,
    window_attention_dense,
)
from summarily.modeling.led_t5.configuration_led_t5 import LedT5Config
from summarily.modeling.modeling_sparse_t5 import (
    SparseT5Encoder,
    SparseT5ForConditionalGeneration,
    SparseT5Model,
    load_t5,
)
from summarily.modeling.modeling_summarizer import GlobalTokensForward
from summarily.modeling.modeling_windowed import WindowedEncoder


class LedT5SelfAttention(T5Attention):
    """T5's attention within a window around each token; global tokens see, and are seen by, all.

    `attn_implementation="eager"` computes the full matrix instead and shows its weights.
    """

    def __init__(self, config: LedT5Config, layer: int):
        super().__init__(config, has_relative_attention_bias=layer == 0, layer_idx=layer)
        self.window = config.windows[layer]

    def forward(self, hidden_states, mask: WindowPlan, position_bias: torch.Tensor, **kwargs):
        plan, weights = mask, None
        options = {"bias": position_bias, "scale": self.scaling, "dropout": self.dropout * self.training}
        query, key, value = (  # [batch, length, heads, head size]
            projection(hidden_states).unflatten(-1, (self.n_heads, self.key_value_proj_dim))
            for projection in (self.q, self.k, self.v)
        )
        if self.config._attn_implementation == "eager":
            states, weights = window_attention_dense(query, key, value, plan, self.window, **options)
        else:
            states = window_attention(query, key, value, plan, self.window, **options)
        if plan.global_index is not None:
            batch = torch.arange(len(query), device=query.device)[:, None]
            global_query = query[batch, plan.global_index]
            rows, row_weights = attend_everywhere(global_query, key, value, plan, **options)
            states = put_global_rows(states, rows, plan)
            if weights is not None:
                by_query = put_global_rows(weights.transpose(1, 2), row_weights.transpose(1, 2), plan)
                weights = by_query.transpose(1, 2)
        return self.o(states.flatten(2)), position_bias, weights


class LedT5Encoder(WindowedEncoder, SparseT5Encoder):
    config: LedT5Config
    attention_class = LedT5SelfAttention


class LedT5Model(SparseT5Model):
    """Encoder and decoder without the language-model head.

    Example:

    >>> import torch
    >>> config = LedT5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, attention_window=4)
    >>> ids = torch.tensor([[5, 6, 7, 8, 9, 1]])
    >>> LedT5Model(config)(input_ids=ids, decoder_input_ids=ids).last_hidden_state.shape
    torch.Size([1, 6, 16])
    """

    config: LedT5Config
    encoder_class = LedT5Encoder
    encoder_arguments = ("global_attention_mask",)


class LedT5ForConditionalGeneration(GlobalTokensForward, SparseT5ForConditionalGeneration):
    """The summarizer of long documents around a T5: start from one (`from_t5`), or from a saved model.

    Tokens with 1 in `global_attention_mask` see and are seen by all others; without a mask none does, unless the config
    says otherwise.

    Example:

    >>> import torch
    >>> from transformers import T5Config, T5ForConditionalGeneration
    >>> t5 = T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
    ...                                          decoder_start_token_id=0))
    >>> led = LedT5ForConditionalGeneration.from_t5(t5, window=8).eval()
    >>> ids = torch.randint(3, 50, (1, 40))
    >>> led(input_ids=ids, labels=ids[:, :5]).logits.shape
    torch.Size([1, 5, 50])
    >>> led.generate(ids, num_beams=2, max_new_tokens=3).shape[0]
    1
    """

    config: LedT5Config
    encoder_class = LedT5Encoder

    @classmethod
    def from_t5(
        cls, model: T5ForConditionalGeneration | str, *, window: int | list[int] = 512, **changes
    ) -> "LedT5ForConditionalGeneration":
        """A T5 that reads documents of any length. On sources within the window it still gives T5's output.

        Args:
            model: a `T5ForConditionalGeneration`, or its name or folder.
            window: both sides together; LongT5's `local_radius` is half of it.
            changes: further fields of `LedT5Config`.
        """
        return cls.start_from(load_t5(model), LedT5Config, attention_window=window, **changes)


__all__ = ["LedT5ForConditionalGeneration", "LedT5Model"]
