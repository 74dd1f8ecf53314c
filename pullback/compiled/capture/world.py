"""What a function can see besides its arguments: the state that a captured program depends on.

A capture runs the function once; later calls run the program and not the function. So whatever the
function could have read (closures, named globals, attributes of objects and modules, defaults) must
be as it was. `World` walks it before the capture, notes every value, and tells later whether each
is still there. Found tensors stand on traced arrays during the capture; what the function changed
in plain Python state is put back, and is a reason not to compile.
"""

from __future__ import annotations

import enum
import zlib
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.home import home_of, is_in_package, scope_name
from pullback.core.tensor import Tensor
from pullback.operators.random.generator import Generator

__all__ = ["MISSING", "World", "contents"]

_PLAIN = (str, bytes, int, float, complex, type(None), dtype, device, numpy.dtype, numpy.generic,
          enum.Enum, range, slice, type(Ellipsis))  # fmt: skip
_MOST_BYTES = 1 << 20
_MOST = 50_000  # objects; a function that sees more is not compiled
_LIBRARY = ("numpy", "builtins", "math", "functools", "itertools", "collections", "abc",
            "typing", "operator", "contextlib", "dataclasses", "copy", "warnings", "scipy",
            "torch")  # fmt: skip


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


class World:
    """The values that a function can reach: where each stands, and the tensors among them."""

    def __init__(self, *roots: Any) -> None:
        self.places: list[tuple[dict[Any, Any], Any, Any]] = []  # dict, key, value
        self.cells: list[tuple[Any, Any]] = []  # closure cell, value
        self.lists: list[tuple[Any, tuple[Any, ...]]] = []  # list or set, its items
        self.sizes: list[tuple[dict[Any, Any], int]] = []  # dict, number of keys
        self.contents: list[tuple[Any, int]] = []  # NumPy array of the user's, what was in it
        self.tensors: dict[int, Tensor] = {}
        self.generators: dict[int, Generator] = {}
        self._seen: set[int] = set()
        self._stack: list[Any] = list(roots)
        self._names: set[str] = set()
        while self._stack:
            self._visit(self._stack.pop())
            if len(self._seen) > _MOST:
                raise CannotCapture(f"the function can reach more than {_MOST} objects")

    # Walking ----------------------------------------------------------------------------------

    def _visit(self, one: Any) -> None:
        if isinstance(one, _PLAIN) or id(one) in self._seen:
            return
        self._seen.add(id(one))
        if isinstance(one, Tensor):
            self.tensors[id(one)] = one
        elif isinstance(one, Generator):
            self.generators[id(one)] = one
        elif isinstance(one, FunctionType):
            self._visit_function(one)
        elif isinstance(one, MethodType):
            self._stack += (one.__self__, one.__func__)
        elif isinstance(one, partial):
            self._stack += (one.func, *one.args, *one.keywords.values())
        elif isinstance(one, dict):
            self._visit_dict(one, whole=True)
        elif isinstance(one, list | set):
            self.lists.append((one, tuple(one)))
            self._stack += one
        elif isinstance(one, tuple | frozenset):
            self._stack += one
        elif isinstance(one, ModuleType):
            self._visit_module(one)
        elif isinstance(one, type | BuiltinFunctionType | numpy.ndarray | CodeType):
            return
        else:
            self._visit_object(one)

    def _visit_function(self, function: Any) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._stack.append(wrapped)
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # a variable that has no value yet
                continue
            self.cells.append((cell, content))
            self._found(function, content)
        self._stack += function.__defaults__ or ()
        self._stack += (function.__kwdefaults__ or {}).values()
        if _is_library(scope_name(function.__globals__)):
            return
        names = _names(function.__code__)
        self._names |= names
        space = function.__globals__
        for name in names:
            if name in space:
                self.places.append((space, name, space[name]))
                self._found(function, space[name])

    def _found(self, function: Any, value: Any) -> None:
        """A value that a function names; of a NumPy array of the user's, the elements count too."""
        if not isinstance(value, numpy.ndarray) or _is_library(scope_name(function.__globals__)):
            self._stack.append(value)
            return
        if value.nbytes > _MOST_BYTES:
            raise CannotCapture(
                f"a NumPy array of {value.nbytes} bytes, too large to be watched for changes; make "
                "it a tensor outside of the function (torch.from_numpy shares its memory)"
            )
        if id(value) not in self._seen:
            self._seen.add(id(value))
            self.contents.append((value, contents(value)))

    def _visit_dict(self, one: dict[Any, Any], *, whole: bool) -> None:
        if whole:
            self.sizes.append((one, len(one)))
        for key, value in one.items():
            self.places.append((one, key, value))
            if not isinstance(value, _PLAIN):
                self._stack.append(value)

    def _visit_module(self, module: Any) -> None:
        """A module of the user's: the attributes that some function names."""
        if _is_library(module.__name__):
            return
        space = vars(module)
        for name in self._names & space.keys():
            self.places.append((space, name, space[name]))
            self._stack.append(space[name])

    def _visit_object(self, one: Any) -> None:
        compiled = vars(one).get("_torchdynamo_orig_callable") if hasattr(one, "__dict__") else None
        if compiled is not None:  # its programs are no state of the user's
            self._stack.append(compiled)
            return
        space = getattr(one, "__dict__", None)
        if isinstance(space, dict):
            self._visit_dict(space, whole=True)
        for cls in type(one).__mro__:
            if _is_library(home_of(cls)):
                continue
            for name in getattr(cls, "__slots__", ()):
                if hasattr(one, name):
                    self._stack.append(getattr(one, name))
            for name, value in vars(cls).items():
                if isinstance(value, _PLAIN) and not name.startswith("__"):
                    self.places.append((vars(cls), name, value))  # type: ignore[arg-type]  # to read
                self._stack.append(_code_of(value))

    # Asking ---------------------------------------------------------------------------------

    def change(self) -> str | None:
        """What is no longer as it was; None if all is."""
        for space, key, value in self.places:
            now = space.get(key, MISSING)
            if now is not value and not _same(now, value):
                return f"{key!r} was {_shown(value)} and is {_shown(now)}"
        for cell, value in self.cells:
            if cell.cell_contents is not value and not _same(cell.cell_contents, value):
                return f"a closure's variable was {_shown(value)}, is {_shown(cell.cell_contents)}"
        for one, items in self.lists:
            if len(one) != len(items) or not all(map(_is, one, items)):
                return f"a {type(one).__name__} has other items"
        for space, count in self.sizes:
            if len(space) != count:
                return f"a dict has {len(space)} keys and had {count}"
        for array, known in self.contents:
            if contents(array) != known:
                return f"a NumPy array of shape {array.shape} has other elements"
        return None

    def restore(self) -> None:
        """Put everything back as it was."""
        for space, key, value in self.places:
            if space.get(key, MISSING) is not value and isinstance(space, dict):
                space[key] = value
        for cell, value in self.cells:
            cell.cell_contents = value
        for one, items in self.lists:
            if len(one) != len(items) or not all(map(_is, one, items)):
                one.clear()
                one.extend(items) if isinstance(one, list) else one.update(items)
        known: dict[int, set[Any]] = {}
        for space, key, _ in self.places:
            known.setdefault(id(space), set()).add(key)
        for space, count in self.sizes:
            if len(space) != count:
                for key in space.keys() - known.get(id(space), set()):
                    del space[key]


def contents(array: Any) -> int:
    """A number that tells whether an array's elements are what they were."""
    if array.dtype.hasobject:
        raise CannotCapture("a NumPy array of Python objects")
    return zlib.crc32(numpy.ascontiguousarray(array).tobytes()) if array.size else 0


def _is(one: Any, other: Any) -> bool:
    return one is other or _same(one, other)


def _same(one: Any, other: Any) -> bool:
    """Equal plain values; of other objects only the same one will do."""
    if type(one) is not type(other):
        return False
    if isinstance(one, MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    if isinstance(one, float):
        return one == other or (one != one and other != other)
    return isinstance(one, _PLAIN) and bool(one == other)


def _code_of(value: Any) -> Any:
    """The function behind an attribute of a class."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    return value if isinstance(value, FunctionType) else None


def _is_library(name: str) -> bool:
    return is_in_package(name) or name.partition(".")[0] in _LIBRARY


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, _PLAIN) else f"another {type(value).__name__}"
    return text if len(text) < 60 else text[:57] + "..."
