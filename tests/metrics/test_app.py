"""The app of a metric answers over HTTP with the numbers of `summarily.score`, and errors as sentences."""

from __future__ import annotations

import json

import pytest

import summarily
from summarily.metrics.app import LONGEST, build, score_one
from summarily.metrics.base import InputError


def test_the_table_is_that_of_the_score():
    rows, signature, explanation = score_one("rouge", "a cat sat", "the cat sat\n\na cat")
    expected = summarily.score(["a cat sat"], [["the cat sat", "a cat"]], metrics="rouge")["rouge"]
    assert rows == [[key, f"{value:.4f}"] for key, value in expected.mean.items()]
    assert signature == str(expected.signature)
    assert json.loads(explanation) == json.loads(json.dumps(expected.explain(0)))


@pytest.mark.parametrize(
    ("prediction", "references", "message"),
    [
        ("", "a", "give a summary"),
        ("a", " \n\n ", "at least one reference"),
        ("a" * (LONGEST + 1), "a", "under 20,000"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(prediction, references, message):
    with pytest.raises(InputError, match=message):
        score_one("rouge", prediction, references)


def test_the_app_serves(monkeypatch):
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    gradio_client = pytest.importorskip("gradio_client")
    app = build("rouge")
    _, url, _ = app.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        client = gradio_client.Client(url, verbose=False)
        table, signature, _ = client.predict("a cat sat", "the cat sat", api_name="/score")
        assert table["data"][0] == ["rouge1", "0.6667"] and signature.startswith("rouge|")
        with pytest.raises(Exception, match="give a summary"):
            client.predict("", "", api_name="/score")
    finally:
        app.close()
