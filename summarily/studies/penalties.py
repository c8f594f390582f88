"""Choose alpha, beta and gamma of the penalised beam search on a validation split.

Every point of the grid is a line of `points.jsonl` in the output folder, written when it is done: a search that is
stopped goes on where it was, and a larger grid begins with the points that are there. Ties go to the smaller
penalties. The default grid is that of Eyal et al. (2019), with 0 for no penalty.

    summarily tune-penalties FOLDER --recipe apeso_news --data DATA --metrics rouge --select rougeL
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from summarily.studies.report import mean_words
from summarily.support.inputs import read_json

ALPHA, BETA, GAMMA = (0.2, 0.9, 1.5), (0.0, 0.5, 1.0, 2.0, 5.0, 10.0), (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)


class Point(NamedTuple):
    """A place of the grid."""

    alpha: float
    beta: float
    gamma: float


def make_grid(alpha: Iterable[float], beta: Iterable[float], gamma: Iterable[float]) -> list[Point]:
    """All combinations, smaller penalties first.

    Example:
        >>> make_grid([0.9], [0.5, 0.0], [0.0])
        [Point(alpha=0.9, beta=0.0, gamma=0.0), Point(alpha=0.9, beta=0.5, gamma=0.0)]
    """
    return sorted({Point(*map(float, values)) for values in itertools.product(alpha, beta, gamma)})


class Tuning:
    """A grid search over summaries of `rows`, kept in a folder.

    Args:
        model, tokenizer: what writes the summaries.
        rows: encoded rows with `source` and `references`, of a validation split.
        folder: where the points are kept; one with other settings is refused.
        metrics: scored at every point; names, or names with options.
        search: further arguments of `generate`, such as `{"num_beams": 5, "block_ngram": 3}`.
        tokens: in a batch, padding included.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        rows: Any,
        folder: Path,
        metrics: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("rouge",),
        search: Mapping[str, Any] | None = None,
        tokens: int = 8192,
    ):
        self.model, self.tokenizer, self.rows, self.tokens = model, tokenizer, rows, tokens
        self.metrics = dict(metrics) if isinstance(metrics, Mapping) else list(metrics)
        self.search = dict(search or {})
        self.path = folder / "points.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        self._check_settings(folder / "settings.json")

    def _check_settings(self, path: Path) -> None:
        from summarily.support.errors import InputError
        from summarily.support.files import write_atomically

        names = self.rows["id"]
        settings = {
            "model": str(self.model.name_or_path),
            "metrics": self.metrics,
            "search": self.search,
            "rows": [len(names), names[0], names[-1]],
        }
        if not path.exists():
            write_atomically(path, json.dumps(settings, indent=1))
        elif (before := read_json(path, dict)) != json.loads(json.dumps(settings)):
            changed = [key for key in settings if settings[key] != before.get(key)]
            raise InputError(
                f"{path.parent} holds a search with other {', '.join(changed)}; choose another output folder."
            )

    def points(self) -> dict[Point, dict[str, float]]:
        """The scores of the points that are done."""
        from summarily.metrics import load_all
        from summarily.support.keys import keyed

        if not self.path.exists():
            return {}
        keys = [key for metric in load_all(self.metrics)[0].values() for key in metric.keys]
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue  # cut by a kill; the point is done again
            found[Point(*record["point"])] = keyed(record["scores"], keys)
        return found

    def run(self, grid: Iterable[Point]) -> dict[Point, dict[str, float]]:
        """Score what is not done yet; returns all points of the grid."""
        from tqdm.auto import tqdm

        grid = list(grid)
        done = self.points()
        # A kill may have left a line without its end.
        kept = "".join(
            json.dumps({"point": point, "scores": scores}) + "\n" for point, scores in done.items()
        )
        self.path.write_text(kept, encoding="utf-8")
        with self.path.open("a", encoding="utf-8") as file:
            for point in tqdm([point for point in grid if point not in done], disable=None, unit="point"):
                done[point] = self.score(point)
                file.write(json.dumps({"point": point, "scores": done[point]}) + "\n")
                file.flush()
        return {point: done[point] for point in grid}

    def score(self, point: Point) -> dict[str, float]:
        """The means of all scores at one point."""
        from accelerate import Accelerator

        from summarily.modeling.generation.summary_beam_search import summary_beam_search
        from summarily.modeling.training.collators import SummaryCollator
        from summarily.modeling.training.evaluation import score_summaries, summarize
        from summarily.modeling.training.recipe import EvaluationSection

        section = EvaluationSection(metrics=list(self.metrics))
        accelerator = Accelerator()
        search = {**self.search, **point._asdict(), "custom_generate": summary_beam_search}
        collate = SummaryCollator(self.tokenizer.pad_token_id, padding_side=self.tokenizer.padding_side)
        texts = summarize(
            self.model, self.tokenizer, self.rows, collate, section, self.tokens, accelerator, search
        )
        means, _ = score_summaries(texts, self.rows, section, accelerator, self.metrics)
        return means | {"words": mean_words(texts)}


def ordered(points: Mapping[Point, Mapping[str, float]], select: str) -> list[Point]:
    """The points from the best to the worst; of equal ones those with smaller penalties first.

    Example:
        >>> ordered({Point(0.9, 1, 0): {"rougeL": 0.2}, Point(0.9, 0, 0): {"rougeL": 0.2}}, "rougeL")[0]
        Point(alpha=0.9, beta=0, gamma=0)
    """
    from summarily.support.errors import InputError
    from summarily.support.keys import Key

    known = next(iter(points.values()))
    if select not in known:
        raise InputError(f"--select is {select!r}; the metrics have {', '.join(sorted(known))}.")
    key = next(Key(name) for name in known if name == select)
    return sorted(points, key=lambda point: (-key.goodness(points[point][select]), point))


def table(points: Mapping[Point, Mapping[str, float]], select: str) -> str:
    """All points, the best first."""
    from summarily.support.tables import format_table

    best_first = ordered(points, select)
    keys = [select, *(key for key in next(iter(points.values())) if key != select and "_" not in key)]
    rows = [
        [
            *(f"{value:g}" for value in point),
            *(f"{points[point][key]:.4f}" for key in keys),
            "best" if point == best_first[0] else "",
        ]
        for point in best_first
    ]
    header = ["alpha", "beta", "gamma", *keys, ""]
    return format_table(header, rows, right=range(len(header) - 1))


# --- command ----------------------------------------------------------------------------------------------


def add_parser(commands: Any) -> None:
    """Add `summarily tune-penalties`."""
    parser = commands.add_parser(
        "tune-penalties",
        help="choose alpha, beta and gamma of the beam search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="a folder or a name on the Hub, with its tokenizer")
    parser.add_argument("--recipe", required=True, help="whose data section and lengths are used")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="of the recipe"
    )
    parser.add_argument("--data", metavar="FOLDER", help="folder of the data (default: SUMMARILY_DATA)")
    parser.add_argument("--limit", type=int, default=200, help="validation rows (default: %(default)s)")
    for name, values in (("alpha", ALPHA), ("beta", BETA), ("gamma", GAMMA)):
        text = " ".join(map(str, values))
        parser.add_argument(f"--{name}", type=float, nargs="+", default=values, help=f"default: {text}")
    parser.add_argument("--beams", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--min-tokens", type=int, default=0, help="of a summary (default: none)")
    parser.add_argument("--max-tokens", type=int, default=100, help="of a summary (default: %(default)s)")
    parser.add_argument(
        "--block-ngram", type=int, default=3, help="no n-gram twice; 0: none (default: %(default)s)"
    )
    parser.add_argument(
        "--stepwise",
        nargs="*",
        choices=("coverage", "entities"),
        default=["coverage"],
        help="penalties that rank unfinished summaries too (default: coverage, as in the paper)",
    )
    parser.add_argument("--metrics", default="rouge", help="names with commas between (default: %(default)s)")
    parser.add_argument("--select", default="rougeL", help="the score to improve (default: %(default)s)")
    parser.add_argument("--output", default="runs/tune-penalties", help="default: %(default)s")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Search, print the table and write it as `table.txt`."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import summarily.modeling  # noqa: F401  our model types
    from summarily.modeling.training.corpora import encode, load_corpus
    from summarily.modeling.training.recipe import load_recipe
    from summarily.support.files import write_atomically

    recipe = load_recipe(options.recipe, options.set)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(options.model, dtype=torch.float32)
    corpus = load_corpus(recipe.data, options.data)["validation"]
    rows = encode(corpus.select(range(min(options.limit, len(corpus)))), tokenizer, recipe.data)
    search = {
        "num_beams": options.beams,
        "max_new_tokens": options.max_tokens,
        **({"min_new_tokens": options.min_tokens} if options.min_tokens else {}),
        "block_ngram": options.block_ngram,
        "stepwise": options.stepwise,
        "exclude_ids": [i for i in (tokenizer.convert_tokens_to_ids("."),) if i is not None],
    }
    gamma = options.gamma
    if not has_entities(model):
        print("the model predicts no entities: gamma stays 0.")
        gamma = [0.0]
    tuning = Tuning(
        model, tokenizer, rows, Path(options.output), options.metrics.split(","), search, recipe.micro_tokens
    )
    points = tuning.run(make_grid(options.alpha, options.beta, gamma))
    write_atomically(Path(options.output) / "table.txt", table(points, options.select) + "\n")
    print(table(points, options.select))
    return 0


def has_entities(model: Any) -> bool:
    """Whether the encoder says how likely each token is part of a salient entity, as APESO's does."""
    import torch

    ids = torch.full((1, 2), model.config.pad_token_id or 0)
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True)
    return getattr(encoded, "entity_attention", None) is not None
