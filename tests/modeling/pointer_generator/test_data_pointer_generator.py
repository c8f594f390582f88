"""A model that copies, in transformers' trainer with our metrics: the copied words are scored."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from transformers import (
    DataCollatorForSeq2Seq,
    EvalPrediction,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

import summarily
from summarily.modeling import PointerGeneratorConfig, PointerGeneratorForConditionalGeneration
from summarily.modeling.data import LOSS_ONLY, PADDING, TEXTS, data_of, texts_of
from summarily.modeling.training.collators import SummaryCollator
from summarily.modeling.training.recipe import TokenizerSection
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.support.errors import InputError

SENTENCE = "goal by {} seen in {}"
NAMES = ["Wilshere", "Özil", "Čech", "Giroud", "Ramsey", "Walcott", "Cazorla", "Arteta"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([SENTENCE.format("the", "a")], TokenizerSection(kind="copy", min_frequency=1))


@pytest.fixture(scope="module")
def rows(tokenizer):
    """Sources of several lengths: the summary of one is its two names, which the vocabulary has not got."""
    pairs = [(one, other) for one in NAMES for other in NAMES if one != other]
    sources = [SENTENCE.format(*pair) + " the" * (i % 3) for i, pair in enumerate(pairs)]
    return encoded(tokenizer, sources, [" ".join(pair) for pair in pairs])


def encoded(tokenizer, sources, targets):
    encoding = tokenizer(sources, text_target=targets)
    return Dataset.from_dict({**encoding, **texts_of(tokenizer, encoding)})


def trainer_of(tokenizer, rows, folder, hook, collate, **options):
    set_seed(0)
    sizes = {"vocab_size": len(tokenizer), "embedding_size": 8, "hidden_size": 32}
    return Seq2SeqTrainer(
        PointerGeneratorForConditionalGeneration(PointerGeneratorConfig(**sizes)),
        Seq2SeqTrainingArguments(
            output_dir=str(folder),
            max_steps=40,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=3,
            learning_rate=0.02,
            predict_with_generate=True,
            generation_max_length=5,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            **options,
        ),
        data_collator=collate,
        train_dataset=rows,
        eval_dataset=rows.select(range(0, 20, 2)),
        compute_metrics=hook,
    )


@pytest.mark.parametrize("by_batch", [False, True], ids=["at the end", "batch by batch"])
def test_a_pointer_generator_under_seq2seq_trainer_is_scored_with_the_words_that_it_copies(
    tokenizer, rows, tmp_path, by_batch
):
    evaluated, texts = rows.select(range(0, 20, 2)), []
    hook = summarily.compute_metrics(
        tokenizer, metrics=["rouge"], rows=evaluated, postprocess=lambda text: texts.append(text) or text
    )
    # Either collator serves: theirs leaves the padding of our columns to `remove_unused_columns`.
    collate = DataCollatorForSeq2Seq(tokenizer) if by_batch else SummaryCollator(tokenizer.pad_token_id)
    trainer = trainer_of(tokenizer, rows, tmp_path, hook, collate, batch_eval_metrics=by_batch)
    trainer.train()
    scores = trainer.evaluate()
    size = 3 if by_batch else len(evaluated)
    groups = [texts[i : i + 2 * size] for i in range(0, len(texts), 2 * size)]
    predictions = [text for group in groups for text in group[: len(group) // 2]]
    references = [text for group in groups for text in group[len(group) // 2 :]]
    assert references == [" ".join(row["unknown_words"]) for row in evaluated]
    copied = [
        set(text.split()) & set(row["unknown_words"])
        for text, row in zip(predictions, evaluated, strict=True)
    ]
    assert sum(map(bool, copied)) >= len(evaluated) / 2
    # Every reference is made of names, so that whatever is above zero was copied.
    card = summarily.score(predictions, references, metrics=["rouge"])
    assert (
        scores["eval_rouge1"] == pytest.approx(card["rouge"].mean["rouge1"]) and scores["eval_rouge1"] > 0.2
    )


def evaluation(rows, order):
    labels = [torch.tensor(rows[i]["labels"]) for i in order]
    padded = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    return EvalPrediction(predictions=padded.numpy(), label_ids=padded.numpy())


def test_rows_in_another_order_or_too_few_are_refused(tokenizer):
    sources = ["goal by Özil", "Čech seen", "in Oslo", "the goal"]
    rows = encoded(tokenizer, sources, ["Özil goal", "seen Čech", "Oslo", "goal"])
    hook = summarily.compute_metrics(tokenizer, metrics=["rouge"], rows=rows)
    assert hook(evaluation(rows, [0, 1, 2, 3]))["rouge1"] == 1.0
    with pytest.raises(InputError, match=r"labels of example 1 are not those of rows\[1\]"):
        hook(evaluation(rows, [0, 0]))
    with pytest.raises(InputError, match=r"more examples than rows has \(4\)"):
        hook(evaluation(rows, [0, 1, 2, 3, 3]))
    assert hook(evaluation(rows, [0, 1, 2, 3]))["rouge1"] == 1.0, "and what failed leaves nothing behind"


def test_without_the_words_the_hook_is_refused_before_training(tokenizer, rows):
    with pytest.raises(InputError, match=r"compute_metrics\(tokenizer, rows=eval_dataset\)"):
        summarily.compute_metrics(tokenizer, metrics=["rouge"])
    with pytest.raises(InputError, match="no column 'unknown_words'"):
        summarily.compute_metrics(tokenizer, metrics=["rouge"], rows=rows.remove_columns("unknown_words"))


def test_families_say_what_their_rows_have(tokenizer):
    assert data_of(tokenizer).texts == TEXTS == ("unknown_words",)
    assert PADDING == {"salient_tokens": 0, "global_attention_mask": 0} and LOSS_ONLY == ("salient_tokens",)
    assert data_of(object()).texts == ()
