"""The page of the judge."""

from __future__ import annotations

from typing import Any

from summarily.spaces import serving, texts
from summarily.spaces.judge import judging

TITLE = "Judge"
LEAD = "Which summary is better? Two systems side by side, without their names, in random order."
KEEP_SECONDS = 6 * 3600
"""A judge may take a break."""


def build() -> Any:
    """The page as Gradio Blocks."""
    gr = serving.gradio()
    with serving.blocks(TITLE, KEEP_SECONDS) as app:
        serving.heading(TITLE, LEAD)
        state = gr.State(time_to_live=KEEP_SECONDS)
        status = serving.status()
        with gr.Column() as setup:
            file, systems, way, count, begin = _setup_form(gr)
        with gr.Column(visible=False) as desk:
            progress = gr.HTML(elem_id="progress")
            with gr.Column() as work:
                with gr.Accordion("The source document", open=False) as source_box:
                    source = gr.HTML()
                with gr.Row():
                    sides = [_side(gr, side) for side in (0, 1)]
                with gr.Row(visible=False) as choices:
                    chosen = [
                        gr.Radio(
                            [judging.FIRST, judging.SAME, judging.SECOND],
                            label=question.capitalize(),
                            info=asked,
                            elem_id=f"choose-{question}",
                            min_width=420,
                        )
                        for question, asked in judging.QUESTIONS.items()
                    ]
                save = gr.Button("Save and next", variant="primary", elem_id="save")
            with gr.Row():
                reveal = gr.Button("Show the outcome", elem_id="reveal")
                csv_file = gr.DownloadButton("Download judgements (csv)", elem_id="download-csv")
                again = gr.Button("Start anew")
            outcome = gr.HTML(elem_id="results")
        ratings = [*sides[0][1], *sides[1][1]]
        shown = [progress, source, sides[0][0], sides[1][0], work, outcome, *chosen, *ratings]

        def show(session: judging.Session) -> list[Any]:
            blank = [gr.update(value=None) for _ in (*chosen, *ratings)]
            return [
                judging.item_html(session),
                judging.source_html(session),
                judging.summary_html(session, 0),
                judging.summary_html(session, 1),
                gr.update(visible=not session.finished),
                judging.results_html(session) if session.finished else "",
                *blank,
            ]

        def start(path: str | None, names: list[str], how: str, number: float) -> list[Any]:
            session = judging.start(texts.uploaded(path), names or [], how, int(number or 0))
            comparing = session.way == "compare"
            rows = [gr.update(visible=not comparing) for _ in sides]
            return [
                session,
                gr.update(visible=False),
                gr.update(visible=True),
                gr.update(visible=comparing),
                *rows,
                gr.update(visible=bool(session.item.source)),
                None,
                *show(session),
            ]

        def keep(session: judging.Session | None, *answers: Any) -> list[Any]:
            if session is None:
                raise serving.InputError("Please start with a file first; what was here has expired.")
            n = len(judging.QUESTIONS)
            by = [dict(zip(judging.QUESTIONS, answers[i * n : (i + 1) * n], strict=True)) for i in range(3)]
            given = judging.compared(by[0]) if session.way == "compare" else judging.rated(by[1], by[2])
            session = judging.record(session, given)
            return [session, serving.download("judgements.csv", judging.to_csv(session)), *show(session)]

        def tell(session: judging.Session | None) -> str:
            if session is None:
                raise serving.InputError("Please start with a file first.")
            return judging.results_html(session)

        def names_in(path: str | None) -> Any:
            found = list(texts.uploaded(path).systems) if path else []
            return gr.update(choices=found, value=found[:2])

        # A mistake must not cover the form: the sentence of the error is enough.
        quiet = {"show_progress_on": status}
        file.change(serving.guarded(names_in), file, systems, api_visibility="private", **quiet)
        begin.click(
            serving.guarded(start),
            [file, systems, way, count],
            [
                state,
                setup,
                desk,
                choices,
                *(column for _, _, column in sides),
                source_box,
                csv_file,
                *shown,
            ],
            api_visibility="private",  # it opens the desk; what a program may do with a file is in the package
            **quiet,
        )
        save.click(
            serving.guarded(keep),
            [state, *chosen, *ratings],
            [state, csv_file, *shown],
            api_visibility="private",
            **quiet,
        )
        reveal.click(serving.guarded(tell), state, outcome, api_visibility="private", **quiet)
        again.click(
            lambda: (None, gr.update(visible=True), gr.update(visible=False)),
            None,
            [state, setup, desk],
            api_visibility="private",
        )
    return app


def _setup_form(gr: Any) -> tuple[Any, ...]:
    file = gr.File(
        label=f"csv, tsv or jsonl with columns reference, one per system, and if you have them source and id; up to "
        f"{texts.MOST_ROWS} rows",
        file_types=list(texts.FILE_ENDINGS),
        height=140,
        elem_id="upload",
    )
    gr.Examples(
        [[texts.example_file()]],
        [file],
        label="Example: click it, then Start",
        example_labels=["36 articles, three systems (jsonl)"],
    )
    with gr.Row():
        systems = gr.Dropdown(
            [], multiselect=True, max_choices=2, label="Two systems to compare", info="Columns of the file."
        )
        count = gr.Slider(
            1, texts.MOST_ROWS, 20, step=1, label="Documents to judge", info="At most; drawn at random."
        )
    way = gr.Radio(
        [("Choose the better of two", "compare"), ("Rate each from 1 to 5", "rate")],
        value="compare",
        label="How to judge",
        info="Four questions: " + ", ".join(judging.QUESTIONS) + ".",
    )
    begin = gr.Button("Start", variant="primary", elem_id="start")
    return file, systems, way, count, begin


def _side(gr: Any, side: int) -> tuple[Any, list[Any], Any]:
    """One of the two summaries, and its ratings, which are hidden where summaries are compared."""
    with gr.Column(min_width=300):
        text = gr.HTML(elem_id=f"summary-{side + 1}")
        with gr.Column(visible=False) as column:
            ratings = [
                gr.Radio(
                    list(judging.SCALE),
                    label=f"{question.capitalize()} of summary {side + 1}",
                    info=f"{about}: 1 not at all, 5 fully",
                    elem_id=f"rate-{side + 1}-{question}",
                )
                for question, about in judging.RATINGS.items()
            ]
    return text, ratings, column
