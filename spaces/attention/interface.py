"""The page of the attention mechanisms."""

from __future__ import annotations

from typing import Any

from summarily.spaces import serving
from summarily.spaces.attention import masks

TITLE = "Attention mechanisms"
LEAD = "What each position may see, mechanism beside mechanism, and what that costs as texts get longer."
_TEXT = (
    "Each word looks at the others : full attention sees every pair , a window only the neighbours , and a global "
    "token reads the whole text so that distant words can still meet ."
)


def build() -> Any:
    """The page as Gradio Blocks."""
    gr = serving.gradio()
    with serving.blocks(TITLE) as app:
        serving.heading(TITLE, LEAD)
        with gr.Row():
            with gr.Column(scale=1, min_width=280):
                controls = _controls(gr)
            with gr.Column(scale=3, min_width=320):
                shown = gr.HTML(elem_id="results")
                csv_file = gr.DownloadButton("Download who sees whom (csv)", elem_id="download-csv")

        def draw(*values: Any) -> tuple[str, str]:
            chosen, settings, position, words = read(*values)
            return (
                masks.page(chosen, settings, position, words),
                serving.download("attention.csv", masks.to_csv(chosen, settings)),
            )

        drawing = serving.guarded(draw, seconds=20)
        outputs = [shown, csv_file]
        app.load(drawing, controls, outputs, api_name="draw", show_progress="hidden")
        for control in controls:
            control.change(
                drawing,
                controls,
                outputs,
                trigger_mode="always_last",
                show_progress="hidden",
                api_visibility="private",
            )
    return app


def _controls(gr: Any) -> list[Any]:
    """What is drawn, in the order that `read` takes it."""
    start = masks.Settings()
    kinds = gr.CheckboxGroup(
        list(masks.KINDS), value=["dot_product", "local", "dilated", "window"], label="Mechanisms"
    )
    text = gr.Textbox(
        label="Text (optional)",
        info=f"Its words are the positions, up to {masks.LONGEST}; without a text, the length below counts.",
        placeholder="Each word looks at the others.",
        lines=2,
        max_lines=4,
    )
    side = gr.Radio(["encoder", "decoder"], value="encoder", label="Side")
    length = gr.Slider(2, masks.LONGEST, start.length, step=1, label="Length")
    query = gr.Slider(1, masks.LONGEST, 30, step=1, label="Position that looks")
    block = gr.Slider(1, 64, start.block_length, step=1, label="Block length")
    width = gr.Slider(0, 64, start.width, step=1, label="Width (local)", elem_id="width")
    window = gr.Slider(0, 64, start.window, step=1, label="Window, each side (LED)", elem_id="window")
    globals_ = gr.Slider(0, 16, start.global_tokens, step=1, label="Global tokens (LED)")
    gap = gr.Slider(0, 16, start.gap, step=1, label="Gap (dilated)")
    memories = gr.Slider(0, 8, start.memory_blocks, step=1, label="Memory blocks (dilated)")
    memory = gr.Slider(1, 32, start.memory_length, step=1, label="Memory length (dilated)")
    hashes = gr.Slider(1, 8, start.hashes, step=1, label="Rounds of hashing (RED)")
    controls = [
        kinds, text, length, query, side, block, width, gap, memories, memory, window, globals_, hashes
    ]  # fmt: skip
    gr.Examples(
        [
            [["dot_product", "local", "local_masked", "local_block_masked"], "", 64, 30, "encoder", 8, 4],
            [list(masks.KINDS), _TEXT, 64, 14, "encoder", 6, 3],
            [list(masks.KINDS)[:7], "", 64, 41, "decoder", 8, 4],
            [["window", "hashing"], "", 128, 64, "encoder", 16, 4],
        ],
        controls[:7],
        label="Examples",
        example_labels=[
            "Four kinds of blocks", "Words of a text", "A decoder sees no future", "LED beside RED"
        ],
    )  # fmt: skip
    return controls


def read(
    kinds: list[str], text: str, length: float, query: float, side: str, block: float, width: float, gap: float,
    memories: float, memory: float, window: float, globals_: float, hashes: float,
) -> tuple[list[str], masks.Settings, int, list[str]]:  # fmt: skip
    """The controls as what is drawn; a position beyond the last one is the last one."""
    words = masks.checked_words(text)
    settings = masks.Settings(
        length=len(words) or _whole("length", length),
        decoder=side == "decoder",
        block_length=_whole("block length", block),
        width=_whole("width", width),
        gap=_whole("gap", gap),
        memory_blocks=_whole("memory blocks", memories),
        memory_length=_whole("memory length", memory),
        window=_whole("window", window),
        global_tokens=_whole("global tokens", globals_),
        hashes=_whole("rounds of hashing", hashes),
    )
    return kinds, settings, min(_whole("position", query), settings.length), words


def _whole(name: str, value: float | None) -> int:
    if value is None or value != int(value):
        raise serving.InputError(
            f"{name} is {'empty' if value is None else value}; please give a whole number."
        )
    return int(value)
