"""Solutions of sparse systems of equations, by SciPy's factorisation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy

from pullback.core.arrays import Array, Namespace
from pullback.installed import install_command
from pullback.operators.declare import primitive
from pullback.operators.pointwise.arithmetic import conj
from pullback.operators.sparse.primitives import _dots, _product

__all__: list[str] = []


@primitive(
    values=lambda g, values, out, pattern: (
        -_dots(_solved(conj(values), g, pattern.transposed), conj(out), pattern)
    ),
    right=lambda g, values, pattern: _solved(conj(values), g, pattern.transposed),
    jvp=lambda d_values, d_right, values, out, pattern: _solved(
        values, d_right - _product(d_values, out, pattern), pattern
    ),
    aten="",
    has_out=False,
    node="SpsolveBackward0",
)
def _solved(xp: Namespace, values: Array, right: Array, pattern: Any) -> Array:
    """The solution for a matrix of these values at a pattern's places."""
    try:
        scipy = import_module("scipy.sparse")
        factor = import_module("scipy.sparse.linalg").splu
    except ImportError:
        raise RuntimeError(
            f"sparse.spsolve: needs SciPy ({install_command('scipy')}), or call to_dense() and use "
            "linalg.solve."
        ) from None
    starts, columns, order = pattern.by_row
    rows = values if order is None else values[order]
    matrix = scipy.csr_array((rows, columns, starts), shape=pattern.shape).tocsc()
    try:
        made = factor(matrix).solve(numpy.ascontiguousarray(right))
    except RuntimeError as error:
        raise RuntimeError(f"sparse.spsolve: the matrix is singular ({error}).") from None
    return made
