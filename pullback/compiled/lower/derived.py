"""Lowerings derived from declarations: the forward itself, run on stand-ins for arrays.

A stand-in knows its dtype and shape and notes what is done to it. Helpers that only manage memory
(blocks, masks) are replaced by what they mean. What a stand-in cannot say (values, bits, SciPy)
stays an eager kernel; and so does every forward whose derived formula, on a few numbers, does not
give what the forward gives.
"""

from __future__ import annotations

from functools import cache
from types import CellType, FunctionType
from typing import Any

import numpy

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.evaluate import elementwise
from pullback.compiled.ir.symbols import sample
from pullback.compiled.ir.values import EW, LIBM, Val, broadcast
from pullback.compiled.lower.libm import ask
from pullback.compiled.lower.rules import FLOATING, NotLowered
from pullback.core.home import is_ours
from pullback.operators.declare import Op
from pullback.operators.dispatch.layers import own_of
from pullback.operators.formula.language import BOOLEAN
from pullback.operators.formula.words import NUMPY

__all__ = ["derived"]


# Words of NumPy that the array language has, by its name for them.
_UFUNCS = {name: word for name, word in NUMPY.items() if word in EW}
_UFUNCS |= {"positive": "same", "conjugate": "same", "invert": "not"}
_UFUNCS |= {f"bitwise_{word}": word for word in ("and", "or", "xor")}
_OF_TRUTHS = BOOLEAN | {"same", "where"}  # what may be done to bools


class Standing:
    """In the place of an array; an operation makes a value. Writes to it exchange the value."""

    __hash__ = None  # type: ignore[assignment]  # as arrays
    __array_ufunc__ = None  # NumPy's numbers leave operators to this class

    def __init__(self, b: Builder, v: Val) -> None:
        self.b, self.v = b, v

    @property
    def dtype(self) -> Any:
        """Of its elements."""
        return numpy.dtype("?" if self.v.dtype == "b1" else self.v.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.v.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.v.shape)

    def astype(self, dtype: Any, copy: bool = True) -> Standing:
        """In another dtype."""
        return Standing(self.b, _cast(self.b, self.v, numpy.dtype(dtype)))

    def clip(self, low: Any = None, high: Any = None, out: Any = None) -> Standing:
        """Within bounds."""
        return Space(self.b).clip(self, low, high, out)

    def copy(self, order: Any = "C") -> Standing:
        """Another one of the same value."""
        return Standing(self.b, self.v)

    def __bool__(self) -> bool:
        raise NotLowered

    def __getitem__(self, key: Any) -> Any:
        raise NotLowered

    def __getattr__(self, name: str) -> Any:
        raise NotLowered

    def __neg__(self) -> Standing:
        return Standing(self.b, self.b.ew("neg", self.v))

    def __invert__(self) -> Standing:
        if self.v.dtype != "b1":
            raise NotLowered
        return Standing(self.b, self.b.ew("not", self.v))

    def __abs__(self) -> Standing:
        return Standing(self.b, self.b.ew("abs", self.v))

    def __pow__(self, n: Any) -> Standing:
        if n == 2:
            return Standing(self.b, self.b.ew("mul", self.v, self.v))
        if isinstance(n, int) and 0 < abs(n) <= 16:
            return Standing(self.b, self.b.ew("powi", self.v, attr=n))
        raise NotLowered


def _operator(name: str, *, reverse: bool = False, inplace: bool = False) -> Any:
    def apply(self: Standing, other: Any) -> Any:
        a, c = (other, self) if reverse else (self, other)
        made = getattr(Space(self.b), name)(a, c)
        if inplace:
            self.v = made.v
            return self
        return made

    return apply


for _short, _long in {"add": "add", "sub": "subtract", "mul": "multiply",
                      "truediv": "divide"}.items():  # fmt: skip
    setattr(Standing, f"__{_short}__", _operator(_long))
    setattr(Standing, f"__r{_short}__", _operator(_long, reverse=True))
    setattr(Standing, f"__i{_short}__", _operator(_long, inplace=True))
for _short, _long in {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
                      "eq": "equal", "ne": "not_equal", "and": "logical_and",
                      "or": "logical_or", "xor": "logical_xor"}.items():  # fmt: skip
    setattr(Standing, f"__{_short}__", _operator(_long))


class Space:
    """An array namespace over stand-ins."""

    float32, float64, bool_, pi, inf, nan = (
        numpy.float32, numpy.float64, numpy.bool_, numpy.pi, numpy.inf, numpy.nan,
    )  # fmt: skip

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __getattr__(self, name: str) -> Any:
        word = _UFUNCS.get(name)
        if word is None:
            raise NotLowered

        def call(*args: Any, out: Any = None, **options: Any) -> Standing:
            if options:
                raise NotLowered
            count = 3 if word == "where" else getattr(numpy, name).nin
            if len(args) > count:
                *args, out = args  # type: ignore[assignment]  # a list will do
            return _given(out, self.b, self._word(word, list(args)))

        return call

    def _word(self, word: str, args: list[Any]) -> Val:
        values = _values(self.b, args, where=word == "where")
        truths = [v.dtype == "b1" for v in values]
        if word in ("and", "or", "xor", "not") and not all(truths):
            raise NotLowered
        if any(truths) and word not in _OF_TRUTHS:
            raise NotLowered
        if word == "same":
            return values[0]
        if word == "recip" and values[0].op == "sqrt":
            return self.b.ew("rsqrt", values[0].ins[0])
        return ask(self.b, word, *values) if word in LIBM else self.b.ew(word, *values)

    def square(self, x: Any, out: Any = None) -> Standing:
        """X * x."""
        made: Standing = self.multiply(x, x, out=out)
        return made

    def clip(self, x: Any, low: Any, high: Any, out: Any = None) -> Standing:
        """Within bounds."""
        if low is not None:
            x = self.maximum(x, low)
        if high is not None:
            x = self.minimum(x, high)
        return _given(out, self.b, x.v)

    def copyto(self, target: Any, source: Any, where: Any = True) -> None:
        """Write over elements, all or those that a mask names."""
        target.v = self.where(where, source, target).v if where is not True else source.v

    def isfinite(self, x: Any) -> Standing:
        """Whether it is a number."""
        made: Standing = self.less(self.absolute(x), numpy.inf)
        return made

    def isinf(self, x: Any) -> Standing:
        """Whether it is one of the infinities."""
        made: Standing = self.equal(self.absolute(x), numpy.inf)
        return made

    def isnan(self, x: Any) -> Standing:
        """Whether it is no number."""
        return Standing(self.b, self.b.ew("ne", x.v, x.v))

    def empty_like(self, x: Any, **options: Any) -> Standing:
        """What will be written."""
        if options:
            raise NotLowered
        return Standing(self.b, x.v)

    def zeros_like(self, x: Any) -> Standing:
        """Zeros."""
        return Standing(self.b, self.b.const(0, x.v.dtype, x.v.shape))

    def ones_like(self, x: Any) -> Standing:
        """Ones."""
        return Standing(self.b, self.b.const(1, x.v.dtype, x.v.shape))

    def asarray(self, x: Any) -> Any:
        """As it is."""
        return x


def _given(out: Any, b: Builder, v: Val) -> Standing:
    if out is None:
        return Standing(b, v)
    target = out[0] if isinstance(out, tuple) else out
    if not isinstance(target, Standing):
        raise NotLowered
    if target.v.dtype != v.dtype:
        v = _cast(b, v, target.dtype)
    target.v = v
    return target


def _cast(b: Builder, v: Val, dtype: Any) -> Val:
    to = "b1" if dtype.kind == "b" else dtype.str[1:]
    if to == v.dtype:
        return v
    if to not in FLOATING or v.dtype not in ("f4", "f8", "b1"):
        raise NotLowered
    return b.ew("cast", v, dtype=to)


def _values(b: Builder, args: list[Any], *, where: bool) -> list[Val]:
    """Operands in one dtype, numbers among them."""
    condition = args.pop(0) if where else None
    standing = [one.v.dtype for one in args if isinstance(one, Standing)]
    floats = [one for one in standing if one in FLOATING]
    if not standing:
        raise NotLowered
    like = "f8" if "f8" in floats else "f4" if floats else standing[0]
    made = []
    for one in args:
        if isinstance(one, Standing):
            made.append(one.v if one.v.dtype == like else _cast(b, one.v, _numpy(like)))
        elif isinstance(one, int | float | numpy.floating | numpy.integer) or (
            isinstance(one, numpy.ndarray) and one.ndim == 0
        ):
            made.append(b.const(one.item() if hasattr(one, "item") else one, like))
        else:
            raise NotLowered
    if where:
        if not isinstance(condition, Standing) or condition.v.dtype != "b1":
            raise NotLowered
        made.insert(0, condition.v)
    return made


def _numpy(name: str) -> Any:
    return numpy.dtype("?" if name == "b1" else name)


# Helpers that manage memory, as what they mean ----------------------------------------------------


def _in_blocks(xp: Space, function: Any, *arrays: Any, **machine_code: Any) -> Standing:
    out = Standing(xp.b, arrays[0].v)
    shape = broadcast(*[one.shape for one in arrays if isinstance(one, Standing)])
    if out.v.shape != shape:
        out.v = xp.b.expand(out.v, shape)
    copies = [Standing(xp.b, one.v) if isinstance(one, Standing) else one for one in arrays]
    function(xp, out, *copies)
    return out


def _kept(xp: Space, mask: Any, input: Any) -> Standing:
    made: Standing = xp.where(mask, input, 0)
    return made


def _choose(xp: Space, mask: Any, input: Any, other: Any) -> Standing:
    made: Standing = xp.where(mask, input, other)
    return made


def _lie_alike(a: Any, b: Any) -> bool:
    return True  # where a result is written is the planner's to say


_MEANT = {"in_blocks": _in_blocks, "kept": _kept, "choose": _choose, "lie_alike": _lie_alike}
_copies: dict[Any, Any] = {}


def _respelled(function: Any) -> Any:
    """The function with those helpers exchanged, in it and in what it calls."""
    ours = type(function) is FunctionType and is_ours(function)
    if not ours or hasattr(function, "op"):
        return function
    known = _copies.get(function)
    if known is not None:
        return known
    scope = dict(function.__globals__)
    cells = function.__closure__ and tuple(CellType() for _ in function.__closure__)
    own = own_of(function)  # not what looks at the arguments before it
    made = FunctionType(own.__code__, scope, function.__name__, own.__defaults__, cells or None)
    made.__kwdefaults__ = own.__kwdefaults__
    _copies[function] = made
    for name in own.__code__.co_names:
        if name in _MEANT and name in scope:
            scope[name] = _MEANT[name]
        elif name in scope:
            scope[name] = _respelled(scope[name])
    for cell, source in zip(cells or (), function.__closure__ or (), strict=True):
        cell.cell_contents = _respelled(source.cell_contents)
    return made


def derived(op: Op, b: Builder, given: dict[str, Any]) -> Val:
    """The value of an elementwise operator's call, or `NotLowered`."""
    if op.kind != "elementwise" or op.outputs != ("out",):
        raise NotLowered
    tensors = {p.name for p in op.inputs}
    values = [given[name] for name in tensors if isinstance(given[name], Val)]
    if not values or any(v.dtype not in (*FLOATING, "b1") for v in values):
        raise NotLowered
    options = tuple((name, sample(one)) for name, one in given.items() if name not in tensors)
    dtypes = tuple(
        (p.name, given[p.name].dtype if isinstance(given[p.name], Val) else None) for p in op.inputs
    )
    try:
        if not _agrees(op, dtypes, options):
            raise NotLowered
    except TypeError:  # an option that cannot be a key
        raise NotLowered from None
    made = _run(op, b, given)
    shape = broadcast(*[v.shape for v in values])
    return made if made.shape == shape else b.expand(made, shape)


def _run(op: Op, b: Builder, given: dict[str, Any]) -> Val:
    arguments = {
        name: Standing(b, one) if isinstance(one, Val) else one for name, one in given.items()
    }
    try:
        made = _respelled(op.meaning)(Space(b), **arguments)
    except NotLowered:
        raise
    except Exception:
        raise NotLowered from None  # it looked at something that a stand-in has not
    if not isinstance(made, Standing):
        raise NotLowered
    return made.v


@cache
def _agrees(op: Op, dtypes: Any, options: Any) -> bool:
    """Whether the derived formula gives what the forward gives, on numbers of all sorts."""
    b = Builder()
    numbers = numpy.array([-3.5, -1.0, -0.4, -0.0, 0.0, 0.3, 0.75, 1.0, 2.0, 4.6, numpy.inf,
                           -numpy.inf, numpy.nan, 1e-30, 700.0, -700.0])  # fmt: skip
    given: dict[str, Any] = dict(options)
    arrays: dict[str, Any] = {}
    known: dict[int, Any] = {}
    for turn, (name, dtype) in enumerate(dtypes):
        if dtype is None:
            return False
        array = numpy.roll(numbers, 3 * turn)
        arrays[name] = array > 0.5 if dtype == "b1" else array.astype(dtype)
        v = b.input(array.shape, dtype, (1,))
        given[name], known[v.id] = v, arrays[name]
    try:
        with numpy.errstate(all="ignore"):
            ours = elementwise(b.values, _run(op, b, given), known)
            wanted = op.forward(numpy, **arrays, **dict(options))
    except (NotLowered, KeyError):
        return False
    if ours.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind != "f":
        return bool(numpy.array_equal(ours, wanted))
    loose = 2e-6 if wanted.dtype.itemsize == 4 else 1e-13
    return bool(numpy.allclose(ours, wanted, rtol=loose, atol=0, equal_nan=True))
