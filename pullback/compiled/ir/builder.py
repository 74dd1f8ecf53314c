"""Builds values: equal ones once, simple ones simplified, views as strides on their base."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.ir.symbols import NotSymbolic, Symbol, Symbolic
from pullback.compiled.ir.values import BYTES, Val, broadcast, contiguous, view_strides

__all__ = ["Builder"]

_PADS = ("pad", "padsum", "padjoin", "padplace")
_BOOLEAN = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "not"})
_COMMUTE = frozenset({"add", "mul", "maximum", "minimum", "and", "or", "xor"})
_FOLDED: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
}
_LARGEST = {"f4": 1e30, "f8": 1e300}  # products of constants stay well inside their type


class Builder:
    """A program under construction."""

    def __init__(self) -> None:
        self.values: list[Val] = []
        self.inputs: list[Val] = []
        self.known: dict[Any, Val] = {}
        self.origin: Any = None
        self.calls: list[Any] = []  # eager kernels between native parts

    def make(
        self,
        op: str,
        ins: Sequence[Val],
        attr: Any,
        shape: Sequence[int],
        dtype: str,
        *,
        base: Val | None = None,
        off: int = 0,
        strides: tuple[int, ...] | None = None,
        unique: bool = False,
    ) -> Val:
        """A value, or the one that is equal to it."""
        shape = tuple(shape)
        key = (op, tuple([one.id for one in ins]), attr, shape, dtype, off, strides)
        if not unique and (known := self.known.get(key)) is not None:
            return known
        made = Val()
        made.id, made.op, made.ins, made.attr = len(self.values), op, tuple(ins), attr
        made.shape, made.dtype, made.origin = shape, dtype, self.origin
        made.base, made.off = base or made, off
        made.strides = strides if strides is not None else contiguous(shape)
        self.values.append(made)
        if not unique:
            self.known[key] = made
        return made

    # Where numbers come from ------------------------------------------------------------------

    def input(self, shape: Sequence[int], dtype: str, strides: tuple[int, ...]) -> Val:
        """An array that the caller gives."""
        made = self.make("input", (), len(self.inputs), shape, dtype, strides=strides, unique=True)
        self.inputs.append(made)
        return made

    def const(self, value: Any, dtype: str, shape: tuple[int, ...] = ()) -> Val:
        """One number, for all elements."""
        if isinstance(value, Symbolic):
            if dtype[0] != "f" and not isinstance(value, Symbol):
                raise NotSymbolic(f"{value.text}, which varies, is rounded to a whole number")
            made = self.make("const", (), (value, 1.0), (), dtype)
            return self.expand(made, shape) if shape else made
        number = float(value) if dtype[0] == "f" else _wrapped(int(value), dtype)
        if dtype == "f4":
            with numpy.errstate(over="ignore"):
                number = float(numpy.float32(number))
        key = (number if number == number else "nan", math.copysign(1, number))
        made = self.make("const", (), key, (), dtype)
        return self.expand(made, shape) if shape else made

    def iota(self, n: int) -> Val:
        """0, 1, 2 ... along the last dimension."""
        return self.make("iota", (), n, (n,), "i8")

    def call(self, kernel: Any, ins: Sequence[Val], results: list[Any]) -> list[Val]:
        """An eager kernel; `results` are (shape, dtype, strides in elements)."""
        token = self.make("call", ins, len(self.calls), (), "b1", unique=True)
        self.calls.append(kernel)
        return [
            self.make("result", (token,), number, shape, dtype, strides=strides, unique=True)
            for number, (shape, dtype, strides) in enumerate(results)
        ]

    # Elementwise ------------------------------------------------------------------------------

    def ew(self, op: str, *ins: Val, attr: Any = None, dtype: str | None = None) -> Val:
        """An elementwise word on values that broadcast."""
        if op == "add" and ins[0].op in _PADS and ins[1].op in _PADS:
            a, b = ins
            if a.shape == b.shape and _flat_pads(a) and _flat_pads(b):
                return self.make("padjoin", (a, b), None, a.shape, a.dtype)
        full = ins[0].shape
        for one in ins[1:]:
            if one.shape != full:
                full = broadcast(*[each.shape for each in ins])
                break
        ins = tuple([self.strip(one) for one in ins])
        if dtype is None:
            dtype = "b1" if op in _BOOLEAN else ins[-1].dtype
        made = self.simplified(op, ins, dtype)
        if made is None:
            if all(one.size == 1 for one in ins):
                shape: tuple[int, ...] = ()  # a single number, however many dimensions it shows
            elif len(ins) == 1:
                shape = ins[0].shape
            else:
                wide = [one.shape for one in ins if one.size > 1]
                shape = broadcast(*wide)
                if len(shape) > len(full):
                    shape = shape[len(shape) - len(full) :]
            if op in _COMMUTE and ins[0].id > ins[1].id:
                ins = (ins[1], ins[0])
            made = self.make(op, ins, attr, shape, dtype)
        return made if made.shape == full else self.expand(made, full)

    def simplified(self, op: str, ins: tuple[Val, ...], dtype: str) -> Val | None:
        """The same value by less work, or None."""
        numbers = [number_of(one) for one in ins]
        floating = dtype[0] == "f"
        if op == "cast":
            if ins[0].dtype == dtype:
                return ins[0]
            if numbers[0] is not None and floating:
                return self.const(numbers[0], dtype)
            return None
        if op in _FOLDED and None not in numbers and floating:
            return self.const(_FOLDED[op](*numbers), dtype)
        if op == "mul" and floating:
            return self._product(ins, numbers, dtype)
        if op == "div" and floating and (divisor := numbers[1]) is not None:
            if divisor == 1:
                return ins[0]
            if isinstance(divisor, Symbolic):
                return None
            if math.frexp(divisor)[0] == 0.5 and 1e-30 < abs(divisor) < 1e30:  # exact
                return self.ew("mul", ins[0], self.const(1.0 / divisor, dtype))
        if op in ("add", "sub") and floating and numbers[1] == 0 and op == "sub":
            return ins[0]
        if op == "neg" and ins[0].op == "neg":
            return ins[0].ins[0]
        return None

    def _product(self, ins: Any, numbers: list[Any], dtype: str) -> Val | None:
        for a, b in ((0, 1), (1, 0)):
            factor = numbers[a]
            other: Val = ins[b]
            if factor is None:
                continue
            if factor == 1.0:
                return other
            if factor == -1.0:
                return self.ew("neg", other)
            if other.op == "mul":  # (x * c) * d: one factor
                for j in (0, 1):
                    inner = number_of(other.ins[j])
                    if (
                        inner is not None
                        and 1 / _LARGEST[dtype] < abs(inner * factor) < _LARGEST[dtype]
                    ):
                        return self.ew("mul", other.ins[1 - j], self.const(inner * factor, dtype))
        return None

    def strip(self, one: Val) -> Val:
        """What an expanded value shows."""
        while one.op == "expand":
            one = one.ins[0]
        return one

    # Movement ---------------------------------------------------------------------------------

    def view(self, op: str, x: Val, shape: Sequence[int], off: int, strides: Sequence[int]) -> Val:
        """Other geometry on the same memory."""
        shape, strides = tuple(shape), tuple(strides)
        if shape == x.shape and off == x.off and strides == x.strides:
            return x
        base = x.base
        if op == "view" and shape == base.shape and off == base.off and strides == base.strides:
            return base
        return self.make(op, (x,), None, shape, x.dtype, base=x.base, off=off, strides=strides)

    def expand(self, x: Val, shape: Sequence[int]) -> Val:
        """Dimensions of length 1 repeated."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if x.size == 1:
            return self.view("expand", x, shape, x.off, (0,) * len(shape))
        lead = len(shape) - len(x.shape)
        strides = (0,) * lead + tuple(
            0 if n == 1 and m != 1 else s
            for n, m, s in zip(x.shape, shape[lead:], x.strides, strict=True)
        )
        return self.view("expand", x, shape, x.off, strides)

    def reshape(self, x: Val, shape: Sequence[int]) -> Val:
        """The same elements in another shape; copies where memory demands it."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if self.strip(x).op == "const" or x.size == 1:
            return self.expand(self.strip(x), shape)
        strides = view_strides(x.shape, x.strides, shape)
        if strides is None:
            x = self.copy(x)
            strides = contiguous(shape)
        return self.view("view", x, shape, x.off, strides)

    def copy(self, x: Val) -> Val:
        """A row-major value of its own."""
        return self.make("copy", (x,), None, x.shape, x.dtype)

    def permute(self, x: Val, order: Sequence[int]) -> Val:
        """Dimensions in another order."""
        if self.strip(x).op == "const":
            return self.expand(self.strip(x), tuple(x.shape[i] for i in order))
        return self.view(
            "view", x, [x.shape[i] for i in order], x.off, [x.strides[i] for i in order]
        )

    def slice(self, x: Val, dim: int, start: int, count: int, step: int = 1) -> Val:
        """Every `step`-th of a dimension."""
        shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
        if self.strip(x).op == "const":
            return self.expand(self.strip(x), shape)
        strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :])
        return self.view("view", x, shape, x.off + start * x.strides[dim], strides)

    def squeeze(self, x: Val, dims: Sequence[int]) -> Val:
        """Without these dimensions, of length 1."""
        return self.reshape(x, [n for i, n in enumerate(x.shape) if i not in dims])

    def pad(self, g: Val, shape: Sequence[int], off: int, strides: Sequence[int]) -> Val:
        """Zeros of `shape` with `g` written at (off, strides): the adjoint of a strided view."""
        if _flat_pads(g) and tuple(strides) == contiguous(g.shape):  # places in places
            return self.make("padplace", (g,), off, shape, g.dtype)
        return self.make("pad", (g,), (off, tuple(strides)), shape, g.dtype)

    def put(self, x: Val, part: Val, off: int, strides: Sequence[int]) -> Val:
        """`x` with `part` written over it at (off, strides); nothing where it is there already."""
        strides = tuple(strides)
        if part.base is x.base and part.off == x.off + off and part.strides == strides:
            return x
        return self.make("put", (x, part), (off, strides), x.shape, x.dtype)

    def settle(self, outputs: Sequence[Val]) -> None:
        """Make sums of padded parts what they come to: zeros, with each part added at its places.

        Gradients of many slices of one tensor are such sums. They are joined two by two while the
        program is built, and only here, where it is known which are asked for, laid out in a list.
        """
        seen: set[int] = set()
        stack = list(outputs)
        while stack:
            one = stack.pop()
            if one.id in seen:
                continue
            seen.add(one.id)
            if one.op in ("padjoin", "padplace"):
                parts = _pad_parts(one)
                one.op = "padsum"
                one.ins = tuple([part[0] for part in parts])
                one.attr = tuple([(off, strides) for _, off, strides in parts])
            stack += one.ins
            if one.is_view:
                stack.append(one.base)

    def cat(self, xs: Sequence[Val], dim: int) -> Val:
        """Values one after the other along a dimension."""
        shape = list(xs[0].shape)
        shape[dim] = sum(x.shape[dim] for x in xs)
        return self.make("cat", xs, dim, shape, xs[0].dtype)

    # Reductions and products --------------------------------------------------------------------

    def reduce(self, kind: str, x: Val, dims: Sequence[int], *, keep: bool = False) -> Val:
        """The sum, or the largest, over dimensions."""
        dims = tuple(sorted(dims))
        number = number_of(self.strip(x))
        if number is not None and kind == "sum" and x.dtype[0] == "f":
            count = math.prod(x.shape[d] for d in dims)
            shape = tuple(1 if i in dims else n for i, n in enumerate(x.shape))
            made = self.const(number * count, x.dtype, shape)
        else:
            over = tuple(d for d in dims if x.shape[d] != 1)
            made = x
            if over:
                if x.is_view or x.op == "const":
                    x = self.copy(x)
                shape = tuple(1 if i in over else n for i, n in enumerate(x.shape))
                made = self.make(kind, (x,), over, shape, x.dtype)
        return made if keep else self.squeeze(made, dims)

    def dot(self, a: Val, b: Val) -> Val:
        """Matrix products of batches that broadcast."""
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        if len(b.shape) == 2 and len(a.shape) > 2:  # one product of many rows
            rows = math.prod(a.shape[:-1])
            made = self.dot(self.reshape(a, (rows, a.shape[-1])), b)
            return self.reshape(made, (*a.shape[:-1], b.shape[-1]))
        a, b = (self.expand(x, batch + x.shape[-2:]) for x in (a, b))
        a, b = (x if blas_takes(x) else self.copy(x) for x in (a, b))
        return self.make("dot", (a, b), None, (*batch, a.shape[-2], b.shape[-1]), a.dtype)


def _wrapped(number: int, dtype: str) -> int:
    """A whole number in its type, around which it wraps."""
    if dtype == "b1":
        return int(bool(number))
    bits = 8 * BYTES[dtype]
    number &= (1 << bits) - 1
    return number if dtype[0] == "u" or not number >> (bits - 1) else number - (1 << bits)


def number_of(one: Val) -> float | None:
    """The number of a constant; None of NaN, which equals nothing."""
    if one.op != "const" or one.attr[0] == "nan":
        return None
    number: float = one.attr[0]
    return number


def blas_takes(x: Val) -> bool:
    """Whether BLAS can read a matrix where it lies."""
    if x.base.op == "const":
        return False
    (m, n), (s, t) = x.shape[-2:], x.strides[-2:]
    return bool((t == 1 and (s >= n or m == 1)) or (s == 1 and (t >= m or n == 1)))


def _flat_pads(one: Val) -> bool:
    """Whether its parts are short rows without gaps, which are added as vectors."""
    if one.op in ("padsum", "padjoin", "padplace"):
        return True
    if one.op != "pad":
        return False
    _, strides = one.attr
    part = one.ins[0]
    dense = part.strides in ((), (1,)) or part.size == 1
    return len(part.shape) <= 1 and part.size <= 64 and strides in ((), (1,)) and dense


def _pad_parts(one: Val) -> list[Any]:
    """(part, offset, strides) of a sum of padded parts, in the order in which they were added."""
    parts: list[Any] = []
    stack: list[tuple[Val, int]] = [(one, 0)]
    while stack:
        v, at = stack.pop()
        if v.op == "padjoin":
            stack += [(v.ins[1], at), (v.ins[0], at)]
        elif v.op == "padplace":
            stack.append((v.ins[0], at + v.attr))
        elif v.op == "pad":
            parts.append((v.ins[0], at + v.attr[0], v.attr[1]))
        else:
            pairs = zip(v.ins, v.attr, strict=True)
            parts += [(x, at + off, strides) for x, (off, strides) in pairs]
    return parts
