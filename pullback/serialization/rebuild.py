"""The functions that files call to make tensors again, with everything a file claims checked."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

from pullback.core.arrays import Array, namespace
from pullback.core.dtype import dtype
from pullback.core.home import is_ours
from pullback.core.layout import named_layout
from pullback.core.tensor import Tensor, wrap
from pullback.operators.tensor.pickling import is_slot_of_users, leaf, rebuilt
from pullback.serialization.budget import Budget, refuse
from pullback.serialization.storages import LoadedStorage
from pullback.storage import TypedStorage

__all__ = ["get_layout", "make", "set_attributes"]

Call: TypeAlias = Callable[..., Any]

# Each takes the budget first; None where the file is trusted.
_REBUILD: dict[Call, Call] = {}
# NumPy's limit.
_MAX_DIMS = 64


def _torch_name(checked: Call) -> Call:
    """A function for `checked` that can also be called as torch's, by a trusted pickle."""

    def unchecked(*args: Any) -> Any:
        return checked(None, *args)

    _REBUILD[unchecked] = checked
    return unchecked


def make(call: Any, budget: Budget | None, args: tuple[Any, ...]) -> Any:
    """The result of one of the functions below, for a file."""
    known = _REBUILD.get(call) if callable(call) else None
    if known is None:
        raise refuse("a tensor is made by a function that makes none")
    return known(budget, *args)


def is_rebuild(call: Any) -> bool:
    """Whether this is one of the functions below."""
    return call in _REBUILD


def _whole(values: Any, what: str, budget: Budget | None) -> tuple[int, ...]:
    """A tuple of numbers that are not negative."""
    numbers = tuple(values)
    if budget is not None:
        budget.spend(8 * len(numbers))
    if len(numbers) > _MAX_DIMS:
        raise refuse(f"a tensor has more than {_MAX_DIMS} dimensions")
    if any(type(one) is not int or not 0 <= one < 2**63 for one in numbers):
        raise refuse(f"the {what} of a tensor is not made of whole numbers from 0 on")
    return numbers


def _on_memory(flat: Array, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Array:
    """The part of `flat` that a tensor covers; refused if any of it is outside."""
    if 0 in size:
        # Not made from the strides: NumPy counts them even where there is nothing to reach.
        return namespace(flat).empty(size, flat.dtype)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if last >= flat.size:
        raise refuse("a tensor reaches beyond its storage")
    return flat[offset : last + 1]


def _tensor(
    budget: Budget | None,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
    *,
    kind: dtype | None = None,
) -> Tensor:
    if isinstance(storage, TypedStorage):
        storage = storage._untyped_storage
    if not isinstance(storage, LoadedStorage):
        raise refuse("a tensor stands on something that is no storage")
    size, stride = _whole(size, "size", budget), _whole(stride, "stride", budget)
    (start,) = _whole((offset,), "offset", budget)
    if len(size) != len(stride):
        raise refuse("a tensor has more sizes than strides, or fewer")
    bits = metadata if isinstance(metadata, dict) else {}
    flat = storage.memory(kind, bits, budget)
    if storage.is_meta:
        return _without_data(flat.dtype, size, stride, requires_grad)
    part = _on_memory(flat, start, size, stride)
    return rebuilt(Tensor, part, size, stride, requires_grad is True, {})


def _without_data(of: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    meta: Any = importlib.import_module("pullback.core.memory.meta")
    made = wrap(meta.strided(size, of, tuple(step * of.itemsize for step in stride)))
    if requires_grad is True:
        made._set_requires_grad(True)
    return made


@_torch_name
def rebuild_tensor(budget: Budget | None, storage: Any, offset: Any, size: Any, stride: Any) -> Any:
    """Before torch 0.4: no gradient, no hooks."""
    return _tensor(budget, storage, offset, size, stride)


@_torch_name
def rebuild_tensor_v2(budget: Budget | None, *args: Any) -> Tensor:
    """A tensor on a typed storage: storage, offset, size, stride, requires_grad, hooks, bits."""
    return _tensor(budget, *args)


@_torch_name
def rebuild_tensor_v3(budget: Budget | None, *args: Any) -> Tensor:
    """A tensor on an untyped storage; the dtype comes after the hooks."""
    *first, kind = args[:7]
    if not isinstance(kind, dtype):
        raise refuse("a tensor has no dtype")
    return _tensor(budget, *first, *args[7:], kind=kind)


@_torch_name
def rebuild_meta_tensor(
    budget: Budget | None, kind: Any, size: Any, stride: Any, requires_grad: Any
) -> Tensor:
    """A tensor on device "meta": nothing but a shape."""
    if not isinstance(kind, dtype):
        raise refuse("a tensor has no dtype")
    size, stride = _whole(size, "size", budget), _whole(stride, "stride", budget)
    return _without_data(kind.numpy, size, stride, requires_grad)


@_torch_name
def rebuild_sparse_tensor(budget: Budget | None, kind: Any, data: Any) -> Tensor:
    """A sparse tensor: its layout and the tensors it consists of."""
    sparse: Any = importlib.import_module("pullback.serialization.sparse")
    made: Tensor = sparse.rebuilt(kind, data)
    return made


@_torch_name
def rebuild_nested_tensor(budget: Budget | None, *parts: Any) -> Tensor:
    """A nested tensor: a buffer, sizes, strides and offsets of its components."""
    nested: Any = importlib.import_module("pullback.serialization.nested")
    made: Tensor = nested.rebuilt(parts)
    return made


@_torch_name
def rebuild_jagged_tensor(budget: Budget | None, parts: Any) -> Tensor:
    """A jagged tensor: a dict with its values and offsets."""
    nested: Any = importlib.import_module("pullback.serialization.nested")
    made: Tensor = nested.jagged_rebuilt(parts)
    return made


@_torch_name
def rebuild_parameter(
    budget: Budget | None, data: Any, requires_grad: Any, hooks: Any, state: Any = None
) -> Any:
    """A parameter on a tensor's memory, with the user's attributes on it."""
    if not isinstance(data, Tensor):
        raise refuse("a parameter stands on something that is no tensor")
    parameter: Any = importlib.import_module("pullback.nn").Parameter
    made = parameter(data, requires_grad is True)
    restore(made, state, budget)
    return made


@_torch_name
def rebuild_with_state(budget: Budget | None, build: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor of a class, with the user's attributes on it."""
    if not isinstance(kind, type) or not issubclass(kind, Tensor):
        raise refuse("a tensor is to be of a class that is none of tensors")
    made = make(build, budget, args) if budget is not None or is_rebuild(build) else build(*args)
    if getattr(made, "is_nested", False):
        return made  # what torch keeps besides are parts of the tensor itself
    if not isinstance(made, kind):
        made = leaf(made._array, kind, requires_grad=made.requires_grad)
    restore(made, state, budget)
    return made


def restore(made: Any, state: Any, budget: Budget | None) -> None:
    """Give an object its state, as pickle would: by its class, or attributes and slots."""
    own = getattr(type(made), "__setstate__", None)
    if own is not None:
        own(made, state)
        return
    slots = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    if state:
        set_attributes(made, state, budget)
    for name, value in (slots or {}).items():
        if type(name) is not str or not is_slot_of_users(type(made), name):
            raise refuse(f"it sets {name!r:.50} of a {type(made).__name__}")
        setattr(made, name, value)


def set_attributes(made: Any, state: Any, budget: Budget | None) -> None:
    """Put a file's attributes on an object that this load has made.

    None that the class has itself: a file that could would replace methods.
    """
    if not isinstance(state, dict):
        raise refuse("the attributes of an object are no dict")
    if budget is not None:
        budget.spend(100 * len(state))
    for name in state:
        if type(name) is not str or _is_of_class(type(made), name):
            raise refuse(
                f"it sets {name!r:.50} of a {type(made).__name__}, which is not its to set"
            )
    vars(made).update(state)


def _is_of_class(kind: type, name: str) -> bool:
    """Whether `name` is part of what a class does; a plain value there is a default."""
    if name.startswith("__"):
        return True
    # Not `hasattr`, which would load the family of a method.
    found = [(base, vars(base)[name]) for base in kind.__mro__ if name in vars(base)]
    if not found or issubclass(kind, dict):
        return bool(found)
    if issubclass(kind, Tensor) and any(is_ours(base) for base, _ in found):
        return True
    _, value = found[0]
    return callable(value) or hasattr(type(value), "__get__")


def get_layout(name: Any) -> Any:
    """A layout by torch's name for it."""
    if type(name) is not str:
        raise refuse("a layout has no name")
    return named_layout(name.removeprefix("torch."))
