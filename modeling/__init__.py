"""The models, registered with transformers' auto classes by `import summarily.modeling`.

>>> import summarily.modeling
>>> from transformers import AutoConfig, AutoModelForSeq2SeqLM
>>> config = AutoConfig.for_model("summarily-attention-variant", vocab_size=50, hidden_size=16, num_attention_heads=2)
>>> type(AutoModelForSeq2SeqLM.from_config(config)).__name__
'AttentionVariantForConditionalGeneration'

A model's code is loaded when it is first used, here or through an auto class.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import transformers


class ModelFamily(NamedTuple):
    """One model folder: `<folder>/configuration_<folder>.py` and `<folder>/modeling_<folder>.py`."""

    folder: str
    config: str
    auto_models: dict[str, str]  # transformers' auto class: our class
    other_models: tuple[str, ...] = ()  # classes to export that no auto class loads
    tokenizer: str | None = None  # a tokenizer of its own, in tokenization_<folder>.py
    data: str | None = None  # how its rows differ from those of any model, in data_<folder>.py: see data.py


# A new model joins with one entry.
FAMILIES = (
    ModelFamily(
        "apeso",
        "ApesoConfig",
        {"AutoModel": "ApesoModel", "AutoModelForSeq2SeqLM": "ApesoForConditionalGeneration"},
        data="ApesoData",
    ),
    ModelFamily(
        "attention_variants",
        "AttentionVariantConfig",
        {
            "AutoModel": "AttentionVariantModel",
            "AutoModelForSeq2SeqLM": "AttentionVariantForConditionalGeneration",
        },
    ),
    ModelFamily("cloze_reader", "ClozeReaderConfig", {"AutoModel": "ClozeReader"}),
    ModelFamily("cross_reader", "CrossReaderConfig", {"AutoModel": "CrossReader"}),
    ModelFamily("bleurt", "BleurtConfig", {"AutoModelForSequenceClassification": "BleurtForScoring"}),
    ModelFamily("infersent", "InferSentConfig", {"AutoModel": "InferSentModel"}),
    ModelFamily(
        "led",
        "LedConfig",
        {"AutoModel": "LedModel", "AutoModelForSeq2SeqLM": "LedForConditionalGeneration"},
        data="LedData",
    ),
    ModelFamily(
        "led_t5",
        "LedT5Config",
        {"AutoModel": "LedT5Model", "AutoModelForSeq2SeqLM": "LedT5ForConditionalGeneration"},
    ),
    ModelFamily(
        "pointer_generator",
        "PointerGeneratorConfig",
        {
            "AutoModel": "PointerGeneratorModel",
            "AutoModelForSeq2SeqLM": "PointerGeneratorForConditionalGeneration",
        },
        tokenizer="PointerGeneratorTokenizer",
        data="PointerGeneratorData",
    ),
    ModelFamily(
        "red",
        "RedConfig",
        {"AutoModel": "RedModel", "AutoModelForSeq2SeqLM": "RedForConditionalGeneration"},
    ),
    ModelFamily(
        "red_t5",
        "RedT5Config",
        {"AutoModel": "RedT5Model", "AutoModelForSeq2SeqLM": "RedT5ForConditionalGeneration"},
    ),
)


def _modules_by_name() -> dict[str, str]:
    modules = {}
    for family in FAMILIES:
        folder = f"{__name__}.{family.folder}"
        modules[family.config] = f"{folder}.configuration_{family.folder}"
        for name in (*family.auto_models.values(), *family.other_models):
            modules[name] = f"{folder}.modeling_{family.folder}"
        if family.tokenizer:
            modules[family.tokenizer] = f"{folder}.tokenization_{family.folder}"
    return modules


_MODULES = _modules_by_name()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


class _ClassOnFirstUse:
    """Stands for a model or tokenizer in an auto class, and imports its file when transformers asks for anything."""

    def __init__(self, config_class: type, name: str):
        self.config_class = config_class
        self._name = self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "_name":  # a copy that has not been filled in yet
            raise AttributeError(attribute)
        return getattr(self.load(), attribute)

    def load(self) -> type:
        return __getattr__(self._name)


class _Registered(dict):
    """What was registered with an auto class; in the place of a stand-in, its class is handed out."""

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, _ClassOnFirstUse):
            value = self[key] = value.load()
        return value

    def __iter__(self) -> Any:  # defined, so that `dict(...)` asks for every item
        return super().__iter__()

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 (this is what `get` does)

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]


def _register_lazily(auto_class: Any, mapping: Any, config_class: type, name: str) -> None:
    """Register a class by its name, to be imported when the mapping is asked for it."""
    auto_class.register(config_class, _ClassOnFirstUse(config_class, name), exist_ok=True)
    if not isinstance(mapping._extra_content, _Registered):
        mapping._extra_content = _Registered(mapping._extra_content)


def register() -> None:
    """Make the auto classes of transformers know our models. Runs on import; running it again changes nothing."""
    for family in FAMILIES:
        config_class = __getattr__(family.config)
        transformers.AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
        for auto_name, model_name in family.auto_models.items():
            auto_class = getattr(transformers, auto_name)
            _register_lazily(auto_class, auto_class._model_mapping, config_class, model_name)
        if family.tokenizer:
            mapping = transformers.TOKENIZER_MAPPING
            _register_lazily(transformers.AutoTokenizer, mapping, config_class, family.tokenizer)


register()
