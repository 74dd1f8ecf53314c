"""Values of the array language as NumPy source."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.ir.values import EW, Val

__all__ = ["python_text"]

_HEAD = '''"""{what}

Made from a captured program; needs NumPy alone.
"""

import math

import numpy as np
from numpy.lib.stride_tricks import as_strided


def _view(array, offset, shape, strides):
    flat = np.ascontiguousarray(array).reshape(-1)[offset:]
    return as_strided(flat, shape, [s * array.itemsize for s in strides], writeable=False)


def _pad(shape, dtype, parts):
    whole = np.zeros(shape, dtype)
    flat = whole.reshape(-1)
    for part, offset, strides in parts:
        place = as_strided(flat[offset:], part.shape, [s * flat.itemsize for s in strides])
        place += part
    return whole


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _log_gamma(x):
    try:
        return math.lgamma(x)
    except ValueError:  # at 0 and below, whole numbers
        return math.inf


_lgamma = np.vectorize(_log_gamma, otypes=[np.float64])

'''
_WORDS = {
    "abs": "np.abs({0})", "add": "{0} + {1}", "and": "{0} & {1}", "ceil": "np.ceil({0})",
    "copysign": "np.copysign({0}, {1})", "cos": "np.cos({0})", "div": "{0} / {1}",
    "eq": "{0} == {1}", "erf": "_erf({0}).astype({0}.dtype)", "exp": "np.exp({0})",
    "expm1": "np.expm1({0})", "floor": "np.floor({0})", "ge": "{0} >= {1}", "gt": "{0} > {1}",
    "le": "{0} <= {1}", "log": "np.log({0})", "log1p": "np.log1p({0})", "lt": "{0} < {1}",
    "maximum": "np.maximum({0}, {1})", "minimum": "np.minimum({0}, {1})", "mul": "{0} * {1}",
    "ne": "{0} != {1}", "neg": "-{0}", "not": "~{0}", "or": "{0} | {1}", "recip": "1 / {0}",
    "rint": "np.rint({0})", "rsqrt": "1 / np.sqrt({0})", "sigmoid": "1 / (1 + np.exp(-{0}))",
    "sign": "np.sign({0})", "sin": "np.sin({0})", "sqrt": "np.sqrt({0})", "sub": "{0} - {1}",
    "tanh": "np.tanh({0})", "trunc": "np.trunc({0})", "where": "np.where({0}, {1}, {2})",
    "xor": "{0} ^ {1}", "copy": "np.array({0})",
    "acos": "np.arccos({0})", "acosh": "np.arccosh({0})", "asin": "np.arcsin({0})",
    "asinh": "np.arcsinh({0})", "atan": "np.arctan({0})", "atan2": "np.arctan2({0}, {1})",
    "atanh": "np.arctanh({0})", "cosh": "np.cosh({0})", "erfc": "_erfc({0}).astype({0}.dtype)",
    "exp2": "np.exp2({0})", "fmod": "np.fmod({0}, {1})", "hypot": "np.hypot({0}, {1})",
    "lgamma": "_lgamma({0}).astype({0}.dtype)", "log10": "np.log10({0})", "log2": "np.log2({0})",
    "pow": "np.power({0}, {1})", "sinh": "np.sinh({0})",
}  # fmt: skip


def _dtype(v: Val) -> str:
    return "np.bool_" if v.dtype == "b1" else f"np.{numpy.dtype(v.dtype).name}"


def python_text(exported: Any) -> str:
    """The module's text."""
    lines = [_HEAD.format(what="A program: arrays in, a list of arrays out.")]
    for name, _, array in exported.constants:
        lines.append(f"{name} = np.array({array.tolist()!r}, np.{array.dtype.name})")
    names = {v.id: name for name, v in exported.inputs}
    names |= {v.id: name for name, v, _ in exported.constants}
    lines += ["", "", f"def program({', '.join(name for name, _ in exported.inputs)}):",
              '    """Inputs:', ""]  # fmt: skip
    lines += [f"    {name}: {v.dtype}{list(v.shape)}" for name, v in exported.inputs]
    lines.append('    """')
    lines.append("    with np.errstate(all='ignore'):")
    for v in exported.values:
        if v.op in ("input", "const"):
            continue
        names[v.id] = f"v{v.id}"
        origin = f"  # {v.origin}" if v.origin is not None else ""
        lines.append(f"        v{v.id} = {_expression(v, names)}{origin}")
    results = ", ".join(_named(v, names) for v in exported.outputs)
    lines.append(f"    return [np.array(one) for one in [{results}]]")
    return "\n".join(lines) + "\n"


def _named(v: Val, names: dict[int, str]) -> str:
    if v.op == "const":
        number = v.attr[0]
        text = "math.nan" if number == "nan" else repr(number)
        text = text.replace("inf", "math.inf")
        return f"{_dtype(v)}({text})"
    return names[v.id]


def _expression(v: Val, names: dict[int, str]) -> str:
    read = [_named(one, names) for one in v.ins]
    if v.op in ("expand", "view"):
        return _seen(v, read[0])
    if v.op == "cast":
        return f"{read[0]}.astype({_dtype(v)})"
    if v.op == "powi":
        return f"{read[0]} ** {v.attr}"
    if v.op in EW:
        return _WORDS[v.op].format(*(f"({one})" if one.startswith("-") else one for one in read))
    if v.op in ("sum", "max"):
        return f"np.{v.op}({read[0]}, {v.attr}, keepdims=True)"
    if v.op == "iota":
        return f"np.arange({v.attr})"
    if v.op == "cat":
        return f"np.concatenate([{', '.join(read)}], {v.attr})"
    if v.op == "dot":
        return _product(v, read)
    parts = [v.attr] if v.op == "pad" else v.attr
    listed = ", ".join(
        f"({x}, {off}, {strides})" for x, (off, strides) in zip(read, parts, strict=True)
    )
    return f"_pad({v.shape}, {_dtype(v)}, [{listed}])"


def _seen(v: Val, source: str) -> str:
    x = v.ins[0]
    if v.op == "expand":
        if x.size == 1:
            return f"np.broadcast_to(np.reshape({source}, ()), {v.shape})"
        return f"np.broadcast_to({source}, {v.shape})"
    if x.is_view or x.op == "input":
        # Geometry counts from the base; here each value is an array of its own.
        order = _relative(v, x)
        if order is not None:
            return order.format(source)
        raise RuntimeError("A view of a view that slices and transposes at once; add a clone().")
    return f"_view({source}, {v.off}, {v.shape}, {v.strides})"


def _relative(v: Val, x: Val) -> str | None:
    """A view in terms of the array that it looks at, which may lie in any order."""
    if v.size == x.size and v.off == x.off and _squeezed(v) == _squeezed(x):
        return f"np.reshape({{0}}, {v.shape})"
    if sorted(zip(v.shape, v.strides, strict=True)) == sorted(zip(x.shape, x.strides, strict=True)):
        order, left = [], list(zip(x.shape, x.strides, strict=True))
        for pair in zip(v.shape, v.strides, strict=True):
            place = left.index(pair)
            left[place] = None  # type: ignore[call-overload]  # taken
            order.append(place)
        if v.off == x.off:
            return f"np.transpose({{0}}, {order})"
    return _sliced(v, x)


def _squeezed(v: Val) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for n, s in zip(v.shape, v.strides, strict=True):
        if n == 1:
            continue
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    return merged


def _sliced(v: Val, x: Val) -> str | None:
    """A slice of each dimension in turn, dimensions of length 1 aside."""
    rest, starts = v.off - x.off, [0] * len(x.shape)
    for d in sorted(range(len(x.shape)), key=lambda d: -x.strides[d]):
        if x.strides[d] and x.shape[d] > 1:
            starts[d] = min(rest // x.strides[d], x.shape[d] - 1)
            rest -= starts[d] * x.strides[d]
    if rest:
        return None
    wanted = [(n, s) for n, s in zip(v.shape, v.strides, strict=True) if n != 1]
    keys = []
    for d, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)):
        if (
            wanted
            and s
            and wanted[0][1] % s == 0
            and (starts[d] + (wanted[0][0] - 1) * (wanted[0][1] // s) < n)
        ):
            count, stride = wanted.pop(0)
            step = stride // s
            keys.append(f"{starts[d]}:{starts[d] + (count - 1) * step + 1}:{step}")
        else:
            keys.append(f"{starts[d]}:{starts[d] + 1}")
    if wanted:
        return None
    return f"{{0}}[{', '.join(keys) or '...'}].reshape({v.shape})"


def _product(v: Val, read: list[str]) -> str:
    made = f"np.matmul({read[0]}, {read[1]})"
    if v.attr is None:
        return made
    strides, lead, *_ = v.attr
    parts = f"({made}, 0, {(*strides, lead, 1)})"
    return f"_pad({v.shape}, {_dtype(v)}, [{parts}])"
