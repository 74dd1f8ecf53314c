"""Running sums: each line in order, in double where its numbers are not."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import BYTES, Val
from pullback.compiled.llvm.words import can_cast
from pullback.compiled.lower.rules import FLOATING, NotLowered, lower
from pullback.operators.reduce import scan


def _scanned(b: Builder, input: Val, dim: int, *, back: bool) -> Val:
    if not input.shape or input.dtype not in (*FLOATING, "i8"):
        raise NotLowered
    x = b.copy(input) if b.strip(input).op in ("const", "iota") else input
    return b.make("scan", (x,), (dim % len(x.shape), back), x.shape, x.dtype)


@lower(scan.cumsum, stored=True)
def _cumsum(b: Builder, input: Val, dim: int, dtype: Any) -> Val:
    wanted = input.dtype if input.dtype in FLOATING else "i8"
    if dtype is not None:
        given = dtype.numpy
        wanted = f"{given.kind}{given.itemsize}"
    if wanted not in BYTES or input.dtype not in BYTES or not can_cast(input.dtype, wanted):
        raise NotLowered
    return _scanned(b, b.ew("cast", input, dtype=wanted), dim, back=False)


@lower(scan.reverse_cumsum, stored=True)
def _reverse_cumsum(b: Builder, input: Val, dim: int) -> Val:
    return _scanned(b, input, dim, back=True)
