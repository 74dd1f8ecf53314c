"""Captured calls as values of the array language; what has no lowering stays an eager kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.symbols import Symbolic, SymbolicArray
from pullback.compiled.ir.values import BYTES, HALVES, SIZES, Val, contiguous
from pullback.compiled.llvm.words import can_cast
from pullback.compiled.lower import (  # noqa: F401 (imported to register their lowerings)
    classes,
    extremes,
    formulas,
    indexing,
    libm,
    pointwise,
    products,
    rows,
    scans,
    shapes,
    windows,
)
from pullback.compiled.lower.derived import derived
from pullback.compiled.lower.from_formulas import by_formula
from pullback.compiled.lower.integers import of_integers
from pullback.compiled.lower.kernels import Check, Kernel, NeedsMemory
from pullback.compiled.lower.rules import FLOATING, RULES, STOPPING, STORED, NotLowered, key_of
from pullback.compiled.plan.recompute import recompute
from pullback.core.promotion import is_half

__all__ = ["Lowered"]


def dtype_name(dtype: Any) -> str:
    """The language's name of a NumPy dtype; those beyond its own only pass through."""
    if dtype.itemsize == 2 and dtype.kind in "fV" and is_half(dtype):
        return "h2" if dtype.kind == "f" else "w2"
    return "b1" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"


class Lowered:
    """A program's values: `inputs` and `outputs` of the builder, and what became of each call."""

    def __init__(
        self,
        calls: list[Call],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        constants: dict[int, Any],
        *,
        stores: bool = False,
        ahead: frozenset[int] | None = None,
    ) -> None:
        """`stores`: whether the back end can write over a part of a value.

        `ahead`: numbers of the values of the forward, where a backward comes behind it.
        """
        self.b = Builder()
        self._stores = stores
        # One that draws random numbers cannot begin again where an index names nothing.
        self._stops = not any(call.random for call in calls)
        self.values: dict[int, Val] = {}
        self.how: dict[str, str] = {}  # name of a call -> "lowered", "view" or "kernel"
        self.native = 0
        self._checked: set[Any] = set()  # targets whose range is looked at already
        for one in inputs:
            self.values[one.number] = self._input(one, constants.get(one.number))
        boundary = None
        for call in calls:
            if ahead is not None and boundary is None and call.results[0].number not in ahead:
                boundary = len(self.b.values)
            self._call(call)
        self.outputs = self._results(outputs)
        self.b.settle([*self.outputs, *(v for v in self.b.values if v.op == "call")])
        if boundary is not None:
            recompute(self.b, self.outputs, boundary)

    def _input(self, one: Value, array: Any) -> Val:
        # Every input is entered, so that their order is the caller's; constants may not be read.
        strides = tuple(stride // one.dtype.itemsize for stride in one.strides)
        made = self.b.input(one.shape, dtype_name(one.dtype), strides)
        if array is not None and array.size and dtype_name(one.dtype) in BYTES:
            first = array.reshape(-1)[0] if array.flags.c_contiguous else array.flat[0]
            if array.size == 1 or bool((array == first).all()):
                return self.b.const(first.item(), made.dtype, one.shape)
        return made

    def _results(self, outputs: Sequence[Value]) -> list[Val]:
        """Results lie in memory that nobody else has."""
        made: list[Val] = []
        taken: set[int] = set()
        for one in outputs:
            v = self.values[one.number]
            base = v.base
            given = base.op in ("input", "result")  # the caller sees to it that they are apart
            is_shared = not given and (
                base.op in ("const", "iota")
                or base.id in taken
                or (v.is_view and (v.size * 2 < base.size or 0 in v.strides))
            )
            order = None if _lies_alike(v, one) and not is_shared else _dense_order(one)
            if order is not None and _reads_repeated(one.call):
                order = list(range(len(order)))
            if not self._stores and not (v.is_view and order == list(range(len(v.shape)))):
                order = None
            can_be_moved = v.dtype in SIZES and base.op != "result"
            if order is not None and can_be_moved:  # in memory as eager has it
                laid = self._own_copy(self.b.permute(v, order), taken)
                v = self.b.permute(laid, _back(order))
            elif is_shared:
                v = self._own_copy(v, taken)
            taken.add(v.base.id)
            made.append(v)
        return made

    def _own_copy(self, v: Val, taken: set[int]) -> Val:
        """A copy that no other result is."""
        made = self.b.copy(v)
        if made.id in taken:
            made = self.b.make("copy", (v,), None, v.shape, v.dtype, unique=True)
        return made

    # One call ---------------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        self.b.origin = call.origin
        try:
            made = self._lowered(call)
            self._verify(call, made)
        except NotLowered:
            made = self._kernel(call)  # what was begun is not live, and goes
        for value, v in zip(call.results, made, strict=True):
            self.values[value.number] = v

    def _lowered(self, call: Call) -> list[Val]:
        if call.random:
            raise NotLowered
        made: Any
        if call.op is None:
            made = self._other(call)
        elif call.op.kind == "view":
            made = self._view(call)
        else:
            made = self._operator(call)
        listed = list(made) if isinstance(made, list | tuple) else [made]
        if call.op is None or call.op.kind != "view":
            self.native += 1
        self.how[call.name] = (
            "view" if call.op is not None and call.op.kind == "view" else "lowered"
        )
        return listed

    def _verify(self, call: Call, made: list[Val]) -> None:
        if len(made) != len(call.results):
            raise NotLowered
        for value, v in zip(call.results, made, strict=True):
            if v.shape != value.shape or v.dtype != dtype_name(value.dtype):
                raise NotLowered

    def _operator(self, call: Call) -> Any:
        op = call.op
        assert op is not None
        key = key_of(op)
        given = {name: self._argument(one) for name, one in call.kwargs.items()}
        order = _other_order(call) if self._stores else None
        if order is None:
            return self._by_rule(call, key, given)
        # Eager lays it out in another order: in that order it is by rows.
        rank = len(order)
        turned = {
            name: self._turned(one, order, rank) if isinstance(one, Val) and one.shape else one
            for name, one in given.items()
        }
        made = self._by_rule(call, key, turned)
        if not isinstance(made, Val):
            raise NotLowered
        return self.b.permute(made, _back(order))

    def _turned(self, v: Val, order: list[int], rank: int) -> Val:
        """A value with its dimensions, as many as the result has, in another order."""
        wide = self.b.reshape(v, (*(1,) * (rank - len(v.shape)), *v.shape))
        return self.b.permute(wide, order)

    def _by_rule(self, call: Call, key: str, given: dict[str, Any]) -> Any:
        op = call.op
        assert op is not None
        for param in op.inputs:  # a number where a tensor may stand
            if isinstance(given[param.name], int | float | Symbolic):
                like = dtype_name(call.results[0].dtype)
                if like not in BYTES:
                    raise NotLowered
                given[param.name] = self.b.const(given[param.name], like)
        to_half = key in CASTS and dtype_name(call.results[0].dtype) in HALVES
        if self._stores and (to_half or any(v.dtype in HALVES for v in _vals(given))):
            return self._in_single(call, key, given)
        known = BYTES if self._stores else ON_DEVICES
        if any(v.dtype not in known for v in _vals(given)):
            raise NotLowered
        if key in CASTS and not self._stores and not self._casts_there(call, given):
            raise NotLowered
        result = dtype_name(call.results[0].dtype)
        made = of_integers(self.b, key, given, result, stored=self._stores)
        if made is not None:
            return made
        stored = self._stores and (self._stops or key not in STOPPING)
        rule = STORED.get(key) if stored else None
        rule = rule or RULES.get(key)
        if rule is None and op.formula is not None:
            return by_formula(op.formula, self.b, given)
        if rule is None:
            return derived(op, self.b, given)
        if key in _CHECKED:
            made = rule(self.b, **given)
            self._check(call, given)
            return made
        return rule(self.b, **given)

    def _casts_there(self, call: Call, given: dict[str, Any]) -> bool:
        """Whether kernels of devices cast as the device's eager kernels do."""
        return (given["input"].dtype, dtype_name(call.results[0].dtype)) in CASTS_ON_DEVICES

    def _in_single(self, call: Call, key: str, given: dict[str, Any]) -> Val:
        """An operator in half precision: in single, and rounded once."""
        op = call.op
        assert op is not None
        (result,) = call.results
        wanted = dtype_name(result.dtype)
        if key in CASTS:
            return self._cast(given["input"], wanted)
        if op.kind != "elementwise" and key not in ROUNDED_ONCE:
            raise NotLowered
        wide: dict[str, Any] = {}
        for name, one in given.items():
            if isinstance(one, numpy.ndarray) and one.ndim == 0 and is_half(one.dtype):
                one = self.b.const(float(one), "f4")
            if isinstance(one, Val) and one.dtype in HALVES:
                one = self.b.ew("cast", one, dtype="f4")
            if isinstance(one, Val) and one.dtype not in ("f4", "b1"):
                raise NotLowered
            wide[name] = one
        made = self._by_rule(call, key, wide)
        if not isinstance(made, Val):
            raise NotLowered
        return made if made.dtype == wanted else self._cast(made, wanted)

    def _cast(self, x: Val, to: str) -> Val:
        """A value in another dtype, half precision among them."""
        if x.dtype == to:
            return x
        if x.dtype in HALVES:
            if to not in (*BYTES, *HALVES):
                raise NotLowered
            x = self.b.ew("cast", x, dtype="f4")
        if to in HALVES and x.dtype in _EXACT_IN_SINGLE:
            x = self.b.ew("cast", x, dtype="f4")
        if not can_cast(x.dtype, to):
            raise NotLowered
        return self.b.ew("cast", x, dtype=to)

    def _check(self, call: Call, given: dict[str, Any]) -> None:
        kernel = Check(call)
        target, score = given["target"], given["input"]
        row = self.b.slice(score, 0, 0, 1) if score.base.op == "input" else target
        key = (target.id, score.shape)
        if key in self._checked:
            return
        self._checked.add(key)
        ins = [one if one.base.op != "const" else self.b.copy(one) for one in (target, row)]
        self.b.call(kernel, ins, [])

    def _argument(self, one: Any) -> Any:
        if one.__class__ is Value:
            return self.values[one.number]
        if one.__class__ is tuple:
            return tuple(self._argument(part) for part in one)
        if one.__class__ is SymbolicArray and dtype_name(one.dtype) in BYTES:
            return self.b.const(one.number, dtype_name(one.dtype))
        if isinstance(one, numpy.ndarray) and one.ndim == 0 and dtype_name(one.dtype) in BYTES:
            return self.b.const(one.item(), dtype_name(one.dtype))
        return one

    def _view(self, call: Call) -> list[Val]:
        """By geometry where memory lies as eager's, else by what the view means."""
        (source,) = call.inputs
        x = self.values[source.number]
        if self.b.strip(x).op == "const" and all(v.dtype == source.dtype for v in call.results):
            return [self.b.expand(self.b.strip(x), v.shape) for v in call.results]
        shifted = all(_is_within(v, source) for v in call.results)
        if shifted and _lies_alike(x, source):
            return [self._geometry(x, v) for v in call.results]
        op = call.op
        assert op is not None
        rule = RULES.get(op.name)
        if rule is None:
            order = _dense_order(source)
            if not shifted or order is None:
                raise NotLowered
            # In memory as eager has it, the view is a matter of strides again.
            laid = self.b.copy(self.b.permute(x, order))
            return [self._geometry(laid, v) for v in call.results]
        made = rule(self.b, **{name: self._argument(one) for name, one in call.kwargs.items()})
        return made if isinstance(made, list) else [made]

    def _geometry(self, x: Val, v: Value) -> Val:
        strides = tuple(stride // v.dtype.itemsize for stride in v.strides)
        # A dimension that is repeated is an expansion, which loops read without memory.
        return self.b.view("view", x, v.shape, x.off + (0 if v.shift is None else v.shift), strides)

    def _other(self, call: Call) -> Val:
        """Steps that are no operators."""
        arguments = [self._argument(one) for one in call.args]
        if isinstance(call.kernel, numpy.ufunc) and call.kernel in _UFUNCS:
            return self._ufunc(call, arguments)
        x = arguments[0] if arguments else None
        if not isinstance(x, Val):
            raise NotLowered
        if call.name == "astype":
            to = dtype_name(numpy.dtype(arguments[1]))
            if self._stores and (x.dtype in HALVES or to in HALVES):
                return self._cast(x, to)
            if x.dtype not in BYTES or to not in BYTES or not can_cast(x.dtype, to):
                raise NotLowered
            if not self._stores and x.dtype != to and (x.dtype, to) not in CASTS_ON_DEVICES:
                raise NotLowered
            return self.b.ew("cast", x, dtype=to)
        if call.name in ("copy", "laid_out"):
            return x
        if call.name == "broadcast_to":
            return self.b.expand(x, call.args[1])
        if call.name == "part":
            return self._part(call, x)
        if call.name == "with_part" and self._stores:
            return self._put(call, x, arguments[1])
        raise NotLowered

    def _ufunc(self, call: Call, arguments: list[Any]) -> Val:
        """A function of NumPy's on floating-point arrays and numbers: as its word."""
        (result,) = call.results
        dtype = dtype_name(result.dtype)
        if dtype not in FLOATING or call.kwargs:
            raise NotLowered
        given = []
        for one in arguments:
            if isinstance(one, int | float | Symbolic) and not isinstance(one, bool):
                one = self.b.const(one, dtype)
            if not isinstance(one, Val) or one.dtype != dtype:
                raise NotLowered
            given.append(one)
        return self.b.ew(_UFUNCS[call.kernel], *given)

    def _part(self, call: Call, x: Val) -> Val:
        given = call.kwargs
        if x.strides != given["own"] or x.base.op == "const":
            raise NotLowered
        off = x.off + given["offset"]
        return self.b.view("view", x, given["shape"], off, given["strides"])

    def _put(self, call: Call, x: Val, part: Any) -> Val:
        """A write to a part of memory that lies row by row."""
        given = call.kwargs
        if not isinstance(part, Val) or x.dtype not in BYTES or part.dtype != x.dtype:
            raise NotLowered
        if given["own"] != contiguous(x.shape):
            raise NotLowered
        if self.b.strip(x).op in ("const", "iota") or x.strides != given["own"]:
            x = self.b.copy(x)
        if self.b.strip(part).op in ("const", "iota"):
            part = self.b.copy(part)
        return self.b.put(x, part, given["offset"], given["strides"])

    def _kernel(self, call: Call) -> list[Val]:
        if call.name in _ON_STORAGE:
            raise NeedsMemory(f"{call.name} looks at memory beyond its input")
        self.how[call.name] = "kernel"
        kernel = Kernel(call)
        ins = []
        for one in kernel.inputs:
            v = self._laid_out(one) if call.random else self.values[one.number]
            ins.append(self.b.copy(v) if self.b.strip(v).op in ("const", "iota") else v)
        results = [
            (v.shape, dtype_name(v.dtype), tuple(s // v.dtype.itemsize for s in v.strides))
            for v in call.results
        ]
        return self.b.call(kernel, ins, results)

    def _laid_out(self, one: Value) -> Val:
        """A value in memory as eager has it: in that order random numbers may be drawn."""
        v, order = self.values[one.number], _dense_order(one)
        if order is None or _lies_alike(v, one):
            return v
        return self.b.permute(self.b.copy(self.b.permute(v, order)), _back(order))


CASTS = frozenset({"_to_copy", "_to_fixed"})
# What kernels of devices, and programs in C, are written for.
ON_DEVICES = frozenset({"f4", "f8", "b1", "i8", "i4"})
CASTS_ON_DEVICES = frozenset({
    ("f4", "f8"), ("f8", "f4"), ("b1", "f4"), ("b1", "f8"), ("b1", "i8"), ("b1", "i4"),
    ("i8", "f4"), ("i8", "f8"), ("i4", "f4"), ("i4", "f8"), ("i4", "i8"), ("i8", "i4"),
    *[(one, one) for one in ON_DEVICES],
})  # fmt: skip
# Operators beside elementwise ones that eager computes in single and rounds once, too.
ROUNDED_ONCE = frozenset({
    "_log_softmax_adjoint", "_matmul", "_softmax_adjoint", "_standardise_adjoint",
    "_weight_adjoint", "_where", "addmm", "amax", "bmm", "clone", "keep_where",
    "layer_standardise", "log_softmax", "logsumexp", "masked_fill", "mean", "mean.full", "mm",
    "nn.functional.linear", "softmax", "sum", "sum.full",
})  # fmt: skip
_EXACT_IN_SINGLE = ("b1", "u1", "i1", "i2")


# Functions of NumPy that the library calls by themselves: on the running statistics of a norm.
_UFUNCS: dict[Any, str] = {
    numpy.add: "add", numpy.subtract: "sub", numpy.multiply: "mul", numpy.divide: "div",
    numpy.negative: "neg", numpy.sqrt: "sqrt", numpy.reciprocal: "recip",
}  # fmt: skip
# Kernels that go by the whole memory behind an array; in programs that is another one.
_ON_STORAGE = frozenset({"_as_strided"})
_CHECKED = frozenset({"nn.functional.cross_entropy", "_cross_entropy_adjoint"})


def _other_order(call: Call) -> list[int] | None:
    """The order of dimensions in memory of what an elementwise call gives; None: by rows."""
    if call.op is None or call.op.kind != "elementwise" or len(call.results) != 1:
        return None
    (value,) = call.results
    if _reads_repeated(call):
        return None
    order = _dense_order(value)
    if order is None or order == list(range(len(order))):
        return None
    return order


def _reads_repeated(call: Call | None) -> bool:
    """Whether a call reads what was expanded: stand-ins have another order than arrays have."""
    if call is None:
        return False
    pairs = [pair for one in call.inputs for pair in zip(one.shape, one.strides, strict=True)]
    return any(s == 0 and n != 1 for n, s in pairs)


def _back(order: list[int]) -> list[int]:
    """The order that undoes another one."""
    return [order.index(d) for d in range(len(order))]


def _vals(tree: Any) -> list[Val]:
    if isinstance(tree, Val):
        return [tree]
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, tuple | list):
        return [v for one in tree for v in _vals(one)]
    return []


def _is_within(v: Value, source: Value) -> bool:
    """Whether a view of a value stays within the memory between its first and last element."""
    if v.shift is None or v.dtype != source.dtype or v.shift < 0:
        return False
    size: int = v.dtype.itemsize
    return v.shift + _extent(v) // size <= _extent(source) // size


def _extent(v: Value) -> int:
    size: int = v.dtype.itemsize
    return sum((n - 1) * s for n, s in zip(v.shape, v.strides, strict=True)) + size


def _dense_order(v: Value) -> list[int] | None:
    """Dimensions from slowest to fastest, where memory has no gaps in that order; else None."""
    order = sorted(range(len(v.shape)), key=lambda d: (-v.strides[d], d))
    step = v.dtype.itemsize
    for d in reversed(order):
        if v.shape[d] != 1:
            if v.strides[d] != step:
                return None
            step *= v.shape[d]
    return order


def _lies_alike(x: Val, value: Value) -> bool:
    """Whether a value lies in memory with the strides that eager gave it."""
    size = value.dtype.itemsize
    pairs = zip(x.shape, x.strides, value.strides, strict=True)
    return all(n == 1 or s * size == stride for n, s, stride in pairs)
