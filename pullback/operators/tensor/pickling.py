"""Copies of tensors: `copy.copy`, `copy.deepcopy`, and pickle.

Values, layout, `requires_grad` and the user's own attributes go along; history and hooks never do.
"""

from __future__ import annotations

import copy
import copyreg
import warnings
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

import numpy

from pullback.core import errors, origin, overriding
from pullback.core.arrays import LIBRARIES, Array
from pullback.core.device import CPU, device, require_available
from pullback.core.dtype import OF_NUMBERS
from pullback.core.home import is_ours
from pullback.core.layout import order_kept
from pullback.core.ports import ports
from pullback.core.tensor import COLD, Tensor, new, wrap
from pullback.operators.arrays.strides import address, element_strides, extent, restrided, root
from pullback.operators.dispatch.dispatch import unrecorded_call
from pullback.operators.tensor.subclassing import make_wrapper_subclass

__all__: list[str] = []


def attributes_of(tensor: Tensor) -> dict[str, Any]:
    """What the user set on a tensor."""
    return {name: value for name, value in vars(tensor).items() if name not in COLD}


def state_of(tensor: Tensor) -> Any:
    """What a pickle keeps of a tensor beside its values: what its class says, or all that is set.

    As everywhere in pickle: a dict of attributes, or that and a dict of slots.
    """
    kind: Any = type(tensor)
    if kind.__getstate__ is not object.__getstate__:
        return tensor.__getstate__()
    slots = _slots_of(tensor)
    return (attributes_of(tensor), slots) if slots else attributes_of(tensor)


def _slots_of(tensor: Tensor) -> dict[str, Any]:
    """What stands in slots that a user's class adds."""
    if type(tensor) is Tensor:
        return {}
    kind: Any = type(tensor)
    names = copyreg._slotnames(kind)  # type: ignore[attr-defined]  # as pickle uses it
    return {
        name: getattr(tensor, name)
        for name in names
        if is_slot_of_users(kind, name) and hasattr(tensor, name)
    }


def is_slot_of_users(kind: type, name: str) -> bool:
    """Whether a class has a slot of that name which is not the package's."""
    found = getattr(kind, name, None)
    return isinstance(found, MemberDescriptorType) and not is_ours(found.__objclass__)


def set_state(tensor: Tensor, state: Any) -> None:
    """Give a new tensor what `state_of` found."""
    restore = getattr(type(tensor), "__setstate__", None)
    if restore is not None:
        restore(tensor, state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    vars(tensor).update(attributes)
    for name, value in slots.items():
        setattr(tensor, name, value)


def leaf(array: Array, kind: type[Tensor], *, requires_grad: bool) -> Tensor:
    """A leaf on `array`, with a version counter of its own."""
    result = new(kind)
    result._array = array
    result._node = None
    result._cell = wrap(array)._cell  # an inference tensor's where the mode says so
    if requires_grad:
        result._set_requires_grad(True)
    return result


def _copy(self: Tensor) -> Tensor:
    """A new leaf on the same memory."""
    result = leaf(self._array, type(self), requires_grad=self.requires_grad)
    set_state(result, state_of(self))
    return result


def as_copy(made: Any, of: Any) -> Any:
    """`made`, a tensor on the memory of another, as its copy: a leaf with what the user set."""
    if of.requires_grad:
        made.requires_grad_()
    vars(made).update(attributes_of(of))
    return made


# Deep copies ------------------------------------------------------------------------------------


def _deepcopy(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A leaf on new memory; tensors that shared memory do so in the copy too."""
    known: Tensor | None = memo.get(id(self))
    if known is not None:
        return known
    if not self.is_leaf:
        raise errors.non_leaf_deepcopy()
    if overriding.answers(self):
        return _deepcopy_answered(self, memo)
    of_objects = self._array.dtype.char == OF_NUMBERS
    array = self._array.copy() if of_objects else copied_memory(self._array, memo)
    result = leaf(array, type(self), requires_grad=self.requires_grad)
    memo[id(self)] = result
    vars(result).update(copy.deepcopy(attributes_of(self), memo))
    for name, value in _slots_of(self).items():
        setattr(result, name, copy.deepcopy(value, memo))
    if self._stored_grad is not None:
        result._stored_grad = copy.deepcopy(self._stored_grad, memo)
    if "_grad_dtype" in vars(self):
        result._grad_dtype = self._grad_dtype
    return result


def _deepcopy_answered(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A leaf as the class of the tensor clones it, with copies of the attributes it lacks then."""
    result = unrecorded_call(self.clone)
    if type(result) is not type(self):
        raise RuntimeError(
            f"deepcopy: clone() of {type(self).__name__} gave {type(result).__name__}. Let its "
            "__torch_dispatch__ keep the class, or define __deepcopy__."
        )
    memo[id(self)] = result
    if self.requires_grad:
        result._set_requires_grad(True)
    for name, value in attributes_of(self).items():
        if name not in vars(result):
            vars(result)[name] = copy.deepcopy(value, memo)
    if self._stored_grad is not None:
        result._stored_grad = copy.deepcopy(self._stored_grad, memo)
    return result


def deepcopy_of_layout(self: Any, memo: dict[int, Any]) -> Any:
    """A leaf on a copy of the array, for tensors whose arrays are of a kind of their own."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise errors.non_leaf_deepcopy()
    made = memo[id(self)] = wrap(self._array.copy())
    if self.requires_grad:
        made.requires_grad_()
    vars(made).update(copy.deepcopy(attributes_of(self), memo))
    if self._stored_grad is not None:
        made._stored_grad = copy.deepcopy(self._stored_grad, memo)
    return made


def copied_memory(array: Array, memo: dict[Any, Any]) -> Array:
    """The array on a copy of all the memory it is a view of, which `memo` keeps for other views."""
    owner = root(array)
    whole = in_memory_order(owner)
    if whole is None:
        return array.copy()
    fresh = memo.get(id(owner))
    if fresh is None:
        fresh = memo[id(owner)] = owner.copy(order="K")
        memo.setdefault(id(memo), []).append(owner)  # the id stays taken, as in Python's own memo
    if array is owner:
        return fresh
    buffer = in_memory_order(fresh)
    if type(array) in LIBRARIES:
        return restrided(buffer, array.shape, array.strides, address(array) - address(owner))
    return numpy.ndarray(
        array.shape, array.dtype, buffer, address(array) - address(owner), array.strides
    )


def in_memory_order(array: Array) -> Array | None:
    """The same memory with dimensions in the order of strides; None if there are gaps."""
    ordered = array.transpose(order_kept(array))
    return ordered if ordered.flags.c_contiguous else None


# Pickle -----------------------------------------------------------------------------------------


def _reduce(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    warn_of_hooks(self)
    if is_hollow(self):
        size, strides = tuple(self._array.shape), element_strides(self._array)
        about = size, strides, self.dtype, self.device, self.layout, self.requires_grad
        return rebuilt_wrapper, (type(self), about, state_of(self))
    if self._array.dtype.char == OF_NUMBERS:  # whose elements are pickled one by one
        told = self.requires_grad, state_of(self)
        return rebuilt, (type(self), self._array, None, None, *told)
    flat, strides = flat_memory(self._array)
    place = None
    if type(flat) in LIBRARIES:
        place, flat = str(self.device), ports.placed(flat, CPU)
    state = flat, self._array.shape, strides, self.requires_grad, state_of(self)
    return rebuilt, (type(self), *state, *(() if place is None else (place,)))


def is_hollow(tensor: Tensor) -> bool:
    """Whether it is a wrapper, without data of its own."""
    answers = tensor._overrides & overriding.DISPATCH
    return bool(answers) and type(tensor._array) is not numpy.ndarray


def warn_of_hooks(tensor: Tensor) -> None:
    """Hooks are functions of this process; say that they stay behind."""
    for hook in (tensor._backward_hooks or {}).values():
        if not getattr(hook, "__torch_unserializable__", False):
            warnings.warn(
                f"The hook {getattr(hook, '__name__', hook)!r} on a tensor is not saved with it. "
                "Mark it with torch.utils.hooks.unserializable_hook if that is intended.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )


def flat_memory(array: Array) -> tuple[Array, tuple[int, ...]]:
    """The memory from an array's first element to its last, and strides (in elements) on it."""
    if array.size == 0:
        return array.reshape(-1), (0,) * array.ndim
    strides = tuple(stride // array.itemsize for stride in array.strides)
    length = extent((array.shape, strides, 0))
    return restrided(array, (length,), (array.itemsize,)), strides


def rebuilt(
    kind: type[Tensor],
    flat: Array,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    state: Any,
    place: str | None = None,
) -> Tensor:
    """What a pickle calls to make the tensor again, on the device where it was."""
    if place is not None:
        flat = ports.placed(flat, require_available(device(place)))
    if flat.dtype.char == OF_NUMBERS:
        array = flat  # of numbers, which come as they are
    elif flat.size:
        steps = tuple(stride * flat.itemsize for stride in strides)
        elsewhere = type(flat) in LIBRARIES
        array = (
            restrided(flat, shape, steps)
            if elsewhere
            else numpy.ndarray(shape, flat.dtype, flat, 0, steps)
        )
    else:
        array = flat.reshape(shape)
    result = leaf(array, kind, requires_grad=requires_grad)
    set_state(result, state)
    return result


def rebuilt_wrapper(kind: type[Tensor], about: tuple[Any, ...], state: Any) -> Tensor:
    """What a pickle calls to make a tensor without data of its own again."""
    size, strides, dtype, device, layout, requires_grad = about
    result = make_wrapper_subclass(
        kind, size, strides, dtype=dtype, device=device, layout=layout, requires_grad=requires_grad
    )
    set_state(result, state)
    return result


# Special methods, attached by methods.py.
DUNDERS: dict[str, Callable[..., Any]] = {
    "__copy__": _copy,
    "__deepcopy__": _deepcopy,
    "__reduce_ex__": _reduce,
}
