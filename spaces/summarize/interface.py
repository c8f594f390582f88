"""The page of the summarizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from summarily.modeling.generation.summarizer import DEFAULT
from summarily.spaces import serving
from summarily.spaces.summarize import writing
from summarily.support.sample import load_sample

TITLE = "Summarize"
LEAD = "A summary by one of our models or any from the Hub, where the model looked while writing it, and what it cost."
_NEWS = (
    "Acme Holdings Corp said on Tuesday its board approved a two-for-one stock split and raised the quarterly "
    "dividend to 12 cents a share from ten cents."
)


def build() -> Any:
    """The page as Gradio Blocks."""
    gr = serving.gradio()
    start = writing.Settings()
    with serving.blocks(TITLE) as app:
        serving.heading(TITLE, LEAD)
        state = gr.State(time_to_live=serving.KEEP_SECONDS)
        model = gr.Dropdown(
            writing.summarizers(),
            value=DEFAULT,
            allow_custom_value=True,
            label="Model",
            info="One that we ship, or the Hub id of any encoder-decoder, such as owner/name.",
            elem_id="model",
        )
        text = gr.Textbox(label="Text", lines=8, max_lines=16, elem_id="text")
        upload = gr.UploadButton(
            "Upload a text file (txt)", file_types=[".txt"], size="sm", elem_id="upload", type="filepath"
        )
        with gr.Accordion("How to search", open=True):
            with gr.Row():
                beams = gr.Slider(1, 12, start.beams, step=1, label="Beams", min_width=170)
                longest = gr.Slider(
                    4, 256, start.max_length, step=1, label="Longest summary, in tokens", min_width=170
                )
                block = gr.Slider(
                    0,
                    8,
                    start.block_ngram,
                    step=1,
                    label="No n-gram twice",
                    info="0 allows all",
                    min_width=170,
                )
            with gr.Row():
                alpha = gr.Slider(
                    0,
                    3,
                    start.alpha,
                    step=0.1,
                    label="Length penalty",
                    info="more: longer summaries",
                    min_width=170,
                )
                beta = gr.Slider(
                    0,
                    10,
                    start.beta,
                    step=0.1,
                    label="Coverage penalty",
                    info="more: less dwelling on one place",
                    min_width=170,
                )
                gamma = gr.Slider(
                    0,
                    10,
                    start.gamma,
                    step=0.1,
                    label="Entity penalty",
                    info="more: salient entities kept (APESO models)",
                    min_width=170,
                )
        button = gr.Button("Summarize", variant="primary", elem_id="summarize")
        sample = load_sample()
        gr.Examples(
            [[_NEWS], [sample[0]["source"].split(". ")[0] + "."], [sample[2]["source"]]],
            [text],
            label="Examples: click one, then Summarize",
            example_labels=["Business news", "First sentence of a report", "A whole article"],
        )
        with gr.Column(visible=False) as shown:
            summary = gr.HTML(elem_id="results")
            json_file = gr.DownloadButton("Download summary, beams and cost (json)", elem_id="download-json")
            token = gr.Slider(
                0, 1, 0, step=1, label="Token of the summary to follow", info="0 for all", elem_id="token"
            )
            attention = gr.HTML(elem_id="attention")

        def summarize(
            name: str, source: str, width: float, most: float, length: float, cover: float, entity: float,
            ngram: float,
        ) -> tuple[Any, ...]:  # fmt: skip
            settings = writing.Settings(
                int(width or 0), int(most or 0), length, cover, entity, int(ngram or 0)
            )
            written = writing.write(name, source, settings)
            return (
                written,
                writing.summary_html(written),
                serving.download("summary.json", writing.to_json(written)),
                gr.update(maximum=max(len(written.attention), 1), value=0),
                writing.attention_html(written, 0),
                gr.update(visible=True),
            )

        def follow(written: writing.Written | None, number: float) -> str:
            if written is None:
                raise serving.InputError("Please summarize a text first.")
            return writing.attention_html(written, int(number or 0))

        button.click(
            serving.guarded(summarize),
            [model, text, beams, longest, alpha, beta, gamma, block],
            [state, summary, json_file, token, attention, shown],
            api_name="summarize",
            concurrency_limit=1,
        )
        token.input(
            serving.guarded(follow, 10),
            [state, token],
            attention,
            api_visibility="private",
            trigger_mode="always_last",
            show_progress="hidden",
        )
        upload.upload(serving.guarded(read_file, 10), upload, text, api_visibility="private")
    return app


def read_file(path: str | None) -> str:
    """The text of an uploaded file."""
    if not path:
        raise serving.InputError("Please choose a text file.")
    try:
        return serving.check_length(
            Path(path).name, Path(path).read_text(encoding="utf-8-sig"), writing.LONGEST_TEXT
        )
    except UnicodeDecodeError as error:
        raise serving.InputError(
            f"{Path(path).name} is not UTF-8 (byte {error.start}); convert it first."
        ) from None
