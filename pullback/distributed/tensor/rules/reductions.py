"""Reductions: sums over a dimension that is cut are sums over ranks; others keep it whole.

Extremes and norms over a cut dimension are reduced twice: on each rank, then over what ranks have
(`dispatch.py` asks `AGAIN`).
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from pullback.distributed.tensor.sharding import Axes, Call, Labels, Rule

__all__ = ["AGAIN", "RULES", "dims_of", "reduced"]


def dims_of(dim: Any, ndim: int) -> frozenset[int]:
    """Which dimensions an option names; all of them where it names none."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return frozenset(range(ndim))
    listed = dim if isinstance(dim, (tuple, list)) else (dim,)
    return frozenset(one % max(ndim, 1) for one in listed)


def reduced(axes: Axes, over: frozenset[int], *, keepdim: bool) -> Axes:
    """Labels of the result."""
    if keepdim:
        return tuple(None if place in over else label for place, label in enumerate(axes))
    return tuple(label for place, label in enumerate(axes) if place not in over)


def _about(call: Call) -> tuple[Axes, frozenset[int], Axes]:
    axes = tuple(range(call.tensors[0].ndim))
    over = dims_of(call.given.get("dim"), len(axes))
    return axes, over, reduced(axes, over, keepdim=bool(call.given.get("keepdim", False)))


def _sum(call: Call, *, linear: bool = True) -> Labels:
    axes, over, out = _about(call)
    together = [frozenset((0,))] if linear else []
    return Labels([axes], [out], sums=frozenset(over), linear=together)


def _mean(call: Call) -> Labels:
    """The sum of a rank's part over the number of elements of the whole."""
    made = _sum(call)
    whole = prod(size for place, size in enumerate(call.shapes[0]) if place in made.sums)

    def finish(mean: Any, parts: Any) -> Any:
        own = prod(size for place, size in enumerate(parts[0].shape) if place in made.sums)
        if own == whole:
            return mean
        return mean.mul(own / whole) if own else mean.new_zeros(mean.shape)

    made.finish = finish
    return made


def _along(call: Call, outputs: int = 1) -> Labels:
    """What is reduced is whole."""
    axes, over, out = _about(call)
    kept = tuple(None if place in over else label for place, label in enumerate(axes))
    count = max(outputs, len(call.func._schema.returns))
    return Labels([kept], [out] * count)


def _share(call: Call) -> Labels:
    """Of an extreme's gradient, which has the shape of the reduced with dimensions of one."""
    axes = tuple(range(call.tensors[1].ndim))
    over = dims_of(call.given.get("dim"), len(axes))
    kept = tuple(None if place in over else label for place, label in enumerate(axes))
    inputs = []
    for shape in call.shapes:
        if len(shape) != len(axes):
            return Labels([(None,) * len(one) for one in call.shapes], [(None,) * len(axes)])
        pairs = zip(kept, shape, call.shapes[1], strict=True)
        inputs.append(tuple(label if size == whole else None for label, size, whole in pairs))
    return Labels(inputs, [kept])


_TO_RULES: list[tuple[str, Rule]] = [
    ("sum", _sum),
    ("nansum count_nonzero", partial(_sum, linear=False)),
    ("mean", _mean),
    ("amax amin prod all any logsumexp linalg_vector_norm max min argmax argmin", _along),
    ("var std var_mean std_mean median nanmedian mode kthvalue aminmax", _along),
    ("share", _share),
]
RULES: dict[str, Rule] = {name: rule for names, rule in _TO_RULES for name in names.split()}

# Of which the reduction of reductions is the reduction.
AGAIN = frozenset(("amax", "amin", "prod", "all", "any", "logsumexp", "linalg_vector_norm"))
