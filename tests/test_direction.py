"""Imports point one way: from the face down to `summarily.support`, lazy imports and names in strings included."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from summarily.metrics import METRICS
from summarily.modeling import FAMILIES

ROOT = Path(__file__).parent.parent
FOLDERS = ("summarily", "modeling", "metrics", "hub_cards", "spaces")

# From the bottom to the top. What is no sub-package is the public face, and the program of a metric's Space is of the
# layer of Spaces, though it is published from the metric's folder.
LAYERS = ("support", "modeling", "metrics", "hub_cards", "spaces", "studies", "face")

# Run in another process, as a user would.
COMMAND = "summarily.__main__"


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
    """The modules of ours that a file names, in the way it may reach them: imports anywhere in it, strings (tables of
    lazy names, `import_module`, code and arguments for another process), and attributes of our package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    constants = dict(plain_constants(tree))
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute("." * node.level + (node.module or ""), package)
            for name in node.names:
                yield f"{base}.{name.name}" if f"{base}.{name.name}" in known else base
        elif isinstance(node, ast.Attribute):
            if (name := ast.unparse(node)).startswith("summarily."):
                yield longest(name, known) or "summarily"  # `summarily.score` is the face's
        elif isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value)
                if isinstance(part, ast.Constant)
                else constants.get(ast.unparse(part.value), "\0")  # what it stands for is not known
                for part in node.values
            )
            if found := longest(text, known):
                yield found
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and str(name.value).startswith("."):
                yield absolute(name.value, package)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("python_module"):
            if [word.value for word in node.args[:1] if isinstance(word, ast.Constant)] == ["summarily"]:
                yield COMMAND
        elif isinstance(node, (ast.List, ast.Tuple)):
            words = [word.value if isinstance(word, ast.Constant) else None for word in node.elts]
            if ("-m", "summarily") in itertools.pairwise(words):
                yield COMMAND
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in shown:
            if found := longest(node.value, known):
                yield found
            yield from re.findall(r"^\s*(?:from|import) (summarily[\w.]*)", node.value, re.MULTILINE)


def plain_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names of a module that stand for a text."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield from ((ast.unparse(target), str(node.value.value)) for target in node.targets)


def absolute(name: str, package: list[str]) -> str:
    """A module that is named beginning with dots, seen from a package."""
    rest = name.lstrip(".")
    level = len(name) - len(rest)
    return ".".join([*package[: len(package) - level + 1], *filter(None, [rest])]) if level else rest


def longest(text: str, known: dict[str, Path]) -> str | None:
    """The module that a text names at its beginning, below the package itself."""
    parts = re.match(r"[\w.]*", text)[0].split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 1, -1))
    return next((name for name in names if name in known), None)


@functools.cache
def edges() -> set[tuple[str, str]]:
    known = modules()
    return {
        (module, target)
        for module, path in known.items()
        for target in imported(module, path, known)
        if target.split(".")[0] == "summarily"
    }


def test_no_import_points_upwards():
    upwards = {
        (module, target) for module, target in edges() if layer(module) < layer(target) and target != COMMAND
    }
    told = "\n".join(f"{module} imports {target}, which lies above it" for module, target in sorted(upwards))
    assert not upwards, told


def test_only_studies_run_the_command():
    """A study is a list of commands; whatever lies below it calls functions."""
    assert {LAYERS[layer(module)] for module, target in edges() if target == COMMAND} == {"studies"}


def test_nobody_imports_a_program():
    assert not [edge for edge in edges() if is_program(edge[1])]


def test_no_model_imports_what_trains_it():
    families = tuple(f"summarily.modeling.{family.folder}." for family in FAMILIES)
    upwards = [
        (module, target)
        for module, target in edges()
        if module.startswith(families) and target.startswith("summarily.modeling.training")
    ]
    assert not upwards


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


def test_the_walk_sees_every_way_to_name_a_module(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""A docstring: import summarily.shown"""\n'
        "from . import sibling\n"
        "PACKAGE = 'summarily'\n"
        "if TYPE_CHECKING:\n"
        "    from summarily.typed import Type\n"
        "def later():\n"
        "    from ..metrics.base import Metric\n"
        "    import summarily.lazy\n"
        "    import_module('summarily.quoted')\n"
        "    import_module(f'summarily.family.{name}')\n"
        "    import_module(f'{PACKAGE}.constant.{name}')\n"
        "    import_module('summarily.sum.' + name)\n"
        "    import_module('..dotted', __package__)\n"
        "    run([sys.executable, '-c', 'import os\\nimport summarily.code'])\n"
        "    run([sys.executable, '-m', 'summarily.program', 'score'])\n"
        "    summarily.attribute.function()\n"
        "WHERE = {'x': 'summarily.table:read', 'y': 'summarily.qualified.Name.method'}\n"
    )
    names = "modeling.sibling metrics.base typed lazy quoted family constant sum dotted code program attribute table"
    expected = {f"summarily.{name}" for name in [*names.split(), "qualified"]}
    known = dict.fromkeys(expected, path)
    assert set(imported("summarily.modeling.module", path, known)) == expected


def test_the_walk_sees_the_face(tmp_path):
    for line in (
        "import summarily.support.text\nsummarily.score([], [])",
        "from summarily import score",
        "run([sys.executable, '-m', 'summarily', 'score'])",
        "run(python_module('summarily', ['score']))",
    ):
        path = tmp_path / "module.py"
        path.write_text(line)
        known = {"summarily": path, "summarily.support.text": path}
        found = set(imported("summarily.metrics.module", path, known))
        assert (COMMAND if "run" in line else "summarily") in found, line
