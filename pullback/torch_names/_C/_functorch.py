"""What `torch._C._functorch` tells of tensors inside function transforms, and two reshapes.

Derivatives have no wrappers here: a tensor that one differentiates is itself, and `get_unwrapped`
of it an alias without history.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from pullback.core.tensor import Tensor
from pullback.transforms.batched import Batched
from pullback.transforms.mapping import entered, taken_out
from pullback.transforms.stack import derivative_of, level_number, stack

__all__ = [
    "TransformType",
    "_add_batch_dim",
    "_remove_batch_dim",
    "dlevel",
    "get_unwrapped",
    "is_batchedtensor",
    "is_functorch_wrapped_tensor",
    "is_gradtrackingtensor",
    "maybe_current_level",
    "maybe_get_bdim",
    "maybe_get_level",
    "peek_interpreter_stack",
    "reshape_dim_into",
    "reshape_dim_outof",
]


class TransformType(enum.Enum):
    """The kinds of function transforms."""

    Torch = 0
    Vmap = 1
    Grad = 2
    Jvp = 3
    Functionalize = 4


class CInterpreter(NamedTuple):
    """One running transform."""

    kind: TransformType
    number: int

    def key(self) -> TransformType:
        """Its kind."""
        return self.kind

    def level(self) -> int:
        """Its number; the outermost has 1."""
        return self.number


def peek_interpreter_stack() -> CInterpreter | None:
    """The innermost running transform, or None outside of them all."""
    entries = stack()
    if not entries:
        return None
    return CInterpreter(TransformType[entries[-1].kind], entries[-1].number)


def maybe_current_level() -> int | None:
    """The number of the innermost running transform, or None outside of them all."""
    entries = stack()
    return entries[-1].number if entries else None


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether the innermost transform that the tensor belongs to is a vmap."""
    if tensor.__class__ is not Batched:
        return False
    return not is_gradtrackingtensor(tensor)


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """Whether the innermost transform that the tensor belongs to is a derivative."""
    derivative = derivative_of(tensor)
    if derivative is None:
        return False
    return tensor.__class__ is not Batched or tensor.level in derivative.levels


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Whether the tensor belongs to a transform."""
    return is_batchedtensor(tensor) or is_gradtrackingtensor(tensor)


def maybe_get_bdim(tensor: Tensor) -> int:
    """The dimension that a mapped tensor hides; -1 for others."""
    return tensor.bdim if isinstance(tensor, Batched) and is_batchedtensor(tensor) else -1


def maybe_get_level(tensor: Tensor) -> int:
    """The number of the transform that the tensor belongs to; -1: none, -2: one that ended."""
    return level_number(tensor)


def dlevel(tensor: Tensor) -> int:
    """The number of the derivative that the tensor belongs to; 0: none, or one that has ended."""
    if tensor.__class__ is Batched and not tensor.level.open:
        return 0
    return level_number(tensor) if is_gradtrackingtensor(tensor) else 0


def get_unwrapped(tensor: Tensor) -> Tensor:
    """The tensor as the transform outside of its own sees it: the batch, or its value."""
    if is_gradtrackingtensor(tensor):
        return tensor.detach()
    if isinstance(tensor, Batched):
        return tensor.value
    raise RuntimeError("The tensor belongs to no transform, so there is nothing to unwrap.")


def reshape_dim_into(src: int, dst: int, tensor: Tensor) -> Tensor:
    """Move dimension `src` in front of `dst` (counted without it) and make one of the two.

    >>> import pullback as torch
    >>> torch._C._functorch.reshape_dim_into(0, 1, torch.zeros(2, 3, 4)).shape
    torch.Size([3, 8])
    """
    src %= tensor.ndim
    dst %= tensor.ndim - 1
    sizes = list(tensor.shape)
    moved = sizes.pop(src)
    sizes[dst] *= moved
    return tensor.movedim(src, dst).reshape(sizes)


def reshape_dim_outof(src: int, size1: int, tensor: Tensor) -> Tensor:
    """Split dimension `src` into `size1` and what that leaves.

    >>> import pullback as torch
    >>> torch._C._functorch.reshape_dim_outof(0, 2, torch.zeros(6, 4)).shape
    torch.Size([2, 3, 4])
    """
    src %= tensor.ndim
    sizes: list[Any] = list(tensor.shape)
    if sizes[src] % size1 if size1 else sizes[src]:
        raise RuntimeError(
            f"Dimension {src} has {sizes[src]} elements and cannot be split into {size1} equal "
            "parts."
        )
    sizes[src : src + 1] = [size1, sizes[src] // size1 if size1 else 0]
    return tensor.reshape(sizes)


def _level(number: int) -> Any:
    """The running map of a number."""
    for entry in stack():
        if entry.number == number and entry.kind == "Vmap":
            return entry.running
    raise RuntimeError(f"No vmap of level {number} is running.")


def _add_batch_dim(tensor: Tensor, batch_dim: int, level: int) -> Tensor:
    """One example of a tensor, as a running vmap sees it.

    >>> import pullback as torch
    >>> held = torch.arange(6.0).reshape(2, 3)
    >>> torch.vmap(lambda x: x + _add_batch_dim(held, 0, 1))(torch.zeros(2, 3)).tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """
    found: Tensor = entered(tensor, batch_dim % tensor.dim(), _level(level))
    return found


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """All examples of what a running vmap sees as one, along a dimension.

    A tensor that is none of that vmap's is repeated.
    """
    found: Tensor = taken_out(tensor, _level(level), out_dim)
    return found
