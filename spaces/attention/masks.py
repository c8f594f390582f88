"""What every mechanism lets a position see, and how many scores it computes; nothing here needs Gradio."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import torch

from summarily.modeling.attention.lsh import bucket_factors, draw_rotations, lsh_attention
from summarily.modeling.attention.masks import MASKED_TWIN, MECHANISMS, attention_pattern
from summarily.modeling.attention.window_plan import (
    plan_window,
    window_mask,
)
from summarily.spaces.serving import check_length
from summarily.support.errors import InputError
from summarily.support.markup import line_chart, note, shaded_words, svg, table

LONGEST = 160
"""Positions that are drawn."""
LONGEST_TEXT = 4000
LENGTHS = tuple(2**power for power in range(6, 17, 2))

KINDS: dict[str, str] = {
    "dot_product": "full attention: everything (a decoder: everything before)",
    "relative": "the same, with learned relative positions",
    "local": "own block, and a width on both sides of it",
    "local_masked": "own block and the one before it",
    "local_block_masked": "own block, up to the position itself",
    "dilated": "own block, and memory blocks on both sides, a gap before each",
    "dilated_masked": "own block up to the position, and memory blocks on the left",
    "window": "LED: a window on both sides of each position, and global tokens",
    "hashing": "RED: tokens of like hash, here of random vectors; itself only if nothing else is near",
}
COLOURS = dict(
    zip(
        KINDS,
        ("#6b7280", "#9333ea", "#0072b2", "#56a0d3", "#009e73", "#d55e00", "#b7791f", "#cc3377", "#4f46e5"),
        strict=True,
    )
)


@dataclass(frozen=True)
class Settings:
    """The controls of the page."""

    length: int = 64
    decoder: bool = False
    block_length: int = 8
    width: int = 4
    gap: int = 2
    memory_blocks: int = 2
    memory_length: int = 4
    window: int = 6
    global_tokens: int = 1
    hashes: int = 1

    def __post_init__(self) -> None:
        for name, least, most in (
            ("length", 2, LONGEST),
            ("block_length", 1, LONGEST),
            ("width", 0, LONGEST),
            ("gap", 0, LONGEST),
            ("memory_blocks", 0, 16),
            ("memory_length", 1, LONGEST),
            ("window", 0, LONGEST),
            ("global_tokens", 0, LONGEST),
            ("hashes", 1, 8),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"{name.replace('_', ' ')} is {value}; it goes from {least} to {most}.")


def checked_words(text: str) -> list[str]:
    """The words of the reader's text, which become the positions.

    Example:
        >>> checked_words(" a cat ")
        ['a', 'cat']
    """
    words = check_length("the text", text or "", LONGEST_TEXT).split()
    if len(words) > LONGEST:
        raise InputError(f"The text has {len(words)} words; up to {LONGEST} can be drawn.")
    if len(words) == 1:
        raise InputError("Please give at least two words, or none.")
    return words


# --- what is seen -----------------------------------------------------------------------------------------


def seen(kind: str, settings: Settings) -> torch.Tensor:
    """The boolean `[length, length]` mask: True where a query (row) sees a key (column).

    Example:
        >>> seen("window", Settings(length=4, window=1, global_tokens=1)).int().tolist()
        [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 1, 1]]
    """
    if kind in MECHANISMS:
        positions = torch.arange(settings.length)
        return _pattern(kind, settings).visible(positions[:, None], positions[None, :])
    return _window(settings) if kind == "window" else _hashing(settings)


def _pattern(kind: str, settings: Settings):
    return attention_pattern(
        kind,
        decoder=settings.decoder,
        block_length=settings.block_length,
        width=settings.width,
        gap=settings.gap,
        memory_blocks=settings.memory_blocks,
        memory_length=settings.memory_length,
    )


def _window(settings: Settings) -> torch.Tensor:
    length, count = settings.length, min(settings.global_tokens, settings.length)
    is_global = torch.arange(length)[None] < count
    plan = plan_window(None, is_global) if count else plan_window(None)
    mask = window_mask(length, settings.window, plan)[0]
    return mask | is_global[0][:, None]  # a global query sees everything


def _hashing(settings: Settings) -> torch.Tensor:
    """Values that are the unit vectors make the output the attention weights: what has weight was seen."""
    length, size = settings.length, 16
    vectors = torch.randn(1, 1, length, size, generator=torch.Generator().manual_seed(0))
    # The page shows any length, so there are as many columns as any number of buckets can need.
    rotations = draw_rotations(1, size, columns=2 * LONGEST, hashes=settings.hashes)
    weights = lsh_attention(
        vectors,
        torch.eye(length)[None, None],
        rotations,
        chunk_length=settings.block_length,
        factors=bucket_factors(max(length, settings.block_length), settings.block_length, 1 << 16),
    )
    return weights[0, 0] > 0


# --- what it costs ----------------------------------------------------------------------------------------


def scores_computed(kind: str, length: int, settings: Settings) -> int:
    """Products of a query with a key that the kernel computes in one head, masked ones included.

    Example:
        >>> scores_computed("dot_product", 1000, Settings())
        1000000
        >>> scores_computed("window", 1000, Settings(window=6, global_tokens=1))
        15000
    """
    if kind == "window":
        each = min(2 * settings.window + 1 + settings.global_tokens, length)
        return length * each + min(settings.global_tokens, length) * length
    if kind == "hashing":
        if length <= settings.block_length:
            return length * length
        chunks = -(-length // settings.block_length)
        return chunks * settings.block_length**2 * 2 * settings.hashes
    pattern = _pattern(kind, settings)
    if not pattern.blocked or pattern.short_form(length):
        return length * length
    blocks = -(-length // pattern.block_length)
    return blocks * pattern.block_length * min(len(pattern.key_offsets()), length)


# --- pictures ---------------------------------------------------------------------------------------------


def mask_drawing(mask: torch.Tensor, query: int, colour: str, label: str) -> str:
    """A mask as an SVG: a row for each query, runs of keys as bars, the chosen query framed."""
    length = len(mask)
    cell = 240 / length
    path = "".join(
        f"M{start * cell:.2f} {row * cell:.2f}h{(end - start) * cell:.2f}v{cell:.2f}h{-(end - start) * cell:.2f}z"
        for row in range(length)
        for start, end in runs(mask[row].tolist())
    )
    frame = f'<rect x="0.5" y="{query * cell:.2f}" width="239" height="{cell:.2f}" class="query"/>'
    border = '<rect x="0.25" y="0.25" width="239.5" height="239.5" class="frame"/>'
    return svg(240, 240, label, [f'<path d="{path}" fill="{colour}"/>', border, frame])


def runs(row: Sequence[bool]) -> list[tuple[int, int]]:
    """Where runs of True start and end.

    Example:
        >>> runs([True, True, False, True])
        [(0, 2), (3, 4)]
    """
    found, start = [], None
    for position, value in enumerate([*row, False]):
        if value and start is None:
            start = position
        elif not value and start is not None:
            found.append((start, position))
            start = None
    return found


def page(kinds: Sequence[str], settings: Settings, query: int, words: Sequence[str] = ()) -> str:
    """The masks side by side, what the chosen position sees in each, and the cost against length."""
    chosen = [kind for kind in KINDS if kind in kinds]
    if not chosen:
        raise InputError("Please choose at least one mechanism.")
    if not 1 <= query <= settings.length:
        raise InputError(f"position {query:g} is not one of the {settings.length} positions.")
    masks = {kind: seen(kind, settings) for kind in chosen}
    panels = "".join(_panel(kind, mask, settings, query - 1, words) for kind, mask in masks.items())
    side = "decoder" if settings.decoder else "encoder"
    about = (
        f"{settings.length} positions in an {side}"
        if side[0] in "aeiou"
        else f"{settings.length} in a {side}"
    )
    return (
        f'<div class="result"><h3>What each position sees</h3>{note(_reading(about, query))}'
        f'<div class="panels masks">{panels}</div><h3>Cost against length</h3>{_cost(chosen, settings)}</div>'
    )


def _reading(about: str, query: int) -> str:
    return f"{about}. Each row is a position that looks, each column one that is seen; the frame is position {query}."


def _panel(kind: str, mask: torch.Tensor, settings: Settings, query: int, words: Sequence[str]) -> str:
    length, pairs = len(mask), int(mask.sum())
    row = mask[query].tolist()
    spans = ", ".join(
        f"{start + 1}" if end - start == 1 else f"{start + 1}–{end}" for start, end in runs(row)
    )
    says = f"Position {query + 1} sees {sum(row)}: {spans or 'nothing'}"
    total = f"{pairs:,} of {length * length:,} pairs ({pairs / length**2:.0%})"
    twin = MASKED_TWIN.get(kind) if settings.decoder else None
    about = f"in a decoder it becomes {twin}" if twin else KINDS[kind]
    if settings.decoder and kind in ("window", "hashing"):
        about += "; only for encoders, shown as one"
    drawing = mask_drawing(mask, query, COLOURS[kind], f"{kind}: {total}. {says}")
    text = ""
    if words:
        shown = [word + " " for word in words]
        text = shaded_words(shown, [float(value) for value in row], f"{kind}: words seen from {words[query]}")
    return (
        f'<figure class="panel"><figcaption>{escape(kind)}</figcaption>{note(about)}{drawing}'
        f'<p class="seen">{escape(says)}</p>{note(total)}{text}</figure>'
    )


def _cost(kinds: Sequence[str], settings: Settings) -> str:
    counted = costs(kinds, settings)
    chart = line_chart(
        "Query-key products in one head",
        "length in tokens (logarithmic)",
        "products",
        LENGTHS,
        counted,
        COLOURS,
    )
    rows = [[kind, *(f"{value:,}" for value in counted[kind])] for kind in kinds]
    header = ["products at", *(f"{length:,}" for length in LENGTHS)]
    about = "Masked ones are included; in float32 each takes 4 bytes where a kernel keeps them."
    return chart + table("Products computed in one head", header, rows) + note(about)


def costs(kinds: Sequence[str], settings: Settings) -> Mapping[str, list[int]]:
    """`scores_computed` at every one of `LENGTHS`."""
    return {kind: [scores_computed(kind, length, settings) for length in LENGTHS] for kind in kinds}


def to_csv(kinds: Sequence[str], settings: Settings) -> str:
    """The costs and, for each drawn pair, who sees whom.

    Example:
        >>> to_csv(["dot_product"], Settings(length=2)).splitlines()[:2]
        ['mechanism,query,sees', 'dot_product,1,1 2']
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["mechanism", "query", "sees"])
    order: Callable[[str], int] = list(KINDS).index
    for kind in sorted(kinds, key=order):
        for query, row in enumerate(seen(kind, settings).tolist(), start=1):
            writer.writerow([kind, query, " ".join(str(key + 1) for key, value in enumerate(row) if value)])
    return stream.getvalue()
