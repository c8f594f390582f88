"""InferSent (Conneau et al. 2017) as a transformers model: word ids in, one vector per sentence out."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling

from summarily.modeling.infersent.configuration_infersent import InferSentConfig
from summarily.support.errors import InputError


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
        self.enc_lstm = nn.LSTM(
            config.embedding_size, config.hidden_size, num_layers=1, bidirectional=True, batch_first=True
        )
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight)
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, nn.LSTM):
            bound = module.hidden_size**-0.5
            for weight in module.parameters():
                init.uniform_(weight, -bound, bound)

    def get_input_embeddings(self) -> nn.Module:
        return self.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.word_embeddings = value  # type: ignore[assignment]

    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutputWithPooling | tuple[torch.Tensor, torch.Tensor]:
        """Encode sentences that are padded on the right.

        Args:
            attention_mask: 1 for words, 0 for padding; by default `input_ids` that are not padding, or all of
                `inputs_embeds`.
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
        lengths = mask.sum(1)
        if (lengths == 0).any():
            row = int((lengths == 0).nonzero()[0, 0])
            raise InputError(
                f"row {row} has no words; the tokenizer gives at least the end-of-sentence word."
            )
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise InputError(
                "InferSent takes sentences padded on the right; the mask has words after padding."
            )
        packed = pack_padded_sequence(inputs_embeds, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.enc_lstm(packed)[0], batch_first=True, total_length=mask.shape[1]
        )  # [batch, time, 2 * hidden], zero where padded
        if self.config.v1_zero_padding:
            pooled = states.amax(1)
        else:
            pooled = states.masked_fill(~mask.unsqueeze(-1), torch.finfo(states.dtype).min).amax(1)
        if return_dict is False:
            return states, pooled
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=pooled)  # type: ignore[arg-type]
