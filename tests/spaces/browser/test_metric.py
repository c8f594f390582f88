"""A metric's own Space in a browser."""

from __future__ import annotations

import pytest

import summarily
from summarily.support.sample import load_sample
from tests.spaces.browser.conftest import check_page, check_phone, message, take_picture

pytestmark = pytest.mark.browser
SPACE = "bertscore"


def test_an_example_shows_the_numbers_of_score(page):
    page.get_by_text("good: marathon-bergen").click()
    page.wait_for_function("() => document.querySelectorAll('textarea')[1].value.length > 20")
    page.locator("#score").click()
    page.locator("#results table").first.wait_for()
    row = load_sample()[0]
    expected = summarily.score([row["good"]], [row["references"]], metrics="bertscore")["bertscore"]
    shown = dict(
        zip(
            page.locator("#results tbody th").all_inner_texts(),
            page.locator("#results tbody td").all_inner_texts(),
            strict=True,
        )
    )
    assert shown == {key: f"{value:.4f}" for key, value in expected.mean.items()}
    assert str(expected.signature) in page.locator("#results code").inner_text()
    assert page.locator("#results .chip").count() > 20
    take_picture(page, "bertscore")
    check_page(page)


def test_empty_and_oversized_inputs_are_answered_with_sentences(page):
    page.locator("#score").click()
    assert "Please give a summary" in message(page)
    page.get_by_label("Summary to score").fill("word " * 4001)
    page.locator("#score").click()
    page.get_by_text("this Space takes up to 20,000").wait_for()


def test_it_fits_a_phone(phone):
    check_phone(phone)
