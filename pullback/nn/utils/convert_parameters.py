"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.nn.utils.clip_grad import _listed
from pullback.operators.shape.joining import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the elements of all parameters into one vector.

    >>> import pullback as torch
    >>> torch.nn.utils.parameters_to_vector(torch.nn.Linear(2, 3).parameters()).shape
    torch.Size([9])
    """
    vector: Tensor = cat([parameter.view(-1) for parameter in _listed(parameters)])
    return vector


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the parts of a vector into the parameters.

    >>> import pullback as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> torch.nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.bias
    Parameter containing:
    tensor([3.], requires_grad=True)
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: a Tensor is needed, got {type(vec).__name__}.")
    start, parts = 0, []
    listed = _listed(parameters)
    for parameter in listed:
        count = parameter.numel()
        parts.append(vec[start : start + count].view_as(parameter).data)
        start += count
    for parameter, part in zip(listed, parts, strict=True):
        parameter.data = part


__dir__ = _only_public(globals())
