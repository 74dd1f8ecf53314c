"""Writes the list of torch's public names, from the torch that is installed.

`python -m tools.torch_names` (`make names ORACLE=1`). Names are facts; the list is what `pullback
check` and the page "Coming from torch" look at, neither of which needs torch.

A line is a module and its public names: `nn.init: calculate_gain constant_ ...`; the first is torch
itself, called `torch`. A line that begins with `class` is a class that programs call methods of.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

FILE = Path(__file__).resolve().parents[1] / "pullback" / "checking" / "torch_names.txt"

# What is answered as a whole, by one reason: their inner modules are not listed.
_WHOLE = ("ao", "quantization", "onnx", "package", "nativert", "contrib")
# Inner to torch although not called so: parts of its compiler, and programs of their own.
_INNER = (
    *("distributed.flight_recorder", "distributed.run", "distributed.launch"),
    *("fx.experimental", "fx.passes", "jit.mobile", "utils.bundled_inputs", "utils.viz"),
    *("utils.benchmark.examples", "utils.benchmark.op_fuzzers", "utils.hipify", "utils.jit"),
    *("distributed.elastic", "distributed.benchmarks", "distributed.examples", "testing"),
    *("utils.model_dump", "utils.bottleneck", "utils.collect_env", "utils.serialization"),
)
_CLASSES = (
    *("Tensor", "Generator", "device", "dtype", "Size", "nn.Module"),
    *("optim.Optimizer", "optim.lr_scheduler.LRScheduler", "distributions.Distribution"),
    *("utils.data.DataLoader", "autograd.Function", "cuda.Event", "cuda.Stream", "fx.Graph"),
)


def main() -> None:
    """Write the file."""
    import torch  # type: ignore[import-not-found, unused-ignore]  # the oracle, where installed

    lines = [f"# Public names of torch {torch.__version__.partition('+')[0]}: tools/torch_names.py"]
    lines += [_line(name, public_names(module)) for name, module in sorted(modules(torch))]
    lines += [_line(f"class {path}", members(_found(torch, path))) for path in _CLASSES]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(lines) - 1} lines, {FILE.stat().st_size} bytes")


def _line(name: str, names: list[str]) -> str:
    return f"{name}: {' '.join(names)}".rstrip()


def _found(torch: Any, path: str) -> Any:
    for part in path.split("."):
        torch = getattr(torch, part)
    return torch


def modules(torch: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    """Every public module of torch that can be imported, with its path below torch."""
    waiting = [torch.__name__]
    while waiting:
        path = waiting.pop()
        module = _imported(path)
        if module is None:
            continue
        below = path.partition(".")[2]
        yield below or path, module
        if below in _WHOLE:
            continue
        for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
            inner = f"{below}.{found.name}".lstrip(".")
            if not found.name.startswith("_") and inner not in _INNER:
                waiting.append(f"{path}.{found.name}")


def _imported(path: str) -> ModuleType | None:
    quiet = contextlib.redirect_stdout(io.StringIO())
    heard = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), quiet:
            return importlib.import_module(path)
    except Exception:  # noqa: BLE001, RUF100 (one that needs what is not installed)
        return None
    finally:
        logging.disable(heard)


def public_names(module: ModuleType) -> list[str]:
    """What a module offers: its `__all__`, or else what it or another part of torch defines."""
    held = dict(vars(module))
    listed = getattr(module, "__all__", None)
    found = listed if listed is not None else [name for name, v in held.items() if _is_torch(v)]
    inner = [name for name, value in held.items() if _is_part(module, name, value)]
    settings = {*dir(type(module))} - {*dir(ModuleType)}  # `backends.cudnn.benchmark` is a property
    return sorted({name for name in [*found, *inner, *settings] if not name.startswith("_")})


def _is_torch(value: Any) -> bool:
    with warnings.catch_warnings(action="ignore"):  # looking at some of them warns
        if isinstance(value, (ModuleType, TypeVar)):
            return False
        home = getattr(value, "__module__", None)
    return home is None or str(home).startswith("torch")


def _is_part(module: ModuleType, name: str, value: Any) -> bool:
    with warnings.catch_warnings(action="ignore"):
        return isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{name}"


def members(cls: type) -> list[str]:
    """The public methods and properties of a class."""
    return sorted(name for name in dir(cls) if not name.startswith("_"))


if __name__ == "__main__":
    main()
