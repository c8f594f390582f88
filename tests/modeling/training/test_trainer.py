"""The same models and collator under transformers' own trainer."""

import pytest
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, set_seed

import summarily
from summarily.modeling.training.building import build_model
from summarily.modeling.training.collators import SummaryCollator
from summarily.modeling.training.corpora import encode, load_corpus, texts
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.modeling.training.train import train

from .conftest import MODELS


@pytest.mark.parametrize("model_type", MODELS)
def test_a_model_trains_under_both_loops(model_type, tiny, data, tmp_path):
    recipe = tiny(model_type, dropout=0.0, training={"max_steps": 8})
    ours = train(recipe, tmp_path / "ours", data=data)

    corpus = load_corpus(recipe.data, data)
    tokenizer = train_tokenizer(texts(corpus["train"]), recipe.tokenizer)
    set_seed(0)
    model = build_model(recipe, tokenizer)
    rows = {name: encode(split, tokenizer, recipe.data) for name, split in corpus.splits.items()}
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            output_dir=str(tmp_path / "theirs"),
            max_steps=8,
            per_device_train_batch_size=8,
            learning_rate=0.01,
            predict_with_generate=True,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
        ),
        data_collator=SummaryCollator(pad_token_id=tokenizer.pad_token_id),
        train_dataset=rows["train"],
        eval_dataset=rows["test"],
        processing_class=tokenizer,
        compute_metrics=summarily.compute_metrics(tokenizer, metrics=["rouge"]),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    theirs = trainer.evaluate()
    assert theirs["eval_loss"] < before
    assert any("rouge1" in key for key in theirs) and "rouge1" in ours.scores
    # Batches differ, so the losses do, but both have learned about as much.
    assert ours.scores["loss"] < before and abs(ours.scores["loss"] - theirs["eval_loss"]) < 1.0
