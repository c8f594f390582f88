"""What every Space shares: its look, its limits, errors as sentences, downloads, and how it is served."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from html import escape
from importlib.resources import files
from typing import Any

from summarily.support.errors import InputError, MissingRequirement
from summarily.support.inputs import checked_text
from summarily.support.requirements import pip_install

TIME_LIMIT = 120.0
"""Seconds that one click may take."""
QUEUE = 64
"""Clicks that may wait; the next one is asked to come back."""
FILE_SIZE = "2mb"
KEEP_SECONDS = 3600
"""How long uploads, downloads and the results of a visitor are kept."""

log = logging.getLogger("summarily.spaces")


def gradio() -> Any:
    """The gradio module, or how to get it."""
    # Gradio imports matplotlib, which would put its font cache into the home folder.
    os.environ.setdefault("MPLCONFIGDIR", os.path.join(tempfile.gettempdir(), "summarily-matplotlib"))
    try:
        import gradio
    except ImportError:
        raise MissingRequirement(f"the app needs gradio: {pip_install('demo')}") from None
    return gradio


# --- limits and errors ------------------------------------------------------------------------------------


class TimeUp(BaseException):
    """Work was stopped by `within`. Not an Exception, so that no handler on the way takes it for a failure."""


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, or `TimeUp` after so many seconds.

    The work runs in a thread of its own, which is told to end at its next step in Python: a single call into
    native code (one batch of an encoder) is finished first, but nobody waits for it.

    Example:
        >>> within(5, max, 1, 2)
        2
    """
    outcome: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(function, *arguments))
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=work, daemon=True, name="summarily-space")
    thread.start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        if outcome.done():  # the function's own
            raise
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TimeUp)
        )
        raise TimeUp from None


_PATH = re.compile(r"(?<![\w/:.])/(?:[^\s/:'\"]+/)+([^\s/:'\",]*)")


def sentence(error: object) -> str:
    """An error as the browser may see it: of a path only the name of the file.

    Example:
        >>> sentence("/tmp/gradio/5f3a/table.csv, row 3: expected 4 fields.")
        'table.csv, row 3: expected 4 fields.'
    """
    text = _PATH.sub(r"\1", str(error)).strip()
    first = text.split(maxsplit=1)[0] if text else ""
    return text[:1].upper() + text[1:] if first.isalpha() else text


def guarded(function: Callable[..., Any], seconds: float = TIME_LIMIT) -> Callable[..., Any]:
    """`function` for a Gradio event: it ends in time, and whatever it raises is shown as a sentence."""
    gr = gradio()

    @functools.wraps(function)
    def run(*inputs: Any) -> Any:
        try:
            check_texts(inputs)
            return within(seconds, function, *inputs)
        except TimeUp:
            message = (
                f"This took longer than {seconds:g} seconds and was stopped. "
                "Please try less text or fewer choices."
            )
        except (InputError, MissingRequirement) as error:
            message = sentence(error)
        except gr.Error:
            raise
        except Exception:
            log.exception("a Space failed")
            message = "Something went wrong on our side. Please try again, or with another input."
        raise gr.Error(as_text(message), title="Please check", print_exception=False)

    return run


def as_text(message: str) -> str:
    """A message that may repeat what a visitor wrote, for a toast, which renders HTML.

    Example:
        >>> as_text("there is no system '<img src=x>'.")
        "there is no system '&lt;img src=x&gt;'."
    """
    return escape(message.encode("utf-8", "replace").decode("utf-8"), quote=False)


def check_texts(values: Iterable[Any]) -> None:
    """Refuse texts that cannot be encoded, which a browser never sends but a program may."""
    for value in values:
        if isinstance(value, str):
            checked_text("the text", value)
        elif isinstance(value, (list, tuple)):
            check_texts(value)


def check_length(where: str, text: str, longest: int) -> str:
    """The text without space around it, if it is not too long.

    Example:
        >>> check_length("the summary", " a cat ", 10)
        'a cat'
    """
    if len(text) > longest:
        raise InputError(
            f"{where} has {len(text):,} characters; this Space takes up to {longest:,}. "
            "The Python package takes any number."
        )
    return text.strip()


# --- files ------------------------------------------------------------------------------------------------


def download(name: str, content: str) -> str:
    """A file for the browser, in Gradio's temporary folder, where it is deleted after a while (see `blocks`)."""
    from gradio.processing_utils import save_bytes_to_cache
    from gradio.utils import get_upload_folder

    return save_bytes_to_cache(content.encode("utf-8"), name, get_upload_folder())


def csv_cell(text: str) -> str:
    """A text for a cell of a csv that a spreadsheet may open: none takes it for a formula.

    Example:
        >>> csv_cell("=1+1"), csv_cell("a cat")
        ("'=1+1", 'a cat')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


# --- look -------------------------------------------------------------------------------------------------


def style() -> str:
    """The style sheet of all Spaces."""
    return files("summarily.spaces").joinpath("style.css").read_text(encoding="utf-8")


def theme() -> Any:
    """Colours that are far enough apart, and fonts of the reader's own system."""
    gr = gradio()
    # Fonts of the reader's own system: a page asks no other site for anything.
    theme = gr.themes.Default(
        primary_hue=gr.themes.colors.indigo,
        secondary_hue=gr.themes.colors.indigo,
        neutral_hue=gr.themes.colors.slate,
        font=("system-ui", "Segoe UI", "Roboto", "sans-serif"),
        font_mono=("ui-monospace", "Consolas", "monospace"),
    )
    # Gradio's own greys and its button are too faint to read for many: these have a contrast above 4.5.
    return theme.set(
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_label_text_color="*neutral_700",
        block_title_text_color="*neutral_700",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        input_placeholder_color="*neutral_500",
    )


def blocks(title: str, keep_seconds: int = KEEP_SECONDS) -> Any:
    """Gradio Blocks with our title; what it writes to its temporary folder is deleted after `keep_seconds`."""
    gr = gradio()
    return gr.Blocks(
        title=f"{title} - Summarily", analytics_enabled=False, delete_cache=(keep_seconds // 6, keep_seconds)
    )


def heading(title: str, lead: str) -> None:
    """The title of a page, and what it is for."""
    gradio().Markdown(f"# {title}\n{lead}", elem_classes=["space-heading"])


def status() -> Any:
    """Where a page shows that it works and how far it is; give it to an event as `show_progress_on`.

    Gradio would otherwise cover every output, with "Error" after a mistake, so that nobody reaches the answer to mend.
    """
    return gradio().HTML(elem_id="status", elem_classes=["status"])


def serve(app: Any, **options: Any) -> Any:
    """Launch an app with the limits and the look of all of them."""
    app.queue(max_size=QUEUE, default_concurrency_limit=2)
    defaults: dict[str, Any] = {
        "theme": theme(),
        "css": style(),
        "max_file_size": FILE_SIZE,
        "footer_links": ["api"],
        "run_history": False,
        "enable_monitoring": False,
        "ssr_mode": False,
        "show_error": False,
        "state_session_capacity": 256,
    }
    return app.launch(**{**defaults, **options})
