"""Which keys each query sees, for the seven self-attention mechanisms of Krantz & Kalita (2018).

| mechanism            | tensor2tensor's name            | keys of query i (block start s, block end e = s + B)      |
|----------------------|---------------------------------|-----------------------------------------------------------|
| `dot_product`        | `dot_product`                   | all; j <= i in a decoder                                  |
| `relative`           | `dot_product_relative`          | the same, with learned relative positions                 |
| `local`              | `local_unmasked`                | s - W <= j < e + W                                        |
| `local_masked`       | `local_mask_right`              | s - B <= j <= i (j < e in an encoder, preset `paper`)     |
| `local_block_masked` | `local_within_block_mask_right` | s <= j <= i                                               |
| `dilated`            | `unmasked_dilated_1d`           | own block, and n memory blocks of M on each side, a gap g |
|                      |                                 | before each of them                                       |
| `dilated_masked`     | `masked_dilated_1d`             | s <= j <= i, and the memory blocks on the left            |

`AttentionPattern` is the definition; the blocked kernels in `blocks.py` are tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from summarily.support.errors import InputError

MECHANISMS = (
    "dot_product",
    "relative",
    "local",
    "local_masked",
    "local_block_masked",
    "dilated",
    "dilated_masked",
)
# An unmasked mechanism shows a decoder the tokens that it has to predict; this is its causal counterpart.
MASKED_TWIN = {"local": "local_masked", "dilated": "dilated_masked"}
DEFAULT_GAP = {"paper": 2, "t2t": 0}


@dataclass(frozen=True)
class AttentionPattern:
    """The set of keys each query may see, as a function of positions only.

    Args:
        mechanism: one of `MECHANISMS`.
        causal: nothing right of the query is visible. For `dot_product` and `relative` this is the decoder;
            the other mechanisms have it in their name, except that `local_masked` is causal or shows its
            whole own block.
        block_length: B, the number of queries that share one window.
        width: W, how far `local` looks beyond its block on each side.
        gap, memory_blocks, memory_length: g, n and M of the dilated mechanisms.

    Example:

    >>> import torch
    >>> pattern = AttentionPattern("local_block_masked", causal=True, block_length=2)
    >>> positions = torch.arange(4)
    >>> pattern.visible(positions[:, None], positions[None, :]).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    """

    mechanism: str
    causal: bool
    block_length: int = 128
    width: int = 128
    gap: int = 2
    memory_blocks: int = 2
    memory_length: int = 128

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise InputError(
                f"mechanism={self.mechanism!r} is unknown; choose one of {', '.join(MECHANISMS)}."
            )
        for name, least in (
            ("block_length", 1),
            ("width", 0),
            ("gap", 0),
            ("memory_blocks", 0),
            ("memory_length", 1),
        ):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {least}.")

    @property
    def blocked(self) -> bool:
        """Whether the cost grows linearly with the length."""
        return self.mechanism not in ("dot_product", "relative")

    @property
    def memory_span(self) -> int:
        """How far the memory blocks of the dilated mechanisms reach beyond the own block: n(M + g)."""
        return self.memory_blocks * (self.memory_length + self.gap)

    def visible(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """True where `query` sees `key`; both are position tensors that broadcast against each other."""
        start = query // self.block_length * self.block_length
        end = start + self.block_length
        if self.mechanism == "local":
            return (key >= start - self.width) & (key < end + self.width)
        last = query if self.causal else end - 1
        if self.mechanism == "local_masked":
            return (key >= start - self.block_length) & (key <= last)
        own = (key >= start) & (key <= last)
        if self.mechanism == "local_block_masked":
            return own
        if self.mechanism in ("dilated", "dilated_masked"):
            seen = own | self._in_memory(start - 1 - key)
            return seen | self._in_memory(key - end) if self.mechanism == "dilated" else seen
        return key <= query if self.causal else torch.ones_like(key <= query)

    def _in_memory(self, distance: torch.Tensor) -> torch.Tensor:
        """`distance` counts from the edge of the own block outwards: g tokens of gap, M of memory, n times."""
        period = self.memory_length + self.gap
        return (distance >= 0) & (distance < self.memory_span) & (distance % period >= self.gap)

    def key_offsets(self) -> list[int]:
        """The keys that a block of queries may see, relative to the start of the block."""
        block = self.block_length
        if self.mechanism == "local":
            return list(range(-self.width, block + self.width))
        if self.mechanism == "local_masked":
            return list(range(-block, block))
        if self.mechanism == "local_block_masked":
            return list(range(block))
        if not self.blocked:
            raise InputError(f"{self.mechanism} has no blocks: every query may see every key.")
        period = self.memory_length + self.gap
        distances = [step for step in range(self.memory_span) if step % period >= self.gap]
        left = [-1 - distance for distance in reversed(distances)]
        right = [block + distance for distance in distances] if self.mechanism == "dilated" else []
        return [*left, *range(block), *right]

    def reach(self) -> int | None:
        """How many keys a causal query may look back on, itself included; None where there is no limit."""
        if not self.causal or not self.blocked:
            return None
        before = {"local_masked": self.block_length, "local_block_masked": 0}
        return self.block_length + before.get(self.mechanism, self.memory_span)

    def short_form(self, length: int) -> str | None:
        """`full` or `causal` where the pattern is just that on `length` tokens, else None."""
        blocks = 2 if self.mechanism == "local_masked" and self.causal else 1
        if self.blocked and length > blocks * self.block_length:
            return None
        return "causal" if self.causal else "full"


def attention_pattern(
    mechanism: str,
    *,
    preset: str = "paper",
    decoder: bool = False,
    leaky_decoder: bool = False,
    block_length: int = 128,
    width: int = 128,
    gap: int | None = None,
    memory_blocks: int = 2,
    memory_length: int = 128,
) -> AttentionPattern:
    """The pattern of a mechanism in the encoder or in the decoder.

    `preset="paper"` follows the paper's words: the dilated mechanisms have a gap (2), and `local_masked` masks
    *blocks*, so that an encoder sees its whole own block. `preset="t2t"` is what tensor2tensor computes: no gap,
    and `local_masked` is causal in the encoder too. tensor2tensor also makes one block of a sequence shorter
    than two blocks: that changes nothing where the pattern is causal, so it is not needed here.

    A decoder is causal: `local` and `dilated` become their masked twins, unless `leaky_decoder` is True, which
    reproduces the collapse reported in the paper.

    Example:

    >>> attention_pattern("local", decoder=True).mechanism
    'local_masked'
    >>> attention_pattern("local", decoder=True, leaky_decoder=True).mechanism
    'local'
    """
    if preset not in DEFAULT_GAP:
        raise InputError(f"preset={preset!r} is unknown; choose one of {', '.join(DEFAULT_GAP)}.")
    if decoder and not leaky_decoder:
        mechanism = MASKED_TWIN.get(mechanism, mechanism)
    if mechanism in ("dot_product", "relative"):
        causal = decoder
    else:
        causal = mechanism not in MASKED_TWIN
        if mechanism == "local_masked" and preset == "paper" and not decoder:
            causal = False
    gap = DEFAULT_GAP[preset] if gap is None else gap
    return AttentionPattern(mechanism, causal, block_length, width, gap, memory_blocks, memory_length)
