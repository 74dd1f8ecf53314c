"""A few eigenpairs of a large symmetric matrix, by iteration: `lobpcg`.

Knyazev's locally optimal block method: the best vectors within the span of the present ones, their
residuals and the last directions. Derivatives come from the equation that eigenpairs solve, by one
linear system for each of them, so they need no others.
"""
# ruff: noqa: N803, N806 (matrices, as torch names them)

from __future__ import annotations

import math
from typing import Any

import numpy

import pullback
from pullback.autograd.function import Function
from pullback.core.arrays import Array
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.sizes import eye, zeros_like

__all__ = ["lobpcg"]

_MOST = 1000  # iterations where none are said


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) eigenvalues of a symmetric `A`, and their vectors as columns.

    With `B`, of the problem A x = B x E. `X` is where to start, `iK` approximates the inverse of A
    near the wanted eigenvalues; `method` tells apart what is one here. Differentiable in A and B.

    >>> import pullback as torch
    >>> values, vectors = torch.lobpcg(torch.diag(torch.arange(9.0)), k=2)
    >>> values.round().tolist()
    [8.0, 7.0]
    """
    if tracker is not None or ortho_iparams or ortho_fparams or ortho_bparams:
        raise NotImplementedError(
            "lobpcg: tracker and ortho_*params belong to torch's own iteration and are not "
            "supported here; leave them out."
        )
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"lobpcg: A must be square, got shape {tuple(A.shape)}.")
    if not A.dtype.is_floating_point:
        raise RuntimeError(f"lobpcg: A must be real and floating point, got {A.dtype}.")
    count = n if n is not None else X.shape[-1] if X is not None else (1 if k is None else k)
    wanted = (1 if X is None else X.shape[-1]) if k is None else k
    rows = A.shape[-1]
    if rows < 3 * count or not 0 < wanted <= count:
        raise ValueError(
            f"lobpcg: a matrix of {rows} rows is too small for {count} vectors at a time, which "
            f"must be at least the {wanted} wanted; three times as many rows are needed. Use "
            "linalg.eigh."
        )
    start = pullback.randn(*A.shape[:-1], count, dtype=A.dtype) if X is None else X
    symmetric = (A + A.mT) / 2
    options = (
        *(start.detach(), iK if iK is None else iK.detach(), wanted),
        *(_MOST if niter is None else niter, tol, largest is None or largest),
    )
    values, vectors = _Eigenpairs.apply(symmetric, B, *options)
    return values, vectors


class _Eigenpairs(Function):
    """The iteration, and derivatives of what it finds."""

    @staticmethod
    def forward(ctx: Any, A: Any, B: Any, X: Any, iK: Any, *options: Any) -> Any:
        """Each matrix of the batch by itself."""
        a, x = A._array, X._array
        b, p = (None if one is None else one._array for one in (B, iK))
        rows = a.shape[-1]
        values, vectors = [], []
        for index in numpy.ndindex(a.shape[:-2]):
            found = _iterated(
                a[index],
                None if b is None else numpy.broadcast_to(b, a.shape)[index],
                numpy.broadcast_to(x, (*a.shape[:-2], *x.shape[-2:]))[index],
                None if p is None else numpy.broadcast_to(p, a.shape)[index],
                *options,
            )
            values.append(found[0])
            vectors.append(found[1])
        wanted = options[0]
        shape = a.shape[:-2]
        w = wrap(numpy.stack(values).reshape(*shape, wanted))
        v = wrap(numpy.stack(vectors).reshape(*shape, rows, wanted))
        ctx.save_for_backward(A, B, w, v)
        return w, v

    @staticmethod
    def backward(ctx: Any, of_values: Any, of_vectors: Any) -> Any:
        """From A u = l B u with u' B u = 1: one linear system for each pair."""
        A, B, values, vectors = ctx.saved_tensors
        metric = eye(A.shape[-1], dtype=A.dtype) if B is None else B
        of_a, of_b = zeros_like(A), zeros_like(A)
        for i in range(values.shape[-1]):
            u, g = vectors[..., i : i + 1], of_vectors[..., i : i + 1]
            value, dual = values[..., i, None, None], metric @ vectors[..., i : i + 1]
            system = A - value * metric + dual @ dual.mT
            y = pullback.linalg.solve(system, g - dual @ (u.mT @ g))
            change = of_values[..., i, None, None] * (u @ u.mT) - y @ u.mT
            of_a = of_a + change
            of_b = of_b - value * change - 0.5 * (u.mT @ g) * (u @ u.mT)
        of_a, of_b = ((one + one.mT) / 2 for one in (of_a, of_b))
        rest = (None,) * 6
        return of_a, (of_b.sum_to_size(B.shape) if B is not None else None), *rest


def _iterated(
    a: Array, b: Array | None, x: Array, preconditioner: Array | None,
    wanted: int, most: int, tol: float | None, largest: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Eigenvalues and vectors of one matrix."""
    tol = math.sqrt(numpy.finfo(a.dtype).eps) if tol is None else tol
    size = numpy.linalg.norm(a) + (0.0 if b is None else numpy.linalg.norm(b))
    directions: Array | None = None
    values, x = _best(a, b, _orthonormal(x, b), x.shape[1], largest=largest)
    for _ in range(most):
        scaled = (x if b is None else b @ x) * values
        residual = a @ x - scaled
        lengths = numpy.linalg.norm(residual, axis=0)
        if numpy.all(lengths[:wanted] <= tol * max(float(size), 1e-300) * 1e-3):
            break
        steps = residual if preconditioner is None else preconditioner @ residual
        parts = [x, steps] if directions is None else [x, steps, directions]
        basis = _orthonormal(numpy.concatenate(parts, axis=1), b)
        values, new = _best(a, b, basis, x.shape[1], largest=largest)
        dual = x if b is None else b @ x
        directions = new - x @ (dual.T @ new)
        x = new
    return values[:wanted].copy(), x[:, :wanted].copy()


def _orthonormal(vectors: Array, b: Array | None) -> Array:
    """A basis of the same span, orthonormal in the product of `b`, without what is too little."""
    lengths = numpy.linalg.norm(vectors, axis=0)
    vectors = vectors[:, lengths > 0] / lengths[lengths > 0]
    for _ in range(2):
        dual = vectors if b is None else b @ vectors
        weights, turn = numpy.linalg.eigh(vectors.T @ dual)
        kept = weights > weights[-1] * len(weights) * numpy.finfo(vectors.dtype).eps * 10
        vectors = vectors @ (turn[:, kept] / numpy.sqrt(weights[kept]))
    return vectors


def _best(
    a: Array, b: Array | None, basis: Array, count: int, *, largest: bool
) -> tuple[Array, Array]:
    """The eigenpairs of the matrix within the span of a basis, the wanted ones first."""
    values, turn = numpy.linalg.eigh(basis.T @ a @ basis)
    order = slice(None, None, -1) if largest else slice(None)
    return values[order][:count], basis @ turn[:, order][:, :count]
