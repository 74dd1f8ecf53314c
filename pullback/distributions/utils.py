"""What families of distributions share: broadcasting, probabilities and logits, lazy attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from typing import Any

import numpy

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributions.package import torch
from pullback.transforms.batched import base_of

__all__ = [
    *("broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"),
    *("tril_matrix_to_vec", "vec_to_tril_matrix"),
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """All values as tensors of one shape; numbers take dtype and device of the tensors.

    >>> import pullback as torch
    >>> torch.distributions.utils.broadcast_all(torch.zeros(2), 1)
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    tensors = [value for value in values if _is_tensor_like(value)]
    if len(tensors) == len(values):
        return tuple(torch.broadcast_tensors(*values))
    for value in values:
        if not (_is_tensor_like(value) or isinstance(value, Number)):
            raise ValueError(
                f"A parameter must be a number or a tensor, got {type(value).__name__}."
            )
    like = next((value for value in tensors if isinstance(value, Tensor)), None)
    options: dict[str, Any] = {"dtype": torch.get_default_dtype()}
    if like is not None:
        options = {"dtype": like.dtype, "device": like.device}
    return tuple(
        torch.broadcast_tensors(
            *[v if _is_tensor_like(v) else torch.tensor(v, **options) for v in values]
        )
    )


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def all_true(valid: Any) -> bool:
    """Whether all elements are true, in all examples of a vmap; True for a meta tensor."""
    if not isinstance(valid, Tensor):
        return bool(valid)
    whole = base_of(valid)
    return whole.device.type == "meta" or bool(whole._array.all())


def finfo_of(values: Any) -> Any:
    """The limits of a tensor's dtype."""
    return torch.finfo(values.dtype)


def _sum_rightmost(value: Any, count: int) -> Any:
    """The sum over the last `count` dimensions."""
    return value if count == 0 else value.sum(tuple(range(-count, 0)))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Any:
    """Probabilities from log-odds (binary), or from logarithms up to a constant per row.

    >>> import pullback as torch
    >>> from pullback.distributions.utils import logits_to_probs
    >>> logits_to_probs(torch.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, -1)


def sigmoid_inside(x: Any) -> Any:
    """The sigmoid, kept off 0 and 1 by the least that leaves its inverse finite."""
    limits = finfo_of(x)
    return torch.clamp(torch.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)


def clamp_probs(probs: Tensor) -> Any:
    """Probabilities, none so close to 0 or 1 that its logarithm is infinite.

    >>> import pullback as torch
    >>> from pullback.distributions.utils import clamp_probs
    >>> clamp_probs(torch.tensor([0.0, 0.5])).log().isfinite()
    tensor([True, True])
    """
    eps = finfo_of(probs).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Any:
    """Log-odds (binary), or logarithms, of probabilities.

    >>> import pullback as torch
    >>> torch.distributions.utils.probs_to_logits(torch.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    clamped = clamp_probs(probs)
    logs = torch.log(clamped)
    return logs - torch.log1p(-clamped) if is_binary else logs


class lazy_property:  # noqa: N801 (torch's name)
    """An attribute that is computed when first asked for, and then kept on the instance.

    >>> from pullback.distributions.utils import lazy_property
    >>> class Circle:
    ...     @lazy_property
    ...     def area(self):
    ...         print("computed")
    ...         return 3
    >>> circle = Circle()
    >>> circle.area, circle.area
    computed
    (3, 3)
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]  # for its name and docstring

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return _LazyOnClass(self.wrapped)
        with (
            torch.enable_grad()
        ):  # it is kept, so it must have a history even if asked for in no_grad
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _LazyOnClass(lazy_property, property):
    """What the class itself shows: documentation tools look for properties."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Any:
    """The lower triangles of matrices, row by row, up to and with diagonal `diag`.

    >>> import pullback as torch
    >>> torch.distributions.utils.tril_matrix_to_vec(torch.arange(4).reshape(2, 2))
    tensor([0, 2, 3])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag={diag}, but a matrix of {n} rows has diagonals {-n} to {n - 1}.")
    rows, columns = numpy.tril_indices(n, diag)
    return mat[..., torch.from_numpy(rows), torch.from_numpy(columns)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Any:
    """Lower triangular matrices from their elements, row by row: undoes `tril_matrix_to_vec`.

    >>> import pullback as torch
    >>> torch.distributions.utils.vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    # n rows up to diagonal d hold n (n + 1) / 2 + n d (less the corner, for d > 0) elements.
    length = vec.shape[-1]
    n = (
        -(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5
    ) / 2
    if round(n) - n > finfo_of(vec).eps:
        raise ValueError(f"{length} elements do not fill a triangle up to diagonal {diag}.")
    n = round(n)
    rows, columns = numpy.tril_indices(n, diag)
    matrix = torch.zeros((*vec.shape[:-1], n, n), dtype=vec.dtype, device=vec.device)
    matrix[..., torch.from_numpy(rows), torch.from_numpy(columns)] = vec
    return matrix


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Normal draws of mean 0 and variance 1."""
    return torch.randn(shape, dtype=dtype, device=device)


def kept_above(value: Any, least: float) -> Any:
    """`value`, with what lies below `least` raised to it; gradients flow as if nothing was."""
    with torch.no_grad():
        missing = (least - value).clamp(min=0)
    return value + missing


__dir__ = _only_public(globals(), "euler_constant")
