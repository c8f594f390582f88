"""Imports point one way: from the face down to `summarily.support`, lazy imports and names in strings included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("summarily", "modeling", "metrics", "hub_cards", "spaces")

# From the bottom to the top. What is no sub-package is the public face.
LAYERS = ("support", "modeling", "metrics", "hub_cards", "spaces", "studies", "face")

# What is left to do: imports that point upwards.
EXCEPTIONS: set[tuple[str, str]] = {
    ("summarily.hub_cards.building", "summarily.spaces"),
    ("summarily.metrics.apes.readers", "summarily.hub_cards"),
    ("summarily.metrics.bartscore.scorer", "summarily.hub_cards"),
    ("summarily.metrics.base", "summarily.version"),
    ("summarily.metrics.bertscore.baseline", "summarily.version"),
    ("summarily.metrics.bleurt.scorer", "summarily.hub_cards"),
    ("summarily.metrics.meta_evaluation.benchmark", "summarily.inputs"),
    ("summarily.metrics.meta_evaluation.corruption", "summarily.inputs"),
    ("summarily.metrics.meta_evaluation.human", "summarily.inputs"),
    ("summarily.metrics.meta_evaluation.paraphrase", "summarily.inputs"),
    ("summarily.metrics.meta_evaluation.scores", "summarily.cli"),
    ("summarily.metrics.scorecard", "summarily.processes"),
    ("summarily.modeling.adapted_encoder", "summarily.metrics.weights"),
    ("summarily.modeling.apeso.labels", "summarily.metrics.apes.questions"),
    ("summarily.modeling.apeso.labels", "summarily.metrics.apes.recognition"),
    ("summarily.modeling.apeso.study", "summarily"),
    ("summarily.modeling.apeso.study", "summarily.metrics.files"),
    ("summarily.modeling.apeso.study", "summarily.metrics.resampling"),
    ("summarily.modeling.attention_variants.study", "summarily"),
    ("summarily.modeling.attention_variants.study", "summarily.metrics.files"),
    ("summarily.modeling.attention_variants.study", "summarily.metrics.resampling"),
    ("summarily.modeling.bleurt.perturbations", "summarily.metrics.meta_evaluation.corruption"),
    ("summarily.modeling.bleurt.perturbations", "summarily.metrics.text"),
    ("summarily.modeling.bleurt.training", "summarily"),
    ("summarily.modeling.bleurt.training", "summarily.inputs"),
    ("summarily.modeling.bleurt.training", "summarily.metrics.base"),
    ("summarily.modeling.bleurt.training", "summarily.metrics.files"),
    ("summarily.modeling.bleurt.training", "summarily.metrics.meta_evaluation.correlation"),
    ("summarily.modeling.bleurt.training", "summarily.metrics.meta_evaluation.human"),
    ("summarily.modeling.cross_reader.modeling_cross_reader", "summarily.metrics.weights"),
    ("summarily.modeling.generation.tune_penalties", "summarily.metrics.base"),
    ("summarily.modeling.generation.tune_penalties", "summarily.metrics.files"),
    ("summarily.modeling.generation.tune_penalties", "summarily.metrics.tables"),
    ("summarily.modeling.led.study", "summarily"),
    ("summarily.modeling.led.study", "summarily.metrics.files"),
    ("summarily.modeling.led.study", "summarily.metrics.resampling"),
    ("summarily.modeling.memory_profile", "summarily.metrics.files"),
    ("summarily.modeling.pointer_generator.learning_to_copy", "summarily.metrics.vectors"),
    ("summarily.modeling.pointer_generator.news", "summarily.metrics.apes.corpus"),
    ("summarily.modeling.pointer_generator.news", "summarily.metrics.files"),
    ("summarily.modeling.pointer_generator.news", "summarily.metrics.rouge.scorer"),
    ("summarily.modeling.pointer_generator.news", "summarily.metrics.text"),
    ("summarily.modeling.training.building", "summarily.processes"),
    ("summarily.modeling.training.card", "summarily.version"),
    ("summarily.modeling.training.evaluation", "summarily"),
    ("summarily.modeling.training.reading", "summarily.metrics.apes.corpus"),
    ("summarily.modeling.training.reading", "summarily.metrics.base"),
    ("summarily.modeling.training.reading", "summarily.metrics.text"),
    ("summarily.modeling.training.reading", "summarily.metrics.vectors"),
    ("summarily.modeling.training.reading", "summarily.version"),
    ("summarily.modeling.training.self_critical", "summarily.metrics.reward_workers"),
    ("summarily.modeling.training.self_critical_study", "summarily"),
    ("summarily.modeling.training.self_critical_study", "summarily.metrics.base"),
    ("summarily.modeling.training.self_critical_study", "summarily.metrics.files"),
    ("summarily.modeling.training.self_critical_study", "summarily.metrics.hooks"),
    ("summarily.modeling.training.self_critical_study", "summarily.metrics.resampling"),
    ("summarily.modeling.training.study", "summarily.metrics.apes.study"),
    ("summarily.spaces.metric", "summarily.sample"),
    ("summarily.spaces.scorecard.interface", "summarily.sample"),
    ("summarily.spaces.summarize.interface", "summarily.sample"),
    ("summarily.spaces.summarize.writing", "summarily"),
    ("summarily.spaces.texts", "summarily.inputs"),
}


def modules() -> dict[str, Path]:
    """Every module of ours that is no test, by the name under which it installs."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if folder == "summarily" else ("summarily", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def layer(module: str) -> int:
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
            if beginning in known:
                yield beginning
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            named = node.value.partition(":")[0]
            if named in known:
                yield named


def edges() -> set[tuple[str, str]]:
    known = modules()
    return {
        (module, target)
        for module, path in known.items()
        for target in imported(module, path, known)
        if target.split(".")[0] == "summarily"
    }


def is_entry_point(module: str) -> bool:
    """A metric's `app.py` is the program of its Space: nobody imports it."""
    return module.startswith("summarily.metrics.") and module.endswith(".app")


def test_no_import_points_upwards():
    upwards = {
        (module, target)
        for module, target in edges()
        if layer(module) < layer(target)
        and not (is_entry_point(module) and layer(target) == LAYERS.index("spaces"))
    }
    new = sorted(upwards - EXCEPTIONS)
    assert not new, "\n".join(f"{module} imports {target}, which lies above it" for module, target in new)
    stale = sorted(EXCEPTIONS - upwards)
    assert not stale, f"these exceptions are no longer needed: {stale}"


def test_nobody_imports_an_entry_point():
    assert not [edge for edge in edges() if is_entry_point(edge[1])]


def test_the_walk_sees_lazy_relative_and_quoted_names(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "from . import text\n"
        "def later():\n"
        "    from ..metrics.base import Metric\n"
        "    import summarily.cli\n"
        "    import_module('summarily.sample')\n"
        "    import_module(f'summarily.spaces.{name}')\n"
        "WHERE = {'x': 'summarily.inputs:read'}\n"
    )
    names = ["text", "metrics.base", "sample", "spaces", "inputs"]
    known = {
        name if name.startswith("summarily") else f"summarily.modeling.{name}": path for name in ["text"]
    }
    known |= {f"summarily.{name}": path for name in names}
    assert set(imported("summarily.modeling.module", path, known)) == {
        "summarily.modeling.text",
        "summarily.metrics.base",
        "summarily.cli",
        "summarily.sample",
        "summarily.spaces",
        "summarily.inputs",
    }
