"""The arguments of backward() and grad(): what may be given, its checks, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.dtype import from_numpy_dtype
from pullback.core.graph import GradientEdge, internal_edge
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import edge_of
from pullback.core.why import explain
from pullback.engine import ordered
from pullback.operators.dispatch import overloaded


class EmptyInputsError(RuntimeError, ValueError):
    """No inputs given; older programs expect a ValueError from grad()."""


def listed(values: Any) -> list[Any]:
    """One tensor or edge, or an iterable of such, as a list."""
    if isinstance(values, Tensor | GradientEdge):
        return [values]
    return list(values)


def given_gradients(values: Any) -> list[Any] | None:
    """Root gradients as a list of tensors and None."""
    if values is None:
        return None
    if isinstance(values, Tensor):
        return [values]
    listed = list(values)
    for value in listed:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"gradients must be Tensors or None, got {type(value).__name__}.")
    return listed


def metadata_of(root: Any) -> tuple[Any, Any]:
    """Shape and NumPy dtype of a root."""
    if isinstance(root, Tensor):
        return root._array.shape, root._array.dtype
    entry = root.node._input_metadata[root.output_nr]
    return tuple(entry.shape), entry.dtype.numpy


def root_edge(root: Any) -> Any:
    """Where a root's gradient goes; None if nothing was recorded for it."""
    if isinstance(root, Tensor):
        return edge_of(root)
    return internal_edge(root)


def checked_roots(roots: Sequence[Any], gradients: list[Any] | None) -> list[tuple[Any, Any]]:
    """Edges and gradients of the roots, after every check that torch makes, in its order."""
    edges = [root_edge(root) for root in roots]
    given: Iterable[Any] = gradients if gradients is not None else [None] * len(roots)
    filled = [
        _root_gradient(index, root, edge, g)
        for index, (root, edge, g) in enumerate(zip(roots, edges, given, strict=False))
    ]
    if gradients is not None and len(gradients) < len(roots):
        raise errors.root_gradient_count(len(roots), len(gradients))
    for index, edge in enumerate(edges):
        if edge is None:
            raise errors.root_without_history(index, why_untracked(roots[index]))
    return list(zip(edges, filled, strict=False))


def why_untracked(root: Any) -> str:
    """Why nothing was recorded for a root."""
    return explain(root) if isinstance(root, Tensor) else ""


def _root_gradient(index: int, root: Any, edge: Any, g: Any) -> Any:
    shape, dtype = metadata_of(root)
    if g is None:
        if edge is None:
            return None
        if any(size != 1 for size in shape):
            raise errors.implicit_gradient(shape)
        if dtype.kind == "c":
            raise errors.implicit_gradient_dtype(from_numpy_dtype(dtype))
        if isinstance(root, Tensor) and type(root._array) is not numpy.ndarray:
            return wrap(numpy.ones_like(root._array))
        return wrap(numpy.ones(shape, dtype))
    if g._array.shape != shape:
        raise errors.root_gradient_shape(index, g._array.shape, shape)
    if (g._array.dtype.kind == "c") != (dtype.kind == "c"):
        raise errors.root_gradient_dtype(index, g.dtype, from_numpy_dtype(dtype))
    if isinstance(root, Tensor) and type(g._array) is not type(root._array):
        g = _on_its_device(index, root, g)
    return g if g._array.dtype == dtype else g.to(from_numpy_dtype(dtype))


def _on_its_device(index: int, root: Tensor, g: Tensor) -> Any:
    """A gradient moved to where its root is, if it is a single number."""
    if g.device == root.device:
        return g
    if g._array.shape:
        raise errors.gradient_device(f"tensors[{index}]", g.device, root.device)
    return g.to(root.device)


def input_edge(one: Any, index: int) -> Any:
    """Where the gradient of something asked for goes."""
    if isinstance(one, GradientEdge):
        return internal_edge(one)
    if not isinstance(one, Tensor):
        raise RuntimeError(  # noqa: TRY004 (the type that torch raises)
            f"inputs[{index}] must be a Tensor or GradientEdge, got {type(one).__name__}."
        )
    if not one.requires_grad:
        raise RuntimeError(
            f"inputs[{index}] does not require grad: nothing was recorded for it. Set "
            "requires_grad=True before computing with it."
        )
    return edge_of(one)


def retaining_edge(one: Any) -> Any:
    """The same for backward(inputs=...), which lets a non-leaf keep its gradient."""
    if isinstance(one, Tensor):
        one.retain_grad()
    return input_edge(one, 0)


def offered(function: Any, asked: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Whether an object that is no tensor but acts as one takes the call, and its answer.

    Those are objects with a `__torch_function__`, alone or in a list.
    """
    for one in asked if isinstance(asked, tuple | list) else (asked,):
        if isinstance(one, tuple | list):
            taken, answer = offered(function, one, args, options)
            if taken:
                return taken, answer
        elif not isinstance(one, Tensor) and hasattr(type(one), "__torch_function__"):
            return overloaded(function, args, options)
    return False, None


def described_pass(tensors: Any, inputs: Any, *, accumulates: bool) -> ordered.Task:
    """A pass that is looked at but never run, from the arguments of backward() or grad()."""
    roots = listed(tensors)
    edges = [root_edge(root) for root in roots]
    for index, edge in enumerate(edges):
        if edge is None:
            raise errors.root_without_history(index, why_untracked(roots[index]))
    wanted = None
    if inputs is not None:
        wanted = [input_edge(one, index) for index, one in enumerate(listed(inputs))]
        if not wanted:
            raise EmptyInputsError("inputs= is empty; leave it away, or name a tensor.")
    return ordered.Task(
        [(edge, None) for edge in edges],
        keep_graph=True,
        create_graph=False,
        tensors=False,
        accumulates=accumulates,
        wanted=wanted,
        freed=Freed(None),
    )
