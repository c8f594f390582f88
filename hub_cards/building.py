"""The folders that go to the Hub, built exactly as they will lie there.

A metric and a demo become a Space each, a model a model repository with the code it needs beside its weights.

>>> "me/rouge" in [repository.id("me") for repository in repositories("metrics")]
True
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summarily.support.errors import InputError
from summarily.support.folders import package_folder
from summarily.support.shipped import ADAPTER, merged
from summarily.support.suggestions import did_you_mean

KINDS = ("metrics", "models", "spaces")
# What a card points to with a relative link or an image.
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|(?:src|href)=\"([^\"]+)\"")


@dataclass(frozen=True)
class Repository:
    """One repository of the Hub: where it comes from and what it is called."""

    kind: str
    name: str
    source: Path

    @property
    def repo_type(self) -> str:
        return "model" if self.kind == "models" else "space"

    def id(self, organisation: str) -> str:
        return f"{organisation}/{self.name}"


def repositories(kind: str, names: list[str] | None = None) -> list[Repository]:
    """What there is to publish of one kind, or of `"all"`; `names` picks some.

    Example:
        >>> [repository.repo_type for repository in repositories("models", ["headlines"])]
        ['model']
    """
    found = [repository for one in (KINDS if kind == "all" else (kind,)) for repository in _of_kind(one)]
    known = {repository.name for repository in found}
    for name in names or []:
        if name not in known:
            raise InputError(
                f"there is nothing called {name!r} among {kind};{did_you_mean(name, sorted(known))}"
            )
    return [repository for repository in found if not names or repository.name in names]


def _of_kind(kind: str) -> list[Repository]:
    import summarily.hub_cards
    import summarily.metrics

    if kind == "metrics":
        root = Path(summarily.metrics.__path__[0])
        return [Repository(kind, name, root / name) for name in summarily.metrics.METRICS]
    if kind == "models":
        return [
            Repository(kind, name, Path(summarily.hub_cards.folder(name)))
            for name in summarily.hub_cards.shipped()
        ]
    apps = sorted(package_folder("spaces").glob("*/app.py"))
    return [Repository(kind, path.parent.name, path.parent) for path in apps]


def build(repository: Repository, folder: Path) -> Path:
    """Build one repository in `folder/<kind>/<name>`, all or nothing; returns that folder."""
    from summarily.support.files import write_folder

    write = {"metrics": _metric, "models": _model, "spaces": _space}[repository.kind]
    target = folder / repository.kind / repository.name
    write_folder(target, lambda partial: write(repository, partial), marker=False)
    return target


def _copy(repository: Repository, names: list[str], folder: Path) -> None:
    """Copy files, and what the card shows of its own folder."""
    card = (repository.source / "README.md").read_text(encoding="utf-8")
    for name in [*names, *relative_links(card)]:
        source = (repository.source / name).resolve()
        if source.is_file() and source.is_relative_to(repository.source.resolve()):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        elif name in names:
            raise InputError(
                f"{repository.kind}/{repository.name} has no {name}; write it before publishing."
            )


def relative_links(card: str) -> list[str]:
    """The files a card refers to, once each, code blocks left out.

    Example:
        >>> relative_links("![plot](study.png) [site](https://example.org) [above](#use)")
        ['study.png']
    """
    text = re.sub(r"^```.*?^```", "", card, flags=re.MULTILINE | re.DOTALL)
    links = [first or second for first, second in _LINK.findall(text)]
    inside = [link.split("#")[0] for link in links if not re.match(r"[a-z]+:|#|/", link)]
    return list(dict.fromkeys(inside))


def _metric(repository: Repository, folder: Path) -> None:
    _copy(repository, [f"{repository.name}.py", "app.py", "README.md", "requirements.txt"], folder)


def _space(repository: Repository, folder: Path) -> None:
    _copy(repository, ["app.py", "README.md", "requirements.txt"], folder)


def _model(repository: Repository, folder: Path) -> None:
    """Weights, tokenizer, card, and the code; a model that is stored as what differs from a pinned one is made whole."""
    from summarily.modeling.generation.summary_beam_search import SearchesWithPenalties
    from summarily.modeling.remote_code import write_custom_generate, write_remote_code

    kept = [path.name for path in repository.source.iterdir() if path.is_file() and path.suffix != ".py"]
    if (repository.source / ADAPTER).is_file():  # beside the adapter, so that nobody needs its base
        shutil.copytree(merged(repository.source), folder, dirs_exist_ok=True)
    _copy(repository, sorted(kept), folder)
    model_class = _class_of(repository)
    if model_class is None:
        return  # a class of transformers itself
    if hasattr(model_class, "merged"):
        import torch

        adapted = model_class.from_pretrained(repository.source)
        adapted.merged().save_pretrained(folder, stored_dtype=torch.float16)
        if adapted.config.encoder is not None:
            adapted.encoder_tokenizer().save_pretrained(folder)
    write_remote_code(model_class, folder)
    if issubclass(model_class, SearchesWithPenalties):
        write_custom_generate(folder)


def _class_of(repository: Repository) -> Any:
    import summarily.modeling

    config = json.loads((repository.source / "config.json").read_text(encoding="utf-8"))
    [name] = config["architectures"]
    return getattr(summarily.modeling, name) if name in summarily.modeling.__all__ else None
