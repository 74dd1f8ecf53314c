"""Kernels that are another program on a device than on the host; loaded with the library."""

from __future__ import annotations

from functools import cache

__all__ = ["load"]


@cache
def load() -> None:
    """Enter all of them, once."""
    from pullback.operators.cuda.overrides import (
        attention,
        convolutions,
        draws,
        factors,
        host,
        images,
        norms,
        products,
        rows,
        sums,
    )

    simple = sums, products, rows, norms, images, convolutions, attention, factors, draws, host
    for kernels in simple:
        kernels.enter()
