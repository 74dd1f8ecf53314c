"""What a capture writes down: values, and the calls that make them, in order.

A captured program is functional. A write became a new value, a view is a value like any other, and
no call changes what another can see. `Call.run` is the eager kernel itself, so a program run call
by call gives what eager gives, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy

from pullback.compiled.ir.symbols import sample
from pullback.core.arrays import as_array
from pullback.core.origin import Origin
from pullback.operators.declare import Op

__all__ = ["Call", "Value", "flat", "live", "prepared", "replaced", "say_where", "values_in"]


_NESTED = frozenset({tuple, list, dict})


class Value:
    """One array of the program: its shape, dtype and strides, and the call that makes it."""

    __slots__ = ("call", "dtype", "number", "place", "shape", "shift", "strides")

    def __init__(
        self, number: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...], call: Any
    ) -> None:
        self.number, self.shape, self.dtype, self.strides = number, shape, dtype, strides
        self.call: Call | None = call  # None: it comes from outside
        # Of a view: where it begins in the memory of the call's first input, in elements.
        self.shift: int | None = None
        # The device of tensors from outside and of what is made of them; None: where they are.
        self.place: Any = None

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return int(math.prod([sample(n) for n in self.shape])) * int(self.dtype.itemsize)

    def __repr__(self) -> str:
        return f"%{self.number}: {self.dtype.name}{list(self.shape)}"


class Call:
    """One step: a kernel, its arguments (values among them), and the values that it makes."""

    __slots__ = (
        *("_inputs", "args", "kernel", "kwargs", "name", "op", "origin", "random", "results"),
        "single",
    )

    def __init__(
        self,
        name: str,
        kernel: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        op: Op | None = None,
    ) -> None:
        self.name, self.kernel, self.args, self.kwargs, self.op = name, kernel, args, kwargs, op
        self.results: tuple[Value, ...] = ()
        self.single = True
        self.random = False
        self.origin: Origin | None = None
        self._inputs: list[Value] | None = None  # found when first asked for

    @property
    def inputs(self) -> list[Value]:
        """The values that it reads, in the order of its arguments."""
        if self._inputs is None:
            found: list[Value] = []
            for one in (*self.args, *self.kwargs.values()):
                if one.__class__ is Value:
                    found.append(one)
                elif one.__class__ in _NESTED:
                    found += values_in(one)
            self._inputs = found
        return self._inputs

    def run(self, arrays: dict[int, Any]) -> list[Any]:
        """The arrays that it makes of those in `arrays`, by number of their values."""
        args = replaced(self.args, arrays)
        kwargs = replaced(self.kwargs, arrays)
        made = self.kernel(*args, **kwargs)
        return [as_array(made)] if self.single else [as_array(one) for one in made]

    def __repr__(self) -> str:
        made = ", ".join(f"%{one.number}" for one in self.results)
        read = ", ".join(f"%{one.number}" for one in self.inputs)
        return f"{made} = {self.name}({read})"


def say_where(error: Exception, call: Call) -> None:
    """Note on an error which call of a compiled program raised it, and where that was captured."""
    place = f" at {call.origin}" if call.origin is not None else ""
    error.add_note(f"in {call.name}{place}, run by a compiled program")


def values_in(tree: Any) -> Iterator[Value]:
    """Every value among arguments, however nested."""
    kind = tree.__class__
    if kind is Value:
        yield tree
    elif kind is tuple or kind is list:
        for one in tree:
            yield from values_in(one)
    elif kind is dict:
        for one in tree.values():
            yield from values_in(one)


def replaced(tree: Any, arrays: dict[int, Any]) -> Any:
    """Arguments with an array in place of each value."""
    kind = tree.__class__
    if kind is Value:
        return arrays[tree.number]
    if kind is dict:
        return {name: replaced(one, arrays) for name, one in tree.items()}
    if kind is tuple:
        return tuple([replaced(one, arrays) for one in tree])
    if kind is list:
        return [replaced(one, arrays) for one in tree]
    return tree


@cache
def _form(text: str) -> Any:
    """What makes a function of arrays of a kernel and of what its arguments hold beside them."""
    return eval(text)


def prepared(call: Call, numbers: list[int]) -> Callable[[list[Any]], list[Any]]:
    """A call as a function of its arrays, in the order of these numbers of values."""
    places = {number: place for place, number in enumerate(numbers)}
    kept: list[Any] = []

    def written(tree: Any) -> str:
        kind = tree.__class__
        if kind is Value:
            return f"arrays[{places[tree.number]}]"
        if kind in _NESTED and any(True for _ in values_in(tree)):
            if kind is dict:
                return f"{{{', '.join(f'{name!r}: {written(one)}' for name, one in tree.items())}}}"
            inner = "".join(f"{written(one)}, " for one in tree)
            return f"({inner})" if kind is tuple else f"[{inner}]"
        kept.append(tree)
        return f"kept[{len(kept) - 1}]"

    given = [written(one) for one in call.args]
    given += [f"{name}={written(one)}" for name, one in call.kwargs.items()]
    run = _form(f"lambda kernel, kept: lambda arrays: kernel({', '.join(given)})")(
        call.kernel, kept
    )
    if call.single:
        return lambda arrays: [
            made if (made := run(arrays)).__class__ is numpy.ndarray else as_array(made)
        ]
    return lambda arrays: [as_array(one) for one in run(arrays)]


def flat(values: Iterable[Any]) -> list[Value]:
    """Those that are values, each once."""
    return list({one.number: one for one in values if one.__class__ is Value}.values())


def live(calls: list[Call], wanted: Iterable[Value]) -> list[Call]:
    """The calls that `wanted` depends on, and those that draw random numbers."""
    needed = {one.number for one in wanted}
    kept = []
    for call in reversed(calls):  # generators would be a frame for each call
        if not call.random:
            for made in call.results:
                if made.number in needed:
                    break
            else:
                continue
        kept.append(call)
        for read in call.inputs:
            needed.add(read.number)
    kept.reverse()
    return kept
