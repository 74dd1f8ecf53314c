"""How a tensor goes to another process: its memory as a block, the rest as numbers."""

from __future__ import annotations

import weakref
from importlib import import_module
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy

from pullback.core.listing import only_public as _only_public
from pullback.core.memory.shared import Block, block_of, is_alone, move, shared_copy
from pullback.core.tensor import Tensor
from pullback.operators.tensor.pickling import attributes_of, leaf, warn_of_hooks

__all__ = ["StorageWeakRef", "init_reductions", "rebuild_tensor", "reduce_tensor"]


class StorageWeakRef:
    """Tells whether storages are the same memory, without keeping that alive.

    Args:
        storage: Storage to refer to.

    >>> import pullback as torch
    >>> from pullback.multiprocessing.reductions import StorageWeakRef
    >>> x = torch.zeros(4)
    >>> known = StorageWeakRef(x[:2].untyped_storage())
    >>> known == StorageWeakRef(x.untyped_storage()), known.expired()
    (True, False)
    >>> del x
    >>> known.expired()
    True
    """

    __slots__ = ("_memory", "cdata")

    def __init__(self, storage: Any) -> None:
        memory = storage.untyped()._owner
        self.cdata: int = id(memory)
        self._memory = weakref.ref(memory)

    def expired(self) -> bool:
        """Whether the memory is gone."""
        return self._memory() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        """Whether both are, or were, of one memory: Python makes one such reference for each."""
        return isinstance(other, StorageWeakRef) and self._memory is other._memory


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """What a pickle to another process says of a tensor.

    A tensor that is not in shared memory yet moves there, so that both sides see the same memory
    afterwards; if others look at its memory, it stays and the receiver gets a copy.

    Args:
        tensor: Tensor to send; it must be a leaf or need no gradient.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "A tensor with a history cannot go to another process, since the history cannot. "
            "Send tensor.detach()."
        )
    warn_of_hooks(tensor)
    if tensor.device.type == "meta":
        return _rebuild_meta, (tuple(tensor.shape), tensor.dtype, tensor.requires_grad)
    if block_of(tensor._array) is None and is_alone(tensor):
        move(tensor)
    array = tensor._array
    block = block_of(array)
    if block is None:
        array = shared_copy(array)
        block = block_of(array)
        assert block is not None
    offset = array.__array_interface__["data"][0] - _start(block) if array.size else 0
    place = array.shape, array.strides, array.dtype, offset
    return rebuild_tensor, (
        *(type(tensor), block, place),
        *(tensor.requires_grad, attributes_of(tensor)),
    )


def _start(block: Block) -> int:
    address: int = numpy.frombuffer(block, numpy.uint8).__array_interface__["data"][0]
    return address


def rebuild_tensor(
    kind: type[Tensor],
    block: Block,
    place: tuple[Any, ...],
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """The tensor again, on the block that came along.

    Args:
        kind: Class of the tensor.
        block: Shared memory.
        place: Data type, shape, strides and offset in it.
        requires_grad: Whether it requires grad.
        attributes: Python attributes of the tensor.
    """
    shape, strides, dtype, offset = place
    array = numpy.ndarray(shape, dtype, block, offset, strides)
    result = leaf(array, kind, requires_grad=requires_grad)
    vars(result).update(attributes)
    return result


def _rebuild_meta(shape: tuple[int, ...], dtype: Any, requires_grad: bool) -> Tensor:
    from pullback.operators.create.sizes import empty

    return empty(shape, dtype=dtype, device="meta", requires_grad=requires_grad)


def _reduce_block(block: Block) -> tuple[Any, ...]:
    return _rebuild_block, (reduction.DupFd(block.fd), len(block))


def _rebuild_block(duplicate: Any, size: int) -> Block:
    return Block(size, duplicate.detach())


def init_reductions() -> None:
    """Tell Python's multiprocessing about tensors; importing `pullback.multiprocessing` does it."""
    parameter: Any = import_module("pullback.nn.parameter")  # a layer above this one
    for kind in (Tensor, parameter.Parameter):
        ForkingPickler.register(kind, reduce_tensor)
    ForkingPickler.register(Block, _reduce_block)


__dir__ = _only_public(globals())
