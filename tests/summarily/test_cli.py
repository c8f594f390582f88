"""The command as its user sees it: tables, files, exit codes, one clear line on bad input."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys

import pytest

from summarily.cli import main
from summarily.support import progress


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """What a command says while it is slow depends on the machine."""
    monkeypatch.setattr(progress, "PATIENCE", 3600)


ROWS = [
    {
        "prediction": "a cat sat",
        "other": "a dog",
        "reference": "the cat sat",
        "refs": ["the cat sat", "a cat"],
    },
    {"prediction": "dogs bark", "other": "no bark", "reference": "dogs bark", "refs": ["dogs bark"]},
    {"prediction": "snow fell", "other": "rain fell", "reference": "it snowed", "refs": ["it snowed"]},
]


@pytest.fixture
def tables(tmp_path):
    """The same rows as jsonl, gzipped jsonl, csv and parquet."""
    import pandas

    lines = "\n".join(map(json.dumps, ROWS)) + "\n"
    (tmp_path / "t.jsonl").write_text(lines)
    with gzip.open(tmp_path / "t.jsonl.gz", "wt") as file:
        file.write(lines)
    flat = pandas.DataFrame(ROWS).drop(columns="refs")
    flat.to_csv(tmp_path / "t.csv", index=False)
    flat.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    pandas.DataFrame(ROWS).to_parquet(tmp_path / "t.parquet")
    for column in ("prediction", "other", "reference"):
        (tmp_path / f"{column}.txt").write_text("".join(f"{row[column]}\n" for row in ROWS))
    return tmp_path


def rouge1(path) -> list[float]:
    return json.loads(path.read_text())["scores"]["rouge"]["per_example"]["rouge1"]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "tsv", "parquet"])
def test_tables_of_every_kind_score_alike(tables, kind, capsys):
    output = tables / "out.json"
    assert main(["score", str(tables / f"t.{kind}"), "--metrics", "rouge", "--json", str(output)]) == 0
    assert rouge1(output) == pytest.approx([2 / 3, 1.0, 0.0])
    printed = capsys.readouterr().out
    assert (
        "rouge1" in printed and "95% interval" in printed and "rouge|" in printed and "written to" in printed
    )


def test_text_files_score_like_tables(tables):
    output = tables / "out.json"
    files = ["--predictions", str(tables / "prediction.txt"), "--references", str(tables / "reference.txt")]
    assert main(["score", *files, "--metrics", "rouge", "--json", str(output)]) == 0
    assert rouge1(output) == pytest.approx([2 / 3, 1.0, 0.0])
    several = [*files, str(tables / "prediction.txt")]
    assert main(["score", *several, "--metrics", "rouge", "--json", str(output)]) == 0
    assert rouge1(output) == [1.0, 1.0, 1.0], "the second reference file is the prediction itself"


def test_columns_and_options_can_be_named(tables, capsys):
    output = tables / "out.json"
    columns = ["--prediction-column", "other", "--reference-column", "refs"]
    settings = ["--set", "rouge.stemmer=true", "--set", "rouge.types=['rouge1']", "--no-signatures"]
    arguments = ["score", str(tables / "t.jsonl"), "--metrics", "rouge", *columns, *settings]
    assert main([*arguments, "--json", str(output)]) == 0
    score = json.loads(output.read_text())["scores"]["rouge"]
    assert "stemmer:yes" in score["signature"] and "rouge2" not in score["mean"]
    assert "signatures" not in capsys.readouterr().out


def test_only_line_feeds_end_a_line(tmp_path):
    (tmp_path / "p.txt").write_bytes("a\u2028cat\r\n\nsnow\x0cfell".encode())
    (tmp_path / "r.txt").write_bytes(b"a cat\n\nsnow fell\n")
    output = tmp_path / "out.json"
    files = ["--predictions", str(tmp_path / "p.txt"), "--references", str(tmp_path / "r.txt")]
    assert main(["score", *files, "--metrics", "rouge", "--json", str(output)]) == 0
    assert rouge1(output) == [1.0, 0.0, 1.0]


def test_compare_prints_ranking_and_tests(tables, capsys):
    assert (
        main(["compare", str(tables / "t.csv"), "--systems", "prediction", "other", "--metrics", "rouge"])
        == 0
    )
    assert "prediction ~ other" in capsys.readouterr().out
    files = [f"A={tables / 'other.txt'}", f"B={tables / 'prediction.txt'}"]
    references = ["--references", str(tables / "reference.txt")]
    assert main(["compare", "--systems", *files, *references, "--metrics", "rouge"]) == 0
    printed = capsys.readouterr().out
    assert "B ~ A" in printed and "A - B" in printed and "p perm" in printed


def test_the_sample_can_be_scored_and_compared(capsys):
    assert main(["score", "--sample", "--metrics", "rouge"]) == 0
    assert main(["compare", "--sample", "--metrics", "rouge", "--no-signatures"]) == 0
    assert "rouge1: good > mediocre > broken" in capsys.readouterr().out


def test_metrics_are_listed_with_help_and_needs(capsys):
    from summarily.metrics import METRICS, metric_class

    assert main(["metrics"]) == 0
    printed = capsys.readouterr().out
    for name in METRICS:
        assert metric_class(name).summary in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score"], "give --references"),
        (["score", "missing.jsonl"], "there is no file missing.jsonl"),
        (
            ["score", "{t}/t.csv", "--prediction-column", "nope"],
            "no column 'nope'; the columns are: prediction, other",
        ),
        (["score", "{t}/t.csv", "--source-column", "nope"], "no column 'nope'"),
        (["score", "{t}/bad.jsonl"], "bad.jsonl, line 2 is not JSON"),
        (["score", "{t}/list.jsonl"], "list.jsonl, line 1 is a list"),
        (["score", "{t}/hole.jsonl", "--metrics", "rouge"], "predictions[1] is None"),
        (["score", "{t}/ragged.csv"], "ragged.csv, row 0: expected 2 fields"),
        (["score", "{t}/latin.csv"], "not UTF-8"),
        (["score", "{t}/latin.txt"], "what is {t}/latin.txt compared with?"),
        (["score", "--predictions", "{t}/latin.txt", "--references", "{t}/latin.txt"], "not UTF-8"),
        (["score", "{t}/t.csv", "--metrics", "rogue"], "did you mean 'rouge'"),
        (["score", "{t}/nowhere.txt", "{t}/reference.txt"], "there is no file {t}/nowhere.txt."),
        (["compare", "{t}/reference.txt", "{t}/nowhere.txt"], "there is no file {t}/nowhere.txt."),
        (["scor", "{t}/t.csv"], "there is no command 'scor'; did you mean 'score'?"),
        (["score", "{t}/t.csv", "--metrics", "rouge", "--set", "rouge"], "expected METRIC.OPTION=VALUE"),
        (["score", "{t}/t.csv", "--metrics", "rouge", "--set", "sms.x=1"], "sms is not among --metrics"),
        (["score", "{t}/t.csv", "--set", "rouge.x=1"], "rouge has no option 'x'"),
        (["score", "{t}/t.csv", "--metrics", "rouge", "--set", "rouge.stemmer=7"], "stemmer is 7, a int"),
        (["score", "{t}/t.csv", "--metrics", "wms", "--set", "wms.vectors=[1]"], "vectors is [1], a list"),
        (["score", "{t}/t.csv", "--metrics", "rouge", "--set", f"rouge.stemmer={'9' * 5000}"], "stemmer"),
        (["demo", "--port", "99999999"], "--port 99999999: ports go from 0 to 65535"),
        (
            ["summarize", "{t}/reference.txt", "--model", "headlines", "--beams", "0"],
            "--beams 0: give at least 1",
        ),
        (["score", "{t}/t.csv", "--metrics", "rouge", "--confidence", "95"], "between 0 and 1"),
        (["score", "{t}/t.csv", "--metrics", "rouge", "--json", "{t}/no/such/out.json"], "out.json"),
        (["compare", "{t}/t.csv", "--systems", "prediction"], "at least two"),
        (["score", "no-such/dataset"], "no-such/dataset is neither a file nor a data set"),
        (["tune-penalties", "model", "--recipe", "nope"], "there is no recipe file 'nope'"),
        (["train", "nope"], "there is no recipe file 'nope'"),
    ],
)
def test_bad_input_exits_with_two_and_one_clear_line(tables, arguments, message, capsys):
    (tables / "bad.jsonl").write_text('{"prediction": "a", "reference": "a"}\n{"prediction": \n')
    (tables / "list.jsonl").write_text('["a"]\n')
    (tables / "hole.jsonl").write_text('{"prediction": "a", "reference": "a"}\n{"reference": "a"}\n')
    (tables / "ragged.csv").write_text("prediction,reference\na\n")
    (tables / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    (tables / "latin.csv").write_bytes("prediction,reference\ncaf\xe9,a\n".encode("latin-1"))
    assert main([argument.replace("{t}", str(tables)) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert message.replace("{t}", str(tables)) in captured.err
    assert captured.err.count("\n") == 1 and captured.err.startswith("summarily: "), captured.err


class Closed(io.StringIO):
    """Standard output whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError

    def fileno(self):
        return self.file.fileno()


def test_a_reader_who_has_seen_enough_does_not_cost_the_files(tables, tmp_path, monkeypatch):
    judged = tmp_path / "judged.csv"
    judged.write_text(
        "input,system,summary,reference,human\n1,A,a cat,a cat,2\n1,B,a dog,a cat,1\n1,C,x,a cat,0\n"
    )
    closed = Closed()
    closed.file = (tmp_path / "closed").open("w")
    monkeypatch.setattr(sys, "stdout", closed)
    outputs = [tmp_path / "scores.json", tmp_path / "tables.json"]
    assert main(["score", str(tables / "t.parquet"), "--metrics", "rouge", "--json", str(outputs[0])]) == 141
    human = ["meta", "human", str(judged), "--metrics", "rouge", "--json", str(outputs[1])]
    assert main(human) == 141
    assert all(json.loads(output.read_text()) for output in outputs)


def test_an_unknown_command_exits_with_two(capsys):
    assert main(["scroe"]) == 2
    told = capsys.readouterr().err
    assert "did you mean 'score'?" in told and "complete," not in told  # which only the shell's tab key says


def test_every_extension_has_a_help_that_teaches(capsys):
    from summarily.cli import _EXTENSIONS

    for name in _EXTENSIONS:
        with pytest.raises(SystemExit) as caught:
            main([name, "--help"])
        assert caught.value.code == 0
        assert f"summarily {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "{t}/t.csv", "--references", "{t}/reference.txt"], "--references goes with text files"),
        (["score", "{t}/t.csv", "--sources", "no.txt"], "--sources goes with text files"),
        (["score", "{t}/t.csv", "--predictions", "no.txt"], "--predictions goes with text files"),
        (["score", "--sample", "--predictions", "no.txt"], "--sample stands alone"),
        (["compare", "--sample", "--systems", "a"], "--sample stands alone"),
        (["compare", "{t}/t.csv", "--systems", "other", "other"], "names 'other' twice"),
        (["score", "{t}/bad.parquet"], "is not a parquet file"),
        (["score", "{t}/cut.jsonl.gz"], "is not a whole gzip file"),
    ],
)
def test_no_input_is_accepted_and_ignored(tables, arguments, message, capsys):
    (tables / "bad.parquet").write_bytes(b"not parquet")
    (tables / "cut.jsonl.gz").write_bytes((tables / "t.jsonl.gz").read_bytes()[:-12])
    assert main([argument.replace("{t}", str(tables)) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert message.replace("{t}", str(tables)) in captured.err and captured.err.count("\n") == 1


def test_files_saved_with_a_byte_order_mark_are_read(tables):
    output = tables / "out.json"
    (tables / "excel.csv").write_text((tables / "t.csv").read_text(), encoding="utf-8-sig")
    assert main(["score", str(tables / "excel.csv"), "--metrics", "rouge", "--json", str(output)]) == 0
    assert rouge1(output) == pytest.approx([2 / 3, 1.0, 0.0])


def test_a_gzipped_parquet_file_is_read(tables):
    output = tables / "out.json"
    with gzip.open(tables / "t.parquet.gz", "wb") as file:
        file.write((tables / "t.parquet").read_bytes())
    assert main(["score", str(tables / "t.parquet.gz"), "--metrics", "rouge", "--json", str(output)]) == 0
    assert rouge1(output) == pytest.approx([2 / 3, 1.0, 0.0])


def test_a_warning_is_one_line_and_options_go_with_all_metrics(tmp_path, capsys):
    file = tmp_path / "texts.txt"
    file.write_text("One sentence. Another one.\n" * 2)
    arguments = ["score", "--predictions", str(file), "--references", str(file)]
    assert main([*arguments, "--metrics", "rouge"]) == 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if "rougeLsum" in line]
    assert (
        line.startswith("summarily: rougeLsum compares line by line")
        and "--set rouge.split_sentences=True" in line
    )
    assert main([*arguments, "--metrics", "rouge", "--set", "rouge.split_sentences=True"]) == 0
    assert "rougeLsum" not in capsys.readouterr().err


def test_nothing_asked_is_a_lesson_of_ten_lines(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 10 and any(
        "summarily score predictions.txt references.txt" in line for line in lines
    )


def test_text_files_are_understood_without_options(tables, capsys):
    files = [str(tables / "prediction.txt"), str(tables / "reference.txt")]
    assert main(["score", *files, "--metrics", "ROUGE"]) == 0
    plain = capsys.readouterr()
    assert "predictions: " in plain.err
    assert main(["score", "--predictions", files[0], "--references", files[1], "--metrics", "rouge"]) == 0
    values = [re.sub(r"[\d.]+ +[\d.]+ +\d+$", "", line) for line in plain.out.splitlines()]
    assert values == [
        re.sub(r"[\d.]+ +[\d.]+ +\d+$", "", line) for line in capsys.readouterr().out.splitlines()
    ]
    systems = [str(tables / "prediction.txt"), str(tables / "other.txt")]
    assert main(["compare", *systems, "--references", files[1], "--metrics", "rouge"]) == 0
    assert "prediction ~ other" in capsys.readouterr().out


def test_the_right_command_is_named(tables, capsys):
    one, two = str(tables / "prediction.txt"), str(tables / "other.txt")
    for arguments, answer in (
        (["score", one], f"summarily score {one} REFERENCES.txt"),
        (["compare", one, two], f"summarily compare {one} {two} --references REFERENCES.txt"),
        (
            ["score", str(tables / "t.csv"), "--reference-column", "gold"],
            "Name the right one by --reference-column.",
        ),
        (["score", "--sample", "--json", str(tables / "none/x.json")], "there is no folder"),
    ):
        assert main(arguments) == 2
        assert answer in capsys.readouterr().err


def test_an_array_of_json_is_a_table(tmp_path, capsys):
    rows = [{"prediction": "a cat", "reference": "the cat"}, {"prediction": "", "reference": "a dog"}]
    (tmp_path / "rows.json").write_text(json.dumps(rows, indent=1))
    assert main(["score", str(tmp_path / "rows.json"), "--metrics", "rouge"]) == 0
    assert "1 of 2 predictions are empty, the first in row 1." in capsys.readouterr().err
    (tmp_path / "rows.json").write_text("[1]")
    assert main(["score", str(tmp_path / "rows.json")]) == 2
    assert "row 0 is a int" in capsys.readouterr().err


def test_files_that_were_probably_swapped_are_noticed(tmp_path, capsys):
    for name in ("references.txt", "outputs.txt"):
        (tmp_path / name).write_text("a cat sat\n" * 2)
    swapped = [str(tmp_path / "references.txt"), str(tmp_path / "outputs.txt")]
    assert main(["score", *swapped, "--metrics", "rouge"]) == 0
    assert "are they swapped?" in capsys.readouterr().err
    assert main(["score", *swapped[::-1], "--metrics", "rouge"]) == 0
    assert "swapped" not in capsys.readouterr().err
    (tmp_path / "outputs.txt").write_text("a cat sat " * 20 + "\nb\n")
    assert main(["score", *swapped[::-1], "--metrics", "rouge"]) == 0
    assert "are they the sources?" in capsys.readouterr().err


def test_the_tab_key_completes_commands_options_and_metrics(capsys):
    for words, found in (
        (["sc"], ["score"]),
        (["score", "--conf"], ["--confidence", "--config"]),
        (["score", "--preset", ""], ["light", "paper"]),
        (["score", "--metrics", "ro"], ["rouge"]),
        (["meta", "recom"], ["recommend"]),
    ):
        assert main(["complete", *words]) == 0
        assert sorted(capsys.readouterr().out.split()) == found
    assert main(["completion", "bash"]) == 0
    assert "complete -o default -F _summarily summarily" in capsys.readouterr().out
