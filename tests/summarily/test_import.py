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


def test_public_names_exist():
    import summarily

    for name in summarily.__all__:
        assert getattr(summarily, name) is not None
    assert set(summarily.__all__) <= set(dir(summarily))
