"""Pages of the site that are written elsewhere: cards, studies and the README, with their links turned to the site's.

A hook of mkdocs (`mkdocs.yml`). Documents link to each other by their places in the repository, so that they can be
followed there too; here each such link becomes one to the page made of that document, and a picture comes along.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import os
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_FENCES = re.compile(r"(^[ ]*```.*?^[ ]*```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s#]+)")
_EXAMPLE = re.compile(r"^([ ]+)Example:\n(?:\n((?:\1>>> .*\n)(?:\1(?!\"\"\")\S.*\n)*))?", re.MULTILINE)


def pages() -> dict[Path, str]:
    """Every document of the site, and the page that it becomes."""
    found = {ROOT / "README.md": "index.md"}
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        found[ROOT / name] = name
    for pattern, folder in (
        ("metrics/*/README.md", "metrics"),
        ("hub_cards/*/README.md", "models"),
        ("modeling/*/README.md", "models"),
        ("summarily/studies/*/STUDY.md", "studies"),
    ):
        for document in sorted(ROOT.glob(pattern)):
            found[document] = f"{folder}/{document.parent.name}.md"
    for document in sorted(DOCS.rglob("*.md")):
        found[document] = document.relative_to(DOCS).as_posix()
    if len(set(found.values())) < len(found):
        raise ValueError("two documents would become the same page; rename the folder of one of them.")
    return found


def with_links_of_the_site(text: str, document: Path, known: dict[Path, str], files: dict[str, Path]) -> str:
    """The text, with links to documents and files of the repository turned to where the site has them.

    What is no page is put into `files`, by its place in the site. A target that does not exist stays as it is, and
    mkdocs complains of it.
    """
    here = Path(known[document]).parent

    def turned(match: re.Match[str]) -> str:
        target = (document.parent / match[2]).resolve()
        if "://" in match[2] or not target.is_file() or not target.is_relative_to(ROOT):
            return match[0]
        place = known.get(target)
        if place is None:
            place = f"files/{target.relative_to(ROOT).as_posix()}"
            files[place] = target
        return match[1] + Path(os.path.relpath(place, here)).as_posix()

    parts = _FENCES.split(text)
    return "".join(part if i % 2 else _LINK.sub(turned, part) for i, part in enumerate(parts))


def on_startup(command: str, dirty: bool) -> None:
    """Before the plugins are set up: paths that are not there yet they forget."""
    package_as_installed(ROOT / "build" / "reference")


def on_config(config: Any) -> Any:
    """Stars of the navigation become the pages of that folder which it does not name itself."""
    places = sorted(set(pages().values()))

    def named(entries: list[Any]) -> set[str]:
        values = [
            value for entry in entries for value in (entry.values() if isinstance(entry, dict) else [entry])
        ]
        return {place for value in values for place in (named(value) if isinstance(value, list) else [value])}

    def expanded(entries: list[Any]) -> list[Any]:
        result: list[Any] = []
        for entry in entries:
            if isinstance(entry, str) and entry.endswith("*"):
                result += [place for place in fnmatch.filter(places, entry) if place not in explicit]
            elif isinstance(entry, dict):
                result.append(
                    {
                        title: expanded(value) if isinstance(value, list) else value
                        for title, value in entry.items()
                    }
                )
            else:
                result.append(entry)
        return result

    explicit = named(config.nav)
    config.nav = expanded(config.nav)
    package_as_installed(ROOT / "build" / "reference")
    return config


def package_as_installed(folder: Path) -> None:
    """The sources laid out as they install: who reads them without importing does not know the mapping of setup.cfg."""
    shutil.rmtree(folder, ignore_errors=True)
    for top in ("summarily", "metrics", "modeling", "spaces", "hub_cards"):
        for source in (ROOT / top).rglob("*.py"):
            place = folder / "summarily" / source.relative_to(ROOT / top if top == "summarily" else ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_EXAMPLE.sub(_as_examples, source.read_text(encoding="utf-8")), encoding="utf-8")


def _as_examples(match: re.Match[str]) -> str:
    """The plural, with what follows indented, is what the parser of docstrings takes for code."""
    return f"{match[1]}Examples:\n{textwrap.indent(match[2] or '', '    ')}"


def on_files(files: Files, config: Any) -> Files:
    known, others = pages(), dict[str, Path]()
    for document, place in known.items():
        text = with_links_of_the_site(document.read_text(encoding="utf-8"), document, known, others)
        if (own := files.get_file_from_path(place)) is not None:
            files.remove(own)
        files.append(File.generated(config, place, content=text))
    for place, target in others.items():
        files.append(File.generated(config, place, abs_src_path=str(target)))
    for place, text in (("reference/models.md", models()), ("reference/command-line.md", command_line())):
        files.append(File.generated(config, place, content=text))
    return files


def models() -> str:
    """The reference of every class that `summarily.modeling` exports."""
    import summarily.modeling

    names = summarily.modeling.__all__
    entries = [f"::: {getattr(summarily.modeling, name).__module__}.{name}\n" for name in names]
    return "# Models\n\nAll of them are exported by `summarily.modeling`.\n\n" + "\n".join(entries)


def command_line() -> str:
    """What `--help` says, of the command and of each of its sub-commands."""
    overview = _help()
    names = re.findall(r"^    ([a-z][\w-]*)", overview[overview.index("\ncommands:") :], re.MULTILINE)
    parts = ["# Command line", _block(overview)]
    for name in names:
        parts += [f"## summarily {name}", _block(_help(name))]
    return "\n\n".join(parts) + "\n"


def _help(*command: str) -> str:
    from summarily.cli import main

    columns, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "100"
    try:
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(SystemExit):
            main([*command, "--help"])
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns
    return output.getvalue()


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
