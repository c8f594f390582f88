"""The shipped models load through the Auto classes, are small, and do what their cards say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import summarily.modeling  # noqa: F401 - registers the classes
from summarily.hub_cards import folder, shipped
from summarily.support.shipped import summarizers


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_has_a_card_with_results(name):
    files = {path.name: path for path in Path(folder(name)).iterdir()}
    assert not {"pytorch_model.bin"} & set(files), "safetensors only"
    card = files["README.md"].read_text()
    assert card.startswith("---\n") and "model-index" in card and "## Limits" in card
    assert re.search(r"`rouge\||\| accuracy \|", card), (
        "scores come with their signatures, readers with accuracies"
    )


def test_an_unknown_model_is_named():
    with pytest.raises(ValueError, match="did you mean 'headlines'"):
        folder("headline")


@pytest.fixture(scope="module")
def headlines():
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    path = folder("headlines")
    return AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.float32), AutoTokenizer.from_pretrained(
        path
    )


def summarize(headlines, text: str) -> str:
    model, tokenizer = headlines
    inputs = tokenizer(text, return_tensors="pt", truncation=True)
    return tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True)


def test_the_headline_model_says_what_the_paragraph_is_about(headlines):
    # Invented paragraphs in the style of a newswire.
    paragraph = (
        "Norsk Papir AS said its board approved a two-for-one stock split and raised its quarterly dividend "
        "to 12 cents a share from 10 cents."
    )
    headline = summarize(headlines, paragraph)
    assert 2 <= len(headline.split()) <= 20
    assert {"split", "stock", "dividend", "raises", "payout"} & set(headline.split()), headline


def test_the_headline_model_is_the_mechanism_its_config_names(headlines):
    model, _ = headlines
    config = json.loads((Path(folder("headlines")) / "config.json").read_text())
    assert model.config.attention_type == config["attention_type"] == "relative"
    assert sum(p.numel() for p in model.parameters()) < 3_000_000


@pytest.fixture(scope="module")
def news():
    from summarily import Summarizer

    return Summarizer()


def test_the_default_summarizer_is_news_and_keeps_to_the_article(news):
    """An invented article: the summary is short, of whole sentences, about it, and all but made of its words."""
    from summarily.support.sample import load_sample
    from summarily.support.text import sentences

    article = load_sample()[0]["source"]
    summary = news(article)
    words = re.findall(r"[\w']+", summary.lower())
    known = set(re.findall(r"[\w']+", article.lower()))
    assert 15 <= len(words) <= 90
    assert summary.endswith((".", "!", "?", "'", '"')) and len(sentences(summary)) >= 2
    assert "Chepkorir" in summary and "Marathon" in summary
    assert sum(word in known for word in words) >= 0.85 * len(words), summary


def test_news_is_merged_in_float32_and_loads_with_stock_transformers(news):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily

    place = summarily.checkpoint("news")
    model, info = AutoModelForSeq2SeqLM.from_pretrained(place, output_loading_info=True)
    assert not any(info.values()) and model.dtype == torch.float32 == news.model.dtype
    assert type(model).__name__ == "T5ForConditionalGeneration"
    inputs = AutoTokenizer.from_pretrained(place)(
        "summarize: The council voted for a library.", return_tensors="pt"
    )
    theirs = model.generate(**inputs)
    ours = news("The council voted for a library.")
    assert news.tokenizer.decode(theirs[0], skip_special_tokens=True).strip() == ours


def test_news_counts_and_says_what_it_does_not_read(news):
    with pytest.warns(UserWarning, match=r"1 of 1 texts .* longer than the 512 tokens"):
        news("The council voted for a library. " * 100, max_length=3, num_beams=1)


def test_what_is_shipped_names_no_folder_of_the_machine_it_was_made_on():
    from pathlib import Path

    import summarily.hub_cards

    place = Path(summarily.hub_cards.__file__).parent
    files = [file for file in place.rglob("*.json") if "token" not in file.name and "vocab" not in file.name]
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert '": "/' not in text, file


@pytest.mark.parametrize("name", summarizers())
def test_a_shipped_summarizer_loads_in_float32_and_learns(name, tmp_path):
    """Stored in half precision or not: stock fine-tuning of a float16 model on a CPU ends in nan."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Seq2SeqTrainer, Seq2SeqTrainingArguments

    import summarily

    place = summarily.checkpoint(name)
    model = AutoModelForSeq2SeqLM.from_pretrained(place)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    tokenizer = AutoTokenizer.from_pretrained(place)
    text = "The board approved a two-for-one stock split on Monday."
    row = {**tokenizer(text), "labels": tokenizer(text_target="Board approves stock split")["input_ids"]}
    arguments = Seq2SeqTrainingArguments(
        str(tmp_path), max_steps=3, per_device_train_batch_size=1, report_to=[], save_strategy="no",
        predict_with_generate=True, generation_max_length=5, generation_num_beams=1, learning_rate=1e-3,
        use_cpu=True, disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    trainer = Seq2SeqTrainer(model, arguments, train_dataset=[row] * 4)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert len(losses) == 3 and losses[2] < losses[0]
    # What its generation config says does not stand above what the trainer was told.
    written = trainer.predict([row]).predictions
    assert (written[:, 5:] == tokenizer.pad_token_id).all()
    with torch.no_grad():
        usual = model.generate(**tokenizer(text, return_tensors="pt"), min_length=8)
    assert usual.shape[1] >= 8, "the limit of the trainer is not the model's own"


def test_no_generation_config_limits_new_tokens():
    """It would go before the length that somebody asks `Seq2SeqTrainer` for."""
    settings = {
        name: json.loads((Path(folder(name)) / "generation_config.json").read_text())
        for name in summarizers()
    }
    for name, values in settings.items():
        assert not {"max_new_tokens", "min_new_tokens"} & set(values), name
        assert values["max_length"] > 20, name


def test_all_shipped_models_together_are_small():
    """A difference from a base at most 15 MB, a whole model at most 25, and all of hub_cards at most 80."""
    sizes = {name: sum(file.stat().st_size for file in Path(folder(name)).rglob("*")) for name in shipped()}
    for name, size in sizes.items():
        difference = (Path(folder(name)) / "adapter_config.json").is_file()
        assert size <= (15 if difference else 25) * 10**6, name
    assert sum(sizes.values()) <= 80 * 10**6
