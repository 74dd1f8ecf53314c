"""Sparse tensors, which there are none of: each way to make one says so, and what to do instead.

Names of torch's that would answer with an AttributeError, or worse with a dense tensor where a
program counts on a sparse one.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pullback.operators.declare import METHODS

__all__ = [
    *("sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor"),
    *("sparse_csc_tensor", "sparse_csr_tensor"),
]


def refusal(op: str) -> NotImplementedError:
    """What a program is told that asks for a sparse tensor or gradient."""
    return NotImplementedError(
        f"{op}: there are no sparse tensors here; every tensor and gradient is strided. Use a "
        "dense tensor (index_add_ and index_put_ write few elements of one), or sparse=False "
        "where an operator offers both."
    )


def _refused(name: str, what: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refused: {what} Raises NotImplementedError."
    return refuse


sparse_coo_tensor = _refused("sparse_coo_tensor", "a tensor of indices and values.")
sparse_csr_tensor = _refused("sparse_csr_tensor", "a matrix of compressed rows.")
sparse_csc_tensor = _refused("sparse_csc_tensor", "a matrix of compressed columns.")
sparse_bsr_tensor = _refused("sparse_bsr_tensor", "a matrix of compressed rows of blocks.")
sparse_bsc_tensor = _refused("sparse_bsc_tensor", "a matrix of compressed columns of blocks.")
sparse_compressed_tensor = _refused("sparse_compressed_tensor", "a compressed matrix.")

for _name in ("coo", "csr", "csc", "bsr", "bsc"):
    METHODS[f"to_sparse_{_name}"] = _refused(f"to_sparse_{_name}", "the sparse form of a tensor.")
METHODS["to_sparse"] = _refused("to_sparse", "the sparse form of a tensor.")
METHODS["sparse_mask"] = _refused("sparse_mask", "a tensor's values at a sparse tensor's places.")
