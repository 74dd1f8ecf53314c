"""Torch's oldest ways to make tensors: `Tensor(2, 3)`, `LongTensor([1, 2])`, `x.new(2)`.

Their own file because nothing else is built on them; many programs still use them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import origin, overriding
from pullback.core.device import CPU, DeviceLike, as_device, require_available
from pullback.core.dtype import (
    NumpyDtype,
    default,
    from_numpy_dtype,
    named_dtype,
    set_default_dtype,
)
from pullback.core.layout import layout, strided
from pullback.core.mode import get_mode
from pullback.core.process.determinism import fill_unwritten, wish
from pullback.core.size import Size
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.data import copied, is_sequence, tensor
from pullback.operators.create.factory import allocated, shape_argument
from pullback.operators.create.sizes import empty
from pullback.operators.declare import METHODS
from pullback.operators.tensor.convert import TYPE_NAMES, type_name

FOUND_IN = {
    "torch": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor ComplexDoubleTensor
        ComplexFloatTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
        ShortTensor set_default_tensor_type typename UInt16Tensor UInt32Tensor UInt64Tensor
    """
}


def _made(
    op: str,
    args: tuple[Any, ...],
    dtype: NumpyDtype,
    device: DeviceLike | None,
    size: Any = None,
    *,
    of_any_dtype: bool = False,
) -> Tensor:
    """Ints are a size, whose elements are not set; a sequence or array is data, a tensor stays."""
    require_available(as_device(device))
    if size is not None:
        if args or not isinstance(size, tuple | list):
            raise TypeError(f"{op}(): size= takes a sequence of ints, and nothing goes with it.")
        args = (Size(size),)
    if not args:
        return wrap(numpy.empty(0, dtype))
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype.numpy != dtype and not of_any_dtype:
            raise TypeError(
                f"{op}(): takes a tensor of its own dtype only, got {args[0].dtype}. Use "
                ".to(dtype)."
            )
        seen: Tensor = args[0].as_subclass(Tensor)
        return seen
    data = len(args) == 1 and not isinstance(args[0], Size)
    if data and (is_sequence(args[0]) or isinstance(args[0], numpy.ndarray)):
        if get_mode().dispatch:  # modes answer for the functions that make tensors
            return tensor(args[0], dtype=from_numpy_dtype(dtype))
        return wrap(copied(op, args[0], dtype))
    if get_mode().dispatch:
        return empty(shape_argument(op, args), dtype=from_numpy_dtype(dtype))
    result = wrap(allocated(op, numpy.empty, shape_argument(op, args), dtype))
    return fill_unwritten(result) if wish.fills else result


def _new_tensor(
    cls: type[Tensor], /, *args: Any, size: Any = None, device: DeviceLike | None = None
) -> Tensor:
    """Called as `Tensor(2, 3)` (a size) or `Tensor([2, 3])` (data), in the default dtype."""
    made = _made("Tensor", args, default.numpy, device, size, of_any_dtype=True)
    if cls is Tensor:
        return made
    overriding.arrive(cls)
    result: Tensor = overriding.become(made, cls)
    return result


def _new_method(
    self: Tensor, *args: Any, size: Any = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of this one's dtype: ints are a size, a sequence is data.

    >>> import pullback as torch
    >>> torch.tensor([1.0]).new([2, 3])
    tensor([2., 3.])
    """
    return _made("new", args, self.dtype.numpy, device, size)


METHODS["new"] = _new_method


class TypedTensor(type):
    """The type of the types that make tensors of one dtype; `isinstance` compares dtypes."""

    dtype_name: str
    type_name: str

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        """A type by itself: nothing inherits from it."""
        if bases:
            raise TypeError(
                f"class {name}: {bases[0].__name__} makes tensors and is no class of them; inherit "
                "from torch.Tensor."
            )
        return super().__new__(mcs, name, bases, members)

    def __call__(cls, *args: Any, size: Any = None, device: DeviceLike | None = None) -> Tensor:
        """A tensor of the type's dtype: ints are a size, a sequence is data."""
        return _made(cls.__name__, args, named_dtype(cls.dtype_name).numpy, device, size)

    def __instancecheck__(cls, instance: Any) -> bool:
        plain = isinstance(instance, Tensor) and instance._layout is None
        return plain and instance.device == CPU and instance.dtype._name == cls.dtype_name

    @property
    def layout(cls) -> layout:
        """The layout of the tensors that it makes."""
        return strided

    @property
    def dtype(cls) -> Any:
        """The dtype of the tensors that it makes."""
        return named_dtype(cls.dtype_name)


def _typed(dtype_name: str, name: str) -> TypedTensor:
    members = {
        "__doc__": f"""Makes {dtype_name} tensors: ints are a size, a sequence is data.

        >>> import pullback as torch
        >>> torch.{name}Tensor([1, 0]).dtype
        torch.{dtype_name}
        """,
        "__module__": "pullback",
        "dtype_name": dtype_name,
        "type_name": f"torch.{name}Tensor",
    }
    made: TypedTensor = TypedTensor(f"{name}Tensor", (), members)
    return made


globals().update({f"{name}Tensor": _typed(of, name) for of, name in TYPE_NAMES.items()})


def set_default_tensor_type(t: Any, /) -> None:
    """Choose the default dtype by the class of its tensors, or by that class's name.

    Deprecated: `set_default_dtype` does the same.

    >>> import warnings
    >>> import pullback as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.set_default_tensor_type(torch.DoubleTensor)
    >>> torch.ones(1).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    if isinstance(t, str):
        name = t.removeprefix("torch.")
        kind = globals().get(name) if t.startswith("torch.") else None
        if not isinstance(kind, TypedTensor):
            raise TypeError(f"set_default_tensor_type: {t!r} names no type of tensors on the CPU.")
        t = kind
    known = isinstance(t, TypedTensor) and t.layout is strided
    if not known or not t.dtype.is_floating_point:
        raise TypeError(
            f"set_default_tensor_type: takes a class of floating-point tensors, got {t!r}; "
            "set_default_dtype takes a dtype."
        )
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated: use set_default_dtype for the dtype, and "
        "set_default_device for the device.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )
    set_default_dtype(t.dtype)


def typename(obj: Any) -> str:
    """The name of an object's type; of a tensor, the old name of its type.

    Example:
        >>> import pullback as torch
        >>> torch.typename(torch.ones(1))
        'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return type_name(obj)
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


# Special methods, attached by methods.py.
DUNDERS: dict[str, Callable[..., Any]] = {"__new__": _new_tensor}
