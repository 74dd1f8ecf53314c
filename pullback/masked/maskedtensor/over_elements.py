"""Operators that look beyond an element: reductions, normalisations, running sums, `where`, moves.

Above autograd: they are composed of the functions of `pullback.masked` on plain data, so that their
derivatives are those of the composition. A result counts where anything did that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback
from pullback import masked
from pullback.core.tensor import Tensor

__all__ = ["FUNCTIONS", "MOVES", "REDUCTIONS", "moved", "reduced"]

_OVER_DIMS = ("dim", "keepdim", "dtype")
# The parameters that follow the tensor, by position.
REDUCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sum", "mean", "prod", "amin", "amax", "argmin", "argmax"), _OVER_DIMS),
    **dict.fromkeys(("logsumexp", "all", "any"), ("dim", "keepdim")),
    **dict.fromkeys(("std", "var"), ("dim", "unbiased", "keepdim")),
    "norm": ("p", "dim", "keepdim", "dtype"),
}


def reduced(name: str, data: Tensor, mask: Tensor, given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The reduction of the elements that count, and whether there were any."""
    if str(data.layout) != "torch.strided":
        data, mask = data.to_dense(), mask.to_dense()
    dim, keepdim = given.get("dim"), bool(given.get("keepdim", False))
    if isinstance(dim, list | tuple):
        dim = tuple(dim) or None
    every = tuple(range(mask.ndim))
    counted = mask.amax(every if dim is None else dim, keepdim) if mask.ndim else mask
    options = {key: given[key] for key in ("keepdim", "dtype") if given.get(key) is not None}
    if name in ("all", "any"):
        return _truth(name, data, mask, dim, keepdim=keepdim), counted
    if name in ("std", "var"):
        options["unbiased"] = _is_unbiased(given)
    if name == "norm":
        order = given.get("p")
        options["ord"] = 2.0 if order is None or order == "fro" else order
    if name == "logsumexp" and dim is None:
        dim = every
    return getattr(masked, name)(data, dim=dim, mask=mask, **options), counted


def _is_unbiased(given: dict[str, Any]) -> bool:
    correction = given.get("correction", 1)
    if correction not in (0, 1):
        raise ValueError(f"masked tensors have a correction of 0 or 1, got {correction}.")
    return bool(given.get("unbiased", correction))


def _truth(name: str, data: Tensor, mask: Tensor, dim: Any, *, keepdim: bool) -> Tensor:
    filled = data.bool().masked_fill(~mask, name == "all")
    test = filled.all if name == "all" else filled.any
    made: Tensor = test() if dim is None else test(dim, keepdim)
    return made


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(input: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(REDUCTIONS[name], args, strict=False)), **kwargs}
        if "axis" in given:
            given["dim"] = given.pop("axis")
        made, counted = reduced(name, input.get_data(), input.get_mask(), given)
        return input._with_mask(made, counted)

    return reduce


def _softmax(input: Any, dim: int, dtype: Any = None, **unused: Any) -> Any:
    made = masked.softmax(input.get_data(), dim, dtype=dtype, mask=input.get_mask())
    return input._with_mask(made.nan_to_num(0.0), input.get_mask())  # a row without any: zeros


def _along(name: str) -> Callable[..., Any]:
    def scan(input: Any, dim: int, dtype: Any = None, **unused: Any) -> Any:
        function = getattr(masked, name)
        made = function(input.get_data(), dim, dtype=dtype, mask=input.get_mask())
        return input._with_mask(made, input.get_mask())

    return scan


def _where(condition: Any, input: Any, other: Any, **unused: Any) -> Any:
    """Each element as it is where it comes from, and counted where it counts there."""
    given = [one for one in (condition, input, other) if isinstance(one, Tensor)]
    shape = pullback.broadcast_shapes(*[one.shape for one in given])
    plain = _plain(condition)
    mask = pullback.where(plain, _mask_of(input, shape), _mask_of(other, shape))
    if hasattr(condition, "get_mask"):
        mask = mask & condition.get_mask()
    first: Any = next(one for one in given if hasattr(one, "get_mask"))
    return first._with_mask(pullback.where(plain, _plain(input), _plain(other)), mask)


def _plain(value: Any) -> Any:
    return value.get_data() if hasattr(value, "get_mask") else value


def _mask_of(value: Any, shape: Any) -> Tensor:
    if hasattr(value, "get_mask"):
        mask: Tensor = value.get_mask()
        return mask
    return pullback.ones(shape, dtype=pullback.bool)


_MOVING = """
    __getitem__ cat chunk concat concatenate diagonal flatten flip gather hstack index_select
    movedim narrow repeat roll select split squeeze stack swapaxes take_along_dim tile unbind
    unflatten unfold vstack
"""
# Their adjoints put gradients among zeros, which would count for nothing in particular.
MOVES = frozenset(_MOVING.split())


def moved(input: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Data and mask moved alike, where gradients are to come back."""
    made = func(*_each(args, _plain), **kwargs)
    masks = func(*_each(args, _counts), **kwargs)
    if isinstance(made, Tensor):
        return input._with_mask(made, masks)
    return type(made)(input._with_mask(*pair) for pair in zip(made, masks, strict=True))


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Masked tensors changed, also in lists: there others count everywhere, and change too."""
    if isinstance(value, list | tuple):
        inside = any(hasattr(one, "get_mask") for one in value)
        return type(value)(
            change(one) if isinstance(one, Tensor) and inside else _each(one, change)
            for one in value
        )
    return value


def _counts(value: Any) -> Any:
    return _mask_of(value, value.shape)


# By the names of functions and methods.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in REDUCTIONS},
    "softmax": _softmax,
    **{name: _along(name) for name in ("log_softmax", "cumsum", "cumprod")},
    "where": _where,
}
