"""Static word vectors, memory-mapped: nothing but the rows that are looked up is read.

`load` takes a pinned name, a file or folder of yours, or a file on the Hub:

- "glove-6b-50d": GloVe 6B, 50 dimensions, from a pip package (see `weights`);
- a folder with one `.npy` matrix and one vocabulary (`.txt`: a word per line; `.json`: a list; `.parquet`: a
  column), or the `.npy` itself with the vocabulary of the same name beside it;
- `.txt` or `.vec` in GloVe's or word2vec's text format, `.bin` in word2vec's binary format, also in `.gz` or
  `.zip`: converted once to a matrix in the cache folder (`SUMMARILY_CACHE`, else `~/.cache/summarily`);
- "owner/repository/file" on the Hub.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from summarily.support import models, weights
from summarily.support.errors import InputError, MissingRequirement, first_line
from summarily.support.folders import cache_folder
from summarily.support.inputs import read_json, read_text
from summarily.support.requirements import pip_install
from summarily.support.tables import read_table

_HUB_FILE = re.compile(r"([\w.-]+/[\w.-]+)/([\w./-]+\.\w+)")
_CONVERTIBLE = (".txt", ".vec", ".bin")
_PACKED = (".gz", ".zip")
_VOCABULARIES = (".parquet", ".txt", ".json")
MOST_DIMENSIONS = 100_000
LONGEST_WORD = 10_000
"""Bytes."""
_DIGITS = 12


class Vectors:
    """Words and their vectors.

    Args:
        words: the vocabulary; if a word appears twice, the first counts.
        matrix: one row per word.
        identity: what signatures call these vectors.

    Example:
        >>> vectors = Vectors(["cat", "dog"], np.eye(2), "toy")
        >>> vectors.find(["dog", "unicorn"])
        [1, -1]
        >>> vectors["cat"]
        array([1., 0.])
    """

    def __init__(self, words: Sequence[str], matrix: NDArray[Any], identity: str):
        if matrix.ndim != 2 or len(words) > len(matrix):
            raise InputError(
                f"{identity}: {len(words)} words do not fit a matrix of shape {matrix.shape}; "
                f"expected one row per word."
            )
        self.words = words
        # Backwards, so that the first of several equal words wins.
        self._index = dict(zip(reversed(words), range(len(words) - 1, -1, -1), strict=True))
        # A plain view of the same memory map: numpy's own class for maps is slow to index.
        self.matrix = np.asarray(matrix)
        self.identity = identity

    @property
    def dimensions(self) -> int:
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, word: str) -> bool:
        return word in self._index

    def __getitem__(self, word: str) -> NDArray[Any]:
        return self.matrix[self._index[word]]

    def find(self, words: Iterable[str]) -> list[int]:
        """The row of each word in `matrix`; -1 for a word without a vector."""
        return list(map(self._index.get, words, repeat(-1)))

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """The vectors of some rows; of row -1, zeros."""
        found = self.matrix[rows]
        if not np.isfinite(found).all():  # of a matrix that was mapped, not read
            wrong = rows[~np.isfinite(found).all(axis=-1)]
            raise InputError(
                f"{self.identity}: the vector of {self.words[int(wrong.flat[0])]!r:.60} is not finite."
            )
        if rows.size and rows.min() < 0:
            found[rows < 0] = 0
        return found


# --- loading ----------------------------------------------------------------------------------------------


def load(name: str | os.PathLike[str] = "glove-6b-50d") -> Vectors:
    """The vectors of this name or path, loaded once per process.

    Example:
        >>> "snow" in load()
        True
    """
    return Source.of(name).load()


@dataclass(frozen=True)
class Source:
    """Vectors that were found, and are loaded when they are wanted."""

    name: str
    path: Path
    changed: tuple[tuple[str, int, int], ...]
    """What its files are, their sizes and dates, so that one written anew is read anew."""

    @classmethod
    def of(cls, name: str | os.PathLike[str]) -> Source:
        path = _locate(name)
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        beside = [path.with_suffix(suffix) for suffix in _VOCABULARIES] if path.suffix == ".npy" else []
        files += [file for file in beside if file.is_file()]
        status = [(file.name, file.stat()) for file in files]
        name = name if isinstance(name, str) else str(path.absolute())
        return cls(name, path, tuple((file, one.st_mtime_ns, one.st_size) for file, one in status))

    def load(self) -> Vectors:
        key = ("vectors", os.path.realpath(self.path), self.changed)
        return models.get(key, lambda: _load(self.path, self.name))


def check(name: str | os.PathLike[str]) -> None:
    """Raise `MissingRequirement` if the vectors cannot be had, without reading them."""
    if weights.existing_path(name) is not None:
        return
    hub = _HUB_FILE.fullmatch(str(name))
    if hub is None:
        weights.check(name)
        return
    from huggingface_hub import try_to_load_from_cache

    if not isinstance(try_to_load_from_cache(hub[1], hub[2]), str):
        weights.check(hub[1])


def _locate(name: str | os.PathLike[str]) -> Path:
    """The folder or file to read."""
    path = weights.existing_path(name)
    if path is not None:
        return path
    hub = _HUB_FILE.fullmatch(str(name))
    if hub and str(name) not in weights.WEIGHTS:
        return _download(hub[1], hub[2])
    resolved = weights.resolve(name)
    if not resolved.is_local:
        raise MissingRequirement(
            f"vectors={str(name)!r} names a repository, not a file in it; write owner/repository/file, "
            f"as in 'stanfordnlp/glove/glove.840B.300d.zip'."
        )
    return resolved.path


def _download(repository: str, file: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, file))
    except Exception as error:  # whatever the Hub client and its transport raise
        reason = f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
        raise weights.not_on_hub(f"{repository}/{file}", reason) from error


def _load(path: Path, name: str | os.PathLike[str]) -> Vectors:
    if path.is_file() and _suffix(path) in _CONVERTIBLE:
        folder = _converted(path)
        identity = (folder / "identity").read_text(encoding="utf-8")
        return Vectors(_read_words(folder / "words.txt"), _map(folder / "vectors.npy"), identity)
    matrix, vocabulary = _matrix_and_vocabulary(path)
    identity = weights.resolve(name if str(name) in weights.WEIGHTS else path).identity
    if matrix == path:
        both = weights.file_hash(matrix) + weights.file_hash(vocabulary)
        identity = f"{path.name}@{hashlib.sha256(both.encode()).hexdigest()[:12]}"
    return Vectors(_read_words(vocabulary), _map(matrix), identity)


def _map(path: Path) -> NDArray[Any]:
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy reads the header as Python: damaged ones raise what its tokenizer does
        raise InputError(f"{path} is not an .npy file that can be read: {first_line(error)}") from None
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "fiu":
        raise InputError(
            f"{path} holds {getattr(matrix, 'dtype', 'several arrays')}; expected one of numbers."
        )
    return matrix


def _matrix_and_vocabulary(path: Path) -> tuple[Path, Path]:
    if path.is_file():
        if path.suffix != ".npy":
            raise InputError(
                f"{path} is no file of word vectors; expected .npy, .txt, .vec or .bin, the last three also "
                f"packed as .gz or .zip."
            )
        beside = [path.with_suffix(suffix) for suffix in _VOCABULARIES if path.with_suffix(suffix).is_file()]
        if len(beside) != 1:
            raise InputError(
                f"{path} needs its vocabulary beside it, as {path.with_suffix('.txt').name} with one word per "
                f"line; found {[file.name for file in beside] or 'none'}."
            )
        return path, beside[0]
    matrices = sorted(path.glob("*.npy"))
    vocabularies = sorted(file for suffix in _VOCABULARIES for file in path.glob(f"*{suffix}"))
    if len(matrices) != 1 or len(vocabularies) != 1:
        raise InputError(
            f"{path} has {len(matrices)} .npy files and {len(vocabularies)} vocabularies "
            f"({', '.join(_VOCABULARIES)}); expected one of each."
        )
    return matrices[0], vocabularies[0]


def _read_words(path: Path) -> list[str]:
    if path.suffix == ".txt":
        # Not splitlines(), which would also split at characters that words may hold.
        return read_text(path).removesuffix("\n").split("\n")
    if path.suffix == ".json":
        return [str(word) for word in read_json(path, list)]
    try:
        table = read_table(str(path))
    except ImportError:
        raise MissingRequirement(f"{path.name} needs pyarrow: {pip_install('offline')}") from None
    if not table:
        raise InputError(f"{path} has no column of words.")
    return [str(word) for word in table[next(iter(table))]]


# --- converting -------------------------------------------------------------------------------------------


def _suffix(path: Path) -> str:
    """The suffix of a file, or of what is packed in it."""
    if path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                return Path(_member(archive, path)).suffix
        except _DAMAGED as error:
            raise InputError(f"{path} is not a whole .zip file: {first_line(error)}") from None
    return Path(path.stem).suffix if path.suffix in _PACKED else path.suffix


# What zip and gzip files raise that are cut, damaged, encrypted or packed in an unknown way.
_DAMAGED = (
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


def _member(archive: zipfile.ZipFile, path: Path) -> str:
    members = [name for name in archive.namelist() if name.endswith(_CONVERTIBLE)]
    if len(members) != 1:
        raise InputError(f"{path} holds {members or 'no word vectors'}; expected one file of word vectors.")
    return members[0]


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if path.suffix == ".zip":
        archive = zipfile.ZipFile(path)
        try:
            return archive.open(_member(archive, path))
        except OSError as error:  # its list of contents points before the beginning
            raise zipfile.BadZipFile(first_line(error)) from None
    return path.open("rb")


def _converted(path: Path) -> Path:
    """The folder with the converted file, made if it is not there yet."""
    status = path.stat()
    key = f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    target = cache_folder() / "vectors" / hashlib.sha256(key.encode()).hexdigest()[:24]
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".new-"))
    try:
        try:
            _convert(path, temporary)
        except _DAMAGED as error:
            raise InputError(f"{path} is not a whole {path.suffix} file: {first_line(error)}") from None
        identity = f"{path.name}@{weights.file_hash(path)[:12]}"
        (temporary / "identity").write_text(identity, encoding="utf-8")
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _convert(path: Path, folder: Path) -> None:
    from tqdm.auto import tqdm

    with _open(path) as file:
        header = _header(file.readline(), path)
    read = _read_binary if _suffix(path) == ".bin" else _read_text
    words: dict[str, None] = {}
    size = 0
    with _open(path) as file, (folder / "vectors.npy").open("wb") as matrix:
        matrix.write(_npy_header(0, 0))
        rows = tqdm(
            read(file, path, header),
            total=header[0] if header else None,
            desc=f"converting {path.name}",
            disable=None,
            leave=False,
        )
        for word, vector in rows:
            if word not in words:
                matrix.write(vector.astype("<f4").tobytes())
                words[word] = None
            size = vector.size
        matrix.seek(0)
        matrix.write(_npy_header(len(words), size))  # as many as there are, whatever the file's header says
    if not words:
        raise InputError(f"{path} holds no word vectors.")
    (folder / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")


def _npy_header(rows: int, columns: int) -> bytes:
    """How an .npy file of float32 begins, in 128 bytes for any shape."""
    about = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    return np.lib.format.magic(1, 0) + (118).to_bytes(2, "little") + about.ljust(117).encode() + b"\n"


def _header(line: bytes, path: Path) -> tuple[int, int] | None:
    """The counts of words and dimensions that word2vec's formats begin with."""
    parts = line.split()
    if len(parts) != 2 or not parts[0].isdigit() or not parts[1].isdigit():
        return None
    if len(parts[0]) > _DIGITS or len(parts[1]) > _DIGITS or not 0 < int(parts[1]) <= MOST_DIMENSIONS:
        raise InputError(
            f"{path} begins with {line.strip()[:40].decode('ascii', 'replace')!r}; expected the number of words and "
            f"that of dimensions, up to {MOST_DIMENSIONS:,}."
        )
    return int(parts[0]), int(parts[1])


Rows = Iterator[tuple[str, NDArray[np.float32]]]


def _read_text(file: IO[bytes], path: Path, header: tuple[int, int] | None) -> Rows:
    size = header[1] if header else 0
    for number, line in enumerate(file, 1):
        if number == 1 and header:
            continue
        if not size:
            size = len(line.split()) - 1
        # Words may hold spaces (GloVe 840B has ". . ."), so the numbers are counted from the right.
        word, *numbers = line.rstrip().rsplit(b" ", size)
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            vector = np.empty(0, np.float32)
        if vector.size != size or not size or not np.isfinite(vector).all():
            raise InputError(f"{path}, line {number}: expected a word and {size} finite numbers.")
        yield _word(word), vector


def _read_binary(file: IO[bytes], path: Path, header: tuple[int, int] | None) -> Rows:
    if header is None:
        raise InputError(
            f"{path} does not begin with the number of words and dimensions, as word2vec's .bin do."
        )
    file.readline()
    count, size = header
    for number in range(1, count + 1):
        word = bytearray()
        while (byte := file.read(1)) != b" ":
            if not byte:
                raise InputError(f"{path} ends in word {number} of {count}.")
            word += byte
            if len(word) > LONGEST_WORD:
                raise InputError(f"{path}: word {number} of {count} does not end.")
        data = file.read(4 * size)
        if len(data) != 4 * size:
            raise InputError(f"{path} ends in the vector of word {number} of {count}.")
        vector = np.frombuffer(data, "<f4")
        if not np.isfinite(vector).all():
            raise InputError(f"{path}: the vector of word {number} of {count} is not finite.")
        yield _word(bytes(word).lstrip(b"\n")), vector


def _word(word: bytes) -> str:
    return word.decode("utf-8", "replace").replace("\n", " ")
