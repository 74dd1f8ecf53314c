"""Tensors of a class of one's own: `as_subclass`, `_make_subclass`, `_make_wrapper_subclass`.

How such classes override calls is in core/overriding.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pullback.core import overriding
from pullback.core.device import CPU, DeviceLike, as_device
from pullback.core.dtype import dtype as dtype_type
from pullback.core.dtype import get_default_dtype
from pullback.core.layout import layout as layout_type
from pullback.core.layout import strided
from pullback.core.mode import get_mode
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, new
from pullback.core.version import INFERENCE_CELL, UNWRITTEN, own_cell
from pullback.operators.declare import method
from pullback.operators.shape.views import alias
from pullback.operators.tensor.asked_sizes import ask_class, check_policy

__all__: list[str] = []

T = TypeVar("T", bound=Tensor)


def _checked(op: str, cls: Any) -> None:
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        named = cls.__name__ if isinstance(cls, type) else type(cls).__name__
        raise TypeError(f"{op}: {named} is no subclass of Tensor; inherit from torch.Tensor.")


@method
def as_subclass(self: Tensor, cls: type[T]) -> T:
    """A tensor of class `cls` on the same memory, with the same place in the graph.

    >>> import pullback as torch
    >>> class Length(torch.Tensor):
    ...     pass
    >>> torch.ones(2).as_subclass(Length) * 2
    Length([2., 2.])
    """
    _checked("as_subclass", cls)
    if self._bits:
        self = self.clone()
    made: T = overriding.become(overriding.unasked(alias, self), cls)
    overriding.arrive(cls)
    return made


def make_subclass(
    cls: type[T],
    data: Tensor,
    require_grad: bool = False,
    *,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    device_for_backend_keys: DeviceLike | None = None,
) -> T:
    """A leaf of class `cls` on the memory and version counter of `data`."""
    _checked("_make_subclass", cls)
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass: data must be a Tensor, got {type(data).__name__}.")
    check_policy(dispatch_sizes_strides_policy)
    if data._bits:
        data = data.detach().clone()  # what is put off belongs to a class of ours
    made = new(cls)
    made._array = data._array
    made._node = None
    made._cell = own_cell(data)
    overriding.arrive(cls)
    if dispatch_sizes_strides_policy or dispatch_device or dispatch_layout:
        policy = dispatch_sizes_strides_policy
        ask_class(made, policy, device=dispatch_device, layout=dispatch_layout)
    if require_grad:
        made._set_requires_grad(True)
    return made


def make_wrapper_subclass(
    cls: type[T],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: dtype_type | None = None,
    layout: layout_type = strided,
    device: DeviceLike | None = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: int | None = None,
) -> T:
    """A leaf of class `cls` that has metadata and no data; operators ask its class.

    >>> import pullback as torch
    >>> class Named(torch.Tensor):
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         return torch.tensor(0.0)
    >>> made = torch.Tensor._make_wrapper_subclass(Named, (2, 3), dtype=torch.float64)
    >>> made.shape, made.dtype, made + 1
    (torch.Size([2, 3]), torch.float64, tensor(0.))
    """
    if not getattr(cls, "_overrides", 0) & overriding.DISPATCH:
        _checked("_make_wrapper_subclass", cls)
        raise TypeError(
            f"{cls.__name__} has no __torch_dispatch__, and a wrapper has no data: nobody could "
            "answer for it. Define __torch_dispatch__, or share data by _make_subclass."
        )
    if dispatch_sizes_strides_policy is not None:
        check_policy(dispatch_sizes_strides_policy)
    made = new(cls)
    made._array = ports.hollow(
        tuple(size),
        (get_default_dtype() if dtype is None else dtype).numpy,
        None if strides is None else tuple(strides),
        storage_offset or 0,
        CPU if device is None or device is CPU else as_device(device),
    )
    made._node = None
    made._cell = INFERENCE_CELL if get_mode().inference else UNWRITTEN
    if layout is not strided:
        vars(made)["_own_layout"] = layout
    if "_has_arrived" not in cls.__dict__:
        overriding.arrive(cls)
    if dispatch_sizes_strides_policy or dispatch_device or dispatch_layout:
        policy = dispatch_sizes_strides_policy
        ask_class(made, policy, device=dispatch_device, layout=dispatch_layout)
    if requires_grad:
        made._set_requires_grad(True)
    return made


# Of the class alone, attached by methods.py.
STATIC: dict[str, Callable[..., Any]] = {
    "_make_subclass": make_subclass,
    "_make_wrapper_subclass": make_wrapper_subclass,
}
