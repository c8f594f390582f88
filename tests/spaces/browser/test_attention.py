"""The attention mechanisms in a browser: what is drawn is what the masks say."""

from __future__ import annotations

import csv
import io

import pytest

from tests.modeling.attention.dense import dense_mask
from tests.spaces.browser.conftest import check_page, check_phone, download, message, take_picture

pytestmark = pytest.mark.browser
SPACE = "attention"


def ready(page) -> None:
    page.locator("#results svg").first.wait_for()


def panel(page, kind: str):
    return page.locator(".panel", has=page.locator("figcaption", has_text=kind)).first


def test_it_draws_what_the_masks_say(page):
    ready(page)
    mask = dense_mask("dilated", 64, block_length=8, gap=2, memory_blocks=2, memory_length=4)
    assert f"{int(mask.sum()):,} of 4,096 pairs" in panel(page, "dilated").inner_text()
    assert f"Position 30 sees {int(mask[29].sum())}:" in panel(page, "dilated").inner_text()
    take_picture(page, "attention", "#results", "#results")
    check_page(page)


def test_a_control_changes_the_picture_and_the_download(page):
    ready(page)
    box = page.get_by_role("spinbutton", name="Block length")
    box.fill("16")
    box.press("Tab")
    page.get_by_text("sees 24: 13–36").wait_for()  # local: its block 17-32, and a width of 4 on both sides
    mask = dense_mask("local", 64, block_length=16, width=4)
    assert f"{int(mask.sum()):,} of 4,096 pairs" in panel(page, "local").inner_text()
    rows = list(csv.DictReader(io.StringIO(download(page, "#download-csv"))))
    shown = next(row for row in rows if row["mechanism"] == "local" and row["query"] == "30")
    assert shown["sees"].split() == [str(key) for key in range(13, 37)]


def test_an_example_and_a_text(page):
    ready(page)
    page.get_by_text("Words of a text").click()
    page.get_by_text("35 positions in an encoder").wait_for()
    assert page.locator(".panel .running").count() == 9
    take_picture(page, "attention_words")


def test_nothing_and_too_much_are_answered_with_sentences(page):
    ready(page)
    for kind in ("dot_product", "local", "dilated", "window"):
        page.get_by_label(kind, exact=True).uncheck()
    assert "choose at least one mechanism" in message(page)
    page.get_by_label("window", exact=True).check()
    page.get_by_label("Text (optional)").fill("word " * 161)
    page.get_by_text("The text has 161 words; up to 160 can be drawn.").wait_for()


def test_it_fits_a_phone(phone):
    ready(phone)
    check_phone(phone)
    name = phone.locator("#results tbody th").first
    assert name.inner_text() == "dot_product" and name.bounding_box()["height"] < 60, (
        "a name of two lines at most"
    )
    take_picture(phone, "attention_phone")
