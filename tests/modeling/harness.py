"""The checks that transformers applies to each of its models, for ours.

`CHECKS` are claims about one class, under the names that they have in transformers' `ModelTesterMixin` and
`GenerationTesterMixin` (5.22); the code is our own. `CASES` are our classes with tiny configurations, and
`CANNOT_APPLY` is the one table of what is left out, and why. `test_harness.py` runs all of it.

Names of those mixins that are not here ask for a GPU or several processes (flash attention, parallel plans, DeepSpeed,
offloaded and quantized caches), for pictures, sound, experts or rotary positions, for a decoder alone (logits to keep,
embeddings that go on), for heads that classify (problem types), or look at the tester (is it small?). Others are part of
one that is: `base_model_prefix_loads_base_weights` of `correct_missing_keys`, `inputs_embeds` of
`inputs_embeds_matches_input_ids`, `disk_offload_bin` of `disk_offload_safetensors`, `training_gradient_checkpointing` and
`enable_input_require_grads_with_gradient_checkpointing` of those with `use_reentrant`, `can_load_with_global_device_set`
of `can_load_with_device_context_manager`, `config_attn_implementation_setter` and `sdpa_can_dispatch_...` of
`can_set_attention_dynamically`, `greedy_generate` and the like of their `..._dict_output`.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import accelerate
import pytest
import torch
from safetensors.torch import load_file
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

import summarily.modeling as ours

Inputs = dict[str, torch.Tensor]
VOCABULARY = 60


# --- our classes ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A configuration and the classes that it makes; `inputs` gives those of `forward` for some rows of the batch."""

    name: str
    config: Callable[[], PreTrainedConfig]
    classes: tuple[str, ...]
    inputs: Callable[[list[int]], Inputs]
    labels: Callable[[], Inputs]
    embedded: tuple[str, ...] = ("input_ids",)  # inputs that have tokens
    attentions: tuple[str, ...] = ()  # outputs with the weights of attention, in eager attention
    states: tuple[str, ...] = ("hidden_states",)  # outputs with the states of layers


@dataclass
class Subject:
    """One class in one case."""

    case: Case
    name: str
    rows: list[int] = field(default_factory=lambda: [0, 1, 2])

    @property
    def model_class(self) -> type[PreTrainedModel]:
        return getattr(ours, self.name)

    @property
    def generates(self) -> bool:
        return self.model_class.can_generate()

    def model(self, **options: Any) -> PreTrainedModel:
        """The same weights whenever it is called."""
        torch.manual_seed(0)
        config = self.case.config()
        for name, value in options.items():
            setattr(config, name, value)
        return self.model_class(config).eval()

    def inputs(self, labels: bool = False, rows: list[int] | None = None) -> Inputs:
        inputs = self.case.inputs(self.rows if rows is None else rows)
        if labels:
            inputs |= self.case.labels()
        return inputs

    @property
    def learns(self) -> bool:
        """Whether it has a loss."""
        return "labels" in inspect.signature(self.model_class.forward).parameters


def _tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(5, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def _pairs(rows: list[int]) -> Inputs:
    """Sources and summaries; the second and third source are padded on the right."""
    mask = torch.ones(3, 14, dtype=torch.long)
    mask[1, 11:] = mask[2, 9:] = 0
    ids = _tokens(3, 14).masked_fill(mask == 0, PAD)
    batch = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": _tokens(3, 7, seed=1)}
    return {name: tensor[rows] for name, tensor in batch.items()}


def _summary_labels() -> Inputs:
    return {"labels": _tokens(3, 7, seed=2)}


PAD = 1
BART = {
    "vocab_size": VOCABULARY, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 24,
    "pad_token_id": PAD, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
LONG = {"max_encoder_position_embeddings": 48}
T5 = {
    "vocab_size": VOCABULARY, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2,
    "decoder_start_token_id": PAD, "pad_token_id": PAD, "eos_token_id": 2,
}  # fmt: skip
COPIER = {
    "vocab_size": VOCABULARY, "embedding_size": 16, "hidden_size": 16, "num_layers": 2, "pad_token_id": PAD,
    "eos_token_id": 2, "unk_token_id": 3, "decoder_start_token_id": PAD, "init_range": 0.5,
}  # fmt: skip
BERT = {
    "model_type": "bert", "vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 16, "max_position_embeddings": 32,
}  # fmt: skip


def _variant(mechanism: str) -> Callable[[], PreTrainedConfig]:
    return lambda: ours.AttentionVariantConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_attention_heads=2, encoder_layers=2, decoder_layers=2,
        intermediate_size=16, attention_type=mechanism, block_length=4, width=2, memory_length=2, pad_token_id=PAD,
        eos_token_id=2, decoder_start_token_id=PAD,
    )  # fmt: skip


def _scored(rows: list[int]) -> Inputs:
    mask = torch.ones(3, 12, dtype=torch.long)
    mask[1, 9:] = 0
    candidate = (torch.arange(12) > 5).long().expand(3, 12) * mask
    batch = {
        "input_ids": _tokens(3, 12).masked_fill(mask == 0, 0), "attention_mask": mask, "token_type_ids": candidate,
    }  # fmt: skip
    return {name: tensor[rows] for name, tensor in batch.items()}


def _sentences(rows: list[int]) -> Inputs:
    return {name: _scored(rows)[name] for name in ("input_ids", "attention_mask")}


def _questions(rows: list[int]) -> Inputs:
    passages = _tokens(3, 12)
    passages[:, 3], passages[:, 6], passages[1, 9:] = 30, 31, 0
    batch = {"input_ids": passages, "question_ids": _tokens(3, 6, seed=1)}
    return {name: tensor[rows] for name, tensor in batch.items()}


def _laid_out(rows: list[int]) -> Inputs:
    """What the cross reader's `collate` makes of passages in chunks, two questions about each."""
    from summarily.modeling.cross_reader.modeling_cross_reader import (
        Chunk,
        EncodedPassage,
        EncodedQuestion,
    )

    passages = [
        EncodedPassage(
            [
                Chunk([2, *range(10 + row, 16 + row), 3], [-1, 0, 0, -1, 1, -1, 2, -1], [0, 2, 2, 0, 1, 0, 1, 0]),
                Chunk([2, 20 + row, 21, 3], [-1, 0, 1, -1], [0, 1, 1, 0]),
            ],
            [EncodedQuestion([2, 9, 4, 3], 1, [1]), EncodedQuestion([2, 8 + row, 7, 4, 3], 2, [0])],
            {0: "@entity0", 1: "@entity1", 2: "@entity2"},
        )
        for row in rows
    ]  # fmt: skip
    return ours.CrossReader(_cross_reader()).collate(passages)


def _cross_reader(**options: Any) -> PreTrainedConfig:
    sizes = {"chunk_tokens": 8, "question_tokens": 6, "row_tokens": 12}
    return ours.CrossReaderConfig(encoder_config=BERT, **sizes, **options)


ENCODER_DECODER = {
    "inputs": _pairs,
    "labels": _summary_labels,
    "embedded": ("input_ids", "decoder_input_ids"),
    "states": ("encoder_hidden_states", "decoder_hidden_states"),
}
SHOWN = ("encoder_attentions", "decoder_attentions", "cross_attentions")


def _both(name: str) -> tuple[str, str]:
    return f"{name}Model", f"{name}ForConditionalGeneration"


CASES = [
    Case("led", lambda: ours.LedConfig(**BART, **LONG, attention_window=4), _both("Led"), **ENCODER_DECODER, attentions=SHOWN),
    Case("red", lambda: ours.RedConfig(**BART, **LONG, chunk_length=4), _both("Red"), **ENCODER_DECODER, attentions=SHOWN),
    Case("led_t5", lambda: ours.LedT5Config(**T5, attention_window=4, global_tokens="bos"), _both("LedT5"), **ENCODER_DECODER, attentions=SHOWN),
    Case("red_t5", lambda: ours.RedT5Config(**T5, chunk_length=4), _both("RedT5"), **ENCODER_DECODER, attentions=SHOWN),
    Case("local", _variant("local"), _both("AttentionVariant"), **ENCODER_DECODER, attentions=SHOWN),
    Case("relative", _variant("relative"), _both("AttentionVariant"), **ENCODER_DECODER, attentions=SHOWN),
    Case("pointer_generator", lambda: ours.PointerGeneratorConfig(**COPIER), _both("PointerGenerator"), **ENCODER_DECODER, attentions=("cross_attentions",)),
    Case("apeso", lambda: ours.ApesoConfig(**COPIER), _both("Apeso"), **{**ENCODER_DECODER, "labels": lambda: {**_summary_labels(), "salient_tokens": torch.ones(3, 14)}}, attentions=("cross_attentions",)),
    Case("bleurt", lambda: ours.BleurtConfig(encoder_config=BERT), ("BleurtForScoring",), _scored, lambda: {"labels": torch.rand(3, 1)}, attentions=("attentions",)),
    Case("bleurt adapted", lambda: ours.BleurtConfig(encoder_config=BERT, adapter_rank=2, pooling="pair"), ("BleurtForScoring",), _scored, lambda: {"labels": torch.rand(3, 1)}, attentions=("attentions",)),
    Case("infersent", lambda: ours.InferSentConfig(vocab_size=VOCABULARY, embedding_size=8, hidden_size=8), ("InferSentModel",), _sentences, dict),
    Case("cloze reader", lambda: ours.ClozeReaderConfig(vocab_size=VOCABULARY, embedding_size=8, hidden_size=8, max_entities=5, first_entity_id=30), ("ClozeReader",), _questions, lambda: {"labels": torch.tensor([0, 1, 0])}, embedded=("input_ids", "question_ids"), attentions=("attentions",)),
    Case("cross reader", _cross_reader, ("CrossReader",), _laid_out, lambda: {"labels": torch.tensor([0, 1, 2] * 2)}),
    Case("cross reader adapted", lambda: _cross_reader(adapter_rank=2), ("CrossReader",), _laid_out, lambda: {"labels": torch.tensor([0, 1, 2] * 2)}),
]  # fmt: skip

SUBJECTS = [Subject(case, name) for case in CASES for name in case.classes]

# --- what cannot apply: check, then case (or case/class), and why -----------------------------------------

_LSTM = "an LSTM, which has no self-attention"
_IDS = "what it copies or answers with are ids: embeddings do not say which"
_BLOCKS = "passages and questions attend in blocks of different shapes: there is no matrix to show"
_STATE = "an LSTM cannot take tokens back, and `generate` is told so"
_ADDITIVE = "additive attention has no dot product to scale"
_ONE_CALL = "one call of one operator, of which nothing can be computed again"
_OWN_CACHE = "its cache keeps what its attention can still see, and `generate` is told so"
_T5 = "T5 with a head has the layers of T5 itself, as in transformers, and no T5 in it"
_ONE_STATE = "the state of an LSTM has one size, however long the summary, and no keys"
_LEFT = "positions, or the chunks they lie in, are counted from the left, as in stock BART and LED"

CANNOT_APPLY: dict[str, dict[str, str]] = {
    "attention_outputs": {
        "infersent": _LSTM,
        "cross reader": _BLOCKS,
        "cross reader adapted": _BLOCKS,
    },
    "eager_matches_sdpa_inference": {
        "pointer_generator": _ADDITIVE,
        "apeso": _ADDITIVE,
        "infersent": _LSTM,
        "cloze reader": "bilinear attention of a question's one state, which is not scaled",
    },
    "gradient_checkpointing_backward_compatibility": {"infersent": _ONE_CALL, "cloze reader": _ONE_CALL},
    "training_gradient_checkpointing_use_reentrant_false": {"cloze reader": _ONE_CALL},
    "training_gradient_checkpointing_use_reentrant_true": {"cloze reader": _ONE_CALL},
    "inputs_embeds_matches_input_ids": {
        "pointer_generator": _IDS,
        "apeso": _IDS,
        "cloze reader": _IDS,
        "cross reader": _IDS,
        "cross reader adapted": _IDS,
    },
    "generate_from_inputs_embeds": {"pointer_generator": _IDS, "apeso": _IDS},
    "generate_prompt_lookup_decoding_matches_greedy_search": {"pointer_generator": _STATE, "apeso": _STATE},
    "generate_assisted_decoding_matches_greedy_search": {"pointer_generator": _STATE, "apeso": _STATE},
    "generate_assisted_decoding_sample": {"pointer_generator": _STATE, "apeso": _STATE},
    "generate_past_key_values_format": {"pointer_generator": _ONE_STATE, "apeso": _ONE_STATE},
    "can_set_attention_dynamically": {"pointer_generator": _ADDITIVE, "apeso": _ADDITIVE},
    "model_base_model_prefix": {
        "led_t5/LedT5ForConditionalGeneration": _T5,
        "red_t5/RedT5ForConditionalGeneration": _T5,
    },
    "generate_with_static_cache": {
        "pointer_generator": _ONE_STATE,
        "apeso": _ONE_STATE,
        "local": _OWN_CACHE,
        "relative": _OWN_CACHE,
    },
    "generate_left_padding_compatibility": {"led": _LEFT, "red": _LEFT, "red_t5": _LEFT, "local": _LEFT},
}


# --- the checks -------------------------------------------------------------------------------------------

Check = Callable[[Subject], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def applies(name: str, subject: Subject) -> bool:
    """Whether a check is about such a class at all: generation about those that generate, and so on."""
    if name.startswith("generate_"):
        return subject.generates
    if name in ("torch_export", "torch_compile"):  # a head has its body in it
        return subject.name == subject.case.classes[-1]
    if name in ("training", "autocast", "loss_of_rows") or name.startswith("training_"):
        return subject.learns
    return True


def reason(name: str, subject: Subject) -> str | None:
    """Why a check is left out."""
    table = CANNOT_APPLY.get(name, {})
    return table.get(f"{subject.case.name}/{subject.name}", table.get(subject.case.name))


def outputs(model: PreTrainedModel, inputs: Inputs, **options: Any) -> dict[str, Any]:
    with torch.no_grad():
        return dict(model(**inputs, **options))


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors within outputs, in order; caches are left out."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, tuple | list):
        return []
    return [tensor for part in value for tensor in tensors(part)]


def assert_same(one: Any, other: Any, tolerance: float = 1e-5) -> None:
    """To so much, and to ten units in the last place: log-probabilities of 40 have no five digits after the point."""
    one, other = tensors(one), tensors(other)
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1.3e-6 if tolerance else 0, atol=tolerance)


def gradients(model: PreTrainedModel, inputs: Inputs) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(**inputs).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def without_dropout(model: PreTrainedModel) -> PreTrainedModel:
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model


def saved(model: PreTrainedModel) -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory()
    model.save_pretrained(folder.name)
    return folder


# --- saving and loading


@check
def save_load(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    with saved(model) as folder:
        loaded, report = subject.model_class.from_pretrained(folder, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        again = loaded.eval()
    with saved(again) as folder:  # a loaded model, whose folder is gone
        again = subject.model_class.from_pretrained(folder).eval()
    assert_same(outputs(model, inputs), outputs(loaded, inputs))
    assert_same(outputs(model, inputs), outputs(again, inputs))


@check
def from_pretrained_no_checkpoint(subject: Subject) -> None:
    model = subject.model()
    made = subject.model_class.from_pretrained(
        pretrained_model_name_or_path=None, config=subject.case.config(), state_dict=model.state_dict()
    )
    assert_same(model.state_dict(), made.state_dict(), tolerance=0)


@check
def can_use_safetensors(subject: Subject) -> None:
    model = subject.model()
    with saved(model) as folder:
        stored = load_file(f"{folder}/model.safetensors")
    ties = dict(model.named_parameters(remove_duplicate=False)).keys() - dict(model.named_parameters()).keys()
    kept = {name for name, _ in model.named_buffers()} & model.state_dict().keys()
    assert stored.keys() | ties >= model.state_dict().keys() and kept <= stored.keys()


@check
def bc_torch_dtype(subject: Subject) -> None:
    with saved(subject.model()) as folder:
        for name in ("dtype", "torch_dtype"):
            for value in (torch.float16, "float16"):
                loaded = subject.model_class.from_pretrained(folder, **{name: value})
                assert loaded.dtype == loaded.get_input_embeddings().weight.dtype == torch.float16, name


@check
def load_with_mismatched_shapes(subject: Subject) -> None:
    with saved(subject.model()) as folder:
        config = subject.case.config()
        config.vocab_size += 3
        with pytest.raises(RuntimeError, match="mismatch"):
            subject.model_class.from_pretrained(folder, config=config)
        loaded = subject.model_class.from_pretrained(folder, config=config, ignore_mismatched_sizes=True)
    assert loaded.get_input_embeddings().num_embeddings == VOCABULARY + 3
    assert all(torch.isfinite(p).all() for p in loaded.parameters())


@contextlib.contextmanager
def seeded_modules() -> Iterator[None]:
    """Every module that a model initializes begins at the same seed, so that their order does not matter."""
    initialize = PreTrainedModel._initialize_weights

    def seeded(*arguments: Any, **options: Any) -> None:
        torch.manual_seed(42)
        initialize(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PreTrainedModel, "_initialize_weights", seeded)
        yield


@check
def can_init_all_missing_weights(subject: Subject) -> None:
    """Weights that a checkpoint lacks start as those of a new model do, to the last bit."""
    with seeded_modules():
        model = subject.model()
        made = subject.model_class.from_pretrained(None, config=subject.case.config(), state_dict={})
    for one, other in (
        (model.state_dict(), made.state_dict()),
        (dict(model.named_buffers()), dict(made.named_buffers())),
    ):
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name


@check
def init_weights_can_init_buffers(subject: Subject) -> None:
    """A model that was built without memory has its buffers, and weights that are numbers, from `init_weights`."""
    with torch.device("meta"):
        model = subject.model_class(subject.case.config())
    model.to_empty(device="cpu")
    with torch.no_grad():  # whatever lay in the memory
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(float("nan") if tensor.is_floating_point() else -7)
    with seeded_modules():
        model.init_weights()
        expected = subject.model()
    for name, tensor in expected.named_buffers():
        assert torch.equal(model.get_buffer(name), tensor), name
    for name, tensor in expected.named_parameters():
        assert torch.equal(model.get_parameter(name), tensor), name


@check
def load_contiguous_weights(subject: Subject) -> None:
    with saved(subject.model()) as folder:
        loaded = subject.model_class.from_pretrained(folder)
    assert all(parameter.is_contiguous() for parameter in loaded.parameters())


@check
def load_save_without_tied_weights(subject: Subject) -> None:
    """What the configuration unties has weights of its own, in the file too."""
    model = subject.model(tie_word_embeddings=False)
    with saved(model) as folder:
        loaded, report = subject.model_class.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert_same(model.state_dict(), loaded.state_dict(), tolerance=0)


@check
def tied_weights_keys(subject: Subject) -> None:
    """The keys that a class says it ties are one tensor with their source, and no others are."""
    model = subject.model()
    ties = model.all_tied_weights_keys
    assert all(model.get_parameter(name) is model.get_parameter(source) for name, source in ties.items())
    every = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert every - {name for name, _ in model.named_parameters()} <= ties.keys() | set(ties.values())


@check
def cannot_load_with_meta_device_context_manager(subject: Subject) -> None:
    with (
        saved(subject.model()) as folder,
        torch.device("meta"),
        pytest.raises(RuntimeError, match="meta device"),
    ):
        subject.model_class.from_pretrained(folder)


@check
def model_weights_reload_no_missing_tied_weights(subject: Subject) -> None:
    """What is one tensor is one again after loading, and is saved once."""
    model = subject.model()

    def ties(of: PreTrainedModel) -> set[frozenset[str]]:
        groups: dict[int, set[str]] = {}
        for name, parameter in of.named_parameters(remove_duplicate=False):
            groups.setdefault(id(parameter), set()).add(name)
        return {frozenset(names) for names in groups.values() if len(names) > 1}

    with saved(model) as folder:
        stored = load_file(f"{folder}/model.safetensors")
        loaded, report = subject.model_class.from_pretrained(folder, output_loading_info=True)
    assert ties(loaded) == ties(model) and not report["missing_keys"]
    assert all(len(names & stored.keys()) == 1 for names in ties(model))


@check
def can_set_attention_dynamically(subject: Subject) -> None:
    """By the configuration and by the model, for all parts of it; what is not known is refused and changes nothing."""
    model = subject.model()
    parts = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    for kind in ("eager", "sdpa") if all(part._supports_sdpa for part in parts) else ("eager",):
        assert subject.model(_attn_implementation=kind).config._attn_implementation == kind
        model.set_attn_implementation(kind)
        assert {part.config._attn_implementation for part in parts} == {kind}
        with pytest.raises(ValueError, match="foo"):
            model.set_attn_implementation("foo")
        assert {part.config._attn_implementation for part in parts} == {kind}


@check
def can_be_initialized_on_meta(subject: Subject) -> None:
    with torch.device("meta"):
        model = subject.model_class(subject.case.config())
    assert {p.device.type for p in model.parameters()} == {"meta"}


@check
def can_load_with_device_context_manager(subject: Subject) -> None:
    model = subject.model()
    with saved(model) as folder, torch.device("cpu"):
        loaded = subject.model_class.from_pretrained(folder).eval()
    assert_same(outputs(model, subject.inputs()), outputs(loaded, subject.inputs()))


@check
def torch_save_load(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    other = subject.model_class(subject.case.config()).eval()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/state.pt")
        other.load_state_dict(torch.load(f"{folder}/state.pt", weights_only=True))
    assert_same(outputs(model, inputs), outputs(other, inputs))


@check
def correct_missing_keys(subject: Subject) -> None:
    """A head on the checkpoint of its body is reported as missing, and the body has its weights."""
    prefix = subject.model_class.base_model_prefix
    model = subject.model()
    body = getattr(model, prefix, None)
    if body is None or body is model:
        return
    with saved(body) as folder:
        head, report = subject.model_class.from_pretrained(folder, output_loading_info=True)
    own = {name for name, _ in model.named_parameters() if not name.startswith(f"{prefix}.")}
    assert own <= set(report["missing_keys"])
    assert_same(body.state_dict(), getattr(head, prefix).state_dict(), tolerance=0)


@check
def cpu_offload(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    expected = outputs(model, inputs)
    assert_same(expected, outputs(accelerate.cpu_offload(model, torch.device("cpu")), inputs))


@check
def disk_offload_safetensors(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    expected = outputs(model, inputs)
    with tempfile.TemporaryDirectory() as folder:
        offloaded = accelerate.disk_offload(model, folder, torch.device("cpu"))
        assert_same(expected, outputs(offloaded, inputs))


@check
def device_map_auto(subject: Subject) -> None:
    """Loaded where there is room, and half of it left on the disk where there is not."""
    model, inputs = subject.model(), subject.inputs()
    expected = outputs(model, inputs)
    half = sum(p.numel() * p.element_size() for p in model.parameters()) // 2
    with saved(model) as folder, tempfile.TemporaryDirectory() as rest:
        for options in ({}, {"max_memory": {"cpu": half}, "offload_folder": rest}):
            loaded = subject.model_class.from_pretrained(folder, device_map="auto", **options).eval()
            assert_same(expected, outputs(loaded, inputs))
        assert "disk" in loaded.hf_device_map.values()


@check
def quantize_dynamic(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    expected = tensors(outputs(model, inputs))[0]
    quantized = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
    assert type(quantized) is type(model)
    found = tensors(outputs(quantized, inputs))[0]
    finite = torch.isfinite(expected)
    assert torch.equal(torch.isfinite(found), finite)
    # T5's scores are not scaled: with random weights, rounding them moves the attention more than in other models.
    least = 0.5 if "T5" in subject.name else 0.9
    assert torch.nn.functional.cosine_similarity(found[finite], expected[finite], dim=0) > least


# --- what a model is


@check
def all_tensors_are_parameter_or_buffer(subject: Subject) -> None:
    for name, module in subject.model().named_modules():
        plain = [key for key, value in vars(module).items() if isinstance(value, torch.Tensor)]
        assert not plain, f"{name} holds tensors that move with no model: {plain}"


@check
def model_main_input_name(subject: Subject) -> None:
    assert (
        list(inspect.signature(subject.model_class.forward).parameters)[1]
        == subject.model_class.main_input_name
    )


@check
def model_base_model_prefix(subject: Subject) -> None:
    model = subject.model()
    if subject.name.endswith("ForConditionalGeneration"):
        assert isinstance(getattr(model, model.base_model_prefix), PreTrainedModel)


@check
def model_get_set_embeddings(subject: Subject) -> None:
    model = subject.model()
    embeddings = model.get_input_embeddings()
    assert isinstance(embeddings, torch.nn.Embedding)
    new = torch.nn.Embedding(VOCABULARY, embeddings.embedding_dim)
    model.set_input_embeddings(new)
    assert model.get_input_embeddings() is new
    head = model.get_output_embeddings()
    assert head is None or isinstance(head, torch.nn.Linear)


@check
def auto_classes_hold_the_class(subject: Subject) -> None:
    """The mappings of the auto classes give the class itself."""
    import transformers

    family = next(f for f in ours.FAMILIES if subject.name in f.auto_models.values())
    name = next(auto for auto, own in family.auto_models.items() if own == subject.name)
    found = getattr(transformers, name)._model_mapping[type(subject.case.config())]
    assert isinstance(subject.model(), found) and issubclass(found, PreTrainedModel)


@check
def resize_tokens_embeddings(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    before = tensors(outputs(model, inputs))[0]
    old = model.get_input_embeddings().weight.detach().clone()
    model.resize_token_embeddings(VOCABULARY + 10)
    assert model.config.vocab_size == model.get_input_embeddings().num_embeddings == VOCABULARY + 10
    torch.testing.assert_close(model.get_input_embeddings().weight[:VOCABULARY], old)
    new_words = {
        name: tensor.masked_fill(tensor == int(_tokens(3, 14)[0, 0]), VOCABULARY + 5)
        if name in subject.case.embedded
        else tensor
        for name, tensor in inputs.items()
    }
    expected = outputs(model, new_words)
    with saved(model) as folder:
        loaded = subject.model_class.from_pretrained(folder).eval()
    assert_same(expected, outputs(loaded, new_words))
    model.resize_token_embeddings(VOCABULARY - 15)
    clamped = {
        name: tensor.clamp(max=VOCABULARY - 16) if name in subject.case.embedded else tensor
        for name, tensor in inputs.items()
    }
    assert tensors(outputs(model, clamped))[0].shape[0] == before.shape[0]
    with saved(model) as folder:
        loaded = subject.model_class.from_pretrained(folder).eval()
    assert_same(outputs(model, clamped), outputs(loaded, clamped))


@check
def resize_embeddings_untied(subject: Subject) -> None:
    """The words that are read and those that are written, each with weights of its own."""
    model = subject.model(tie_word_embeddings=False)
    head = model.get_output_embeddings()
    if head is not None:
        assert head.weight is not model.get_input_embeddings().weight
        old = head.weight.detach().clone()
        model.resize_token_embeddings(VOCABULARY + 10)
        assert model.get_output_embeddings().weight.shape[0] == VOCABULARY + 10
        torch.testing.assert_close(model.get_output_embeddings().weight[:VOCABULARY], old)
        assert tensors(outputs(model, subject.inputs()))[0].shape[-1] == VOCABULARY + 10


@check
def resize_embeddings_untied_no_reinit_on_post_init(subject: Subject) -> None:
    model = subject.model(tie_word_embeddings=False)
    model.resize_token_embeddings(VOCABULARY + 10)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.post_init()
    assert_same(before, model.state_dict(), tolerance=0)


# --- what it computes


@check
def model_forward_default_config_values(subject: Subject) -> None:
    """A configuration whose special tokens nobody has named computes."""
    named = subject.case.config().to_diff_dict()
    for name in ("pad_token_id", "eos_token_id", "bos_token_id", "sep_token_id", "tie_word_embeddings"):
        named.pop(name, None)
    config = type(subject.case.config())(**named)
    assert tensors(outputs(subject.model_class(config).eval(), subject.inputs()))


@check
def determinism(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    assert_same(outputs(model, inputs), outputs(model, inputs), tolerance=0)


@check
def batching_equivalence(subject: Subject) -> None:
    model = subject.model()
    together = tensors(outputs(model, subject.inputs()))[0]
    per_row = len(together) // 3
    for row in subject.rows:
        alone = tensors(outputs(model, subject.inputs(rows=[row])))[0]
        whole = together[row * per_row : (row + 1) * per_row]
        torch.testing.assert_close(whole[tuple(map(slice, alone.shape))], alone)


@check
def model_outputs_equivalence(subject: Subject) -> None:
    """A tuple has what the output has, in its order."""
    model, inputs = subject.model(), subject.inputs(labels=subject.learns)
    named = outputs(model, inputs, output_hidden_states=True)
    with torch.no_grad():
        plain = model(**inputs, output_hidden_states=True, return_dict=False)
    assert type(plain) is tuple
    assert_same(named, plain)


@check
def hidden_states_output(subject: Subject) -> None:
    """By the call and by the configuration, one more than there are layers, the last being what the model gives."""
    inputs = subject.inputs()
    assert all(outputs(subject.model(), inputs).get(name) is None for name in subject.case.states)
    asked = outputs(subject.model(), inputs, output_hidden_states=True)
    configured = outputs(subject.model(output_hidden_states=True), inputs)
    for name in subject.case.states:
        assert len(asked[name]) >= 2
        assert_same(asked[name], configured[name])


@check
def retain_grad_hidden_states_attentions(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    output = model(**inputs, output_hidden_states=True)
    state = output[subject.case.states[0]][0]
    if not state.requires_grad:  # frozen embeddings
        state = output[subject.case.states[0]][-1]
    state.retain_grad()
    finite = tensors(dict(output))[0]
    finite[torch.isfinite(finite)].sum().backward()
    assert state.grad is not None


@check
def attention_outputs(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    model.set_attn_implementation("eager")
    plain = outputs(model, inputs)
    assert all(plain.get(name) is None for name in subject.case.attentions)
    shown = outputs(model, inputs, output_attentions=True)
    for name in subject.case.attentions:
        assert len(shown[name]) >= 1
        for weights in shown[name]:
            assert weights.shape[0] == 3 and (weights >= 0).all()
            sums = weights.sum(-1)
            assert (
                ((sums - 1).abs() < 1e-4).logical_or(sums.abs() < 1e-6).all()
            )  # queries at padding may see nothing
            assert (sums > 0.5).any()


@check
def eager_matches_sdpa_inference(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    assert model._supports_sdpa
    found = {}
    for kind in ("eager", "sdpa"):
        model.set_attn_implementation(kind)
        assert model.config._attn_implementation == kind
        found[kind] = tensors(outputs(model, inputs))[0]
    torch.testing.assert_close(found["eager"], found["sdpa"], rtol=1e-4, atol=1e-4)


@check
def inputs_embeds_matches_input_ids(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    embeddings = model.get_input_embeddings()
    given = dict(inputs)
    for name in subject.case.embedded:
        given[name.replace("input_ids", "inputs_embeds")] = embeddings(given.pop(name))
    assert_same(outputs(model, inputs), outputs(model, given))


def _compiled(subject: Subject, compiled: Callable[[PreTrainedModel, Inputs], Callable[..., Any]]) -> None:
    model, inputs = subject.model(use_cache=False), subject.inputs()
    expected = tensors(outputs(model, inputs))[0]
    with torch.no_grad():
        found = tensors(compiled(model, inputs)(**inputs))[0]
    # Those that copy leave room for words that a batch may have; nothing is there.
    width = expected.shape[-1]
    assert found.shape[-1] == width or (found[..., width:] < -40).all()
    torch.testing.assert_close(found[..., :width], expected)


@check
def torch_export(subject: Subject) -> None:
    _compiled(subject, lambda model, inputs: torch.export.export(model, (), inputs, strict=True).module())


@check
def torch_compile(subject: Subject) -> None:
    """In one graph, without the kernels."""
    torch.compiler.reset()
    _compiled(subject, lambda model, inputs: torch.compile(model, fullgraph=True, backend="eager"))


# --- training


@check
def training(subject: Subject) -> None:
    model = subject.model().train()
    found = gradients(model, subject.inputs(labels=True))
    assert found.keys() == {name for name, p in model.named_parameters() if p.requires_grad}
    assert all(torch.isfinite(gradient).all() for gradient in found.values())


@check
def loss_of_rows(subject: Subject) -> None:
    """The loss of the call is that of the labels alone: none without labels, a number with them."""
    model = subject.model()
    assert outputs(model, subject.inputs()).get("loss") is None
    loss = outputs(model, subject.inputs(labels=True))["loss"]
    assert loss.shape == () and torch.isfinite(loss)


@check
def autocast(subject: Subject) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        model = subject.model().train()
        with torch.autocast("cpu", dtype=dtype):
            loss = model(**subject.inputs(labels=True)).loss
        loss.backward()
        assert torch.isfinite(loss)
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@check
def gradient_checkpointing_backward_compatibility(subject: Subject) -> None:
    config = subject.case.config()
    config.gradient_checkpointing = True
    assert subject.model_class(config).is_gradient_checkpointing


@check
def gradient_checkpointing_enable_disable(subject: Subject) -> None:
    model = subject.model()
    if not model.supports_gradient_checkpointing:
        with pytest.raises(ValueError, match="gradient checkpointing"):
            model.gradient_checkpointing_enable()
        return
    assert any(isinstance(module, GradientCheckpointingLayer) for module in model.modules())
    flagged = [module for module in model.modules() if hasattr(module, "gradient_checkpointing")]
    for turn, expected in (
        (model.gradient_checkpointing_enable, True),
        (model.gradient_checkpointing_disable, False),
    ):
        turn()
        assert model.is_gradient_checkpointing is expected
        assert all(module.gradient_checkpointing is expected for module in flagged)


@check
def peft_gradient_checkpointing_enable_disable(subject: Subject) -> None:
    """With adapters of PEFT, which makes the model ask for the gradients of what it reads."""
    model = subject.model()
    if not model.supports_gradient_checkpointing:
        return
    model._hf_peft_config_loaded = True
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing


@check
def enable_input_require_grads(subject: Subject) -> None:
    """With frozen weights, which adapters leave, the states have gradients all the same."""
    model = subject.model().requires_grad_(False)
    inputs = subject.inputs()
    model.enable_input_require_grads()
    assert any(tensor.requires_grad for tensor in tensors(dict(model(**inputs))))
    model.disable_input_require_grads()
    assert not any(tensor.requires_grad for tensor in tensors(dict(model(**inputs))))


def _checkpointed(subject: Subject, reentrant: bool) -> None:
    model, inputs = without_dropout(subject.model()), subject.inputs(labels=True)
    plain = gradients(model, inputs)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    calls: list[int] = []
    layer = next(module for module in model.modules() if isinstance(module, GradientCheckpointingLayer))
    function = layer._gradient_checkpointing_func
    layer._gradient_checkpointing_func = lambda *a, **k: (calls.append(1), function(*a, **k))[1]
    checkpointed = gradients(model, inputs)
    assert calls, "nothing was checkpointed"
    assert checkpointed.keys() >= plain.keys()
    for name in plain:
        scale = float(plain[name].abs().max())
        torch.testing.assert_close(checkpointed[name], plain[name], rtol=1e-3, atol=1e-4 * scale + 1e-7)


@check
def training_gradient_checkpointing_use_reentrant_false(subject: Subject) -> None:
    _checkpointed(subject, reentrant=False)


@check
def training_gradient_checkpointing_use_reentrant_true(subject: Subject) -> None:
    _checkpointed(subject, reentrant=True)


# --- generation


def generate(
    subject: Subject, inputs: Inputs | None = None, model: PreTrainedModel | None = None, **options: Any
):
    inputs = subject.inputs() if inputs is None else inputs
    given = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    defaults = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "num_beams": 1}
    return (model or subject.model()).generate(**given, **{**defaults, **options})


def _ways(subject: Subject, **options: Any) -> None:
    """Tokens alone, then everything that a search can show, which changes none of them."""
    model = subject.model()
    model.set_attn_implementation("eager")
    shown = {
        "return_dict_in_generate": True, "output_scores": True, "output_logits": True, "output_hidden_states": True,
        "output_attentions": True,
    }  # fmt: skip
    torch.manual_seed(0)
    tokens = generate(subject, model=model, **options)
    torch.manual_seed(0)
    result = generate(subject, model=model, **options, **shown)
    assert torch.equal(tokens, result.sequences) and tokens.shape == (
        3 * options.get("num_return_sequences", 1),
        6,
    )
    assert len(result.scores) == len(result.logits) == len(result.decoder_hidden_states) == 5
    assert len(result.cross_attentions) == 5 and result.encoder_hidden_states is not None
    for step in result.cross_attentions:
        assert step[0].shape[-1] == 14
    scores = model.compute_transition_scores(
        result.sequences, result.scores, getattr(result, "beam_indices", None), normalize_logits=False
    )
    assert scores.shape[0] == len(tokens)


@check
def generate_inherits_mixin(subject: Subject) -> None:
    assert issubclass(subject.model_class, GenerationMixin)


@check
def generate_greedy_dict_outputs(subject: Subject) -> None:
    _ways(subject)


@check
def generate_sample_dict_output(subject: Subject) -> None:
    _ways(subject, do_sample=True, num_return_sequences=2)


@check
def generate_beam_search_dict_output(subject: Subject) -> None:
    _ways(subject, num_beams=3, num_return_sequences=2)


@check
def generate_beam_sample_dict_output(subject: Subject) -> None:
    _ways(subject, num_beams=2, do_sample=True)


@check
def generate_dict_outputs_use_cache(subject: Subject) -> None:
    for beams in (1, 3):
        with_cache = generate(subject, num_beams=beams, use_cache=True)
        assert torch.equal(with_cache, generate(subject, num_beams=beams, use_cache=False))


@check
def generate_left_padding_compatibility(subject: Subject) -> None:
    """Sources padded on the left are summarized as those padded on the right, with the same probabilities."""
    right = subject.inputs()
    left = copy.deepcopy(right)
    for row, length in enumerate(right["attention_mask"].sum(1).tolist()):
        for name in ("input_ids", "attention_mask"):
            left[name][row] = right[name][row].roll(14 - length)
    shown = {"return_dict_in_generate": True, "output_logits": True}
    assert_same(generate(subject, right, **shown).logits, generate(subject, left, **shown).logits, 1e-4)


@check
def generate_prompt_lookup_decoding_matches_greedy_search(subject: Subject) -> None:
    inputs = subject.inputs(rows=[0])
    greedy = generate(subject, inputs)
    assert torch.equal(greedy, generate(subject, inputs, prompt_lookup_num_tokens=2))


@check
def generate_assisted_decoding_matches_greedy_search(subject: Subject) -> None:
    inputs = subject.inputs(rows=[0])
    greedy = generate(subject, inputs)
    torch.manual_seed(1)
    for assistant in (subject.model(), subject.model_class(subject.case.config()).eval()):
        assert torch.equal(greedy, generate(subject, inputs, assistant_model=assistant))


@check
def generate_assisted_decoding_sample(subject: Subject) -> None:
    inputs = subject.inputs(rows=[0])
    made = generate(subject, inputs, assistant_model=subject.model(), do_sample=True)
    assert made.shape == (1, 6)


@check
def generate_without_input_ids(subject: Subject) -> None:
    """From nothing but the token that texts begin with."""
    model = subject.model()
    model.generation_config.bos_token_id = 0
    made = model.generate(do_sample=False, max_new_tokens=5, min_new_tokens=5)
    assert made.shape == (1, 6)


@check
def generate_past_key_values_format(subject: Subject) -> None:
    """Keys and values of each layer, of the summary so far and of the source: [rows, heads, tokens, width of a head]."""
    config = subject.case.config()
    cache = subject.model()(**subject.inputs(), use_cache=True).past_key_values
    heads = getattr(config, "num_heads", None) or config.num_attention_heads
    width = getattr(config, "d_kv", None) or config.hidden_size // heads
    for part, length in ((cache.self_attention_cache, 7), (cache.cross_attention_cache, 14)):
        assert len(part.layers) == 2
        for layer in part.layers:
            assert layer.keys.shape == layer.values.shape == (3, heads, length, width)


@check
def generate_from_inputs_embeds(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    embeds = model.get_input_embeddings()(inputs["input_ids"])
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "num_beams": 2, "do_sample": False}
    made = model.generate(inputs_embeds=embeds, attention_mask=inputs["attention_mask"], **options)
    assert torch.equal(made, generate(subject, num_beams=2))


@check
def generate_from_encoder_outputs(subject: Subject) -> None:
    model, inputs = subject.model(), subject.inputs()
    with torch.no_grad():
        encoded = model.get_encoder()(inputs["input_ids"], inputs["attention_mask"])
    options = {"max_new_tokens": 5, "min_new_tokens": 5, "num_beams": 2, "do_sample": False}
    made = model.generate(encoder_outputs=encoded, attention_mask=inputs["attention_mask"], **options)
    assert torch.equal(made, generate(subject, num_beams=2))


@check
def generate_continue_from_past_key_values(subject: Subject) -> None:
    """A summary in two calls, the second from the cache of the first, is that of one call."""
    model, inputs = subject.model(), subject.inputs()
    model.generation_config.forced_eos_token_id = None  # BART ends where a call does
    whole = generate(subject, inputs, model)
    begun = generate(subject, inputs, model, max_new_tokens=3, min_new_tokens=3, return_dict_in_generate=True)
    rest = {"decoder_input_ids": begun.sequences, "past_key_values": begun.past_key_values}
    if "decoder_attention_mask" in inspect.signature(model.forward).parameters:  # these are all tokens so far
        rest["decoder_attention_mask"] = torch.ones_like(begun.sequences)
    assert torch.equal(whole, generate(subject, inputs, model, max_new_tokens=2, min_new_tokens=2, **rest))


@check
def generate_with_static_cache(subject: Subject) -> None:
    for beams in (1, 3):
        usual = generate(subject, num_beams=beams)
        assert torch.equal(usual, generate(subject, num_beams=beams, cache_implementation="static"))
