"""The memory of a tensor: where it lies, who shares it, what it is pinned for."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from pullback.core import errors, origin
from pullback.core.device import HOLDERS, META, holder_of
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.arrays.strides import address, root, storage_offset
from pullback.operators.declare import METHODS, method

FOUND_IN = {"torch": "get_device"}


@method
def untyped_storage(self: Tensor) -> Any:
    """The memory that this tensor shares with its views.

    >>> import pullback as torch
    >>> torch.zeros(2).untyped_storage().nbytes()
    8
    """
    return import_module("pullback.storage").UntypedStorage._of(self)


@method
def _typed_storage(self: Tensor) -> Any:
    """The memory that this tensor shares with its views, in elements."""
    typed = import_module("pullback.storage").TypedStorage
    return typed(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)


@method
def storage(self: Tensor) -> Any:
    """As `untyped_storage`, in elements; the older form, which warns."""
    import_module("pullback.storage")._told()
    return _typed_storage(self)


@method
def data_ptr(self: Tensor) -> int:
    """The address of the first element; 0 for a tensor without elements.

    >>> import pullback as torch
    >>> x = torch.zeros(2)
    >>> x.view(1, 2).data_ptr() == x.data_ptr()
    True
    """
    array = self._array
    if not array.size or self.device is META or hasattr(array, "_offset"):  # without data
        return 0
    return address(array)


def _storage_offset(self: Tensor) -> int:
    """How many elements of the memory lie before the first one.

    >>> import pullback as torch
    >>> torch.arange(5)[2:].storage_offset()
    2
    """
    array = self._array
    own = getattr(array, "_offset", None)  # of a tensor without data
    return storage_offset(array) if own is None else own


_storage_offset.__name__ = _storage_offset.__qualname__ = "storage_offset"


@method
def element_size(self: Tensor) -> int:
    """The number of bytes of an element.

    >>> import pullback as torch
    >>> torch.zeros(2, dtype=torch.float64).element_size()
    8
    """
    size: int = self._array.itemsize
    return size


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same view of the same memory.

    >>> import pullback as torch
    >>> x = torch.zeros(2)
    >>> x.is_set_to(x.view(2)), x.is_set_to(x.clone())
    (True, False)
    """
    if not isinstance(tensor, Tensor):
        raise errors.not_a_tensor("is_set_to", "tensor", tensor)
    other, own = tensor._array, self._array
    return (
        address(root(own)) == address(root(other))
        and own.shape == other.shape
        and own.strides == other.strides
        and address(own) == address(other)
    )


@method
def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared between processes.

    >>> import pullback as torch
    >>> torch.zeros(2).is_shared(), torch.zeros(2).share_memory_().is_shared()
    (False, True)
    """
    from pullback.core.memory import shared  # most programs are one process

    return shared.block_of(self._array) is not None


@method
def share_memory_(self: Tensor) -> Tensor:
    """Move the memory to where other processes see it too, and return this tensor.

    A NumPy array cannot move under its views: tensors that shared memory with this one before keep
    the old memory, and a warning says so.

    Example:
        >>> import pullback as torch
        >>> torch.zeros(2).share_memory_().is_shared()
        True
    """
    from pullback.core.memory import shared

    if shared.block_of(self._array) is None:
        if not shared.is_alone(self):
            warnings.warn(
                "share_memory_(): other tensors or arrays see the memory of this one; they keep "
                "the old memory and will not see what is written to the shared one.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        shared.move(self)
    return self


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned for an accelerator.

    >>> import pullback as torch
    >>> torch.zeros(2).is_pinned()
    False
    """
    return "cuda" in HOLDERS and ports.is_pinned(self._array)


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in memory that an accelerator reads while the host goes on; itself if it is pinned.

    >>> import pullback as torch
    >>> batch = torch.zeros(2)
    >>> batch = batch.pin_memory() if torch.cuda.is_available() else batch
    """
    if holder_of("cuda") is None:
        raise RuntimeError("pin_memory() needs an accelerator to pin memory for; leave it out.")
    if self.device.type != "cpu":
        raise RuntimeError(
            f"pin_memory(): the host's memory alone can be pinned, not {self.device}."
        )
    if ports.is_pinned(self._array):
        return self
    copy: Tensor = self.clone()
    copy._array = ports.pinned(copy._array)
    return copy


@method
def record_stream(self: Tensor, stream: Any) -> None:
    """Keep the memory for the work that another stream has with it by now.

    >>> import pullback as torch
    >>> torch.zeros(2).record_stream(None)
    Traceback (most recent call last):
    ...
    NotImplementedError: record_stream(): a tensor on cpu is on no stream.
    """
    if self.device.type != "cuda":
        raise NotImplementedError(f"record_stream(): a tensor on {self.device} is on no stream.")
    ports.held_for(self._array, stream._own)


@method
def get_device(input: Tensor) -> int:
    """The number of the device; -1 for the CPU.

    >>> import pullback as torch
    >>> torch.get_device(torch.zeros(2))
    -1
    """
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor("get_device", "input", input)
    return -1 if input.device.index is None else input.device.index


METHODS["storage_offset"] = _storage_offset
