"""Masked tensors from data and mask: leaves of their own, or a step in the graph of the data."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.masked.maskedtensor.core import MaskedTensor, _Masked

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A new leaf with a copy of data and mask.

    Example:
        >>> import pullback as torch
        >>> x = torch.masked.masked_tensor(torch.tensor([4.0, -1.0]), torch.tensor([True, False]))
        >>> x.sqrt().sum()
        MaskedTensor(  2.0000, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """Data with a mask, as a step in its graph: the gradient of `data` is a masked tensor.

    Example:
        >>> import pullback as torch
        >>> data = torch.tensor([4.0, -1.0], requires_grad=True)
        >>> torch.masked.as_masked_tensor(data, torch.tensor([True, False])).sqrt().sum().backward()
        >>> data.grad
        MaskedTensor(
          [  0.2500,       --]
        )
    """
    made: MaskedTensor = _Masked.apply(data, mask)
    return made


__dir__ = _only_public(globals())
