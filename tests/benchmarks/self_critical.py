"""Where a step of self-critical training spends its time, and penalised beam search beside transformers' own.

    python -m tests.benchmarks.self_critical [step|beam|write] [--steps 8] [--repeats 3]

`step`: wall-clock seconds of the parts of a step of 16 documents of the bundled sample, on one thread beside one
reward worker, for each reward; the first two steps (start-up of the worker) are left out. The model is new, so its
summaries are random words of full length: the longest that decoding and rewards can take. `beam`: CPU seconds of a
batch, medians, both searches taking turns. `write`: CPU seconds of the greedy and the sampled summaries of 16 documents,
40 tokens each, by FLAN-T5-small with an adapter under bfloat16 autocast: by the model that learns, one after the other,
and by its copy, whose making anew is counted.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from transformers import BartConfig, BartForConditionalGeneration

from summarily.modeling import (
    AttentionVariantConfig,
    AttentionVariantForConditionalGeneration,
    PointerGeneratorConfig,
    PointerGeneratorForConditionalGeneration,
)
from summarily.modeling.generation.summary_beam_search import summary_beam_search
from summarily.modeling.training.collators import SummaryCollator
from summarily.modeling.training.recipe import SelfCriticalSection, TokenizerSection
from summarily.modeling.training.rewards import RewardWorkers, load_rewards
from summarily.modeling.training.self_critical import SelfCriticalLoss, encode
from summarily.modeling.training.tokenizers import train_tokenizer
from summarily.modeling.training.writer import Writer
from summarily.support.sample import load_sample
from summarily.support.tables import format_table
from summarily.support.weights import resolve
from tests.benchmarks.timing import ratio

VOCABULARY = 6000
REWARDS: dict[str, dict[str, Any]] = {"rouge": {"types": ["rougeL"]}, "wms": {}, "sms": {}, "s_wms": {}}
PARTS = ("encode", "greedy", "sample", "score", "reward", "update")


def models(vocabulary: int = VOCABULARY) -> dict[str, Any]:
    """About as large as those that are trained on two cores."""
    sizes = {"encoder_layers": 2, "decoder_layers": 2}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    wide = {"encoder_ffn_dim": 512, "decoder_ffn_dim": 512}
    torch.manual_seed(0)
    return {
        "pointer-generator": PointerGeneratorForConditionalGeneration(
            PointerGeneratorConfig(vocab_size=vocabulary, embedding_size=64, hidden_size=128)
        ),
        "attention variant": AttentionVariantForConditionalGeneration(
            AttentionVariantConfig(
                vocab_size=vocabulary, hidden_size=128, num_attention_heads=4, intermediate_size=512, **sizes
            )
        ),
        "BART": BartForConditionalGeneration(
            BartConfig(
                vocab_size=vocabulary, d_model=128, max_position_embeddings=512, **sizes, **heads, **wide
            )
        ),
    }


def measure_steps(steps: int) -> str:
    """Seconds of each part of a step, for every reward and model."""
    rows = load_sample()[:16]
    texts = [row["source"] for row in rows] + [row["references"][0] for row in rows]
    tokenizer = train_tokenizer(texts, TokenizerSection(kind="bpe", vocabulary_size=2000))
    collate = SummaryCollator(tokenizer.pad_token_id, keep_texts=("references",))
    encoded = [
        {
            "input_ids": tokenizer(row["source"], truncation=True, max_length=200).input_ids,
            "labels": tokenizer(row["references"][0], truncation=True, max_length=60).input_ids,
            "references": row["references"],
        }
        for row in rows
    ]
    batch = collate(encoded)
    lines = []
    for reward, options in REWARDS.items():
        with RewardWorkers(
            load_rewards(reward, {reward: options} if options else None), workers=1
        ) as workers:
            for name, model in models(len(tokenizer)).items():
                if name == "BART":
                    continue
                seconds = _steps(model, batch, tokenizer, workers, steps)
                total = sum(seconds[part] for part in PARTS)
                shares = [f"{seconds[part]:.3f}" for part in PARTS]
                worker = f"{seconds['reward_workers']:.3f}"
                lines.append(
                    [name, reward, *shares, f"{total:.3f}", worker, f"{seconds['reward'] / total:.1%}"]
                )
    return format_table(
        ["model", "reward", *PARTS, "step", "in the worker", "waiting"], lines, right=range(2, 11)
    )


def _steps(model: Any, batch: Any, tokenizer: Any, workers: RewardWorkers, steps: int) -> dict[str, float]:
    settings = SelfCriticalSection(rewards=["x"], max_summary_tokens=60, rl_gamma_end=0.97)
    loss = SelfCriticalLoss(settings, tokenizer, workers)
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-5)
    taken = []
    for step in range(steps + 2):
        loss.begin_step(step + 1)
        loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        taken.append(loss.end_step())
    kept = taken[2:]
    names = [name for name in kept[0] if name.startswith("seconds_")]
    return {name.removeprefix("seconds_"): sum(step[name] for step in kept) / steps for name in names}


def measure_beams(repeats: int) -> str:
    """Ours without and with penalties beside transformers' beam search."""
    ids = torch.randint(3, VOCABULARY, (4, 200), generator=torch.Generator().manual_seed(0))
    options = {"num_beams": 4, "max_new_tokens": 40, "min_new_tokens": 40}
    penalties = {"alpha": 0.9, "beta": 0.5, "block_ngram": 3}
    lines = []
    for name, model in models().items():
        model.eval().generation_config.max_length = None  # one limit on the length, not two

        def theirs(model: Any = model) -> None:
            model.generate(ids, **options)

        for title, chosen in (("none", {}), ("alpha, beta, trigrams", penalties)):

            def ours(model: Any = model, chosen: Any = chosen) -> None:
                model.generate(ids, custom_generate=summary_beam_search, **options, **chosen)

            measured = ratio(ours, theirs, repeats)
            numbers = (measured.ours_seconds, measured.theirs_seconds, measured.ratio)
            lines.append([name, title, *(f"{number:.2f}" for number in numbers)])
    header = ["model", "penalties", "ours (s)", "transformers (s)", "times faster"]
    return format_table(header, lines, right=(2, 3, 4))


def measure_writing(repeats: int) -> str:
    """A copy with merged weights that writes both summaries at once, beside the model itself."""
    from peft import LoraConfig
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    place = resolve("flan-t5-small").path_or_id
    tokenizer = AutoTokenizer.from_pretrained(place)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(place).eval()
    model.add_adapter(LoraConfig(r=32, lora_alpha=32, target_modules="all-linear"))
    texts = ["summarize: " + row["source"] for row in load_sample()[:16]]
    inputs = tokenizer(texts, truncation=True, max_length=400, padding=True, return_tensors="pt")
    options = {"num_beams": 1, "max_new_tokens": 40, "min_new_tokens": 40}
    sampling = {"temperature": 0.7, "top_k": 0}
    writer = Writer(model, torch.bfloat16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        encoded = encode(model, dict(inputs))

        def ours() -> None:
            writer.refresh()
            writer.greedy_and_sampled(inputs, encoded, **options, **sampling)

        def theirs() -> None:
            for chosen in ({"do_sample": False}, {"do_sample": True, **sampling}):
                model.generate(**inputs, encoder_outputs=type(encoded)(**encoded), **options, **chosen)

        measured = ratio(ours, theirs, repeats)
    numbers = (measured.ours_seconds, measured.theirs_seconds, measured.ratio)
    header = ["two summaries of 16 documents", "copy (s)", "model (s)", "times faster"]
    row = ["FLAN-T5-small with an adapter", *(f"{number:.2f}" for number in numbers)]
    return format_table(header, [row], right=(1, 2, 3))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=["step", "beam", "write"], help="default: all")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.part in (None, "step"):
        print(measure_steps(options.steps))
    if options.part in (None, "beam"):
        print(measure_beams(options.repeats))
    if options.part in (None, "write"):
        print(measure_writing(options.repeats))


if __name__ == "__main__":
    main()
