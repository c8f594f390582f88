"""The Space writes what `Summarizer` writes, shows true attention, and opens no folder of the server."""

from __future__ import annotations

import json
import re

import pytest
import torch

from summarily import Summarizer
from summarily.spaces.summarize import interface, writing
from summarily.spaces.summarize.writing import Settings, write
from summarily.support import models
from summarily.support.errors import InputError

TEXT = "Acme Corp said its board approved a two-for-one stock split and raised its dividend."


@pytest.mark.parametrize("settings", [Settings(), Settings(beams=1), Settings(alpha=2.0, beta=2.0)])
def test_the_summary_is_that_of_summarizer(settings):
    written = write("headlines", TEXT, settings)
    assert written.summary == Summarizer("headlines")(TEXT, **settings.options())
    assert len(written.summaries) == settings.beams and written.scores == sorted(written.scores)[::-1]


def test_the_space_starts_with_the_default_summarizer_and_its_prefix(monkeypatch):
    """A T5 reads "summarize: " before the text; what it read of that is not shown as the text's."""
    from tests.modeling.tiny_t5 import tiny_t5_summarizer

    t5 = tiny_t5_summarizer()
    monkeypatch.setattr(writing, "summarizer", lambda name: t5)
    settings = Settings(beams=2, max_length=8)
    written = write("tiny", "the cat sat", settings)
    assert written.summary == t5("the cat sat", **settings.options())
    assert "".join(written.source_tokens) == "the cat sat" and len(written.source_tokens) == 3
    assert len(written.attention[0]) == 3

    components = interface.build().config["components"]
    [model] = [part["props"] for part in components if part["props"].get("elem_id") == "model"]
    assert model["value"] == ["news"]


def test_attention_is_a_distribution_over_the_source_for_every_token():
    written = write("headlines", TEXT, Settings())
    assert "".join(written.source_tokens) == TEXT
    assert len(written.attention) == len(written.summary_tokens)
    for row in written.attention:
        assert len(row) == len(written.source_tokens) and 0.5 < sum(row) <= 1.0001


def test_attention_is_that_of_the_search():
    """The coverage that beam search adds up, against what is shown."""
    written = write("headlines", TEXT, Settings(beams=1, block_ngram=0, alpha=0.0))
    found = Summarizer("headlines")
    inputs = found.tokenizer([TEXT], return_tensors="pt")
    found.model.set_attn_implementation("eager")
    output = found.model.generate(
        **inputs, num_beams=1, max_new_tokens=128, output_attentions=True, return_dict_in_generate=True
    )
    steps = torch.stack([step[-1][0, :, -1].mean(0) for step in output.cross_attentions])
    shown = torch.tensor(written.attention)
    torch.testing.assert_close(steps[: len(shown), : shown.shape[1]], shown, atol=1e-4, rtol=1e-3)


def test_only_models_that_summarize_are_offered():
    assert "headlines" in writing.summarizers() and "bleurt-light" not in writing.summarizers()


def test_pages_are_escaped_and_name_the_cost():
    written = write("headlines", "<script>alert(1)</script> said its board approved a split.", Settings())
    pages = writing.summary_html([written], "<script>alert(1)</script>") + writing.attention_html(written, 0)
    assert "<script" not in pages and "tokens a second" in pages and "million parameters" in pages
    [saved] = json.loads(writing.to_json([written]))["summaries"]
    assert saved["settings"]["beams"] == 4


def test_one_token_can_be_followed():
    written = write("headlines", TEXT, Settings())
    assert "(token 2)" in writing.attention_html(written, 2)
    with pytest.raises(InputError, match="there is no number 999"):
        writing.attention_html(written, 999)


@pytest.fixture
def apeso(monkeypatch):
    """A tiny APESO model under a name of its own."""
    from summarily.modeling import ApesoConfig, ApesoForConditionalGeneration
    from summarily.modeling.training.recipe import TokenizerSection
    from summarily.modeling.training.tokenizers import train_tokenizer

    tokenizer = train_tokenizer(
        ["the goal by the player won"], TokenizerSection(kind="copy", min_frequency=1)
    )
    torch.manual_seed(0)
    config = ApesoConfig(vocab_size=len(tokenizer), embedding_size=8, hidden_size=16)
    model = ApesoForConditionalGeneration(config)
    monkeypatch.setattr(writing, "Summarizer", lambda name, **options: Summarizer.of(model, tokenizer))
    monkeypatch.setattr(writing, "summarizers", lambda: ["tiny"])
    yield "tiny"
    models.forget()


def test_apeso_shows_entities_and_takes_their_penalty(apeso):
    written = write(apeso, "the goal by Wilshere won", Settings(beams=2, max_length=6, gamma=1.0))
    assert written.entities is not None and len(written.entities) == len(written.source_tokens) == 5
    assert all(0 <= value <= 1 for value in written.entities)
    assert "salient" in writing.attention_html(written, 0)


@pytest.mark.parametrize(
    ("name", "text", "settings", "message"),
    [
        ("headlines", " ", {}, "Please give a text"),
        ("headlines", "a" * 80_001, {}, "80,001 characters"),
        ("headlines", TEXT, {"gamma": 1.0}, "has no entity attention"),
        ("headlines", TEXT, {"beams": 0}, "beams is 0; it goes from 1 to 12"),
        ("headlines", TEXT, {"max_length": None}, "max length is None"),
        ("/etc", TEXT, {}, "neither a shipped model"),
        ("../x", TEXT, {}, "neither a shipped model"),
        ("hub_cards/headlines", TEXT, {}, "neither a shipped model|cannot be reached"),
        ("", TEXT, {}, "neither a shipped model"),
        ("nobody/nothing", TEXT, {}, "the Hub cannot be reached"),
    ],
)
def test_mistakes_are_named(name, text, settings, message):
    with pytest.raises(InputError, match=message):
        write(name, text, Settings(**settings))


def test_a_large_checkpoint_is_refused_before_it_is_fetched(monkeypatch):
    from types import SimpleNamespace

    import huggingface_hub

    files = [SimpleNamespace(rfilename="model.safetensors", size=3 * 2**30)]
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *a, **k: SimpleNamespace(siblings=files))
    with pytest.raises(InputError, match=r"3\.0 GB of weights; this Space takes up to 2 GB"):
        write("somebody/large", TEXT, Settings())
    files[0].rfilename = "pytorch_model.bin"
    with pytest.raises(InputError, match="has no safetensors"):
        write("somebody/pickled", TEXT, Settings())


def test_models_stand_side_by_side_with_the_sentences_they_come_from():
    text = "Acme Corp approved a stock split. It rained in Oslo on Monday. The dividend rises to 12 cents a share."
    told = []
    written = writing.write_all(
        ["lead", "headlines"], text, Settings(beams=1), lambda *what: told.append(what)
    )
    assert told == [(0, "lead"), (1, "headlines")]
    assert [one.model for one in written] == ["lead", "headlines"] and written[0].summary == text
    page = writing.summary_html(written, text)
    assert page.index("<h3>lead</h3>") < page.index("Where it comes from") < page.index("What it cost")
    for number, sentence in enumerate(text.split(". ")):
        assert f'said-{number}" tabindex="0">{sentence}' in page
        assert re.search(rf'<span class="from-{number}[ "][^>]*>{sentence}', page)
    with pytest.raises(InputError, match="one to 3 models; 0 are chosen"):
        writing.write_all([], text, Settings(), lambda *what: None)


def test_a_sentence_comes_from_those_that_share_its_words():
    source = ["Ada Lovelace wrote the first program.", "It rained.", "Babbage built the engine in London."]
    assert writing.sources_of("Lovelace wrote a program for the engine Babbage built.", source) == [0, 2]
    assert writing.sources_of("Nothing of this is there.", source) == []
