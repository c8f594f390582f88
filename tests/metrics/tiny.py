"""Tiny random checkpoints with real tokenizers, saved to disk: every code path of the big models, no download."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import ByteLevelBPETokenizer, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer

from summarily.support.sample import load_sample

KINDS = ("bert", "distilbert", "mpnet", "deberta", "roberta", "bart", "t5", "albert")
LAYERS = 6
LIMIT = 64

_SIZES = {"hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 48}
_SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS - 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}


@functools.cache
def texts() -> list[str]:
    """A few dozen texts of many lengths, with duplicates and odd ones; few exceed the tiny models' limit."""
    found = []
    for row in load_sample():
        words = row["source"].split()
        found += [" ".join(words[: 1 + len(found) % 25]), " ".join(row["references"][0].split()[:12])]
    return [*found[:36], "Snow fell.", "snow  fell ", "Snow fell.", "a", "unbelievableness ×÷ 雪", "(!)"]


@functools.cache
def checkpoint(kind: str, seed: int = 0) -> str:
    """The folder of a tiny checkpoint of this kind."""
    folder = Path(tempfile.mkdtemp(prefix=f"tiny-{kind}-"))
    while kind != "t5" and "t5" in str(folder):  # by chance, one time in 200: bert_score goes by the name
        folder = Path(tempfile.mkdtemp(prefix=f"tiny-{kind}-"))
    byte_level = kind in ("roberta", "bart", "t5", "deberta")
    tokenizer = _byte_level_tokenizer(kind) if byte_level else _wordpiece_tokenizer(kind)
    tokenizer.save_pretrained(folder)
    # It is made once, before or after a caller has set a seed: what the caller draws then is the same.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = _model(kind, len(tokenizer), tokenizer)
        # Far from zero, so that tokens differ, layers matter and attention is not flat.
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    model.eval().save_pretrained(folder)
    return str(folder)


def _model(kind: str, vocabulary: int, tokenizer: Any) -> transformers.PreTrainedModel:
    common = {"vocab_size": vocabulary, "pad_token_id": tokenizer.pad_token_id}
    if kind == "bart":
        config = transformers.BartConfig(
            **common, **_SEQ2SEQ, max_position_embeddings=LIMIT, bos_token_id=0, eos_token_id=2,
            decoder_start_token_id=2, forced_eos_token_id=2,
        )  # fmt: skip
        return transformers.BartForConditionalGeneration(config)
    if kind == "t5":
        config = transformers.T5Config(
            **common, d_model=32, d_kv=8, d_ff=48, num_layers=LAYERS, num_decoder_layers=2, num_heads=4,
            decoder_start_token_id=1, eos_token_id=2,
        )  # fmt: skip
        return transformers.T5Model(config)
    if kind == "distilbert":
        config = transformers.DistilBertConfig(
            **common, dim=32, n_layers=LAYERS, n_heads=4, hidden_dim=48, max_position_embeddings=LIMIT
        )
        return transformers.DistilBertModel(config)
    positions = LIMIT + 2 if kind in ("roberta", "mpnet") else LIMIT
    name = {
        "bert": "Bert",
        "mpnet": "MPNet",
        "deberta": "DebertaV2",
        "roberta": "Roberta",
        "albert": "Albert",
    }[kind]
    extra: dict[str, Any] = {"type_vocab_size": 1} if kind in ("roberta", "deberta") else {}
    if kind == "deberta":
        # A convolution beside the first layer, as in the extra large ones.
        extra |= {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "conv_kernel_size": 3}
    if kind == "albert":
        extra = {"embedding_size": 16}
    config = getattr(transformers, f"{name}Config")(
        **common, **_SIZES, **extra, max_position_embeddings=positions
    )
    return getattr(transformers, f"{name}Model")(config)


def _corpus() -> list[str]:
    return [row["source"] for row in load_sample()]


def _wordpiece_tokenizer(kind: str) -> Any:
    special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"] if kind == "mpnet" else None
    special = special or ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    start, end = ("<s>", "</s>") if kind == "mpnet" else ("[CLS]", "[SEP]")
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(_corpus(), trainer)
    ids = tokenizer.get_vocab()
    tokenizer.post_processor = processors.BertProcessing((end, ids[end]), (start, ids[start]))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=LIMIT, unk_token="[UNK]", cls_token=start, sep_token=end,
        pad_token="<pad>" if kind == "mpnet" else "[PAD]", mask_token="<mask>" if kind == "mpnet" else "[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def _byte_level_tokenizer(kind: str) -> Any:
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(_corpus(), vocab_size=420, special_tokens=special, show_progress=False)
    if kind in ("roberta", "bart"):
        vocabulary = trained.get_vocab()
        folder = tempfile.mkdtemp()
        trained.save_model(folder)
        lines = (Path(folder) / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
        return transformers.RobertaTokenizer(
            vocab=vocabulary, merges=[tuple(line.split()) for line in lines], model_max_length=LIMIT
        )
    inner = trained._tokenizer
    if kind == "t5":
        inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
        names = {"eos_token": "</s>"}
    else:
        inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        names = {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>",
        model_max_length=512 if kind == "t5" else LIMIT,
        model_input_names=["input_ids", "attention_mask"], **names,
    )  # fmt: skip
