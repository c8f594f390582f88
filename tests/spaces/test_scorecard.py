"""The scorecard's numbers are those of `summarily.score`; what cannot be scored is named."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

import summarily
from summarily.metrics import METRICS
from summarily.metrics.explanations import (
    Aligned,
    Alignment,
    Asked,
    Explanation,
    Matches,
    Move,
    Moves,
    Plan,
    Questions,
    Word,
    Words,
    WordsOf,
)
from summarily.metrics.pictures import explanation_html
from summarily.spaces.scorecard import scoring
from summarily.spaces.texts import Texts, pasted, uploaded
from summarily.support.errors import InputError
from summarily.support.sample import SYSTEMS, load_sample

ROWS = load_sample()[:4]


@pytest.fixture(scope="module")
def result():
    texts = Texts(
        {name: [row[name] for row in ROWS] for name in SYSTEMS},
        [row["references"] for row in ROWS],
        [row["source"] for row in ROWS],
        [row["id"] for row in ROWS],
    )
    return scoring.score_texts(texts, ["rouge", "sms", "bertscore"])


def test_rougelsum_is_of_sentences_and_an_explanation_names_the_value_it_shows(result):
    mean = result.cards["good"]["rouge"].mean
    assert mean["rougeLsum"] > mean["rougeL"]
    recall = result.cards["good"]["bertscore"].per_example["bertscore_recall"][0]
    title = f"<h3>bertscore_recall of good, {ROWS[0]['id']}: {recall:.4f}</h3>"
    assert title in scoring.explain(result, "bertscore", "good", 0)


def test_numbers_and_intervals_are_those_of_score(result):
    html = scoring.results_html(result)
    for system in SYSTEMS:
        card = summarily.score(
            [row[system] for row in ROWS],
            [row["references"] for row in ROWS],
            metrics={"rouge": {"split_sentences": True}, "bertscore": {}, "sms": {}},
            confidence=0.95,
        )
        for found in card.values():
            for key, mean in found.mean.items():
                low, high, _ = found.interval[key]
                assert f"{mean:.4f}" in html and f"[{low:.4f}, {high:.4f}]" in html


def starred(systems, references, metric, value) -> list[bool]:
    html = scoring.results_html(scoring.score_texts(Texts(systems, references), [metric]))
    rows = {row.partition("<")[0]: row for row in re.findall(r"<tr><th[^>]*>(.*?)</tr>", html)}
    return ["best" in cell for cell in re.findall(r"<td>(.*?)</td>", rows[value])]


def test_the_best_system_has_the_star_and_shares_it_where_the_difference_may_be_chance(result):
    rows = load_sample()[:12]
    systems = {name: [row[name] for row in rows] for name in ("broken", "good")}
    systems["almost"] = [f"{systems['good'][0]} Perhaps.", *systems["good"][1:]]
    references = [row["references"] for row in rows]
    assert starred(systems, references, "rouge", "rouge1") == [False, True, True]
    del systems["broken"]
    assert starred(systems, references, "rouge", "rouge1") == [False, False], "all of them is no news"
    assert 'class="best"' not in scoring.results_html(result), "four documents prove nothing"


def test_where_less_is_better_the_least_has_the_star():
    references = [f"the cat number {i} sat on the mat" for i in range(10)]
    systems = {"A": ["stocks fell in Tokyo"] * 10, "B": references}
    listed = [[text] for text in references]
    assert starred(systems, listed, "vert", "vert_distance (lower is better)") == [False, True]
    assert starred(systems, listed, "vert", "vert_similarity") == [False, True]


def test_one_document_has_no_interval_and_one_system_no_star():
    result = scoring.score_texts(pasted("", "the cat sat", ["a cat sat", "", "", ""]), ["rouge"])
    html = scoring.results_html(result)
    assert "0.6667" in html and "<small>[" not in html and 'class="best"' not in html


def test_downloads_hold_every_value(result):
    rows = list(csv.DictReader(io.StringIO(scoring.to_csv(result))))
    assert len(rows) == len(SYSTEMS) * len(ROWS)
    assert [float(row["sms"]) for row in rows[:4]] == result.cards["good"]["sms"].per_example["sms"]
    everything = json.loads(scoring.to_json(result))
    assert everything["systems"]["broken"]["scores"]["rouge"]["mean"] == result.cards["broken"]["rouge"].mean
    assert {pair["metric"] for pair in everything["pairs"]} == {"rouge", "bertscore", "sms"}


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_explained(name):
    row = ROWS[1]
    score = summarily.score([row["good"]], [row["references"]], [row["source"]], metrics=name)[name]
    html = explanation_html(score.explain(0))
    assert len(re.sub(r"<[^>]*>", "", html)) > 40


TEXTS = ("some metric", {"value": 0.5}, "a summary", ("a reference",))


@dataclass(frozen=True)
class Novel(Explanation):
    """A kind that no picture is known for."""

    anything: dict[str, Any]


@pytest.mark.parametrize(
    ("explanation", "shown"),
    [
        (Questions(*TEXTS, "", {}, [Asked("Who won?", "Kenya <b>", None, 0.5, False)]), "Kenya &lt;b&gt;"),
        (Matches(*TEXTS, [Alignment(0, [Aligned("<a>", "b", 0.5, 1.0)], [])]), "&lt;a&gt;"),
        (Moves(*TEXTS, [Plan(0, {}, 0.5, [Move("<cat>", "word", "dog", "word", 1.0, 0.5)])]), "&lt;cat&gt;"),
        (Moves(*TEXTS, [Plan(0, {}, None, [])]), "nothing could be moved"),
        (Words(*TEXTS, "adds", [WordsOf("a", "b", {}, [Word("<w>", 0.5)])]), "&lt;w&gt;"),
        (Novel(*TEXTS, {"inner": 1.5, "rows": [{"a": "<x>"}]}), "&lt;x&gt;"),
    ],
)
def test_any_explanation_is_drawn_and_escaped(explanation, shown):
    html = explanation_html(explanation)
    assert shown in html and "<b>Kenya" not in html


def test_texts_are_escaped_everywhere():
    bad = "<script>alert(1)</script> cat"
    result = scoring.score_texts(pasted("", bad, [bad]), ["rouge", "bertscore", "sms"])
    pages = [scoring.results_html(result)]
    pages += [scoring.explain(result, name, "System A", 0) for name in result.metrics]
    assert not any("<script" in page for page in pages)


# --- input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", "", ["a"]), "Please give a reference"),
        (("", " \n\n ", ["a"]), "Please give a reference"),
        (("", "a", ["", " "]), "at least one summary"),
        (("", "a", ["a" * 20_001]), "system A has 20,001 characters"),
        (("a" * 20_001, "a", ["a"]), "the source has 20,001 characters"),
    ],
)
def test_pasted_mistakes_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        pasted(*arguments)


def test_references_are_separated_by_empty_lines():
    assert pasted("", "one\ntwo\n \nthree", ["a"]).references == [["one\ntwo", "three"]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "reference,x\n", "no column 'reference'|has no rows"),
        ("a.csv", "reference,x\na\n", "row 0: expected 2 fields"),
        ("a.csv", "x,y\na,b\n", "no column 'reference'"),
        ("a.csv", "reference,id\na,1\n", "has no summaries"),
        ("a.csv", "reference,a,b,c,d,e\n1,2,3,4,5,6\n", "5 columns of summaries"),
        ("a.csv", "reference,a\n" + "x,y\n" * 201, "201 rows; this Space takes up to 200"),
        ("a.jsonl", '{"reference": "a", "x": 3}\n', "row 1, column x: expected a text, found 3"),
        ("a.jsonl", '{"reference": [], "x": "a"}\n', "expected a text or a list of texts"),
        ("a.jsonl", '{"reference": "a", "x": "b"\n', "line 1 is not JSON"),
        ("a.txt", "text", "is not one of .csv"),
        ("a.csv", "reference,a\n" + ("x" * 19_000 + "," + "y" * 19_000 + "\n") * 20, "760,000 characters"),
    ],
)
def test_mistakes_in_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        uploaded(str(path))


def test_the_bundled_sample_can_be_uploaded():
    from summarily.spaces.texts import example_file

    pytest.importorskip("gradio")
    texts = uploaded(example_file())
    assert list(texts.systems) == list(SYSTEMS) and len(texts) == 36


def test_no_metric_is_a_sentence():
    with pytest.raises(InputError, match="pick at least one metric"):
        scoring.score_texts(pasted("", "a", ["a"]), [])


@pytest.mark.parametrize("line", [r'{"reference": "a \ud800", "A": "b"}', r'{"reference": "a", "A": "\udfff"}',
                                  r'{"reference": "a", "A\ud800": "b"}', r'{"reference": "a", "A": "b", "id": "\ud800"}'])  # fmt: skip
def test_lone_surrogates_in_a_file_are_named(tmp_path, line):
    file = tmp_path / "t.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(InputError, match="lone surrogate"):
        uploaded(str(file))
