"""A T5 out of the int8 ONNX graphs of its encoder and its decoder.

Both graphs were made by dynamic quantisation: each matrix is stored as `<name>_quantized` with a scale and a zero
point, and the node that multiplies by it has the path of its layer for a name. A weight is `(q - zero point) * scale`,
transposed where the graph multiplies from the right. Layer norms are stored as they are.

ONNX Runtime also quantises activations on the fly, so its outputs differ from those of the model that is read here;
the weights are equal bit by bit.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from summarily.support.errors import MissingRequirement
from summarily.support.requirements import pip_install

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG: dict[str, Any] = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 1024,
    "num_layers": 8,
    "num_decoder_layers": 8,
    "num_heads": 6,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
"""FLAN-T5-small."""

VERSION = 1
"""Part of the name of what is made: a change of `convert` makes it anew."""

_LAYER = re.compile(r"^/(?:enc|m)/(?P<path>.+)/MatMul_quant$")


def convert(source: Path, target: Path) -> None:
    """Write the model and tokenizer of `source` (`encoder.onnx`, `decoder.onnx`, `tokenizer.json`) as a folder.

    The folder is an ordinary one for `AutoModelForSeq2SeqLM` and `AutoTokenizer`.
    """
    from safetensors.numpy import save_file
    from transformers import GenerationConfig, T5Config
    from transformers.utils import logging

    target.mkdir(parents=True, exist_ok=True)
    config = T5Config(**CONFIG, architectures=["T5ForConditionalGeneration"], dtype="float32")
    # transformers 5 writes "tie_word_embeddings": true whatever the head is; other readers would tie it.
    stored = config.to_dict() | {"tie_word_embeddings": False, "scale_decoder_outputs": False}
    (target / "config.json").write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    GenerationConfig(decoder_start_token_id=0, eos_token_id=1, pad_token_id=0).save_pretrained(target)
    save_file(state_dict(source), target / "model.safetensors", metadata={"format": "pt"})
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        _tokenizer(source / "tokenizer.json").save_pretrained(target)
    finally:
        logging.set_verbosity(level)


def state_dict(source: Path) -> dict[str, np.ndarray]:
    """Every tensor of `T5ForConditionalGeneration`, float32, by its name there.

    With a head of its own transformers 5 does not tie the embeddings of encoder and decoder to `shared`: what is
    not in the file would be drawn at random, so all three are.
    """
    encoder = dict(_tensors(source / "encoder.onnx", "encoder."))
    decoder = dict(_tensors(source / "decoder.onnx", ""))
    shared = decoder["shared.weight"]
    if not np.array_equal(shared, encoder["encoder.embed_tokens.weight"]):
        raise ValueError(f"{source}: the encoder and the decoder have different embeddings.")
    return {**decoder, **encoder, "decoder.embed_tokens.weight": shared}


def _tensors(path: Path, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    """The weights of one graph, named as in transformers; `prefix` stands before the encoder's."""
    graph, to_array = _read(path)
    stored = {tensor.name: tensor for tensor in graph.initializer}

    def dequantized(name: str) -> np.ndarray:
        quantized, zero, scale = (
            to_array(stored[f"{name}_{part}"]) for part in ("quantized", "zero_point", "scale")
        )
        return (quantized.astype(np.float32) - np.float32(zero)) * np.float32(scale)

    for node in graph.node:
        match = _LAYER.match(node.name) if node.op_type == "MatMulInteger" else None
        if match:
            weight = dequantized(node.input[1].removesuffix("_quantized"))
            name = match["path"].replace("/", ".")
            yield f"{prefix}{name}.weight", np.ascontiguousarray(weight.T)
    for name, tensor in stored.items():
        plain = re.sub(r"^(enc|m)\.", prefix if name.startswith("enc.") else "", name)
        if plain.endswith("norm.weight"):
            yield plain, to_array(tensor).astype(np.float32)
        elif plain.endswith(".weight_quantized"):
            yield plain.removesuffix("_quantized"), dequantized(name.removesuffix("_quantized"))


def _read(path: Path) -> tuple[Any, Any]:
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise MissingRequirement(
            f'reading the weights "flan-t5-small" needs onnx: {pip_install("offline")}'
        ) from None
    return onnx.load(path).graph, numpy_helper.to_array


def _tokenizer(path: Path) -> Any:
    """T5's tokenizer; the file's own truncation and padding, made for titles, are switched off."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    fast = Tokenizer.from_str(json.dumps(json.loads(path.read_text(encoding="utf-8"))))
    fast.no_truncation()
    fast.no_padding()
    extra = [f"<extra_id_{i}>" for i in range(100)]
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        additional_special_tokens=extra,
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )
