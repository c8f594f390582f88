"""LED: BART's layers around sliding-window attention with global tokens.

The attention itself, and what it must equal, is in `modeling/attention/window.py`; encoder, decoder, loss and
generation are those of `modeling/modeling_long_bart.py`.
"""

import torch
from torch import nn
from transformers import BartForConditionalGeneration, GenerationConfig, LEDForConditionalGeneration

from summarily.modeling.attention.window import (
    global_attention,
    put_global_rows,
    window_attention,
)
from summarily.modeling.attention.window_plan import (
    WindowPlan,
    window_attention_dense,
)
from summarily.modeling.bart_surgery import (
    copy_bart,
    copy_weights,
    load_bart,
    randomise_weights,
    shared_fields,
)
from summarily.modeling.led.configuration_led import LedConfig
from summarily.modeling.led.convert_led import (
    config_from_transformers,
    config_to_transformers,
    led_from_transformers,
    led_to_transformers,
)
from summarily.modeling.modeling_long_bart import (
    EncoderSelfAttention,
    LongBartEncoder,
    LongBartForConditionalGeneration,
    LongBartModel,
)
from summarily.modeling.modeling_summarizer import GlobalTokensForward
from summarily.modeling.modeling_windowed import WindowedEncoder
from summarily.support.errors import InputError, InputTypeError

PROJECTIONS = ("q_proj", "k_proj", "v_proj")


class LedSelfAttention(EncoderSelfAttention):
    """A window around each token and the global tokens; these see everything through projections of their own.

    `attn_implementation="eager"` computes the full matrix instead and shows its weights.
    """

    def __init__(self, config: LedConfig, layer: int):
        super().__init__()
        self.config = config
        self.num_heads = config.encoder_attention_heads
        self.head_dim = config.d_model // self.num_heads
        self.window = config.windows[layer]
        self.dropout = config.attention_dropout
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(config.d_model, config.d_model))
            setattr(self, f"{name}_global", nn.Linear(config.d_model, config.d_model))
        self.out_proj = nn.Linear(config.d_model, config.d_model)

    def split(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (self.num_heads, self.head_dim))  # [batch, length, heads, head size]

    def forward(self, hidden_states, attention_mask: WindowPlan, **kwargs):
        plan, weights = attention_mask, None
        dropout = self.dropout if self.training else 0.0
        query, key, value = (self.split(getattr(self, name)(hidden_states)) for name in PROJECTIONS)
        if self.config._attn_implementation == "eager":
            states, weights = window_attention_dense(query, key, value, plan, self.window, dropout)
        else:
            states = window_attention(query, key, value, plan, self.window, dropout)
        if plan.global_index is not None:
            states, weights = self.replace_global_rows(hidden_states, states, weights, plan, dropout)
        return self.out_proj(states.flatten(2)), weights

    def replace_global_rows(self, hidden_states, states, weights, plan, dropout):
        batch = torch.arange(hidden_states.shape[0], device=hidden_states.device)[:, None]
        query = self.split(self.q_proj_global(hidden_states[batch, plan.global_index]))
        projections = self.k_proj_global, self.v_proj_global
        rows, row_weights = global_attention(hidden_states, query, *projections, plan, dropout)
        if weights is not None:
            weights = put_global_rows(weights.transpose(1, 2), row_weights.transpose(1, 2), plan).transpose(
                1, 2
            )
        return put_global_rows(states, rows, plan), weights


class LedEncoder(WindowedEncoder, LongBartEncoder):
    config: LedConfig
    attention_class = LedSelfAttention


class LedModel(LongBartModel):
    """Encoder and decoder without the language-model head.

    Example:

    >>> import torch
    >>> config = LedConfig(vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
    ...                    decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, attention_window=4)
    >>> ids = torch.tensor([[0, 5, 6, 7, 8, 9, 2]])
    >>> LedModel(config)(input_ids=ids, decoder_input_ids=ids).last_hidden_state.shape
    torch.Size([1, 7, 16])
    """

    config: LedConfig
    encoder_class = LedEncoder
    encoder_arguments = ("global_attention_mask",)


class LedForConditionalGeneration(GlobalTokensForward, LongBartForConditionalGeneration):
    """The summarizer of long documents.

    Start from a BART (`from_bart`), from transformers' LED (`from_transformers_led`), or from a saved model
    (`from_pretrained`). Tokens with 1 in `global_attention_mask` see and are seen by all others; without a mask the
    first token does, unless the config says otherwise.

    Example:

    >>> import torch
    >>> from transformers import BartConfig, BartForConditionalGeneration
    >>> bart = BartForConditionalGeneration(BartConfig(
    ...     vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
    ...     decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=16))
    >>> led = LedForConditionalGeneration.from_bart(bart, max_length=64, window=8).eval()
    >>> ids = torch.randint(3, 50, (1, 40))
    >>> led(input_ids=ids, labels=ids[:, :5]).logits.shape
    torch.Size([1, 5, 50])
    >>> led.generate(ids, num_beams=2, max_new_tokens=3).shape[0]
    1
    """

    config: LedConfig
    model_class = LedModel

    @classmethod
    def from_bart(
        cls,
        model: BartForConditionalGeneration | str,
        *,
        max_length: int = 4096,
        window: int | list[int] = 512,
        attention: str = "copy",
        seed: int = 0,
        **changes,
    ) -> "LedForConditionalGeneration":
        """A BART that reads `max_length` tokens. On sources within the window it still gives BART's output.

        Args:
            model: a `BartForConditionalGeneration`, or its name or folder.
            max_length: positions of the encoder, made of copies of BART's.
            window: both sides together.
            attention: "copy" BART's encoder self-attention (the global projections too), or start from "random".
            seed: of the random attention.
            changes: further fields of `LedConfig`.
        """
        if attention not in ("copy", "random"):
            raise InputError(f"attention={attention!r} is unknown; choose 'copy' or 'random'.")
        bart = load_bart(model)
        fields = {
            **shared_fields(bart.config),
            "max_encoder_position_embeddings": max_length,
            "attention_window": window,
            **changes,
        }
        led = cls(LedConfig(**fields)).to(bart.dtype)
        copy_bart(bart, led)
        for index, (ours, theirs) in enumerate(
            zip(led.model.encoder.layers, bart.model.encoder.layers, strict=True)
        ):
            if attention == "random":
                randomise_weights(ours.self_attn, led.config.init_std, seed + index)
                continue
            for name in PROJECTIONS:
                targets = (getattr(ours.self_attn, name), getattr(ours.self_attn, f"{name}_global"))
                copy_weights(getattr(theirs.self_attn, name), targets)
            copy_weights(theirs.self_attn.out_proj, [ours.self_attn.out_proj])
        return led.train(bart.training).to(bart.device)

    @classmethod
    def from_transformers_led(
        cls, model: LEDForConditionalGeneration | str, **changes
    ) -> "LedForConditionalGeneration":
        """Our LED with the weights of transformers' (`allenai/led-base-16384`, ...), copied.

        Args:
            changes: fields of `LedConfig` that transformers' LED does not have, such as `label_smoothing`.
        """
        if isinstance(model, str):
            model = LEDForConditionalGeneration.from_pretrained(model)
        if not isinstance(model, LEDForConditionalGeneration):
            raise InputTypeError(
                f"model is a {type(model).__name__}; give a LEDForConditionalGeneration or its name."
            )
        led = cls(config_from_transformers(model.config, **changes)).to(model.dtype)
        led.load_state_dict(led_from_transformers(model.state_dict()))
        led.tie_weights()
        led.generation_config = GenerationConfig.from_dict(model.generation_config.to_dict())
        return led.train(model.training).to(model.device)

    def to_transformers_led(self) -> LEDForConditionalGeneration:
        """Transformers' LED with our weights, copied. It has no default: give it its `global_attention_mask`."""
        led = LEDForConditionalGeneration(config_to_transformers(self.config)).to(self.dtype)
        led.load_state_dict(led_to_transformers(self.state_dict()))
        led.tie_weights()
        led.generation_config = GenerationConfig.from_dict(self.generation_config.to_dict())
        return led.train(self.training).to(self.device)


__all__ = ["LedForConditionalGeneration", "LedModel"]
