"""Methods of Tensor that mean something else for sparse tensors, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pullback.core.explain import layout_errors as errors
from pullback.core.layout import sparse_coo
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.core.view import edge_of
from pullback.operators.sparse import calls, convert, filled, pickling, shape
from pullback.operators.sparse.printing import describe
from pullback.operators.sparse.tensor import SparseTensor
from pullback.operators.tensor.pickling import as_copy, deepcopy_of_layout

__all__ = ["attach"]


def getitem(self: Any, key: Any) -> Any:
    """`x[key]`: ints, slices, None, `...` and 1-d index tensors, one dimension after the other."""
    items = key if isinstance(key, tuple) else (key,)
    named = sum(item is not None and item is not Ellipsis for item in items)
    dim = 0
    for item in items:
        if item is Ellipsis:
            dim += self.ndim - named
        elif item is None:
            self = shape.unsqueeze(self, dim)
            dim += 1
        elif isinstance(item, slice):
            if item != slice(None):
                self = shape.slice_along(self, dim, item.start, item.stop, item.step or 1)
            dim += 1
        elif isinstance(item, int):
            self = self.select(dim, item)
            named -= 1  # as the tensor has a dimension less
        elif isinstance(item, Tensor) and item.ndim == 1 and item.dtype.is_signed:
            self = self.index_select(dim, item)
            dim += 1
        else:
            raise errors.not_taken(f"indexing by {type(item).__name__}", self.layout)
    return self


def setitem(self: Any, key: Any, value: Any) -> NoReturn:
    """Refused, as in torch."""
    raise TypeError(
        f"assigning to x[...]: a tensor of layout {self.layout} has no memory for each element. "
        "Make another one of indices and values, or call to_dense() first."
    )


def iterate(self: Any) -> Any:
    """What stands at each index of the first dimension."""
    return iter(self.unbind(0))


def item(self: Any) -> Any:
    """The only element, as a Python number."""
    return self.to_dense().item()


def _strides(self: Any, dim: int | None = None) -> Any:
    if self._layout is not sparse_coo:
        raise errors.has_no("strides", self.layout)
    return (0,) * self.ndim if dim is None else 0


def _refused(what: str, kind: type[Exception] = TypeError) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise kind(
            f"{what}: tensors of layout {self.layout} are not taken. Call to_dense() on it first."
        )

    return refuse


def contiguous(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused, as in torch."""
    raise RuntimeError(
        f"contiguous: tensors of layout {self.layout} are not taken; values() of it are dense."
    )


def is_contiguous(self: Any, *args: Any, **kwargs: Any) -> bool:
    """False for coordinates; compressed tensors do not say, as in torch."""
    if self._layout is not sparse_coo:
        raise RuntimeError(
            f"is_contiguous: tensors of layout {self.layout} are not; ask their values()."
        )
    return False


def new(self: Any, *args: Any, device: Any = None) -> Any:
    """`x.new()`, `x.new(2, 3)` and `x.new(indices, values, size)`: coordinates of its dtype."""
    from pullback.operators.sparse.create import sparse_coo_tensor

    if self._layout is not sparse_coo:
        raise RuntimeError(f"new: of layout {self.layout} nothing is made by it.")
    if args and isinstance(args[0], Tensor):
        return sparse_coo_tensor(*args, dtype=self.dtype, device=device)
    if args and not isinstance(args[0], int | Size):
        raise TypeError("new: takes sizes, or indices and values.")
    size = args[0] if args and isinstance(args[0], Size) else args or (0,)
    return sparse_coo_tensor(size=size, dtype=self.dtype, device=device)


def transpose_(self: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions of coordinates swapped in place."""
    if self._layout is not sparse_coo:
        raise RuntimeError(f"transpose_: tensors of layout {self.layout} are not taken; use t().")
    made = self.transpose(dim0, dim1)
    calls.check_write(self, "transpose_", tracked=self.requires_grad)
    self._array.become(made._array)
    bump(self, "transpose_")
    if made.requires_grad:
        self._node = edge_of(made)
    return self


def nbytes(self: Any) -> int:
    """Refused, as in torch."""
    raise RuntimeError("nbytes: a sparse tensor has several parts; add those of its parts.")


# Copies ------------------------------------------------------------------------------------------

rebuilt = pickling.rebuilt  # where earlier pickles look for it


def _copy(self: Any) -> Any:
    return as_copy(self._alias(), self)


def attach() -> None:
    """Give the class of sparse tensors its own methods."""
    for name, function in _METHODS.items():
        setattr(SparseTensor, name, function)
    SparseTensor.nbytes = property(nbytes)  # type: ignore[method-assign, assignment]  # put there by this


_METHODS: dict[str, Any] = {
    "__copy__": _copy,
    "__deepcopy__": deepcopy_of_layout,
    "__getitem__": getitem,
    "__iter__": iterate,
    "__reduce_ex__": pickling.reduce,
    "__repr__": describe,
    "__setitem__": setitem,
    "__array__": _refused("a NumPy array"),
    "contiguous": contiguous,
    "copy_": filled.copy_,
    "data_ptr": _refused("data_ptr", RuntimeError),
    "expand": _refused("expand", RuntimeError),
    "is_contiguous": is_contiguous,
    "item": item,
    "new": new,
    "numpy": _refused("numpy"),
    "reshape": _refused("reshape", RuntimeError),
    "squeeze": shape.squeeze,
    "resize_": filled.resize_,
    "storage": _refused("storage", NotImplementedError),
    "stride": _strides,
    "t_": lambda self: transpose_(self, 0, 1),
    "to_dense": convert.to_dense,
    "tolist": _refused("tolist", RuntimeError),
    "transpose_": transpose_,
    "untyped_storage": _refused("untyped_storage", NotImplementedError),
    "view": _refused("view", NotImplementedError),
    "zero_": filled.zero_,
}
