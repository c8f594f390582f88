"""The paper's comparison of attention mechanisms (its Table 4) at the scale of two CPU cores.

Each mechanism trains on the same batches for the same number of steps; the unmasked ones twice, once with a
causal decoder and once with the leaky one that the paper used. All are scored on held-out articles with ROUGE
recall and VERT beside the first words of the source.

    summarily study attention --data FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from summarily.studies import report
from summarily.studies.runner import Cell, predictions, results, run_cells

MECHANISMS = {
    # name of the cell: mechanism, leaky decoder, ROUGE-1 recall in the paper's Table 4, its VERT
    "dot_product": ("dot_product", False, 25.72, 59.13),
    "relative": ("relative", False, 27.05, 59.55),
    "local": ("local", False, None, None),
    "local_leaky": ("local", True, 1.93, 1.04),
    "local_masked": ("local_masked", False, 25.72, 58.89),
    "local_block_masked": ("local_block_masked", False, 14.13, 51.73),
    "dilated": ("dilated", False, None, None),
    "dilated_leaky": ("dilated", True, 0.01, 18.10),
    "dilated_masked": ("dilated_masked", False, 19.06, 53.85),
}
LEAD_WORDS = 14
BASELINE = "dot_product"
COLUMNS = (
    "rouge1_recall",
    "rouge2_recall",
    "rougeL_recall",
    "rouge1",
    "vert_similarity",
    "vert_distance",
    "vert",
)


def make_cells(recipe: str, steps: int, overrides: Sequence[str] = ()) -> list[Cell]:
    """One cell per mechanism, all with the same recipe and number of steps."""
    return [
        Cell(
            name,
            recipe,
            (
                f"model.config.attention_type={mechanism}",
                f"model.config.leaky_decoder={str(leaky).lower()}",
                f"training.max_steps={steps}",
                *overrides,
            ),
        )
        for name, (mechanism, leaky, _, _) in MECHANISMS.items()
    ]


def lead_words(recipe: str, data: str | None, overrides: Sequence[str], words: int = LEAD_WORDS) -> list[str]:
    """The first words of each source of the test split: the baseline."""
    from summarily.modeling.training.corpora import load_corpus
    from summarily.modeling.training.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    rows = load_corpus(loaded.data, data).splits["test"]
    if loaded.evaluation.test_examples is not None:
        rows = rows.select(range(min(loaded.evaluation.test_examples, len(rows))))
    return [" ".join(source.split()[:words]) for source in rows["source"]]


def score_study(cells: Sequence[Cell], folder: Path, lead: Sequence[str]) -> dict[str, Any]:
    """Every finished cell and the first words of the source, scored with intervals.

    ROUGE-1 recall of each is compared with the dot product's by a paired permutation test, corrected by Holm.
    """
    from summarily.metrics.resampling import holm, paired_test
    from summarily.metrics.scorecard import score

    stored = results(cells, folder)
    systems = {f"lead-{LEAD_WORDS} words": list(lead)}
    references: list[list[str]] = []
    for cell in cells:
        if cell.name in stored:
            systems[cell.name], references = predictions(cell, folder)
    cards = {
        name: score(texts, references, metrics=["rouge", "vert"], confidence=0.95)
        for name, texts in systems.items()
    }
    rows: dict[str, dict[str, Any]] = {}
    for name, card in cards.items():
        rows[name] = {
            **report.scores_of(card, COLUMNS),
            "distinct": len(set(systems[name])),
            **{key: stored.get(name, {}).get(key) for key in ("step", "minutes", "parameters")},
            "loss": stored.get(name, {}).get("scores", {}).get("loss"),
        }
    others = [name for name in cards if name != BASELINE and BASELINE in cards]
    recalls = {name: card["rouge"].per_example["rouge1_recall"] for name, card in cards.items()}
    tests = [paired_test(recalls[name], recalls[BASELINE]) for name in others]
    for name, p in zip(others, holm([test.p_permutation for test in tests]), strict=True):
        rows[name]["p_against_dot_product"] = p
    signatures = report.signatures(next(iter(cards.values())))
    return {"examples": len(references), "rows": rows, "signatures": signatures}


def markdown(study: Mapping[str, Any]) -> str:
    """The table, in the shape of the paper's Table 4 with its numbers beside ours."""
    head = [
        *(
            "mechanism",
            "R-1 recall",
            "p",
            "R-2 recall",
            "R-L recall",
            "R-1 F",
            "VERT-S",
            "VERT-D",
            "VERT",
            "test loss",
        ),
        *("distinct summaries", "minutes", "paper: R-1 recall, VERT"),
    ]
    lines = []
    for name, row in study["rows"].items():
        scores = row["scores"]
        recall = scores["rouge1_recall"], row["intervals"]["rouge1_recall"]
        paper = MECHANISMS.get(name, (None, None, None, None))[2:]
        cells = [
            name.replace("_", " "),
            report.with_interval(*recall, ".2f", 100, ".1f"),
            f"{row['p_against_dot_product']:.4f}" if "p_against_dot_product" in row else "",
            *(f"{100 * scores[key]:.2f}" for key in ("rouge2_recall", "rougeL_recall", "rouge1")),
            f"{scores['vert_similarity']:.3f}",
            f"{scores['vert_distance']:.3f}",
            f"{100 * scores['vert']:.2f}",
            "" if row["loss"] is None else f"{row['loss']:.3f}",
            f"{row['distinct']} of {study['examples']}",
            "" if row["minutes"] is None else f"{row['minutes']:.1f}",
            "" if paper[0] is None else f"{paper[0]:.2f}, {paper[1]:.2f}",
        ]
        lines.append(cells)
    return "\n".join(
        [*report.table(head, lines), "", *(f"`{signature}`" for signature in study["signatures"].values())]
    )


def plot(study: Mapping[str, Any], path: Path) -> None:
    """ROUGE-1 recall of each mechanism with its interval, the baseline as a line."""
    rows = dict(study["rows"])
    baseline = rows.pop(f"lead-{LEAD_WORDS} words")["scores"]["rouge1_recall"]
    means = [100 * row["scores"]["rouge1_recall"] for row in rows.values()]
    errors = [
        [
            mean - 100 * row["intervals"]["rouge1_recall"][0]
            for mean, row in zip(means, rows.values(), strict=True)
        ],
        [
            100 * row["intervals"]["rouge1_recall"][1] - mean
            for mean, row in zip(means, rows.values(), strict=True)
        ],
    ]
    with report.picture(path, dpi=150, figsize=(8, 4)) as axis:
        axis.barh([name.replace("_", " ") for name in rows], means, xerr=errors, color="#4477aa", capsize=3)
        axis.axvline(
            100 * baseline, color="#cc6677", linestyle="--", label=f"first {LEAD_WORDS} words of the source"
        )
        axis.set_xlabel("ROUGE-1 recall on held-out articles (95% interval)")
        axis.invert_yaxis()
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", default="attention_variants_reuters", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=1200, help="of every mechanism (default: %(default)s)")
    report.add_arguments(parser, "runs/study-attention", jobs=2, what="mechanism")


def run(options: argparse.Namespace) -> int:
    """Run or go on with the study, then write `study.json`, `study.md` and `study.png`."""
    folder = Path(options.output)
    cells = make_cells(options.recipe, options.steps, options.set)
    run_cells(cells, folder, options.data, options.jobs)
    study = score_study(cells, folder, lead_words(options.recipe, options.data, options.set))
    plot(study, folder / "study.png")
    report.write(folder, study, markdown(study), "study.png")
    return 0
