"""The summarizer in a browser writes what `Summarizer` writes."""

from __future__ import annotations

import json

import pytest

from summarily import Summarizer
from summarily.spaces.summarize.writing import Settings
from tests.spaces.browser.conftest import check_page, check_phone, download, message, take_picture

pytestmark = pytest.mark.browser
SPACE = "summarize"


def summarize(page) -> None:
    page.locator("#summarize").click()
    page.locator("#results .summary").wait_for()


def use_example(page, name: str = "Business news") -> str:
    page.get_by_text(name).click()
    page.wait_for_function("() => document.querySelector('#text textarea').value.length > 20")
    return page.locator("#text textarea").input_value()


def test_an_example_gives_the_summary_of_summarizer(page):
    text = use_example(page)
    summarize(page)
    expected = Summarizer()(text, **Settings().options())
    assert page.locator("#results .summary").inner_text() == expected
    saved = json.loads(download(page, "#download-json"))
    assert saved["summary"] == expected and len(saved["beams"]) == 4
    assert "tokens a second" in page.locator("#results").inner_text()
    assert page.locator("#attention rect.heat").count() > 5
    take_picture(page, "summarize", "#results", "#attention")
    check_page(page)


def test_beams_penalties_and_a_token_to_follow(page):
    text = use_example(page)
    box = page.get_by_role("spinbutton", name="Beams")
    box.fill("1")
    box.press("Tab")
    summarize(page)
    expected = Summarizer()(text, **Settings(beams=1).options())
    assert page.locator("#results .summary").inner_text() == expected
    follow = page.get_by_role("spinbutton", name="Token of the summary to follow")
    follow.fill("1")
    follow.press("Tab")
    page.get_by_text("(token 1)").first.wait_for()


def test_an_upload_is_read(page, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Acme Corp said it will buy Bolt Inc for 20 million dollars.", encoding="utf-8")
    page.locator("#upload input[type=file], input[type=file]").first.set_input_files(path)
    page.wait_for_function("() => document.querySelector('#text textarea').value.includes('Bolt Inc')")
    summarize(page)
    assert page.locator("#results .summary").inner_text()


def test_mistakes_are_answered_with_sentences(page):
    page.locator("#summarize").click()
    assert "Please give a text" in message(page)
    page.locator("#text textarea").fill("word " * 16_001)
    page.locator("#summarize").click()
    page.get_by_text("has 80,005 characters; this Space takes up to 80,000").wait_for()
    page.locator("#text textarea").fill("A short text.")
    for wrong, says in (("/etc", "neither a shipped model"), ("nobody/nothing", "cannot be reached")):
        page.get_by_label("Model").fill(wrong)
        page.get_by_label("Model").press("Enter")
        page.locator("#summarize").click()
        page.get_by_text(says).first.wait_for()
    assert page.locator("#results .summary").count() == 0


def test_it_fits_a_phone(phone):
    use_example(phone)
    summarize(phone)
    check_phone(phone)
    take_picture(phone, "summarize_phone")
