"""The public modules, found and not listed: what names without underscores lead to.

A page of the reference tells of a module unless all that is in it stands on the page of another
one; of those below, `NO_PAGE` says why they have none.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pullback
from pullback.checking import names
from pullback.distributed import not_here
from tools import reference

__all__ = ["NO_PAGE", "found", "without_page"]

_INNER = "a file of a package: what programs name is told on the package's page"
_LONG = "the pipes of datapipes.iter and datapipes.map under their long names"
_ANSWER = "says which of torch's libraries are not here: takes no arguments"
_QUANTIZED = "stubs that hand on what they get: nothing is quantized here"
_COMMAND = "a command, whose --help tells of its flags"

# Modules with names of their own that have no page, and why.
NO_PAGE = {
    **dict.fromkeys(
        (
            *("amp.autocast_mode", "amp.grad_scaler", "autograd.gradcheck"),
            *("distributed.checkpoint.default_planner", "distributed.checkpoint.filesystem"),
            *("distributed.checkpoint.metadata", "distributed.checkpoint.planner"),
            *("distributed.checkpoint.planner_helpers", "distributed.checkpoint.stateful"),
            *("distributed.checkpoint.state_dict_saver", "distributed.checkpoint.storage"),
            *("distributed.nn.api.remote_module", "distributed.rpc.options"),
            *("distributions.constraint_registry", "distributions.relaxed_bernoulli"),
            *("distributions.relaxed_categorical", "export.dynamic_shapes"),
            *("export.exported_program", "export.graph_signature", "fx.graph"),
            *("fx.graph_module", "fx.immutable_collections", "fx.node", "fx.proxy"),
            *("multiprocessing.pool", "multiprocessing.queue", "multiprocessing.reductions"),
            *("nn.modules.lazy", "nn.parallel.distributed", "nn.parallel.scatter_gather"),
            *("nn.utils.spectral_norm", "nn.utils.stateless", "nn.utils.weight_norm"),
            "utils.data.datapipes.utils.common",
        ),
        _INNER,
    ),
    **{
        f"utils.data.datapipes.{name}": _LONG
        for name in (
            *("iter.callable", "iter.combinatorics", "iter.combining", "iter.filelister"),
            *("iter.fileopener", "iter.grouping", "iter.selecting", "iter.sharding"),
            *("iter.streamreader", "iter.utils", "map.callable", "map.combinatorics"),
            *("map.combining", "map.grouping", "map.utils"),
        )
    },
    **{f"backends.{name}": _ANSWER for name in ("cpu", "cusparselt", "kleidiai", "openmp")},
    **dict.fromkeys(("ao.nn.quantized", "ao.quantization", "nn.quantized"), _QUANTIZED),
    "quantization": _QUANTIZED,
    **dict.fromkeys(("distributed.launch", "distributed.run", "utils.collect_env"), _COMMAND),
    "installed": "what is installed beside the package, for its own messages",
    "jit.annotations": "types of TorchScript's annotations, which are Python's own here",
    "jit.frontend": "errors of TorchScript's parser, which is not here",
    "return_types": "named tuples, made by the functions that return them",
    "torch_version": "a string that compares as a version, `torch.__version__`",
    "types": "types for annotations",
}


def found() -> dict[str, ModuleType]:
    """Public modules by their path below pullback: as names lead to them, and as torch has them."""
    modules: dict[str, ModuleType] = {}
    _walk("", pullback, modules)
    refusing = {f"distributed.{name}" for name in not_here.MODULES}
    for path in refusing & modules.keys():  # once something has imported them
        del modules[path]
    for path in names.public():
        if path != "torch" and path not in modules and path not in refusing:
            try:
                modules[path] = importlib.import_module(f"pullback.{path}")
            except ImportError:  # one that is not here, or wants a package that is not installed
                continue
    return modules


def _walk(path: str, home: ModuleType, modules: dict[str, ModuleType]) -> None:
    modules[path] = home
    for name in sorted({*getattr(home, "__all__", ()), *dir(home)}):
        below = f"{path}.{name}".lstrip(".")
        if name.startswith("_") or below in modules:
            continue
        try:
            value = getattr(home, name, None)
        except ImportError:  # of a package that is not installed
            continue
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "pullback":
            _walk(below, value, modules)


def without_page() -> dict[str, list[str]]:
    """Modules that the reference does not list, with what is told on no page."""
    told = {_identity(*one) for path in reference.MODULES for one in _callables(path)}
    left = {
        path: [name for name, value in _callables(path, home) if _identity(name, value) not in told]
        for path, home in found().items()
        if path not in reference.MODULES
    }
    return {path: names for path, names in left.items() if names}


def _callables(path: str, home: Any = None) -> Iterator[tuple[str, Any]]:
    home = reference.found(path) if home is None else home
    for name in reference.names_in(home):
        yield name, getattr(home, name)


def _identity(name: str, value: Any) -> tuple[Any, ...]:
    # A function that asks for overrides has a twin for each of its homes: one name, one origin.
    origin = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return (name, *origin) if all(origin) else (name, id(value))
