"""Imports point one way: from the face down to `summarily.support`, lazy imports and names in strings included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from summarily.metrics import METRICS

ROOT = Path(__file__).parent.parent
FOLDERS = ("summarily", "modeling", "metrics", "hub_cards", "spaces")

# From the bottom to the top. What is no sub-package is the public face, and the program of a metric's Space is of the
# layer of Spaces, though it is published from the metric's folder.
LAYERS = ("support", "modeling", "metrics", "hub_cards", "spaces", "studies", "face")


def modules() -> dict[str, Path]:
    """Every module of ours that is no test, by the name under which it installs."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if folder == "summarily" else ("summarily", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_program(module: str) -> bool:
    """A metric's `app.py`."""
    return module.startswith("summarily.metrics.") and module.endswith(".app")


def layer(module: str) -> int:
    if is_program(module):
        return LAYERS.index("spaces")
    parts = module.split(".")
    return LAYERS.index(parts[1] if len(parts) > 1 and parts[1] in LAYERS else "face")


def imported(module: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of ours that a file names: in imports anywhere in it, and in strings (tables of lazy names,
    `import_module`), whole or as the beginning of an f-string."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            for name in node.names:
                yield f"{base}.{name.name}" if f"{base}.{name.name}" in known else base
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            beginning = str(node.values[0].value).rpartition(".")[0]
            if "." in beginning and beginning in known:
                yield beginning
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value.partition(":")[0]
            if "." in named and named in known:
                yield named


def edges() -> set[tuple[str, str]]:
    known = modules()
    return {
        (module, target)
        for module, path in known.items()
        for target in imported(module, path, known)
        if target.split(".")[0] == "summarily"
    }


def test_no_import_points_upwards():
    upwards = {(module, target) for module, target in edges() if layer(module) < layer(target)}
    told = "\n".join(f"{module} imports {target}, which lies above it" for module, target in sorted(upwards))
    assert not upwards, told


def test_nobody_imports_a_program():
    assert not [edge for edge in edges() if is_program(edge[1])]


def metric_folder(module: str) -> str | None:
    """The folder of the metric that a module is part of."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["metrics"] and len(parts) > 2 and parts[2] in METRICS else None


def test_no_metric_imports_another():
    """What two metrics share lies beside their folders, not in one of them."""
    siblings = {
        (module, target)
        for module, target in edges()
        if metric_folder(module) and metric_folder(target) and metric_folder(module) != metric_folder(target)
    }
    told = "\n".join(f"{module} imports {target}, of another metric" for module, target in sorted(siblings))
    assert not siblings, told
    assert {metric_folder(module) for module in modules()} >= set(METRICS)


def test_the_walk_sees_lazy_relative_and_quoted_names(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "from . import sibling\n"
        "def later():\n"
        "    from ..metrics.base import Metric\n"
        "    import summarily.face\n"
        "    import_module('summarily.quoted')\n"
        "    import_module(f'summarily.family.{name}')\n"
        "WHERE = {'x': 'summarily.table:read'}\n"
    )
    expected = {
        f"summarily.{name}"
        for name in ("modeling.sibling", "metrics.base", "face", "quoted", "family", "table")
    }
    known = dict.fromkeys(expected, path)
    assert set(imported("summarily.modeling.module", path, known)) == expected
