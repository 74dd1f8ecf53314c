"""`cond` and `while_loop` in a capture: one step that decides when the program runs.

Both branches are captured for the geometry of what they give, and thrown away. The step calls the
branch that the value names, compiled by itself; its backward runs that branch once more, recorded.
Tensors that a branch finds outside must be the function's own (parameters); others are operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import Call
from pullback.compiled.capture.traced import TracedArray
from pullback.compiled.capture.world import World
from pullback.core.mode import NO_GRAD, PLAIN, Mode, current, get_mode, with_grad
from pullback.core.node import BuiltIn, OperatorNode
from pullback.core.origin import getframe, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.trees.pytree import TreeSpec, tree_flatten, tree_unflatten
from pullback.core.view import edge_of

__all__ = ["branch", "loop"]


class CondBackward(OperatorNode, metaclass=BuiltIn):
    """A branch that was taken when the program ran."""

    __slots__ = ("_g_sizes", "taken")

    taken: Any  # a _Branches

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        made: tuple[Any, ...] = self.taken.backward(g if isinstance(g, list) else [g])
        return made

    _run = _run_tensors


def branch(tracer: Any, pred: Tensor, functions: Any, operands: Any) -> Any:
    """What one of two functions gives for the operands, as a value will say."""
    made = _Branches(tracer, pred, functions, operands)
    results = made.forward()
    if get_mode().grad and made.needing:
        made.record(results)
    return tree_unflatten(results, made.spec)


class _Branches:
    """One `cond` under capture."""

    def __init__(self, tracer: Any, pred: Tensor, functions: Any, operands: Any) -> None:
        if get_mode().levels:
            raise CannotCapture("cond() inside vmap")
        self.tracer, self.pred = tracer, pred
        self.leaves, self.given = tree_flatten(tuple(operands))
        self.operands = [one for one in self.leaves if isinstance(one, Tensor)]
        self.held = _held(tracer, functions, self.operands)
        shapes = [_geometry(tracer, one, operands) for one in functions]
        if shapes[0] != shapes[1]:
            raise CannotCapture("branches of cond() that give other shapes or dtypes")
        self.spec, self.geometry = shapes[0]
        self.compiled = [_compiled(one) for one in functions]
        self.needing = [one for one in (*self.operands, *self.held) if one.requires_grad]
        self.values = [tracer.value_of(one._array) for one in (pred, *self.operands)]

    def forward(self) -> list[Tensor]:
        """The results, as values of the program."""
        call = Call("cond", self._chosen(NO_GRAD), tuple(self.values), {})
        return _entered(self.tracer, call, self.geometry)

    def plain(self) -> list[Any]:
        """The leaves of the operands; a mark where a tensor stands."""
        return [_MARK if isinstance(one, Tensor) else one for one in self.leaves]

    def _chosen(self, mode: Mode) -> Callable[..., Any]:
        """The kernel of the forward: it keeps no tensor of the capture alive."""
        compiled, plain, given = self.compiled, self.plain(), self.given

        def run(pred: Any, *arrays: Any) -> Any:
            arguments = _filled(plain, given, [wrap(array) for array in arrays])
            made = _in_mode(mode, lambda: compiled[not pred.item()](*arguments))
            listed = [one._array for one in tree_flatten(made)[0]]
            return listed[0] if len(listed) == 1 else tuple(listed)

        return run

    def record(self, results: list[Tensor]) -> None:
        """Give the results their history."""
        node = new(CondBackward)
        node._edges = tuple(edge_of(one) for one in self.needing)
        node._cold = None
        node.taken = self
        array = results[0]._array
        node._g_shape, node._g_dtype = array.shape, array.dtype
        several = len(results) > 1
        sizes = tuple((one._array.shape, one._array.dtype) for one in results)
        node._g_sizes = sizes if several else None
        frame = user_frame(getframe(3))
        node._code, node._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        node._seq = numbering.next()
        for number, result in enumerate(results):
            if result._array.dtype.kind in "fc":
                result._node = node._output(number) if several else node

    def backward(self, gradients: list[Any]) -> tuple[Tensor, ...]:
        """Gradients of what needs them, as values of the program."""
        arrived = [g is not None for g in gradients]
        given = [self.tracer.value_of(g._array) for g in gradients if g is not None]
        shapes = [(t._array.shape, t._array.dtype, t._array.strides) for t in self.needing]
        call = Call("cond_backward", self._pulled(arrived), (*self.values, *given), {})
        return tuple(_entered(self.tracer, call, shapes))

    def _pulled(self, arrived: list[bool]) -> Callable[..., Any]:
        compiled, plain, given = self.compiled, self.plain(), self.given
        count = len(self.operands)
        wanted = [one.requires_grad for one in self.operands]
        held = [one for one in self.held if one.requires_grad]

        def run(pred: Any, *arrays: Any) -> Any:
            from pullback.engine.backward import grad

            operands = [
                wrap(array).requires_grad_(needs)
                for array, needs in zip(arrays[:count], wanted, strict=True)
            ]
            arguments = _filled(plain, given, operands)
            leaves = [one for one in operands if one.requires_grad] + held

            def pull() -> Any:
                made = tree_flatten(compiled[not pred.item()](*arguments))[0]
                roots = [one for one, came in zip(made, arrived, strict=True) if came]
                pairs = [(r, wrap(g)) for r, g in zip(roots, arrays[count:], strict=True)
                         if r.requires_grad]  # fmt: skip
                if not pairs:
                    return [None] * len(leaves)
                return grad([r for r, _ in pairs], leaves, [g for _, g in pairs],
                            allow_unused=True)  # fmt: skip

            made = _in_mode(PLAIN, pull)
            listed = [
                numpy.zeros_like(leaf._array) if g is None else g._array
                for leaf, g in zip(leaves, made, strict=True)
            ]
            return listed[0] if len(listed) == 1 else tuple(listed)

        return run


def loop(tracer: Any, cond_fn: Any, body_fn: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """`while_loop` on values without gradients: a step that loops when the program runs."""
    leaves, given = tree_flatten(carried)
    operands = [one for one in leaves if isinstance(one, Tensor)]
    held = _held(tracer, (cond_fn, body_fn), operands)
    if get_mode().levels or len(operands) != len(leaves):
        raise CannotCapture("while_loop() inside vmap, or that carries other things than tensors")
    if get_mode().grad and any(one.requires_grad for one in (*operands, *held)):
        raise CannotCapture("a while_loop() that is differentiated: its length depends on values")
    spec, geometry = _geometry(tracer, lambda *args: _listed(body_fn(*args)), carried)
    before = [(t._array.shape, t._array.dtype) for t in operands]
    if [one[:2] for one in geometry] != before:
        raise CannotCapture("a while_loop() whose body changes shapes or dtypes")
    test, step = _compiled(cond_fn), _compiled(body_fn)

    def run(*arrays: Any) -> Any:
        def turns() -> Any:
            now = tree_unflatten([wrap(array) for array in arrays], given)
            while bool(test(*now)):
                now = _listed(step(*now))
            return [one._array for one in tree_flatten(now)[0]]

        made = _in_mode(NO_GRAD, turns)
        return made[0] if len(made) == 1 else tuple(made)

    values = tuple(tracer.value_of(one._array) for one in operands)
    results = _entered(tracer, Call("while_loop", run, values, {}), geometry)
    made: tuple[Any, ...] = tree_unflatten(results, spec)
    return made


_MARK = object()


def _filled(plain: list[Any], given: TreeSpec, tensors: list[Any]) -> Any:
    rest = iter(tensors)
    return tree_unflatten([next(rest) if one is _MARK else one for one in plain], given)


def _listed(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def _held(tracer: Any, functions: Any, operands: list[Any]) -> list[Tensor]:
    """Tensors that functions find outside: those of the compiled function's own surroundings."""
    found = list(World(*functions).tensors.values())
    given = {id(one) for one in operands}
    for one in found:
        if one._array.__class__ is TracedArray and id(one) not in tracer.outside:
            raise CannotCapture(
                "a branch that uses a tensor computed before it; pass it among the operands"
            )
    return [one for one in found if id(one) not in given]


def _geometry(tracer: Any, function: Any, operands: Any) -> tuple[TreeSpec, list[Any]]:
    """What a function gives: its structure, shapes, dtypes and strides."""
    mark, versions = len(tracer.calls), [one.version for one in tracer.written]
    mode = get_mode()
    try:
        current.set(with_grad(mode, grad=False))
        leaves, spec = tree_flatten(function(*operands))
    finally:
        current.set(mode)
    if not leaves or not all(isinstance(one, Tensor) for one in leaves):
        raise CannotCapture("a branch that gives other things than tensors")
    if any(call.random for call in tracer.calls[mark:]):
        raise CannotCapture("a branch that draws random numbers")
    if [one.version for one in tracer.written] != versions:
        raise CannotCapture("a branch that writes to tensors")
    shapes = [(o._array.shape, o._array.dtype, _dense(o._array)) for o in leaves]
    del tracer.calls[mark:]
    return spec, shapes


def _dense(array: Any) -> tuple[int, ...]:
    strides: tuple[int, ...] = numpy.empty(array.shape, array.dtype).strides
    return strides


def _compiled(function: Any) -> Any:
    from pullback.compiled.frontend import compile

    return compile(function)


def _entered(tracer: Any, call: Call, shapes: list[Any]) -> list[Tensor]:
    results = tracer.enter(call, shapes, single=len(shapes) == 1)
    return [wrap(tracer.array_of(value)) for value in results]


def _in_mode(mode: Mode, function: Callable[[], Any]) -> Any:
    before = get_mode()
    try:
        current.set(mode)
        return function()
    finally:
        current.set(before)
