"""What linear algebra asks of its input, and the error for matrices without an answer."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import Array
from pullback.core.dtype import OF_NUMBERS, from_numpy_dtype
from pullback.core.forward import LEVELS
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.operators.pointwise.arithmetic import conj
from pullback.operators.running.inplace import check_out_dtype, check_target, write_out

FOUND_IN = {"linalg": "LinAlgError"}


# What numbers of other types have too: operators/numbers/elimination.py.
_BY_ELIMINATION = frozenset(
    ("linalg.det", "linalg.inv", "linalg.inv_ex", "linalg.solve", "linalg.solve_ex")
)


class LinAlgError(RuntimeError):
    """A matrix has no answer: it is singular, not positive-definite, or an iteration failed.

    >>> import pullback as torch
    >>> issubclass(torch.linalg.LinAlgError, RuntimeError)
    True
    """


def check_floating(op: str, array: Array) -> None:
    """Refuse whole numbers, and floats of two bytes, which LAPACK does not have."""
    if array.dtype.char in "fdFD":
        return
    dtype = from_numpy_dtype(array.dtype)
    if array.dtype.char == OF_NUMBERS:
        if op in _BY_ELIMINATION:
            return
        raise NotImplementedError(
            f"{op} has no meaning for numbers of type {array.dtype.written}: it is computed by "
            "LAPACK, in floating point. Convert with .to(torch.float64) first."
        )
    if array.dtype.kind in "fV":
        raise NotImplementedError(f"{op}: not defined for {dtype}; convert to float32 first.")
    raise RuntimeError(
        f"{op}: needs floating-point or complex matrices, got {dtype}; convert, e.g. with "
        ".double()."
    )


def check_matrices(op: str, array: Array, name: str = "A") -> None:
    """Refuse what has no rows and columns, or no floating-point dtype."""
    if array.ndim > 1 and array.dtype.char in "fdFD":
        return
    if array.ndim < 2:
        raise RuntimeError(
            f"{op}: {name} must have at least 2 dimensions (its matrices are the last two), got "
            f"shape {tuple(array.shape)}."
        )
    check_floating(op, array)


def check_square(op: str, array: Array, name: str = "A") -> None:
    """Refuse anything but square matrices."""
    shape = array.shape
    if len(shape) > 1 and shape[-1] != shape[-2]:
        raise RuntimeError(
            f"{op}: {name} must be square matrices, got {shape[-2]} by {shape[-1]} (shape {shape})."
        )
    check_matrices(op, array, name)


def check_same_dtype(op: str, a: Array, b: Array, names: str = "A and B") -> None:
    """Refuse operands of two dtypes."""
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        raise RuntimeError(
            f"{op}: {names} must have one dtype, got {from_numpy_dtype(a.dtype)} and "
            f"{from_numpy_dtype(b.dtype)}; convert one of them."
        )


def place(info: Array) -> tuple[str, int]:
    """Where a batch failed first, in words, and the number that says why."""
    if info.ndim == 0:
        return "", int(info)
    at = tuple(int(i[0]) for i in (info != 0).nonzero())
    shown = at[0] if len(at) == 1 else at
    return f" (matrix {shown} of the batch)", int(info[at])


def adjoint(matrix: Any) -> Any:
    """The conjugate transpose of arrays and tensors; for rules."""
    return conj(matrix).mT


def absent(g: Any) -> bool:
    """Whether a gradient is but the zeros that stand in for an output that nobody used."""
    if type(g) is Tensor:  # a batch shows one example alone, so it does not count
        return g._node is None and not LEVELS and not g._array.any()
    return not isinstance(g, Tensor) and not g.any()


# Functions made of operators that convert their result to the dtype of `out=`; the others want
# their own. That is how torch has it, with no rule that one could see.
CONVERTED = frozenset(
    (
        *("cholesky", "cholesky_inverse", "cholesky_solve", "diff", "geqrf", "lu", "normalize"),
        *("linalg.cond", "linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.lstsq"),
        *("linalg.householder_product", "linalg.matrix_rank", "linalg.pinv", "linalg.svd"),
        *("linalg.tensorinv", "linalg.tensorsolve", "orgqr", "pinverse", "svd"),
    )
)


def delivered_all(op: str, results: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
    """Several results, in the tensors given as `out` where the user gave some."""
    if out is None:
        return results
    if not isinstance(out, tuple | list) or len(out) != len(results):
        raise TypeError(f"{op}(): argument `out` must be {len(results)} Tensors.")
    for result, target in zip(results, out, strict=True):
        check_target(op, target, result._array)
        if op not in CONVERTED:
            check_out_dtype(op, target, result._array)
        if result.requires_grad or (getattr(target, "requires_grad", False) and get_mode().grad):
            raise errors.out_requires_grad(op)
    for result, target in zip(results, out, strict=True):
        write_out(op, target, result._array)
    return type(results)(out)


def check_batches(op: str, a: Any, b: Any) -> None:
    """Stacks of matrices that go together, one with one or one with all."""
    first, second = tuple(a.shape[:-2]), tuple(b.shape[:-2])
    try:
        numpy.broadcast_shapes(first, second)
    except ValueError:
        raise errors.shapes_do_not_broadcast(f"{op} (batch dimensions)", first, second) from None
