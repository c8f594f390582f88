"""Summaries of a text's own sentences."""

from __future__ import annotations

import numpy as np
import pytest

from summarily import Summarizer
from summarily.modeling.generation import summarizer
from summarily.modeling.generation.extractive import most_central
from summarily.support.errors import InputError
from summarily.support.sample import load_sample
from summarily.support.text import sentences

TEXT = "It rained. It poured. It stopped. Then it snowed."


def test_lead_is_the_first_sentences():
    summarize = Summarizer("lead")
    assert isinstance(summarize, Summarizer)
    assert summarize(TEXT) == "It rained. It poured. It stopped."
    assert summarize([TEXT, "", "One."], sentences=1) == ["It rained.", "", "One."]
    assert (
        summarize(TEXT, max_length=4) == "It rained. It poured."
        and summarize(TEXT, max_length=1) == "It rained."
    )


def test_central_chooses_what_the_text_is_about_in_its_order():
    source = load_sample()[0]["source"]
    strays = "My aunt makes excellent lemon soup. " + source + " A blue bicycle leaned on the wall."
    summary = Summarizer("central")(strays)
    chosen = sentences(summary)
    assert len(chosen) == 3 and all(sentence in source for sentence in chosen)
    places = [source.index(sentence) for sentence in chosen]
    assert places == sorted(places)
    assert summary != Summarizer("lead")(source)


def test_central_sentences_do_not_repeat_each_other():
    generator = np.random.default_rng(0)
    topic, other = np.eye(2, 8)
    rows = np.vstack([np.tile(topic, (5, 1)), np.tile((topic + other) / 2**0.5, (4, 1))])
    rows += generator.normal(0, 1e-4, rows.shape)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    first, second = most_central(rows, 2)
    assert (first < 5) != (second < 5), "one of each kind"


def test_what_it_cannot_do_is_refused():
    with pytest.raises(InputError, match="takes no num_beams"):
        Summarizer("lead")(TEXT, num_beams=4)
    with pytest.raises(InputError, match="no revision to choose"):
        Summarizer("central", revision="main")
    with pytest.raises(InputError, match="sentences=0 must be at least 1"):
        Summarizer("lead")(TEXT, sentences=0)


def test_a_name_that_is_almost_right_is_suggested_without_loading_libraries_or_asking_the_hub(monkeypatch):
    monkeypatch.setattr(summarizer, "_import_libraries", lambda: pytest.fail("not needed for that"))
    with pytest.raises(InputError, match="did you mean 'headlines'"):
        Summarizer("headline")
