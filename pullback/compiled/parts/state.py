"""The frames of a break as recipes: what the next part begins with.

A recipe says how a value is made of *leaves*, which are all that differs from call to call:
tensors, numbers, objects from outside, and objects that somebody else can reach by now. All else
(a list that the function filled, a closure, an iterator half way) is the function's own still, and
is made anew for each part.
"""

from __future__ import annotations

import copy
import functools
import gc
import types
from typing import Any, NamedTuple

import numpy

from pullback.autograd.grad_mode import _GradContext
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.results import KINDS, Apart, build
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.frames import NULL, Frame, Saved, Walk
from pullback.compiled.interpreter.late import is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.parts.points import LOOKING, Point, live_names
from pullback.core.mode import NO_GRAD, PLAIN
from pullback.core.tensor import Tensor

__all__ = ["Kept", "State", "Waiting", "frames_of"]

_MOST_DEEP = 30
_WALKED = frozenset({
    "list_iterator", "tuple_iterator", "range_iterator", "str_iterator", "str_ascii_iterator",
    "list_reverseiterator", "longrange_iterator",
})  # fmt: skip


_DICT_WALKS: dict[type, Any] = {
    type(iter({})): dict.keys,
    type(iter({}.values())): dict.values,
    type(iter({}.items())): dict.items,
}


class Kept(NamedTuple):
    """An object from outside, which each call finds where the capture found it."""

    value: Any
    source: Any


class Waiting(NamedTuple):
    """A frame as a recipe."""

    code: Any
    names: Any
    position: int
    kwnames: tuple[str, ...]
    stack: list[Any]
    variables: dict[str, Any]
    cells: dict[str, Any]


class Values(Apart):
    """Recipes of values that leave a part: those of results, and of what frames hold besides."""

    def __init__(self, inner: Any, numbers: list[Any]) -> None:
        super().__init__(inner, numbers)
        self.owned: dict[int, Any] = {}  # mutable objects of the function's own that were met
        self.kept: dict[int, Kept] = {}
        # What was written to a container is in it by then: whoever walks the copy walks it.
        self.copies = {id(copy): inner.before[key][0] for key, copy in inner.shadows.items()}

    def recipe(self, value: Any, depth: int) -> Any:
        """How a value is made at a later call."""
        if depth > _MOST_DEEP:
            raise CannotCapture("a value that contains itself, or is nested too deeply")
        if value is NULL:
            return ("plain", NULL)
        value = self.copies.get(id(value), value)
        if type(value) is Kept:
            return self.leaf(value, id(value.value))
        if isinstance(value, Tensor) or is_late(value) or is_plain(value):
            return super().recipe(value, depth)
        source = self.inner.source(value)
        if source is not None and id(value) not in self.inner.made:
            return self._outside(value, source)
        if isinstance(value, numpy.ndarray) and value.base is not None:
            raise CannotCapture("a NumPy array that is a part of another one")
        special = self._special(value, depth)
        if special is not None:
            return special
        if type(value) is not tuple:
            self.owned[id(value)] = value
        return super().recipe(value, depth)

    def _outside(self, value: Any, source: Any) -> Any:
        value = self.inner.originals.get(id(value), value)
        if isinstance(value, library.IDENTITY) or source.kind == "root":
            return ("plain", value)
        if id(value) not in self.kept:
            self.kept[id(value)] = Kept(value, source)
        return self.leaf(self.kept[id(value)], id(value))

    def leaf(self, value: Any, key: int) -> Any:
        """A value that is another one at each call."""
        if key not in self.numbers:
            self.numbers[key] = len(self.leaves)
            self.leaves.append(value)
        return ("leaf", self.numbers[key])

    def _special(self, value: Any, depth: int) -> Any:
        kind, deeper = type(value), depth + 1
        if kind is Saved:
            both = [self.recipe(one, deeper) for one in value]
            return ("saved", *both, id(value))
        if isinstance(value, _GradContext):
            before = value._before and value._before.grad
            return ("mode", kind, value.mode, before, id(value))
        if kind is types.MethodType:
            parts = [self.recipe(one, deeper) for one in (value.__func__, value.__self__)]
            return ("method", *parts, id(value))
        if kind is types.BuiltinFunctionType and id(value) in self.inner.made:
            owner = value.__self__
            if isinstance(owner, types.ModuleType | type(None)):
                return ("plain", value)
            return ("bound", self.recipe(owner, deeper), value.__name__, id(value))
        if kind is types.MethodWrapperType:
            return ("bound", self.recipe(value.__self__, deeper), value.__name__, id(value))
        if kind is types.CellType and id(value) not in self.inner.made:
            return ("plain", value)  # a variable of whoever made the function
        if kind is types.CellType:
            self.owned[id(value)] = value
            try:
                held = self.recipe(value.cell_contents, deeper)
            except ValueError:
                held = None
            return ("cell", held, id(value))
        if kind is types.FunctionType and id(value) in self.inner.made:
            return self._function(value, deeper)
        if kind.__name__ in _WALKED and id(value) in self.inner.made:
            return self._iterator(value, deeper)
        if kind in _DICT_WALKS and id(value) in self.inner.made:
            return self._dict_iterator(value, deeper)
        if isinstance(value, Walk):
            return self._walk(value)
        if isinstance(value, library.IDENTITY) and id(value) not in self.inner.made:
            return ("plain", value)
        return None

    def _function(self, value: Any, depth: int) -> Any:
        if getattr(value, "_is_interpreted", False):
            raise CannotCapture("a function that was handed to native code")
        self.owned[id(value)] = value
        closure = [self.recipe(one, depth) for one in value.__closure__ or ()]
        state = {
            name: self.recipe(getattr(value, name), depth)
            for name in ("__defaults__", "__kwdefaults__")
            if getattr(value, name) is not None
        }
        more = {name: self.recipe(one, depth) for name, one in vars(value).items()}
        named = (value.__name__, value.__qualname__)
        made = (value.__code__, value.__globals__, named)
        return ("function", *made, closure, state, more, id(value))

    def _iterator(self, value: Any, depth: int) -> Any:
        self.owned[id(value)] = value
        made = value.__reduce__()
        start = made[2] if len(made) > 2 else None
        return ("iterator", made[0], self.recipe(made[1][0], depth), start, id(value))

    def _dict_iterator(self, value: Any, depth: int) -> Any:
        """The dict itself, and how many of its items were walked: what is written to it counts."""
        walked = next((one for one in gc.get_referents(value) if type(one) is dict), None)
        if walked is None:  # it is at its end
            return ("iterator", iter, ("plain", ()), None, id(value))
        try:
            left = len(list(copy.copy(value)))
        except RuntimeError as error:  # as its next step would say
            raise CannotCapture("a dictionary that grew or shrank while it is walked") from error
        self.owned[id(value)] = value
        make = functools.partial(_dict_walk, _DICT_WALKS[type(value)], len(walked) - left)
        return ("iterator", make, self.recipe(walked, depth), None, id(value))

    def _walk(self, value: Walk) -> Any:
        self.owned[id(value)] = value
        frame = value.frame
        if frame is None:
            return ("walk", None, value.started, id(value))
        if value.waits_inside_a_block():
            raise CannotCapture("a generator that waits inside a try or with block")
        point = Point(frame, frame.position, frame.stack, frame.kwnames)
        return ("walk", self.frame(point), value.started, id(value))

    def frame(self, point: Point, *, called: bool = True) -> Waiting:
        """A frame that waits: behind a call, or before the instruction that Python does."""
        frame = point.frame
        live = live_names(frame.program, frame.handlers, point.position, called=called)
        if LOOKING & set(frame.code.co_names):  # at all of them, by locals() or eval()
            live = {*frame.variables, *frame.cells}
        if "__class__" in frame.code.co_freevars:  # what super() looks for, without a name
            live = live | {"__class__", *frame.code.co_varnames[:1]}
        values = [self._part(one) for one in point.stack]
        variables = {n: self.recipe(v, 0) for n, v in frame.variables.items() if n in live}
        cells = {n: self.recipe(v, 0) for n, v in frame.cells.items() if n in live}
        return Waiting(frame.code, frame.names, point.position, point.kwnames, values, variables,
                       cells)  # fmt: skip

    def _part(self, value: Any) -> Any:
        if type(value).__name__ == "_Handled":
            raise CannotCapture("a break in the handler of an exception")
        return self.recipe(value, 0)


class State(Values):
    """Recipes of frames: of leaves that the part before gives."""

    def __init__(self, inner: Any, escaped: dict[int, Any]) -> None:
        """`escaped`: objects that somebody else can reach when the next part begins."""
        super().__init__(inner, [])
        self.escaped = escaped

    def _attributes(self, value: Tensor) -> dict[str, Any]:
        """None: a leaf of the part before has them already."""
        return {}

    def recipe(self, value: Any, depth: int) -> Any:
        """How a value is made when the part begins."""
        if id(value) in self.escaped:
            return self.leaf(value, id(value))
        return super().recipe(value, depth)


def frames_of(
    waiting: list[Waiting], leaves: list[Any], interpreter: Any
) -> tuple[list[Frame], dict[int, Any]]:
    """The frames, made of these leaves; and all objects that were made for them."""
    made: dict[int, Any] = {}
    frames = [_framed(one, leaves, made, interpreter) for one in waiting]
    return frames, made


def _framed(one: Waiting, leaves: list[Any], made: dict[int, Any], interpreter: Any) -> Frame:
    def built(recipe: Any) -> Any:
        return build(recipe, leaves, made, interpreter)

    frame = Frame(None, one.code, {}, {}, one.names)
    frame.variables.update({name: built(recipe) for name, recipe in one.variables.items()})
    frame.cells.update({name: built(recipe) for name, recipe in one.cells.items()})
    frame.stack = [built(recipe) for recipe in one.stack]
    frame.position, frame.kwnames = one.position, one.kwnames
    return frame


def _walk(recipe: Any, leaves: list[Any], made: dict[int, Any], by: Any) -> Walk:
    _, waiting, started, _ = recipe
    frame = None if waiting is None else _framed(waiting, leaves, made, by)
    walk = Walk(by, frame)  # type: ignore[arg-type]  # None: it has ended
    walk.started = started
    if by is not None:
        by.walks.append(walk)
    return walk


def _function(recipe: Any, leaves: list[Any], made: dict[int, Any], by: Any) -> Any:
    _, code, names, called, closure, state, more, _ = recipe
    cells = tuple([build(one, leaves, made, by) for one in closure])
    function = types.FunctionType(code, names, called[0], None, cells or None)
    function.__qualname__ = called[1]
    for name, one in state.items():
        setattr(function, name, build(one, leaves, made, by))
    for name, one in more.items():
        function.__dict__[name] = build(one, leaves, made, by)
    return function


def _dict_walk(view: Any, count: int, walked: Any) -> Any:
    """An iterator over a dict, behind so many of its items."""
    walk = iter(view(walked))
    for _ in range(count):
        next(walk)
    return walk


def _iterator(recipe: Any, leaves: list[Any], made: dict[int, Any], by: Any) -> Any:
    _, make, items, start, _ = recipe
    walked = build(items, leaves, made, by)
    if by is not None and not by.is_eager:
        walked = by.inside(walked)  # each item of a container from outside is read
    walk = make(walked)
    if start is not None:
        walk.__setstate__(start)
    return walk


def _mode(recipe: Any, leaves: list[Any], made: dict[int, Any], by: Any) -> Any:
    """A block that changes grad mode, entered."""
    _, kind, mode, before, _ = recipe
    context = object.__new__(kind)
    context.mode = mode
    if before is not None:
        context._before = PLAIN if before else NO_GRAD
    if by is not None:
        by.native[id(context)] = context
    return context


def _cell(recipe: Any, leaves: list[Any], made: dict[int, Any], by: Any) -> Any:
    held = recipe[1]
    return types.CellType() if held is None else types.CellType(build(held, leaves, made, by))


KINDS.update({
    "walk": _walk, "mode": _mode, "function": _function, "iterator": _iterator, "cell": _cell,
    "saved": lambda one, leaves, made, by: Saved(*[build(r, leaves, made, by) for r in one[1:3]]),
    "method": lambda one, leaves, made, by: types.MethodType(
        *[build(r, leaves, made, by) for r in one[1:3]]
    ),
    "bound": lambda one, leaves, made, by: getattr(build(one[1], leaves, made, by), one[2]),
})  # fmt: skip
