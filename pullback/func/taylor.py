"""jet: derivatives of any order along a path, in one run (Taylor mode)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.captured import Scope
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import TreeSpec, tree_flatten, tree_unflatten
from pullback.func.forward_mode import check_directions
from pullback.operators.shape.joining import stack
from pullback.transforms.arguments import flat_tensors, name_of
from pullback.transforms.batched import batched
from pullback.transforms.mapping import mapped, taken_out
from pullback.transforms.pushing import Pushing
from pullback.transforms.series import SeriesLevel

__all__ = ["expanded", "jet"]


def jet(func: Callable[..., Any], primals: Any, series: Any) -> tuple[Any, Any]:
    """`(output, derivatives)` of `func` along a path, up to any order, in one run.

    The path `x(t)` is given by its derivatives at `t = 0`; what comes back are those of
    `func(x(t))`. With `series=((v, 0, 0),)` that is a straight line, and the results are the
    derivatives of order 1, 2 and 3 in the direction `v`. The cost grows with the square of the
    order, where nested `jvp` doubles with each.

    Args:
        func: takes the primals as positional arguments; returns a Tensor or a structure of Tensors.
        primals: the point, a tuple with an entry for each argument: a Tensor, or a structure of
            Tensors.
        series: for each primal the derivatives of the path, order 1 first: a sequence, equally long
            for all, of what has the primal's structure, shapes and dtypes.

    Returns:
        The output at the point, and the same structure with a list in place of each Tensor: its
        derivatives by `t`, order 1 first.

    >>> import pullback as torch
    >>> x, v, zero = torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.0)
    >>> torch.func.jet(torch.exp, (x,), ((v, zero, zero),))
    (tensor(1.), [tensor(1.), tensor(1.), tensor(1.)])
    >>> torch.func.jet(lambda x: x ** 3, (x + 2,), ((v, zero, zero),))  # 12, 12 and 6
    (tensor(8.), [tensor(12.), tensor(12.), tensor(6.)])
    """
    leaves, spec, terms = _checked(func, primals, series)
    factorials = [math.factorial(number + 1) for number in range(len(terms))]
    coefficients = [
        stack([one / factor for one, factor in zip(column, factorials, strict=True)])
        for column in zip(*terms, strict=True)
    ]

    def arguments(inside: Sequence[Any]) -> Any:
        return tree_unflatten(list(inside), spec)

    outputs, out_spec, rows = expanded("jet", func, arguments, leaves, coefficients)
    lists = [
        [row * factor for row, factor in zip(made.unbind(0), factorials, strict=True)]
        for made in rows
    ]
    return tree_unflatten(outputs, out_spec), tree_unflatten(lists, out_spec)


def expanded(
    transform: str,
    func: Any,
    arguments: Callable[[Sequence[Any]], Any],
    leaves: list[Any],
    coefficients: list[Any],
) -> tuple[list[Any], TreeSpec, list[Any]]:
    """The outputs of a function of series, their structure, and their coefficients from order 1."""
    scope = Scope(func, arguments(leaves))
    with mapped(coefficients[0].shape[0], "same", for_tangents=True) as maps:
        inside = [batched(one, 0, maps) for one in coefficients]
        pushing = Pushing(transform, leaves, inside, scope, SeriesLevel(maps))
        with pushing as duals:
            outputs, spec = tree_flatten(func(*arguments(duals)))
            rows = [_tangent(transform, func, pushing, one) for one in outputs]
    return outputs, spec, [taken_out(one, maps) for one in rows]


def _tangent(transform: str, func: Any, pushing: Pushing, output: Any) -> Any:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return only Tensors, found {type(output).__name__}."
        )
    return pushing.tangent_or_zeros(output)


def _checked(func: Any, primals: Any, series: Any) -> tuple[list[Any], Any, list[list[Any]]]:
    """The leaves of the primals, their structure, and for each order the terms of all leaves."""
    for what, one in (("primals", primals), ("series", series)):
        if not isinstance(one, tuple | list):
            raise RuntimeError(
                f"jet({name_of(func)}): {what} must be a tuple with an entry for each argument, "
                f"got {type(one).__name__}."
            )
    leaves, spec = flat_tensors("jet", "primals", tuple(primals))
    if not leaves:
        raise RuntimeError(f"jet({name_of(func)}): primals must hold at least one Tensor.")
    orders = {len(one) if isinstance(one, tuple | list) else -1 for one in series}
    if len(series) != len(primals) or len(orders) != 1 or orders <= {-1, 0}:
        raise RuntimeError(
            f"jet({name_of(func)}): series must have, for each of the {len(primals)} primals, a "
            "sequence of the derivatives of its path, order 1 first, equally many and at least one."
        )
    terms = []
    for number in range(orders.pop()):
        given, other = flat_tensors("jet", "series", tuple(one[number] for one in series))
        if other != spec:
            raise RuntimeError(
                f"jet({name_of(func)}): the derivatives of order {number + 1} have the structure "
                f"{other}, the primals {spec}; they must be equal."
            )
        check_directions("jet", leaves, given)
        terms.append(given)
    return leaves, spec, terms
