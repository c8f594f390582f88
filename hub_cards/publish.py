"""Publish metrics, models and demos: build, check, show what would change, upload.

    summarily publish all --dry-run          everything but the upload
    summarily publish metrics --to my-org    as evaluate.load("my-org/rouge")

Only what differs from the Hub is sent, one commit for each repository. So it is safe to repeat, and after a failure the
same command goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from summarily.hub_cards.building import KINDS, Repository, build, repositories
from summarily.support.errors import InputError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

ATTEMPTS = 3
_OF_THE_HUB = {".gitattributes"}  # written by the Hub itself


@dataclass
class Change:
    """How a built folder differs from its repository."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    head: str | None = None  # the commit it was compared with; None if the repository does not exist

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.deleted)

    def __str__(self) -> str:
        signs = (("+", self.new), ("~", self.changed), ("-", self.deleted))
        return "\n".join(f"    {sign} {name}" for sign, names in signs for name in names) or "    no change"


def difference(api: HfApi, repository: Repository, folder: Path, organisation: str) -> Change:
    """Compare a built folder with what the Hub has, by content."""
    from huggingface_hub.errors import RepositoryNotFoundError
    from huggingface_hub.hf_api import RepoFile

    name, repo_type = repository.id(organisation), repository.repo_type
    local = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    try:
        head = api.repo_info(name, repo_type=repo_type).sha
        tree = api.list_repo_tree(name, recursive=True, repo_type=repo_type)
        remote = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
    except RepositoryNotFoundError:
        return Change(new=list(local))
    common = [name for name in local if name in remote]
    return Change(
        new=[name for name in local if name not in remote],
        changed=[name for name in common if not _same(local[name], remote[name])],
        deleted=sorted(set(remote) - set(local) - _OF_THE_HUB),
        head=head,
    )


def _same(path: Path, entry: Any) -> bool:
    content = path.read_bytes()
    if entry.lfs is not None:
        return bool(hashlib.sha256(content).hexdigest() == entry.lfs.sha256)
    return bool(hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == entry.blob_id)


def upload(
    api: HfApi, repository: Repository, folder: Path, organisation: str, *, private: bool = False
) -> str:
    """Bring a repository to the state of `folder` in one commit; returns what was done.

    Failures that may pass (the network, a busy server) are tried again after a fresh comparison, since a commit whose
    answer was lost has been made all the same.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _upload_once(api, repository, folder, organisation, private)
        except Exception as error:
            if attempt == ATTEMPTS or not _may_pass(error):
                raise
            time.sleep(2 ** (attempt - 1))
    raise AssertionError("unreachable")


def _may_pass(error: BaseException) -> bool:
    """Whether it is worth another try: a server that is busy, a branch that has moved, a connection that broke."""
    response = getattr(error, "response", None)
    if response is not None:
        return bool(response.status_code >= 500 or response.status_code in (408, 409, 412, 429))
    broken_connection = type(error).__module__.startswith("http")  # httpx's errors are not OSErrors
    return (
        broken_connection
        or isinstance(error, OSError)
        or bool(error.__cause__ and _may_pass(error.__cause__))
    )


def _upload_once(api: HfApi, repository: Repository, folder: Path, organisation: str, private: bool) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    name, repo_type = repository.id(organisation), repository.repo_type
    change = difference(api, repository, folder, organisation)
    if not change:
        return "up to date"
    if change.head is None:
        sdk = "gradio" if repo_type == "space" else None
        api.create_repo(name, repo_type=repo_type, private=private, exist_ok=True, space_sdk=sdk)
        change = difference(api, repository, folder, organisation)
    operations: list[Any] = [
        CommitOperationAdd(path, folder / path) for path in (*change.new, *change.changed)
    ]
    operations += [CommitOperationDelete(path) for path in change.deleted]
    commit = api.create_commit(
        name,
        operations,
        commit_message=f"Update {repository.name}",
        repo_type=repo_type,
        parent_commit=change.head,  # refuse to overwrite what somebody else has pushed meanwhile
    )
    return f"{len(operations)} files in commit {commit.oid[:12]}"


# --- the command --------------------------------------------------------------------------------------------


def add_parser(commands: Any) -> None:
    """The command `summarily publish`."""
    import argparse

    parser = commands.add_parser(
        "publish",
        help="build, check and upload metrics, models and demos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=[*KINDS, "all"], help="what to publish")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--to", default="summarily", metavar="ORG", help="user or organisation (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="build, check and compare, but upload nothing")
    parser.add_argument("--no-load", action="store_true", help="do not try to load what was built (faster)")
    parser.add_argument("--private", action="store_true", help="create new repositories private")
    parser.add_argument(
        "--folder", default="build/hub", help="where the repositories are built (default: %(default)s)"
    )
    parser.set_defaults(run=_run)


def _run(options: Any) -> int:
    from tqdm.auto import tqdm

    from summarily.hub_cards.validation import problems

    chosen = repositories(options.kind, options.names)
    built: list[tuple[Repository, Path]] = []
    broken = 0
    for repository in tqdm(chosen, desc="building", unit="repo", leave=False):
        folder = build(repository, Path(options.folder))
        found = problems(repository, folder, load=not options.no_load)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        tqdm.write(
            f"{repository.kind}/{repository.name}: {size / 1e6:.2f} MB, {'ready' if not found else 'not ready'}"
        )
        for sentence in found:
            tqdm.write(f"    {sentence}")
        broken += bool(found)
        built.append((repository, folder))
    if broken:
        raise InputError(f"{broken} of {len(chosen)} repositories are not ready; nothing was uploaded.")
    return _compare(built, options) if options.dry_run else _send(built, options)


def _compare(built: list[tuple[Repository, Path]], options: Any) -> int:
    from huggingface_hub import HfApi

    api = HfApi()
    print(f"\nwhat would change at {api.endpoint}:")
    for repository, folder in built:
        try:
            change = difference(api, repository, folder, options.to)
        except Exception as error:  # without a network the rest of a dry run is still worth having
            print(
                f"the Hub cannot be asked ({type(error).__name__}); run it again with a network to see what would change."
            )
            return 0
        new = " (new)" if change.head is None else ""
        print(f"  {repository.repo_type} {repository.id(options.to)}{new}\n{change}")
    return 0


def _send(built: list[tuple[Repository, Path]], options: Any) -> int:
    from huggingface_hub import HfApi

    api = HfApi()
    failed = []
    for repository, folder in built:
        name = repository.id(options.to)
        try:
            print(
                f"{repository.repo_type} {name}: {upload(api, repository, folder, options.to, private=options.private)}"
            )
        except Exception as error:  # the others can still go; the next run tries this one again
            failed.append(name)
            print(f"{repository.repo_type} {name}: failed: {_reason(error)}")
    if failed:
        print(f"\n{len(failed)} of {len(built)} were not uploaded; run the same command again to go on.")
    return 1 if failed else 0


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None and response.status_code in (401, 403):
        return "you may not write there; log in with `hf auth login`, or name your own account with --to."
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
