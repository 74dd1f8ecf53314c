"""A node of the backward graph as one step of a program: its rules as eager runs them on arrays.

Rules are written in operators, and most captures write those down one by one. But on arrays some
rules take another way (a quotient where no factor is zero, all gradients in one pass), whose last
bits differ. A capture that promises eager's bits therefore keeps the node whole.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from pullback.compiled.capture.steps import Call
from pullback.compiled.capture.traced import TracedArray
from pullback.core import saved
from pullback.core.dtype import from_numpy_dtype
from pullback.core.forward import LEVELS
from pullback.core.promotion import is_half
from pullback.core.tensor import Tensor, wrap
from pullback.engine.fitting import broadcast_dims, fitted_all, fitted_tensor, summed
from pullback.operators.declare import Op, parameters_of
from pullback.operators.plan import plan_of, several_outputs
from pullback.operators.running.on_arrays import on_arrays
from pullback.operators.running.outputs import fill_missing
from pullback.operators.writing.inline import inlined
from pullback.operators.writing.nodes import rules_apart

__all__ = ["Rules", "written_down"]


def written_down(
    tracer: Any, node: Any, g: Any, edges: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """Write a node down as a step; its rules, run on tensors, tell what its results are like."""
    # Tangents go through operators. Numbers beside half precision are wide in operators alone.
    spelled_out = _is_declared(node) and _is_spelled_out(type(node).op)
    if LEVELS or not _is_declared(node) or (spelled_out and not is_half(node._g_dtype)):
        made: tuple[Any, ...] = node._run_tensors(g, edges)
        return made
    op = type(node).op
    # First, since what they are parts of must stay written down.
    given = _values_of(tracer, _gradients_for(node, g))
    kept = {name: _values_of(tracer, one) for name, one in _kept_by(node, edges).items()}
    before = len(tracer.calls)
    made = fitted_all(node._run_tensors(g, edges), edges, node, fitted_tensor)
    if not any(one is not None and one._array.__class__ is TracedArray for one in made):
        return made
    wanted = tuple([None if one is None else True for one in made])
    values = [tracer.value_of(one._array) for one in made if one is not None]
    del tracer.calls[before:]
    fits = tuple([(one.shape, one.dtype) for one in values])
    call = Call(op.node_name, rules(op, wanted), (given, fits), kept)
    shapes = [(one.shape, one.dtype, one.strides) for one in values]
    results = iter(tracer.enter(call, shapes, single=False))
    return tuple([None if one is None else wrap(tracer.array_of(next(results))) for one in made])


def _values_of(tracer: Any, tree: Any) -> Any:
    """Values in place of tensors."""
    if isinstance(tree, Tensor):
        return tracer.value_of(tracer.standing_in(tree))
    if tree.__class__ is TracedArray:
        return tracer.value_of(tree)
    if tree.__class__ in (tuple, list):
        return type(tree)([_values_of(tracer, one) for one in tree])
    return tree


class Rules:
    """The kernel of such a step: gradients and kept arrays in, gradients of some inputs out."""

    __slots__ = ("edges", "op", "run")

    def __init__(self, op: Op, edges: tuple[Any, ...], run: Any) -> None:
        """`edges`: None where no gradient is wanted; `run`: the rules on arrays."""
        self.op, self.edges, self.run = op, edges, _fitting(run, edges)

    def __call__(self, g: Any, fits: Any, /, **kept: Any) -> Any:
        """Gradients of the inputs that want one; `fits` are the shape and dtype of each."""
        return self.run(g, fits, **kept)

    def on_tensors(self, g: Any, fits: Any, /, **kept: Any) -> list[Any]:
        """The same by operators, which can be differentiated."""
        plan = plan_of(self.op)
        options = {name: _arrays_in(kept[name]) for name in plan.options if name in kept}
        names = {"g": g, **kept, **options}
        if several_outputs(self.op) and self.op.outputs != ("*",):
            names |= {f"g_{name}": one for name, one in zip(self.op.outputs, g, strict=True)}
        elif len(self.op.outputs) > 1 and self.op.outputs != ("*",):
            names[self.op.gradient_names[0]] = g
        made = [
            self.op.rules[param.name](*[names[n] for n in parameters_of(self.op.rules[param.name])])
            for param, edge in zip(plan.edges, self.edges, strict=False)
            if edge is not None
        ]
        pairs = zip(made[0] if _is_sequence(self.op) else made, fits, strict=True)
        return [_fitted_tensor(one, *fit) for one, fit in pairs]

    def on_library(self, library: Any) -> Rules:
        """The same on arrays of a device."""
        return Rules(self.op, self.edges, library.rules(self.op))


def _fitting(run: Any, edges: tuple[Any, ...]) -> Any:
    """Rules, and what they give fitted to where it goes."""

    def gradients(g: Any, fits: Any, /, **kept: Any) -> Any:
        made = run(edges, g, **kept)
        if len(fits) == 1 == len(made):
            (one,), ((shape, dtype),) = made, fits
            return made if one.shape == shape and one.dtype == dtype else [_fitted(one, *fits[0])]
        wanted = [one for one, edge in zip(made, edges, strict=True) if edge is not None]
        return [
            one if one.shape == shape and one.dtype == dtype else _fitted(one, shape, dtype)
            for one, (shape, dtype) in zip(wanted, fits, strict=True)
        ]

    return gradients


@cache  # captures at several sizes are joined only where their kernels are the same
def rules(op: Op, edges: tuple[Any, ...]) -> Rules:
    """The rules of an operator for the edges that are not None."""
    return Rules(op, edges, _written(op))


@cache
def _written(op: Op) -> Any:
    return rules_apart(op, {}, on_arrays)


def _fitted(g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """As the engine fits what a node gives to where it goes."""
    if g.shape != shape:
        g = summed(g, cast("tuple[int, ...]", broadcast_dims(g.shape, shape)), shape)
    if g.dtype == dtype:
        return g
    return (g.real if g.dtype.kind in "cW" and dtype.kind not in "cW" else g).astype(dtype)


def _fitted_tensor(g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if tuple(g.shape) != shape:
        g = g.sum_to_size(shape)
    made = g._array.dtype
    if made == dtype:
        return g
    real = made.kind in "cW" and dtype.kind not in "cW"
    return (g.real if real else g).to(from_numpy_dtype(dtype))


def _arrays_in(option: Any) -> Any:
    """An option that was computed by the function; rules take arrays there."""
    if isinstance(option, Tensor):
        return option._array
    return tuple(map(_arrays_in, option)) if option.__class__ is tuple else option


def _is_sequence(op: Op) -> bool:
    return [param.kind for param in plan_of(op).edges] == ["tensors"]


def _is_declared(node: Any) -> bool:
    """Whether what a node does is what its operator's rules say; its name may be another's."""
    written: Any = next((cls for cls in type(node).__mro__ if "plan" in cls.__dict__), None)
    return written is not None and type(node)._run_tensors is written._run_tensors


@cache
def _is_spelled_out(op: Op) -> bool:
    """Whether operators alone tell its gradients, which are the same on arrays."""
    lines = [inlined(op, param, "t_") for param in plan_of(op).edges]
    return op.fused_backward is None and all(
        one is not None and one.same_on_tensors for one in lines
    )


def _gradients_for(node: Any, g: Any) -> Any:
    """What arrives at a node, as its rules take it."""
    return list(fill_missing(node, g, True)) if several_outputs(type(node).op) else g


def _kept_by(node: Any, edges: tuple[Any, ...]) -> dict[str, Any]:
    """What a node keeps, by name, as far as the rules of its edges ask for it; tensors."""
    plan = type(node).plan
    kept: dict[str, Any] = {}
    for name in plan.kept:
        if not _is_sequence(plan.op) and all(edges[n] is None for n in plan.users(name)):
            continue
        if any(param.name == name for param in plan.inputs):
            kept[name] = saved.input_tensor(node, name)
        elif name in plan.outputs:
            kept[name] = node._output_tensor(name)
        else:
            kept[name] = getattr(node, f"s_{name}")
    return kept
