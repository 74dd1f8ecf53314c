"""Values of the array language as C: one loop nest for each value, buffers that do not move."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.in_c import TYPES, expression, number
from pullback.compiled.ir.values import EW, Val, contiguous

__all__ = ["c_texts"]


def c_texts(exported: Any, header_name: str) -> tuple[str, str]:
    """The source and its header."""
    writer = _Writer(exported)
    signature = writer.signature()
    guard = header_name.upper().replace(".", "_").replace("-", "_")
    notes = [f"   {name}: {TYPES[v.dtype]}, sizes {list(v.shape)}" for name, v in exported.inputs]
    notes += [f"   result_{n}: {TYPES[v.dtype]}, sizes {list(v.shape)}"
              for n, v in enumerate(exported.outputs)]  # fmt: skip
    header = "\n".join([f"#ifndef {guard}", f"#define {guard}", "", "/* Row-major arrays:", *notes,
                        "*/", f"{signature};", "", "#endif", ""])  # fmt: skip
    body = writer.body()
    source = "\n".join(['#include <math.h>', '#include <string.h>', f'#include "{header_name}"',
                        "", *writer.statics, "", f"{signature} {{", *body, "}", ""])  # fmt: skip
    return source, header


class _Writer:
    def __init__(self, exported: Any) -> None:
        self.exported = exported
        self.statics: list[str] = []
        self.names = {v.id: name for name, v in exported.inputs}
        self.inputs = {v.id for _, v in exported.inputs}
        for name, v, array in exported.constants:
            numbers = ", ".join(number(one, v.dtype) for one in array.reshape(-1).tolist())
            self.statics.append(f"static const {TYPES[v.dtype]} {name}[] = {{{numbers}}};")
            self.names[v.id] = name

    def signature(self) -> str:
        given = [f"const {TYPES[v.dtype]} *{name}" for name, v in self.exported.inputs]
        given += [f"{TYPES[v.dtype]} *result_{n}" for n, v in enumerate(self.exported.outputs)]
        return f"void program({', '.join(given)})"

    def body(self) -> list[str]:
        lines: list[str] = []
        for v in self.exported.values:
            if v.is_view or v.op in ("input", "const"):
                continue
            name = self.names[v.id] = f"v{v.id}"
            self.statics.append(f"static {TYPES[v.dtype]} {name}[{max(v.size, 1)}];")
            lines += self._value(v, name)
        for n, v in enumerate(self.exported.outputs):
            target = (f"result_{n}", 0, contiguous(v.shape))
            lines += _nest(v.shape, f"{_at(*target)} = {self._operand(v, len(v.shape))};")
        return lines

    def _operand(self, one: Val, ndim: int) -> str:
        """An element of a value, broadcast to a loop nest of `ndim` dimensions."""
        shown = one
        while shown.op == "expand":
            shown = shown.ins[0]
        if shown.op == "const":
            return number(shown.attr[0], shown.dtype)
        strides = one.strides
        if one.base.id in self.inputs or one.base.op == "input":
            # Callers pass row-major arrays, whatever strides the captured ones had.
            strides, off = _row_major(one)
        else:
            off = one.off
        pairs = zip(one.shape, strides, strict=True)
        padded = [0] * (ndim - len(one.shape)) + [0 if n == 1 else s for n, s in pairs]
        return _at(self.names[one.base.id], off, padded[len(padded) - ndim :] if ndim else [])

    def _value(self, v: Val, name: str) -> list[str]:
        own = contiguous(v.shape)
        if v.op in EW:
            read = [self._operand(one, len(v.shape)) for one in v.ins]
            return _nest(v.shape, f"{_at(name, 0, own)} = {expression(v, read)};")
        if v.op == "iota":
            return _nest(v.shape, f"{_at(name, 0, own)} = i0;")
        if v.op in ("sum", "max"):
            return self._reduced(v, name)
        if v.op == "dot":
            return self._product(v, name)
        lines = [f"  memset({name}, 0, sizeof {name});"]
        if v.op == "cat":
            at = 0
            for x in v.ins:
                here = _at(name, at * own[v.attr], own)
                lines += _nest(x.shape, f"{here} = {self._operand(x, len(x.shape))};")
                at += x.shape[v.attr]
            return lines
        parts = [v.attr] if v.op == "pad" else v.attr
        for x, (off, strides) in zip(v.ins, parts, strict=True):
            here = _at(name, off, strides)
            lines += _nest(x.shape, f"{here} += {self._operand(x, len(x.shape))};")
        return lines

    def _reduced(self, v: Val, name: str) -> list[str]:
        x = v.ins[0]
        own = [0 if d in v.attr else s for d, s in enumerate(contiguous(v.shape))]
        here, one = _at(name, 0, own), self._operand(x, len(x.shape))
        start = "0" if v.op == "sum" else "-INFINITY"
        lines = _nest(v.shape, f"{_at(name, 0, contiguous(v.shape))} = {start};")
        step = f"{here} += {one};" if v.op == "sum" else f"if (!({one} <= {here})) {here} = {one};"
        return lines + _nest(x.shape, step)

    def _product(self, v: Val, name: str) -> list[str]:
        a, b = v.ins
        batch = a.shape[:-2]
        if v.attr is None:
            strides = (*v.strides[:-2], v.strides[-2], v.strides[-1])
        else:
            strides = (*v.attr[0], v.attr[1], 1)
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        count = len(batch)
        loops = (*batch, m, n, k)
        sa = [*a.strides[:-2], a.strides[-2], 0, a.strides[-1]]
        sb = [*b.strides[:-2], 0, b.strides[-1], b.strides[-2]]
        left = _at(self.names[a.base.id], a.off, sa)
        right = _at(self.names[b.base.id], b.off, sb)
        for one in (a, b):
            if one.base.op == "input" and _row_major(one) != (one.strides, one.off):
                raise RuntimeError("Export with contiguous arguments: a product reads them.")
        assert len(loops) == count + 3
        here = _at(name, 0, [*strides, 0])
        clear = f"  memset({name}, 0, sizeof {name});"
        return [clear, *_nest(loops, f"{here} += {left} * {right};")]


def _row_major(one: Val) -> tuple[tuple[int, ...], int]:
    base = one.base
    if base.strides == contiguous(base.shape):
        return one.strides, one.off
    if one is base:
        return contiguous(base.shape), 0
    raise RuntimeError("Export with contiguous arguments: the function looks at views of them.")


def _nest(shape: Any, statement: str) -> list[str]:
    lines = []
    for d, n in enumerate(shape):
        pad = "  " * (d + 1)
        lines.append(f"{pad}for (long i{d} = 0; i{d} < {n}; i{d}++)")
    return [*lines, "  " * (len(shape) + 1) + statement]


def _at(name: str, off: int, strides: Any) -> str:
    terms = [f"i{d} * {s}" if s != 1 else f"i{d}" for d, s in enumerate(strides) if s]
    if off or not terms:
        terms.insert(0, str(off))
    return f"{name}[{' + '.join(terms)}]"
