"""Put a model's code beside its weights, so that it loads without this package.

model.save_pretrained(folder)
write_remote_code(model, folder)
# elsewhere, with transformers only:
AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from summarily.modeling import FAMILIES

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PACKAGE = "summarily"
# `from summarily.modeling.attention.blocks import` at the start of a line, indented or not.
_OWN_IMPORT = re.compile(rf"^(\s*)from\s+({PACKAGE}(?:\.\w+)*)\.(\w+)\s+import\b", re.MULTILINE)
_ANY_MENTION = re.compile(rf"^\s*(?:from|import)\s+{PACKAGE}\b.*$", re.MULTILINE)


def write_remote_code(model: PreTrainedModel | type[PreTrainedModel], folder: str | Path) -> list[Path]:
    """Copy the files that `model`'s class is made of into `folder`, side by side, and name them in its config.json.

    The files that the model imports from this package come along, whatever their depth; imports between them become
    relative. `folder` must already hold the saved model; a tokenizer of ours that is saved there too gets its code as
    well. Returns the files written.

    Example:

    >>> import tempfile
    >>> from summarily.modeling import AttentionVariantConfig, AttentionVariantForConditionalGeneration
    >>> config = AttentionVariantConfig(vocab_size=9, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    >>> model = AttentionVariantForConditionalGeneration(config)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save_pretrained(folder)
    ...     [path.name for path in write_remote_code(model, folder)][:2]
    ['blocks.py', 'configuration_attention_variants.py']
    """
    model_class = model if isinstance(model, type) else type(model)
    folder = Path(folder)
    config_file = folder / "config.json"
    if not config_file.is_file():
        raise FileNotFoundError(
            f"{config_file} does not exist; call model.save_pretrained({str(folder)!r}) first."
        )
    auto_map = _auto_map(model_class)
    written = []
    sources = flat_sources(model_class.__module__) | _tokenizer_sources(folder / "tokenizer_config.json")
    for name, text in sorted(sources.items()):
        path = folder / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    config = json.loads(config_file.read_text(encoding="utf-8"))
    config["auto_map"] = auto_map
    config_file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return written


def write_custom_generate(folder: str | Path) -> list[Path]:
    """Put our search where transformers looks for a repository's own `generate`: `folder/custom_generate`.

    Example:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_custom_generate(folder)]
    ['errors.py', 'generate.py', 'summary_beam_search.py']
    """
    place = Path(folder) / "custom_generate"
    place.mkdir(parents=True, exist_ok=True)
    sources = flat_sources(f"{PACKAGE}.modeling.generation.custom_generate")
    sources["generate"] = sources.pop("custom_generate")
    written = []
    for name, text in sorted(sources.items()):
        written.append(place / f"{name}.py")
        written[-1].write_text(text, encoding="utf-8")
    return written


def _tokenizer_sources(config_file: Path) -> dict[str, str]:
    """The code of a tokenizer that is one of ours, whose configuration then names it."""
    if not config_file.is_file():
        return {}
    config = json.loads(config_file.read_text(encoding="utf-8"))
    for family in FAMILIES:
        if family.tokenizer and family.tokenizer == config.get("tokenizer_class"):
            file = f"tokenization_{family.folder}"
            config["auto_map"] = {"AutoTokenizer": [None, f"{file}.{family.tokenizer}"]}
            config_file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            return flat_sources(f"{PACKAGE}.modeling.{family.folder}.{file}")
    return {}


def flat_sources(module: str) -> dict[str, str]:
    """`{file name: source}` of `module` and of all it imports from this package, fit to stand in one folder.

    Example:

    >>> sorted(flat_sources("summarily.modeling.attention.relative"))
    ['blocks', 'errors', 'masks', 'relative']
    """
    sources: dict[str, str] = {}
    origins: dict[str, str] = {}
    waiting = [module]
    while waiting:
        module = waiting.pop()
        name = module.rpartition(".")[2]
        if origins.setdefault(name, module) != module:
            raise ValueError(f"{origins[name]} and {module} would both become {name}.py; rename one of them.")
        if name in sources:
            continue
        text = _source(module)
        waiting += [f"{parent}.{child}" for _, parent, child in _OWN_IMPORT.findall(text)]
        sources[name] = _OWN_IMPORT.sub(r"\1from .\3 import", text)
        if left := _ANY_MENTION.search(sources[name]):
            raise ValueError(
                f"{module}: {left[0].strip()!r} cannot be made relative; write `from {PACKAGE}.x.y import name`."
            )
    return sources


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or Path(spec.origin).name == "__init__.py":
        raise ValueError(
            f"{module} is not a file of this package; import from the file that defines the name."
        )
    return Path(spec.origin).read_text(encoding="utf-8")


def _auto_map(model_class: type[PreTrainedModel]) -> dict[str, str]:
    for family in FAMILIES:
        if model_class.__name__ in family.auto_models.values():
            auto_map = {"AutoConfig": f"configuration_{family.folder}.{family.config}"}
            for auto_name, name in family.auto_models.items():
                auto_map[auto_name] = f"modeling_{family.folder}.{name}"
            return auto_map
    raise ValueError(
        f"{model_class.__name__} is not loaded by an auto class: it has no entry in summarily.modeling."
    )
