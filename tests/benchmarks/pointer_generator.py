"""Attention and decoding with the source projected once or at every token, and training steps per second.

    python -m tests.benchmarks.pointer_generator [--repeats 3] [--only attention|decoding|training]

CPU time of one thread at the paper's sizes: hidden size 512, 50,000 words, sources of 400 tokens; its summaries are
written with five beams from whole articles, of which 800 tokens are the average in CNN/DailyMail.
"""

from __future__ import annotations

import argparse
import copy
import functools
import time

import torch
from transformers import GenerationMixin

from summarily.modeling import (
    ApesoConfig,
    ApesoForConditionalGeneration,
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
)
from summarily.modeling.generation.summary_beam_search import summary_beam_search
from summarily.modeling.pointer_generator.modeling_pointer_generator import (
    AdditiveAttention,
    PointerGeneratorDecoder,
)
from tests.benchmarks.timing import ratio

VOCABULARY, SOURCE, ARTICLE, SUMMARY = 50_000, 400, 800, 100


def attending(repeats: int, examples: int = 8, calls: int = 10) -> float:
    """How many times faster a step of attention is when W h_j is at hand."""
    torch.manual_seed(0)
    attention = AdditiveAttention(512).eval()
    states, query = torch.randn(examples, SOURCE, 512), torch.randn(examples, 512)
    mask = torch.ones(examples, SOURCE, dtype=torch.bool)
    with torch.no_grad():
        keys = attention.project(states)

        def cached() -> None:
            for _ in range(calls):
                attention(query, keys, mask)

        def recomputed() -> None:
            for _ in range(calls):
                attention(query, attention.project(states), mask)

        measured = ratio(cached, recomputed, repeats)
    print(
        f"attention to {SOURCE} tokens, {examples} examples: {1e3 * measured.ours_seconds / calls:.1f} ms with the cached "
        f"projection, {1e3 * measured.theirs_seconds / calls:.1f} ms without: {measured.ratio:.1f} times faster",
        flush=True,
    )
    return measured.ratio


class RecomputingDecoder(PointerGeneratorDecoder):
    """The same, except that W h_j is computed again for every token."""

    def forward(self, embedded, encoder_outputs, mask, cache):
        if cache.keys is not None:
            cache.keys = self.step.attention.project(encoder_outputs.last_hidden_state)
        return super().forward(embedded, encoder_outputs, mask, cache)


Model = PointerGeneratorForConditionalGeneration


def repeating(model: Model, decoder: type[PointerGeneratorDecoder] = PointerGeneratorDecoder) -> Model:
    """A model with the same weights whose sources are repeated for every beam, as transformers does it."""
    twin = copy.deepcopy(model)
    twin.model.decoder.__class__ = decoder
    twin._expand_inputs_for_generation = functools.partial(
        GenerationMixin._expand_inputs_for_generation, twin
    )
    return twin


def decoding(repeats: int, tokens: int = 20) -> None:
    """The whole of `generate`, the distribution over the words of every token included; all write the same words.

    Three ways: the source projected once and shared by its beams (ours), projected once for every beam, and projected
    by every beam at every token.
    """
    penalised = {"custom_generate": summary_beam_search, "num_beams": 5, "alpha": 0.9, "beta": 0.5}
    for words, title, source, examples, search in (
        (VOCABULARY, "greedily", SOURCE, 16, {}),
        (VOCABULARY, "with the paper's search", SOURCE, 16, penalised),
        (VOCABULARY, "with the paper's search", ARTICLE, 4, penalised),
        (VOCABULARY, "with the paper's search", ARTICLE, 16, penalised),
        (10_000, "with the paper's search", ARTICLE, 16, penalised),
    ):
        torch.manual_seed(0)
        ours = Model(PointerGeneratorConfig(vocab_size=words)).eval()
        cached, recomputed = repeating(ours), repeating(ours, RecomputingDecoder)
        sources = torch.randint(3, words + 20, (examples, source))
        with torch.no_grad():
            encoded = ours.model.encoder(sources)

        def run(model, sources=sources, encoded=encoded, search=search):
            outputs = type(encoded)(**encoded)
            mask = torch.ones_like(sources)
            return model.generate(
                encoder_outputs=outputs, attention_mask=mask, max_new_tokens=tokens, **search
            )

        written = run(ours)
        assert written.shape[1] == tokens + 1
        assert torch.equal(written, run(cached)) and torch.equal(written, run(recomputed))
        slow = functools.partial(run, recomputed)
        shared = ratio(functools.partial(run, ours), slow, repeats)
        alone = ratio(functools.partial(run, cached), slow, repeats)
        print(
            f"decoding {title}, {words:,} words, {examples} sources of {source} tokens: "
            f"{1e3 * shared.theirs_seconds / tokens:.0f} ms a token with the source projected at every token, "
            f"{1e3 * alone.ours_seconds / tokens:.0f} ms with it cached for every beam ({alone.ratio:.1f} times faster), "
            f"{1e3 * shared.ours_seconds / tokens:.0f} ms with it cached and shared ({shared.ratio:.1f} times)",
            flush=True,
        )


def training(repeats: int) -> None:
    """Steps per second: at the paper's sizes, and at those of the study."""
    for name, sizes, source, summary in (
        ("the paper's sizes", {"vocab_size": VOCABULARY}, SOURCE, SUMMARY),
        (
            "the study's sizes",
            {"vocab_size": 10_000, "embedding_size": 50, "hidden_size": 128, "coverage": True},
            200,
            60,
        ),
    ):
        torch.manual_seed(0)
        model = ApesoForConditionalGeneration(ApesoConfig(**sizes)).train()
        optimizer = torch.optim.Adagrad(model.parameters(), lr=0.15)
        ids = torch.randint(3, sizes["vocab_size"], (16, source))
        labels = torch.randint(3, sizes["vocab_size"], (16, summary))
        seconds = []
        for _ in range(repeats + 1):
            start = time.process_time()
            model(input_ids=ids, labels=labels, salient_tokens=torch.zeros_like(ids)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seconds.append(time.process_time() - start)
        fastest = min(seconds[1:])
        print(f"training, 16 examples, {name}: {1 / fastest:.2f} steps per second", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["attention", "decoding", "training"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, measure in {"attention": attending, "decoding": decoding, "training": training}.items():
        if arguments.only in (None, name):
            measure(arguments.repeats)


if __name__ == "__main__":
    main()
