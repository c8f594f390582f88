"""The cross reader: one pass over a passage and all its cloze questions.

Passage and questions go through the same encoder, layer by layer. The tokens of a passage see those of their own chunk;
the tokens of a question see all of the passage and their own question. So a passage of any length is read once,
whatever is asked about it, a question's answer does not depend on the other questions, and the time grows in proportion
to the length. It is the encoder under a mask of blocks, computed without the blocks that the mask would hide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer
from transformers import initialization as init

from summarily.modeling.adapted_encoder import AdaptedEncoderModel
from summarily.modeling.cloze_reader.cloze_entities import ENTITY, PLACEHOLDER, Answer, candidates, rename
from summarily.modeling.cloze_reader.reader_output import ReaderOutput, masked_answer_loss
from summarily.modeling.cross_reader.configuration_cross_reader import CrossReaderConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NO_ENTITY = -1
_SENTENCE_END = re.compile(r"(?:[.!?][\"'”’)\]]*\s|\n)\s*")
_SMALLEST = 1e-20


class CrossReader(AdaptedEncoderModel):
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

    def __init__(self, config: CrossReaderConfig):
        super().__init__(config)
        if config.for_encoder().model_type != "bert":
            raise ValueError(f"the cross reader reads with a BERT, not a {config.for_encoder().model_type}.")
        width = self.encoder.config.hidden_size
        self.blank_projection = nn.Linear(width, width)  # f
        self.mention_projection = nn.Linear(width, width)  # g
        self.prior = nn.Linear(2, 1, bias=False)  # u, v
        self._tokenizer: PreTrainedTokenizerBase | None = None
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

    def forward(
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor,
        mention_entities: torch.LongTensor,
        mention_lengths: torch.LongTensor,
        question_ids: torch.LongTensor,
        question_positions: torch.LongTensor,
        question_segments: torch.LongTensor,
        passage_tokens: torch.LongTensor,
        blanks: torch.LongTensor,
        in_question: torch.Tensor,
        labels: torch.LongTensor | None = None,
        return_dict: bool | None = None,
    ) -> ReaderOutput | tuple[torch.Tensor, ...]:
        """Score the entities of each question's passage; `collate` makes the inputs of texts.

        Args:
            input_ids: the chunks of all passages [chunks, length].
            attention_mask: 1 for tokens, 0 for padding.
            mention_entities: the entity that a token is part of a mention of, or -1 [chunks, length].
            mention_lengths: how many tokens that mention has.
            question_ids: rows of questions of one passage, one after another [rows, row length].
            question_positions: of each token in its question.
            question_segments: the number of its question in the row; -1 for padding.
            passage_tokens: for each row the tokens of its passage, counted through the chunks; -1 for padding.
            blanks: row and column of the blank of each question [questions, 2].
            in_question: whether a question mentions an entity [questions, entities].
            labels: the entity that answers each question.
        """
        chunks, rows = self.encode_both(
            input_ids, attention_mask, question_ids, question_positions, question_segments, passage_tokens
        )
        real = passage_tokens >= 0
        tokens = passage_tokens.clamp(min=0)
        entities = mention_entities.flatten()[tokens].masked_fill(~real, NO_ENTITY)  # [rows, passage tokens]
        weights = 1 / mention_lengths.flatten()[tokens].clamp(min=1)
        mentions = self.mention_projection(chunks).flatten(0, 1)[tokens]
        row, column = blanks.unbind(1)
        blank = self.blank_projection(rows[row, column])

        scores = (mentions[row] @ blank[:, :, None])[..., 0].float() * blank.shape[-1] ** -0.5
        scores = (scores + weights.log()[row]).masked_fill(entities[row] == NO_ENTITY, -torch.inf)
        member = entities[..., None] == torch.arange(in_question.shape[1], device=entities.device)
        pointed = torch.einsum("qt,qte->qe", scores.softmax(-1), member[row].float())
        counts = (member * weights[..., None]).sum(1)[row]  # mentions of each entity
        prior = torch.stack([counts.clamp(min=1).log(), in_question.to(counts.dtype)], dim=-1)
        logits = pointed.clamp(min=_SMALLEST).log() + self.prior(prior.to(self.dtype))[..., 0].float()
        logits = logits.masked_fill(counts == 0, -torch.inf)
        loss = None if labels is None else masked_answer_loss(logits, labels)
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return ReaderOutput(loss=loss, logits=logits)

    def encode_both(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        question_ids: torch.Tensor,
        question_positions: torch.Tensor,
        question_segments: torch.Tensor,
        passage_tokens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The last states of the chunks and of the rows of questions."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        chunks = self._embed(input_ids, positions)
        rows = self._embed(question_ids, question_positions)
        chunk_mask = attention_mask.bool()[:, None, None]
        tokens = passage_tokens.clamp(min=0)
        own = question_segments[:, :, None] == question_segments[:, None]
        passage = (passage_tokens >= 0)[:, None].expand(-1, rows.shape[1], -1)
        row_mask = torch.cat([passage, own], dim=2)[:, None]  # [rows, 1, row length, passage + row length]
        for layer in self.encoder.encoder.layer:
            attention = layer.attention.self
            keys, values = attention.key(chunks), attention.value(chunks)
            row_keys = torch.cat([keys.flatten(0, 1)[tokens], attention.key(rows)], dim=1)
            row_values = torch.cat([values.flatten(0, 1)[tokens], attention.value(rows)], dim=1)
            rows = _rest_of_layer(layer, rows, self._attend(attention, rows, row_keys, row_values, row_mask))
            chunks = _rest_of_layer(layer, chunks, self._attend(attention, chunks, keys, values, chunk_mask))
        return chunks, rows

    def _embed(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.encoder.embeddings(
            input_ids=ids, position_ids=positions, token_type_ids=torch.zeros_like(ids)
        )

    def _attend(
        self,
        attention: nn.Module,
        states: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        heads = self.encoder.config.num_attention_heads
        query, key, value = (
            part.unflatten(-1, (heads, -1)).transpose(1, 2)
            for part in (attention.query(states), keys, values)
        )
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)

    # --- texts ------------------------------------------------------------------------------------------

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The encoder's, or the one that was saved beside complete weights; assign one to a new model."""
        if self._tokenizer is None:
            place = self.config._name_or_path
            if self.config.encoder is not None:
                from summarily.metrics.weights import resolve

                resolved = resolve(self.config.encoder)
                self._tokenizer = AutoTokenizer.from_pretrained(
                    resolved.path_or_id, revision=resolved.revision
                )
            elif place:
                self._tokenizer = AutoTokenizer.from_pretrained(place)
            else:
                raise ValueError("this reader has no tokenizer yet; assign model.tokenizer.")
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> None:
        super().save_pretrained(save_directory, **options)
        if self.config.encoder is None and (self._tokenizer is not None or self.config._name_or_path):
            self.tokenizer.save_pretrained(save_directory)

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
            batch_tokens: padded tokens of passages and questions read at a time.
        """
        if not len(passages) == len(questions) == len(names):
            raise ValueError(
                f"{len(passages)} passages, {len(questions)} lists of questions and {len(names)} of names; expected "
                "as many of each."
            )
        was_training = self.training
        self.eval()
        answers: list[list[Answer]] = [[Answer(None, 0.0)] * len(asked) for asked in questions]
        encoded = self.encode_texts(passages, questions, names)
        for rows in _batches(encoded, batch_tokens):
            logits = self(**self.collate([encoded[row] for row in rows])).logits
            best = torch.softmax(logits, dim=-1).max(-1)
            found = iter(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            for row in rows:
                for number in range(len(questions[row])):
                    probability, label = next(found)
                    entity = encoded[row].entities[label]
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
        named = [_restore(*pair) for pair in zip(passages, names, strict=True)]
        tokenized = self._tokenize([text for text, _ in named])
        asked = [
            rename(text, own).replace(PLACEHOLDER, self.tokenizer.mask_token)
            for texts, own in zip(questions, names, strict=True)
            for text in texts
        ]
        question_ids = iter(self._tokenize(asked))
        encoded = []
        for passage, texts, (text, spans), (ids, offsets) in zip(
            passages, questions, named, tokenized, strict=True
        ):
            entities = candidates(passage)
            number = {entity: i for i, entity in enumerate(entities)}
            chunks = self._chunks(text, ids, offsets, [(*span, number[e]) for *span, e in spans])
            own = [self._question(next(question_ids)[0], question, number) for question in texts]
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
            verbose=False,
        )
        return list(zip(found["input_ids"], found["offset_mapping"], strict=True))

    def _question(self, ids: list[int], text: str, number: Mapping[str, int]) -> EncodedQuestion:
        blank = self.tokenizer.mask_token_id
        if PLACEHOLDER not in text or blank not in ids:
            raise ValueError(f"the question {text!r} has no {PLACEHOLDER}.")
        place = ids.index(blank)
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
        chunks = [chunk for passage in passages for chunk in passage.chunks]
        width = max(len(chunk.ids) for chunk in chunks)
        starts, places, rows, blanks, asked = 0, [], _Rows(), [], []
        for passage in passages:
            place = [
                (starts + number) * width + column
                for number, chunk in enumerate(passage.chunks)
                for column in range(len(chunk.ids))
            ]
            starts += len(passage.chunks)
            for group in _groups(passage.questions, self.config.row_tokens):
                blanks += rows.add(group)
                places.append(place)
            asked += [question.entities for question in passage.questions]
        most = max(len(passage.entities) for passage in passages)
        in_question = torch.zeros(len(asked), most, dtype=torch.bool)
        for number, entities in enumerate(asked):
            in_question[number, entities] = True
        batch = {
            "input_ids": _padded([chunk.ids for chunk in chunks], self.tokenizer.pad_token_id),
            "attention_mask": _padded([[1] * len(chunk.ids) for chunk in chunks], 0),
            "mention_entities": _padded([chunk.entities for chunk in chunks], NO_ENTITY),
            "mention_lengths": _padded([chunk.lengths for chunk in chunks], 0),
            "question_ids": _padded(rows.ids, self.tokenizer.pad_token_id),
            "question_positions": _padded(rows.positions, 0),
            "question_segments": _padded(rows.segments, -1),
            "passage_tokens": _padded(places, -1),
            "blanks": torch.tensor(blanks),
            "in_question": in_question,
        }
        return {name: tensor.to(self.device) for name, tensor in batch.items()}


def _rest_of_layer(layer: nn.Module, states: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
    """What follows attention in a BERT layer: two residual sums with a feed-forward network between."""
    states = layer.attention.output(attended, states)
    return layer.output(layer.intermediate(states), states)


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
    entities: list[str]

    @property
    def tokens(self) -> int:
        return sum(len(chunk.ids) for chunk in self.chunks) + sum(len(q.ids) for q in self.questions)


@dataclass
class _Rows:
    """Questions laid out one after another."""

    ids: list[list[int]] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)
    segments: list[list[int]] = field(default_factory=list)

    def add(self, questions: Sequence[EncodedQuestion]) -> list[tuple[int, int]]:
        """Append a row; returns row and column of the blanks."""
        ids: list[int] = []
        segments: list[int] = []
        blanks = []
        for number, question in enumerate(questions):
            blanks.append((len(self.ids), len(ids) + question.blank))
            ids += question.ids
            segments += [number] * len(question.ids)
        self.ids.append(ids)
        self.segments.append(segments)
        self.positions.append([i for question in questions for i in range(len(question.ids))])
        return blanks


def _restore(text: str, names: Mapping[str, str]) -> tuple[str, list[tuple[int, int, str]]]:
    """The text with names for ids, and where each mention is: start, end, id.

    >>> _restore("@entity0 met @entity1.", {"@entity0": "Ann", "@entity1": "Bob"})
    ('Ann met Bob.', [(0, 3, '@entity0'), (8, 11, '@entity1')])
    """
    parts: list[str] = []
    spans = []
    length = end = 0
    for match in ENTITY.finditer(text):
        if match[0] not in names:
            raise ValueError(f"names has no {match[0]}, which the passage mentions: {text[:60]!r}")
        name = names[match[0]]
        before = text[end : match.start()]
        parts += [before, name]
        spans.append((length + len(before), length + len(before) + len(name), match[0]))
        length += len(before) + len(name)
        end = match.end()
    return "".join([*parts, text[end:]]), spans


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


def _padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def _batches(passages: Sequence[EncodedPassage], tokens: int) -> Iterator[list[int]]:
    """Passages with something to answer, the like-sized together, in batches of about `tokens` tokens."""
    waiting = [i for i, passage in enumerate(passages) if passage.questions and passage.entities]
    waiting.sort(key=lambda i: passages[i].tokens)
    batch: list[int] = []
    length = 0
    for i in waiting:
        if batch and length + passages[i].tokens > tokens:
            yield batch
            batch, length = [], 0
        batch.append(i)
        length += passages[i].tokens
    if batch:
        yield batch
