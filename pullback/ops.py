"""`pullback.ops.<namespace>.<name>`: every operator, built-in or defined by a user, as an object.

>>> import pullback as torch
>>> torch.ops.aten.mul.Tensor
<OpOverload(op='aten.mul', overload='Tensor')>
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.explain.absent import absent as _absent
from pullback.library.registry import NAMESPACES, namespace

_given: set[str] = set()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise _absent(__name__, name)
    if name in _given:  # and deleted since: then a new object takes its place
        NAMESPACES.pop(name, None)
    _given.add(name)
    # An attribute of its own, so that it can be deleted.
    found = globals()[name] = namespace(name)
    return found


def __dir__() -> Iterator[str]:
    return iter(sorted(NAMESPACES))


def load_library(path: str) -> None:
    """Run a Python file that defines operators; shared libraries of torch cannot be used here."""
    import runpy

    if not str(path).endswith(".py"):
        raise OSError(
            f"{path} cannot be loaded: only Python files that define operators can. Load a C "
            "library with ctypes or cffi, and wrap its functions with pullback.library.custom_op."
        )
    runpy.run_path(str(path))
