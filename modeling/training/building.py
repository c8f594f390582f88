"""From the sections of a recipe to the objects of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, DistributedType
from accelerate.state import AcceleratorState

from summarily.modeling.generation.summary_beam_search import SETTINGS, SearchesWithPenalties, keep_settings
from summarily.modeling.training.corpora import Corpus, lengths_of, texts
from summarily.modeling.training.recipe import (
    AdapterSection,
    ModelSection,
    OptimizerSection,
    Recipe,
    ScheduleSection,
    TrainingSection,
    did_you_mean,
)
from summarily.support.errors import InputError, RecipeError
from summarily.support.files import is_complete, write_folder
from summarily.support.processes import warn_if_alone
from summarily.support.shipped import quiet_about_tying
from summarily.support.weights import WEIGHTS, resolve

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def make_accelerator(training: TrainingSection) -> Accelerator:
    """One process for each device; without any, the CPU, with gloo between processes."""
    for name in (
        "FSDP",
        "DEEPSPEED",
        "MEGATRON_LM",
    ):  # on a CPU Accelerate would leave FSDP out without a word
        if os.environ.get(f"ACCELERATE_USE_{name}", "").lower() == "true":
            raise _sharded(name)
    hardware = torch.accelerator.is_available()
    warn_if_alone()
    precision = {"fp32": "no"}.get(training.precision, training.precision)
    if precision == "auto":
        cuda = torch.cuda.is_available()
        precision = ("bf16" if torch.cuda.is_bf16_supported() else "fp16") if cuda else "no"
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != precision:
        AcceleratorState._reset_state()  # an earlier run of this process had another precision
    options = DistributedDataParallelKwargs(find_unused_parameters=training.find_unused_parameters)
    accelerator = Accelerator(mixed_precision=precision, cpu=not hardware, kwargs_handlers=[options])
    kind = accelerator.distributed_type
    if kind not in (DistributedType.NO, DistributedType.MULTI_CPU, *_DATA_PARALLEL):
        raise _sharded(kind.value)
    return accelerator


SMOOTHING = "label_smoothing"
_DATA_PARALLEL = (DistributedType.MULTI_GPU, DistributedType.MULTI_NPU, DistributedType.MULTI_XPU)


def _sharded(kind: str) -> RecipeError:
    return RecipeError(
        f"training by {kind} is not supported, only data parallelism (DDP) is: choose MULTI_GPU in Accelerate's config, on "
        "CPUs too. gradient_accumulation_steps there and batch.micro_tokens in the recipe save memory."
    )


def build_tokenizer(
    recipe: Recipe, corpus: Corpus, folder: Path, accelerator: Accelerator
) -> PreTrainedTokenizerBase:
    """Load the tokenizer, or train it on the training split and keep it in the run's folder."""
    from transformers import AutoTokenizer

    section = recipe.tokenizer
    if section.kind == "pretrained":
        tokenizer = AutoTokenizer.from_pretrained(place_of(section.name or recipe.model.name))
        if tokenizer.pad_token_id is None:
            raise RecipeError(f"the tokenizer of {section.name or recipe.model.name} has no padding token.")
        return tokenizer
    place = folder / "tokenizer"
    if accelerator.is_main_process and not is_complete(place):
        from summarily.modeling.training.tokenizers import train_tokenizer

        read = lengths_of(recipe.data, "test").max_source_tokens  # what it says that it takes
        longest = max(recipe.data.max_source_tokens, recipe.data.max_target_tokens, read)
        trained = train_tokenizer(texts(corpus["train"]), section, max_length=longest)
        write_folder(place, trained.save_pretrained)
    accelerator.wait_for_everyone()
    return AutoTokenizer.from_pretrained(place)


def build_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """A new model of a known type, or a pretrained one, with the recipe's config and generation config."""
    from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForSeq2SeqLM

    import summarily.modeling  # noqa: F401  our model types

    section = recipe.model
    if section.start == "copier" and section.name != "bart":
        raise RecipeError(
            f'model.start = "copier" is for a new BART (model.name = "bart"), not {section.name}.'
        )
    if section.word_vectors and section.name not in CONFIG_MAPPING:
        raise RecipeError(
            "model.word_vectors are for a new model; the words of a pretrained one have theirs."
        )
    if section.encoder != "own" and section.name in CONFIG_MAPPING:
        raise RecipeError(
            f'model.encoder = "{section.encoder}" is for a pretrained T5; name a new model by its type, such as '
            "summarily-led-t5."
        )
    if section.name in CONFIG_MAPPING:
        config = AutoConfig.for_model(section.name, **new_config(recipe, tokenizer))
        model = AutoModelForSeq2SeqLM.from_config(config)
        if section.start == "copier":
            from summarily.modeling.bart_surgery import start_as_copier

            start_as_copier(model)
        if section.word_vectors:
            known = load_vectors(model, tokenizer, section.word_vectors)
            print(
                f"{known:,} of {len(tokenizer):,} words start at a vector of {section.word_vectors}",
                flush=True,
            )
    else:
        place = place_of(section.name)
        config = AutoConfig.from_pretrained(place, revision=section.revision)
        if section.encoder != "own":
            config = _long_config(section, config)
        _check_keys(section.config, config)
        for key, value in section.config.items():
            setattr(config, key, value)
        with quiet_about_tying():
            model = AutoModelForSeq2SeqLM.from_pretrained(
                place, config=config, revision=section.revision, dtype=torch.float32
            )
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        raise RecipeError(
            f"the tokenizer has {len(tokenizer)} tokens but {section.name} embeds only "
            f"{model.get_input_embeddings().num_embeddings}; use the tokenizer the model was trained with."
        )
    if hasattr(model.config, SMOOTHING):  # one switch, and the folder for the Hub says how it stood
        model.config.label_smoothing = recipe.training.label_smoothing
    if model.config.model_type == "t5":
        from summarily.modeling.modeling_sparse_t5 import fuse_gelu

        fuse_gelu(model)
    if recipe.adapter.rank is not None:
        add_adapter(model, recipe.adapter)
    if section.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    settings: dict[str, Any] = {key: value for key, value in recipe.generation.items() if key not in SETTINGS}
    for end in ("max", "min"):
        # Kept as the whole length, start token included: a limit on new tokens would go before what a user, or the
        # arguments of a trainer, later say of the length.
        if (tokens := settings.pop(f"{end}_new_tokens", None)) is not None:
            settings |= {f"{end}_length": tokens + 1, f"{end}_new_tokens": None}
    for key in model.generation_config.update(**settings):
        names: list[str] = [
            *SETTINGS,
            *(name for name in vars(model.generation_config) if not name.startswith("_")),
        ]
        raise RecipeError(
            f"generation.{key} is not a generation parameter{did_you_mean(key, names, 'generation.')}"
        )
    _keep_penalties(model, tokenizer, recipe.generation)
    return model


def _keep_penalties(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, generation: dict[str, Any]
) -> None:
    """Put what the recipe says of `summary_beam_search` into the generation config; words may stand for their ids."""
    penalties = {key: value for key, value in generation.items() if key in SETTINGS}
    if not penalties:
        return
    if not isinstance(model, SearchesWithPenalties):
        raise RecipeError(
            f"generation.{next(iter(penalties))} is for models that search with penalties, pointer-generators and APESO; "
            f"{type(model).__name__} would ignore it."
        )
    words = penalties.get("exclude_ids", [])
    if not isinstance(words, list):
        raise RecipeError(f"generation.exclude_ids is {words!r}; expected a list of words or ids.")
    ids = [tokenizer.convert_tokens_to_ids(word) if isinstance(word, str) else word for word in words]
    try:
        keep_settings(model, penalties | ({"exclude_ids": ids} if words else {}))
    except InputError as error:
        raise RecipeError(f"generation: {error}") from None


def _long_config(section: ModelSection, config: PreTrainedConfig) -> PreTrainedConfig:
    """The config of a T5 as that of LED or RED around it: the weights are the same, name by name."""
    from summarily.modeling import LedT5Config, RedT5Config
    from summarily.modeling.bart_surgery import shared_fields

    if config.model_type != "t5":
        raise RecipeError(
            f'model.encoder = "{section.encoder}" is for T5; {section.name} is a {config.model_type}. For BART, see '
            "`summarily convert bart-to-led`."
        )
    long = {"led": LedT5Config, "red": RedT5Config}[section.encoder]
    return long(**shared_fields(config))


def load_vectors(model: Any, tokenizer: Any, name: str) -> int:
    """Put word vectors into a model's embeddings, words without one stay as they are; returns how many have one.

    Vectors are made as small as the embeddings of a new model, so that an LSTM is not saturated from the start.
    """
    import numpy as np

    from summarily.support import vectors

    table, weight = vectors.load(name), model.get_input_embeddings().weight
    if table.dimensions != weight.shape[1]:
        raise RecipeError(
            f"the vectors of {name} have {table.dimensions} dimensions, the words of the model {weight.shape[1]}; set "
            f"model.config.embedding_size={table.dimensions}."
        )
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    rows, small = (np.array(table.find(some)) for some in (words, [word.lower() for word in words]))
    rows = np.where(rows >= 0, rows, small)  # as it is written, where there is such a vector
    known = np.flatnonzero(rows >= 0)
    if not len(known):
        raise RecipeError(f"{name} has no vector for any word of the tokenizer.")
    values = torch.tensor(np.asarray(table.take(rows[known]), dtype=np.float32))
    with torch.no_grad():
        weight[torch.from_numpy(known)] = values / values.std() * weight[3:].std()
        weight[model.config.pad_token_id] = 0
    return len(known)


def place_of(name: str) -> str:
    """What `from_pretrained` loads: the folder of a pinned weight, or the name itself (a folder or a Hub id)."""
    return resolve(name).path_or_id if name in WEIGHTS else name


def add_adapter(model: PreTrainedModel, section: AdapterSection) -> None:
    """Freeze the model and put a low-rank difference beside its linear layers."""
    from peft import LoraConfig

    rank = section.rank
    assert rank is not None
    config = LoraConfig(
        r=rank,
        lora_alpha=section.alpha if section.alpha is not None else rank,
        lora_dropout=section.dropout,
        target_modules=section.targets or "all-linear",
    )
    model.add_adapter(config)
    if section.start is not None:
        from peft import set_peft_model_state_dict
        from safetensors.torch import load_file

        stored = load_file(Path(section.start) / "adapter_model.safetensors")
        tensors = {name.removeprefix("base_model.model."): tensor for name, tensor in stored.items()}
        loaded: Any = set_peft_model_state_dict(model, tensors)
        missing = [name for name in loaded.missing_keys if "lora_" in name]
        if missing:
            raise RecipeError(
                f"adapter.start = {section.start!r} has no {missing[0]}; its rank or layers differ."
            )


def new_config(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The recipe's config values, with the sizes and ids that the tokenizer decides."""
    from transformers import AutoConfig

    known = AutoConfig.for_model(recipe.model.name)
    _check_keys(recipe.model.config, known)
    decided = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "forced_eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.pad_token_id,
    }
    always = ("decoder_start_token_id",)
    ours = {key: value for key, value in decided.items() if hasattr(known, key) or key in always}
    return {**ours, **recipe.model.config}


def _check_keys(values: dict[str, Any], config: PreTrainedConfig) -> None:
    if SMOOTHING in values:
        raise RecipeError(f"model.config.{SMOOTHING} is set; in a recipe, set training.{SMOOTHING}.")
    for key in values:
        if not hasattr(config, key):
            known = [*config.to_dict(), *config.attribute_map]
            raise RecipeError(
                f"model.config.{key} is not a field of {type(config).__name__}{did_you_mean(key, known, 'model.config.')}"
            )


def model_width(model: PreTrainedModel, schedule: ScheduleSection) -> int:
    """The width of the model, which the noam schedule divides by."""
    if schedule.width is not None or schedule.kind != "noam":
        return schedule.width or 1
    for name in ("d_model", "hidden_size"):
        if hasattr(model.config, name):
            return int(getattr(model.config, name))
    raise RecipeError(f"{type(model.config).__name__} names no width; set schedule.width.")


def build_optimizer(model: torch.nn.Module, section: OptimizerSection) -> torch.optim.Optimizer:
    """The optimizer; biases and norms (vectors) are not decayed. The loop sets the rate at every step."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": section.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if section.kind == "sgd":
        return torch.optim.SGD(groups, lr=0.0)
    if section.kind == "adagrad":
        return torch.optim.Adagrad(
            groups, lr=0.0, eps=section.epsilon, initial_accumulator_value=section.initial_accumulator
        )
    kind = torch.optim.Adam if section.kind == "adam" else torch.optim.AdamW
    return kind(groups, lr=0.0, betas=(section.beta1, section.beta2), eps=section.epsilon)
