"""`cond` and `while_loop` in a capture: one step that decides when the program runs.

Both branches are captured for the geometry of what they give, and thrown away. The step calls the
branch that the value names, compiled by itself; its backward runs that branch once more, recorded.
Tensors that a branch finds outside must be the function's own (parameters); others are operands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import Call
from pullback.core.mode import NO_GRAD, PLAIN, Mode, current, get_mode, with_grad
from pullback.core.node import BuiltIn, OperatorNode
from pullback.core.origin import getframe, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.trees.pytree import TreeSpec, tree_flatten, tree_unflatten
from pullback.core.view import edge_of

__all__ = ["Chosen", "CompiledPass", "Pulled", "branch", "loop"]


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
        found = [_geometry(tracer, one, operands) for one in functions]
        lifted, operands = _lifted(tracer, functions, operands)
        self.leaves, self.given = tree_flatten(tuple(operands))
        self.operands = [one for one in self.leaves if isinstance(one, Tensor)]
        self.held = _distinct([one for _, _, held in found for one in held], self.operands)
        _check_known(tracer, self.held)
        shapes = [(spec, shapes) for spec, shapes, _ in found]
        if shapes[0] != shapes[1]:
            raise CannotCapture("branches of cond() that give other shapes or dtypes")
        self.spec, self.geometry = shapes[0]
        self.compiled = [_compiled(one) for one in lifted]
        self.needing = [one for one in (*self.operands, *self.held) if one.requires_grad]
        self.values = [tracer.value_of(one._array) for one in (pred, *self.operands)]

    def forward(self) -> list[Tensor]:
        """The results, as values of the program."""
        call = Call("cond", Chosen(*self._steps()), tuple(self.values), {})
        return _entered(self.tracer, call, self.geometry)

    def _steps(self) -> tuple[list[Any], list[Any], TreeSpec]:
        """What the kernels need: they keep no tensor of the capture alive."""
        plain = [_MARK if isinstance(one, Tensor) else one for one in self.leaves]
        return self.compiled, plain, self.given

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
        wanted = [one.requires_grad for one in self.operands]
        held = [self.tracer.original(one) for one in self.held if one.requires_grad]
        kernel = Pulled(*self._steps(), wanted, held, arrived)
        call = Call("cond_backward", kernel, (*self.values, *given), {})
        return tuple(_entered(self.tracer, call, shapes))


class Chosen:
    """The kernel of `cond`: runs the branch that a value names."""

    mode = NO_GRAD

    def __init__(self, compiled: list[Any], plain: list[Any], given: TreeSpec) -> None:
        """`plain`: the leaves of the operands, a mark where a tensor stands."""
        self.compiled, self.plain, self.given = compiled, plain, given
        self.needs_grad: list[bool] = []

    def __call__(self, pred: Any, *arrays: Any) -> Any:
        """The arrays that the branch gives."""
        taken = self.compiled[not pred.item()]
        made = self.in_mode(lambda: self.run(taken, *[wrap(array) for array in arrays]))
        return _arrays(tree_flatten(made)[0])

    def run(self, branch: Any, *tensors: Any) -> Any:
        """What a branch gives for the tensors among the operands."""
        return branch(*_filled(self.plain, self.given, tensors))

    def in_mode(self, function: Callable[[], Any]) -> Any:
        """What a function gives in the mode that branches run in."""
        return _in_mode(self.mode, function)

    def functions(self) -> list[Callable[..., Any]]:
        """Both branches as functions of tensors."""
        return [partial(self.run, one.function) for one in self.compiled]


class Pulled(Chosen):
    """The kernel of its backward: runs the branch that was taken once more, recorded."""

    mode = PLAIN

    def __init__(
        self, compiled: list[Any], plain: list[Any], given: TreeSpec, wanted: list[bool],
        held: list[Tensor], arrived: list[bool],
    ) -> None:  # fmt: skip
        """`wanted`: operands that need a gradient; `arrived`: results that one came for."""
        super().__init__(compiled, plain, given)
        self.needs_grad, self.held, self.arrived = wanted, held, arrived

    def __call__(self, pred: Any, *arrays: Any) -> Any:
        """The gradients of operands and tensors outside that need one."""
        tensors = [wrap(array) for array in arrays]
        for tensor, needs in zip(tensors, self.needs_grad, strict=False):
            tensor.requires_grad_(needs)
        taken = self.compiled[not pred.item()]
        return _arrays(self.in_mode(lambda: self.run(taken, *tensors)))

    def run(self, branch: Any, *tensors: Any) -> Any:
        """The same as tensors; after the operands come the gradients that arrived."""
        from pullback.engine.backward import grad

        count = len(self.needs_grad)
        operands = tensors[:count]
        leaves = [one for one in operands if one.requires_grad] + self.held
        made = tree_flatten(branch(*_filled(self.plain, self.given, operands)))[0]
        roots = [one for one, came in zip(made, self.arrived, strict=True) if came]
        pairs = [(r, g) for r, g in zip(roots, tensors[count:], strict=True) if r.requires_grad]
        pulled: Any = [None] * len(leaves)
        if pairs:
            pulled = grad([r for r, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True)
        return [one.new_zeros(one.shape) if g is None else g
                for one, g in zip(leaves, pulled, strict=True)]  # fmt: skip


class CompiledPass:
    """The kernel of `while_loop`."""

    needs_grad: tuple[bool, ...] = ()

    def __init__(self, test: Any, step: Any, given: TreeSpec, more: int) -> None:
        """`more`: so many of the last arrays are not carried, but closed over."""
        self.test, self.step, self.given, self.more = test, step, given, more

    def __call__(self, *arrays: Any) -> Any:
        """The arrays when the test holds no more."""
        made = self.in_mode(lambda: self._turned(arrays))
        return _arrays(tree_flatten(made)[0])

    def _turned(self, arrays: tuple[Any, ...]) -> Any:
        tensors = [wrap(array) for array in arrays]
        count = len(tensors) - self.more
        now, rest = tree_unflatten(tensors[:count], self.given), tensors[count:]
        while bool(self.test(*now, *rest)):
            now = _listed(self.step(*now, *rest))
        return now

    def in_mode(self, function: Callable[[], Any]) -> Any:
        """What a function gives in the mode that loops run in."""
        return _in_mode(NO_GRAD, function)

    def functions(self) -> list[Callable[..., Any]]:
        """The test and the step as functions of tensors."""
        return [partial(self._on_tensors, one.function) for one in (self.test, self.step)]

    def _on_tensors(self, function: Any, *tensors: Any) -> Any:
        count = len(tensors) - self.more
        now = tree_unflatten(list(tensors[:count]), self.given)
        return function(*now, *tensors[count:])


def _arrays(tensors: Any) -> Any:
    listed = [one._array for one in tensors]
    return listed[0] if len(listed) == 1 else tuple(listed)


def loop(tracer: Any, cond_fn: Any, body_fn: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """`while_loop` on values without gradients: a step that loops when the program runs."""
    leaves, given = tree_flatten(carried)
    operands = [one for one in leaves if isinstance(one, Tensor)]
    if get_mode().levels or len(operands) != len(leaves):
        raise CannotCapture("while_loop() inside vmap, or that carries other things than tensors")
    _, _, asked = _geometry(tracer, cond_fn, carried)
    spec, geometry, held = _geometry(tracer, lambda *args: _listed(body_fn(*args)), carried)
    if get_mode().grad and any(one.requires_grad for one in (*operands, *asked, *held)):
        raise CannotCapture("a while_loop() that is differentiated: its length depends on values")
    before = [(t._array.shape, t._array.dtype) for t in operands]
    if [one[:2] for one in geometry] != before:
        raise CannotCapture("a while_loop() whose body changes shapes or dtypes")
    lifted, both = _lifted(tracer, (cond_fn, body_fn), carried)
    more = list(both[len(carried) :])
    _check_known(tracer, _distinct([*asked, *held], [*operands, *more]))
    test, step = (_compiled(one) for one in lifted)
    kernel = CompiledPass(test, step, given, len(more))
    values = tuple(tracer.value_of(one._array) for one in (*operands, *more))
    results = _entered(tracer, Call("while_loop", kernel, values, {}), geometry)
    made: tuple[Any, ...] = tree_unflatten(results, spec)
    return made


_MARK = object()


def _filled(plain: list[Any], given: TreeSpec, tensors: Any) -> Any:
    rest = iter(tensors)
    return tree_unflatten([next(rest) if one is _MARK else one for one in plain], given)


def _listed(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def _distinct(held: list[Tensor], operands: list[Any]) -> list[Tensor]:
    """Each tensor once, without those that are operands."""
    known = {id(one) for one in operands}
    return list({id(one): one for one in held if id(one) not in known}.values())


def _held(tracer: Any, mark: int, operands: Any) -> list[Tensor]:
    """Tensors from outside that the calls since `mark` read."""
    made = {one.number for call in tracer.calls[mark:] for one in call.results}
    made |= {tracer.value_of(one._array).number for one in tree_flatten(tuple(operands))[0]
             if isinstance(one, Tensor)}  # fmt: skip
    held = {}
    constants = {value.number for _, _, value in tracer.constants.values()}
    for call in tracer.calls[mark:]:
        for one in call.inputs:
            if one.number in made or one.number in constants:
                continue
            stand = tracer.standing_for(one)
            if stand is not None:  # else it closes over it: see `_lifted`
                held[one.number] = stand
    return list(held.values())


def _check_known(tracer: Any, held: list[Tensor]) -> None:
    """Refuse an argument that a branch finds by another way than its closure."""
    for one in held:
        if tracer.interpreter.source(one).kind != "root":
            raise CannotCapture(
                "a branch that uses a tensor computed before it; pass it among the operands"
            )


def _geometry(
    tracer: Any, function: Any, operands: Any
) -> tuple[TreeSpec, list[Any], list[Tensor]]:
    """What a function gives: its structure, shapes, dtypes and strides; and what it finds."""
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
    held = _held(tracer, mark, operands)
    del tracer.calls[mark:]
    return spec, shapes, held


def _dense(array: Any) -> tuple[int, ...]:
    strides: tuple[int, ...] = numpy.empty(array.shape, array.dtype).strides
    return strides


def _compiled(function: Any) -> Any:
    from pullback.compiled.frontend import compile

    return compile(function)


def _lifted(tracer: Any, functions: Any, operands: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """Branches as programs run them, and operands: tensors that branches close over are some."""
    count = len(operands)
    made: list[Any] = []
    more: list[Tensor] = []
    for function in functions:
        freed, closed = tracer.interpreter.freed(function)
        first = count + len(more)
        more += closed
        made.append(partial(_with_its_own, freed, count, first, first + len(closed)))
    if not more:
        return [one.args[0] for one in made], tuple(operands)
    return made, (*operands, *more)


def _with_its_own(function: Any, count: int, first: int, last: int, *args: Any) -> Any:
    """A branch, given its operands and what it closes over, and not what others do."""
    return function(*args[:count], *args[first:last])


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
