"""Which operators take sparse tensors, and what they do: the table behind every operator's call.

Installed when the first sparse tensor is about to be made. An operator that is not in the table
says so, with its name, the layout and what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from pullback.core.errors import inplace_dtype
from pullback.core.explain import layout_errors as errors
from pullback.core.home import is_ours
from pullback.core.layout import sparse_coo
from pullback.core.mode import get_mode
from pullback.core.promotion import can_cast
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.core.view import edge_of
from pullback.operators.declare import OPERATORS, Op
from pullback.operators.running import layouts
from pullback.operators.running.inplace import check_history_can_change, write_out
from pullback.operators.running.naming import shown_as
from pullback.operators.running.writes import scalar_of
from pullback.operators.sparse.array import add_into, pattern_of
from pullback.operators.sparse.tensor import SparseTensor

__all__ = ["install", "table"]


def install() -> None:
    """Let operators ask here."""
    if _handle not in layouts.HANDLERS:
        from pullback.operators.sparse import overrides

        overrides.attach()
        layouts.HANDLERS.append(_handle)


def layout_among(bound: dict[str, Any]) -> Any:
    """The layout of the first sparse tensor among arguments, or None."""
    for value in bound.values():
        if isinstance(value, SparseTensor):
            return value._layout
        if type(value) in (list, tuple):
            for one in value:
                if isinstance(one, SparseTensor):
                    return one._layout
    return None


def _handle(op: Op, called: str, bound: dict[str, Any], out: Any) -> tuple[bool, Any]:
    layout = layout_among(bound) or getattr(out, "_layout", None)
    if layout is None or is_ours(op.forward, "operators.sparse"):
        return False, None
    inplace = called != op.name and called.endswith("_")
    if inplace:
        return True, _write(op, called, bound, layout)
    function = table().get(op.name)
    if function is None:
        raise errors.not_taken(called.split(".")[0].strip("_"), layout) from None
    made = function(**bound)
    if out is None:
        return True, made
    return True, _into(op, out, made)


def _into(op: Op, out: Any, made: Any) -> Any:
    if out._layout is not made._layout:
        raise RuntimeError(
            f"{op.name}: the result has layout {made.layout}, out= {out.layout}; give one of the "
            "result's layout."
        )
    if get_mode().grad and (out.requires_grad or made.requires_grad):
        raise RuntimeError(f"{op.name}: out= does not go with gradients; leave it away.")
    if out._layout is None:
        write_out(op.name, out, made._array)
        return out
    check_write(out, op.name, tracked=False)
    out._array.become(_in_dtype_of(out, op.name, made)._array)
    bump(out, op.name)
    return out


# In place ----------------------------------------------------------------------------------------


def _write(op: Op, called: str, bound: dict[str, Any], layout: Any) -> Any:
    target = bound[op.inputs[0].name]
    function = table().get(op.name)
    if function is None:
        raise errors.not_taken(called, layout) from None
    if target._layout is None:
        return _write_dense(op, called, target, bound)
    if target._layout is sparse_coo and op.name in _of_sums() and not pattern_of(target).coalesced:
        raise RuntimeError(
            f"{called}: the tensor may have several values at one place, which it would add up "
            "first; call coalesce() first."
        )
    return replace(target, called, function(**bound))


@cache
def _of_sums() -> frozenset[str]:
    """Operators that must not be applied to the terms of a sum."""
    from pullback.operators.sparse.arithmetic import ZERO_STAYS

    return frozenset(ZERO_STAYS.split())


def replace(target: Any, called: str, made: Any) -> Any:
    """Put a result, with its history, in the place of a sparse tensor."""
    if made._layout is not target._layout or made.shape != target.shape:
        raise RuntimeError(
            f"{called}: the result has layout {made.layout} and shape {tuple(made.shape)}, which "
            f"do not go into a tensor of layout {target.layout} and shape {tuple(target.shape)}."
        )
    made = _in_dtype_of(target, called, made)
    check_write(target, called, tracked=target.requires_grad or made.requires_grad)
    target._array.become(made._array)
    bump(target, called)
    if made.requires_grad:
        target._node = edge_of(made)
    return target


def _in_dtype_of(target: Any, called: str, made: Any) -> Any:
    """A result as it goes into a tensor; integers do not take fractions."""
    if made.dtype is target.dtype:
        return made
    if not can_cast(made.dtype, target.dtype):
        raise inplace_dtype(called, target.dtype, made.dtype)
    return made.to(target.dtype)


def check_write(target: Any, called: str, *, tracked: bool) -> None:
    """Refuse writes that lose history."""
    mode = get_mode()
    if target.is_inference() and not mode.inference:
        raise RuntimeError(f"{called}: an inference tensor cannot be changed outside of its mode.")
    if tracked and mode.grad:
        check_history_can_change(called, target)


def _write_dense(op: Op, called: str, target: Any, bound: dict[str, Any]) -> Any:
    """A dense target: sums are made in place, other results copied in."""
    recorded = get_mode().grad and any(
        isinstance(one, Tensor) and one.requires_grad for one in bound.values()
    )
    other = bound.get("other")
    plain = isinstance(other, SparseTensor) and other.shape == target.shape
    plain = plain and other.dtype is target.dtype  # type: ignore[union-attr]  # which is sparse
    if op.name in ("add", "sub") and plain and not recorded:
        alpha = bound.get("alpha", 1)
        array = other._array  # type: ignore[union-attr]  # a sparse tensor, as `plain` says
        factor = -alpha if op.name == "sub" else alpha
        check_write(target, called, tracked=False)
        if factor != 1:
            array = array * scalar_of(called, factor, array.dtype)
        add_into(target._array, array)
        bump(target, called)
        return target
    made = _in_dtype_of(target, called, table()[op.name](**bound))
    written = target.copy_(made.to_dense() if made._layout is not None else made)
    return shown_as(op.node_name, written)


# The table ---------------------------------------------------------------------------------------


@cache
def table() -> dict[str, Callable[..., Any]]:
    """The functions that stand for operators, by the operators' names."""
    from pullback.operators.attach import methods
    from pullback.operators.sparse import arithmetic, filled, products, reduce, shape

    for family in ("pointwise.trigonometry", "pointwise.exponentials", "special.error_functions"):
        methods.load(family)
    methods.load("pointwise.extrema")
    known: dict[str, Callable[..., Any]] = {
        "add": arithmetic.add,
        "sub": arithmetic.sub,
        "mul": arithmetic.multiply,
        "true_divide": arithmetic.divide,
        "any": arithmetic.any_of,
        "sum": reduce.total,
        "sum.full": reduce.total,
        "vector_norm": reduce.norm,
        "mm": products.mm,
        "mv": products.mv,
        "_matmul": products.matmul,
        "bmm": products.bmm,
        "addmm": products.addmm,
        "addmv": products.addmv,
        "linear": products.linear,
        "t": shape.t,
        "transpose": shape.transpose,
        "_permute": shape.permute,
        "unsqueeze": shape.unsqueeze,
        "select": shape.select,
        "index_select": shape.index_select,
        "slice_along": shape.slice_along,
        "_narrow_copy": shape.narrow,
        "unbind": shape.unbind,
        "cat": shape.cat,
        "stack": shape.stack,
        "_copy": filled.copied,
        "_like": filled.like,
        "_new": filled.new,
    }
    for name in arithmetic.LINEAR.split():
        known[name] = arithmetic.on_values(OPERATORS[name], linear=True)
    for name in arithmetic.ZERO_STAYS.split():
        known[name] = arithmetic.on_values(OPERATORS[name], linear=False)
    for name in ("floor_divide", "div.Tensor_mode"):
        known[name] = arithmetic.rounded(OPERATORS[name])
    return known
