"""The Space of one metric; every metric folder's `app.py` launches it."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from summarily.metrics import load, metric_class
from summarily.metrics.base import Score
from summarily.metrics.pictures import explanation_html
from summarily.spaces import serving
from summarily.spaces.serving import check_length
from summarily.support.errors import InputError
from summarily.support.markup import note, number, table

LONGEST = 20_000
"""Characters of one input."""


def score_one(name: str, prediction: str, references: str, source: str = "") -> Score:
    """The score of one summary; references are separated by blank lines.

    Example:
        >>> round(float(score_one("rouge", "a cat sat", "the cat sat")), 4)
        0.6667
    """
    prediction = check_length("the summary", prediction or "", LONGEST)
    whole = check_length("the reference", references or "", LONGEST)
    source = check_length("the source", source or "", LONGEST)
    texts = [part.strip() for part in re.split(r"\n\s*\n", whole) if part.strip()]
    if not prediction or not texts:
        raise InputError("Please give a summary and at least one reference.")
    metric = load(name)
    metric.check()
    return metric.compute([prediction], [texts], [source] if source else None)


def score_html(score: Score) -> str:
    """The values and what they are made of."""
    rows = [[key, number(value, score.digits(key))] for key, value in score.mean.items()]
    try:
        why = explanation_html(score.explain(0))
    except InputError as error:
        why = note(serving.sentence(error))
    return (
        f'<div class="result">{table("Score", ["value", "score"], rows)}'
        f"<p><code>{escape(str(score.signature))}</code></p><h3>Why?</h3>{why}</div>"
    )


def build(name: str) -> Any:
    """The app as Gradio Blocks."""
    gr = serving.gradio()
    from summarily.support.sample import SYSTEMS, load_sample

    def run(prediction: str, references: str, source: str) -> tuple[str, dict[str, Any]]:
        score = score_one(name, prediction, references, source)
        return score_html(score), {**score.mean, "signature": str(score.signature)}

    sample = load_sample()
    with serving.blocks(name) as app:
        serving.heading(name, metric_class(name).summary)
        with gr.Row():
            prediction = gr.Textbox(
                label="Summary to score",
                placeholder="Snow closed the airport in Oslo.",
                lines=6,
                max_lines=12,
            )
            references = gr.Textbox(
                label="References, separated by blank lines",
                placeholder="Oslo's airport was shut by snow on Monday.",
                lines=6,
                max_lines=12,
            )
        with gr.Accordion("Source document, for metrics that read it", open=False):
            source = gr.Textbox(
                label="Source", placeholder="The article that was summarized.", lines=6, max_lines=12
            )
        button = gr.Button("Score", variant="primary", elem_id="score")
        gr.Examples(
            [
                [row[system], "\n\n".join(row["references"]), row["source"]]
                for row, system in zip(sample, SYSTEMS, strict=False)
            ],
            [prediction, references, source],
            example_labels=[f"{system}: {row['id']}" for row, system in zip(sample, SYSTEMS, strict=False)],
            label="Examples: click one, then Score",
        )
        status = serving.status()
        shown = gr.HTML(elem_id="results")
        values = gr.JSON(visible=False)
        button.click(
            serving.guarded(run),
            [prediction, references, source],
            [shown, values],
            api_name="score",
            show_progress_on=status,
        )
    return app


def launch(name: str, **options: Any) -> None:
    """Serve the app of a metric."""
    serving.serve(build(name), **options)
