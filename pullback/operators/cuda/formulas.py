"""Formulas on a device: each a single launch of one C expression, see operators/formula."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from pullback.operators.cuda.found import found
from pullback.operators.cuda.fused import Fused
from pullback.operators.formula.declare import forward_of
from pullback.operators.formula.in_c import one_expression
from pullback.operators.formula.kernels import Kernels

__all__ = ["launched"]

_MOST = 128  # sets of options of one formula


class _Launched:
    """A formula on arrays of a device; where it is no single launch, `otherwise` computes it."""

    def __init__(self, kernels: Kernels, otherwise: Any) -> None:
        self.kernels, self.otherwise = kernels, otherwise
        self.table: dict[Any, Any] = {}

    def __call__(self, xp: Any, arrays: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        kernels = self.kernels
        given = [one for one in arrays if one is not None]
        first = given[0]
        if not hasattr(first, "dtype") or first.dtype.kind not in "fV":
            return self.otherwise(xp, arrays, options)
        if first.dtype.itemsize == 2:
            options = kernels.in_half(options, first.dtype)
        pairs = zip(kernels.formula.tensors, arrays, strict=True)
        missing = tuple([name for name, one in pairs if one is None])
        key = kernels.key(None, options, missing)
        fused = self.table.get(key, self)
        if fused is self:
            fused = self._made(key, xp, options, missing)
        return self.otherwise(xp, arrays, options) if fused is None else fused(*given)

    def _made(self, key: Any, xp: Any, options: tuple[Any, ...], missing: tuple[str, ...]) -> Any:
        if len(self.table) >= _MOST:
            return None
        names = [name for name in self.kernels.formula.tensors if name not in missing]
        expression = one_expression(self.kernels.root(options, missing), names)
        made = None
        if expression is not None:
            rest = partial(self._rest, xp, key, options, missing)
            made = Fused(found.cupy, expression, len(names), rest)
        self.table[key] = made
        return made

    def _rest(self, xp: Any, key: Any, options: Any, missing: tuple[str, ...], *given: Any) -> Any:
        """Arrays that one launch does not serve: strided ones, of several shapes or dtypes."""
        fused = self.table[key]
        if len(given) == fused.count and _is_strided(given):
            # Step by step some formulas would look at values, as erfc does: laid out, they need
            # not. Dimensions in the order of memory, so that the result lies as the first does.
            order = sorted(range(given[0].ndim), key=lambda d: -given[0].strides[d])
            laid = [xp.ascontiguousarray(one.transpose(order)) for one in given]
            back = sorted(range(len(order)), key=order.__getitem__)
            return fused(*laid).transpose(back)
        rest = iter(given)
        arrays = [None if name in missing else next(rest) for name in self.kernels.formula.tensors]
        made = self.otherwise(xp, tuple(arrays), options)
        for out in rest:  # one more is where the result goes
            out[...] = made
            return out
        return made


def _is_strided(given: tuple[Any, ...]) -> bool:
    """Whether all that keeps arrays from a launch is how they lie in memory."""
    first = given[0]
    if any(not hasattr(one, "flags") or one.ndim == 0 for one in given):
        return False
    alike = all(one.shape == first.shape and one.dtype == first.dtype for one in given)
    return alike and any(not one.flags.c_contiguous for one in given)


def launched(forward: Any, kernels: Kernels, copy: Any) -> Any:
    """The forward of a formula on a device; `copy` gives a function of the package there."""

    @cache  # when first needed: functions may call one another
    def rest() -> Any:
        if not hasattr(forward, "__wrapped__"):
            by_hand = copy(forward)
            return lambda xp, arrays, options: by_hand(xp, *arrays, *options)
        own = Kernels(kernels.formula, kernels.options, kernels.kinds, kernels.called)
        own.rounded = kernels.rounded
        own.of_complex = None if kernels.of_complex is None else copy(kernels.of_complex)
        own.function = copy(kernels.formula.function)
        return own.chosen

    def otherwise(xp: Any, arrays: Any, options: Any) -> Any:
        return rest()(xp, arrays, options)

    return forward_of(kernels.formula.function, kernels, _Launched(kernels, otherwise))
