"""Results of a captured function: leaves, and how each call puts them together anew.

Lists, tuples, dicts and whatever else is a node of trees are put together as trees are. Of other
objects made by the function (a dataclass, a plain object, a subclass of a container) a call makes a
new one with the same state. An object from outside is returned as it is. What is none of these ends
the capture.
"""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.frames import Walk
from pullback.compiled.interpreter.late import is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.outside import is_container, made_in_python
from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import LeafSpec, TreeSpec, node_of, tree_flatten

__all__ = ["KINDS", "Apart", "Built", "build", "taken_apart"]

_MOST_DEEP = 30
_NOTES = frozenset({"_cut", "_scope"})  # what the library notes on tensors for itself
# Classes of C all of whose state is items, or an object's `__dict__` and slots.
_STATELESS = (object, dict, list, set, tuple, bytearray, types.SimpleNamespace,
              collections.OrderedDict, collections.defaultdict)  # fmt: skip


def taken_apart(
    inner: Any, result: Any, more: Any = None, numbers: Any = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a result, and what puts it together of leaves.

    `more`: values that are written somewhere, put together beside it as a pair. `numbers`: takes
    those that are inputs of the program, or made of them.
    """
    apart = Apart(inner, numbers)
    if more is None and apart.is_tree(result):
        return tree_flatten(result)
    if more is not None:
        result = inner.new((result, inner.new(list(more))))
    recipe = apart.recipe(result, 0)
    return apart.leaves, Built(recipe, len(apart.leaves))


def _is_open(kind: type) -> bool:
    """Whether a class adds no state but attributes, slots and items, which can be copied."""
    if kind in _STATELESS or kind.__basicsize__ == getattr(kind.__base__, "__basicsize__", 0):
        return True
    return not vars(kind).keys().isdisjoint(("__dict__", "__weakref__", "__slots__"))


class Built(TreeSpec):
    """Puts a result together that is no tree, or that has objects in it."""

    def __init__(self, recipe: Any, count: int) -> None:
        super().__init__(None, None, [LeafSpec() for _ in range(count)])
        self.recipe = recipe

    def unflatten(self, leaves: Any) -> Any:
        """The result of these leaves."""
        return build(self.recipe, list(leaves), {})

    def is_leaf(self) -> bool:
        """Never."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Built) and repr(self.recipe) == repr(other.recipe)

    __hash__ = TreeSpec.__hash__

    def __repr__(self) -> str:
        return f"<{self.num_leaves} leaves of {self.recipe[0]}>"


class Apart:
    """Takes one result apart."""

    def __init__(self, inner: Any, numbers: Any) -> None:
        self.inner, self.late = inner, numbers
        self.leaves: list[Any] = []
        self.numbers: dict[int, int] = {}  # of tensors
        self.seen: dict[int, Any] = {}
        self._open: set[int] = set()  # tensors whose attributes are being taken apart

    def _attributes(self, value: Tensor) -> dict[str, Any]:
        """What the function wrote to a tensor of its own."""
        if (
            id(value) in self.inner.originals or id(value) in self.inner.stands
        ):  # of one from outside: a write like any other
            return {}
        found = getattr(value, "__dict__", None)
        if not found:
            return {}
        kind = type(value)
        return {
            name: one
            for name, one in found.items()
            if not (name.startswith("_") and (name in _NOTES or hasattr(kind, name)))
        }

    def is_tree(self, value: Any, depth: int = 0) -> bool:
        """Whether trees can put it together, with nothing in it twice."""
        if isinstance(value, Tensor):
            is_first = id(value) not in self.seen
            self.seen[id(value)] = value
            return is_first and not self._attributes(value)
        if is_late(value):
            return False
        if is_plain(value):
            return True
        if isinstance(value, type | dtype | device) and not depth:
            return True
        node = node_of(value)
        if node is None or depth > _MOST_DEEP or self.inner.source(value) is not None:
            return False
        if not (type(value) in (tuple,) or id(value) not in self.seen) and not is_plain(value):
            return False
        self.seen[id(value)] = value
        if not is_container(value) and not isinstance(value, tuple):
            return all(self.is_tree(one, depth + 1) for one in node.flatten_fn(value)[0])
        items = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict) and not all(map(is_plain, value)):
            return False
        return all(self.is_tree(one, depth + 1) for one in items)

    def recipe(self, value: Any, depth: int) -> Any:
        """How a value is made at a later call."""
        if depth > _MOST_DEEP:
            raise CannotCapture("a result that contains itself, or is nested too deeply")
        if isinstance(value, Tensor):
            if id(value) not in self.numbers:
                self.numbers[id(value)] = len(self.leaves)
                self.leaves.append(value)
            attributes = self._attributes(value)
            if not attributes:
                return ("leaf", self.numbers[id(value)])
            if id(value) in self._open:
                raise CannotCapture("a tensor that is reached from its own attributes")
            self._open.add(id(value))
            state = {name: self.recipe(one, depth + 1) for name, one in attributes.items()}
            self._open.discard(id(value))
            return ("tagged", self.numbers[id(value)], state, id(value))
        if is_late(value):
            self.late.append(value)
            self.leaves.append(value)
            return ("leaf", len(self.leaves) - 1)
        if is_plain(value) or (
            isinstance(value, library.IDENTITY) and id(value) not in self.inner.made
        ):
            return ("plain", value)
        source = self.inner.source(value)
        if source is not None:
            return self._from_outside(value, source)
        kind = type(value)
        if kind in (list, tuple, set, frozenset, collections.deque):
            make: Any = kind
            if kind is collections.deque:
                make = functools.partial(kind, maxlen=value.maxlen)
            return ("items", make, [self.recipe(one, depth + 1) for one in value], id(value))
        if isinstance(value, numpy.ndarray) and kind is numpy.ndarray:
            return ("copy", value.copy(), id(value))
        self._check_kind(value)
        factory = value.default_factory if isinstance(value, collections.defaultdict) else None
        items, state = self._items(value, depth), self._state(value, depth)
        return ("object", kind, items, state, id(value), factory)

    def _from_outside(self, value: Any, source: Any) -> Any:
        value = self.inner.originals.get(id(value), value)
        if id(value) in self.inner.free:
            raise CannotCapture("an argument that is a container is returned, or kept")
        self.inner.guards.add("is", source, value)
        return ("plain", value)

    def _check_kind(self, value: Any) -> None:
        kind = type(value)
        functions = (types.FunctionType, types.MethodType, Walk, BaseException)
        usual = kind in (dict, bytearray, types.SimpleNamespace) or made_in_python(kind)
        usual = usual or kind in (
            collections.OrderedDict,
            collections.defaultdict,
            collections.Counter,
        )
        usual = usual and all(map(_is_open, kind.__mro__))
        if isinstance(value, functions) or not usual or id(value) not in self.inner.made:
            raise CannotCapture(f"a result of class {kind.__name__}, which cannot be made anew")
        if library.is_own(kind) and library.native_class(kind) and not isinstance(value, tuple):
            raise CannotCapture(f"a result of class {kind.__name__}, which cannot be made anew")

    def _items(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            return [(self.recipe(key, depth + 1), self.recipe(one, depth + 1))
                    for key, one in value.items()]  # fmt: skip
        if isinstance(value, list | tuple | set | bytearray):
            return [self.recipe(one, depth + 1) for one in value]
        return None

    def _state(self, value: Any, depth: int) -> dict[str, Any]:
        state = dict(getattr(value, "__dict__", {}))
        for base in type(value).__mro__:
            for name, found in vars(base).items():
                if name.startswith("__"):  # `__dict__` of a namespace
                    continue
                if isinstance(found, types.MemberDescriptorType) and hasattr(value, name):
                    state[name] = getattr(value, name)
        return {name: self.recipe(one, depth + 1) for name, one in state.items()}


# Recipes that only frames need (parts/state.py), by their first word.
KINDS: dict[str, Any] = {}


def build(recipe: Any, leaves: list[Any], made: dict[int, Any], by: Any = None) -> Any:
    """The value of a recipe; `by` is the interpreter that will run what needs one."""
    what = recipe[0]
    if what == "leaf":
        return leaves[recipe[1]]
    if what == "plain":
        return recipe[1] if by is None else by.again(recipe[1])
    if recipe[-1 if what != "object" else 4] in made:
        return made[recipe[-1 if what != "object" else 4]]
    if what == "tagged":
        tensor = leaves[recipe[1]]
        # Whoever looks at the form alone puts numbers in place of leaves.
        for name, part in recipe[2].items() if isinstance(tensor, Tensor) else ():
            object.__setattr__(tensor, name, build(part, leaves, made, by))
        return made.setdefault(recipe[3], tensor)
    if what == "copy":
        return made.setdefault(recipe[2], recipe[1].copy())
    if what == "items":
        built = recipe[1](build(one, leaves, made, by) for one in recipe[2])
        return made.setdefault(recipe[3], built)
    if what in KINDS:
        return made.setdefault(recipe[-1], KINDS[what](recipe, leaves, made, by))
    return _build_object(recipe, leaves, made, by)


def _build_object(recipe: Any, leaves: list[Any], made: dict[int, Any], by: Any = None) -> Any:
    _, kind, items, state, key, factory = recipe
    if issubclass(kind, tuple):
        one = tuple.__new__(kind, [build(part, leaves, made, by) for part in items])
    elif factory is not None:
        one = kind(factory)
    elif kind in (bytearray, types.SimpleNamespace):
        one = kind()
    else:
        one = kind.__new__(kind)
    made[key] = one
    if isinstance(one, dict):
        ordered = isinstance(one, collections.OrderedDict)
        put: Any = collections.OrderedDict.__setitem__ if ordered else dict.__setitem__
        for name, part in items:
            put(one, build(name, leaves, made, by), build(part, leaves, made, by))
    elif items is not None and not isinstance(one, tuple):
        add = set.add if isinstance(one, set) else type(one).append
        for part in items:
            add(one, build(part, leaves, made, by))
    for name, part in state.items():
        object.__setattr__(one, name, build(part, leaves, made, by))
    return one
