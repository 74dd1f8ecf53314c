"""The types of parameters and results, as a stub spells them.

A declared operator's follow from its declaration. A plain function says them in its annotations;
where one says Any (as it runs on arrays too), a parameter's type is what its name means everywhere
in torch, and a result is a tensor.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pullback
from generate import declared  # loads every family, so that RESULTS has all
from pullback.operators.declare import Op, Param
from pullback.operators.results import RESULTS

# What a parameter of this name takes, where it is not annotated otherwise.
_DIMS = "int | Sequence[int]"
_BY_NAME = {
    **dict.fromkeys(("input", "grad", "mat1", "mat2", "vec", "A"), "Tensor"),
    **dict.fromkeys(("bias", "running_mean", "running_var"), "Tensor | None"),
    **dict.fromkeys(("keepdim", "training", "requires_grad", "pin_memory", "inplace"), "bool"),
    **dict.fromkeys(("ceil_mode", "return_indices", "train"), "bool"),
    **dict.fromkeys(("size", "shape", "sizes"), _DIMS),
    **dict.fromkeys(("dim", "axis"), f"{_DIMS} | None"),
    "keepdims": "bool | None",
    "tensors": "Sequence[Tensor]",
    "target": "Tensor",
    "reduction": "str",
    "generator": "Generator | None",
    "dtype": "dtype | type | None",
    "device": "DeviceLike | None",
    "layout": "layout | None",
    "memory_format": "memory_format | None",
    "out": "Tensor | Sequence[Tensor] | None",
}
# Parameters that are spread: `torch.zeros(2, 3)`, `torch.atleast_1d(x, y)`.
_SPREAD = {"sizes": _DIMS, "size": _DIMS, "shape": _DIMS, "dims": _DIMS, "tensors": "Any"}
_NUMBER = "bool | int | float | complex"
# Plain functions whose first parameter may be a number too: `torch.pow(2, x)`.
_OF_NUMBERS = frozenset(("pow", "float_power"))

# Name -> the module to import it from, for what the strings above name.
_HOMES = {
    "Any": "typing",
    "Literal": "typing",
    "Sequence": "collections.abc",
    "Iterator": "collections.abc",
    "Tensor": "pullback.core.tensor",
    "Size": "pullback.core.size",
    "Generator": "pullback.operators.random.generator",
    "DeviceLike": "pullback.core.device",
    "device": "pullback.core.device",
    "dtype": "pullback.core.dtype",
    "layout": "pullback.core.layout",
    "memory_format": "pullback.core.layout",
    **dict.fromkeys(RESULTS, "pullback.return_types"),
}


_TORCH_NAMES = Path(pullback.__path__[-1])


def seen_at(module: str) -> str:
    """Where type checkers find a module: they do not know that torch_names/ is on the path.

    >>> seen_at("pullback.mps.profiler")
    'pullback.torch_names.mps.profiler'
    """
    package, _, inside = module.partition(".")
    first = inside.partition(".")[0]
    found = (_TORCH_NAMES / first).is_dir() or (_TORCH_NAMES / f"{first}.py").exists()
    return f"{package}.torch_names.{inside}" if first and found else module


class Imports:
    """What the annotations of one stub name; every name with an underscore, as `float` is a dtype.

    A class has methods called `int` and `dtype`, the top level a function called `complex`.
    """

    def __init__(self) -> None:
        self._used: dict[str, set[str]] = {}

    def name(self, name: str, home: str) -> str:
        """The name as the stub spells it."""
        self._used.setdefault(seen_at(home), set()).add(name)
        return f"_{name}"

    def lines(self) -> Iterator[str]:
        """The import statements."""
        for home, names in sorted(self._used.items()):
            for name in sorted(names):
                yield f"from {home} import {name} as _{name}"


def spelled(annotation: str, scope: dict[str, Any], imports: Imports) -> str:
    """An annotation with every name taken from the stub's imports; "" where one has no home."""
    tree = ast.parse(annotation, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            return ""
        if isinstance(node, ast.Name) and _home(node.id, scope) is None:
            return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            home = _home(node.id, scope)
            assert home is not None
            node.id = imports.name(node.id, home)
    return ast.unparse(tree)


def _home(name: str, scope: dict[str, Any]) -> str | None:
    value = scope.get(name)
    if name in _HOMES and (name not in scope or scope is _HOMES):
        return _HOMES[name]
    if name not in scope:
        return "builtins" if isinstance(getattr(builtins, name, None), type) else None
    for module in (typing, collections.abc):
        if getattr(module, name, None) is value:
            return module.__name__
    if name in _HOMES and (
        name == "DeviceLike" or getattr(value, "__module__", "") == _HOMES[name]
    ):
        return _HOMES[name]
    if isinstance(value, type) and value.__name__ == name and not name.startswith("_"):
        return value.__module__
    return None


def ours(annotation: str, imports: Imports) -> str:
    """One of the strings of this file, as the stub spells it."""
    return spelled(annotation, _HOMES, imports)


# Parameters ---------------------------------------------------------------------------------------


def of_param(op: Op, param: Param) -> str:
    """The type of a declared operator's parameter; "" where its annotation says it."""
    number = f" | {_NUMBER}" if param.name in op.number_names else ""
    nothing = " | None" if param.default is None else ""
    return {
        "tensor": f"Tensor{number}",
        "optional": f"Tensor{number} | None",
        "tensors": "Sequence[Tensor]",
        "dim": f"int{nothing}",
        "dims": f"{_DIMS} | None" if nothing else _DIMS,
        "shape": _DIMS + nothing,
    }.get(param.kind, "")


def of_name(function: str, name: str, *, spread: bool = False) -> str:
    """What a parameter of this name takes."""
    if function in _OF_NUMBERS and name == "input":
        return f"Tensor | {_NUMBER}"
    return _SPREAD.get(name, "Any") if spread else _BY_NAME.get(name, "Any")


# Results ------------------------------------------------------------------------------------------


def of_result(op: Op) -> str:
    """What a declared operator gives."""
    if op.name in RESULTS:
        return op.name
    if op.outputs == ("*",):
        return "tuple[Tensor, ...]"
    count = len(op.outputs)
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


assert declared
