"""What the documents show runs: doctests of every module, and the Python of the README, the guides and the cards."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import re
from pathlib import Path

import pytest

import summarily.hub_cards
import summarily.metrics
import summarily.modeling
import summarily.spaces
import summarily.studies
import summarily.support

ROOT = Path(__file__).parents[1]


def modules() -> list[str]:
    names = [f"summarily.{path.stem}" for path in (ROOT / "summarily").glob("[a-z]*.py")]
    for package in (
        summarily.hub_cards,
        summarily.metrics,
        summarily.modeling,
        summarily.spaces,
        summarily.studies,
        summarily.support,
    ):
        names.append(package.__name__)
        names += [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    apps = [name for name in names if re.fullmatch(r"summarily\.(metrics|spaces)\.\w+\.app", name)]
    return sorted(name for name in names if name not in apps and name.split(".")[-1] != "__main__")


@pytest.mark.parametrize("name", modules())
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(module, optionflags=flags)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples in {name} fail"


def python_blocks(document: Path) -> list[str]:
    return re.findall(
        r"^```(?:python|py)\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "metrics").glob("*/README.md")),
    *sorted((ROOT / "hub_cards").glob("*/README.md")),
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]


@contextlib.contextmanager
def few_words(monkeypatch):
    """Models write eight tokens: whether what is written runs does not depend on how much, and it takes the time."""
    import torch
    import transformers

    class Enough(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **_):
            return torch.full((len(input_ids),), input_ids.shape[1] > 8, device=input_ids.device)

    generate = transformers.GenerationMixin.generate

    def shortened(self, *arguments, stopping_criteria=None, **options):
        criteria = transformers.StoppingCriteriaList([*(stopping_criteria or ()), Enough()])
        return generate(self, *arguments, stopping_criteria=criteria, **options)

    with monkeypatch.context() as patch:
        patch.setattr(transformers.GenerationMixin, "generate", shortened)
        yield


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_of_the_documents_runs(document, tiny_summarizer, tmp_path, monkeypatch):
    """Blocks of one document share their names, as a reader would type them one after the other."""
    monkeypatch.chdir(tmp_path)
    names = dict(tiny_summarizer)
    for block in python_blocks(document):
        with contextlib.redirect_stdout(io.StringIO()):
            if ">>>" in block:
                example = doctest.DocTestParser().get_doctest(block, names, document.name, str(document), 0)
                runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
                runner.run(example, clear_globs=False)
                names = example.globs
                assert runner.summarize().failed == 0
            else:
                with few_words(monkeypatch):
                    exec(compile(block, str(document), "exec"), names)


@pytest.mark.parametrize("module", ["summarily", "summarily.metrics", "summarily.modeling"])
def test_every_public_name_has_an_example_that_runs(module):
    """That examples run is what the doctests above say, unless one is skipped."""
    package = importlib.import_module(module)
    for name in package.__all__:
        value = getattr(package, name)
        if callable(value):
            lines = [
                line for line in (inspect.getdoc(value) or "").splitlines() if line.lstrip().startswith(">>>")
            ]
            assert any("+SKIP" not in line for line in lines), f"{module}.{name} shows no example"
