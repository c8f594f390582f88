"""A blind comparison in a browser, from the upload to a csv that `summarily meta human` reads."""

from __future__ import annotations

import csv

import pytest

from summarily.metrics.meta_evaluation.human import read_judgements
from summarily.spaces.judge.judging import QUESTIONS, sign_test
from summarily.support.sample import load_sample
from tests.spaces.browser.conftest import (
    check_page,
    check_phone,
    covered,
    download,
    message,
    take_picture,
)

pytestmark = pytest.mark.browser
SPACE = "judge"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("upload") / "three.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "source", "reference", "good", "broken"])
        for row in load_sample()[:3]:
            writer.writerow([row["id"], row["source"], row["references"][0], row["good"], row["broken"]])
    return path


def begin(page, file) -> None:
    page.locator("#upload input[type=file]").set_input_files(file)
    page.get_by_label("Remove good").or_(page.get_by_text("good", exact=True)).first.wait_for()


def good_one(page) -> str:
    """Which side shows the good system, as a judge sees it: by reading."""
    good = {row["good"] for row in load_sample()}
    return "Summary 1" if page.locator("#summary-1 .text").inner_text() in good else "Summary 2"


def test_three_judgements_are_counted_tested_and_readable(page, file, tmp_path):
    begin(page, file)
    page.locator("#start").click()
    page.get_by_text("Document 1 of 3").wait_for()
    body = page.locator("#summary-1").inner_text() + page.locator("#summary-2").inner_text()
    assert "broken" not in body  # blind
    for turn in range(3):
        page.get_by_text(f"Document {turn + 1} of 3").wait_for()
        choice = good_one(page)
        for question in QUESTIONS:
            page.locator(f"#choose-{question}").get_by_label(choice, exact=True).check()
        if turn == 0:
            take_picture(page, "judge", "#progress", "#save")
            check_page(page)
        page.locator("#save").click()
    page.get_by_text("All 3 documents are judged").wait_for()
    row = page.locator("#results tr", has_text="overall").locator("td").all_inner_texts()
    assert row == ["3", "0", "0", f"{sign_test(3, 0):.4f}"]
    take_picture(page, "judge_outcome")

    path = tmp_path / "judgements.csv"
    path.write_text(download(page, "#download-csv"), encoding="utf-8")
    judgements = read_judgements(str(path), question="overall")
    assert len(judgements) == 6 and set(judgements.systems) == {"good", "broken"}
    for system, human, summary in zip(
        judgements.systems, judgements.human, judgements.summaries, strict=True
    ):
        assert human == (1.0 if system == "good" else 0.0)
        assert summary in {row[system] for row in load_sample()}


def test_the_scale_is_used_by_keyboard(page, file):
    begin(page, file)
    page.get_by_label("Rate each from 1 to 5").check()
    page.locator("#start").click()
    page.get_by_text("Document 1 of 3").wait_for()
    for side in (1, 2):
        for question in QUESTIONS:
            page.locator(f"#rate-{side}-{question}").get_by_label("3", exact=True).focus()
            page.keyboard.press("Space")
    page.locator("#save").click()
    page.get_by_text("Document 2 of 3").wait_for()
    page.locator("#reveal").click()
    row = page.locator("#results tr", has_text="overall").locator("td")
    row.first.wait_for()
    assert row.all_inner_texts() == ["0", "1", "0", "1.0000", "3.00", "3.00"]


def test_the_example_is_ready_to_click(page):
    page.get_by_text("36 articles, three systems").click()
    page.get_by_text("mediocre", exact=True).first.wait_for()
    page.locator("#start").click()
    page.get_by_text("Document 1 of 20").wait_for()


def test_mistakes_are_answered_with_sentences(page, file, tmp_path):
    page.locator("#start").click()
    assert "choose a csv or jsonl file first" in message(page)
    large = tmp_path / "large.csv"
    large.write_text("reference,a,b\n" + "x,y,z\n" * 201)
    page.locator("#upload input[type=file]").set_input_files(large)
    page.get_by_text("large.csv has 201 rows").wait_for()
    page.reload()
    page.get_by_role("heading", level=1).wait_for()
    begin(page, file)
    page.locator("#start").click()
    page.get_by_text("Document 1 of 3").wait_for()
    page.locator("#save").click()
    page.get_by_text("Please answer non-redundancy and coherence").wait_for()
    page.locator("#reveal").click()
    page.get_by_text("Nothing is judged yet").wait_for()


def test_a_missing_answer_leaves_the_others_within_reach(page, file):
    page.locator("#start").click()
    assert "choose a csv or jsonl file first" in message(page)
    assert covered(page) == []
    assert page.get_by_label("Rate each from 1 to 5").is_visible()
    begin(page, file)
    page.locator("#start").click()
    page.get_by_text("Document 1 of 3").wait_for()
    *answered, last = QUESTIONS
    for question in answered:
        page.locator(f"#choose-{question}").get_by_label("Summary 1", exact=True).check()
    page.locator("#save").click()
    page.get_by_text(f"Please answer {last}").wait_for()
    assert covered(page) == []
    page.locator(f"#choose-{last}").get_by_label("Summary 1", exact=True).check(timeout=3000)  # by mouse
    page.locator("#save").click()
    page.get_by_text("Document 2 of 3").wait_for()


def test_it_fits_a_phone(phone, file):
    begin(phone, file)
    phone.locator("#start").click()
    phone.get_by_text("Document 1 of 3").wait_for()
    check_phone(phone)
    take_picture(phone, "judge_phone")
