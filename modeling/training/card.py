"""The folder for the Hub: weights, configs, tokenizer, and a card filled in by the run itself."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from summarily.modeling.data import data_of
from summarily.modeling.training.corpora import Corpus
from summarily.modeling.training.recipe import DataSection, Recipe
from summarily.support.files import write_folder
from summarily.support.keys import Key
from summarily.support.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from summarily.modeling.training.progress import RunResult


def write_hub_folder(
    folder: Path,
    recipe: Recipe,
    result: RunResult,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpus: Corpus,
    test_rows: int,
) -> None:
    """Write everything `from_pretrained` and a reader need; the old folder stays until the new one is whole."""
    text = model_card(recipe, result, corpus, type(model).__name__, test_rows, data_of(tokenizer).texts)

    def write(partial: Path) -> None:
        if recipe.adapter.rank is not None:
            write_adapter(partial, recipe, model)
        else:
            before = model.dtype
            try:
                model.to(dtype=getattr(torch, recipe.hub.dtype)).save_pretrained(partial)  # type: ignore[call-arg]
            finally:
                model.to(dtype=before)  # type: ignore[call-arg]
            tokenizer.save_pretrained(partial)
        (partial / "README.md").write_text(text, encoding="utf-8")

    write_folder(folder, write, marker=False)


def write_adapter(folder: Path, recipe: Recipe, model: PreTrainedModel) -> None:
    """The difference alone, as peft stores it, with the config of the whole and the name of what it differs from."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    dtype = getattr(torch, recipe.hub.dtype)
    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {f"base_model.model.{name}": tensor.to(dtype).contiguous() for name, tensor in state.items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    configs: Any = model.peft_config
    [config] = configs.values()
    stored = config.to_dict() | {"base_model_name_or_path": recipe.model.name, "inference_mode": True}
    (folder / "adapter_config.json").write_text(json.dumps(stored, indent=1, default=sorted) + "\n")
    whole = model.config.to_dict()
    if whole["model_type"] == "t5" and not whole.get("scale_decoder_outputs", True):
        # As its head is its own; transformers 5 writes true for every T5.
        whole["tie_word_embeddings"] = False
    if recipe.data.prefix:
        whole["task_specific_params"] = {"summarization": {"prefix": recipe.data.prefix}}
    (folder / "config.json").write_text(json.dumps(whole, indent=1) + "\n")
    model.generation_config.save_pretrained(folder)


def model_card(
    recipe: Recipe,
    result: RunResult,
    corpus: Corpus,
    class_name: str,
    test_rows: int,
    beside: Sequence[str] = (),
) -> str:
    """The README.md of a trained model; `beside` is what decoding needs of an encoding but the ids."""
    words = "".join(f", {name}=inputs.{name}" for name in beside)
    name = recipe.hub.name or recipe.model.name.rstrip("/").split("/")[-1]
    texts = [text.file for text in recipe.denoising.texts]
    data = _file_names(texts) if texts else data_name(recipe.data)
    note = f"\n{recipe.hub.note}\n" if recipe.hub.note else ""
    return f"""{front_matter(recipe, result, name, data)}
# {name}

`{class_name}` with {result.parameters:,} parameters, trained on {data} by Summarily {__version__}.
{note}
## Use

```python
import summarily.modeling  # registers the model with the auto classes
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForSeq2SeqLM.from_pretrained("{name}")
inputs = tokenizer("A document to be summarized.", return_tensors="pt", truncation=True)
print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True{words}))
```

## Data

{data}: {task(recipe)}; at most {recipe.data.max_source_tokens} source and {recipe.data.max_target_tokens} target tokens.

{_bullets(corpus.report().splitlines())}

Changed from the defaults of the data section:

```json
{json.dumps(changed(recipe.data), indent=1, ensure_ascii=False)}
```

## Training

{training_table(recipe)}

The run ended by `{result.reason}` after {result.step:,} steps ({result.epoch} full epochs). The weights are those of step \
{result.best_step:,}, the best of the validation split by {recipe.evaluation.select} ({result.best_score:.4f}).

## Scores

{scores_section(recipe, result, test_rows)}

## Limits

{recipe.hub.limits}

## Cost

{result.minutes:.1f} minutes on {hardware()}; {result.parameters:,} parameters; weights stored as {recipe.hub.dtype}.

Code: commit `{commit()}`; torch {torch.__version__}.

## Citation

{citation(recipe)}
"""


def scores_section(recipe: Recipe, result: RunResult, test_rows: int) -> str:
    """What the test split was scored with, and the signatures; or that this run scored nothing."""
    if not test_rows:
        return "Not scored by this run."
    return f"""On {test_rows:,} rows of the test split, generated with `{json.dumps(recipe.generation)}`{_cut(recipe)}:

{scores_table(result)}

Signatures:

{_bullets(f"`{text}`" for text in result.signatures.values())}"""


def with_scores(card: str, scores: str, measured: Mapping[str, float], split: str) -> str:
    """A card whose section "Scores" and whose metadata are those of a later measurement.

    Example:
        >>> card = "---\\nmodel-index: []\\n---\\n## Scores\\n\\nnone\\n\\n## Limits\\n"
        >>> with_scores(card, "ROUGE-1 40", {"rouge1": 0.4}, "test").split("\\n\\n")[1]
        'ROUGE-1 40'
    """
    text = re.sub(
        r"(^## Scores\n\n).*?(\n\n## )",
        lambda m: m[1] + scores.strip() + m[2],
        card,
        count=1,
        flags=re.S | re.M,
    )
    metrics = [{"type": key, "name": key, "value": round(value, 4)} for key, value in measured.items()]
    dataset = {"name": "CNN/DailyMail", "type": "cnn_dailymail", "split": split}
    results = [{"task": {"type": "summarization"}, "dataset": dataset, "metrics": metrics}]
    name = re.search(r"^# (.+)$", card, re.M)
    index = json.dumps([{"name": name[1] if name else "", "results": results}])
    return re.sub(r"^model-index: .*$", lambda _: f"model-index: {index}", text, count=1, flags=re.M)


def citation(recipe: Recipe) -> str:
    """The work the model comes from, in BibTeX where the recipe gives it."""
    if recipe.hub.citation:
        return f"```bibtex\n{recipe.hub.citation.strip()}\n```"
    return "Cite the data and the model class it was trained with; this checkpoint has no publication of its own."


def front_matter(recipe: Recipe, result: RunResult, name: str, data: str) -> str:
    """The metadata that the Hub reads (YAML; every value is written as JSON, which YAML includes)."""
    meta: dict[str, Any] = {
        "license": recipe.hub.license,
        "language": recipe.hub.language,
        "library_name": "transformers",
        "pipeline_tag": "summarization",
        "tags": ["summarization", "summarily", *recipe.hub.tags],
        "metrics": recipe.evaluation.metrics,
    }
    if recipe.data.name:
        meta["datasets"] = [recipe.data.name]
    if recipe.model.name.count("/") == 1:
        meta["base_model"] = recipe.model.name
    measured = [{"type": key, "name": key, "value": round(value, 4)} for key, value in result.scores.items()]
    task = {"type": "summarization"}
    dataset = {"name": data, "type": data, "split": "test" if recipe.denoising.texts else recipe.data.test}
    meta["model-index"] = [
        {"name": name, "results": [{"task": task, "dataset": dataset, "metrics": measured}]}
    ]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in meta.items()]
    return "\n".join(["---", *lines, "---"])


def data_name(section: DataSection) -> str:
    """What to call the data: its name on the Hub, or its files without their folders."""
    if section.name:
        return section.name
    return _file_names(section.files.values())


def _file_names(paths: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(Path(path).name.split(".")[0] for path in paths))


def changed(section: DataSection) -> dict[str, Any]:
    """The values of the data section that are not defaults, but for names and folders."""
    default = DataSection()
    hidden = ("use", "name", "files", "source", "target", "references")
    return {k: v for k, v in vars(section).items() if v != getattr(default, k) and k not in hidden}


def task(recipe: Recipe) -> str:
    """What the model was trained to do with the data."""
    noise = recipe.denoising
    if noise.texts:
        return (
            f"texts restored from noise (spans of {noise.span:g} tokens on average masked until {noise.masked:.0%} are "
            f"gone{', sentences in random order' if noise.permute_sentences else ''}), in pieces of {noise.lengths} tokens"
        )
    target = recipe.data.references or recipe.data.target
    return f"source `{_plain(recipe.data.source)}`, target `{_plain(target)}`"


def training_table(recipe: Recipe) -> str:
    """Every hyperparameter that is not a default of transformers' config."""
    sections = {
        "model.config": recipe.model.config,
        "tokenizer": vars(recipe.tokenizer)
        if recipe.tokenizer.kind != "pretrained"
        else {"kind": "pretrained"},
        "batch": vars(recipe.batch),
        "optimizer": vars(recipe.optimizer),
        "schedule": vars(recipe.schedule),
        "training": vars(recipe.training),
    }
    rows = [f"| {name} | {_settings(values)} |" for name, values in sections.items() if values]
    return "\n".join(["| section | settings |", "|---|---|", *rows])


def scores_table(result: RunResult) -> str:
    rows = [f"| {Key(key).label} | {value:.4f} |" for key, value in result.scores.items()]
    return "\n".join(["| score | mean |", "|---|---|", *rows])


def hardware() -> str:
    """The device and its number, without anything that names the machine."""
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    return f"a CPU ({platform.machine()}, {torch.get_num_threads()} threads of {os.cpu_count()} cores)"


def commit() -> str:
    """The commit of this code, if it runs from a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"release {__version__}"
    return done.stdout.strip()


def _settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)


def _bullets(lines: Any) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _plain(columns: str | list[str]) -> str:
    return columns if isinstance(columns, str) else " + ".join(columns)


def _cut(recipe: Recipe) -> str:
    section = recipe.evaluation
    limits = [(section.max_words, "words"), (section.max_bytes, "bytes")]
    cuts = [f"{limit} {unit}" for limit, unit in limits if limit is not None]
    return f", cut at {' and '.join(cuts)}" if cuts else ""
