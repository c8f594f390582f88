"""The table of models: every shipped summarizer has a row, measured once, on test texts it was not trained on."""

from __future__ import annotations

import argparse
import json
import lzma

import pytest

from summarily.studies import shipped
from summarily.support.shipped import summarizers


def test_every_shipped_summarizer_has_a_task():
    assert set(summarizers()) <= set(shipped.TASKS)


def test_a_row_is_measured_once_and_says_what_the_model_scored(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "data" / "news" / "cnndm"
    folder.mkdir(parents=True)
    for split, count in (("validation", 3), ("test", 4)):
        with lzma.open(folder / f"{split}.jsonl.xz", "wt") as file:
            for i in range(count):
                article = f"The board of bank {i} approved a stock split on Monday in {split}.\n\nNobody came. It rained."
                row = {
                    "id": f"{split}{i}",
                    "article": article,
                    "highlights": [f"Bank {i} approves stock split"],
                }
                file.write(json.dumps(row) + "\n")
    sources, references = shipped.held_out_rows(shipped.TASKS["headlines"], str(tmp_path / "data"), 2)
    assert sources[1] == "The board of bank 1 approved a stock split on Monday in test."
    assert references == [["Bank 0 approves stock split"], ["Bank 1 approves stock split"]]
    articles, _ = shipped.held_out_rows(shipped.NEWS, str(tmp_path / "data"), 3)
    assert len(articles) == 3 and articles[0].endswith("Nobody came. It rained.")
    monkeypatch.setattr(shipped, "measure", measured := Counting(shipped.measure))
    parser = argparse.ArgumentParser()
    shipped.add_arguments(parser)
    given = [
        "--data",
        str(tmp_path / "data"),
        "--output",
        str(tmp_path / "out"),
        "--texts",
        "2",
        "--only",
        "headlines",
    ]
    assert shipped.run(parser.parse_args(given)) == 0 == shipped.run(parser.parse_args(given))
    assert measured.calls == 1
    head, _, row = capsys.readouterr().out.splitlines()[:3]
    assert head.startswith("| model | reads | ROUGE-1/2/Lsum |")
    stored = json.loads((tmp_path / "out" / "headlines-2.json").read_text())
    assert "2 of first paragraphs of CNN/DailyMail" in row and "(lead-1)" in row
    assert f"{100 * stored['ours'][0]:.1f} / " in row
    # Five words of the reference, stemmed, among the thirteen of the paragraph.
    assert stored["lead"][0] == pytest.approx(2 * 5 / (5 + 13), abs=1e-6)
    assert stored["seconds"] > 0


class Counting:
    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)
