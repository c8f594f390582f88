"""`compute_metrics` inside a real `Seq2SeqTrainer`, and by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DataCollatorForSeq2Seq,
    EvalPrediction,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

import summarily
from summarily.metrics.base import InputError

WORDS = [
    "<pad>",
    "<s>",
    "</s>",
    "<unk>",
    "the",
    "cat",
    "dog",
    "sat",
    "barked",
    "snow",
    "fell",
    "today",
    "a",
    "on",
    "mat",
]


@pytest.fixture(scope="module")
def tokenizer():
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=len(WORDS), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
    )  # fmt: skip
    model = BartForConditionalGeneration(config)
    model.generation_config.max_new_tokens = 8
    return model


def rows(tokenizer):
    texts = ["the cat sat", "a dog barked today", "snow fell on the mat", "the dog sat on a mat", "snow fell"]
    return [
        {
            "input_ids": tokenizer(text)["input_ids"],
            "attention_mask": [1] * len(tokenizer(text)["input_ids"]),
            "labels": [*tokenizer(text)["input_ids"], 2],
        }
        for text in texts
    ]


def evaluate(model, tokenizer, tmp_path, metrics=("rouge",), **arguments):
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            str(tmp_path),
            per_device_eval_batch_size=2,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            **arguments,
        ),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
        eval_dataset=rows(tokenizer),
        processing_class=tokenizer,
        compute_metrics=summarily.compute_metrics(tokenizer, metrics=list(metrics)),
    )
    return trainer, trainer.evaluate()


def test_generated_text_is_scored_the_same_with_and_without_batches(model, tokenizer, tmp_path):
    trainer, whole = evaluate(model, tokenizer, tmp_path, predict_with_generate=True)
    _, batched = evaluate(model, tokenizer, tmp_path, predict_with_generate=True, batch_eval_metrics=True)
    scores = {key: value for key, value in whole.items() if key.startswith("eval_rouge")}
    assert len(scores) == 12 and all(type(value) is float for value in scores.values())
    assert {key: batched[key] for key in scores} == scores
    output = trainer.predict(rows(tokenizer))
    decoded = tokenizer.batch_decode(
        np.where(output.predictions < 0, 0, output.predictions), skip_special_tokens=True
    )
    labels = [
        "the cat sat",
        "a dog barked today",
        "snow fell on the mat",
        "the dog sat on a mat",
        "snow fell",
    ]
    by_hand = summarily.score(decoded, labels, metrics="rouge")["rouge"].mean
    assert scores == {f"eval_{key}": value for key, value in by_hand.items()}
    assert by_hand["rouge1"] > 0, "the tiny model must produce some word for the comparison to mean anything"


def test_logits_are_scored_the_same_with_and_without_batches(model, tokenizer, tmp_path):
    _, whole = evaluate(model, tokenizer, tmp_path)
    _, batched = evaluate(model, tokenizer, tmp_path, batch_eval_metrics=True)
    keys = [key for key in whole if key.startswith("eval_rouge")]
    assert keys and {key: whole[key] for key in keys} == {key: batched[key] for key in keys}


def test_padding_is_not_text(tokenizer):
    hook = summarily.compute_metrics(tokenizer, metrics="rouge")
    labels = np.array([[4, 5, 7, 2, -100], [12, 6, 8, 11, 2]])
    predictions = np.array([[2, 4, 5, 7, 2, -100], [2, 12, 6, 8, 11, 2]])
    result = hook(EvalPrediction(predictions, labels))
    assert result["rouge1"] == 1.0 and result["rougeL"] == 1.0


def test_state_does_not_leak_into_the_next_evaluation(tokenizer):
    hook = summarily.compute_metrics(tokenizer, metrics="rouge")
    right, wrong = np.array([[4, 5]]), np.array([[6, 8]])
    assert hook(EvalPrediction(wrong, right), compute_result=False) == {}
    assert hook(EvalPrediction(right, right), compute_result=True)["rouge1"] == 0.5
    assert hook(EvalPrediction(right, right), compute_result=True)["rouge1"] == 1.0


def test_two_metrics_keep_their_keys_apart(tokenizer):
    from summarily.metrics import load

    hook = summarily.compute_metrics(
        tokenizer, metrics={"plain": load("rouge"), "stem": load("rouge", stemmer=True)}
    )
    result = hook(EvalPrediction(np.array([[4, 5]]), np.array([[4, 5]])))
    assert result["plain_rouge1"] == result["stem_rouge1"] == 1.0


def test_mistakes_are_answered_before_or_at_the_first_call(tokenizer):
    with pytest.raises(InputError, match="no metric 'rogue'"):
        summarily.compute_metrics(tokenizer, metrics=["rogue"])
    hook = summarily.compute_metrics(tokenizer)
    with pytest.raises(InputError, match="no labels"):
        hook(EvalPrediction(np.array([[4]]), None))
    with pytest.raises(InputError, match=r"shape \(2,\)"):
        hook(EvalPrediction(np.array([4, 5]), np.array([4, 5])))


def test_postprocess_is_applied_to_both_sides(tokenizer):
    hook = summarily.compute_metrics(tokenizer, postprocess=lambda text: "same")
    assert hook(EvalPrediction(np.array([[4]]), np.array([[6]])))["rouge1"] == 1.0
