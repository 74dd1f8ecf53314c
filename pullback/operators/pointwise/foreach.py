"""`_foreach_add` and the like: one operator over the tensors of a list, as optimizers use them.

Each is the operator itself, tensor by tensor, so that gradients, views and checks are its own. They
differ in what may stand beside the tensors: a number or a 0-d tensor for all, or a list with one
number or tensor for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pullback
from pullback.core.tensor import Tensor

_UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p
log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()  # noqa: SIM905 (a list of words)
_BINARY = ("add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow")
# What torch's operators take no number for.
_OF_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _listed(name: str, tensors: Any) -> list[Any]:
    if not isinstance(tensors, list | tuple) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError(f"{name}() takes a list of tensors, got {type(tensors).__name__}.")
    if not tensors:
        raise RuntimeError(f"{name}: the list of tensors is empty.")
    return list(tensors)


def _for_each(name: str, other: Any, count: int) -> Sequence[Any]:
    """One operand for each tensor."""
    if isinstance(other, list | tuple):
        if len(other) != count:
            raise RuntimeError(f"{name}: {count} tensors, but {len(other)} operands.")
        return other
    if isinstance(other, Tensor) and other.dim():
        raise RuntimeError(f"{name}: a tensor for all must be 0-d, got {other.dim()} dimensions.")
    return [other] * count


def _unary(name: str, method: str) -> Callable[..., Any]:
    def function(self: Any) -> Any:
        return tuple(getattr(x, method)() for x in _listed(name, self))

    return function


def _binary(name: str, method: str) -> Callable[..., Any]:
    of_number = _OF_NUMBER.get(method.rstrip("_"), "") + ("_" if method.endswith("_") else "")

    def one(x: Any, y: Any, options: dict[str, Any]) -> Any:
        chosen = of_number if of_number.strip("_") and not isinstance(y, Tensor) else method
        return getattr(x, chosen)(y, **options)

    def function(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        options = {}
        if alpha != 1:
            if method.rstrip("_") not in ("add", "sub") or isinstance(other, int | float | complex):
                raise TypeError(f"{name}() takes no alpha here.")
            options["alpha"] = alpha
        if name == "_foreach_pow" and not isinstance(self, list | tuple):
            return tuple(pullback.pow(self, exponent) for exponent in _listed(name, other))
        tensors = _listed(name, self)
        pairs = zip(tensors, _for_each(name, other, len(tensors)), strict=True)
        return tuple(one(x, y, options) for x, y in pairs)

    return function


def _scaled_sum(name: str, method: str) -> Callable[..., Any]:
    """Those of addcmul and addcdiv, where the numbers may come as a 1-d tensor."""

    def function(self: Any, tensor1: Any, tensor2: Any, value: Any = None, **more: Any) -> Any:
        if more.keys() - {"scalars"}:
            raise TypeError(f"{name}() has no argument {min(more.keys() - {'scalars'})!r}.")
        values = more.get("scalars", 1 if value is None else value)
        values = values.tolist() if isinstance(values, Tensor) else values
        tensors = _listed(name, self)
        count = len(tensors)
        others = [_for_each(name, given, count) for given in (tensor1, tensor2, values)]
        return tuple(
            getattr(x, method)(a, b, value=v) for x, a, b, v in zip(tensors, *others, strict=True)
        )

    return function


def _lerp(name: str, method: str) -> Callable[..., Any]:
    def function(self: Any, tensors1: Any, weight: Any = None, **more: Any) -> Any:
        weights = more.pop("weights", more.pop("scalars", weight))
        if more or weights is None:
            raise TypeError(f"{name}() takes two lists and a weight or a list of weights.")
        tensors = _listed(name, self)
        others = [_for_each(name, given, len(tensors)) for given in (tensors1, weights)]
        return tuple(getattr(x, method)(y, w) for x, y, w in zip(tensors, *others, strict=True))

    return function


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives back the list that was written."""

    def written(self: Any, *args: Any, **kwargs: Any) -> Any:
        function(self, *args, **kwargs)
        return self

    return written


def _foreach_clone(self: Any, *, memory_format: Any = pullback.preserve_format) -> Any:
    return tuple(x.clone(memory_format=memory_format) for x in _listed("_foreach_clone", self))


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    tensors = _listed("_foreach_copy_", self)
    for x, y in zip(tensors, _for_each("_foreach_copy_", src, len(tensors)), strict=True):
        x.copy_(y, non_blocking)
    return self


def _foreach_zero_(self: Any) -> Any:
    for x in _listed("_foreach_zero_", self):
        x.zero_()
    return self


def _foreach_max(self: Any) -> Any:
    return tuple(x.max() for x in _listed("_foreach_max", self))


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    tensors = _listed("_foreach_norm", self)
    return tuple(pullback.linalg.vector_norm(x, ord, dtype=dtype) for x in tensors)


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    tensors = _listed("_foreach_powsum", self)
    return tuple(x.abs().pow(ord).sum(dtype=dtype) for x in tensors)


def _foreach_mm(self: Any, mat2: Any) -> Any:
    tensors = _listed("_foreach_mm", self)
    others = _for_each("_foreach_mm", mat2, len(tensors))
    return tuple(x.mm(y) for x, y in zip(tensors, others, strict=True))


def _define() -> None:
    makers = [
        (_unary, _UNARY),
        (_binary, _BINARY),
        (_scaled_sum, ("addcmul", "addcdiv")),
        (_lerp, ("lerp",)),
    ]
    for make, methods in makers:
        for method in methods:
            for name, function in (
                (f"_foreach_{method}", make(f"_foreach_{method}", method)),
                (f"_foreach_{method}_", _in_place(make(f"_foreach_{method}_", method + "_"))),
            ):
                function.__name__ = function.__qualname__ = name
                globals()[name] = function


_define()
