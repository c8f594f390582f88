"""The summarizer in a browser writes what `Summarizer` writes."""

from __future__ import annotations

import json

import pytest

from summarily import Summarizer
from summarily.spaces.summarize.writing import Settings
from tests.spaces.browser.conftest import (
    check_page,
    check_phone,
    covered,
    download,
    message,
    take_picture,
)

pytestmark = pytest.mark.browser
SPACE = "summarize"


def summarize(page) -> None:
    page.locator("#summarize").click()
    page.locator("#results .summary").first.wait_for()


def use_example(page, name: str = "Business news") -> str:
    page.get_by_text(name).click()
    page.wait_for_function("() => document.querySelector('#text textarea').value.length > 20")
    return page.locator("#text textarea").input_value()


def add_model(page, name: str) -> None:
    page.locator("#model input").fill(name)
    page.locator("#model input").press("Enter")
    page.locator("#model").get_by_text(name, exact=True).first.wait_for()


def remove_model(page, name: str) -> None:
    page.locator("#model .token", has_text=name).locator("[role=button], button").first.click()


def test_models_stand_side_by_side_with_their_sources(page):
    use_example(page, "A marathon")
    add_model(page, "lead")
    remove_model(page, "news")
    add_model(page, "central")
    summarize(page)
    assert page.locator("#results h3").all_inner_texts()[:3] == ["lead", "central", "Where it comes from"]
    sentence = page.locator("#results .said").first
    place = page.locator("#results .origin span", has_text=sentence.inner_text())
    plain = place.evaluate("e => getComputedStyle(e).backgroundColor")
    sentence.hover()
    assert place.evaluate("e => getComputedStyle(e).backgroundColor") != plain
    text, summary = page.locator("#text").bounding_box(), page.locator("#results").bounding_box()
    assert summary["x"] > text["x"] + text["width"] - 5, "the result stands beside what was asked"
    take_picture(page, "summarize_models")


def test_an_example_gives_the_summary_of_summarizer(page):
    text = use_example(page)
    summarize(page)
    expected = Summarizer()(text, **Settings().options())
    assert page.locator("#results .summary").inner_text() == expected
    saved = json.loads(download(page, "#download-json"))
    [only] = saved["summaries"]
    assert only["summary"] == expected and len(only["beams"]) == 4
    assert "tokens a second" in page.locator("#results").inner_text()
    assert page.locator("#attention rect.heat").count() > 5
    take_picture(page, "summarize", "#results", "#attention")
    check_page(page)


def test_beams_penalties_and_a_token_to_follow(page):
    text = use_example(page)
    page.get_by_text("How to search").click()
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
    chosen = "news"
    for wrong, says in (("/etc", "neither a shipped model"), ("nobody/nothing", "cannot be reached")):
        add_model(page, wrong)
        remove_model(page, chosen)
        chosen = wrong
        page.locator("#summarize").click()
        page.get_by_text(says).first.wait_for()
        assert covered(page) == []
    assert page.locator("#results .summary").count() == 0


def test_it_fits_a_phone(phone):
    use_example(phone)
    summarize(phone)
    check_phone(phone)
    take_picture(phone, "summarize_phone")
