"""Places our `evaluate` modules where `evaluate.load` looks when the Hub does not have the name, and our
summarization pipeline where transformers looks.

`evaluate` keeps modules it has loaded under `<HF modules cache>/evaluate_modules/metrics/<name>/<hash>/` and
falls back to them; we put ours there. Registering is idempotent, atomic, safe under concurrent processes, and
does not import `evaluate`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.abc
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from summarily.support.files import write_atomically
from summarily.support.version import __version__

logger = logging.getLogger(__name__)

# The Hub's own `evaluate` modules; a bare name would never reach ours while online.
OWNED_BY_THE_HUB = frozenset({"rouge", "bertscore", "bleurt"})


def modules_cache() -> Path:
    """The folder that `evaluate` imports dynamic modules from, found the way `evaluate.config` finds it."""
    config = sys.modules.get("evaluate.config")
    if config is not None:
        return Path(config.HF_MODULES_CACHE)
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.path.expanduser(os.environ.get("HF_HOME", os.path.join(cache, "huggingface")))
    return Path(os.environ.get("HF_MODULES_CACHE", os.path.join(home, "modules")))


def register(cache: str | os.PathLike[str] | None = None) -> list[str]:
    """Register all metrics with `evaluate`; returns the names that `evaluate.load` now understands.

    Args:
        cache: the modules cache to register in; by default the one `evaluate` uses.

    Raises:
        OSError: the folder cannot be written; the message says what to do.

    Example:
        >>> import tempfile
        >>> "summarily/rouge" in register(tempfile.mkdtemp())
        True
    """
    from summarily import metrics as package

    folder_of_metrics = Path(package.__path__[0])
    root = Path(cache) if cache is not None else modules_cache()
    names: list[str] = []
    try:
        metrics = root / "evaluate_modules" / "metrics"
        metrics.mkdir(parents=True, exist_ok=True)
        for folder in (root, metrics.parent, metrics):
            _touch(folder / "__init__.py")
        for name in package.METRICS:
            script = (folder_of_metrics / name / f"{name}.py").read_bytes()
            _place(script, name, metrics / f"summarily--{name}")
            names.append(f"summarily/{name}")
            if name not in OWNED_BY_THE_HUB:
                _place(script, name, metrics / f"evaluate-metric--{name}")
                names.append(name)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot register the metrics with evaluate in {root} ({error.strerror}); metrics still work through "
            f"summarily.score. Set HF_MODULES_CACHE to a folder you can write, then run `summarily register`",
        ) from error
    return names


def register_on_import() -> None:
    """Register quietly; a cache that cannot be written is worth a log line, not an exception."""
    if os.environ.get("SUMMARILY_REGISTER", "1") == "0":
        return
    _when_loaded("transformers.pipelines", _register_pipeline)
    _when_loaded("evaluate.evaluator", _register_evaluator)
    logging.getLogger("evaluate.loading").addFilter(_is_no_news)
    try:
        register()
    except OSError as error:
        logger.warning("%s", error.strerror)


def _is_no_news(record: logging.LogRecord) -> bool:
    """Whether to log this line of `evaluate`: not that one of our modules lies where we have put it."""
    message = record.getMessage()
    ours = (f"{owner}--{name}{os.sep}" for owner in ("summarily", "evaluate-metric") for name in _names())
    return not ("latest cached version of the module" in message and any(name in message for name in ours))


def _names() -> list[str]:
    from summarily.metrics import METRICS

    return list(METRICS)


def _when_loaded(module: str, register_ours: Callable[[], None]) -> None:
    """Run `register_ours` now if `module` is loaded, else as soon as it is.

    Loading pipelines takes seconds, which `import summarily` should not cost those who only score.
    """
    if module in sys.modules:
        register_ours()
    elif not any(isinstance(finder, _After) and finder.module == module for finder in sys.meta_path):
        sys.meta_path.insert(0, _After(module, register_ours))


def _register_pipeline() -> None:
    from summarily.modeling.generation.summarizer import register_pipeline

    register_pipeline()


def _register_evaluator() -> None:
    from summarily.metrics.evaluator import register_evaluator

    register_evaluator()


class _After(importlib.abc.MetaPathFinder):
    """Waits for a module to be imported, then adds what is ours and is gone."""

    def __init__(self, module: str, register_ours: Callable[[], None]):
        self.module = module
        self.register_ours = register_ours
        self._asking = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.module or self._asking:
            return None
        self._asking = True  # the others are asked, and this one again
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking = False
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_register(module: Any) -> None:
            load(module)
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self)
            try:
                self.register_ours()
            except Exception as error:  # the module itself has loaded, and that is what was asked for
                logger.warning("what summarily adds to %s could not be registered: %s", fullname, error)

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def _touch(path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        path.open("x").close()


def _place(script: bytes, name: str, folder: Path) -> None:
    """Make `folder/<hash>/<name>.py` exist and be the newest of its versions."""
    digest = hashlib.sha256(script + __version__.encode()).hexdigest()
    target = folder / digest / f"{name}.py"
    if target.exists() and target.read_bytes() != script:
        write_atomically(target, script)  # cut short by a full disk, or changed
    if not target.exists():
        folder.mkdir(exist_ok=True)
        _touch(folder / "__init__.py")
        temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
        try:
            (temporary / f"{name}.py").write_bytes(script)
            _touch(temporary / "__init__.py")
            temporary.chmod(0o755)
            # A process that was faster has put the same bytes there.
            with contextlib.suppress(OSError):
                temporary.rename(target.parent)
            if not target.exists():
                raise OSError(5, f"could not create {target.parent}")
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    _make_newest(target, folder)


def _make_newest(target: Path, folder: Path) -> None:
    """`evaluate` takes the version modified last."""
    others = [path.stat().st_mtime for path in folder.glob(f"[!.]*/{target.name}") if path != target]
    if others and max(others) >= target.stat().st_mtime:
        os.utime(target, (max(others) + 1, max(others) + 1))
