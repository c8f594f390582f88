"""The attentive reader of Chen, Bolton and Manning (2016) as a transformers model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils.generic import can_return_tuple

from summarily.modeling.cloze_reader.configuration_cloze_reader import ClozeReaderConfig
from summarily.modeling.cloze_reader.own_tokenizer import OwnTokenizer
from summarily.modeling.cloze_reader.reader_output import (
    Part,
    ReaderOutput,
    batches,
    masked_answer_loss,
    parts_of,
)
from summarily.modeling.recurrent import last_of, layer_weights, turned
from summarily.support.cloze.marks import ENTITY, Answer, candidates, entity_number, relabel
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Gru(nn.RNNBase):
    """One layer in one direction: its states."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        start = inputs.new_zeros(1, len(inputs), self.hidden_size)
        return torch.gru(inputs, start, layer_weights(self), True, 1, 0.0, self.training, False, True)[0]


class BidirectionalGru(nn.Module):
    """Two GRUs, one of which reads backwards from each sequence's own end; what follows the end is never read.

    Equal to a bidirectional `nn.GRU` on packed sequences, whose gradient takes time that grows with the square of the
    length.

    Example:

    >>> states, final = BidirectionalGru(4, 3)(torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool))
    >>> states.shape, final.shape
    (torch.Size([2, 5, 6]), torch.Size([2, 6]))
    """

    def __init__(self, inputs: int, size: int):
        super().__init__()
        self.forwards = Gru("GRU", inputs, size, batch_first=True)
        self.backwards = Gru("GRU", inputs, size, batch_first=True)

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """All states [rows, length, 2h], zero where padded, and the final ones [rows, 2h]."""
        ahead = self.forwards(inputs)
        back = self.backwards(turned(inputs, mask))
        final = torch.cat([last_of(ahead, mask), last_of(back, mask)], dim=-1)
        states = torch.cat([ahead, turned(back, mask)], dim=-1)
        return states * mask[..., None], final


class ClozeReader(OwnTokenizer, PreTrainedModel):
    """Answers cloze questions by the entity of a passage that fills the blank.

    The question's final states attend to the passage's states, and the attended state is classified over entity
    labels, of which only those in the passage count:

        alpha_i = softmax_i(q^T W_s p_i);  o = sum_i alpha_i p_i;  P(a) ~ exp(w_a^T o + b_a) 1[a in passage]

    Reference: Chen, Bolton and Manning (2016). A passage is encoded once for all its questions.

    Example:

    >>> config = ClozeReaderConfig(vocab_size=30, embedding_size=4, hidden_size=3, max_entities=5)
    >>> passage, question = torch.tensor([[7, 25, 8, 26]]), torch.tensor([[3, 8]])
    >>> ClozeReader(config)(passage, question_ids=question).logits.isfinite().tolist()
    [[True, True, False, False, False]]
    """

    config_class = ClozeReaderConfig
    main_input_name = "input_ids"
    reads_names = False

    def __init__(self, config: ClozeReaderConfig):
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        self.passage_encoder = BidirectionalGru(config.embedding_size, config.hidden_size)
        self.question_encoder = BidirectionalGru(config.embedding_size, config.hidden_size)
        self.attention = nn.Linear(2 * config.hidden_size, 2 * config.hidden_size, bias=False)  # W_s
        self.classifier = nn.Linear(2 * config.hidden_size, config.max_entities)  # W_a
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Larger than the paper's U(-0.01, 0.01), under which entities are all but the same word for too long."""
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=0.5)  # about as long as GloVe's vectors
            if module.padding_idx is not None:
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, Gru):
            for name, weight in module.named_parameters():
                if name.startswith("bias"):
                    init.zeros_(weight)
                elif name.startswith("weight_hh"):
                    for gate in weight.chunk(3):
                        init.orthogonal_(gate)
                else:
                    init.xavier_uniform_(weight)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Module:
        return self.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.word_embeddings = value

    # --- the network ------------------------------------------------------------------------------------

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor | None = None,
        question_ids: torch.LongTensor | None = None,
        question_mask: torch.Tensor | None = None,
        question_passage: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
    ) -> ReaderOutput:
        """Score the entities of each question's passage.

        Args:
            input_ids: passages, padded on the right.
            attention_mask: 1 for tokens, 0 for padding; by default what is not the padding token.
            question_ids: questions, padded on the right.
            question_mask: as `attention_mask`, of the questions.
            question_passage: the row of each question's passage; by default question i is about passage i.
            labels: the number of the entity that answers each question.

        Returns:
            `logits` of the entities. If asked for, `hidden_states` are the passages' embeddings and states, and
            `attentions` how each question attends to its passage, [questions, passage length].
        """
        if question_ids is None:
            raise InputError("question_ids is missing: the reader answers questions about a passage.")
        passage_mask = self._mask(input_ids, attention_mask, "passage")
        question_mask = self._mask(question_ids, question_mask, "question")
        own = question_passage is None
        if question_passage is None:
            if len(question_ids) != len(input_ids):
                raise InputError(
                    f"{len(question_ids)} questions about {len(input_ids)} passages: say which is about which "
                    "in question_passage."
                )
            question_passage = torch.arange(len(input_ids), device=input_ids.device)
        embedded = self._embed(input_ids)
        passage, _ = self.passage_encoder(embedded, passage_mask)  # [passages, length, 2h]
        _, question = self.question_encoder(self._embed(question_ids), question_mask)  # [questions, 2h]

        # What is compiled cannot ask how many questions a passage has: then its states are copied for each.
        spread = own or torch.compiler.is_compiling()
        attend = self._attend_each if spread else self._attend_grouped
        attended, attention = attend(self.attention(question), passage, passage_mask, question_passage)
        logits = self.classifier(attended)
        present = self._present(input_ids, passage_mask)[question_passage]
        logits = logits.masked_fill(~present, -torch.inf)
        loss = None if labels is None else masked_answer_loss(logits, labels)
        shows_states, shows_attention = (
            getattr(self.config, name) if asked is None else asked
            for name, asked in (
                ("output_hidden_states", output_hidden_states),
                ("output_attentions", output_attentions),
            )
        )
        return ReaderOutput(
            loss=loss,
            logits=logits,
            hidden_states=(embedded, passage) if shows_states else None,
            attentions=(attention,) if shows_attention else None,
        )

    def _mask(self, ids: torch.Tensor, mask: torch.Tensor | None, what: str) -> torch.Tensor:
        mask = ids != self.config.pad_token_id if mask is None else mask.bool()
        if torch.compiler.is_compiling():  # what is compiled cannot depend on values
            return mask
        if not mask[:, 0].all():
            row = int((~mask[:, 0]).nonzero()[0, 0])
            raise InputError(f"{what} {row} has no words, or is padded on the left; pad on the right.")
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise InputError(f"the mask of a {what} has words after padding; pad on the right.")
        return mask

    def _embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.word_embeddings(ids))

    def _attend_each(self, question, passage, passage_mask, question_passage):
        """The passage's states weighted by how well they fit each question [questions, 2h], and the weights."""
        passage, passage_mask = passage[question_passage], passage_mask[question_passage]
        attended, weights = _weighted(question[:, None], passage, passage_mask)
        return attended[:, 0], weights[:, 0]

    def _attend_grouped(self, question, passage, passage_mask, question_passage):
        """The same. Questions of one passage stand in a row of their own: its states are not copied for each."""
        place, width = _places(question_passage, len(passage))
        grouped = question.new_zeros(len(passage), width, question.shape[-1])
        grouped[question_passage, place] = question
        attended, weights = _weighted(grouped, passage, passage_mask)
        return attended[question_passage, place], weights[question_passage, place]

    def _present(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Which entities a passage mentions [passages, entities]."""
        numbers = ids - self.config.first_entity_id
        mentions = mask & (numbers >= 0) & (numbers < self.config.max_entities)
        present = torch.zeros(
            len(ids), self.config.max_entities + 1, dtype=torch.bool, device=ids.device
        )  # the last column takes the words that are no entities
        present.scatter_(1, numbers.masked_fill(~mentions, self.config.max_entities), True)
        return present[:, :-1]

    # --- texts ------------------------------------------------------------------------------------------

    def check_tokenizer(self, tokenizer: PreTrainedTokenizerBase) -> None:
        least, most = self.config.first_entity_id + self.config.max_entities, self.config.vocab_size
        if not least <= len(tokenizer) <= most:
            raise InputError(f"the tokenizer has {len(tokenizer)} tokens; the reader has {most}.")

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *arguments: Any, **options: Any):
        """As in transformers; the entities' embeddings stay where they are."""
        least = self.config.first_entity_id + self.config.max_entities
        if new_num_tokens is not None and new_num_tokens < least:
            raise InputError(
                f"{new_num_tokens} embeddings would cut off entities; there are {least} up to the last."
            )
        return super().resize_token_embeddings(new_num_tokens, *arguments, **options)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any) -> Any:
        """As usual, but computes in single precision unless told otherwise, whatever the file is stored in."""
        if "torch_dtype" not in options:  # the former name of dtype
            options.setdefault("dtype", torch.float32)
        return super().from_pretrained(pretrained_model_name_or_path, *arguments, **options)

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        *,
        stored_dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        """Write weights and vocabulary; `stored_dtype` is that of the file."""
        if stored_dtype is not None:
            options["state_dict"] = {
                name: tensor.to(stored_dtype) for name, tensor in self.state_dict().items()
            }
        super().save_pretrained(save_directory, **options)

    @torch.inference_mode()
    def answer(
        self,
        passages: Sequence[str],
        questions: Sequence[Sequence[str]],
        names: Sequence[Mapping[str, str]] | None = None,
        relabelled: bool = True,
        batch_tokens: int = 8192,
    ) -> list[list[Answer]]:
        """The entity of its passage that answers each question.

        Args:
            passages: texts whose entities are written `@entityN`.
            questions: for each passage, questions with a `@placeholder`, other entities as in the passage.
            names: for each passage `{"@entityN": name}`; the reader does not read them, the answers repeat them.
            relabelled: number the entities by first occurrence before reading, as in training. Without it the
                numbers are read as they are, which is how the authors of APES used the reader.
            batch_tokens: padded tokens of passages and questions read at a time.

        Example:

        >>> from summarily.support.shipped import folder
        >>> reader = ClozeReader.from_pretrained(folder("cloze-reader"))
        >>> passage, question = "@entity4 beat @entity2 on Sunday .", "@entity4 beat @placeholder on Sunday ."
        >>> reader.answer([passage], [[question]], [{"@entity2": "Burnley"}])[0][0].name
        'Burnley'
        """
        if len(questions) != len(passages) or (names is not None and len(names) != len(passages)):
            raise InputError(
                f"{len(passages)} passages, {len(questions)} lists of questions"
                + ("" if names is None else f" and {len(names)} of names")
                + "; expected as many of each."
            )
        was_training = self.training
        self.eval()
        answers: list[list[Answer]] = [[Answer(None, 0.0)] * len(asked) for asked in questions]
        for parts in _batches(self.encode_texts(passages, questions, relabelled), batch_tokens):
            logits = self(**self.collate([part.passage for part in parts])).logits
            best = torch.softmax(logits.float(), dim=-1).max(-1)
            found = iter(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            for row, first, passage in parts:
                ids = passage.entities
                for number in range(first, first + len(passage.questions)):
                    probability, label = next(found)
                    name = names[row].get(ids[label]) if names is not None else None
                    answers[row][number] = Answer(ids[label], probability, name)
        self.train(was_training)
        return answers

    def encode_texts(
        self, passages: Sequence[str], questions: Sequence[Sequence[str]], relabelled: bool = True
    ) -> list[EncodedPassage]:
        """Token ids of passages and their questions, and the given id of each entity label."""
        texts: list[str] = []
        entities = []
        for passage, asked in zip(passages, questions, strict=True):
            present = candidates(passage)
            if relabelled:
                passage, asked = relabel(passage, asked)[:2]
                labels = dict(enumerate(present))
            else:
                labels = {entity_number(entity): entity for entity in present}
            most = self.config.max_entities
            entities.append({label: entity for label, entity in labels.items() if label < most})
            texts += [passage, *asked]
        ids = iter(self._ids(texts))
        return [
            EncodedPassage(next(ids), [next(ids) for _ in asked], labels)
            for asked, labels in zip(questions, entities, strict=True)
        ]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        limited = [_limit_entities(text, self.config.max_entities) for text in texts]
        # Somebody who writes "<pad>" means these letters.
        options = {
            "add_special_tokens": False,
            "return_attention_mask": False,
            "split_special_tokens": True,
        }
        found = self.tokenizer(limited, **options)["input_ids"]
        # A question of nothing but blanks still is one.
        return [ids or [self.tokenizer.unk_token_id] for ids in found]

    def collate(self, rows: Sequence[EncodedPassage]) -> dict[str, torch.Tensor]:
        """The inputs of `forward` for some passages and all their questions."""
        pad, device = self.config.pad_token_id, self.device
        questions = [ids for row in rows for ids in row.questions]
        about = [number for number, row in enumerate(rows) for _ in row.questions]
        return {
            "input_ids": _padded([row.passage for row in rows], pad).to(device),
            "question_ids": _padded(questions, pad).to(device),
            "question_passage": torch.tensor(about, device=device),
        }


@dataclass
class EncodedPassage:
    """A passage and its questions as token ids; `entities` has the given id of each label."""

    passage: list[int]
    questions: list[list[int]]
    entities: dict[int, str]

    @property
    def length(self) -> int:
        return len(self.passage)

    @property
    def question_lengths(self) -> list[int]:
        return list(map(len, self.questions))

    @property
    def tokens(self) -> int:
        return self.length + sum(self.question_lengths)


def _weighted(
    queries: torch.Tensor, states: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means of `states` [rows, length, 2h] by softmax attention of `queries` [rows, width, 2h], and its weights."""
    scores = queries @ states.transpose(1, 2)  # [rows, width, length]
    scores = scores.masked_fill(~mask[:, None], torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    return weights @ states, weights


def _padded(rows: Sequence[list[int]], pad: int) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=pad)


def _limit_entities(text: str, most: int) -> str:
    """Entities beyond the last label become an unknown word, not the longest label that begins the same."""
    return ENTITY.sub(lambda match: match[0] if entity_number(match[0]) < most else "@", text)


def _places(owner: torch.Tensor, owners: int) -> tuple[torch.Tensor, int]:
    """The number of each item among those of its owner, and the most that an owner has.

    >>> _places(torch.tensor([0, 2, 0, 2, 2]), 3)
    (tensor([0, 0, 1, 1, 2]), 3)
    """
    counts = torch.bincount(owner, minlength=owners)
    order = torch.argsort(owner, stable=True)
    starts = (counts.cumsum(0) - counts)[owner[order]]
    place = torch.empty_like(owner)
    place[order] = torch.arange(len(owner), device=owner.device) - starts
    return place, int(counts.max())


def _batches(passages: Sequence[EncodedPassage], tokens: int) -> Iterator[list[Part]]:
    """Those of like lengths together, in batches of about `tokens` padded tokens."""
    parts = sorted(
        parts_of(passages, tokens),
        key=lambda part: (part.passage.length, max(part.passage.question_lengths)),
    )
    return batches(parts, tokens, _padded_tokens)


def _padded_tokens(parts: Sequence[Part]) -> int:
    lengths = [length for part in parts for length in part.passage.question_lengths]
    return parts[-1].passage.length * len(parts) + max(lengths) * len(lengths)
