"""The cross reader: one pass over a passage and all its cloze questions.

Passage and questions go through the same encoder, layer by layer. The tokens of a passage see those of their own chunk;
the tokens of a question see all of the passage and their own question. So a passage of any length is read once,
whatever is asked about it, a question's answer does not depend on the other questions, and the time grows in proportion
to the length. It is the encoder under a mask of blocks, computed without the blocks that the mask would hide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence
from transformers import initialization as init
from transformers.utils.generic import can_return_tuple

from summarily.modeling.cloze_reader.own_tokenizer import OwnTokenizer
from summarily.modeling.cloze_reader.reader_output import (
    Part,
    ReaderOutput,
    batches,
    masked_answer_loss,
    parts_of,
)
from summarily.modeling.cross_reader.configuration_cross_reader import CrossReaderConfig
from summarily.modeling.modeling_adapted_encoder import AdaptedEncoderModel, AdaptedLinear
from summarily.support.cloze.marks import PLACEHOLDER, Answer, candidates, rename, with_names
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NO_ENTITY = -1
_SENTENCE_END = re.compile(r"(?:[.!?][\"'”’)\]]*\s|\n)\s*")
_SMALLEST = 1e-20


class CrossReader(OwnTokenizer, AdaptedEncoderModel):
    """Answers cloze questions by the entity of a passage that fills the blank.

    The state of the blank points at the tokens of the entities' mentions; an entity has the probability of all its
    mentions together (Kadlec et al. 2016), changed by how often it is mentioned and whether the question has it too:

        P(token) ~ exp(f(blank) . g(token)) / tokens of the mention
        P(entity) ~ sum of P(token) over its mentions  x  exp(u log(mentions) + v [in the question])

    Example:

    >>> reader = CrossReader.from_encoder("minilm", adapter_rank=8)
    >>> names = {"@entity0": "Oslo", "@entity1": "Ann Berg"}
    >>> answers = reader.answer(["@entity1 flew to @entity0 ."], [["@placeholder arrived in @entity0"]], [names])
    >>> sorted(names).index(answers[0][0].entity) in (0, 1)  # not trained
    True
    """

    config_class = CrossReaderConfig
    encoder_options = {"add_pooling_layer": False}
    reads_names = True

    def __init__(self, config: CrossReaderConfig):
        kind = config.for_encoder().model_type
        if kind != "bert":
            raise InputError(f"the cross reader reads with a BERT, not a {kind}.")
        super().__init__(config)
        longest, most = (
            max(config.chunk_tokens, config.question_tokens),
            self.encoder.config.max_position_embeddings,
        )
        if longest > most:
            raise InputError(
                f"chunk_tokens={config.chunk_tokens} and question_tokens={config.question_tokens} must not exceed the "
                f"{most} positions of the encoder."
            )
        for module in self.encoder.modules():
            if isinstance(module, nn.Dropout):  # a few epochs of a few adapters: little to overfit
                module.p = 0.0
        width = self.encoder.config.hidden_size
        self.blank_projection = nn.Linear(width, width)  # f
        self.mention_projection = nn.Linear(width, width)  # g
        self.prior = nn.Linear(2, 1, bias=False)  # u, v
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if module in (self.blank_projection, self.mention_projection):
            init.eye_(module.weight)  # at first: how alike the two states are
            init.zeros_(module.bias)
        elif module is self.prior:
            init.zeros_(module.weight)
        else:
            super()._init_weights(module)

    # --- the network ------------------------------------------------------------------------------------

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor,
        position_ids: torch.LongTensor,
        chunk_tokens: torch.LongTensor,
        row_tokens: torch.LongTensor,
        row_segments: torch.LongTensor,
        passage_tokens: torch.LongTensor,
        mention_entities: torch.LongTensor,
        mention_lengths: torch.LongTensor,
        blanks: torch.LongTensor,
        question_rows: torch.LongTensor,
        in_question: torch.Tensor,
        labels: torch.LongTensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> ReaderOutput:
        """Score the entities of each question's passage; `collate` makes the inputs of texts.

        Tokens stand one after another, without padding; the other inputs count through them.

        Args:
            input_ids: the tokens of all chunks, then of all questions [tokens].
            position_ids: of each token in its chunk or question.
            chunk_tokens: the tokens of each chunk, -1 for padding [chunks, length].
            row_tokens: the tokens of questions of one passage, -1 for padding [rows, length].
            row_segments: the number of the question in its row, -1 for padding [rows, length].
            passage_tokens: the tokens of each row's passage, -1 for padding [rows, passage length].
            mention_entities: the entity that a token is part of a mention of, or -1 [tokens].
            mention_lengths: how many tokens that mention has [tokens].
            blanks: the token of the blank of each question [questions].
            question_rows: the row that each question is in [questions].
            in_question: whether a question mentions an entity [questions, entities].
            labels: the entity that answers each question.

        Returns:
            `logits` of the entities. If asked for, `hidden_states` are the tokens' embeddings and states after each
            layer, [tokens, width].
        """
        shown: list[torch.Tensor] | None = None
        if self.config.output_hidden_states if output_hidden_states is None else output_hidden_states:
            shown = []
        mentioned = (mention_entities != NO_ENTITY).nonzero()[:, 0]
        needed = torch.cat([mentioned, blanks])
        states = self.encode(
            input_ids, position_ids, chunk_tokens, row_tokens, row_segments, passage_tokens, needed, shown
        )
        place = torch.zeros_like(input_ids).index_copy(
            0, mentioned, torch.arange(len(mentioned), device=input_ids.device)
        )
        tokens = passage_tokens.clamp(min=0)
        entities = mention_entities[tokens].masked_fill(passage_tokens < 0, NO_ENTITY)  # [rows, passage]
        weights = 1 / mention_lengths[tokens].clamp(min=1)
        mentions = self.mention_projection(states[: len(mentioned)])
        blank = self.blank_projection(states[len(mentioned) :])  # [questions, width]
        scores = (blank @ mentions.T).float() * blank.shape[-1] ** -0.5  # [questions, mentions of the batch]
        scores = scores.gather(1, place[tokens][question_rows]) + weights.log()[question_rows]
        scores = scores.masked_fill(entities[question_rows] == NO_ENTITY, -torch.inf)

        slots = entities.masked_fill(entities == NO_ENTITY, in_question.shape[1])  # the last is of no entity
        pointed = _sums(scores.softmax(-1), slots[question_rows], in_question.shape[1])
        counts = _sums(weights, slots, in_question.shape[1])[question_rows]  # mentions of each entity
        prior = torch.stack([counts.clamp(min=1).log(), in_question.to(counts.dtype)], dim=-1)
        logits = pointed.clamp(min=_SMALLEST).log() + self.prior(prior.to(self.dtype))[..., 0].float()
        logits = logits.masked_fill(counts == 0, -torch.inf)
        loss = None if labels is None else masked_answer_loss(logits, labels)
        return ReaderOutput(loss=loss, logits=logits, hidden_states=None if shown is None else tuple(shown))

    def encode(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        chunk_tokens: torch.Tensor,
        row_tokens: torch.Tensor,
        row_segments: torch.Tensor,
        passage_tokens: torch.Tensor,
        needed: torch.Tensor,
        shown: list[torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """The last states of the tokens that are `needed` [needed, width]; see `forward`.

        All states are appended to `shown`; without it, those of the last layer are computed where they are needed.
        """
        states = self.encoder.embeddings(
            input_ids=input_ids[None],
            position_ids=position_ids[None],
            token_type_ids=torch.zeros_like(input_ids)[None],
        )[0]
        chunk_mask = (chunk_tokens >= 0)[:, None, None]
        own = row_segments[:, :, None] == row_segments[:, None]
        passage = (passage_tokens >= 0)[:, None].expand(-1, own.shape[1], -1)
        row_mask = torch.cat([passage, own], dim=2)[:, None]  # [rows, 1, length, passage length + length]
        row_keys = torch.cat([passage_tokens, row_tokens], dim=1)
        blocks = (chunk_tokens, row_tokens, row_keys, chunk_mask, row_mask)
        *layers, last = self.encoder.encoder.layer
        for layer in layers:
            if shown is not None:
                shown.append(states)
            states = self._layer(layer, states, *blocks)
        if shown is None:
            return self._layer(last, states, *blocks, needed)
        shown += [states, self._layer(last, states, *blocks)]
        return shown[-1][needed]

    def _layer(self, layer: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
        """One layer, computed again in the backward pass where gradients are checkpointed."""
        if layer.gradient_checkpointing and self.training:
            return layer._gradient_checkpointing_func(partial(self._compute_layer, layer), *inputs)
        return self._compute_layer(layer, *inputs)

    def _compute_layer(
        self,
        layer: nn.Module,
        states: torch.Tensor,
        chunk_tokens: torch.Tensor,
        row_tokens: torch.Tensor,
        row_keys: torch.Tensor,
        chunk_mask: torch.Tensor,
        row_mask: torch.Tensor,
        needed: torch.Tensor | None = None,
    ) -> torch.Tensor:
        heads = (self.encoder.config.num_attention_heads, -1)
        attention = layer.attention.self
        parts = [
            _linear(part, states).unflatten(-1, heads)
            for part in (attention.query, attention.key, attention.value)
        ]
        # The chunks come first in `states`, and both lists are in its order.
        attended = torch.cat(
            [
                self._attend(parts, chunk_tokens, chunk_tokens, chunk_mask)[chunk_tokens >= 0],
                self._attend(parts, row_tokens, row_keys, row_mask)[row_tokens >= 0],
            ]
        )
        if needed is not None:
            states, attended = states[needed], attended[needed]
        return _rest_of_layer(layer, states, attended)

    def _attend(
        self, parts: Sequence[torch.Tensor], queries: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Attention of some tokens to others, of the same row; -1 is padding [rows, queries, width]."""
        query, key, value = (
            part[index.clamp(min=0)].transpose(1, 2)
            for part, index in zip(parts, (queries, keys, keys), strict=True)
        )  # [rows, heads, tokens, width of a head]
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)

    # --- texts ------------------------------------------------------------------------------------------

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The encoder's, or the one that was saved beside complete weights; assign one to a new model."""
        if self._tokenizer is None and self.config.encoder is not None:
            self._tokenizer = self.encoder_tokenizer()
        return super().tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    def merged(self) -> CrossReader:
        """A reader that stands alone, with its tokenizer."""
        whole = super().merged()
        whole._tokenizer = self._tokenizer if self.config.encoder is None else self.tokenizer
        return whole

    @torch.inference_mode()
    def answer(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]],
        batch_tokens: int = 4096,
    ) -> list[list[Answer]]:
        """The entity of its passage that answers each question.

        Args:
            passages: texts whose entities are written `@entityN`.
            questions: for each passage, questions with a `@placeholder`, other entities as in the passage.
            names: for each passage `{"@entityN": name}`; the reader reads the names.
            batch_tokens: tokens of passages and questions read at a time.

        Example:

        >>> from summarily.support.shipped import folder
        >>> reader = CrossReader.from_pretrained(folder("cross-reader"))
        >>> names = {"@entity0": "Arsenal", "@entity1": "Burnley"}
        >>> passage, question = "@entity0 beat @entity1 on Sunday.", "On Sunday @placeholder beat @entity1."
        >>> reader.answer([passage], [[question]], [names])[0][0].name
        'Arsenal'
        """
        if not len(passages) == len(questions) == len(names):
            raise InputError(
                f"{len(passages)} passages, {len(questions)} lists of questions and {len(names)} of names; expected "
                "as many of each."
            )
        was_training = self.training
        self.eval()
        answers: list[list[Answer]] = [[Answer(None, 0.0)] * len(asked) for asked in questions]
        for parts in _batches(self.encode_texts(passages, questions, names), batch_tokens):
            logits = self(**self.collate([part.passage for part in parts])).logits
            best = torch.softmax(logits, dim=-1).max(-1)
            found = iter(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            for row, first, passage in parts:
                for number in range(first, first + len(passage.questions)):
                    probability, label = next(found)
                    entity = passage.entities[label]
                    answers[row][number] = Answer(entity, probability, names[row][entity])
        self.train(was_training)
        return answers

    def encode_texts(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]],
    ) -> list[EncodedPassage]:
        """Token ids of passages, with their mentions, and of questions."""
        for row, (passage, own) in enumerate(zip(passages, names, strict=True)):
            if missing := [entity for entity in candidates(passage) if entity not in own]:
                raise InputError(f"passage {row} mentions {missing[0]}, for which names[{row}] has no name.")
        named = [with_names(*pair) for pair in zip(passages, names, strict=True)]
        tokenized = self._tokenize([text for text, _ in named])
        # What stands around the blanks, for a "[MASK]" in a text is a word of it and no blank.
        asked = [
            [rename(part, own) for part in text.split(PLACEHOLDER)]
            for texts, own in zip(questions, names, strict=True)
            for text in texts
        ]
        pieces = iter(self._tokenize([part for parts in asked for part in parts]))
        question_ids = iter([[next(pieces)[0] for _ in parts] for parts in asked])
        encoded = []
        for passage, texts, (text, spans), (ids, offsets) in zip(
            passages, questions, named, tokenized, strict=True
        ):
            entities = dict(enumerate(candidates(passage)))
            number = {entity: label for label, entity in entities.items()}
            chunks = self._chunks(text, ids, offsets, [(*span, number[e]) for *span, e in spans])
            own = [self._question(next(question_ids), question, number) for question in texts]
            encoded.append(EncodedPassage(chunks, own, entities))
        return encoded

    def _tokenize(self, texts: list[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        if not texts:
            return []
        found = self.tokenizer(
            texts,
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            split_special_tokens=True,  # somebody who writes "[SEP]" means these letters
            verbose=False,
        )
        return list(zip(found["input_ids"], found["offset_mapping"], strict=True))

    def _question(self, parts: list[list[int]], text: str, number: Mapping[str, int]) -> EncodedQuestion:
        """A question of the tokens around its blanks."""
        if len(parts) < 2:
            raise InputError(f"the question {text!r:.200} has no {PLACEHOLDER}.")
        place = len(parts[0])
        ids = parts[0] + [token for part in parts[1:] for token in (self.tokenizer.mask_token_id, *part)]
        room = self.config.question_tokens - 2
        start = min(max(0, place - room // 2), max(0, len(ids) - room))
        ids = [self.tokenizer.cls_token_id, *ids[start : start + room], self.tokenizer.sep_token_id]
        mentioned = [number[entity] for entity in candidates(text) if entity in number]
        return EncodedQuestion(ids, place - start + 1, mentioned)

    def _chunks(
        self,
        text: str,
        ids: list[int],
        offsets: list[tuple[int, int]],
        mentions: Sequence[tuple[int, int, int]],
    ) -> list[Chunk]:
        entities, lengths = [NO_ENTITY] * len(ids), [0] * len(ids)
        for tokens, entity in _mention_tokens(offsets, mentions):
            for token in tokens:
                entities[token], lengths[token] = entity, len(tokens)
        chunks = []
        for start, end in _spans_of_sentences(text, offsets, self.config.chunk_tokens - 2):
            own = ids[start:end]
            chunks.append(
                Chunk(
                    [self.tokenizer.cls_token_id, *own, self.tokenizer.sep_token_id],
                    [NO_ENTITY, *entities[start:end], NO_ENTITY],
                    [0, *lengths[start:end], 0],
                )
            )
        return chunks

    def collate(self, passages: Sequence[EncodedPassage]) -> dict[str, torch.Tensor]:
        """The inputs of `forward` for some passages and all their questions."""
        layout = _Layout()
        places = [
            [layout.add(chunk.ids, chunk.entities, chunk.lengths) for chunk in p.chunks] for p in passages
        ]
        rows: list[list[int]] = []
        segments, row_passages, blanks, question_rows = [], [], [], []
        for passage, chunks in zip(passages, places, strict=True):
            for group in _groups(passage.questions, self.config.row_tokens):
                own = [layout.add(question.ids) for question in group]
                blanks += [place[question.blank] for place, question in zip(own, group, strict=True)]
                question_rows += [len(rows)] * len(group)
                rows.append([token for place in own for token in place])
                segments.append([number for number, place in enumerate(own) for _ in place])
                row_passages.append([token for place in chunks for token in place])
        asked = [question.entities for passage in passages for question in passage.questions]
        in_question = torch.zeros(len(asked), max(len(p.entities) for p in passages), dtype=torch.bool)
        for number, entities in enumerate(asked):
            in_question[number, entities] = True
        batch = {
            "input_ids": torch.tensor(layout.ids),
            "position_ids": torch.tensor(layout.positions),
            "chunk_tokens": _padded([place for chunks in places for place in chunks]),
            "row_tokens": _padded(rows),
            "row_segments": _padded(segments),
            "passage_tokens": _padded(row_passages),
            "mention_entities": torch.tensor(layout.entities),
            "mention_lengths": torch.tensor(layout.lengths),
            "blanks": torch.tensor(blanks),
            "question_rows": torch.tensor(question_rows),
            "in_question": in_question,
        }
        return {name: tensor.to(self.device) for name, tensor in batch.items()}


class _AdaptedProduct(torch.autograd.Function):
    """`x (W + s U D)'` + b with the gradients of U, D and x alone, W being frozen.

    For thousands of tokens it is less work to add the adapter to the weight than to the output, but then autograd
    would compute the gradient of the whole weight, which nobody needs.
    """

    @staticmethod
    def forward(ctx, inputs, weight, bias, down, up, scale, dtype):
        whole = torch.addmm(weight, up, down, alpha=scale).to(dtype)
        ctx.given, ctx.scale = inputs.dtype, scale
        inputs = inputs.to(dtype)
        ctx.save_for_backward(inputs, whole, down, up)
        return F.linear(inputs, whole, None if bias is None else bias.to(dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        inputs, whole, down, up = ctx.saved_tensors
        narrow = ctx.scale * (gradient @ up.to(gradient.dtype))  # [tokens, rank]
        of_up = ctx.scale * (gradient.T @ (inputs @ down.to(inputs.dtype).T))
        of_inputs = (gradient @ whole).to(ctx.given) if ctx.needs_input_grad[0] else None
        of_down = (narrow.T @ inputs).to(down.dtype)
        return of_inputs, None, None, of_down, of_up.to(up.dtype), None, None


def _linear(layer: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    hooked = layer._forward_hooks or layer._forward_pre_hooks or hasattr(layer, "_hf_hook")
    if type(layer) is not AdaptedLinear or hooked:  # more than its weights: it is called, like any module
        return layer(inputs)
    device = inputs.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype
    parts = (layer.weight, layer.bias, layer.adapter_down, layer.adapter_up)
    with torch.autocast(device, enabled=False):  # the sum of weight and adapter is rounded once
        return _AdaptedProduct.apply(inputs, *parts, layer.scale, dtype)


def _sums(values: torch.Tensor, slots: torch.Tensor, width: int) -> torch.Tensor:
    """The sum of the values of each slot below `width`, row by row [rows, width].

    >>> _sums(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[0, 2, 0]]), 2)
    tensor([[5., 0.]])
    """
    return values.new_zeros(len(values), width + 1).scatter_add(1, slots, values)[:, :width]


def _rest_of_layer(layer: nn.Module, states: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
    """What follows attention in a BERT layer: two residual sums with a feed-forward network between."""
    output = layer.attention.output
    states = output.LayerNorm(_linear(output.dense, attended) + states)
    inner = layer.intermediate.intermediate_act_fn(_linear(layer.intermediate.dense, states))
    return layer.output.LayerNorm(_linear(layer.output.dense, inner) + states)


# --- texts to numbers -------------------------------------------------------------------------------------


@dataclass
class Chunk:
    """Part of a passage: token ids and, for each token, the entity it mentions and the length of that mention."""

    ids: list[int]
    entities: list[int]
    lengths: list[int]


@dataclass
class EncodedQuestion:
    """A question: token ids, where its blank is, and which entities of the passage it mentions."""

    ids: list[int]
    blank: int
    entities: list[int]


@dataclass
class EncodedPassage:
    """A passage and its questions; `entities` has the given id of each label."""

    chunks: list[Chunk]
    questions: list[EncodedQuestion]
    entities: dict[int, str]

    @property
    def length(self) -> int:
        return sum(len(chunk.ids) for chunk in self.chunks)

    @property
    def question_lengths(self) -> list[int]:
        return [len(question.ids) for question in self.questions]

    @property
    def tokens(self) -> int:
        return self.length + sum(self.question_lengths)


@dataclass
class _Layout:
    """Tokens one after another, and what is known of each."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(
        self, ids: Sequence[int], entities: Sequence[int] | None = None, lengths: Sequence[int] | None = None
    ) -> range:
        """Append tokens whose positions begin anew; returns their places."""
        place = range(len(self.ids), len(self.ids) + len(ids))
        self.ids += ids
        self.positions += range(len(ids))
        self.entities += entities or [NO_ENTITY] * len(ids)
        self.lengths += lengths or [0] * len(ids)
        return place


def _mention_tokens(
    offsets: Sequence[tuple[int, int]], mentions: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[list[int], int]]:
    """The tokens of each mention, and its entity; both lists are in the order of the text."""
    token = 0
    for start, end, entity in mentions:
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        tokens = []
        while token < len(offsets) and offsets[token][0] < end:
            tokens.append(token)
            token += 1
        if tokens:
            yield tokens, entity


def _spans_of_sentences(
    text: str, offsets: Sequence[tuple[int, int]], most: int
) -> Iterator[tuple[int, int]]:
    """Spans of at most `most` tokens that end with a sentence wherever one does.

    >>> list(_spans_of_sentences("A b. C d. E f g h", [(i, i + 1) for i in (0, 2, 5, 7, 10, 12, 14, 16)], 4))
    [(0, 4), (4, 8)]
    """
    if not offsets:
        yield 0, 0
        return
    ends = {match.end() for match in _SENTENCE_END.finditer(text)}
    start = 0
    while start < len(offsets):
        end = min(start + most, len(offsets))
        if end < len(offsets):
            whole = next((i for i in range(end, start, -1) if offsets[i][0] in ends), None)
            end = whole or end
        yield start, end
        start = end


def _groups(questions: Sequence[EncodedQuestion], tokens: int) -> Iterator[list[EncodedQuestion]]:
    """Questions that fit in one row together."""
    group: list[EncodedQuestion] = []
    length = 0
    for question in questions:
        if group and length + len(question.ids) > tokens:
            yield group
            group, length = [], 0
        group.append(question)
        length += len(question.ids)
    if group:
        yield group


def _padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)


def _batches(passages: Sequence[EncodedPassage], tokens: int) -> Iterator[list[Part]]:
    """The like-sized together, in batches of about `tokens` tokens."""
    parts = sorted(parts_of(passages, tokens), key=lambda part: part.passage.tokens)
    return batches(parts, tokens, lambda some: sum(part.passage.tokens for part in some))
