"""backward() and grad(): arguments, checks, and what is around a pass."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy

from pullback.core import errors, mode, origin, passes
from pullback.core.nesting import refuse_inside
from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, node_and_number
from pullback.core.ports import ports
from pullback.core.process.warning_once import should_warn
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, wrap
from pullback.engine import fast_path, node_observers, task
from pullback.engine.arguments import (
    EmptyInputsError,
    checked_roots,
    foreign,
    given_gradients,
    input_edges,
    listed,
    metadata_of,
    retaining_edge,
    root_edge,
    roots_of,
    why_untracked,
    zeros_for,
)
from pullback.engine.fitting import as_tensor, fitted_tensor
from pullback.engine.request import Request as Request
from pullback.engine.request import all_is_plain, computes_with_tensors, derivatives, wants_order
from pullback.engine.threads import fork, nested
from pullback.operators.dispatch.dispatch import offered


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> Any:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves (or of `inputs`).

    >>> import pullback as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    if (
        tensors.__class__ is Tensor
        and not create_graph
        and grad_variables is None is inputs
        and all_is_plain()
        and not (derivatives() or passes.at_end)
        and _fast_backward(tensors, grad_tensors, bool(retain_graph))
    ):
        return None
    if foreign(tensors) or mode.get_mode().functions:
        options = {
            "grad_tensors": grad_tensors,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "inputs": inputs,
        }
        taken, answer = offered(backward, (tensors,), options)
        if taken:
            return answer
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
        wanted = listed(inputs)
        if not wanted:
            raise EmptyInputsError(
                "inputs= of backward() is empty; leave it away, or name a tensor."
            )
    roots = roots_of(tensors, grad_tensors)
    if create_graph:
        _warn_of_cycle()
    _run(
        roots,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        accumulates=True,
        wanted=None if wanted is None else [retaining_edge(one) for one in wanted],
    )
    return None


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
    if (
        outputs.__class__ in _PLAINLY_GIVEN
        and inputs.__class__ in _PLAINLY_GIVEN
        and not (is_grads_batched or materialize_grads)
        and only_inputs
        and all_is_plain()
    ):
        keep = create_graph if retain_graph is None else bool(retain_graph)
        found = _fast_gradients(outputs, inputs, grad_outputs, keep, create_graph, allow_unused)
        if found is not None:
            return found
    asks = outputs.__class__ is not Tensor and foreign(outputs)
    if asks or foreign(inputs) or mode.get_mode().functions:
        options = {
            "grad_outputs": grad_outputs,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "only_inputs": only_inputs,
            "allow_unused": allow_unused,
            "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }
        taken, answer = offered(grad, (outputs, inputs), options)
        if taken:
            return answer
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
    wanted = listed(inputs.values() if names is not None else inputs)
    if not wanted:
        raise EmptyInputsError("grad() needs at least one input.")
    edges = input_edges(wanted)
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        results = _batched(outputs, edges, grad_outputs, keep, create_graph)
    else:
        roots = roots_of(outputs, grad_outputs)
        results = _run(
            roots, retain_graph=keep, create_graph=create_graph, accumulates=False, wanted=edges
        )
    allow = materialize_grads if allow_unused is None else allow_unused
    finished = _finished(results, wanted, allow, materialize_grads, create_graph)
    return dict(zip(names, finished, strict=True)) if names is not None else finished


# What arguments may be for the fast path: of these, asking who is inside costs nothing.
_PLAINLY_GIVEN = frozenset({list, tuple, Tensor})


def _fast_gradients(
    output: Any, inputs: Any, given: Any, keep: bool, create_graph: bool, allow: bool | None
) -> tuple[Any, ...] | None:
    """What grad() gives where all is plain; None: it is not, and nothing was done."""
    if output.__class__ is not Tensor:
        if len(output) != 1 or output[0].__class__ is not Tensor:
            return None
        output = output[0]
        if given.__class__ is tuple or given.__class__ is list:
            given = given[0] if len(given) == 1 else NotImplemented
    wanted = fast_path.leaves_of(inputs)
    start = None if wanted is None else fast_path.start_of(output, given)
    if wanted is None or start is None:
        return None
    edge, g = start
    frame = fast_path.user_frame_at(2)
    freed = Freed(frame, (ref(edge),) if edge._seq < 0 else ())
    request = Request([start], keep, create_graph, False, wanted, freed)
    request.chosen = fast_path.chosen_by(edge, wanted)
    if create_graph:
        request.tensors = True
        arrived = fast_path.run(request, edge, g, frame, mode.PLAIN, mode.PLAIN)
    else:
        arrived = fast_path.run(request, edge, g._array)
        found = fast_path.tensors_of(wanted, arrived)
        if found is not None:
            return found
    reached = [arrived.get(leaf) for leaf in wanted]
    return _finished(reached, wanted, bool(allow), False, create_graph)


def _fast_backward(output: Tensor, given: Any, keep: bool) -> bool:
    """backward() where all is plain; False: it is not, and nothing was done."""
    start = fast_path.start_of(output, given)
    if start is None:
        return False
    edge, g = start
    freed = Freed(fast_path.user_frame_at(2), (ref(edge),) if edge._seq < 0 else ())
    fast_path.run(Request([start], keep, False, True, None, freed), edge, g._array)
    return True


def _finished(
    results: list[Any], wanted: list[Any], allow: bool, materialize: bool, create_graph: bool
) -> tuple[Any, ...]:
    finished: list[Any] = []
    for index, value in enumerate(results):
        if value is not None:
            known = value.__class__ is numpy.ndarray
            finished.append(wrap(value) if known else as_tensor(value))
        elif materialize:
            one = wanted[index]
            if not isinstance(one, Tensor):
                raise RuntimeError(
                    f"inputs[{index}] is a GradientEdge: zeros cannot be made for it."
                )
            zeros = zeros_for(one) if one._layout is None else wrap(one._array.zeros())
            zeros._set_requires_grad(create_graph)
            finished.append(zeros)
        elif not allow:
            raise errors.unused_input(index)
        else:
            finished.append(None)
    return tuple(finished)


def _batched(
    outputs: Any, edges: list[Any], grad_outputs: Any, keep: bool, create_graph: bool
) -> list[Any]:
    """One pass for all examples: gradients are batched tensors on their way."""
    gradients = given_gradients(grad_outputs)
    roots = listed(outputs)
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
        shape = tuple(metadata_of(root)[0])
        if g._array.shape[1:] != shape:
            raise RuntimeError(
                f"grad_outputs[{index}] has shape {tuple(g._array.shape)}; with "
                f"is_grads_batched=True it must be (batch, *{shape}): its first dimension counts "
                "examples."
            )
    (size,) = next(iter(sizes))

    def one_pass(*examples: Any) -> list[Any]:
        return _run(
            checked_roots(roots, list(examples)),
            retain_graph=keep,
            create_graph=create_graph,
            accumulates=False,
            wanted=edges,
        )

    return ports.over_batch(one_pass, gradients, size)


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
    return [None if g is None else as_tensor(g) for g in results]


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
        edge = root_edge(root)
        if edge is None:
            raise errors.root_without_history(index, why_untracked(root))
        node: Any = node_and_number(edge)[0]
        pairs.append((edge, fitted_tensor(g, edge, node, index)))
    wanted = input_edges(inputs)
    results = _run(
        pairs,
        retain_graph=keep_graph,
        create_graph=create_graph,
        accumulates=accumulates,
        wanted=wanted or None,
    )
    if accumulates:
        return ()
    return _finished(results, list(inputs), allow_unreachable, False, create_graph)


def _run(
    roots: list[tuple[Any, Any]],
    *,
    retain_graph: bool,
    create_graph: bool,
    accumulates: bool,
    wanted: list[Any] | None,
) -> list[Any]:
    """Run a pass in the right grad mode and return what it captured, in the order of `wanted`."""
    before = mode.get_mode()
    if before is mode.FRESH:
        before = mode.settle()
    other = passes.taken_over.get()
    kind: Any = Request
    if other is not None and not create_graph:
        answer = other.run(roots, wanted, retain_graph=retain_graph, accumulates=accumulates)
        if answer.__class__ is list:
            found: list[Any] = answer
            return found
        if answer is not None:
            kind = answer  # makes a request that runs in its own way
    # Weak references to where the pass begins: a later one that comes to what this one freed can
    # tell what the two share.
    starts: list[Any] = []
    if not retain_graph:
        for edge, _ in roots:  # as below: a comprehension costs every pass a fifth of a microsecond
            if edge._seq <= LEAF_SEQ:
                starts.append(ref(edge))
    frame: Any = origin.getframe(2)
    if origin.internal[frame.f_code.co_filename]:
        frame = origin.user_frame(frame)
    freed = Freed(frame, starts)
    request = kind(roots, retain_graph, create_graph, accumulates, wanted, freed)
    outer = passes.running.get()
    node = passes.evaluating.get()
    if outer is not None:
        request.surround(outer, node)
    try:
        usual = before is mode.PLAIN and not create_graph
        request.in_mode = mode.NO_GRAD if usual else mode.with_grad(before, grad=create_graph)
        if before.functions:  # they see calls of the user
            request.in_mode = mode.changed(request.in_mode, functions=())
        mode.current.set(request.in_mode)
        passes.running.set(request)
        request.tensors = computes_with_tensors(
            roots, before, create_graph=create_graph, follows_classes=request.follows_classes
        )
        # Few passes have another one around them, on whose depth they are.
        alone = outer is None and not fork.lost_threads
        captured = request.run() if alone else nested(request.run)
        if request.callbacks:
            task.run_callbacks(request)
        if passes.at_end and accumulates and outer is None:
            for act in tuple(passes.at_end):
                act()
        found = []
        for edge in wanted or ():
            place = (edge.node, edge.nr) if edge._seq == OUTPUT_SEQ else (edge, 0)
            found.append(captured.get(place))
        return found
    finally:
        if request.early is not None:
            request.early = None  # it knows the request
        # An interrupt may come after each call, and must not keep the next one from being made.
        try:
            mode.current.set(before)
        finally:
            try:
                passes.running.set(outer)
            finally:
                passes.evaluating.set(node)


def nobody_looks() -> bool:
    """Whether a pass that began now would be plain, the only one, and seen by nobody.

    Then a node that has all gradients of its leaves at hand may hand them over by itself.
    """
    return (
        mode.get_mode() is mode.PLAIN
        and mode.fast.plain is not None
        and passes.running.get() is None
        and passes.taken_over.get() is None
        and not derivatives()
        and node_observers.observer is None
        and not wants_order()
    )


def _warn_of_cycle() -> None:
    if should_warn("cycle of a leaf and its gradient"):
        warnings.warn(
            "backward(create_graph=True) stores gradients with history in .grad, which makes a "
            "reference "
            "cycle between a leaf and its gradient. Prefer autograd.grad(), or set .grad to None "
            "after "
            "use.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
