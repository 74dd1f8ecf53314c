"""Torch's oldest names of sparse tensors: `sparse.FloatTensor(indices, values, size)`.

Code for graphs from torch's first years makes its matrices so, and asks by `isinstance`.
"""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core import origin
from pullback.core.device import CPU, DeviceLike
from pullback.core.layout import layout, sparse_coo
from pullback.core.tensor import Tensor
from pullback.operators.create.legacy import TypedTensor
from pullback.operators.sparse.create import sparse_coo_tensor
from pullback.operators.tensor.convert import TYPE_NAMES

__all__ = ["TYPES"]

_NAMES = ("BFloat16", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")


class _SparseType(TypedTensor):
    """The type of the types that make sparse tensors, of coordinates."""

    def __call__(self, *args: Any, size: Any = None, device: DeviceLike | None = None) -> Tensor:
        warnings.warn(
            f"torch.sparse.{self.__name__}() is deprecated: use torch.sparse_coo_tensor(), which "
            "takes dtype= and device=.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
        if size is not None:
            args = (*args, size)
        if len(args) > 1 and isinstance(args[0], Tensor):  # these decide the dtype, as in torch
            return sparse_coo_tensor(*args, device=device)
        if len(args) == 1 and not isinstance(args[0], tuple):
            raise TypeError(
                f"sparse.{self.__name__}(): takes indices and values, or a size, not "
                f"{type(args[0]).__name__}. Use to_sparse() of a tensor."
            )
        shape = args[0] if args and isinstance(args[0], tuple) else args or (0,)
        return sparse_coo_tensor(shape, dtype=self.dtype, device=device)

    def __instancecheck__(self, instance: Any) -> bool:
        there = isinstance(instance, Tensor) and instance.device == CPU
        return there and instance.layout is sparse_coo and instance.dtype is self.dtype

    @property
    def layout(self) -> layout:
        """The layout of the tensors that it makes."""
        return sparse_coo


def _typed(name: str) -> _SparseType:
    of = next(of for of, short in TYPE_NAMES.items() if short == name)
    members = {
        "__doc__": f"Makes sparse {of} tensors of indices and values.",
        "__module__": "pullback.sparse",
        "dtype_name": of,
        "type_name": f"torch.sparse.{name}Tensor",
    }
    made: _SparseType = _SparseType(f"{name}Tensor", (), members)
    return made


TYPES = {f"{name}Tensor": _typed(name) for name in _NAMES}
