"""The Space of a metric answers over HTTP with the numbers of `summarily.score`, and errors as sentences."""

from __future__ import annotations

import pytest

import summarily
from summarily.spaces import build
from summarily.spaces.metric import LONGEST, score_html, score_one
from summarily.spaces.serving import serve
from summarily.support.errors import InputError


def test_the_page_holds_the_score():
    score = score_one("rouge", "a cat sat", "the cat sat\n\na cat")
    expected = summarily.score(["a cat sat"], [["the cat sat", "a cat"]], metrics="rouge")["rouge"]
    assert score.mean == expected.mean
    html = score_html(score)
    assert all(f"<td>{value:.4f}</td>" in html for value in expected.mean.values())
    assert str(expected.signature) in html and "<mark>a cat</mark>" in html


@pytest.mark.parametrize(
    ("prediction", "references", "message"),
    [
        ("", "a", "give a summary"),
        ("a", " \n\n ", "at least one reference"),
        ("a" * (LONGEST + 1), "a", "up to 20,000"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(prediction, references, message):
    with pytest.raises(InputError, match=message):
        score_one("rouge", prediction, references)


def test_the_app_serves():
    gradio_client = pytest.importorskip("gradio_client")
    app = build("rouge")
    _, url, _ = serve(app, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        client = gradio_client.Client(url, verbose=False)
        page, values = client.predict("a cat sat", "the cat sat", "", api_name="/score")
        assert values["rouge1"] == pytest.approx(2 / 3) and values["signature"].startswith("rouge|")
        assert "<td>0.6667</td>" in page
        with pytest.raises(Exception, match="give a summary"):
            client.predict("", "", "", api_name="/score")
    finally:
        app.close()
