"""Linear algebra from before torch.linalg: two norms that still answer, and what is gone.

Functions that torch has dropped raise RuntimeError there, and here, where a name that does not
exist would be an AttributeError; each says what has taken its place.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pullback.operators.linalg.matrix_functions import matrix_norm
from pullback.operators.options import numpy_spelled
from pullback.operators.reduce.norms import vector_norm
from pullback.operators.variants import named

FOUND_IN = {"torch": "eig frobenius_norm lstsq matrix_rank nuclear_norm solve symeig"}


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False, *, out: Any = None) -> Any:
    """The sum of the singular values of matrices: `linalg.matrix_norm(input, "nuc")`.

    >>> import pullback as torch
    >>> torch.nuclear_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    if isinstance(dim, bool):  # torch has a form without dim, whose second argument is keepdim
        dim, keepdim = (-2, -1), dim
    return matrix_norm(input, "nuc", dim, keepdim, out=out)


@numpy_spelled
def frobenius_norm(input: Any, dim: Any, keepdim: bool = False, *, out: Any = None) -> Any:
    """The root of the sum of squares over one or two dimensions, or over all if none is named.

    >>> import pullback as torch
    >>> torch.frobenius_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), (0, 1))
    tensor(5.)
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"frobenius_norm: dim names 2 dimensions at most, got {dims}.")
    return vector_norm(input, 2, dims or None, keepdim, out=out)


def _dropped(name: str, instead: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torch.{name} is gone since torch 1.13. Use {instead}.")

    return named(
        name,
        refuse,
        f"""Gone from torch; refuses. Use {instead}.

        >>> import pullback as torch
        >>> torch.{name}(torch.eye(2))
        Traceback (most recent call last):
        RuntimeError: torch.{name} is gone since torch 1.13. Use {instead}.
        """,
    )


eig = _dropped("eig", "torch.linalg.eig, whose eigenvalues are complex numbers")
symeig = _dropped("symeig", "torch.linalg.eigh, or eigvalsh for the eigenvalues alone")
lstsq = _dropped("lstsq", "torch.linalg.lstsq(A, B), with the matrices the other way round")
solve = _dropped("solve", "torch.linalg.solve(A, B), with the matrices the other way round")
matrix_rank = _dropped("matrix_rank", "torch.linalg.matrix_rank, with hermitian for symmetric")
