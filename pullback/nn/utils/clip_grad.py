"""Keeping gradients small."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.linalg import vector_norm
from pullback.nn.base.old_names import warn_of_old
from pullback.operators.create.data import tensor
from pullback.operators.shape.joining import stack

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]

_EPSILON = 1e-6  # torch's, so that a norm of zero divides


def _listed(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        return [parameters]
    if not isinstance(parameters, Iterable) or isinstance(parameters, str | bytes):
        raise TypeError(f"parameters must be Tensors, got {type(parameters).__name__}.")
    given = list(parameters)
    for one in given:
        if not isinstance(one, Tensor):
            raise TypeError(f"parameters must be Tensors, got {type(one).__name__} among them.")
    return given


def _as_float(max_norm: float) -> float:
    try:
        return float(max_norm)
    except OverflowError:
        raise ValueError("max_norm is an int that no float can hold.") from None


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [one.grad for one in _listed(parameters) if one.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors, as if they were one vector.

    >>> import pullback as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    given = _listed(tensors)
    if not given:
        return tensor(0.0)
    norm_type = float(norm_type)  # "inf" is one too
    with no_grad():
        norms = stack([vector_norm(one, norm_type) for one in given])
        total: Tensor = vector_norm(norms, norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} is {total.item()}; pass "
            "error_if_nonfinite=False to go on all the same."
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale gradients down, in place, so that a known total norm becomes at most `max_norm`.

    >>> import pullback as torch
    >>> w = torch.ones(1, requires_grad=True)
    >>> (5 * w).sum().backward()
    >>> torch.nn.utils.clip_grads_with_norm_(w, 1.0, torch.tensor(5.0))
    >>> w.grad
    tensor([1.0000])
    """
    if not isinstance(total_norm, Tensor):
        raise TypeError(f"total_norm must be a Tensor, got {type(total_norm).__name__}.")
    with no_grad():
        factor = (_as_float(max_norm) / (total_norm + _EPSILON)).clamp(max=1.0)
        for g in _gradients(parameters):
            g.mul_(factor.to(g.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place to a total norm of at most `max_norm`; returns the norm before.

    >>> import pullback as torch
    >>> x = torch.zeros(2, requires_grad=True)
    >>> (x * torch.tensor([3.0, 4.0])).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_(x, 1.0)
    tensor(5.)
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    chosen = _listed(parameters)
    if not chosen and isinstance(parameters, Iterator):
        warnings.warn(
            "clip_grad_norm_: `parameters` is an empty generator, so nothing is clipped. One that "
            "was gone through before is empty; pass a list.",
            stacklevel=2,
        )
    total = get_total_norm(_gradients(chosen), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(chosen, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of clip_grad_norm_.

    >>> import pullback as torch, warnings
    >>> warnings.simplefilter("ignore", FutureWarning)
    >>> x = torch.zeros(2, requires_grad=True)
    >>> (x * torch.tensor([3.0, 4.0])).sum().backward()
    >>> torch.nn.utils.clip_grad_norm(x, 1.0)
    tensor(5.)
    """
    warn_of_old("nn.utils.clip_grad_norm", "nn.utils.clip_grad_norm_")
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: Any, foreach: bool | None = None
) -> None:
    """Bring each element of the gradients to at most `clip_value` in size, in place.

    >>> import pullback as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> (5 * w).sum().backward()
    >>> torch.nn.utils.clip_grad_value_(w, 1.0)
    >>> w.grad
    tensor([1., 1.])
    """
    with no_grad():
        for g in _gradients(parameters):
            g.clamp_(-float(clip_value), float(clip_value))


__dir__ = _only_public(globals())
