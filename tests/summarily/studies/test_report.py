"""What the reports of studies share."""

import json

import pytest

from summarily.studies import report


def test_what_is_kept_is_not_made_again(tmp_path):
    calls = []

    def make():
        calls.append(1)
        return {"né": [0.5]}

    path = tmp_path / "deep" / "numbers.json"
    assert report.kept(path, make) == report.kept(path, make) == {"né": [0.5]}
    assert len(calls) == 1
    with pytest.raises(ValueError, match="JSON compliant"):
        report.kept(tmp_path / "nan.json", lambda: float("nan"))
    assert not (tmp_path / "nan.json").exists()


def test_numbers_have_their_intervals():
    assert report.with_interval(0.1234, (0.1, 0.15), ".2f", 100, ".1f") == "12.34 (10.0 to 15.0)"
    assert report.with_interval(-1.25, (-2, 0.5), "+.2f") == "-1.25 (-2.00 to +0.50)"


def test_a_study_is_written_printed_and_said_where(tmp_path, capsys):
    lines = report.table(["a", "b"], [["1", ""]])
    report.write(tmp_path, {"rows": [1]}, "\n".join(lines), "plot.png")
    assert json.loads((tmp_path / "study.json").read_text()) == {"rows": [1]}
    assert (tmp_path / "study.md").read_text() == "| a | b |\n|---|---|\n| 1 |  |\n"
    assert f"written to {tmp_path}: study.json, study.md, plot.png" in capsys.readouterr().out


def test_a_picture_is_written(tmp_path):
    with report.picture(tmp_path / "plot.png", columns=2, figsize=(2, 1)) as axes:
        axes[0].plot([1, 2])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
