"""Tables of decompositions: by overload, a function that is written in other operators.

A table like this is what `make_fx(f, table)` and `aot_function(..., decompositions=table)` take:
an operator that is in it does not show in the graph, those that it is written in do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.library.overload import OpOverload, OpOverloadPacket

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "global_decomposition_table",
    "pre_autograd_decomposition_table",
    "register_decomposition",
    "remove_decompositions",
]

Table = dict[OpOverload, Callable[..., Any]]

global_decomposition_table: dict[str, Table] = {"post_autograd": {}, "pre_autograd": {}, "meta": {}}
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]


def register_decomposition(
    aten_op: Any,
    registry: Table | None = None,
    *,
    type: str = "post_autograd",
    unsafe: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function into a table, for an overload, for all of a packet, or for several.

    >>> import pullback as torch
    >>> from pullback._decomp import register_decomposition
    >>> table = {}
    >>> @register_decomposition(torch.ops.aten.square, table)
    ... def square(x):
    ...     return x * x
    >>> list(table)
    [<OpOverload(op='aten.square', overload='default')>]
    """
    table = _table(type) if registry is None else registry

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in _overloads(aten_op):
            if overload in table:
                raise RuntimeError(
                    f"{overload} has a decomposition in this table already. Remove it first "
                    "(remove_decompositions), or use a table of your own (registry=)."
                )
            table[overload] = function
        return function

    return put


def get_decompositions(aten_ops: Iterable[Any], type: str = "post_autograd") -> Table:
    """The part of a table that is about some operators; those without an entry are left out.

    >>> import pullback as torch
    >>> from pullback._decomp import get_decompositions
    >>> aten = torch.ops.aten
    >>> [str(one) for one in get_decompositions([aten.silu_backward, aten.mm.default])]
    ['aten.silu_backward.default']
    """
    table = _table(type)
    operators = [op for op in aten_ops if isinstance(op, OpOverload | OpOverloadPacket)]
    return {one: table[one] for op in operators for one in _overloads(op) if one in table}


def remove_decompositions(decompositions: Table, aten_ops: Sequence[Any]) -> None:
    """Take operators out of a table; those that are not in it are passed over."""
    for op in aten_ops:
        for overload in _overloads(op):
            decompositions.pop(overload, None)


def core_aten_decompositions() -> Table:
    """A table of the user's own with all there is; what stays are operators of the core."""
    return dict(decomposition_table)


def _table(type: str) -> Table:
    if type not in global_decomposition_table:
        raise AssertionError(
            f"There is no table {type!r} of decompositions; {', '.join(global_decomposition_table)}"
            " are there."
        )
    return global_decomposition_table[type]


def _overloads(op: Any) -> Iterable[OpOverload]:
    if isinstance(op, OpOverload):
        return (op,)
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    if isinstance(op, str | bytes) or not isinstance(op, Iterable):
        raise AssertionError(f"A decomposition is of an operator of torch.ops, not of {op!r}.")
    return [overload for one in op for overload in _overloads(one)]
