"""`torch._utils`: how files and other processes make tensors again, and small things for all."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import pullback
from pullback.core.tensor import Tensor
from pullback.serialization.names import known_global
from pullback.serialization.storages import LoadedStorage

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """An exception of another thread or process, with its traceback as text.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError:
    ...     caught = ExceptionWrapper(where="in worker 3")
    >>> caught.reraise()
    Traceback (most recent call last):
    ...
    ZeroDivisionError: in worker 3:
    ...
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, *rest = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, *rest))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise it here; as a RuntimeError where its class cannot be made from a text."""
        text = f"{self.where}:\n{self.exc_msg}"
        try:
            error = (self.exc_type or RuntimeError)(text)
        except Exception:
            raise RuntimeError(text) from None
        raise error


def _element_size(dtype: Any) -> int:
    """The bytes of one element."""
    return int(dtype.itemsize)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device that is given by number, name or itself; -1 for the CPU."""
    if isinstance(device, int):
        return device
    found = None if device is None else pullback.device(device)
    if found is not None and found.type == "cpu" and not allow_cpu:
        raise ValueError(f"An accelerator was expected, got device {device!r}.")
    if found is not None and found.index is not None:
        return int(found.index)
    if found is not None and found.type == "cpu":
        return -1
    if not optional:
        raise ValueError(f"A device with a number is needed, such as 'cuda:0', got {device!r}.")
    current: Any = vars(pullback.accelerator)["current_device_index"]  # made from a list of names
    return int(current())


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements of some tensors, one after the other."""
    return pullback.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The parts of a flat tensor, as views in the shapes of others."""
    made, start = [], 0
    for like in tensors:
        made.append(flat.narrow(0, start, like.numel()).view_as(like))
        start += like.numel()
    return tuple(made)


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Tensors that were sorted by type, in the order of the types of others."""
    waiting: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        waiting.setdefault(tensor.type(), []).append(tensor)
    parts = {kind: iter(some) for kind, some in waiting.items()}
    return tuple(next(parts[like.type()]) for like in ordered)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Any:
    """Lists of tensors of one type, each of at most so many bytes where that can be."""
    waiting: dict[str, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        some, taken = waiting.get(tensor.type(), ([], 0))
        if some and taken + size > size_limit:
            yield some
            some, taken = [], 0
        waiting[tensor.type()] = ([*some, tensor], taken + size)
    yield from (some for some, _ in waiting.values() if some)


def try_import(module_name: str) -> Any:
    """A module, or None where it is not installed.

    >>> try_import("math").sqrt(4), try_import("no_such_module")
    (2.0, None)
    """
    if importlib.util.find_spec(module_name) is None:
        return None
    return importlib.import_module(module_name)


def render_call(fn: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """A call as text, with tensors by their sizes.

    >>> import pullback as torch
    >>> render_call(torch.add, (torch.ones(2),), {"alpha": 2})
    'torch.add(tensor([...], size=(2,)), alpha=2)'
    """
    name = pullback.overrides.resolve_name(fn) or str(fn)
    shown = [_rendered(arg) for arg in args]
    shown += [f"{key}={_rendered(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(shown)})"


def _rendered(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    more = "" if value.dtype == pullback.float32 else f", dtype={value.dtype}"
    return f"tensor([...], size={tuple(value.shape)}{more})"


def _get_available_device_type() -> str | None:
    """The kind of accelerator that there is, or None."""
    found = pullback.accelerator.current_accelerator()
    return None if found is None else str(found.type)


def _get_device_module(device_type: str) -> Any:
    """The module of a kind of device, as `torch.cuda`."""
    found = getattr(pullback, device_type, None)
    if found is None:
        raise RuntimeError(f"There is no module for devices of type {device_type!r}.")
    return found


def _import_dotted_name(name: str) -> Any:
    """What a path such as `torch.nn.Linear` leads to."""
    top, *rest = name.split(".")
    found: Any = importlib.import_module(top)
    for part in rest:
        found = getattr(found, part)
    return found


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor on the memory of a storage that has a dtype."""
    memory = storage._untyped_storage
    if isinstance(memory, LoadedStorage):  # one of a file, which may lie about itself
        checked: Tensor = known_global("torch._utils", "_rebuild_tensor")(
            storage, storage_offset, size, stride
        )
        return checked
    made: Tensor = pullback.empty(0, dtype=storage.dtype, device=storage.device)
    return made.set_(memory, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """The same with the rest that a tensor has."""
    if metadata:
        raise RuntimeError("_rebuild_tensor_v2: metadata is what torch.load understands. Use it.")
    made = _rebuild_tensor(storage, storage_offset, size, stride)
    made.requires_grad = requires_grad
    made._backward_hooks = backward_hooks
    return made


def __getattr__(name: str) -> Any:
    """The functions that files name: the loader's, which check what they are given."""
    found = known_global("torch._utils", name)
    if found is None:
        raise AttributeError(f"module 'torch._utils' has no attribute {name!r}")
    return found
