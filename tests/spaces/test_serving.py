"""A Space ends in time and speaks in sentences."""

from __future__ import annotations

import threading
import time

import pytest

from summarily.spaces.serving import TimeUp, check_length, guarded, sentence, within
from summarily.support.errors import InputError, MissingRequirement

gradio = pytest.importorskip("gradio")


def test_work_that_takes_too_long_is_stopped():
    stopped = threading.Event()

    def work():
        try:
            while True:
                time.sleep(0.01)
        finally:
            stopped.set()

    start = time.monotonic()
    with pytest.raises(TimeUp):
        within(0.2, work)
    assert time.monotonic() - start < 60  # the work would go on for ever
    assert stopped.wait(120), "the thread goes on working for nobody"


def test_no_handler_on_the_way_keeps_work_alive():
    stopped = threading.Event()

    def work():
        try:
            while True:
                try:
                    time.sleep(0.01)
                except Exception:
                    continue
        finally:
            stopped.set()

    with pytest.raises(TimeUp):
        within(0.1, work)
    assert stopped.wait(120)


def test_a_timeout_of_the_work_itself_is_its_own():
    def work():
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        within(5, work)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (InputError("row 3 is empty."), "row 3 is empty."),
        (MissingRequirement("pip install this"), "pip install this"),
        (InputError("/tmp/gradio/5f/my table.csv, row 3: two fields."), "my table.csv, row 3: two fields."),
        (RuntimeError("/usr/lib/secret.py failed"), "Something went wrong on our side"),
        (TimeUp(), "longer than 5 seconds"),
    ],
)
def test_errors_reach_the_browser_as_sentences(raised, says):
    def work():
        raise raised

    with pytest.raises(gradio.Error) as caught:
        guarded(work, 5)()
    message = str(caught.value.message)
    assert says.lower() in message.lower() and "/" not in message
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://huggingface.co/a/b for more.", "See https://huggingface.co/a/b for more."),
        ("there is no file /tmp/a/b.csv.", "There is no file b.csv."),
        ("precision/recall of a/b", "precision/recall of a/b"),
        ("", ""),
    ],
)
def test_only_paths_of_the_server_are_hidden(text, shown):
    assert sentence(text) == shown


def test_a_text_that_is_too_long_is_refused_with_both_numbers():
    with pytest.raises(InputError, match="the text has 1,001 characters; this Space takes up to 1,000"):
        check_length("the text", "a" * 1001, 1000)


def test_what_a_visitor_wrote_is_no_html_in_a_toast():
    def fail(text):
        raise InputError(f"there is no system {text!r}.")

    with pytest.raises(gradio.Error) as caught:
        guarded(fail)("<img src=x onerror=alert(1)>")
    assert "&lt;img" in caught.value.message and "<" not in caught.value.message


@pytest.mark.parametrize("value", ["a \ud800 cat", ["fine", "a \udfff"]])
def test_a_lone_surrogate_is_a_sentence(value):
    with pytest.raises(gradio.Error, match="lone surrogate") as caught:
        guarded(lambda text: text)(value)
    caught.value.message.encode("utf-8")
