"""The pointer-generator: an attentive LSTM summarizer that can copy any word of its source.

From top to bottom: additive attention, encoder, decoder step and its cache, decoder, the body
(`PointerGeneratorModel`), the head with copying, loss and generation (`PointerGeneratorForConditionalGeneration`).
Shapes in comments: B sources, R summaries (each source has as many, such as its beams, side by side), S source tokens,
T summary tokens, H hidden of the encoder, D of the decoder, V vocabulary, L layers.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils.generic import ModelOutput, can_return_tuple

from summarily.modeling.generation.shared_documents import SharedDocuments
from summarily.modeling.generation.summary_beam_search import SearchesWithPenalties
from summarily.modeling.pointer_generator.configuration_pointer_generator import PointerGeneratorConfig
from summarily.modeling.recurrent import last_of, layer_weights, turned
from summarily.support.errors import InputError

# Added to every probability before its logarithm: what can be neither written nor copied has none.
LEAST_PROBABILITY = 1e-20
# What a gate is sure of: its sigmoid is 0 or 1 exactly.
SHUT = 1e4
# Values that a CPU core keeps close by: without gradients, attention is computed in pieces of this size.
NEAR = 2**19


def at_least_float32(values: torch.Tensor) -> torch.Tensor:
    """Probabilities and their logarithms are not for half precision."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class AdditiveAttention(nn.Module):
    """Bahdanau et al. (2015): v . tanh(W_q query + b + W_k state_j) for every source state j.

    With `coverage`, w_c (attention that j has had so far) is added within the tanh (See et al. 2017, Eq. 11).
    """

    def __init__(self, size: int, key_size: int, coverage: bool = False):
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(key_size, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)
        self.coverage = nn.Linear(1, size, bias=False) if coverage else None

    def project(self, states: torch.Tensor) -> torch.Tensor:
        """W_k state_j `[B, S, D]`: the costly part, which does not depend on the query."""
        return self.key(states)

    def forward(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        mask: torch.Tensor,
        attended: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Weights `[R, S]` of the projected states `[B, S, D]`, which sum to one over those where `mask` is true."""
        query = self.query(query).unflatten(0, (len(keys), -1))  # [B, R / B, D]
        if self.coverage is not None:
            attended = attended.view(*query.shape[:2], -1).to(query.dtype)
        if torch.is_grad_enabled() or keys.device.type != "cpu":
            scores = self._scores(query, keys, attended)
        else:
            scores = self._scores_by_pieces(query, keys, attended)
        scores = at_least_float32(scores).masked_fill(~mask[:, None], -torch.inf)
        return torch.softmax(scores, dim=-1).flatten(0, 1)

    def _scores(self, query: torch.Tensor, keys: torch.Tensor, attended: torch.Tensor | None) -> torch.Tensor:
        sums = query[:, :, None] + keys[:, None]  # [B, R / B, S, D]
        if self.coverage is not None:
            sums += self.coverage(attended[..., None])  # in place: it is large
        return self.score(sums.tanh_())[..., 0]

    def _scores_by_pieces(
        self, query: torch.Tensor, keys: torch.Tensor, attended: torch.Tensor | None
    ) -> torch.Tensor:
        """The same: all summaries of some sources, or some of one source, at a time."""
        sources, summaries = query.shape[:2]
        pieces = max(1, NEAR // keys[0].numel())
        some, few = max(1, pieces // summaries), min(pieces, summaries)
        scores = query.new_empty(sources, summaries, keys.shape[1])
        for source in range(0, sources, some):
            for summary in range(0, summaries, few):
                piece = slice(source, source + some), slice(summary, summary + few)
                seen = None if attended is None else attended[piece]
                scores[piece] = self._scores(query[piece], keys[piece[0]], seen)
        return scores


def per_summary(values: torch.Tensor, summaries: int) -> torch.Tensor:
    """What belongs to sources `[B, ...]`, repeated for each of their summaries `[R, ...]`."""
    if summaries % len(values):
        raise InputError(
            f"{summaries} summaries of {len(values)} sources; each must have as many as the others."
        )
    return values if len(values) == summaries else values.repeat_interleave(summaries // len(values), dim=0)


def _asked(default: bool, value: bool | None) -> bool:
    return default if value is None else value


class PointerGeneratorPreTrainedModel(PreTrainedModel):
    config_class = PointerGeneratorConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["DecoderStep"]
    _is_stateful = True  # an LSTM cannot go back: `generate` refuses assistants and prompt lookup

    def _init_weights(self, module):
        bound = self.config.init_range
        if isinstance(module, (nn.Linear, nn.Embedding, nn.RNNBase, nn.LSTMCell)):
            for parameter in module.parameters(recurse=False):
                init.uniform_(parameter, -bound, bound)
        if isinstance(module, nn.Embedding):
            init.zeros_(module.weight[module.padding_idx])


# --- encoder ----------------------------------------------------------------------------------------------


@dataclass
class PointerGeneratorEncoderOutput(ModelOutput):
    """What the decoder needs of a source; every tensor has the examples first.

    Args:
        last_hidden_state: `[B, S, H]`.
        initial_hidden, initial_cell: `[B, L, D]`, where the decoder starts.
        source_ids: `[B, S]`, words beyond the vocabulary included: what can be copied.
        hidden_states: if asked for, the embeddings and the states of each layer.
    """

    last_hidden_state: torch.Tensor | None = None
    initial_hidden: torch.Tensor | None = None
    initial_cell: torch.Tensor | None = None
    source_ids: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


class EncoderLstm(nn.RNNBase):
    """A bidirectional LSTM that can show what each of its layers gives."""

    def __init__(self, inputs: int, size: int, layers: int, dropout: float):
        dropout = dropout if layers > 1 else 0.0
        super().__init__("LSTM", inputs, size, layers, batch_first=True, dropout=dropout, bidirectional=True)

    def forward(
        self, embedded: torch.Tensor, mask: torch.Tensor, every_layer: bool = False
    ) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """The states `[B, S, H]` of the last layer or of every one, zero at padding, which is on the right; and the last
        hidden and cell states `[2 L, B, H / 2]`."""
        if torch.compiler.is_compiling():  # how a batch is packed depends on its lengths
            return self._unpacked(embedded, mask)
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        # One call for all layers, or one for each of those that are shown.
        calls = [[layer] for layer in range(self.num_layers)] if every_layer else [range(self.num_layers)]
        layers, hidden, cells = [], [], []
        for number, call in enumerate(calls):
            data = F.dropout(packed.data, self.dropout, self.training) if number else packed.data
            weights = [
                weight
                for layer in call
                for direction in ("", "_reverse")
                for weight in layer_weights(self, layer, direction)
            ]
            start = data.new_zeros(2 * len(call), len(embedded), self.hidden_size)
            data, last, cell = torch.lstm(
                data,
                packed.batch_sizes,
                (start, start),
                weights,
                True,
                len(call),
                self.dropout,
                self.training,
                True,
            )
            packed = packed._replace(data=data)
            layers.append(pad_packed_sequence(packed, True, total_length=embedded.shape[1])[0])
            hidden.append(last.index_select(1, packed.unsorted_indices))
            cells.append(cell.index_select(1, packed.unsorted_indices))
        return layers, torch.cat(hidden), torch.cat(cells)

    def _unpacked(
        self, data: torch.Tensor, mask: torch.Tensor
    ) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """The same of every layer, by operations that ask for no values."""
        layers, hidden, cells = [], [], []
        for layer in range(self.num_layers):
            if layer:
                data = F.dropout(data, self.dropout, self.training)
            ahead, ahead_cell = self._direction(data, mask, layer_weights(self, layer))
            back, back_cell = self._direction(
                turned(data, mask), mask, layer_weights(self, layer, "_reverse")
            )
            hidden += [last_of(ahead, mask), last_of(back, mask)]
            cells += [ahead_cell, back_cell]
            data = torch.cat([ahead, turned(back, mask)], dim=-1) * mask[..., None]
            layers.append(data)
        return layers, torch.stack(hidden), torch.stack(cells)

    def _direction(
        self, inputs: torch.Tensor, mask: torch.Tensor, weights: list[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """States and last cells of one direction, read from the left. One more input is 1 at padding: it shuts the
        input gate and opens the forget gate, so that cells stay what they were at the last token."""
        size = self.hidden_size
        gates = weights[0].new_zeros(4, size, 1)  # input, forget, cell, output
        gates[0], gates[1] = -SHUT, SHUT
        inputs = torch.cat([inputs, (~mask)[..., None].to(inputs.dtype)], dim=-1)
        weights = [torch.cat([weights[0], gates.flatten(0, 1)], dim=-1), *weights[1:]]
        start = inputs.new_zeros(1, len(inputs), size)
        states, _, cell = torch.lstm(
            inputs, (start, start), weights, True, 1, 0.0, self.training, False, True
        )
        return states, cell[0]


class PointerGeneratorEncoder(PointerGeneratorPreTrainedModel):
    """A BiLSTM, and the bridge from its last states to the decoder's first."""

    supports_gradient_checkpointing = False  # one call of one operator
    output_class = PointerGeneratorEncoderOutput

    def __init__(self, config: PointerGeneratorConfig):
        super().__init__(config)
        half = config.hidden_size // 2
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size, config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        self.lstm = EncoderLstm(config.embedding_size, half, config.num_layers, config.dropout)
        # Both directions go through the same bridge, all layers of a direction at once.
        sizes = half * config.num_layers, config.decoder_hidden_size // 2 * config.num_layers
        self.hidden_bridge, self.cell_bridge = nn.Linear(*sizes), nn.Linear(*sizes)
        self.post_init()

    def embed(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Embeddings, shared with the decoder; words beyond the vocabulary read as unknown."""
        known = torch.where(input_ids < self.config.vocab_size, input_ids, self.config.unk_token_id)
        return self.dropout(self.embed_tokens(known))

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, output_hidden_states=None, **kwargs
    ) -> PointerGeneratorEncoderOutput:
        if input_ids is None:
            raise InputError("give input_ids: what is copied are their words, whatever their embeddings are.")
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        # An LSTM reads from the first token on, so that padding on the left and holes move behind the last one.
        moved = torch.compiler.is_compiling() or self._moved(attention_mask)
        order = torch.argsort(attention_mask, dim=1, descending=True, stable=True) if moved else None
        ids, mask = (
            tensor if order is None else tensor.gather(1, order) for tensor in (input_ids, attention_mask)
        )
        embedded = self.embed(ids)
        shown = _asked(self.config.output_hidden_states, output_hidden_states)
        states, hidden, cell = self.lstm(embedded, mask.bool(), every_layer=shown)
        if shown:
            states.insert(0, embedded)
        if order is not None:
            back = order.argsort(dim=1)[..., None]
            states = [layer.gather(1, back.expand_as(layer)) for layer in states]
        return PointerGeneratorEncoderOutput(
            last_hidden_state=states[-1],
            initial_hidden=self._bridge(hidden, self.hidden_bridge),
            initial_cell=self._bridge(cell, self.cell_bridge),
            source_ids=input_ids,
            hidden_states=tuple(states) if shown else None,
        )

    @staticmethod
    def _moved(attention_mask: torch.Tensor) -> bool:
        """Whether there is padding before a token."""
        if not attention_mask.any(1).all():
            row = int(attention_mask.sum(1).argmin())
            raise InputError(f"row {row} of attention_mask is all 0; a source needs at least one token.")
        return bool((attention_mask[:, 1:] > attention_mask[:, :-1]).any())

    def _bridge(self, last: torch.Tensor, bridge: nn.Linear) -> torch.Tensor:
        layers = self.config.num_layers
        last = last.unflatten(0, (layers, 2)).permute(2, 1, 0, 3)  # [B, 2, L, H / 2]
        bridged = F.relu(bridge(last.flatten(2))).unflatten(2, (layers, -1))
        return bridged.transpose(1, 2).flatten(2)  # [B, L, D], forward beside backward


# --- decoder ----------------------------------------------------------------------------------------------


class PointerGeneratorCache:
    """The state of every summary in the making, and the projection of its source, which is computed once.

    `keys` are the same for all beams of a source, so reordering beams moves only the state.
    """

    is_compileable = False

    def __init__(self):
        self.keys: torch.Tensor | None = None  # [B, S, D]
        self.hidden: torch.Tensor | None = None  # [L, R, D]
        self.cell: torch.Tensor | None = None  # [L, R, D]
        self.feed: torch.Tensor | None = None  # [R, D], what the decoder put out last
        self.attended: torch.Tensor | None = None  # [R, S], attention of all tokens so far
        self.length = 0

    def start(
        self, encoder_outputs: PointerGeneratorEncoderOutput, attention: AdditiveAttention, summaries: int
    ) -> None:
        """Set the state before the first token."""
        self.keys = attention.project(encoder_outputs.last_hidden_state)
        self.hidden = per_summary(encoder_outputs.initial_hidden, summaries).transpose(0, 1)
        self.cell = per_summary(encoder_outputs.initial_cell, summaries).transpose(0, 1)
        self.feed = torch.zeros_like(self.hidden[-1])
        self.attended = torch.zeros_like(per_summary(at_least_float32(self.keys[..., 0]), summaries))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        if self.length:
            self.hidden, self.cell = self.hidden[:, beam_idx], self.cell[:, beam_idx]
            self.feed, self.attended = self.feed[beam_idx], self.attended[beam_idx]


class DecoderStep(GradientCheckpointingLayer):
    """One token: LSTM layers over [embedding; last output], attention, output = W [context; state]."""

    def __init__(self, config: PointerGeneratorConfig):
        super().__init__()
        size = config.decoder_hidden_size
        self.switch_sees_all = config.copy_switch_input == "see"
        widths = [config.embedding_size + size] + [size] * (config.num_layers - 1)
        self.cells = nn.ModuleList([nn.LSTMCell(width, size) for width in widths])
        self.attention = AdditiveAttention(size, config.hidden_size, config.coverage)
        self.output = nn.Linear(config.hidden_size + size, size)
        self.dropout = nn.Dropout(config.dropout)

    # All by position: reentrant checkpointing gives tensors among the keyword arguments no gradient.
    def forward(self, embedded, feed, hidden, cell, states, keys, mask, attended):
        below = torch.cat([embedded, feed], dim=-1)
        new_hidden, new_cell = [], []
        for layer, lstm_cell in enumerate(self.cells):
            h, c = lstm_cell(self.dropout(below) if layer else below, (hidden[layer], cell[layer]))
            new_hidden.append(h)
            new_cell.append(c)
            below = h
        weights = self.attention(below, keys, mask, attended)
        context = torch.bmm(weights.unflatten(0, (len(states), -1)).to(states.dtype), states).flatten(0, 1)
        output = self.dropout(self.output(torch.cat([context, below], dim=-1)))
        switch = torch.cat([context, c, below, embedded], dim=-1) if self.switch_sees_all else output
        return output, torch.stack(new_hidden), torch.stack(new_cell), weights, switch


class PointerGeneratorDecoder(nn.Module):
    """Runs the steps from where the cache stands."""

    def __init__(self, config: PointerGeneratorConfig):
        super().__init__()
        self.step = DecoderStep(config)

    def forward(
        self,
        embedded: torch.Tensor,
        encoder_outputs: PointerGeneratorEncoderOutput,
        mask: torch.Tensor,
        cache: PointerGeneratorCache,
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...], torch.Tensor]:
        """Outputs `[R, T, D]`, attention `[R, T, S]`, lower layers' states of the embedded tokens, and what decides
        between writing and copying; the cache moves on."""
        if cache.keys is None:
            cache.start(encoder_outputs, self.step.attention, len(embedded))
        outputs, attentions, below, switches = [], [], [], []
        for position in range(embedded.shape[1]):
            cache.feed, cache.hidden, cache.cell, weights, switch = self.step(
                embedded[:, position],
                cache.feed,
                cache.hidden,
                cache.cell,
                encoder_outputs.last_hidden_state,
                cache.keys,
                mask,
                cache.attended,
            )
            cache.attended = cache.attended + weights
            outputs.append(cache.feed)
            attentions.append(weights)
            below.append(cache.hidden[:-1])
            switches.append(switch)
        cache.length += embedded.shape[1]
        lower = tuple(torch.stack(below, dim=2))  # of L - 1 layers
        stacked = torch.stack(outputs, dim=1)
        switch = torch.stack(switches, dim=1) if self.step.switch_sees_all else stacked
        return stacked, torch.stack(attentions, dim=1), lower, switch


@dataclass
class PointerGeneratorModelOutput(Seq2SeqModelOutput):
    """As of any model, and `switch_input` `[R, T, ...]`, what decides between writing and copying."""

    switch_input: torch.Tensor | None = None


class PointerGeneratorModel(PointerGeneratorPreTrainedModel):
    """Encoder and decoder without the words.

    Example:

    >>> import torch
    >>> config = PointerGeneratorConfig(vocab_size=50, embedding_size=8, hidden_size=16)
    >>> model = PointerGeneratorModel(config)
    >>> ids = torch.tensor([[5, 6, 7, 1]])
    >>> model(input_ids=ids, decoder_input_ids=ids).last_hidden_state.shape
    torch.Size([1, 4, 16])
    """

    encoder_class = PointerGeneratorEncoder

    def __init__(self, config: PointerGeneratorConfig):
        super().__init__(config)
        self.encoder = self.encoder_class(config)
        self.decoder = PointerGeneratorDecoder(config)
        self.post_init()

    def encode(
        self,
        input_ids,
        attention_mask,
        encoder_outputs: ModelOutput | tuple | None,
        output_hidden_states=None,
    ) -> PointerGeneratorEncoderOutput:
        """What the encoder makes of the sources, or what it has made of them already."""
        if encoder_outputs is None:
            return self.encoder(input_ids, attention_mask, output_hidden_states=output_hidden_states)
        if isinstance(encoder_outputs, ModelOutput):
            return encoder_outputs
        return self.encoder.output_class(*encoder_outputs)

    def get_input_embeddings(self):
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value):
        self.encoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        encoder_outputs=None,
        past_key_values=None,
        use_cache=None,
        output_attentions=None,
        output_hidden_states=None,
        **kwargs,
    ) -> PointerGeneratorModelOutput:
        """`decoder_hidden_states` are the embeddings, the states of the layers below the last, and what the decoder puts
        out."""
        if decoder_input_ids is None:
            raise InputError("give decoder_input_ids, the summary so far.")
        shows_states = _asked(self.config.output_hidden_states, output_hidden_states)
        shows_attention = _asked(self.config.output_attentions, output_attentions)
        encoder_outputs = self.encode(input_ids, attention_mask, encoder_outputs, shows_states)
        source_ids = encoder_outputs.source_ids
        mask = torch.ones_like(source_ids) if attention_mask is None else attention_mask
        if mask.shape != source_ids.shape:
            raise InputError(
                f"attention_mask has shape {tuple(mask.shape)}, but the sources have {tuple(source_ids.shape)}; "
                "what belongs to a source is given once, however many summaries it has."
            )
        cache = (
            past_key_values if isinstance(past_key_values, PointerGeneratorCache) else PointerGeneratorCache()
        )
        embedded = self.encoder.embed(decoder_input_ids)
        outputs, attentions, lower, switch = self.decoder(embedded, encoder_outputs, mask.bool(), cache)
        return PointerGeneratorModelOutput(
            last_hidden_state=outputs,
            past_key_values=cache if _asked(self.config.use_cache, use_cache) else None,
            decoder_hidden_states=(embedded, *lower, outputs) if shows_states else None,
            cross_attentions=(attentions[:, None],) if shows_attention else None,  # one layer with one head
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            switch_input=switch if self.config.copy_switch_input == "see" else None,
        )


# --- words ------------------------------------------------------------------------------------------------


class PointerGeneratorForConditionalGeneration(
    SearchesWithPenalties, SharedDocuments, PointerGeneratorPreTrainedModel, GenerationMixin
):
    """The summarizer. With p the probability to copy, a word w of the vocabulary or of the source has

        P(w) = (1 - p) P_vocabulary(w) + p sum of the attention to the places j of the source where x_j = w.

    `logits` are log P, as wide as the vocabulary and the longest list of unknown words in the batch; ids from
    `vocab_size` on are those words. In training the loss is computed without them, and they are None. Compiled or
    exported, they are as wide as the vocabulary and the source, since shapes cannot depend on values.

    Example:

    >>> import torch
    >>> config = PointerGeneratorConfig(vocab_size=50, embedding_size=8, hidden_size=16)
    >>> model = PointerGeneratorForConditionalGeneration(config).eval()
    >>> ids = torch.tensor([[5, 50, 7, 51, 1]])  # two words that are not among the 50
    >>> model(input_ids=ids, labels=ids).logits.shape
    torch.Size([1, 5, 52])
    >>> model.generate(ids, num_beams=2, max_new_tokens=3, min_new_tokens=3).shape
    torch.Size([1, 4])
    """

    model_class = PointerGeneratorModel
    shared_cache = PointerGeneratorCache
    logits_are_log_probabilities = True

    def __init__(self, config: PointerGeneratorConfig):
        super().__init__(config)
        self.model = self.model_class(config)
        size = config.decoder_hidden_size
        all_inputs = config.hidden_size + 2 * size + config.embedding_size
        self.vocabulary = nn.Linear(size, config.vocab_size)
        self.copy_switch = nn.Linear(all_inputs if config.copy_switch_input == "see" else size, 1)
        self.post_init()

    def get_output_embeddings(self):
        return self.vocabulary

    def set_output_embeddings(self, value):
        self.vocabulary = value

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        encoder_outputs=None,
        past_key_values: PointerGeneratorCache | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        output_hidden_states=None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        encoder_outputs = self.model.encode(input_ids, attention_mask, encoder_outputs, output_hidden_states)
        outputs = self.model(
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            use_cache=use_cache,
            output_attentions=True,  # for the words that are copied
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        attention = outputs.cross_attentions[0][:, 0]
        source_ids = per_summary(encoder_outputs.source_ids, len(attention))
        states, switch = outputs.last_hidden_state, outputs.switch_input
        copy = self.copy_probability(states if switch is None else switch)
        loss = logits = None
        if labels is not None:
            losses = self.token_losses(states, copy, attention, source_ids, labels)
            if self.config.coverage_weight:
                again = self.coverage_losses(attention).masked_fill(labels == -100, 0.0)
                losses = losses + self.config.coverage_weight * again
            loss = self.summed_loss(losses, labels, encoder_outputs, attention_mask, **kwargs)
            loss = loss / ((labels != -100).sum() if num_items_in_batch is None else num_items_in_batch)
        if labels is None or not self.training:
            logits = self.log_probabilities(states, copy, attention, source_ids)
        shown = _asked(self.config.output_attentions, output_attentions)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            cross_attentions=outputs.cross_attentions if shown else None,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
        )

    def _vocabulary_logits(self, states: torch.Tensor) -> torch.Tensor:
        logits = at_least_float32(self.vocabulary(states))
        logits[..., self.config.pad_token_id] = -torch.inf
        return logits

    def copy_probability(self, switch: torch.Tensor) -> torch.Tensor:
        """`[R, T, 1]`, from what the switch sees; p_gen of See et al. is the rest of it."""
        return torch.sigmoid(at_least_float32(self.copy_switch(switch)))

    def log_probabilities(self, states, copy, attention, source_ids) -> torch.Tensor:
        """log P of every word `[R, T, V + unknown words]`."""
        written = torch.softmax(self._vocabulary_logits(states), dim=-1)
        compiling = torch.compiler.is_compiling()
        # A compiled shape cannot depend on values: there, each word of the source may be an unknown one.
        unknown = (
            source_ids.shape[1] if compiling else max(0, int(source_ids.max()) + 1 - self.config.vocab_size)
        )
        # In place where it can be: next to the words, a token's other work is small.
        if torch.is_grad_enabled() or compiling:
            probabilities = F.pad(written * (1 - copy), (0, unknown))
        else:
            probabilities = written.new_empty(*written.shape[:-1], written.shape[-1] + unknown)
            torch.mul(written, 1 - copy, out=probabilities[..., : written.shape[-1]])
            probabilities[..., written.shape[-1] :] = 0
        places = source_ids[:, None].expand_as(attention)
        return probabilities.scatter_add_(-1, places, copy * attention).add_(LEAST_PROBABILITY).log_()

    def token_losses(self, states, copy, attention, source_ids, labels) -> torch.Tensor:
        """-log P of every label `[R, T]`, 0 where it is -100; needs no distribution over the words."""
        size = self.config.vocab_size
        copy = copy[..., 0]
        in_vocabulary = (labels >= 0) & (labels < size)
        safe = labels.masked_fill(~in_vocabulary, self.config.unk_token_id)
        logits = self._vocabulary_logits(states)
        written = torch.exp(-F.cross_entropy(logits.flatten(0, 1), safe.flatten(), reduction="none"))
        copied = (attention * (source_ids[:, None] == labels[..., None])).sum(-1)
        probability = (1 - copy) * written.view_as(copy) * in_vocabulary + copy * copied
        losses = -torch.log(probability + LEAST_PROBABILITY)
        return losses.masked_fill(labels == -100, 0.0)

    @staticmethod
    def coverage_losses(attention: torch.Tensor) -> torch.Tensor:
        """How much of the attention `[R, T, S]` of every token goes where it has been before `[R, T]`."""
        before = attention.cumsum(1) - attention
        return torch.minimum(attention, before).sum(-1)

    def summed_loss(self, losses, labels, encoder_outputs, attention_mask, **kwargs) -> torch.Tensor:
        """The loss of a batch, summed over its labels; subclasses add their own terms here."""
        return losses.sum()

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """The labels shifted right behind the start token, padding in place of -100."""
        shifted = F.pad(labels[:, :-1], (1, 0), value=self.config.decoder_start_token_id)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    def compute_transition_scores(self, sequences, scores, *args, **kwargs):
        """As in transformers, which takes the width of the scores from the configuration; ours may be wider."""
        size = self.config.vocab_size
        self.config.vocab_size = scores[0].shape[-1]
        try:
            return super().compute_transition_scores(sequences, scores, *args, **kwargs)
        finally:
            self.config.vocab_size = size

    def prepare_inputs_for_generation(
        self, input_ids, next_sequence_length=None, past_key_values=None, **kwargs
    ):
        """As in transformers. A summary that goes on from a cache has been read as far as the cache says: there is no
        mask of it to tell what is new."""
        if next_sequence_length is None and past_key_values is not None:
            next_sequence_length = input_ids.shape[1] - past_key_values.get_seq_length()
        return super().prepare_inputs_for_generation(
            input_ids, next_sequence_length=next_sequence_length, past_key_values=past_key_values, **kwargs
        )

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        """`generate` would make a cache of keys and values; the state of an LSTM is another."""
        if generation_config.cache_implementation is not None:
            raise InputError(
                f"cache_implementation={generation_config.cache_implementation!r} is not supported; leave it out."
            )
        if generation_config.use_cache is not False and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = PointerGeneratorCache()


__all__ = [
    "PointerGeneratorForConditionalGeneration",
    "PointerGeneratorModel",
    "PointerGeneratorPreTrainedModel",
]
