"""Importing is cheap: what is heavy is imported when it is used."""

import subprocess
import sys

HEAVY = ("torch", "transformers", "spacy", "gradio", "evaluate", "datasets", "pandas", "scipy", "ot", "nltk")


def modules_after(code: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_import_summarily_imports_nothing_heavy():
    assert not modules_after("import summarily").intersection(HEAVY)


def test_help_imports_nothing_heavy():
    code = """
import contextlib, io
from summarily.cli import main
with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
    main(["--help"])
assert "examples:" in out.getvalue()
"""
    assert not modules_after(code).intersection(HEAVY)


def test_what_can_be_measured_is_listed_without_the_libraries_that_would_measure():
    """torch is in the metrics' modules; transformers, and ours on top of it, take twice as long."""
    modules = modules_after("from summarily.cli import main; main(['metrics'])")
    assert not modules.intersection({"transformers", "nltk", "spacy", "datasets", "pandas", "evaluate"})


def test_a_model_that_is_not_there_imports_nothing_heavy():
    code = (
        "from summarily.cli import main; assert main(['summarize', '--sample', '--model', 'headline']) == 2"
    )
    assert not modules_after(code).intersection(HEAVY)


def test_plain_rouge_imports_nothing_heavy():
    """nltk, for its stemmer, takes longer than a thousand summaries."""
    code = "import summarily; summarily.score(['a cat'], ['a dog'], metrics='rouge')"
    assert not modules_after(code).intersection(HEAVY)
    stemmed = "import summarily; summarily.score(['a cat'], ['cats'], metrics={'rouge': {'stemmer': True}})"
    assert "nltk" in modules_after(stemmed)


def test_public_names_exist():
    import summarily

    for name in summarily.__all__:
        assert getattr(summarily, name) is not None
    assert set(summarily.__all__) <= set(dir(summarily))


HELPS = """
import argparse, contextlib, io, sys
from summarily import cli

def names(arguments):
    # The sub-commands that a command has, and those below them, as lists of words.
    parser = cli._parser(arguments)
    for word in arguments:
        [found] = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        parser = found.choices[word]
    yield arguments
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word in action.choices:
                yield from names([*arguments, word])

asked = list(names([]))
for arguments in asked:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        cli.main([*arguments, "--help"])
    assert out.getvalue().startswith("usage: " + " ".join(["summarily", *arguments])), arguments
assert len(asked) > 30 and ["study", "long"] in asked and ["meta", "human"] in asked, asked
"""


def test_every_help_of_every_command_imports_nothing_heavy():
    """Counted in modules, not in seconds: all helps together need a few hundred, which takes a fraction of a second."""
    modules = modules_after(HELPS)
    assert not modules.intersection(HEAVY)
    assert len(modules) < 600, len(modules)
