"""`summarily profile-memory`: how the peak memory of a training step grows with length and window.

Every cell runs in a process of its own. What is measured is the peak of the resident memory during one step (forward
and backward of a batch of one, encoding only, or a whole `generate()`) over what the process held before it: model
and libraries do not count, activations and gradients do. The peak of the whole process is stored beside it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from summarily.studies.report import picture
from summarily.studies.report import table as markdown_table
from summarily.support.errors import FailedRunError, InputError, first_line
from summarily.support.files import write_atomically
from summarily.support.inputs import read_json

DESCRIPTION = """\
Measure the peak memory of a training step (or of encoding, or of generate()) by length and window, each in a process
of its own.
MODEL is a saved model, or an architecture with random weights: led, transformers-led, bart, bart-eager (which holds
the whole matrix of scores, as all BARTs did before fused attention), red.
  summarily profile-memory led transformers-led bart-eager --lengths 512 1024 2048 4096 --windows 64 512
  summarily profile-memory led --work generate --lengths 4096 16384 --width 768 --layers 6 --heads 12"""

ARCHITECTURES = ("led", "transformers-led", "bart", "bart-eager", "red")
WINDOWED = ("led", "transformers-led")
VOCABULARY = 1000
TARGET = 64
BEAMS = 4
SETTINGS = ("work", "width", "layers", "heads")
_VALUES = ("megabytes", "seconds", "process_megabytes", "swapped_megabytes")


class Cell(NamedTuple):
    """One measurement: the model, its window (None where it has none), the tokens read."""

    model: str
    window: int | None
    length: int

    @property
    def curve(self) -> str:
        return self.model if self.window is None else f"{self.model}, window {self.window}"


class Fit(NamedTuple):
    """Memory against length: a straight line, how well it fits, and the exponent of a power law."""

    slope: float
    intercept: float
    r_squared: float
    exponent: float
    polynomial: tuple[float, ...]  # the line, or a parabola where the line fits badly
    r_squared_parabola: float | None  # where the line fits badly

    def longest(self, megabytes: float) -> int:
        """The length at which the fitted curve reaches `megabytes`."""
        roots = np.roots([*self.polynomial[:-1], self.polynomial[-1] - megabytes])
        real = [root.real for root in roots if abs(root.imag) < 1e-9 and root.real > 0]
        return int(min(real)) if real else 0


def fit(lengths: Sequence[int], megabytes: Sequence[float]) -> Fit:
    """Fit peak memory against length.

    Example:

    >>> line = fit([1, 2, 3], [3.0, 5.0, 7.0])
    >>> round(line.slope, 6), round(line.r_squared, 6), line.longest(21.0)
    (2.0, 1.0, 10)
    """
    if len(set(lengths)) < 2:
        raise InputError(f"lengths are {list(lengths)}; a line needs at least two different ones.")
    x, y = np.asarray(lengths, float), np.asarray(megabytes, float)
    slope, intercept = np.polyfit(x, y, 1)
    spread = ((y - y.mean()) ** 2).sum()

    def explained(polynomial: Sequence[float]) -> float:
        return float(1 - ((y - np.polyval(polynomial, x)) ** 2).sum() / spread) if spread else 1.0

    polynomial: tuple[float, ...] = (slope, intercept)
    exponent = np.polyfit(np.log(x), np.log(np.maximum(y, 1e-6)), 1)[0]
    r_squared, r_squared_parabola = explained(polynomial), None
    if r_squared < 0.99 and len(x) > 2:
        parabola = tuple(np.polyfit(x, y, 2))
        r_squared_parabola = explained(parabola)
        polynomial = parabola if parabola[0] > 0 else polynomial  # bent downwards is noise, not growth
    return Fit(float(slope), float(intercept), r_squared, float(exponent), polynomial, r_squared_parabola)


# --- one cell, in its own process -------------------------------------------------------------------------


def _status(name: str) -> float:
    """A field of /proc/self/status in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {name}")


def _give_back() -> None:
    """Return freed memory to the system, so that taking it again counts."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def peak_of(step: Callable[[], Any]) -> tuple[float, float]:
    """Megabytes that `step` took at its peak beyond what was held before, and its seconds.

    Example:

    >>> megabytes, _ = peak_of(lambda: bytearray(64 * 2**20).count(1))
    >>> 60 < megabytes < 80
    True
    """
    _give_back()
    try:
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # starts the kernel's high-water mark again

        def peak() -> float:
            return _status("VmHWM")
    except OSError:  # no Linux, or not allowed: the highest of the whole process
        unit = 2**20 if sys.platform == "darwin" else 1024

        def peak() -> float:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

        before = peak()
    start = time.perf_counter()
    step()
    return max(peak() - before, 0.0), time.perf_counter() - start


def build(cell: Cell, width: int, layers: int, heads: int, longest: int) -> Any:
    """The model of a cell, able to read `longest` tokens."""
    import torch
    from transformers import (
        AutoModelForSeq2SeqLM,
        BartConfig,
        BartForConditionalGeneration,
        LEDConfig,
        LEDForConditionalGeneration,
    )

    from summarily.modeling import (
        LedConfig,
        LedForConditionalGeneration,
        RedConfig,
        RedForConditionalGeneration,
    )

    torch.manual_seed(0)
    if cell.model not in ARCHITECTURES:
        changes = {} if cell.window is None else {"attention_window": cell.window}
        return AutoModelForSeq2SeqLM.from_pretrained(cell.model, **changes)
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "d_model": width}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": layers, f"{side}_attention_heads": heads, f"{side}_ffn_dim": 4 * width}
    if cell.model.startswith("bart"):
        config = BartConfig(**sizes, max_position_embeddings=longest)
        attention = "eager" if cell.model == "bart-eager" else "sdpa"
        return BartForConditionalGeneration._from_config(config, attn_implementation=attention)
    sizes["max_encoder_position_embeddings"] = longest
    if cell.model == "red":
        return RedForConditionalGeneration(RedConfig(**sizes))
    assert cell.window is not None, "LED has a window"
    sizes["attention_window"] = cell.window
    if cell.model == "led":
        return LedForConditionalGeneration(LedConfig(**sizes))
    # Theirs pads its input to a multiple of the window, and needs a position for all of it.
    sizes["max_encoder_position_embeddings"] = -(-longest // cell.window) * cell.window
    return LEDForConditionalGeneration(LEDConfig(**sizes))


def measure(cell: Cell, work: str, width: int, layers: int, heads: int) -> dict[str, float]:
    """Build the model of a cell and measure one step of it, in this process."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = build(cell, width, layers, heads, max(cell.length, TARGET)).train(work == "train")
    generator = torch.Generator().manual_seed(0)

    def step(length: int) -> None:
        ids = torch.randint(3, model.config.vocab_size, (1, length), generator=generator)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if cell.model == "transformers-led":
            inputs["global_attention_mask"] = torch.zeros_like(ids)
            inputs["global_attention_mask"][:, 0] = 1
        if work == "encode":
            with torch.no_grad():
                model.get_encoder()(**inputs)
        elif work == "generate":
            model.generate(**inputs, num_beams=BEAMS, min_new_tokens=TARGET, max_new_tokens=TARGET)
        else:
            model(**inputs, labels=ids[:, :TARGET]).loss.backward()

    step(min(TARGET, cell.length))  # loads kernels, and makes room for the gradients of the weights
    megabytes, seconds = peak_of(lambda: step(cell.length))
    return {"megabytes": megabytes, "seconds": seconds, **_whole_process()}


def _whole_process() -> dict[str, float]:
    """The peak of this process and how much of it is swapped out, where the system tells."""
    try:
        return {"process_megabytes": _status("VmHWM"), "swapped_megabytes": _status("VmSwap")}
    except OSError:
        return {}


# Every tensor is a mapping of its own, given back when it is freed: no noise from what glibc keeps.
_EXACT_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
_PRELOADED = [
    "torch",
    "transformers.models.bart.modeling_bart",
    "transformers.models.led.modeling_led",
    "summarily.modeling.led.modeling_led",
    "summarily.modeling.red.modeling_red",
]


def measure_apart(cell: Cell, work: str, width: int, layers: int, heads: int) -> dict[str, float]:
    """`measure` in a new process. A cell that runs out of memory is reported as such, not measured.

    The processes are forked from one that has imported everything and computed nothing.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure_into, args=(send, cell, work, width, layers, heads))
    with _environment(
        {"OMP_NUM_THREADS": "1", **_EXACT_MALLOC}
    ):  # what the first call starts the server with
        process.start()
    send.close()
    try:
        values, error = receive.recv()
    except EOFError:
        values, error = None, None
    process.join()
    if values is None:
        raise FailedRunError(
            f"{cell.curve} at {cell.length} tokens: {error or f'ended by signal {-(process.exitcode or 0)}'}"
        )
    return values


def _measure_into(pipe: Any, cell: Cell, *settings: Any) -> None:
    try:
        values = measure(cell, *settings)
        if not math.isfinite(values["megabytes"]):
            raise FloatingPointError(f"measured {values['megabytes']} MB")
        pipe.send((values, None))
    except Exception as error:  # whatever it is, it is the other process' to report
        pipe.send((None, (str(error).strip().splitlines() or [type(error).__name__])[-1]))


@contextmanager
def _environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """Environment variables that are set where they are not, for a while."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


# --- the command ------------------------------------------------------------------------------------------


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the `profile-memory` command to a parser's subparsers."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "profile-memory",
        help="peak memory of a training step by length and window",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--windows", type=int, nargs="+", default=[512], help="both sides; LED only")
    parser.add_argument(
        "--work", choices=["train", "encode", "generate"], default="train", help="default: %(default)s"
    )
    parser.add_argument("--width", type=int, default=256, help="of random models (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="of each side (default: %(default)s)")
    parser.add_argument("--heads", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--memory", type=float, metavar="MB", help="also: the longest source that fits in it")
    parser.add_argument(
        "--output",
        metavar="DIR",
        default="memory-profile",
        help="table and plot; what is measured there is not measured again (default: %(default)s)",
    )
    parser.set_defaults(run=run)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from tqdm import tqdm

    if len(set(options.lengths)) < 2:
        raise InputError("--lengths needs at least two lengths.")
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    kept = Kept(folder / "memory.json", {name: getattr(options, name) for name in SETTINGS})
    cells = cells_of(options.models, options.windows, options.lengths)
    failed: list[RuntimeError] = []
    for cell in tqdm(cells, disable=not sys.stderr.isatty(), desc="measuring"):
        try:
            if cell not in kept.cells:
                kept.add(cell, measure_apart(cell, *kept.settings.values()))
        except RuntimeError as error:
            failed.append(error)
    measured = {cell: kept.cells[cell] for cell in cells if cell in kept.cells}
    if not measured:
        raise FailedRunError(first_line(failed[0]))
    for failure in failed:
        print(f"summarily profile-memory: {first_line(failure)}", file=sys.stderr)
    curves = fits(measured)
    text = table(measured, curves, options.memory)
    (folder / "memory.md").write_text(text + "\n", encoding="utf-8")
    plot(measured, curves, folder / "memory.png")
    print(f"{text}\n\nwritten to {folder}")
    return 0


class Kept:
    """Measurements in a file, with what they were made with: a command that was stopped goes on."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        self.path, self.settings = path, settings
        self.rows = read_json(path, list) if path.exists() else []
        self.cells = {
            Cell(*(row[field] for field in Cell._fields)): {
                name: row[name] for name in row if name in _VALUES
            }
            for row in self.rows
            if {name: row.get(name) for name in settings} == settings
        }

    def add(self, cell: Cell, values: dict[str, float]) -> None:
        self.cells[cell] = values
        self.rows.append({**cell._asdict(), **values, **self.settings})
        write_atomically(self.path, json.dumps(self.rows, indent=1) + "\n")


def cells_of(models: Sequence[str], windows: Sequence[int], lengths: Sequence[int]) -> list[Cell]:
    """Every model at every length, the windowed architectures at every window too.

    Example:

    >>> [tuple(cell) for cell in cells_of(["led", "bart"], [64, 512], [1024])]
    [('led', 64, 1024), ('led', 512, 1024), ('bart', None, 1024)]
    """
    return [
        Cell(model, window, length)
        for model in models
        for window in (windows if model in WINDOWED else [None])
        for length in sorted(set(lengths))
    ]


def fits(measured: dict[Cell, dict[str, float]]) -> dict[str, Fit]:
    """The fit of every curve that was measured at two lengths or more."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for cell, values in measured.items():
        curves.setdefault(cell.curve, []).append((cell.length, values["megabytes"]))
    return {name: fit(*zip(*points, strict=True)) for name, points in curves.items() if len(points) > 1}


def table(measured: dict[Cell, dict[str, float]], curves: dict[str, Fit], memory: float | None = None) -> str:
    """Markdown: megabytes by model and length, the slope of the line, its R² and the exponent."""
    lengths = sorted({cell.length for cell in measured})
    last = [] if memory is None else [f"longest in {memory:g} MB"]
    head = [
        "peak MB",
        *map(str, lengths),
        "KB per token",
        "R² of the line",
        "of a parabola",
        "exponent",
        *last,
    ]
    rows = []
    values = {(cell.curve, cell.length): result["megabytes"] for cell, result in measured.items()}
    for name in dict.fromkeys(cell.curve for cell in measured):
        cells = [f"{values[name, length]:.1f}" if (name, length) in values else "-" for length in lengths]
        line = curves.get(name)
        if line is None:
            rows.append([name, *cells, *["-"] * (4 + len(last))])
            continue
        end = [] if memory is None else [str(line.longest(memory))]
        bent = "" if line.r_squared_parabola is None else f"{line.r_squared_parabola:.4f}"
        fitted = [f"{line.slope * 1024:.1f}", f"{line.r_squared:.4f}", bent, f"{line.exponent:.2f}"]
        rows.append([name, *cells, *fitted, *end])
    return "\n".join(markdown_table(head, rows) + _largest(measured))


def _largest(measured: dict[Cell, dict[str, float]]) -> list[str]:
    """A line on the largest whole process, libraries and weights included."""
    known = {cell: values for cell, values in measured.items() if "process_megabytes" in values}
    if not known:
        return []
    cell, values = max(known.items(), key=lambda item: item[1]["process_megabytes"])
    return [
        "",
        f"The largest process, {cell.curve} at {cell.length} tokens, held {values['process_megabytes']:.0f} MB at its peak, "
        f"{values['swapped_megabytes']:.0f} MB of it swapped out.",
    ]


def plot(measured: dict[Cell, dict[str, float]], curves: dict[str, Fit], path: Path) -> None:
    """Peak memory against length, with the fitted lines."""
    models = list(dict.fromkeys(cell.model for cell in measured))
    windows = sorted({cell.window or 0 for cell in measured}, reverse=True)
    with picture(path, figsize=(7, 4.5)) as axes:
        for name in dict.fromkeys(cell.curve for cell in measured):
            first = next(cell for cell in measured if cell.curve == name)
            # A colour for each model, paler for smaller windows.
            style: Any = {
                "color": f"C{models.index(first.model)}",
                "alpha": 1 - 0.7 * windows.index(first.window or 0) / len(windows) if first.window else 1.0,
            }
            points = sorted(
                (cell.length, value["megabytes"]) for cell, value in measured.items() if cell.curve == name
            )
            lengths, megabytes = zip(*points, strict=True)
            label = name if name not in curves else f"{name} (R² {curves[name].r_squared:.3f})"
            axes.plot(lengths, megabytes, "o", label=label, **style)
            if name in curves:
                x = np.linspace(min(lengths), max(lengths), 100)
                axes.plot(x, np.polyval(curves[name].polynomial, x), "-", **style)
        axes.set(
            xlabel="tokens of the source", ylabel="peak memory of a step, MB", xlim=(0, None), ylim=(0, None)
        )
        axes.legend(frameon=False, fontsize=7)
