"""Baselines that rescale BERTScore: what unrelated texts score, for every layer of a model.

`python -m summarily.metrics.bertscore.baseline MODEL --texts FILE` computes them from random pairs of lines
and writes them in bert_score's format with a header that says how they came about.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from summarily.metrics.matching import Match
from summarily.support.errors import InputError, MissingRequirement
from summarily.support.files import write_atomically

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Baseline:
    """The mean P, R and F of unrelated texts, by layer."""

    name: str
    layers: dict[int, Match]

    @property
    def identity(self) -> str:
        rows = "".join(f"{layer} {tuple(match)}\n" for layer, match in sorted(self.layers.items()))
        return f"{self.name}@{hashlib.sha256(rows.encode()).hexdigest()[:12]}"

    def at(self, layer: int) -> Match:
        if layer not in self.layers:
            raise InputError(
                f"the baseline {self.name} has no layer {layer}; it has {min(self.layers)} to {max(self.layers)}."
            )
        return self.layers[layer]


def read_baseline(path: str | os.PathLike[str]) -> Baseline:
    """A baseline from a file: `LAYER,P,R,F`, one line per layer, comments after "#"."""
    path = Path(path)
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    if not lines or [name.strip().upper() for name in lines[0].split(",")] != ["LAYER", "P", "R", "F"]:
        raise InputError(f"{path.name} is not a baseline; its first line should be LAYER,P,R,F.")
    layers = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            layer, *values = line.split(",")
            match = Match(*map(float, values))
        except (ValueError, TypeError):
            raise InputError(f"{path.name}, line {number}: expected LAYER,P,R,F, got {line!r}.") from None
        if not all(math.isfinite(value) and value < 1 for value in match):
            raise InputError(f"{path.name}, line {number}: a baseline is finite and below 1, got {line!r}.")
        layers[int(layer)] = match
    return Baseline(path.stem.removeprefix("baseline_"), layers)


def find_baseline(model: str | os.PathLike[str], rescale: bool | str | os.PathLike[str]) -> Baseline:
    """The baseline a user named, ours for a model, or the one that an installed `bert_score` package carries.

    Example:
        >>> 0 < find_baseline("minilm", True).at(5).f < 1
        True
    """
    if not isinstance(rescale, bool):
        if not Path(rescale).is_file():
            raise InputError(
                f"rescale={str(rescale)!r} is not a file; expected True, False or a baseline file."
            )
        return read_baseline(rescale)
    name = str(model).rsplit("/", 1)[-1]
    for path in (_FOLDER / f"baseline_{name}.tsv", _published(name)):
        if path is not None and path.is_file():
            return read_baseline(path)
    raise MissingRequirement(
        f"there is no baseline for {str(model)!r} here. pip install bert-score==0.3.13 brings those of common models; "
        f"python -m summarily.metrics.bertscore.baseline {model} --texts FILE --output baseline.tsv computes one for "
        f"rescale='baseline.tsv'; rescale=False does without."
    )


def _published(name: str) -> Path | None:
    """Where the `bert_score` package, if installed, keeps its English baseline of a model."""
    package = importlib.util.find_spec("bert_score")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "rescale_baseline" / "en" / f"{name}.tsv"


# --- computing --------------------------------------------------------------------------------------------


def compute_baseline(
    model: str, texts: Sequence[str], pairs: int = 10_000, seed: int = 0, device: str | None = None
) -> Baseline:
    """Score random pairs of different texts with every layer of a model."""
    from summarily.metrics.encoding import encoder
    from summarily.metrics.matching import Bag, greedy_match

    texts = sorted({text.strip() for text in texts} - {""})
    if len(texts) < 2:
        raise InputError(f"{len(texts)} different texts are too few; a baseline needs at least 2.")
    chosen = random.Random(seed)
    drawn = [tuple(chosen.sample(texts, 2)) for _ in range(pairs)]
    shared = encoder(model, device=device)
    every_layer = list(range(shared.num_layers + 1))
    sums = {layer: [0.0, 0.0, 0.0] for layer in every_layer}
    special = {shared.tokenizer.cls_token_id, shared.tokenizer.sep_token_id}
    for start in range(0, pairs, 64):
        part = drawn[start : start + 64]
        names = list(dict.fromkeys(text for pair in part for text in pair))
        encoded = dict(zip(names, shared.encode(names, every_layer), strict=True))
        for layer in every_layer:
            bags = {
                text: Bag.of(value.states[layer], [float(token not in special) for token in value.ids])
                for text, value in encoded.items()
            }
            for match in greedy_match([bags[a] for a, _ in part], [bags[b] for _, b in part], floor=0.0):
                sums[layer] = [total + value for total, value in zip(sums[layer], match, strict=True)]
    return Baseline(
        Path(model).name, {layer: Match(*(s / pairs for s in sums[layer])) for layer in every_layer}
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m summarily.metrics.bertscore.baseline",
        description="What unrelated texts score: a baseline to rescale BERTScore with.",
    )
    parser.add_argument("model", help="a path, a pinned name or a Hub id")
    parser.add_argument("--texts", required=True, help="a file with one text per line")
    parser.add_argument("--pairs", type=int, default=10_000, help="random pairs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--source", default="", help="where the texts are from, for the header")
    parser.add_argument("--output", help="default: baseline_MODEL.tsv in this directory")
    options = parser.parse_args(arguments)

    from summarily.metrics.encoding import encoder
    from summarily.support.version import __version__

    content = Path(options.texts).read_bytes()
    texts = content.decode("utf-8").splitlines()
    baseline = compute_baseline(options.model, texts, options.pairs, options.seed)
    header = [
        f"# BERTScore of random pairs of different texts, by layer; summarily {__version__}",
        f"# model: {encoder(options.model).identity}",
        f"# texts: {len(texts)} lines, SHA-256 {hashlib.sha256(content).hexdigest()}",
        *([f"# source of the texts: {options.source}"] if options.source else []),
        f"# pairs: {options.pairs}, seed {options.seed}",
        "LAYER,P,R,F",
    ]
    rows = [f"{layer},{m.precision:.8f},{m.recall:.8f},{m.f:.8f}" for layer, m in baseline.layers.items()]
    output = options.output or f"baseline_{baseline.name}.tsv"
    write_atomically(output, "\n".join(header + rows) + "\n")
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
