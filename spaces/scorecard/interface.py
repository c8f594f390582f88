"""The page of the scorecard."""

from __future__ import annotations

from typing import Any

from summarily.spaces import serving, texts
from summarily.spaces.scorecard import scoring
from summarily.support.sample import SYSTEMS, load_sample

TITLE = "Scorecard"
LEAD = "Score up to four systems' summaries with every metric, and see what each number is made of."
_FAST = ("rouge", "bertscore", "wms", "sms")


def build() -> Any:
    """The scorecard as Gradio Blocks."""
    gr = serving.gradio()
    choices, skipped = scoring.metrics_here()
    with serving.blocks(TITLE) as app:
        serving.heading(TITLE, LEAD)
        state = gr.State(time_to_live=serving.KEEP_SECONDS)
        metrics = gr.CheckboxGroup(
            choices,
            value=[name for _, name in choices if name in _FAST],
            label="Metrics",
            info=_missing(skipped),
        )
        with gr.Tabs():
            with gr.Tab("Paste one document"):
                boxes, paste_button = _paste_form(gr)
            with gr.Tab("Upload many"):
                file, upload_button = _upload_form(gr)
        status = serving.status()
        with gr.Column(visible=False) as shown:
            results = gr.HTML(elem_id="results")
            with gr.Row():
                csv_file = gr.DownloadButton("Download values (csv)", elem_id="download-csv")
                json_file = gr.DownloadButton("Download everything (json)", elem_id="download-json")
            gr.Markdown("### Why? Choose a number to explain")
            with gr.Row():
                metric = gr.Dropdown([], label="Metric", interactive=True, elem_id="explain-metric")
                system = gr.Dropdown([], label="System", interactive=True)
                row = gr.Dropdown([], label="Document", interactive=True)
            explanation = gr.HTML(elem_id="explanation")

        def show(given: texts.Texts, names: list[str], progress: Any) -> tuple[Any, ...]:
            def report(done: int, of: int, what: str) -> None:
                progress((done, of), desc=what, unit="parts")

            result = scoring.score_texts(given, names, report)
            systems, documents = list(result.cards), _numbered(given.names)
            first = result.metrics[0]
            return (
                result,
                scoring.results_html(result),
                serving.download("scores.csv", scoring.to_csv(result)),
                serving.download("scores.json", scoring.to_json(result)),
                gr.update(choices=result.metrics, value=first),
                gr.update(choices=systems, value=systems[0]),
                gr.update(choices=documents, value=0),
                scoring.explain(result, first, systems[0], 0),
                gr.update(visible=True),
            )

        # Gradio finds the progress by its default and fills it in, before the rest of the inputs.
        bar = gr.Progress()

        def score_pasted(
            names: list[str], source: str, reference: str, progress: Any = bar, *summaries: str
        ) -> tuple[Any, ...]:
            return show(texts.pasted(source, reference, summaries), names, progress)

        def score_uploaded(names: list[str], path: str | None, progress: Any = bar) -> tuple[Any, ...]:
            return show(texts.uploaded(path), names, progress)

        def explain(result: scoring.Result | None, name: str, of: str, number: int) -> str:
            if result is None:
                raise serving.InputError("Please score some summaries first.")
            return scoring.explain(result, name, of, number)

        outputs = [state, results, csv_file, json_file, metric, system, row, explanation, shown]
        work = {"concurrency_limit": 2, "concurrency_id": "scoring"}
        seen = {"show_progress_on": status, **work}
        paste_button.click(
            serving.guarded(score_pasted), [metrics, *boxes], outputs, api_name="score", **seen
        )
        upload_button.click(
            serving.guarded(score_uploaded), [metrics, file], outputs, api_name="score_file", **seen
        )
        for box in (metric, system, row):
            box.input(
                serving.guarded(explain), [state, metric, system, row], explanation, api_name=False, **work
            )
    return app


def _missing(skipped: dict[str, str]) -> str:
    if not skipped:
        return "All of them, if you like; the first score takes a few seconds more."
    return f"Not installed here: {', '.join(skipped)}."


def _numbered(names: list[str]) -> list[tuple[str, int]]:
    return [(f"{i + 1}. {name}", i) for i, name in enumerate(names)]


def _paste_form(gr: Any) -> tuple[list[Any], Any]:
    with gr.Row():
        source = gr.Textbox(
            label="Source (optional)",
            info="Only metrics that read it need it.",
            placeholder="The article that was summarized.",
            lines=7,
            max_lines=14,
            min_width=320,
        )
        reference = gr.Textbox(
            label="Reference",
            info="What a good summary says. Separate several by an empty line.",
            placeholder="Oslo's airport was shut by snow on Monday.",
            lines=7,
            max_lines=14,
            min_width=320,
        )
    with gr.Row():
        summaries = [
            gr.Textbox(
                label=f"System {name}",
                placeholder="A summary to score." if name == "A" else "Another one, if you like.",
                lines=5,
                max_lines=12,
                min_width=230,
            )
            for name in "ABCD"
        ]
    button = gr.Button("Score", variant="primary", elem_id="score")
    boxes = [source, reference, *summaries]
    sample = load_sample()
    gr.Examples(
        [
            [row["source"], "\n\n".join(row["references"]), *(row[name] for name in SYSTEMS), ""]
            for row in sample[:3]
        ],
        boxes,
        label="Examples: click one, then Score",
        example_labels=[row["id"].replace("-", " ") for row in sample[:3]],
    )
    return boxes, button


def _upload_form(gr: Any) -> tuple[Any, Any]:
    file = gr.File(
        label=f"csv, tsv or jsonl, up to {serving.FILE_SIZE.upper()} and {texts.MOST_ROWS} rows",
        file_types=list(texts.FILE_ENDINGS),
        height=140,
        elem_id="upload",
    )
    gr.Markdown(
        "One row per document. Columns: `reference` (in jsonl also `references`, a list), if you have them `source` "
        f"and `id`, and one column of summaries per system, up to {texts.MOST_SYSTEMS}, named as you like."
    )
    button = gr.Button("Score the file", variant="primary", elem_id="score-file")
    gr.Examples(
        [[texts.example_file()]],
        [file],
        label="Example: click it, then Score the file",
        example_labels=["36 articles, three systems (jsonl)"],
    )
    return file, button
