"""T5, and transformers' LongT5, as small as they get, with norms and biases large enough that a mistake shows."""

from __future__ import annotations

import torch
from transformers import (
    LongT5Config,
    LongT5ForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.modeling.common import Batch

# Six buckets up to a distance of eight: all of them occur within a few dozen tokens, and far ones share one.
T5_SIZES = {
    "vocab_size": 60,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 2,
    "relative_attention_num_buckets": 12,
    "relative_attention_max_distance": 8,
    "decoder_start_token_id": 0,
}
FLAN = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def tiny_t5(flan: bool = False, **options) -> T5ForConditionalGeneration:
    """The first T5, or with `flan` that of T5 1.1 and FLAN: gated, and with a head that is not the embeddings."""
    torch.manual_seed(0)
    model = T5ForConditionalGeneration(T5Config(**{**T5_SIZES, **(FLAN if flan else {}), **options}))
    if flan:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) / 4)
    with torch.no_grad():  # norms start at one and the bias small; projections are rough as T5 makes them
        for name, parameter in model.named_parameters():
            if "layer_norm" in name or "relative_attention_bias" in name:
                parameter.add_(torch.randn_like(parameter) * (0.2 if "layer_norm" in name else 1.0))
    return model.eval()


def long_t5_like(t5: T5ForConditionalGeneration, radius: int) -> LongT5ForConditionalGeneration:
    """transformers' LongT5 with local attention and the weights of a T5 whose head is not scaled."""
    config = LongT5Config(**T5_SIZES, **FLAN, local_radius=radius, encoder_attention_type="local")
    model = LongT5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    state = {long_t5_name(name): tensor for name, tensor in t5.state_dict().items()}
    model.load_state_dict(state)
    return model.eval()


def long_t5_name(name: str) -> str:
    return name.replace("SelfAttention", "LocalSelfAttention") if name.startswith("encoder") else name


def left_padded(batch: Batch) -> Batch:
    """The same examples with their padding on the left."""
    shifts = batch["attention_mask"].shape[1] - batch["attention_mask"].sum(1)
    moved = {}
    for name in ("input_ids", "attention_mask"):
        rows = [row.roll(int(shift)) for row, shift in zip(batch[name], shifts, strict=True)]
        moved[name] = torch.stack(rows)
    return {**batch, **moved}


def through_mask(t5: T5ForConditionalGeneration, batch: Batch, seen: torch.Tensor):
    """T5's output when its encoder sees only the pairs `seen` `[batch or 1, 1, queries, keys]`: the dense reference."""
    seen = seen & batch["attention_mask"].bool()[:, None, None, :]
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    encoded = t5.encoder(input_ids=batch["input_ids"], attention_mask=mask)
    return t5(encoder_outputs=encoded, attention_mask=batch["attention_mask"], labels=batch["labels"])


def tiny_t5_summarizer(**settings):
    """A summarizer of a T5 of its own few words, which wants "summarize: " before a text."""
    from summarily import Summarizer
    from summarily.modeling.training.recipe import TokenizerSection
    from summarily.modeling.training.tokenizers import train_tokenizer

    tokenizer = train_tokenizer(["summarize: the cat sat"], TokenizerSection(kind="word", min_frequency=1))
    tokenizer.model_max_length = 20
    task = {"summarization": {"prefix": "summarize: ", **settings}}
    model = tiny_t5(vocab_size=len(tokenizer), pad_token_id=0, eos_token_id=1, task_specific_params=task)
    return Summarizer.of(model, tokenizer)
