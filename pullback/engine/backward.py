"""backward() and grad(): arguments, checks, and the choice between the two passes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from pullback.core import anomaly, errors, mode, origin
from pullback.core.dtype import from_numpy_dtype
from pullback.core.forward import visible_levels
from pullback.core.graph import GradientEdge, internal_edge
from pullback.core.hooks import leaf_hooks_in_use
from pullback.core.nesting import refuse_inside
from pullback.core.node import node_and_number, numbering
from pullback.core.saved import Freed, keeps_graph
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import edge_of
from pullback.engine import ordered, plain, recorded, task
from pullback.engine.filter import Filter
from pullback.engine.threads import nested

# Tests set it to run every program through the whole pass.
always_ordered = False

_warned_of_cycle = False


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves (or of `inputs`).

    >>> import pullback as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("Pass grad_tensors or its old name grad_variables, not both.")
        warnings.warn(
            "grad_variables is the old name of grad_tensors; use that.",
            FutureWarning,
            stacklevel=origin.stacklevel(),
        )
        grad_tensors = grad_variables
    refuse_inside("backward()", "Use func.grad or func.vjp for derivatives in there.")
    wanted = None
    if inputs is not None:
        wanted = _listed(inputs)
        if not wanted:
            raise EmptyInputsError(
                "inputs= of backward() is empty; leave it away, or name a tensor."
            )
    roots = _roots(_listed(tensors), _gradients(grad_tensors))
    if create_graph:
        _warn_of_cycle()
    _run(
        roots,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        accumulates=True,
        wanted=None if wanted is None else [_retaining_edge(one) for one in wanted],
    )


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; no `.grad` is touched.

    >>> import pullback as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x ** 3, x)
    (tensor(27.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "materialize_grads=True gives zeros for unused inputs; allow_unused=False forbids."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs=False has no effect: grad() only ever computes its inputs' gradients.",
            FutureWarning,
            stacklevel=origin.stacklevel(),
        )
    names = list(inputs) if type(inputs) is dict else None
    wanted = _listed(inputs.values() if names is not None else inputs)
    if not wanted:
        raise EmptyInputsError("grad() needs at least one input.")
    edges = [_input_edge(one, index) for index, one in enumerate(wanted)]
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        results = _batched(outputs, edges, grad_outputs, keep, create_graph)
    else:
        roots = _roots(_listed(outputs), _gradients(grad_outputs))
        results = _run(
            roots, retain_graph=keep, create_graph=create_graph, accumulates=False, wanted=edges
        )
    allow = materialize_grads if allow_unused is None else allow_unused
    finished = _finished(results, wanted, allow, materialize_grads, create_graph)
    return dict(zip(names, finished, strict=True)) if names is not None else finished


class EmptyInputsError(RuntimeError, ValueError):
    """No inputs given; older programs expect a ValueError from grad()."""


def _finished(
    results: list[Any],
    wanted: list[Any],
    allow: bool,
    materialize: bool,
    create_graph: bool,
) -> tuple[Any, ...]:
    finished: list[Any] = []
    for index, (value, one) in enumerate(zip(results, wanted, strict=True)):
        if value is not None:
            finished.append(ordered.as_tensor(value))
        elif materialize:
            if not isinstance(one, Tensor):
                raise RuntimeError(
                    f"inputs[{index}] is a GradientEdge: zeros cannot be made for it."
                )
            zeros = wrap(numpy.zeros_like(one._array))
            zeros._set_requires_grad(create_graph)
            finished.append(zeros)
        elif not allow:
            raise errors.unused_input(index)
        else:
            finished.append(None)
    return tuple(finished)


def _batched(
    outputs: Any,
    edges: list[Any],
    grad_outputs: Any,
    keep: bool,
    create_graph: bool,
) -> list[Any]:
    """One pass for all examples: gradients are batched tensors on their way."""
    gradients = _gradients(grad_outputs)
    roots = _listed(outputs)
    if gradients is None or len(gradients) < len(roots) or any(g is None for g in gradients):
        raise ValueError(
            "is_grads_batched=True needs a gradient for each output: their first dimension counts "
            "the examples."
        )
    sizes = {g._array.shape[:1] for g in gradients}
    if len(sizes) > 1 or () in sizes:
        raise ValueError(
            "With is_grads_batched=True the first dimension of each gradient counts examples, the "
            f"same number in all; got shapes {[tuple(g._array.shape) for g in gradients]}."
        )
    for index, (root, g) in enumerate(zip(roots, gradients, strict=False)):
        shape = tuple(_metadata(root)[0])
        if g._array.shape[1:] != shape:
            raise RuntimeError(
                f"grad_outputs[{index}] has shape {tuple(g._array.shape)}; with "
                f"is_grads_batched=True it must be (batch, *{shape}): its first dimension counts "
                "examples."
            )
    (size,) = next(iter(sizes))

    def one_pass(*examples: Any) -> list[Any]:
        return _run(
            _roots(roots, list(examples)),
            retain_graph=keep,
            create_graph=create_graph,
            accumulates=False,
            wanted=edges,
        )

    return over_batch(one_pass, gradients, size)  # noqa: F821 (filled in by the transforms)


# Calls a function once with the examples of a batch, and stacks its results (None stays).
over_batch: Callable[[Callable[..., list[Any]], list[Any], int], list[Any]]


def run_pass(
    roots: list[tuple[Any, Any]], wanted: list[Any], *, retain_graph: bool, create_graph: bool
) -> list[Any]:
    """Gradients for `wanted` edges as tensors, None where nothing arrives."""
    results = _run(
        roots,
        retain_graph=retain_graph,
        create_graph=create_graph,
        accumulates=False,
        wanted=wanted,
    )
    return [None if g is None else ordered.as_tensor(g) for g in results]


def run_explicit(
    roots: Sequence[Any],
    gradients: Sequence[Any],
    inputs: Sequence[Any],
    *,
    keep_graph: bool,
    create_graph: bool,
    allow_unreachable: bool,
    accumulates: bool,
) -> tuple[Any, ...]:
    """A pass whose root gradients may be larger than the roots: they are summed to their shape."""
    pairs = []
    for index, (root, g) in enumerate(zip(roots, gradients, strict=True)):
        edge = _root_edge(root)
        if edge is None:
            raise errors.root_without_history(index)
        node: Any = node_and_number(edge)[0]
        pairs.append((edge, recorded.fitted(g, edge, node, index)))
    wanted = [_input_edge(one, index) for index, one in enumerate(inputs)]
    results = _run(
        pairs,
        retain_graph=keep_graph,
        create_graph=create_graph,
        accumulates=accumulates,
        wanted=wanted or None,
    )
    if accumulates:
        return ()
    return _finished(results, list(inputs), allow_unreachable, False, create_graph)  # noqa: FBT003


def _run(
    roots: list[tuple[Any, Any]],
    *,
    retain_graph: bool,
    create_graph: bool,
    accumulates: bool,
    wanted: list[Any] | None,
) -> list[Any]:
    """Run a pass in the right grad mode and return what it captured, in the order of `wanted`."""
    before = mode.settle()
    request = Request(roots, retain_graph, create_graph, accumulates, wanted, Freed(origin.here(2)))
    outer = task.running.get()
    request.filtered = wanted is not None or (outer is not None and outer.filtered)
    node = anomaly.evaluating.get()
    kept = keeps_graph.get()
    try:
        mode.current.set(mode.changed(before, grad=create_graph))
        keeps_graph.set(retain_graph)
        task.running.set(request)
        request.tensors = create_graph or bool(before.levels) or bool(visible_levels())
        captured = nested(request.run)
        if request.callbacks:
            task.run_callbacks(request)
        return [captured.get(node_and_number(edge)) for edge in wanted or ()]
    finally:
        mode.current.set(before)
        keeps_graph.set(kept)
        task.running.set(outer)
        anomaly.evaluating.set(node)


@dataclass(slots=True)
class Request:
    """One call of backward() or grad(), its arguments checked."""

    roots: list[tuple[Any, Any]]  # edge, gradient
    keep_graph: bool
    create_graph: bool
    accumulates: bool  # into .grad; otherwise only captures
    wanted: list[Any] | None  # edges asked for; None: every leaf
    freed: Freed
    tensors: bool = False  # gradients are tensors: recorded, dual or batched ones; otherwise arrays
    filtered: bool = False  # whether this pass, or one around it, has inputs=
    callbacks: list[Any] = field(default_factory=list)
    id: int = field(default_factory=task.next_id)

    def run(self) -> dict[Any, Any]:
        """Choose the pass and run it; returns what it captured."""
        if (
            always_ordered
            or leaf_hooks_in_use
            or anomaly.state.enabled
            or numbering.changed
            or task.logs_nodes()
        ):
            return self._run_in_order()
        chosen = None
        if self.wanted is not None:
            edges = [edge for edge, _ in self.roots]
            chosen = Filter(edges, self.wanted, accumulates=self.accumulates)
        if self.tensors:
            return recorded.run(
                self.roots,
                keep_graph=self.keep_graph,
                create_graph=self.create_graph,
                freed=self.freed,
                chosen=chosen,
            )
        return plain.run(
            self._arrays(), keep_graph=self.keep_graph, freed=self.freed, chosen=chosen
        )

    def _run_in_order(self) -> dict[Any, Any]:
        whole = ordered.Task(
            self.roots if self.tensors else self._arrays(),
            keep_graph=self.keep_graph,
            create_graph=self.create_graph,
            tensors=self.tensors,
            accumulates=self.accumulates,
            wanted=self.wanted,
            freed=self.freed,
            logged=task.logs_nodes(),
        )
        ordered.run(whole)
        return whole.captured

    def _arrays(self) -> list[tuple[Any, Any]]:
        return [(edge, g._array) for edge, g in self.roots]


# Arguments --------------------------------------------------------------------------------------


def _listed(values: Any) -> list[Any]:
    if isinstance(values, Tensor | GradientEdge):
        return [values]
    return list(values)


def _gradients(values: Any) -> list[Any] | None:
    if values is None:
        return None
    if isinstance(values, Tensor):
        return [values]
    listed = list(values)
    for value in listed:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"gradients must be Tensors or None, got {type(value).__name__}.")
    return listed


def _metadata(root: Any) -> tuple[Any, Any]:
    if isinstance(root, Tensor):
        return root._array.shape, root._array.dtype
    entry = root.node._input_metadata[root.output_nr]
    return tuple(entry.shape), entry.dtype.numpy


def _root_edge(root: Any) -> Any:
    if isinstance(root, Tensor):
        return edge_of(root)
    return internal_edge(root)


def _roots(roots: Sequence[Any], gradients: list[Any] | None) -> list[tuple[Any, Any]]:
    edges = [_root_edge(root) for root in roots]
    given: Iterable[Any] = gradients if gradients is not None else [None] * len(roots)
    filled = [
        _root_gradient(index, root, edge, g)
        for index, (root, edge, g) in enumerate(zip(roots, edges, given, strict=False))
    ]
    if gradients is not None and len(gradients) < len(roots):
        raise errors.root_gradient_count(len(roots), len(gradients))
    for index, edge in enumerate(edges):
        if edge is None:
            raise errors.root_without_history(index)
    return list(zip(edges, filled, strict=False))


def _root_gradient(index: int, root: Any, edge: Any, g: Any) -> Any:
    shape, dtype = _metadata(root)
    if g is None:
        if edge is None:
            return None
        if any(size != 1 for size in shape):
            raise errors.implicit_gradient(shape)
        if dtype.kind == "c":
            raise errors.implicit_gradient_dtype(from_numpy_dtype(dtype))
        return wrap(numpy.ones(shape, dtype))
    if g._array.shape != shape:
        raise errors.root_gradient_shape(index, g._array.shape, shape)
    if (g._array.dtype.kind == "c") != (dtype.kind == "c"):
        raise errors.root_gradient_dtype(index, g.dtype, from_numpy_dtype(dtype))
    return g if g._array.dtype == dtype else g.to(from_numpy_dtype(dtype))


def _input_edge(one: Any, index: int) -> Any:
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


def _retaining_edge(one: Any) -> Any:
    if isinstance(one, Tensor):
        one.retain_grad()
    return _input_edge(one, 0)


def _warn_of_cycle() -> None:
    global _warned_of_cycle
    if not _warned_of_cycle:
        _warned_of_cycle = True
        warnings.warn(
            "backward(create_graph=True) stores gradients with history in .grad, which makes a "
            "reference "
            "cycle between a leaf and its gradient. Prefer autograd.grad(), or set .grad to None "
            "after "
            "use.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
