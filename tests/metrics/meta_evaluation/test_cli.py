"""`summarily meta` from the command line, on tables of a user's own."""

import csv
import json

import pytest

from summarily.cli import main
from summarily.metrics.meta_evaluation import recommendation
from summarily.metrics.meta_evaluation.scores import load_results
from summarily.support.sample import SYSTEMS, load_sample


@pytest.fixture
def judged(tmp_path):
    """The bundled sample with made-up judgements."""
    file = tmp_path / "judged.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["summary", "reference", "human", "input", "system"])
        for i, row in enumerate(load_sample()[:10]):
            for system, human in zip(SYSTEMS, (3 - i % 2, 2, 1), strict=True):
                writer.writerow([row[system], row["references"][0], human, i, system])
    return file


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("SUMMARILY_DATA", raising=False)

    def call(*arguments):
        code = main(
            [
                "meta",
                *map(str, arguments),
                *(
                    ["--scores", str(tmp_path / "scores")]
                    if arguments[0] not in ("report", "recommend", "thesis")
                    else []
                ),
            ]
        )
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_agreement_of_a_table_on_the_terminal_and_as_a_page(run, judged, tmp_path):
    code, out, err = run("human", judged, "--metrics", "rouge,wms", "--report", tmp_path / "out.html")
    assert code == 0, err
    assert "30 summaries of 10 inputs by 3 systems" in out
    assert "rougeL (baseline)" in out and "wms" in out
    page = (tmp_path / "out.html").read_text()
    assert page.startswith("<!doctype html>") and page.count("<svg") == 4
    assert out.startswith("Trust "), "the answer comes first"
    answer = out.splitlines()[0]
    assert f"<p class=verdict>{answer}</p>" in page and page.index(answer) < page.index("<svg") < page.index(
        "<table"
    )
    assert "prefers-color-scheme:dark" in page and 'name="viewport"' in page and "#000000" not in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "src=" not in page, "nothing is fetched"


def test_the_same_command_again_computes_nothing_and_writes_the_same_bytes(run, judged, tmp_path):
    pages = []
    for name in ("first.html", "second.html"):
        assert run("human", judged, "--metrics", "rouge", "--report", tmp_path / name)[0] == 0
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]


def test_everything_on_a_table_is_kept_and_reported_again_byte_for_byte(run, judged, tmp_path):
    kept, first, second = tmp_path / "kept", tmp_path / "first.html", tmp_path / "second.html"
    code, out, err = run(
        "all", judged, "--metrics", "rouge,wms", "--keep", kept, "--report", first, "--limit", "profile=10"
    )
    assert code == 0, err
    for title in ("Agreement with people", "Corruption", "Systems", "Cost", "Signatures"):
        assert title in out
    assert run("report", kept, "--report", second)[0] == 0
    assert first.read_bytes() == second.read_bytes()
    assert "Run-time against agreement" in first.read_text()
    summary = load_sample()[0]["good"]
    for file in kept.iterdir():
        import gzip

        assert summary[:40] not in gzip.decompress(file.read_bytes()).decode(), "numbers only, no texts"
    texts = [run("recommend", kept)[1] for _ in range(2)]
    assert texts[0] == texts[1] and "To choose between" not in texts[0]
    document = tmp_path / "README.md"
    document.write_text(
        "a\n<!-- summarily meta recommend -->\nstale\n<!-- end of summarily meta recommend -->\nb\n"
    )
    assert run("recommend", kept, "--update", document)[0] == 0
    assert texts[0] in document.read_text() and "stale" not in document.read_text()
    code, _, err = run("thesis", kept, "--update", document)
    assert code == 2 and "<!-- summarily meta thesis -->" in err


def test_the_tables_as_json_and_markdown(run, judged, tmp_path):
    code, out, _ = run("human", judged, "--metrics", "rouge", "--markdown", "--json", tmp_path / "t.json")
    assert code == 0 and "| metric | pooled |" in out
    tables = json.loads((tmp_path / "t.json").read_text())
    assert tables[0]["rows"][0][0] == "rouge1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--human-column", "stars"], "no column 'stars' for the human"),
        (["--metrics", "rogue"], "no metric 'rogue'"),
        (["--metrics", "rouge", "--baseline", "bleu"], "baseline 'bleu' is not among"),
        (["--where", "system"], "expected COLUMN=VALUE"),
        (["--where", "system=nobody"], "no row has system = 'nobody'"),
        (["--reference-file", "nowhere.txt"], "no file nowhere.txt"),
    ],
)
def test_mistakes_end_with_a_message_and_code_2(run, judged, arguments, message):
    code, _, err = run("human", judged, *arguments)
    assert code == 2 and message in err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[f"a b {i}", f"a c {i}", i, "x", i] for i in range(5)], "one system only"),
        ([[f"a b {i}", "a c", 1, f"s{i % 2}", i // 2] for i in range(6)], "no correlation is defined"),
        ([["a b", "a c", i, f"s{i % 3}", i // 3] for i in range(6)], "All scores of rouge1 are the same"),
        (
            [[f"a b {'a ' * i}", "a c", i if i % 2 else "", f"s{i % 3}", i // 4] for i in range(12)],
            "6 without a score",
        ),
        ([[f"a b {'c ' * i}", "a c", i, f"s{i % 2}", i // 2] for i in range(6)], "two systems"),
    ],
    ids=["one system", "constant human scores", "constant metric", "missing scores", "two systems"],
)
def test_odd_tables_have_an_answer(run, tmp_path, rows, said):
    file = tmp_path / "odd.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["summary", "reference", "human", "system", "input"])
        writer.writerows(rows)
    code, out, err = run("human", file, "--metrics", "rouge", "--report", tmp_path / "odd.html")
    assert code == 0, err
    assert said in out and "nan" not in out
    assert "nan" not in (tmp_path / "odd.html").read_text().split("<svg")[0]


def test_two_rows_are_refused(run, tmp_path):
    file = tmp_path / "two.csv"
    file.write_text("summary,reference,human\na,b,1\nc,d,2\n")
    code, _, err = run("human", file, "--metrics", "rouge")
    assert code == 2 and "at least 3 are needed" in err


def test_paraphrase_corruption_benchmark_profile_sweep_and_disagree(run, judged, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(
        "a,b,same\n" + "".join(f"the cat {i},the cat {i},1\nthe cat {i},a dog,0\n" for i in range(8))
    )
    code, out, _ = run(
        "paraphrase",
        pairs,
        "--first-column",
        "a",
        "--second-column",
        "b",
        "--label-column",
        "same",
        "--metrics",
        "rouge",
    )
    assert code == 0 and "16 pairs" in out and "1.000" in out
    code, out, _ = run(
        "corruption", judged, "--metrics", "rouge", "--limit", 6, "--kinds", "swap", "--seeds", "0,1"
    )
    assert code == 0 and "6 summaries, 2 seeds" in out
    code, _, err = run("corruption", judged, "--seeds", "one")
    assert code == 2 and "expected whole numbers" in err
    systems = tmp_path / "systems.jsonl"
    rows = [{"reference": row["references"][0], **{s: row[s] for s in SYSTEMS}} for row in load_sample()[:6]]
    systems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, _ = run("benchmark", systems, "--systems", *SYSTEMS, "--metrics", "rouge")
    assert code == 0 and "pairs not told apart" in out
    code, out, _ = run("profile", judged, "--metrics", "rouge", "--limit", 5)
    assert code == 0 and "seconds per 1,000" in out
    from tests.metrics import tiny

    code, out, err = run("sweep", judged, "--models", tiny.checkpoint("bert"), "--layers", "1,2")
    assert code == 0 and "layer 2" in out, err
    code, out, _ = run(
        "disagree", judged, "--metrics", "rouge", "--first", "rouge1", "--second", "people", "--share", "0.1"
    )
    assert code == 0 and "== high by rouge1, low by people" in out and "reference:" in out


def test_the_stored_results_give_the_recommendation_of_the_document():
    from pathlib import Path

    text = recommendation.recommend(load_results(recommendation.STORED))
    document = (Path(recommendation.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert text in document, "summarily meta recommend says something else than the README"


def test_the_picture_of_the_readme_is_of_the_stored_results(run, tmp_path):
    from pathlib import Path

    code, _, err = run("recommend", "--picture", tmp_path / "cost.svg")
    assert code == 0, err
    kept = load_results(recommendation.STORED)["human"]["realsumm"].columns
    labels = {label for label in kept if not label.startswith(("rouge2", "rougeL"))}
    stored = Path(recommendation.__file__).parent / "cost.svg"
    for path in (tmp_path / "cost.svg", stored):
        text = path.read_text(encoding="utf-8")
        assert {label for label in kept if f">{label}</text>" in text} == labels, path
