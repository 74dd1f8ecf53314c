"""Helpers of classes that wrap tensors: taking them apart, and results that keep torch's promises.

Found by users in `utils._python_dispatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback.core.tensor import Tensor

__all__ = [
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor's class can take it apart into the tensors that it wraps, and put together.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils._python_dispatch import is_traceable_wrapper_subclass
        >>> is_traceable_wrapper_subclass(torch.ones(2))
        False
    """
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class has `__tensor_flatten__` and `__tensor_unflatten__`."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any,
    callback: Callable[[str, Any], Any],
    outer_size: Sequence[int] | None = None,
    outer_stride: Sequence[int] | None = None,
) -> Any:
    """The wrapper with each inner tensor replaced by `callback(attribute, tensor)`."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if tuple(made.shape) != tuple(size):
        raise AssertionError(
            f"{type(t).__name__}.__tensor_unflatten__ gave shape {tuple(made.shape)}, but was "
            f"asked for {tuple(size)}; make the wrapper with the outer_size that it is given."
        )
    return made


def return_and_correct_aliasing(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, out: Any
) -> Any:
    """What a `__torch_dispatch__` returns: of operators that write, the written wrapper itself.

    A view of a wrapper is known as one by its operator, so nothing has to be done for it.
    """
    schema = func._schema
    given = dict(kwargs or {})
    written = []
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if argument.name in given:
            written.append(given[argument.name])
        elif place < len(args):
            written.append(args[place])
    if not written:
        return out
    return written[0] if len(written) == 1 else tuple(written)
