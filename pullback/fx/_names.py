"""Names: of nodes in a graph, and of functions in the code written from one."""

from __future__ import annotations

import builtins
import keyword
import re
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pullback
from pullback.core.home import is_ours
from pullback.core.tensor import Tensor
from pullback.fx._patching import usual, usual_item
from pullback.operators.dispatch import asking

__all__ = ["Namespace", "global_name", "node_name", "qualified_name"]

_NOT_ALLOWED = re.compile("[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(0|[1-9][0-9]*)$")
# Names that the code written from a graph uses itself.
RESERVED = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})
_ALLOWED_BUILTINS = frozenset({"None", "True", "False"})


class Namespace:
    """Gives out names, each once: `add`, `add_1`, `add_2`."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A free identifier close to `candidate`; the one it has if `obj` has a name already."""
        if obj is not None and id(obj) in self._names:
            return self._names[id(obj)]
        candidate = _NOT_ALLOWED.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        numbered = _NUMBERED.match(candidate)
        base = numbered[1] if numbered else candidate
        number = int(numbered[2]) if numbered else 0
        number = number or self._counts.get(base, 0)
        while candidate in self._used or not self._allowed(candidate, obj):
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self.associate_name_with_obj(candidate, obj)
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Note that a name belongs to an object."""
        self._objects.setdefault(name, obj)
        self._names[id(obj)] = name
        self._used.add(name)

    def holder(self, name: str) -> Any:
        """Whose name it is; None where it is nobody's."""
        return self._objects.get(name)

    def forget(self, obj: Any, *, frees: bool = False) -> None:
        """An object needs its name no longer; the name stays taken unless it `frees` it."""
        name = self._names.pop(id(obj), None)
        if name is not None:
            self._objects.pop(name, None)
            if frees:
                self._used.discard(name)

    def _allowed(self, name: str, obj: Any) -> bool:
        if name in _ALLOWED_BUILTINS:
            return True
        if keyword.iskeyword(name):
            return False
        if name in vars(builtins):
            return obj is getattr(builtins, name)
        return name not in RESERVED


def snake_case(text: str) -> str:
    """`AvgPool` as `avg_pool`."""
    spread = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text)
    return spread.lower()


def node_name(target: Any) -> str:
    """What a node that does this is called, before it gets a number."""
    if isinstance(target, str):
        name = target.lstrip("*")
        if target.startswith("*"):
            return f"_{name}"
        magic = name.startswith("__") and name.endswith("__")
        return snake_case(name[2:-2] if magic else name)
    path = _public_path(target)
    if path is not None:
        parts = path.split(".")
        inner = parts[1] if len(parts) == 3 and parts[1] in ("fft", "linalg", "special") else ""
        return f"{inner}_{parts[-1]}" if inner else snake_case(parts[-1])
    return snake_case(getattr(target, "__name__", type(target).__name__))


def _places() -> list[tuple[str, Any]]:
    return [
        ("torch", pullback),
        ("torch.nn.functional", pullback.nn.functional),
        ("torch.linalg", pullback.linalg),
        ("torch.fft", pullback.fft),
        ("torch.special", pullback.special),
        ("torch.Tensor", Tensor),
    ]


def _public_path(target: Any) -> str | None:
    """Where users find one of the package's functions: "torch.nn.functional.relu"."""
    if not isinstance(target, FunctionType) or not is_ours(target):
        return None
    places = _places()
    if asking.by_name(target):  # F's own, where torch has another of that name
        places = [*places[1:], places[0]]
    for path, place in places:
        if usual_item(vars(place), target.__name__) is target:
            return f"{path}.{target.__name__}"
    for path, place in places:
        for name, value in usual(vars(place)):
            if value is target:
                return f"{path}.{name}"
    own = target.__name__
    getattr(pullback, own, None)  # loads it
    return f"torch.{own}" if usual_item(vars(pullback), own) is target else None


def qualified_name(target: Any) -> str:
    """How a function is written in code that knows its module: "torch.cat", "operator.add"."""
    path = _public_path(target)
    if path is not None:
        return path
    if isinstance(target, ModuleType):
        return _as_torch(target.__name__)
    name = getattr(target, "__name__", None)
    if name is None or not isinstance(target, FunctionType | BuiltinFunctionType | type):
        return _operator_path(target) if _is_operator(target) else _as_torch(str(target))
    module = getattr(target, "__module__", None) or "builtins"
    module = "operator" if module == "_operator" else module
    return _as_torch(f"{module}.{getattr(target, '__qualname__', name)}")


def _is_operator(target: Any) -> bool:
    return hasattr(target, "_schema") or hasattr(target, "overloads")


def _operator_path(target: Any) -> str:
    return f"torch.ops.{str(target).replace('::', '.')}"


def global_name(target: Any) -> str:
    """What a function is called in written code: a path from `torch`, or a name of its own."""
    if _is_operator(target):
        return _operator_path(target)
    name = getattr(target, "__name__", None)
    if name is not None and getattr(builtins, name, None) is target:
        return str(name)
    full = qualified_name(target)
    if full.startswith("torch.") and not full.startswith("torch.Tensor.") and _found(full, target):
        return full
    if full.startswith("operator."):
        full = f"_{full}"
    return _NOT_ALLOWED.sub("_", full)


def _found(path: str, target: Any) -> bool:
    place: Any = pullback
    for part in path.split(".")[1:]:
        found = getattr(place, part, None)
        place = (usual_item(vars(place), part) or found) if type(place) is ModuleType else found
    return place is target


def _as_torch(path: str) -> str:
    return f"torch{path[8:]}" if path == "pullback" or path.startswith("pullback.") else path
