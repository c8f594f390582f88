"""The Gradio app of one metric; every metric folder's `app.py` is a call of `launch`."""

from __future__ import annotations

import json
from typing import Any

from summarily.metrics import load, metric_class
from summarily.metrics.base import InputError, MissingRequirement

LONGEST = 20_000
"""Characters of one input."""


def score_one(name: str, prediction: str, references: str) -> tuple[list[list[str]], str, str]:
    """The table, signature and explanation that the app shows; references are separated by blank lines."""
    texts = [part.strip() for part in references.split("\n\n") if part.strip()]
    if not prediction.strip() or not texts:
        raise InputError("Please give a summary and at least one reference.")
    if len(prediction) > LONGEST or len(references) > LONGEST:
        raise InputError(
            f"Please keep each text under {LONGEST:,} characters; for more, use the Python package."
        )
    metric = load(name)
    metric.check()
    score = metric.compute([prediction], [texts])
    rows = [[key, f"{value:.4f}"] for key, value in score.mean.items()]
    return rows, str(score.signature), json.dumps(score.explain(0), indent=2, ensure_ascii=False)


def build(name: str) -> Any:
    """The app as Gradio Blocks."""
    try:
        import gradio as gr
    except ImportError:
        raise MissingRequirement('the app needs gradio: pip install "summarily[demo]"') from None
    from summarily.sample import SYSTEMS, load_sample

    def run(prediction: str, references: str) -> tuple[list[list[str]], str, str]:
        try:
            return score_one(name, prediction, references)
        except (InputError, MissingRequirement) as error:
            raise gr.Error(str(error)) from None

    sample = load_sample()
    metric = metric_class(name)
    with gr.Blocks(title=f"{name} - Summarily") as app:
        gr.Markdown(f"# {name}\n{metric.summary}")
        with gr.Row():
            prediction = gr.Textbox(label="Summary to score", lines=6, max_length=LONGEST)
            references = gr.Textbox(label="References, separated by blank lines", lines=6, max_length=LONGEST)
        button = gr.Button("Score", variant="primary")
        table = gr.Dataframe(headers=["value", "score"], label="Score", interactive=False)
        signature = gr.Textbox(label="Signature", interactive=False)
        with gr.Accordion("Explanation", open=False):
            explanation = gr.Code(label="What was matched", language="json")
        button.click(run, [prediction, references], [table, signature, explanation], api_name="score")
        gr.Examples(
            [
                [row[system], "\n\n".join(row["references"])]
                for row, system in zip(sample, SYSTEMS, strict=False)
            ],
            [prediction, references],
        )
    return app.queue(max_size=32, default_concurrency_limit=2)


def launch(name: str, **options: Any) -> None:
    """Serve the app of a metric."""
    build(name).launch(**options)
