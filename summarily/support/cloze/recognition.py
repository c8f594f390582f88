"""Named entities of many texts: spaCy's recogniser, once per distinct text.

What was found in a text is remembered by its content, in memory and, if a folder is given, on disk (one SQLite file
that processes may share). A second process helps when many texts are new.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from summarily.support import models, weights
from summarily.support.errors import MissingRequirement
from summarily.support.processes import Lock, python_module
from summarily.support.requirements import pip_install
from summarily.support.text import sentence_spans

KINDS = ("PERSON", "NORP", "ORG", "GPE", "FAC")
"""The paper's entity types: names, nationalities, organisations, geopolitical entities and facilities."""

WORTH_A_PROCESS = 400
"""Texts not seen before from which a second process pays for its start of a few seconds."""
_REMEMBERED = 200_000
_LONGEST_PIECE = 20_000
_BATCH = 128
_NOT_NEEDED = ("tagger", "parser", "senter", "attribute_ruler", "lemmatizer")


class Mention(NamedTuple):
    """A name as it stands in a text, and its type (one of `KINDS`)."""

    name: str
    kind: str


def recogniser(
    model: str | os.PathLike[str] = "spacy-small",
    cache_folder: str | None = None,
    processes: int | None = None,
) -> Recogniser:
    """The recogniser of this configuration, one per process.

    Args:
        model: "spacy-small", a folder, or the name of an installed spaCy package such as "en_core_web_lg".
        cache_folder: remember what was found on disk too.
        processes: how many may read; by default two where there are two cores, but one in a distributed run.

    Example:
        >>> recogniser()(["Angela Merkel arrived in Oslo."])[0][0]
        Mention(name='Angela Merkel', kind='PERSON')
    """
    key = ("recogniser", _find(str(model)), cache_folder, processes)
    return models.get(key, lambda: Recogniser(model, cache_folder, processes))


def forget() -> None:
    """Drop what all recognisers of this process remember in memory; the models stay loaded."""
    for one in models.values():
        if isinstance(one, Recogniser):
            one.clear()


class Recogniser:
    """See `recogniser`. Call it with texts; safe to call from several threads."""

    def __init__(self, model: str | os.PathLike[str], cache_folder: str | None, processes: int | None):
        self.path, self.identity = _find(str(model))
        self._processes = _default_processes() if processes is None else processes
        self._memory: OrderedDict[bytes, tuple[Mention, ...]] = OrderedDict()
        self._disk = None if cache_folder is None else _Disk(Path(cache_folder).expanduser(), self.identity)
        self._lock = Lock()
        self._helper: _Helper | None = None

    def __call__(self, texts: Iterable[str]) -> list[tuple[Mention, ...]]:
        texts = list(texts)
        keys = [hashlib.sha256(text.encode()).digest()[:16] for text in texts]
        with self._lock:
            found = {key: self._memory[key] for key in keys if key in self._memory}
            new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
            if new and self._disk is not None:
                found.update(stored := self._disk.read(list(new)))
                new = {key: text for key, text in new.items() if key not in stored}
            if new:
                computed = dict(zip(new, self._recognise(list(new.values())), strict=True))
                found.update(computed)
                if self._disk is not None:
                    self._disk.write(computed)
            for key, mentions in found.items():
                self._memory[key] = mentions
                self._memory.move_to_end(key)
            while len(self._memory) > _REMEMBERED:
                self._memory.popitem(last=False)
        return [found[key] for key in keys]

    def clear(self) -> None:
        """Forget what was found; the disk keeps it."""
        with self._lock:
            self._memory.clear()

    def _recognise(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        if self._helper is not None and not self._helper.is_ours:
            self._helper = None  # of the process that this one was forked from
        if self._helper is None and (self._processes < 2 or len(texts) < WORTH_A_PROCESS):
            return recognise(self.path, texts)
        if self._helper is None:
            self._helper = _Helper(self.path)
        try:
            return self._shared(self._helper, texts)
        except BaseException as error:
            # Whatever is under way in the other process is lost; the next call starts another.
            self._helper.end()
            self._helper = None
            if isinstance(error, (OSError, RuntimeError)):
                return recognise(self.path, texts)
            raise

    def _shared(self, helper: _Helper, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        # Halves of equal length rather than of equal number, taken alternately from the longest.
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        theirs, mine = order[0::2], order[1::2]
        helper.send([texts[row] for row in theirs])
        result: list[tuple[Mention, ...]] = [()] * len(texts)
        for row, mentions in zip(mine, recognise(self.path, [texts[row] for row in mine]), strict=True):
            result[row] = mentions
        for row, mentions in zip(theirs, helper.receive(), strict=True):
            result[row] = mentions
        return result


def _default_processes() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if int(os.environ.get("WORLD_SIZE", "1")) > 1 else min(2, cores)


# --- spaCy ------------------------------------------------------------------------------------------------


def check(model: str | os.PathLike[str]) -> None:
    """Raise `MissingRequirement` if spaCy or the model is not here, without loading it."""
    _find(str(model))


def _find(model: str) -> tuple[str, str]:
    """Where a model is, and its name for a signature."""
    import importlib.metadata
    import importlib.util

    if importlib.util.find_spec("spacy") is None:
        raise MissingRequirement(f"apes finds entities with spaCy: {pip_install('offline')}")
    if model in weights.WEIGHTS or weights.existing_path(model) is not None:
        resolved = weights.resolve(model)
        return resolved.path_or_id, resolved.identity
    try:
        version = importlib.metadata.version(model.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        raise MissingRequirement(
            f"ner={model!r} is neither an existing folder, nor 'spacy-small', nor an installed spaCy package: "
            f"python -m spacy download {model}"
        ) from None
    return model, f"{model}@{version}"


def _pipeline(path: str) -> Any:
    import spacy

    def load() -> Any:
        pipeline = spacy.load(path, exclude=list(_NOT_NEEDED))
        # In small and middle-sized models the recogniser has vectors of its own, and those of the tagger are for nobody.
        recogniser: Any = pipeline.get_pipe("ner")
        listens = any("listener" in layer.name for layer in recogniser.model.walk())
        if "tok2vec" in pipeline.pipe_names and not listens:
            pipeline.remove_pipe("tok2vec")
        return pipeline

    changed = os.stat(path).st_mtime_ns if os.path.exists(path) else None
    return models.get(("spacy", path, changed), load)


def recognise(path: str, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
    """The entities of each text, read here and now."""
    pieces = [(row, piece) for row, text in enumerate(texts) for piece in _pieces(text)]
    # Texts of similar length are read together, so that little of a batch is padding.
    order = sorted(range(len(pieces)), key=lambda number: len(pieces[number][1]))
    documents = _pipeline(path).pipe((pieces[number][1] for number in order), batch_size=_BATCH)
    mentions = {
        number: [Mention(entity.text, entity.label_) for entity in document.ents if entity.label_ in KINDS]
        for number, document in zip(order, documents, strict=True)
    }
    found: list[list[Mention]] = [[] for _ in texts]
    for number, (row, _) in enumerate(pieces):
        found[row] += mentions[number]
    return [tuple(row) for row in found]


def _pieces(text: str) -> Iterator[str]:
    """The text, cut between sentences where it is too long to be read at once."""
    if len(text) <= _LONGEST_PIECE:
        yield text
        return
    start = end = 0
    for left, right in sentence_spans(text):
        if right - start > _LONGEST_PIECE and end > start:
            yield text[start:end]
            start = left
        end = right
        while end - start > _LONGEST_PIECE:  # a "sentence" that never ends
            yield text[start : start + _LONGEST_PIECE]
            start += _LONGEST_PIECE
    if end > start:
        yield text[start:end]


# --- a second process -------------------------------------------------------------------------------------


class _Helper:
    """Another interpreter that reads texts meanwhile; it ends with this one.

    An interpreter of its own, not a fork: torch has threads by now, and `multiprocessing` would import the user's
    script again.
    """

    def __init__(self, path: str):
        command = python_module("summarily.support.cloze.recognition", [path])
        # A session of its own: an interrupt at the terminal is for us, and we end it.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._parent = os.getpid()
        self.end = weakref.finalize(self, _end, self._process)
        self._answer: list[bytes] = []
        self._reader: threading.Thread | None = None

    @property
    def is_ours(self) -> bool:
        return self._parent == os.getpid()

    def send(self, texts: Sequence[str]) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(list(texts)).encode() + b"\n")
        stdin.flush()
        # Read in a thread, so that a long answer never waits for room in the pipe.
        self._answer = []
        self._reader = threading.Thread(target=lambda: self._answer.append(stdout.readline()), daemon=True)
        self._reader.start()

    def receive(self) -> list[tuple[Mention, ...]]:
        assert self._reader is not None
        self._reader.join()
        if not self._answer or not self._answer[0]:
            raise RuntimeError(f"the helper that finds entities ended with code {self._process.wait()}.")
        return [tuple(Mention(*m) for m in mentions) for mentions in json.loads(self._answer[0])]


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:  # it is still reading
        process.kill()
        process.wait()


def _serve(path: str) -> None:
    """What the helper does: a line of texts in, a line of mentions out, until the input ends."""
    for line in sys.stdin.buffer:
        answer = json.dumps(recognise(path, json.loads(line)))
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()


# --- on disk ----------------------------------------------------------------------------------------------


class _Disk:
    """What was found, by the hash of the text, for one model."""

    def __init__(self, folder: Path, identity: str):
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._file = folder / f"entities-{name}.sqlite"
        with self._open() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS found (text BLOB PRIMARY KEY, mentions TEXT)")

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._file, timeout=60)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def read(self, keys: Sequence[bytes]) -> dict[bytes, tuple[Mention, ...]]:
        found: dict[bytes, tuple[Mention, ...]] = {}
        with self._open() as connection:
            for key in keys:
                row = connection.execute("SELECT mentions FROM found WHERE text = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = tuple(Mention(*mention) for mention in json.loads(row[0]))
        return found

    def write(self, found: dict[bytes, tuple[Mention, ...]]) -> None:
        rows = [(key, json.dumps(mentions)) for key, mentions in found.items()]
        with self._open() as connection:
            connection.executemany("INSERT OR REPLACE INTO found VALUES (?, ?)", rows)


if __name__ == "__main__":
    _serve(sys.argv[1])
