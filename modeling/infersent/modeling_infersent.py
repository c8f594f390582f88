"""InferSent (Conneau et al. 2017) as a transformers model: word ids in, one vector per sentence out."""

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import can_return_tuple

from summarily.modeling.infersent.configuration_infersent import InferSentConfig
from summarily.modeling.recurrent import layer_weights, turned
from summarily.support.errors import InputError


class BidirectionalLstm(nn.RNNBase):
    """A bidirectional LSTM of one layer that begins neither direction at padding.

    Equal to `nn.LSTM` on packed sequences, which cannot be compiled.

    Example:

    >>> lstm = BidirectionalLstm(4, 3)
    >>> lstm(torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, inputs: int, size: int):
        super().__init__("LSTM", inputs, size, batch_first=True, bidirectional=True)

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The states of both directions [batch, time, 2 * hidden], zero at padding, which is on the right."""
        ahead = self._direction(inputs, "")
        back = self._direction(turned(inputs, mask), "_reverse")
        return torch.cat([ahead, turned(back, mask)], dim=-1) * mask[..., None]

    def _direction(self, inputs: torch.Tensor, direction: str) -> torch.Tensor:
        """One direction, read from the left."""
        weights = layer_weights(self, direction=direction)
        start = inputs.new_zeros(1, len(inputs), self.hidden_size)
        return torch.lstm(inputs, (start, start), weights, True, 1, 0.0, self.training, False, True)[0]


class InferSentModel(PreTrainedModel):
    """A bidirectional LSTM over fixed word vectors; the sentence is the maximum of its states over time.

    Reference: Conneau et al. (2017). `convert_infersent.py` makes one of the published state dicts, and
    `InferSentTokenizer` gives the ids.

    Example:

    >>> config = InferSentConfig(vocab_size=5, embedding_size=4, hidden_size=3)
    >>> InferSentModel(config)(torch.tensor([[1, 2, 4]])).pooler_output.shape
    torch.Size([1, 6])
    """

    config_class = InferSentConfig
    main_input_name = "input_ids"

    def __init__(self, config: InferSentConfig):
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, config.pad_token_id)
        # Never trained: the published models keep their word vectors fixed.
        self.word_embeddings.weight.requires_grad_(False)
        self.enc_lstm = BidirectionalLstm(config.embedding_size, config.hidden_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, BidirectionalLstm):
            bound = module.hidden_size**-0.5
            for weight in module.parameters():
                init.uniform_(weight, -bound, bound)

    def get_input_embeddings(self) -> nn.Module:
        return self.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.word_embeddings = value  # type: ignore[assignment]

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutputWithPooling:
        """Encode sentences that are padded on the right.

        Args:
            attention_mask: 1 for words, 0 for padding; by default `input_ids` that are not padding, or all of
                `inputs_embeds`.

        Returns:
            `pooler_output` [batch, 2 * hidden], and the states of the words, zero at padding; `hidden_states` are the
            word vectors and the states.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("give either input_ids or inputs_embeds.")
        if attention_mask is None and input_ids is not None:
            attention_mask = input_ids != self.config.pad_token_id
        if inputs_embeds is None:
            inputs_embeds = self.word_embeddings(input_ids)
        if attention_mask is None:
            attention_mask = inputs_embeds.new_ones(inputs_embeds.shape[:2])
        mask = attention_mask.bool()  # [batch, time]
        if not torch.compiler.is_compiling():  # what is compiled cannot depend on values
            _check_padding(mask)
        states = self.enc_lstm(inputs_embeds, mask)
        if self.config.v1_zero_padding:
            pooled = states.amax(1)
        else:
            pooled = states.masked_fill(~mask.unsqueeze(-1), torch.finfo(states.dtype).min).amax(1)
        shown = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        return BaseModelOutputWithPooling(
            last_hidden_state=states,  # type: ignore[arg-type]
            pooler_output=pooled,
            hidden_states=(inputs_embeds, states) if shown else None,  # type: ignore[arg-type]
        )


def _check_padding(mask: torch.Tensor) -> None:
    if not mask.any(1).all():
        row = int((~mask.any(1)).nonzero()[0, 0])
        raise InputError(f"row {row} has no words; the tokenizer gives at least the end-of-sentence word.")
    if (mask[:, 1:] & ~mask[:, :-1]).any():
        raise InputError("InferSent takes sentences padded on the right; the mask has words after padding.")
