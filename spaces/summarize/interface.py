"""The page of the summarizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from summarily.modeling.generation.summarizer import DEFAULT
from summarily.spaces import serving
from summarily.spaces.summarize import writing
from summarily.support.sample import load_sample

TITLE = "Summarize"
LEAD = "A summary, where each of its sentences comes from, models side by side, and what they cost."
_NEWS = (
    "Acme Holdings Corp said on Tuesday its board approved a two-for-one stock split and raised the quarterly "
    "dividend to 12 cents a share from ten cents."
)
_EMPTY = '<div class="result"><p class="note">The summary will stand here.</p></div>'


def build() -> Any:
    """The page as Gradio Blocks."""
    gr = serving.gradio()
    with serving.blocks(TITLE) as app:
        serving.heading(TITLE, LEAD)
        state = gr.State(time_to_live=serving.KEEP_SECONDS)
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                models, text, upload, button, search = _form(gr)
            with gr.Column(scale=3, min_width=320):
                status = serving.status()
                summary = gr.HTML(_EMPTY, elem_id="results")
                json_file = gr.DownloadButton(
                    "Download summaries, beams and cost (json)", elem_id="download-json", visible=False
                )
        with gr.Row(visible=False) as shown:
            with gr.Column(scale=1, min_width=240):
                token = gr.Slider(
                    0, 1, 0, step=1, label="Token of the summary to follow", info="0 for all", elem_id="token"
                )
            with gr.Column(scale=4, min_width=320):
                attention = gr.HTML(elem_id="attention")

        bar = gr.Progress()  # found by Gradio as a default, and filled in

        def summarize(
            names: list[str], source: str, width: float, most: float, length: float, cover: float, entity: float,
            ngram: float, progress: Any = bar,
        ) -> tuple[Any, ...]:  # fmt: skip
            settings = writing.Settings(
                int(width or 0), int(most or 0), length, cover, entity, int(ngram or 0)
            )

            def tell(done: int, name: str) -> None:
                progress((done, len(names)), desc=f"{name} reads and writes", unit="models")

            written = writing.write_all(names, source, settings, tell)
            looked = next((one for one in written if one.attention), None)
            return (
                looked,
                writing.summary_html(written, source),
                gr.update(value=serving.download("summary.json", writing.to_json(written)), visible=True),
                gr.update(maximum=len(looked.attention) if looked else 1, value=0),
                writing.attention_html(looked, 0) if looked else "",
                gr.update(visible=looked is not None),
            )

        def follow(written: writing.Written | None, number: float) -> str:
            if written is None:
                raise serving.InputError("Please summarize a text first.")
            return writing.attention_html(written, int(number or 0))

        button.click(
            serving.guarded(summarize),
            [models, text, *search],
            [state, summary, json_file, token, attention, shown],
            api_name="summarize",
            concurrency_limit=1,
            show_progress_on=status,
        )
        token.input(
            serving.guarded(follow, 10),
            [state, token],
            attention,
            api_visibility="private",
            trigger_mode="always_last",
            show_progress="hidden",
        )
        upload.upload(
            serving.guarded(read_file, 10), upload, text, api_visibility="private", show_progress="hidden"
        )
    return app


def _form(gr: Any) -> tuple[Any, ...]:
    models = gr.Dropdown(
        writing.names(),
        value=[DEFAULT],
        multiselect=True,
        max_choices=writing.MOST_MODELS,
        allow_custom_value=True,
        label="Models",
        info="Up to three side by side: of ours, or by Hub id (owner/name). lead and central copy sentences.",
        elem_id="model",
    )
    text = gr.Textbox(
        label="Text", placeholder="Paste an article here.", lines=8, max_lines=16, elem_id="text"
    )
    upload = gr.UploadButton(
        "Upload a text file (txt)", file_types=[".txt"], size="sm", elem_id="upload", type="filepath"
    )
    button = gr.Button("Summarize", variant="primary", elem_id="summarize")
    sample = load_sample()
    gr.Examples(
        [[sample[0]["source"]], [sample[2]["source"]], [_NEWS]],
        [text],
        label="Examples: click one, then Summarize",
        example_labels=["A marathon", "A whole article", "Business news"],
    )
    with gr.Accordion("How to search", open=False):
        search = _search(gr)
    return models, text, upload, button, search


def _search(gr: Any) -> list[Any]:
    """The sliders, in the order that `summarize` takes them."""
    start = writing.Settings()
    return [
        gr.Slider(1, 12, start.beams, step=1, label="Beams"),
        gr.Slider(4, 256, start.max_length, step=1, label="Longest summary, in tokens"),
        gr.Slider(0, 3, start.alpha, step=0.1, label="Length penalty", info="more: longer summaries"),
        gr.Slider(
            0, 10, start.beta, step=0.1, label="Coverage penalty", info="more: less dwelling on one place"
        ),
        gr.Slider(
            0,
            10,
            start.gamma,
            step=0.1,
            label="Entity penalty",
            info="more: salient entities kept (APESO models)",
        ),
        gr.Slider(0, 8, start.block_ngram, step=1, label="No n-gram twice", info="0 allows all"),
    ]


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
