"""`torch.hub` for models on this machine: a folder with a `hubconf.py`. Nothing is downloaded."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlparse

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url"),
    "set_dir",
]

_CONFIGURATION = "hubconf"
_hub_dir: str | None = None


# Where a file's name tells the beginning of its hash, as "resnet18-5c106cde.pth" does.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


def get_dir() -> str:
    """The folder for models: `set_dir`, else $TORCH_HOME/hub, else ~/.cache/torch/hub.

    >>> import pullback as torch
    >>> isinstance(torch.hub.get_dir(), str)
    True
    """
    if _hub_dir is not None:
        return _hub_dir
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder for models.

    >>> import pullback as torch
    >>> before = torch.hub.get_dir()
    >>> torch.hub.set_dir("models")
    >>> torch.hub.get_dir()
    'models'
    >>> torch.hub.set_dir(before)
    """
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def _refuse(what: str, instead: str) -> NoReturn:
    raise RuntimeError(f"torch.hub: {what}: nothing is downloaded here. {instead}")


def _folder(repo_or_dir: str | os.PathLike[str], source: str) -> str:
    """Where a repository is on this machine."""
    if source not in ("github", "local"):
        raise ValueError(f"torch.hub: source must be 'github' or 'local', got {source!r}.")
    name = os.fspath(repo_or_dir)
    if source == "local" or os.path.isdir(name):
        if not os.path.isfile(os.path.join(name, f"{_CONFIGURATION}.py")):
            raise FileNotFoundError(f"torch.hub: there is no hubconf.py in {name!r}.")
        return name
    repository, _, reference = name.partition(":")
    owner, slash, project = repository.partition("/")
    if not slash or not owner or not project:
        raise ValueError(f"torch.hub: {name!r} is neither a folder nor 'owner/repository[:ref]'.")
    for branch in (reference,) if reference else ("main", "master"):
        kept = os.path.join(get_dir(), f"{owner}_{project}_{branch.replace('/', '_')}")
        if os.path.isfile(os.path.join(kept, f"{_CONFIGURATION}.py")):
            return kept
    return _refuse(
        f"{name} is not in {get_dir()}", "Clone it, and pass the folder with source='local'."
    )


@contextmanager
def _configuration(folder: str) -> Iterator[ModuleType]:
    """The module hubconf.py of a folder, which its own imports find first on the path."""
    place = os.path.abspath(folder)
    spec = importlib.util.spec_from_file_location(
        _CONFIGURATION, os.path.join(place, f"{_CONFIGURATION}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, place)
    try:
        spec.loader.exec_module(module)
        _check_dependencies(module)
        yield module
    finally:
        sys.path.remove(place)


def _check_dependencies(module: ModuleType) -> None:
    names = getattr(module, "dependencies", None) or ()
    missing = [n for n in names if n not in sys.modules and importlib.util.find_spec(n) is None]
    if missing:
        raise RuntimeError(f"torch.hub: hubconf.py needs {', '.join(missing)}; install them first.")


def _entry(module: ModuleType, name: Any) -> Any:
    if not isinstance(name, str):
        kind = type(name).__name__
        raise ValueError(f"torch.hub: a model is named by a str, got {kind}.")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"torch.hub: hubconf.py has no function {name!r}.")
    return found


def list(
    github: str | os.PathLike[str],
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    verbose: bool = True,
) -> builtins.list[str]:
    """The names of the models in a folder with a `hubconf.py`.

    >>> import tempfile, pathlib
    >>> import pullback as torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     code = "def double(x): return 2 * x"
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text(code)
    ...     torch.hub.list(folder)
    ['double']
    """
    with _configuration(_folder(github, "github")) as module:
        return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(
    github: str | os.PathLike[str],
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
) -> str | None:
    """The docstring of a model in a folder with a `hubconf.py`.

    >>> import tempfile, pathlib
    >>> import pullback as torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     code = 'def double(x): "Twice as much."'
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text(code)
    ...     torch.hub.help(folder, "double")
    'Twice as much.'
    """
    with _configuration(_folder(github, "github")) as module:
        text: str | None = _entry(module, model).__doc__
        return text


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function `model` of a folder's `hubconf.py` returns.

    Example:
        >>> import tempfile, pathlib
        >>> import pullback as torch
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = pathlib.Path(folder.name, "hubconf.py")
        >>> _ = file.write_text("def double(x): return 2 * x")
        >>> torch.hub.load(folder.name, "double", 21, source="local")
        42
        >>> folder.cleanup()
    """
    if force_reload:
        _refuse("force_reload=True asks for a download", "Leave it out.")
    with _configuration(_folder(repo_or_dir, source)) as module:
        return _entry(module, model)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Refused: nothing is downloaded.

    >>> import pullback as torch
    >>> torch.hub.download_url_to_file("https://example.org/weights.pth", "weights.pth")
    Traceback (most recent call last):
        ...
    RuntimeError: torch.hub: ... nothing is downloaded here. Put the file to weights.pth yourself.
    """
    _refuse(f"{url} is not on this machine", f"Put the file to {dst} yourself.")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load weights that are in the folder for models already, under the last part of their URL.

    >>> import tempfile, os
    >>> import pullback as torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"bias": torch.ones(2)}, os.path.join(folder, "net.pth"))
    ...     torch.hub.load_state_dict_from_url("https://example.org/net.pth", folder)
    {'bias': tensor([1., 1.])}
    """
    from pullback.serialization import load as load_file

    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    file = folder / (file_name or os.path.basename(urlparse(url).path))
    if not file.exists():
        _refuse(f"{url} is not on this machine", f"Put the file to {file} yourself.")
    return load_file(str(file), map_location, weights_only=weights_only)


class _NoBar:
    """What stands for a progress bar where tqdm is not installed: it counts and shows nothing."""

    def __init__(self, iterable: Any = None, *, total: int | None = None, **options: Any) -> None:
        self.iterable, self.total, self.n = iterable, total, 0

    def __iter__(self) -> Iterator[Any]:
        for one in self.iterable:
            yield one
            self.update(1)

    def update(self, n: int = 1) -> None:
        """Count."""
        self.n += n

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


tqdm: Any

if not TYPE_CHECKING:  # to type checkers it would mean that every name is there

    def __getattr__(name: str) -> Any:
        """`tqdm`, as torch.hub has it: the library's where it is installed."""
        if name != "tqdm":
            raise absent(__name__, name)
        try:
            return importlib.import_module("tqdm").tqdm
        except ImportError:
            return _NoBar


__dir__ = _only_public(globals())
