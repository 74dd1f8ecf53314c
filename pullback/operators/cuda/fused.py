"""Elementwise work in one launch: kernels written from what operators and their rules compute.

CuPy takes 13 us for a ufunc and more for a sign between arrays, of which the launch is 7; a rule of
three steps is three of them. Here the steps of a rule, which `writing/inline` has noted, become one
C expression, and so does a ufunc's own. A kernel is compiled for each dtype and each choice of
which operands are arrays, when first needed. It serves floating-point arrays of one shape that fill
their memory in order, half precision in float32 arithmetic; everything else goes the way it came,
step by step. In large arrays a thread takes 16 bytes of each at a time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from pullback.core.writer import block, define, named, theirs
from pullback.operators.cuda.launch import Kernel
from pullback.operators.cuda.stored import STORED, computed_in, head_of
from pullback.operators.formula.in_c import word
from pullback.operators.formula.language import BOOLEAN
from pullback.operators.formula.words import NUMPY, WORDS
from pullback.operators.writing.inline import Inlined

__all__ = ["Fused", "fused_rule", "fused_ufunc"]

# NumPy's ufuncs in C, for arguments a and b; `T` is the dtype.
EXPRESSIONS = {
    name: f"T({word(known, ['{a}', '{b}'], 'T')})"
    for name, known in NUMPY.items()
    if WORDS[known].c and known not in {*BOOLEAN, "fmod", "pow", "sign", "where"}
}
EXPRESSIONS |= {"positive": "({a})", "square": "({a} * {a})"}
_SIGNS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "true_divide"}
_COMPARISONS = {
    ast.NotEq: "!=",
    ast.Eq: "==",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_BLOCK = 256
_SOURCE = """
typedef A T;
extern "C" __global__ void fused({parameters}, S* out, long long n) {{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{ {loads} out[i] = st({expression}); }}
}}
"""
_LARGE = 1 << 18  # elements: below, the launch takes longer than the work
_WIDE_SOURCE = """
typedef A T;
struct __align__(16) Pack {{ S v[16 / sizeof(S)]; }};
extern "C" __global__ void fused({parameters}, S* out, long long n) {{
    const int each = 16 / sizeof(S);
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at * each >= n) return;
    {packs}
    Pack made;
    _Pragma("unroll")
    for (int i = 0; i < each; ++i) {{ {loads} made.v[i] = st({expression}); }}
    ((Pack*)out)[at] = made;
}}
"""


class Fused:
    """One expression of several operands, each an array or a number; `otherwise` takes the rest."""

    __slots__ = ("_cupy", "_kernels", "_ndarray", "_raw", "count", "expression", "otherwise")

    def __init__(self, cupy: Any, expression: str, count: int, otherwise: Any) -> None:
        self.expression, self.count, self.otherwise = expression, count, otherwise
        self._cupy = cupy
        self._raw: Any = getattr(cupy, "RawKernel", None)
        self._ndarray = cupy.ndarray
        self._kernels: dict[Any, Kernel] = {}

    def __call__(self, *args: Any) -> Any:
        """The expression of these operands; one more is where the result goes."""
        ndarray = self._ndarray
        first = args[0]
        if self._raw is None or type(first) is not ndarray:
            return self.otherwise(*args)
        dtype, shape = first.dtype, first.shape
        kind = dtype.char
        if not first._c_contiguous or kind not in STORED:
            return self.otherwise(*args)
        out = args[self.count] if len(args) > self.count else None
        values = []
        arrays, place = 0, 1
        for one in args:  # the operands, then what the result goes to
            if type(one) is ndarray:
                if one.shape != shape or one.dtype is not dtype or not one._c_contiguous:
                    return self.otherwise(*args)
                arrays |= place
                values.append(one.data.ptr)
            else:
                values.append(computed_in(kind)(one))
            place <<= 1
        size = first.size
        if out is None:
            out = ndarray(shape, dtype)
            arrays |= place
            values.append(out.data.ptr)
        if size:
            each = 1 if size < _LARGE else _width(out, values, arrays)
            kernel = self._kernels.get((kind, arrays, each))
            if kernel is None:
                kernel = self._compiled(kind, arrays, each)
            values.append(size)
            kernel.over(-(-size // (_BLOCK * each)), _BLOCK, values)
        return out

    def _compiled(self, kind: str, arrays: int, each: int) -> Kernel:
        are_arrays = [bool(arrays >> place & 1) for place in range(self.count)]
        parameters = ", ".join(
            f"const S* p{i}" if array else f"const T x{i}" for i, array in enumerate(are_arrays)
        )
        wide = each > 1
        places = [i for i, array in enumerate(are_arrays) if array]
        packs = " ".join(f"const Pack q{i} = ((const Pack*)p{i})[at];" for i in places)
        element = "q{i}.v[i]" if wide else "p{i}[i]"
        loads = " ".join(f"T x{i} = ld({element.format(i=i)});" for i in places)
        source = (_WIDE_SOURCE if wide else _SOURCE).format(
            parameters=parameters, loads=loads, packs=packs, expression=self.expression
        )
        number = "d" if kind == "d" else "f"
        layout = "".join("P" if array else number for array in are_arrays) + "Pq"
        function = self._raw(head_of(kind) + source, "fused")
        made = self._kernels[kind, arrays, each] = Kernel(self._cupy, function, layout)
        return made


def _width(out: Any, values: list[Any], arrays: int) -> int:
    """Elements that a thread takes: 16 bytes of them where all arrays begin and end at such."""
    each = 16 // out.itemsize
    pointers = [one for i, one in enumerate(values) if arrays >> i & 1]
    return 1 if out.size % each or any(one % 16 for one in pointers) else each


def fused_ufunc(cupy: Any, name: str, own: Any) -> Any:
    """A ufunc as one launch on plain arrays; itself where there is no expression for it."""
    expression = EXPRESSIONS.get(name)
    if expression is None:
        return own
    count = 2 if "{b}" in expression else 1
    return Fused(cupy, expression.format(a="x0", b="x1"), count, own)


# Rules --------------------------------------------------------------------------------------------


class _UnknownError(Exception):
    """A step that has no C expression."""


def fused_rule(
    cupy: Any, rule: Inlined, prefix: str, specialise: Callable[[Any], Any]
) -> Inlined | None:
    """The lines of a rule as a single call; None where a step is not known."""
    if not rule.array_lines:
        return None
    scope = {name: specialise(one) for name, one in rule.array_scope.items()}
    try:
        steps = _Steps(rule)
        expression = steps.expression
    except (_UnknownError, SyntaxError):
        return None
    inputs = ", ".join(name if name == "g" else theirs(name) for name in steps.inputs)
    lines = ["numbers = NO_NUMBERS", *rule.array_lines, f"return {rule.result}"]
    scope["NO_NUMBERS"] = {}
    otherwise = define(block(f"def otherwise({inputs})", lines), scope, f"fused {prefix}")
    made = Inlined()
    name = f"{prefix}fused"
    made.array_lines = [f"{rule.result} = {name}({inputs})"]
    made.tensor_lines, made.tensor_scope = rule.tensor_lines, rule.tensor_scope
    made.array_scope = {name: Fused(cupy, expression, len(steps.inputs), otherwise)}
    made.array_scope |= {value: rule.array_scope[value] for value in rule.usual.values()}
    made.result, made.only_real, made.usual = rule.result, rule.only_real, rule.usual
    return made


class _Steps:
    """The lines of a rule read as one expression of its inputs, gradient first."""

    def __init__(self, rule: Inlined) -> None:
        self.rule = rule
        self.inputs: list[str] = []
        self.known: dict[str, str] = {}
        for step in ast.parse(named(rule.array_lines)[0]).body:
            assert isinstance(step, ast.Assign)
            (target,) = step.targets
            assert isinstance(target, ast.Name)
            self.known[target.id] = self._text(step.value)
        self.expression = self.known.get(rule.result, "")  # none: it is one of the inputs
        if "g" not in self.inputs or len(self.expression) > 2000:
            raise _UnknownError
        # The gradient first: it is never a number, and tells the shape.
        order = ["g", *(name for name in self.inputs if name != "g")]
        for i, name in enumerate(order):
            place = f"@{self.inputs.index(name)}@"
            self.expression = self.expression.replace(place, f"x{i}")
        self.inputs = order

    def _text(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return f"T({float(node.value)!r})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"(-{self._text(node.operand)})"
        if isinstance(node, ast.BinOp):
            sign = _SIGNS.get(type(node.op))
            if sign is None:
                raise _UnknownError
            a, b = self._text(node.left), self._text(node.right)
            return EXPRESSIONS[sign].format(a=a, b=b)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            a, b = self._text(node.left), self._text(node.comparators[0])
            return f"({a} {_COMPARISONS[type(node.ops[0])]} {b})"
        raise _UnknownError

    def _name(self, name: str) -> str:
        if name in self.known:
            return self.known[name]
        if name in self.rule.array_scope:
            raise _UnknownError
        if name not in self.inputs:
            self.inputs.append(name)
        return f"@{self.inputs.index(name)}@"

    def _call(self, node: ast.Call) -> str:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "get":
            return self._text(node.args[1])  # a number that is kept as an array
        if not isinstance(function, ast.Name) or node.keywords:
            raise _UnknownError
        ufunc = self.rule.array_scope.get(function.id)
        if isinstance(ufunc, partial):  # the forward of an operator
            name = ufunc.func.__qualname__
            if name != "keep_where":
                raise _UnknownError
            kept, mask = (self._text(one) for one in node.args[:2])
            return f"({mask} ? {kept} : T(0))"
        expression = EXPRESSIONS.get(getattr(ufunc, "__name__", ""))
        if not isinstance(ufunc, numpy.ufunc) or expression is None or len(node.args) > 2:
            raise _UnknownError
        texts = [self._text(one) for one in node.args]
        return expression.format(a=texts[0], b=texts[-1])
