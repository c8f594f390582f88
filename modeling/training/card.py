"""Model cards: templates (`templates/`) that the run fills in itself."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import torch

from summarily.modeling.training.recipe import Recipe
from summarily.support.keys import Key
from summarily.support.version import __version__

if TYPE_CHECKING:
    from summarily.modeling.training.progress import RunResult
    from summarily.modeling.training.task import Task

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, task: Task, result: RunResult, **values: Any) -> str:
    """The card of a run: a template with what every run knows, and with the `values` of its task."""
    recipe = task.recipe
    cost = (
        f"{result.minutes:.1f} minutes on {hardware()}; {result.parameters:,} parameters; weights stored as "
        f"{recipe.hub.dtype}."
    )
    common = {
        "parameters": f"{result.parameters:,}",
        "version": __version__,
        "note": f"\n{recipe.hub.note}\n" if recipe.hub.note else "",
        "training": training_table(recipe),
        "reason": result.reason,
        "step": f"{result.step:,}",
        "epoch": result.epoch,
        "best_step": f"{result.best_step:,}",
        "select": recipe.evaluation.select,
        "cost": cost,
        "commit": commit(),
        "torch": torch.__version__,
        "limits": recipe.hub.limits or task.limits,
        "citation": citation(recipe),
    }
    return fill(template, **common | values) + "\n"


def fill(template: str, **values: Any) -> str:
    """A file of `templates/` with its `$names` replaced; a name without a value, or a value without a name, is an error.

    Example:
        >>> fill("scores", examples="3", generation="{}", cut="", table="| |", signatures="-").splitlines()[0]
        'On 3 rows of the test split, generated with `{}`:'
    """
    text = Template((TEMPLATES / f"{template}.md").read_text(encoding="utf-8"))
    if unused := sorted(values.keys() - set(text.get_identifiers())):
        raise KeyError(f"templates/{template}.md does not say {', '.join(unused)}")
    return text.substitute(values).rstrip("\n")


def with_scores(card: str, scores: str, measured: Mapping[str, float], split: str) -> str:
    """A card whose section "Scores" and whose metadata are those of a later measurement.

    Example:
        >>> card = "---\\nmodel-index: []\\n---\\n## Scores\\n\\nnone\\n\\n## Limits\\n"
        >>> with_scores(card, "ROUGE-1 40", {"rouge1": 0.4}, "test").split("\\n\\n")[1]
        'ROUGE-1 40'
    """
    text = re.sub(
        r"(^## Scores\n\n).*?(\n\n## )",
        lambda m: m[1] + scores.strip() + m[2],
        card,
        count=1,
        flags=re.S | re.M,
    )
    dataset = {"name": "CNN/DailyMail", "type": "cnn_dailymail", "split": split}
    name = re.search(r"^# (.+)$", card, re.M)
    rounded = {key: round(value, 4) for key, value in measured.items()}
    index = json.dumps(model_index(name[1] if name else "", {"type": "summarization"}, dataset, rounded))
    return re.sub(r"^model-index: .*$", lambda _: f"model-index: {index}", text, count=1, flags=re.M)


def citation(recipe: Recipe) -> str:
    """The work the model comes from, in BibTeX where the recipe gives it."""
    if recipe.hub.citation:
        return f"```bibtex\n{recipe.hub.citation.strip()}\n```"
    return "Cite the data and the model class it was trained with; this checkpoint has no publication of its own."


def front_matter(recipe: Recipe, meta: Mapping[str, Any]) -> str:
    """The metadata that the Hub reads (YAML; every value is written as JSON, which YAML includes)."""
    values = {
        "license": recipe.hub.license,
        "language": recipe.hub.language,
        "library_name": "transformers",
        **meta,
    }
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join(["---", *lines, "---"])


def model_index(
    name: str, task: Mapping[str, str], dataset: Mapping[str, str], measured: Mapping[str, float], **kind: str
) -> list[dict[str, Any]]:
    """What the Hub shows beside a model: scores, each of the type of its name unless `type` says another."""
    metrics = [{"type": key, "name": key, "value": value} | kind for key, value in measured.items()]
    return [{"name": name, "results": [{"task": task, "dataset": dataset, "metrics": metrics}]}]


def file_names(paths: Iterable[str]) -> str:
    """Files without their folders and endings, once each.

    Example:
        >>> file_names(["news/bbc.jsonl.gz", "long/arxiv.jsonl.gz"])
        'bbc, arxiv'
    """
    return ", ".join(dict.fromkeys(Path(path).name.split(".")[0] for path in paths))


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def training_table(recipe: Recipe) -> str:
    """Every hyperparameter that is not a default of transformers' config."""
    sections = {
        "model.config": recipe.model.config,
        "tokenizer": vars(recipe.tokenizer)
        if recipe.tokenizer.kind != "pretrained"
        else {"kind": "pretrained"},
        "batch": vars(recipe.batch),
        "optimizer": vars(recipe.optimizer),
        "schedule": vars(recipe.schedule),
        "training": vars(recipe.training),
    }
    rows = [f"| {name} | {_settings(values)} |" for name, values in sections.items() if values]
    return "\n".join(["| section | settings |", "|---|---|", *rows])


def scores_table(result: RunResult) -> str:
    rows = [f"| {Key(key).label} | {value:.4f} |" for key, value in result.scores.items()]
    return "\n".join(["| score | mean |", "|---|---|", *rows])


def hardware() -> str:
    """The device and its number, without anything that names the machine."""
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    return f"a CPU ({platform.machine()}, {torch.get_num_threads()} threads of {os.cpu_count()} cores)"


def commit() -> str:
    """The commit of this code, if it runs from a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"release {__version__}"
    return done.stdout.strip()


def _settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)
