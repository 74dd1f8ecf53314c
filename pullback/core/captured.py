"""Which tensors a transformed function found outside: those it must not write to.

A transform of a function differentiates with respect to its arguments. A recorded write to a tensor
that the function merely found (in a closure, a global, an object) would leave the history of a
derivative that has ended in a tensor that lives on. Derivatives have no wrappers, so nothing marks
such a tensor; when one is written to, we look whether the function can reach it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from pullback.core.home import is_in_package, scope_name
from pullback.core.nesting import Derivative, running
from pullback.core.sequence import numbering
from pullback.core.version import writes
from pullback.core.view import View, edge_of

if TYPE_CHECKING:
    from pullback.core.tensor import Tensor

__all__ = ["Scope", "refuse_captured"]

_numbers = itertools.count(1)

# Looking further than this would cost more than the mistake does.
_MOST_OBJECTS = 20_000


class Scope:
    """A function while a transform runs it: when it began, with which tensors, what it can reach.

    Without a function nothing is known, and nothing refused.
    """

    __slots__ = ("_found", "arguments", "function", "number", "start")

    def __init__(self, function: Callable[..., Any] | None, arguments: Iterable[Any]) -> None:
        self.function = function
        self.arguments = arguments
        self.number = next(_numbers)  # of scopes inside it they are larger
        self.start = numbering.next()
        self._found: set[int] | None = None

    def is_captured(self, tensor: Tensor, inputs: Iterable[Any]) -> bool:
        """Whether `tensor` was there before, and is no argument."""
        if self.function is None or tensor.__dict__.get("_scope", 0) >= self.number:
            return False
        edge = edge_of(tensor)
        if edge is not None and edge._seq < self.start:  # numbers count down
            return False
        if any(tensor is one for one in _tensors((*self.arguments, *inputs))):
            return False
        if self._found is None:
            self._found = {id(one) for one in reachable(self.function)}
        return id(tensor) in self._found


def refuse_captured(tensor: Tensor, derivatives: tuple[Derivative, ...]) -> None:
    """Raise if the innermost derivative's function wrote to a tensor that it found outside."""
    info = tensor._node
    base = info.base if info.__class__ is View else tensor
    innermost = derivatives[-1]
    scope = innermost.scope
    if scope is None or not scope.is_captured(base, innermost.inputs):
        return
    known = writes(tensor._cell)
    raise RuntimeError(
        f"{known[-1] if known else 'An in-place operation'}: inside {innermost.transform}, a "
        "tensor from outside of the function was changed in place by values that are being "
        "differentiated. It would keep a part of a derivative that ends with the call. Pass the "
        "tensor to the function as an argument, or change a clone of it."
    )


def stamped(tensor: Tensor) -> Tensor:
    """`tensor`, just made: inside a transform it remembers that, should an object keep it."""
    derivatives = running.get()
    if derivatives and derivatives[-1].scope is not None:
        tensor.__dict__["_scope"] = derivatives[-1].scope.number
    return tensor


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    """The values in nested containers; of an example of vmap, its batch."""
    for value in values:
        if isinstance(value, dict):
            yield from _tensors(value.values())
        elif isinstance(value, tuple | list):
            yield from _tensors(value)
        else:
            while hasattr(value, "bdim"):
                value = value.value
            yield value


def reachable(function: Any) -> list[Any]:
    """The tensors that a function can reach: in closures, named globals, defaults and objects."""
    from pullback.core.tensor import Tensor

    found: list[Any] = []
    seen: set[int] = set()
    stack = [function]
    while stack and len(seen) < _MOST_OBJECTS:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            found.append(one)
        elif not isinstance(one, _LEAVES):
            stack.extend(_parts(one))
    return found


_LEAVES = (str, bytes, int, float, complex, type(None), type, ModuleType)


def _parts(one: Any) -> Iterable[Any]:
    if isinstance(one, FunctionType):
        return _parts_of_function(one)
    if isinstance(one, MethodType):
        return (one.__self__, one.__func__)
    if isinstance(one, partial):
        return (one.func, one.args, one.keywords)
    if isinstance(one, dict):
        return list(one.values())
    if isinstance(one, tuple | list | set | frozenset):
        return list(one)
    return list(getattr(one, "__dict__", {}).values())


def _parts_of_function(function: Any) -> list[Any]:
    parts = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            parts.append(cell.cell_contents)
        except ValueError:  # a variable that has no value yet
            continue
    if not is_in_package(scope_name(function.__globals__)):
        names = _names(function.__code__)
        parts += [function.__globals__[name] for name in names if name in function.__globals__]
    return parts


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
