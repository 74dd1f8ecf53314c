"""A captured program in words, so that its machine code is found again by another process.

The words say all that lowering, planning and writing look at: steps with their arguments, geometry
of values, contents of constants, what may be overwritten; and of the surroundings the processor,
versions, and which sources of ours do it. A program with anything that has no words here (an
operator of the user's, an argument of an unknown kind) is not kept.

Guards and capture are no part of it: each process captures anew, and what it captured is the key.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy

from pullback import __version__
from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.llvm.kept import Kept
from pullback.compiled.llvm.machine import machine
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (a class of torch's name)
from pullback.core.home import is_ours
from pullback.core.layout import layout, memory_format

__all__ = ["kept_program"]

_MOST_BYTES = 1 << 24  # of constants: to read more takes longer than to make the program
_SOURCES = ("compiled", "core", "operators")  # folders of what turns captured calls into code


class _Wordless(Exception):  # noqa: N818 (no error: the program is not kept)
    """Something that has no words here."""


def kept_program(
    calls: list[Call],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: dict[int, Any],
    about: tuple[Any, ...],
    ahead: frozenset[int] | None,
) -> Kept | None:
    """Where a program is kept; None where it cannot be. `about`: threads and wishes."""
    sources = _sources()
    if sources is None:
        return None
    try:
        words = _Words(inputs)
        said = [words.value(one) for one in inputs]
        said += [f"{words.numbers[number]} is {words.array(array)}"
                 for number, array in constants.items() if number in words.numbers]  # fmt: skip
        said += [words.call(call) for call in calls]
        said.append(f"gives {[words.numbers[one.number] for one in outputs]} {words.tree(about)}")
        if ahead is not None:
            said.append(f"ahead {sorted(words.numbers[one] for one in ahead & set(words.numbers))}")
    except (_Wordless, KeyError):
        return None
    # Of settings of the environment that the code depends on there is but one.
    here = (machine().key, str(machine().vector_bytes), str(machine().unroll), __version__,
            numpy.__version__, sys.version, _blas(), sources)  # fmt: skip
    return Kept("\n".join(["program", *here, *said]))


class _Words:
    """Values get numbers in the order in which they come: those of a capture are another's."""

    def __init__(self, inputs: Sequence[Value]) -> None:
        self.numbers: dict[int, int] = {}
        self.read = 0
        for one in inputs:
            self._enter(one)

    def _enter(self, one: Value) -> None:
        self.numbers.setdefault(one.number, len(self.numbers))

    def value(self, one: Value) -> str:
        """A value's geometry."""
        sizes = (*one.shape, *one.strides)
        if any(type(n) is not int for n in sizes) or type(one.shift) not in (int, type(None)):
            raise _Wordless
        about = f"{one.dtype.str} {one.dtype.name} {one.shape} {one.strides} {one.shift}"
        return f"{self.numbers[one.number]}: {about}"

    def array(self, one: Any) -> str:
        """An array's contents."""
        if type(one) is not numpy.ndarray or one.dtype.hasobject:
            raise _Wordless
        self.read += one.nbytes
        if self.read > _MOST_BYTES:
            raise _Wordless
        return f"{one.dtype.str} {one.dtype.name} {one.shape} {one.strides} {one.tobytes().hex()}"

    def call(self, call: Call) -> str:
        """A step."""
        # What draws random numbers stays a kernel, whose options are in the call itself.
        given = call.inputs if call.random else (call.args, call.kwargs)
        read = self.tree(given)
        for one in call.results:
            self._enter(one)
        made = [self.value(one) for one in call.results]
        return f"{_kind(call)} {call.name!r} {call.single} {call.random} {read} -> {made}"

    def tree(self, one: Any) -> str:
        """An argument, by its type: 1, 1.0 and True are three."""
        kind = type(one)
        if kind is Value:
            return f"%{self.numbers[one.number]}"
        if one is None or one is Ellipsis or kind in (bool, int, str):
            return f"{one!r}"
        if kind is float:
            return f"f{struct.pack('<d', one).hex()}"
        if kind is complex:
            return f"c{struct.pack('<dd', one.real, one.imag).hex()}"
        if kind is tuple or kind is list:
            inner = ", ".join([self.tree(part) for part in one])
            return f"({inner})" if kind is tuple else f"[{inner}]"
        if isinstance(one, tuple) and is_ours(kind):
            return f"{kind.__qualname__}{self.tree(tuple(one))}"
        if kind is dict:
            pairs = [f"{self.tree(name)}: {self.tree(part)}" for name, part in one.items()]
            return f"{{{', '.join(pairs)}}}"
        if kind is slice:
            return f"slice{self.tree((one.start, one.stop, one.step))}"
        if one is numpy:  # what kernels are told to compute with
            return "numpy"
        if isinstance(one, numpy.dtype):
            return f"dtype {one.str} {one.name}"
        if kind in (Dtype, layout, memory_format):
            return f"{kind.__name__} {one}"
        if isinstance(one, numpy.generic) and not one.dtype.hasobject:
            return f"number {self.array(numpy.asarray(one))}"
        if isinstance(one, type) and issubclass(one, numpy.generic | bool | int | float):
            return f"type {one.__module__} {one.__qualname__}"
        return f"array {self.array(one)}"


def _kind(call: Call) -> str:
    """What a step does: an operator of ours, a function of NumPy's, or a helper by its name."""
    op = call.op
    if op is None:
        if isinstance(call.kernel, numpy.ufunc):
            return f"ufunc {call.kernel.__name__}"
        return "step"  # of which lowering knows the name alone; others stay kernels
    if not is_ours(op.meaning, "operators") or not is_ours(op.forward, "operators"):
        raise _Wordless
    return f"operator {op.space!r} {op.name!r} {op.kind}"


@cache
def _blas() -> str:
    return " ".join(f"{one.whole} {one.name}" for one in map(machine().blas, ("f4", "f8")))


@cache
def _sources() -> str | None:
    """Which sources these are, by when they were written; None where they are no files.

    Versions are not enough: a source is changed without one, and a build installed over another.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    said = []
    folders = [os.path.join(root, name) for name in _SOURCES]
    try:
        while folders:
            with os.scandir(folders.pop()) as found:
                for one in found:
                    if one.name.endswith(".py"):
                        file = one.stat()
                        said.append(f"{one.path} {file.st_size} {file.st_mtime_ns}")
                    elif one.name != "__pycache__" and one.is_dir():
                        folders.append(one.path)
    except OSError:
        return None
    return "\n".join(sorted(said))
