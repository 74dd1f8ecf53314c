"""Which kernel of a formula runs: written for few elements, for many, in blocks; or machine code.

A kernel belongs to a dtype and a set of options, and is written when they are first met. The choice
among its forms depends on sizes alone, so that equal calls give equal bits. What has no kernel (an
array library other than NumPy, operands of several dtypes, a number among them) is computed as the
formula says, step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
from numpy import ndarray

from pullback.core.arrays import F32, F64, Array, Namespace
from pullback.core.errors import unsupported
from pullback.core.layout import cast_kept, order_kept
from pullback.core.tensor import Tensor
from pullback.core.writer import block, define
from pullback.operators.arrays.blocks import pieces
from pullback.operators.arrays.formats import in_order_of
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.threads import each
from pullback.operators.choice import notes, rewritten_by
from pullback.operators.conditions import Condition, at_least, at_most, below, contiguous, has_dims
from pullback.operators.dispatch.observers import compiling
from pullback.operators.formula.formulas import Formula
from pullback.operators.formula.in_numpy import Lines, body_of
from pullback.operators.formula.language import Expr, const, make, symbol
from pullback.operators.options import as_number

__all__ = ["Kernels"]

FEW = 500  # elements; below, one slow loop takes less time than several fast ones and their calls
AT_ONCE = 131072  # up to these, registers are new arrays, which the cache still holds
_BLOCK = (
    131072  # beyond, the lines run on blocks of these: in a quarter of it a million takes 1.1 times
)
_MOST = 128  # sets of options: beyond, what a program varies for ever is computed step by step
# Passes over memory from which on machine code pays; what compilers do is then one.
_PASSES = 3
_WIDE = {F32: "f4", F64: "f8", numpy.dtype("c8"): "c8", numpy.dtype("c16"): "c16"}
SCALARS: frozenset[type] = frozenset(
    {numpy.float32, numpy.float64, numpy.complex64, numpy.complex128}
)


class Form(NamedTuple):
    """One of the forms that a formula is written in, with its condition, for who is told of it."""

    name: str
    when: Condition


# In the order in which they are asked; what has none of these dtypes is computed as it says.
_FORMS = {
    "few_lines": below(FEW) & has_dims,
    "machine_code": at_least(MANY),  # where it is made, and the formula takes several passes
    "lines_at_once": at_most(AT_ONCE) & contiguous,
    "lines_in_blocks": has_dims,
    "lines_that_broadcast": Condition(),  # of unequal shapes, and of no dims
}


class Kernels:
    """The kernels of one formula: `table` has those that are written, by dtype and options."""

    def __init__(
        self, formula: Formula, options: tuple[str, ...], kinds: str, called: str, rounded: str = ""
    ) -> None:
        self.formula, self.options = formula, options
        self.kinds, self.called = kinds, called  # which dtypes it takes, and for whom it refuses
        self.rounded = rounded.split()  # options that half precision has in its own dtype
        self.function = formula.function
        self.check: Any = None  # refuses options, by name
        self.choices: dict[str, tuple[Any, ...]] = {}  # what an option may be; optional tensors
        self.of_complex: Any = None  # a function of complex arrays by hand
        self.table: dict[Any, Callable[..., Array]] = {}
        # The same for scalars of NumPy, alone or beside arrays; each operation gives a new array.
        self.scalars: dict[Any, Callable[..., Array]] = {}
        self.op: Any = None  # which has it, to be named to who wants to know what runs
        self.is_forward = True  # and no function by hand
        first = formula.tensors[0]
        self.forms = {name: Form(name, when.of(first)) for name, when in _FORMS.items()}
        rewritten_by(self.forget)

    def forget(self) -> None:
        """Have all kernels written again."""
        self.table.clear()
        self.scalars.clear()

    def chosen(self, xp: Namespace, arrays: tuple[Any, ...], options: tuple[Any, ...]) -> Array:
        """The formula of arguments that no kernel is known for yet."""
        options = tuple(map(self._plain, self.options, options))
        first = next((one for one in arrays if hasattr(one, "dtype")), arrays[0])
        dtype = first.dtype
        if dtype.kind == "c" and self.of_complex is not None:
            made: Array = self.of_complex(xp, *arrays, **self.named(options))
            return made
        if dtype.kind not in self.kinds or not first.size >= 0:  # a look at more than the dtype
            raise unsupported(self.called, first)
        if dtype.itemsize == 2:  # in single, rounded once
            wide = [cast_kept(one, F32) if hasattr(one, "dtype") else one for one in arrays]
            return self._run(xp, wide, self.in_half(options, dtype)).astype(dtype)
        return self._run(xp, list(arrays), options)

    def _plain(self, name: str, option: Any) -> Any:
        """A number for a tensor that holds one; the rest as it is."""
        return as_number(option, self.called, name) if isinstance(option, Tensor) else option

    def in_half(self, options: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
        """Options as half precision has them."""
        if not self.rounded:
            return options
        pairs = zip(self.options, options, strict=True)
        return tuple(
            [
                float(numpy.float32(one).astype(dtype)) if name in self.rounded else one
                for name, one in pairs
            ]
        )

    def _run(self, xp: Namespace, arrays: list[Any], options: tuple[Any, ...]) -> Array:
        kernel = self.kernel_for(arrays, options)
        if kernel is None:
            return self.meaning(xp, arrays, options)
        return kernel(*[one for one in arrays if one is not None])

    def kernel_for(self, arrays: list[Any], options: tuple[Any, ...]) -> Any:
        """The kernel for arrays like these, None among them; None where there is none."""
        given = [one for one in arrays if one is not None]
        has_scalars = any(type(one) in SCALARS for one in given)
        if any(type(one) is not ndarray and type(one) not in SCALARS for one in given):
            return None
        dtype = given[0].dtype
        if dtype not in _WIDE or any(one.dtype is not dtype for one in given):
            return None
        pairs = zip(self.formula.tensors, arrays, strict=True)
        missing = tuple([name for name, one in pairs if one is None])
        key = self.key(dtype, options, missing)
        if key not in self.table and len(self.table) < _MOST:
            with compiling(self.formula.name):
                self.table[key] = self.written(dtype, options, missing)
        return (self.scalars if has_scalars else self.table).get(key)

    def key(self, dtype: Any, options: tuple[Any, ...], missing: tuple[str, ...] = ()) -> Any:
        """Under which a kernel is kept: as the forward has it, see `forward_lines`."""
        if missing:
            return (dtype, *[one or repr(one) for one in options], missing)
        return (dtype, *[one or repr(one) for one in options]) if options else dtype

    def meaning(self, xp: Namespace, arrays: list[Any], options: tuple[Any, ...]) -> Array:
        """As the formula says."""
        if self.check is not None:
            self.check(**self.named(options))
        made: Array = self.function(xp, *arrays, **self.named(options))
        return made

    def named(self, options: tuple[Any, ...], missing: tuple[str, ...] = ()) -> dict[str, Any]:
        """Options by their names; a tensor that is missing is one, too."""
        return {**dict(zip(self.options, options, strict=True)), **dict.fromkeys(missing)}

    def root(self, options: tuple[Any, ...], missing: tuple[str, ...] = ()) -> Expr:
        """The formula of these options as a word of itself, for back ends to expand."""
        if self.check is not None:
            self.check(**self.named(options))
        given = [symbol(name) for name in self.formula.tensors if name not in missing]
        return self.formula.called(given, self.named(options, missing))

    def written(self, dtype: Any, options: tuple[Any, ...], missing: tuple[str, ...]) -> Any:
        """The kernel of a dtype and options."""
        names = [name for name in self.formula.tensors if name not in missing]
        root = self.root(options, missing)
        many = _Many(self, root, names, dtype, (*self.named(options, missing).items(),))
        few = _lines(root, names, dtype, "few")
        arguments = ", ".join(f"x{i}" for i in range(len(names)))
        is_few = "x0.size < FEW and x0.ndim" if len(names) == 1 else "shape and x0.size < FEW"
        told = ["ran(op, few_lines)"] if notes.to else []
        size = block(f"if {is_few}", [*told, *few.made(), f"return {few.result}"])
        shapes = " or ".join(f"x{i}.shape != shape" for i in range(1, len(names)))
        unequal = [f"return unequal({arguments})"]
        same = ["shape = x0.shape", *block(f"if {shapes}", unequal)] if shapes else []
        body = [*same, *size, f"return many({arguments})"]
        scope = {**few.scope, "FEW": FEW, "many": many, "unequal": many.unequal}
        scope |= {"ran": notes.ran, "op": self.op, "few_lines": self.forms["few_lines"]}
        self.scalars[self.key(dtype, options, missing)] = many.broadcast
        title = f"kernel {self.formula.name}{self.key(dtype, options, missing)}"
        return define(block(f"def kernel({arguments})", body), scope, title)


def _lines(root: Expr, names: list[str], dtype: Any, form: str) -> Lines:
    body = body_of(root, form, _WIDE[dtype])
    if body.word in ("input", "const"):  # a new array of it
        body = make("add", make("mul", symbol(names[0]), const(0.0)), body)
    inputs = {name: f"x{i}" for i, name in enumerate(names)}
    return Lines(body, inputs, dtype, "c")


class _Many:
    """The kernel of many elements."""

    def __init__(
        self, kernels: Kernels, root: Expr, names: list[str], dtype: Any, options: tuple[Any, ...]
    ) -> None:
        self._formula, self._dtype = kernels.formula, dtype
        self._options = (options, repr(options))  # -0.0 is equal to 0.0, and another number
        lines = _lines(root, names, dtype, "many")
        title = f"kernel {kernels.formula.name} {dtype}{options} of many"
        arguments = ", ".join(f"x{i}" for i in range(len(names)))
        each_new, result = lines.each_new()
        head = f"def broadcast({arguments})"
        broadcast = block(head, [*each_new, f"return {result}"])
        self.broadcast = define(broadcast, lines.scope, f"{title}, broadcast")
        fresh = [*lines.into(fresh=True), f"return {lines.result}"]
        self._at_once = define(block(f"def at_once({arguments})", fresh), lines.scope, title)
        self._registers = list(lines.kinds)
        self._kinds = list(lines.kinds.values())
        self._result = self._registers.index(lines.result)
        given = lines.into(fresh=False)
        head = f"def on_block({arguments}, {', '.join(self._registers)})"
        self._on_block = define(block(head, given), lines.scope, f"{title}, in blocks")
        special = any(one.word in ("erf", "erfc", "ndtr") for _, one, _ in lines.steps)
        self._is_native = (len(given) >= _PASSES or special) and dtype in (F32, F64)
        self._told_code: Any = None  # in the place of `by_machine_code`, to say that it runs
        if notes.to:
            self._tell(kernels.op, kernels.forms)

    def _tell(self, op: Any, forms: dict[str, Form]) -> None:
        """Say of each form that it runs, until kernels are written again."""

        def told(name: str, function: Any) -> Any:
            def form(*args: Any) -> Any:
                made = function(*args)
                if made is not None:
                    notes.ran(op, forms[name])
                return made

            return form

        self.broadcast = told("lines_that_broadcast", self.broadcast)
        self._at_once = told("lines_at_once", self._at_once)
        self._in_blocks = told("lines_in_blocks", self._in_blocks)  # type: ignore[method-assign]
        self._told_code = told("machine_code", by_machine_code)

    def __call__(self, *arrays: Array) -> Array:
        first = arrays[0]
        size = first.size
        if not first.ndim:
            return numpy.asarray(self.broadcast(*arrays))  # NumPy makes a scalar of it
        if size < FEW:
            return self._at_once(*arrays)
        if not first.flags.c_contiguous and order_kept(first) != tuple(range(first.ndim)):
            return in_order_of(self, *arrays)
        if self._is_native and size >= MANY:
            run = self._told_code or by_machine_code
            made = run(self._formula, arrays, *self._options)
            if made is not None:
                return made[0]
        if size <= AT_ONCE and all(one.flags.c_contiguous for one in arrays):
            return self._at_once(*arrays)
        return self._in_blocks(arrays)

    def unequal(self, *arrays: Array) -> Array:
        """Of arrays whose shapes differ: NumPy broadcasts as it goes, unless there are many."""
        if max(one.size for one in arrays) < AT_ONCE:
            return self.broadcast(*arrays)
        return self(*numpy.broadcast_arrays(*arrays))

    def _in_blocks(self, arrays: tuple[Array, ...]) -> Array:
        first = arrays[0]
        out = numpy.empty(first.shape, self._dtype)
        whole, flat = out.reshape(-1), [one.reshape(-1) for one in arrays]

        def work(piece: slice) -> None:
            self._piece(whole[piece], [one[piece] for one in flat])

        each(work, pieces(first.size, 1))
        return out

    def _piece(self, out: Array, arrays: list[Array]) -> None:
        """The lines on blocks, in registers that are made once."""
        size = out.size
        step = -(-size // max(round(size / _BLOCK), 1))
        registers: list[Any] = [
            None if number == self._result else numpy.empty(step, "?" if kind == "b" else out.dtype)
            for number, kind in enumerate(self._kinds)
        ]
        for start in range(0, size, step):
            stop = min(start + step, size)
            if stop - start < step:
                registers = [None if one is None else one[: stop - start] for one in registers]
            registers[self._result] = out[start:stop]
            self._on_block(*[one[start:stop] for one in arrays], *registers)
