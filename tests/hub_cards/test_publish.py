"""Publishing: what is built loads from there, what is wrong is named, and an upload survives failures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from summarily.cli import main
from summarily.hub_cards import building, publish, validation
from summarily.hub_cards.building import Repository, build, relative_links, repositories
from summarily.support.errors import InputError
from tests.hub_cards.fake_hub import running


@pytest.fixture
def hub(monkeypatch):
    with running() as hub:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # the server speaks LFS
        monkeypatch.setattr(
            "huggingface_hub.constants.HF_HUB_OFFLINE", False
        )  # it is no further than localhost
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        monkeypatch.setattr(publish.time, "sleep", lambda seconds: None)
        yield hub


@pytest.fixture
def api(hub):
    return HfApi(endpoint=hub.url, token="hf_test")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    chosen = [*repositories("metrics", ["rouge"]), *repositories("models", ["headlines"])]
    return {repository.name: (repository, build(repository, folder)) for repository in chosen}


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("repository", repositories("all"), ids=lambda r: f"{r.kind}-{r.name}")
def test_every_repository_is_built_and_fit_to_go(repository, tmp_path):
    """But for loading, which takes a process each: two are tried below, the others by `make slow`."""
    folder = build(repository, tmp_path)
    assert validation.problems(repository, folder, load=False) == []
    assert not list(folder.rglob("__pycache__"))


@pytest.mark.parametrize("name", ["rouge", "headlines"])
def test_what_is_built_loads_from_there(built, name):
    repository, folder = built[name]
    assert validation.problems(repository, folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("repository", repositories("all"), ids=lambda r: f"{r.kind}-{r.name}")
def test_every_repository_loads(repository, tmp_path):
    assert validation.problems(repository, build(repository, tmp_path)) == []


def test_a_model_that_needs_our_package_is_refused(built, tmp_path):
    repository, folder = built["headlines"]
    copy = tmp_path / "headlines"
    shutil.copytree(folder, copy)
    code = copy / "modeling_attention_variants.py"
    code.write_text("import summarily\n" + code.read_text())
    [problem] = validation.problems(repository, copy)
    assert "it does not load" in problem and "must load without it" in problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.replace("license:", "licence:"), "gives no license"),
        (lambda card: card.replace("model-index:", "index:"), "gives no model-index"),
        (lambda card: card.replace("## Limits", "## Else"), "no section 'Limits'"),
        (lambda card: card.replace("study.png", "lost.png"), "points to lost.png"),
        (lambda card: card.replace("---\n", "---\nlicense: [\n", 1), "cannot be read"),
        (lambda card: card + f"\n{Path.home()}/notes", "names a folder of this machine"),
    ],
)
def test_what_is_wrong_with_a_card_is_said(built, tmp_path, change, message):
    repository, folder = built["headlines"]
    copy = tmp_path / "headlines"
    shutil.copytree(folder, copy)
    card = copy / "README.md"
    card.write_text(change(card.read_text(encoding="utf-8")), encoding="utf-8")
    assert any(message in problem for problem in validation.problems(repository, copy, load=False))


def test_sizes_are_limited(built, monkeypatch):
    repository, folder = built["headlines"]
    monkeypatch.setattr(validation, "LARGEST_REPOSITORY", 1 * validation.MEGABYTE)
    assert any(
        "at most 1 are expected" in text for text in validation.problems(repository, folder, load=False)
    )


def test_links_in_code_are_not_links():
    assert relative_links('[a](b.md)\n```python\nx[0](c.md)\n```\n<img src="d.png"> [e](mailto:x)') == [
        "b.md",
        "d.png",
    ]


def test_unknown_names_are_named():
    with pytest.raises(InputError, match="did you mean 'rouge'"):
        repositories("metrics", ["rogue"])


def test_first_upload_then_nothing_then_only_what_changed(hub, api, built, tmp_path):
    repository, folder = built["headlines"]
    assert publish.difference(api, repository, folder, "me").head is None
    publish.upload(api, repository, folder, "me")
    repo = hub.repos["model", "me/headlines"]
    assert {name: text for name, text in repo.files.items() if name != ".gitattributes"} == contents(folder)
    assert "model.safetensors" in repo.lfs and len(repo.commits) == 2
    assert publish.upload(api, repository, folder, "me") == "up to date"
    assert len(repo.commits) == 2

    copy = tmp_path / "headlines"
    shutil.copytree(folder, copy)
    (copy / "README.md").write_text((copy / "README.md").read_text() + "\nMore.\n")
    (copy / "new.txt").write_text("new")
    (copy / "study.png").unlink()
    change = publish.difference(api, repository, copy, "me")
    assert (change.new, change.changed, change.deleted) == (["new.txt"], ["README.md"], ["study.png"])
    sent = len(hub.puts)
    publish.upload(api, repository, copy, "me")
    assert {name: text for name, text in repo.files.items() if name != ".gitattributes"} == contents(copy)
    assert len(hub.puts) == sent  # the weights did not travel again


@pytest.mark.parametrize("failures", [[503, 500], [408, 429], [409, 429], [412]])
def test_a_failure_that_passes_is_tried_again(hub, api, built, failures, monkeypatch):
    waited = []
    monkeypatch.setattr(publish.time, "sleep", waited.append)
    repository, folder = built["headlines"]
    hub.failures["commit"] = list(failures)
    publish.upload(api, repository, folder, "me")
    repo = hub.repos["model", "me/headlines"]
    assert len(repo.commits) == 2 and len(repo.files) == len(contents(folder)) + 1
    assert waited == [1, 2][: len(failures)]


@pytest.mark.parametrize("failures", [[400], [403], [429, 429, 429]])
def test_a_failure_that_stays_is_raised(hub, api, built, failures, monkeypatch):
    monkeypatch.setattr(publish.time, "sleep", lambda seconds: None)
    repository, folder = built["rouge"]
    hub.failures["commit"] = list(failures)
    with pytest.raises(HfHubHTTPError) as caught:
        publish.upload(api, repository, folder, "me")
    assert caught.value.response.status_code == failures[-1] and not hub.failures["commit"]
    assert len(hub.repos["space", "me/rouge"].commits) == 1


@pytest.mark.parametrize("private", [False, True])
def test_a_new_repository_is_private_when_asked_for(hub, tmp_path, monkeypatch, private):
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    arguments = ["publish", "metrics", "rouge", "--to", "me", "--no-load", "--folder", str(tmp_path)]
    assert main([*arguments, *["--private"] * private]) == 0
    assert hub.repos["space", "me/rouge"].private is private


def test_a_commit_whose_answer_was_lost_is_not_made_twice(hub, api, built):
    repository, folder = built["rouge"]
    hub.lost_answers = 1
    assert publish.upload(api, repository, folder, "me") == "up to date"
    assert len(hub.repos["space", "me/rouge"].commits) == 2


def test_a_push_in_between_is_not_overwritten(hub, api, built, monkeypatch):
    """The commit names the state it was compared with; the next attempt compares again."""
    repository, folder = built["rouge"]
    publish.upload(api, repository, folder, "me")
    repo = hub.repos["space", "me/rouge"]
    repo.files["README.md"] = b"somebody else's"
    repo.commits.append("1" * 40)
    real, seen = publish.difference, []

    def difference(*arguments):
        change = real(*arguments)
        if not seen:  # somebody pushes right after the comparison
            repo.files["theirs.txt"] = b"theirs"
            repo.commits.append("2" * 40)
        seen.append(change)
        return change

    monkeypatch.setattr(publish, "difference", difference)
    publish.upload(api, repository, folder, "me")
    assert len(seen) == 2 and "theirs.txt" in seen[1].deleted
    assert repo.files["README.md"] == (folder / "README.md").read_bytes()


def test_the_command_fails_midway_and_goes_on(hub, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.setattr(
        publish, "repositories", lambda kind, names: repositories("metrics", ["rouge", "sms", "wms"])
    )
    arguments = ["publish", "metrics", "--to", "me", "--no-load", "--folder", str(tmp_path)]
    assert main([*arguments, "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "space me/sms (new)" in output and "+ sms.py" in output and not hub.repos
    hub.failures["create"] = [403]  # the first repository is refused for good, the others go
    assert main(arguments) == 1
    output = capsys.readouterr().out
    assert "me/rouge: failed: you may not write there" in output and "1 of 3 were not uploaded" in output
    assert set(hub.repos) == {("space", "me/sms"), ("space", "me/wms")}
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "me/sms: up to date" in output and "me/rouge: 4 files in commit" in output
    assert [len(repo.commits) for repo in hub.repos.values()] == [2, 2, 2]


def test_a_dry_run_without_a_network_still_builds(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    arguments = ["publish", "metrics", "rouge", "--dry-run", "--no-load", "--folder", str(tmp_path)]
    assert main(arguments) == 0
    assert "the Hub cannot be asked" in capsys.readouterr().out
    assert (tmp_path / "metrics" / "rouge" / "rouge.py").is_file()


def test_nothing_is_uploaded_if_anything_is_broken(hub, tmp_path, capsys, monkeypatch):
    source = tmp_path / "source" / "rouge"
    shutil.copytree(Path(repositories("metrics", ["rouge"])[0].source), source)
    (source / "README.md").write_text((source / "README.md").read_text().replace("- metric\n", ""))
    bad = [Repository("metrics", "rouge", source), *repositories("metrics", ["sms"])]
    monkeypatch.setattr(publish, "repositories", lambda kind, names: bad)
    assert main(["publish", "metrics", "--no-load", "--folder", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert (
        "1 of 2 repositories are not ready" in captured.err
        and "must hold evaluate and metric" in captured.out
    )
    assert not hub.repos


def test_the_code_of_a_model_goes_with_it(built):
    _, folder = built["headlines"]
    config = json.loads((folder / "config.json").read_text())
    assert config["auto_map"]["AutoModelForSeq2SeqLM"].startswith("modeling_attention_variants.")
    assert (folder / "configuration_attention_variants.py").is_file()
    assert building.KINDS == ("metrics", "models", "spaces")


def test_a_model_that_searches_with_penalties_brings_its_search(tmp_path):
    """transformers finds it in custom_generate/; others bring none."""
    from summarily.modeling import ApesoConfig, ApesoForConditionalGeneration
    from summarily.modeling.generation.summary_beam_search import keep_settings

    source = tmp_path / "apeso"
    model = ApesoForConditionalGeneration(ApesoConfig(vocab_size=9, embedding_size=4, hidden_size=4))
    keep_settings(model, {"gamma": 0.5})
    model.save_pretrained(source)
    (source / "README.md").write_text("# A card\n")
    place = build(Repository("models", "apeso", source), tmp_path / "build")
    names = sorted(path.name for path in (place / "custom_generate").iterdir())
    assert names == ["errors.py", "generate.py", "summary_beam_search.py"]
    assert json.loads((place / "generation_config.json").read_text())["gamma"] == 0.5
    [headlines] = repositories("models", ["headlines"])
    assert not (build(headlines, tmp_path / "build") / "custom_generate").exists()
