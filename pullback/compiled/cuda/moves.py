"""Kernels that are no groups: parts put together, sums of padded parts, sums that keep rows."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.cuda.launch import BLOCK, Launch, how, index_type
from pullback.compiled.ir.in_c import TYPES, number
from pullback.compiled.ir.values import Val
from pullback.compiled.plan.plan import Plan
from pullback.compiled.plan.stages import start_of

__all__ = ["cat_kernels", "pad_kernels", "padsum_kernels", "reduce_kernels"]

_FEW = 8192  # results, below which a block each adds up
_PARTS = 200  # of a launch: its arguments must fit 4 kB


def _at(index: str, dims: list[tuple[int, int]], off: int = 0) -> str:
    """A place in memory, from a number that counts through (size, stride) in row-major order."""
    terms = [str(off)] if off else []
    step = math.prod(n for n, _ in dims)
    for n, s in dims:
        step //= n
        if s and n > 1:
            one = index if step == 1 else f"{index} / {step}"
            terms.append(f"({one} % {n}) * {s}")
    return " + ".join(terms) or "0"


def _kernel(name: str, given: str, size: int, lines: list[str]) -> str:
    i = index_type(size)
    head = f'extern "C" __global__ void {name}({given}) {{'
    begin = [f"  const {i} i = blockIdx.x * ({i})blockDim.x + threadIdx.x;",
             f"  if (i >= {size}) return;"]  # fmt: skip
    return "\n".join([head, *begin, *lines, "}"])


def _copied(plan: Plan, name: str, v: Val, x: Val, offset: int, strides: Any) -> tuple[str, Launch]:
    """`x` written into the memory of `v` at (offset, strides)."""
    kind = TYPES[v.dtype]
    slots: tuple[int, ...]
    source = list(zip(x.shape, x.strides, strict=True))
    target = list(zip(x.shape, strides, strict=True))
    if x.base.op == "const":
        value, slots = number(x.base.attr[0], x.dtype), (plan.slot[v.id],)
        given = f"{kind}* b"
    else:
        value, slots = f"a[{_at('i', source, x.off)}]", (plan.slot[x.base.id], plan.slot[v.id])
        given = f"{kind}* a, {kind}* b"
    text = _kernel(name, given, x.size, [f"  b[{_at('i', target, offset)}] = {value};"])
    return text, Launch(name, (-(-x.size // BLOCK),), BLOCK, slots)


def _cleared(plan: Plan, name: str, v: Val) -> tuple[str, Launch]:
    text = _kernel(name, f"{TYPES[v.dtype]}* b", v.size, ["  b[i] = 0;"])
    return text, Launch(name, (-(-v.size // BLOCK),), BLOCK, (plan.slot[v.id],))


def cat_kernels(plan: Plan, name: str, v: Val) -> list[tuple[str, Launch]]:
    """A copy for each part."""
    made, at = [], 0
    for n, x in enumerate(v.ins):
        offset = at * v.strides[v.attr]
        made.append(_copied(plan, f"{name}_{n}", v, x, offset, v.strides))
        at += x.shape[v.attr]
    return made


def pad_kernels(plan: Plan, name: str, v: Val) -> list[tuple[str, Launch]]:
    """Zeros with a part written over them."""
    offset, strides = v.attr
    return [
        _cleared(plan, f"{name}_0", v),
        _copied(plan, f"{name}_1", v, v.ins[0], offset, strides),
    ]


def padsum_kernels(plan: Plan, name: str, v: Val) -> list[tuple[str, Launch]]:
    """Zeros, and short rows added at their places, one after the other."""
    made = [_cleared(plan, f"{name}_0", v)]
    kind = TYPES[v.dtype]
    parts = list(zip(v.ins, v.attr, strict=True))
    for start in range(0, len(parts), _PARTS):
        lines, slots = [], [plan.slot[v.id]]
        for x, (offset, _) in parts[start : start + _PARTS]:
            if x.base.op == "const":
                value = number(x.base.attr[0], x.dtype)
            else:
                slot = plan.slot[x.base.id]
                if slot not in slots[1:]:
                    slots.append(slot)
                value = f"a{slots.index(slot, 1)}[{x.off} + i]"
            lines.append(f"  if (i < {x.size}) b[{offset} + i] += {value};")
            lines.append("  __syncthreads();")
        names = ", ".join([f"{kind}* b", *(f"{kind}* a{n}" for n in range(1, len(slots)))])
        called = f"{name}_{1 + start // _PARTS}"
        head = f'extern "C" __global__ void {called}({names}) {{\n  const int i = threadIdx.x;'
        made.append(("\n".join([head, *lines, "}"]), Launch(called, (1,), 64, tuple(slots))))
    return made


def reduce_kernels(plan: Plan, name: str, v: Val) -> list[tuple[str, Launch]]:
    """A reduction of what lies in memory, whatever stays: a thread or a block for each result."""
    (x,) = v.ins
    kept = [(n, s) for d, (n, s) in enumerate(zip(x.shape, x.strides, strict=True))
            if d not in v.attr]  # fmt: skip
    over = [(x.shape[d], x.strides[d]) for d in v.attr]
    count, kind, i = math.prod(n for n, _ in over), TYPES[v.dtype], index_type(x.base.size)
    by_block = v.size < _FEW and count >= 64
    first, step = ("threadIdx.x", "blockDim.x") if by_block else ("0", "1")
    lines = [
        f"  const {i} from = {_at('i', kept, x.off)};",
        f"  {kind} x = {number(start_of(v), v.dtype)};",
        f"  for ({i} k = {first}; k < {count}; k += {step})",
        f"    x = both({how(v)}(), x, a[from + {_at('k', over)}]);",
    ]
    given, slots = f"{kind}* a, {kind}* b", (plan.slot[x.base.id], plan.slot[v.id])
    if not by_block:
        text = _kernel(name, given, v.size, [*lines, "  b[i] = x;"])
        return [(text, Launch(name, (-(-v.size // BLOCK),), BLOCK, slots))]
    head = f'extern "C" __global__ void {name}({given}) {{\n  const {i} i = blockIdx.x;'
    lines += [f"  x = of_block<{how(v)}>(x);", "  if (threadIdx.x == 0) b[i] = x;"]
    return [("\n".join([head, *lines, "}"]), Launch(name, (v.size,), BLOCK, slots))]
