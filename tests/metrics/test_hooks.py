"""`compute_metrics` inside a real `Seq2SeqTrainer`, and by itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from transformers import DataCollatorForSeq2Seq, EvalPrediction, Seq2SeqTrainer, Seq2SeqTrainingArguments

import summarily
from summarily.support.errors import InputError, MissingRequirement, SummarilyWarning


@pytest.fixture(scope="module")
def tokenizer(tiny_summarizer):
    return tiny_summarizer["tokenizer"]


def evaluate(tiny, tmp_path, metrics=("rouge",), **arguments):
    model, tokenizer = tiny["model"], tiny["tokenizer"]
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
        eval_dataset=tiny["dataset"],
        processing_class=tokenizer,
        compute_metrics=summarily.compute_metrics(tokenizer, metrics=list(metrics)),
    )
    return trainer, trainer.evaluate()


def test_generated_text_is_scored_the_same_with_and_without_batches(tiny_summarizer, tmp_path):
    trainer, whole = evaluate(tiny_summarizer, tmp_path, predict_with_generate=True)
    _, batched = evaluate(tiny_summarizer, tmp_path, predict_with_generate=True, batch_eval_metrics=True)
    scores = {key: value for key, value in whole.items() if key.startswith("eval_rouge")}
    assert len(scores) == 12 and all(type(value) is float for value in scores.values())
    assert {key: batched[key] for key in scores} == scores
    output = trainer.predict(tiny_summarizer["dataset"])
    tokenizer = tiny_summarizer["tokenizer"]
    decoded = tokenizer.batch_decode(
        np.where(output.predictions < 0, 0, output.predictions), skip_special_tokens=True
    )
    by_hand = summarily.score(decoded, tiny_summarizer["texts"], metrics="rouge")["rouge"].mean
    assert scores == {f"eval_{key}": value for key, value in by_hand.items()}
    assert by_hand["rouge1"] > 0, "the tiny model must produce some word for the comparison to mean anything"


def test_logits_are_refused_for_they_flatter(tiny_summarizer, tmp_path):
    with pytest.raises(InputError, match="predict_with_generate=True"):
        evaluate(tiny_summarizer, tmp_path)


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


def test_a_reward_may_be_another_score_of_its_metric():
    recall = summarily.reward("rouge", key="rouge1_recall")
    assert recall(["a cat"], references=["a cat sat down"]) == [0.5]
    assert recall.__name__ == "rouge1_recall_reward"
    assert pickle.loads(pickle.dumps(recall))(["a cat"], references=["a cat"]) == [1.0]
    with pytest.raises(InputError, match="rouge has no score 'rouge1_recal'; did you mean 'rouge1_recall'"):
        summarily.reward("rouge", key="rouge1_recal")


def test_where_no_metric_is_named_recall_of_bertscore_comes_first(tokenizer, monkeypatch):
    ids = np.array([[4, 5]])
    found = summarily.compute_metrics(tokenizer)(EvalPrediction(ids, ids))
    assert next(iter(found)) == "bertscore_recall" and {"bertscore", "rouge1"} < set(found)

    def missing(self):
        raise MissingRequirement("pip install them")

    monkeypatch.setattr("summarily.metrics.bertscore.scorer.Bertscore.check", missing)
    with pytest.warns(SummarilyWarning, match="bertscore is left out of the evaluation: pip install them"):
        hook = summarily.compute_metrics(tokenizer)
    assert list(hook.metrics) == ["rouge"]
    with pytest.raises(MissingRequirement):
        summarily.compute_metrics(tokenizer, metrics=["bertscore"])


def test_the_reward_of_bertscore_is_f_which_length_does_not_raise():
    longer = "The cat sat on the mat. A dog barked. Snow fell all night in the north. Trains stood still."
    texts, reference = ["The cat sat on the mat.", longer], "The cat sat on the mat today."
    score = summarily.metrics.load("bertscore").compute(texts, [reference] * 2)
    rewards = summarily.reward("bertscore")(texts, references=[reference] * 2)
    assert rewards == score.per_example["bertscore"] and rewards[0] > rewards[1]
    assert str(score.main) == "bertscore_recall"
