"""The kinds of training, one file each."""

from __future__ import annotations

import importlib

from summarily.modeling.training.recipe import Recipe
from summarily.modeling.training.task import Task

TASKS = {
    "summary": "SummaryTask",
    "denoising": "DenoisingTask",
    "self_critical": "SelfCriticalTask",
    "reading": "ReadingTask",
    "rating": "RatingTask",
}


def task_of(recipe: Recipe) -> type[Task]:
    """The task that a recipe describes.

    Example:
        >>> from summarily.modeling.training.recipe import load_recipe
        >>> task_of(load_recipe("denoiser")).__name__
        'DenoisingTask'
    """
    return getattr(importlib.import_module(f"{__name__}.{recipe.task}"), TASKS[recipe.task])
