"""`_foreach_*`: an operator over a list of tensors, one call after another.

Torch has them to start few kernels on a GPU; here a call is the same loop that a program would
write, with the lists checked first: nothing is written if they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.pointwise.powers import pow
from pullback.operators.reduce.norms import vector_norm

__all__ = ["FUNCTIONS"]

# One argument: these have in-place forms too.
_UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg
    reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
""".split()  # noqa: SIM905 (as everywhere: names as text)
# Two: the second is a list of tensors or of numbers, a number, or (for some) a tensor.
_BINARY = ("add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow")
_WITH_TENSOR = ("add", "mul", "div")
_ALPHA = ("add", "sub")


def _checked(name: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, Sequence) or isinstance(tensors, str):
        raise TypeError(f"{name}(): takes a list of tensors, got {type(tensors).__name__}.")
    if not tensors:
        raise RuntimeError(f"{name}(): the list of tensors is empty.")
    for one in tensors:
        if not isinstance(one, Tensor):
            raise TypeError(f"{name}(): takes a list of tensors, found {type(one).__name__}.")
    return list(tensors)


def _each(name: str, value: Any, count: int) -> Sequence[Any]:
    """A value for each tensor: those of a list, or the one that stands for all."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(
            f"{name}(): one value for each tensor is needed, got {count} tensors, but "
            f"{len(value)} of them."
        )
    return value


def _applied(function: Callable[..., Any], rows: Any, into: Any) -> Any:
    """The results as a tuple; where they were written into a list, that list."""
    made = tuple([function(*row) for row in rows])
    return made if into is None else into


def _unary(name: str, base: str) -> Callable[..., Any]:
    writes = base.endswith("_")

    def call(self: Any) -> Any:
        function = getattr(Tensor, base)
        return _applied(function, zip(_checked(name, self), strict=True), self if writes else None)

    return call


def _clamped(base: str) -> str:
    """The method that does it: `maximum` with a number is a clamp from below."""
    return {"maximum": "clamp_min", "minimum": "clamp_max"}.get(base.rstrip("_"), base.rstrip("_"))


def _binary(name: str, base: str) -> Callable[..., Any]:
    writes, plain = base.endswith("_"), base.rstrip("_")
    method = _clamped(base) + "_" * writes

    def call(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        if plain == "pow" and not writes and isinstance(self, int | float | complex):
            exponents = _checked(name, other)
            return tuple([pow(self, one) for one in exponents])
        if alpha != 1 and plain not in _ALPHA:
            raise TypeError(f"{name}(): has no argument alpha.")
        if isinstance(other, Tensor):
            _check_tensor(name, plain, other)
        tensors = _checked(name, self)
        others = _each(name, other, len(tensors))
        if alpha != 1:
            others = [one * alpha for one in others]
        function = getattr(Tensor, method)
        return _applied(function, zip(tensors, others, strict=True), self if writes else None)

    return call


def _check_tensor(name: str, plain: str, other: Tensor) -> None:
    if plain not in _WITH_TENSOR:
        raise TypeError(f"{name}(): the second argument must be a list or a number, got a Tensor.")
    if other.ndim and other.numel() != 1:
        raise RuntimeError(
            f"{name}(): a tensor for all must be 0-d, got shape {tuple(other.shape)}."
        )


def _pointwise(name: str, base: str) -> Callable[..., Any]:
    """`addcmul` and `addcdiv`: the last argument is a number, a list of them, or a tensor."""
    writes = base.endswith("_")

    def call(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        tensors = _checked(name, self)
        count = len(tensors)
        scale = value if scalars is None else scalars
        if isinstance(scale, Tensor):
            scale = scale.tolist()
        columns = [_each(name, _checked(name, one), count) for one in (tensor1, tensor2)]
        function = getattr(Tensor, base)
        rows = zip(tensors, *columns, _each(name, scale, count), strict=True)
        return _applied(
            lambda x, a, b, v: function(x, a, b, value=v), rows, self if writes else None
        )

    return call


def _lerp(name: str, base: str) -> Callable[..., Any]:
    writes = base.endswith("_")

    def call(self: Any, tensors1: Any, weight: Any) -> Any:
        tensors = _checked(name, self)
        ends = _each(name, _checked(name, tensors1), len(tensors))
        rows = zip(tensors, ends, _each(name, weight, len(tensors)), strict=True)
        return _applied(getattr(Tensor, base), rows, self if writes else None)

    return call


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    """The norm of all elements of each tensor."""
    return tuple([vector_norm(one, ord, dtype=dtype) for one in _checked("_foreach_norm", self)])


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    """The sum of the powers of the absolute values of each tensor: its norm without the root."""
    tensors = _checked("_foreach_powsum", self)
    return tuple(
        [(one if dtype is None else one.to(dtype)).abs().pow(ord).sum() for one in tensors]
    )


def _foreach_max(self: Any) -> Any:
    """The largest element of each tensor."""
    return tuple([one.max() for one in _checked("_foreach_max", self)])


def _foreach_mm(self: Any, mat2: Any) -> Any:
    """The products of two lists of matrices."""
    tensors = _checked("_foreach_mm", self)
    others = _each("_foreach_mm", _checked("_foreach_mm", mat2), len(tensors))
    pairs: Any = zip(tensors, others, strict=True)
    return tuple([a.mm(b) for a, b in pairs])


def _foreach_clone(self: Any, *, memory_format: Any = None) -> Any:
    """A copy of each tensor."""
    kwargs = {} if memory_format is None else {"memory_format": memory_format}
    return tuple([one.clone(**kwargs) for one in _checked("_foreach_clone", self)])


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the elements of the second list into the first."""
    tensors = _checked("_foreach_copy_", self)
    sources = _each("_foreach_copy_", _checked("_foreach_copy_", src), len(tensors))
    for tensor, source in zip(tensors, sources, strict=True):
        tensor.copy_(source)
    return self


def _foreach_zero_(self: Any) -> Any:
    """Set every tensor to zero."""
    for one in _checked("_foreach_zero_", self):
        one.zero_()
    return self


def _made() -> dict[str, Callable[..., Any]]:
    by_hand = (
        *(_foreach_norm, _foreach_powsum, _foreach_max, _foreach_mm, _foreach_clone),
        *(_foreach_copy_, _foreach_zero_),
    )
    made: dict[str, Callable[..., Any]] = {one.__name__: one for one in by_hand}
    makers = (
        *((base, _unary) for base in _UNARY),
        *((base, _binary) for base in _BINARY),
        *((base, _pointwise) for base in ("addcmul", "addcdiv")),
        ("lerp", _lerp),
    )
    for base, maker in makers:
        for spelled in (base, f"{base}_"):
            name = f"_foreach_{spelled}"
            function = maker(name, spelled)
            function.__name__ = function.__qualname__ = name
            form = "writes to each" if spelled.endswith("_") else "over each"
            function.__doc__ = f"`{base}` {form} tensor of a list."
            made[name] = function
    return made


FUNCTIONS = _made()
globals().update(FUNCTIONS)
