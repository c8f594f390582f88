"""The scorecard in a browser shows the numbers of `summarily.score`."""

from __future__ import annotations

import csv
import io
import json

import pytest

import summarily
from summarily.support.sample import SYSTEMS, load_sample
from tests.spaces.browser.conftest import (
    check_page,
    check_phone,
    choose,
    covered,
    download,
    message,
    take_picture,
)

pytestmark = pytest.mark.browser
SPACE = "scorecard"
DEFAULT = {"rouge": {"split_sentences": True}, "bertscore": {}, "wms": {}, "sms": {}}


def table(page, name: str) -> dict[str, list[str]]:
    """Rows of the table with this caption."""
    rows = (
        page.locator("#results table", has=page.locator("caption", has_text=name)).locator("tbody tr").all()
    )
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def score(page, button: str) -> None:
    page.locator(button).click()
    page.locator("#results table").first.wait_for()


def use_example(page) -> None:
    page.get_by_text("marathon bergen").click()
    page.wait_for_function("() => document.querySelectorAll('textarea')[4].value.length > 20")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rows = load_sample()[:6]
    path = tmp_path_factory.mktemp("upload") / "six.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "source", "reference", "good", "broken"])
        for row in rows:
            writer.writerow([row["id"], row["source"], row["references"][0], row["good"], row["broken"]])
    return path


def test_an_example_shows_the_numbers_of_score(page):
    use_example(page)
    score(page, "#score")
    row = load_sample()[0]
    shown = table(page, "Means over the documents")
    for place, system in enumerate(SYSTEMS):
        card = summarily.score([row[system]], [row["references"]], [row["source"]], metrics=DEFAULT)
        for found in card.values():
            for key, mean in found.mean.items():
                if not key.endswith(("_precision", "_recall")):
                    assert shown[key][place].split()[0] == f"{mean:.4f}"
    assert {"rouge1", "bertscore", "wms", "sms"} <= set(shown)
    take_picture(page, "scorecard_input")
    check_page(page)


def test_every_metric_explains_itself(page):
    use_example(page)
    page.get_by_label("moverscore").check()
    score(page, "#score")
    why = page.locator("#explanation")
    assert why.locator(".chip").first.is_visible()  # BERTScore's, which comes first
    choose(page, "Metric", "rouge")
    why.locator("mark").first.wait_for()
    assert why.locator("h3").inner_text().startswith("rouge1 of System A")
    choose(page, "Metric", "wms")
    why.locator("svg path title").first.wait_for(state="attached")
    assert why.locator("h3").inner_text().startswith("wms of System A")
    choose(page, "Metric", "sms")
    why.locator("li", has_text="summary sentence 1").wait_for()
    choose(page, "System", "System B")
    why.get_by_text("sms of System B").wait_for()


def test_an_upload_gives_intervals_and_downloads(page, file):
    page.get_by_role("tab", name="Upload many").click()
    page.locator("#upload input[type=file]").set_input_files(file)
    page.get_by_text("six.csv").wait_for()
    score(page, "#score-file")
    rows = load_sample()[:6]
    systems = {name: [row[name] for row in rows] for name in ("good", "broken")}
    expected = summarily.compare(
        systems, [row["references"][0] for row in rows], [row["source"] for row in rows], metrics=DEFAULT
    )
    shown = table(page, "Means over the documents")
    for place, system in enumerate(systems):
        found = expected.cards[system]["bertscore"]
        low, high, _ = found.interval["bertscore"]
        assert f"{found.mean['bertscore']:.4f}" in shown["bertscore"][place]
        assert f"[{low:.4f}, {high:.4f}]" in shown["bertscore"][place]
    values = list(csv.DictReader(io.StringIO(download(page, "#download-csv"))))
    assert [float(row["sms"]) for row in values if row["system"] == "good"] == pytest.approx(
        expected.cards["good"]["sms"].per_example["sms"], abs=1e-5
    )
    everything = json.loads(download(page, "#download-json"))
    assert everything["ranking"] == expected.ranking
    assert everything["systems"]["good"]["scores"]["rouge"]["mean"] == expected.cards["good"]["rouge"].mean


def test_empty_and_oversized_inputs_are_answered_with_sentences(page):
    page.locator("#score").click()
    assert "Please give a reference" in message(page)
    page.get_by_label("Reference").fill("a cat")
    page.get_by_label("System A").fill("word " * 4001)
    page.locator("#score").click()
    page.get_by_text("has 20,005 characters; this Space takes up to 20,000").wait_for()
    assert page.locator("#results table").count() == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("reference,good\na cat\n", "bad.csv, row 0: expected 2 fields, found 1."),
        ("summary,good\na,b\n", "no column 'reference'"),
        ("reference\na cat\n", "bad.csv has no summaries"),
        ("reference,a\n" + "x,y\n" * 201, "bad.csv has 201 rows; this Space takes up to 200."),
    ],
)
def test_bad_files_are_answered_with_sentences(page, tmp_path, content, says):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    page.get_by_role("tab", name="Upload many").click()
    page.locator("#upload input[type=file]").set_input_files(path)
    page.get_by_text("bad.csv").wait_for()
    page.locator("#score-file").click()
    assert says in message(page)


def test_a_file_that_is_too_large_is_refused(page, tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("reference,a\n" + "x" * 3_000_000 + ",y\n")
    page.get_by_role("tab", name="Upload many").click()
    page.locator("#upload input[type=file]").set_input_files(path)
    assert "size" in message(page)


def test_it_shows_that_it_works_and_no_mistake_covers_the_form(page):
    page.locator("#score").click()
    assert "Please give a reference" in message(page)
    assert covered(page) == []
    for box in page.locator("textarea").all():
        assert not box.is_visible() or box.get_attribute("placeholder")
    page.evaluate(
        """() => { window.seen = new Set(); new MutationObserver(() => {
          const s = document.querySelector('#status [data-testid=status-tracker]:not(.hide)');
          if (s) window.seen.add(s.innerText.replace(/\\s+/g, ' '));
        }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true}); }"""
    )
    use_example(page)
    score(page, "#score")
    seen = page.evaluate("[...window.seen]")
    assert any("bertscore" in text or "encoding" in text for text in seen), seen
    footer = page.locator("footer").inner_text()
    assert "·" not in footer


def test_a_star_only_where_a_difference_holds(page):
    use_example(page)
    score(page, "#score")
    assert page.locator("#results .best").count() == 0  # one document proves nothing
    page.get_by_role("tab", name="Upload many").click()
    page.get_by_text("36 articles, three systems").click()
    page.get_by_text("sample").first.wait_for()
    page.locator("#score-file").click()
    page.get_by_text("36 documents").wait_for()
    row = page.locator("#results tr", has=page.locator("th", has_text="rouge1")).first.locator("td")
    assert [row.nth(i).locator(".best").count() for i in range(3)] == [1, 0, 0]


def test_it_works_by_keyboard(page):
    page.get_by_label("Reference").focus()
    page.keyboard.type("the cat sat")
    page.keyboard.press("Tab")
    page.keyboard.type("a cat sat")
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "score":
            break
    page.keyboard.press("Enter")
    page.locator("#results table").first.wait_for()
    assert table(page, "Means over the documents")["rouge1"] == ["0.6667"]


def test_it_fits_a_phone(phone):
    phone.get_by_text("marathon bergen").click()
    phone.wait_for_function("() => document.querySelectorAll('textarea')[4].value.length > 20")
    score(phone, "#score")
    check_phone(phone)
    take_picture(phone, "scorecard_phone")


def test_the_example_file_shows_everything(page):
    page.get_by_role("tab", name="Upload many").click()
    page.get_by_text("36 articles, three systems").click()
    page.get_by_text("sample").first.wait_for()
    score(page, "#score-file")
    assert "36 documents" in page.locator("#results").inner_text()
    choose(page, "Metric", "wms")
    page.locator("#explanation svg").wait_for()
    take_picture(page, "scorecard", "#results", "#results")
    take_picture(page, "transport", "#explanation", "#explanation")
