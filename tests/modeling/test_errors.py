"""What a user's input causes is one of our errors: the command line prints it in one line."""

from __future__ import annotations

import ast

import pytest

from summarily.cli import main
from summarily.support.errors import SummarilyError
from tests.test_direction import modules

# Whoever changes the code causes these, not who uses it.
FOR_DEVELOPERS = {"summarily.modeling.remote_code"}


def test_no_bare_errors_are_raised_for_what_was_given():
    bare = [
        f"{module}, line {node.lineno}"
        for module, path in modules().items()
        if module.split(".")[1:2] in (["modeling"], ["studies"]) and module not in FOR_DEVELOPERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in ("ValueError", "TypeError", "ImportError", "RuntimeError")
    ]
    assert not bare, "raise a kind of SummarilyError: " + ", ".join(bare)


def test_ours_are_also_what_callers_catch():
    from summarily.modeling import LedConfig
    from summarily.modeling.training.collators import SummaryCollator

    for wrong in (lambda: LedConfig(attention_window=7), lambda: SummaryCollator(pad_token_id=None)):
        with pytest.raises(ValueError) as caught:
            wrong()
        assert isinstance(caught.value, SummarilyError)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["train", "nope"], "there is no recipe file 'nope'"),
        (["tune-penalties", "model", "--recipe", "nope"], "there is no recipe file 'nope'"),
        (["convert", "bart-to-led", "{t}/nothing", "{t}/led"], "nothing"),
        (["train", "bart_cnn_dailymail", "--set", "model.config.label_smoothing"], "write section.key=value"),
        (["train", "cloze_reader", "--set", "data.max_source_tokens=9"], "reading does not read it"),
        (["study", "bleurt", "--data", "{t}", "--output", "{t}/run"], "bbc_news_summary"),
    ],
)
def test_the_command_line_says_it_in_one_line(command, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main([part.replace("{t}", str(tmp_path)) for part in command]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error and error.startswith("summarily: ")
