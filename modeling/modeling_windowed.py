"""What encoders with sliding-window attention share, around BART and around T5."""

from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from summarily.modeling.attention.window_plan import (
    WindowPlan,
    plan_by_option,
)


class WindowedEncoder:
    """`attention_class(config, layer)` in every layer, and global tokens by a mask or by the config."""

    attention_class: type

    def make_attention(self, layer: int):
        return self.attention_class(self.config, layer)

    def plan(self, hidden_states, attention_mask, global_attention_mask=None) -> WindowPlan:
        return plan_by_option(self.config.global_tokens, hidden_states, attention_mask, global_attention_mask)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, global_attention_mask=None, **kwargs
    ) -> BaseModelOutput:
        return self.encode(
            input_ids, attention_mask, inputs_embeds, global_attention_mask=global_attention_mask
        )


__all__ = ["WindowedEncoder"]
