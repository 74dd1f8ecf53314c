"""Captures a call: the function and its backward, run once on arrays without data.

The result says what a program must compute (`calls`), from what (`inputs`), and what its caller
must do with the results: return them in the shape that the function did, write them to tensors
that the function writes to, and store gradients.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from pullback.compiled.capture.known import Known
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.settings import Settings
from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.capture.traced import TracedArray
from pullback.compiled.capture.tracer import Tracer
from pullback.compiled.capture.world import World
from pullback.compiled.runtime.memory import is_fixed, owner_of, share_memory
from pullback.core.mode import Mode, changed, current, settle
from pullback.core.origin import Origin
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import TreeSpec, tree_flatten
from pullback.core.view import edge_of
from pullback.engine.backward import run_pass
from pullback.operators.random.generator import default_generator

__all__ = ["Captured", "Input", "Output", "capture"]


@dataclass(frozen=True)
class Input:
    """Where an array of the program comes from in a call."""

    kind: str  # "argument", "held" (a tensor), "grad" (of another input's tensor), "constant"
    value: Value
    place: Any  # the leaf's number; the tensor; the other input's number; the array
    requires_grad: bool = False
    is_parameter: bool = False


@dataclass(frozen=True)
class Output:
    """What stands at a leaf of the result."""

    kind: str  # "value", "input" (the tensor itself), "view" (of an input), "object"
    value: Any = None
    place: Any = None  # the input's number, or the object
    requires_grad: bool = False
    steps: Any = None  # of a view: the view operators that lead from the input to it
    is_leaf: bool = False  # it requires a gradient because the function said so

    @property
    def has_history(self) -> bool:
        """Whether gradients go back from it."""
        return self.requires_grad and not self.is_leaf


@dataclass
class Captured:
    """A captured call: the steps, where their inputs come from, and what is done with results."""

    calls: list[Call]
    forward: int  # so many of the calls are the forward
    inputs: list[Input]
    outputs: list[Output]
    tree: TreeSpec
    arguments: TreeSpec
    mode: Mode
    world: World
    writes: list[tuple[int, Value]] = field(default_factory=list)  # input's number, new value
    stores: list[tuple[int, Value | None]] = field(default_factory=list)  # .grad of that input
    # Of the backward: gradients that arrive, by output; those that leave, by input.
    tangents: list[tuple[int, Value]] = field(default_factory=list)
    gradients: list[tuple[int, Value]] = field(default_factory=list)
    is_spent: bool = False  # the results' history was used up by the function itself
    default_dtype: Any = None
    default_device: Any = None
    origin: Origin | None = None
    library: Any = None  # of the device that its tensors are on; None: NumPy's


def capture(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    geometries: dict[int, Any] | None = None,
    ledger: Any = None,
    *,
    exact: bool = False,
) -> Captured:
    """Capture one call of a function, with its backward where gradients may be wanted.

    `geometries` are (shape, strides) that arguments, by number, should seem to have; a `ledger`
    (sizes/sized.py) has the sizes remember what they are, and decisions by them written down.
    `exact`: the calls, run one by one, give eager's bits in the backward too.
    """
    leaves, spec = tree_flatten((args, kwargs))
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    others = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
    world = World(function, *others)
    run = _Run(world, leaves, given, exact=exact)
    run.tracer.sizes = ledger
    run.geometries = {id(leaves[n]): geometry for n, geometry in (geometries or {}).items()}
    return run.whole(function, args, kwargs, spec)


class _Run:
    """One capture under way."""

    def __init__(
        self, world: World, leaves: list[Any], given: list[Tensor], *, exact: bool
    ) -> None:
        self.world, self.leaves = world, leaves
        self.tracer = Tracer(exact=exact)
        self.geometries: dict[int, Any] = {}  # id of a tensor -> shape and strides to be shown
        self.known: dict[int, Known] = {}
        self.given = {id(one) for one in given}
        self.all_tensors = {**{id(one): one for one in given}, **world.tensors}

    def whole(self, function: Any, args: Any, kwargs: Any, spec: TreeSpec) -> Captured:
        mode = settle()
        generators = [default_generator, *self.world.generators.values()]
        states = [(one, one.get_state()) for one in generators]
        settings = Settings.now()
        try:
            self._stand_in()
            current.set(changed(mode, tracing=self.tracer))
            try:
                result = function(*args, **kwargs)
            finally:
                left = settings.left()
            if left is not None:
                raise CannotCapture(f"the function leaves {left} changed")
            leaves, tree = tree_flatten(result)
            forward = len(self.tracer.calls)
            outputs = self._described(leaves)
            writes, stores = self._effects()
            forward_calls = len(self.tracer.calls)
            tangents, gradients, spent = self._backward(leaves, outputs)
            del result
        finally:
            try:
                current.set(mode)
            finally:
                self._restore()
            for one, state in states:
                one.set_state(state)
            change = self.world.change()
            if change is not None:
                self.world.restore()
        if change is not None:
            raise CannotCapture(f"the function changes the state of the program: {change}")
        for known in self.known.values():
            known.check()
        leaves.clear()
        captured = Captured(
            calls=self.tracer.calls,
            forward=max(forward, forward_calls),
            inputs=[],
            outputs=outputs,
            tree=tree,
            arguments=spec,
            mode=mode,
            world=self.world,
            is_spent=spent,
            default_dtype=settings.default_dtype,
            default_device=settings.default_device,
            library=self.tracer.library,
        )
        captured.inputs = self._inputs()
        numbers = {one.value.number: place for place, one in enumerate(captured.inputs)}
        captured.outputs = [self._settled(one, numbers) for one in outputs]
        captured.writes = [(numbers[known.value.number], value) for known, value in writes]
        captured.stores = [(numbers[known.value.number], value) for known, value in stores]
        captured.tangents = tangents
        captured.gradients = [(numbers[known.value.number], value) for known, value in gradients]
        self.known.clear()
        return captured

    def _stand_in(self) -> None:
        for key, tensor in list(self.all_tensors.items()):
            self.known[key] = Known(self.tracer, tensor, self.geometries.get(key))
        for key, one in list(self.known.items()):
            if one.grad is not None and id(one.grad) not in self.known:
                geometry = self.geometries.get(key)
                self.known[id(one.grad)] = Known(self.tracer, one.grad, geometry)
        self.tracer.outside = set(self.known)
        self.by_storage = {id(one.traced.storage): one for one in self.known.values()}

    def _restore(self) -> None:
        try:
            self._put_back()
        except BaseException:  # an interrupt between two tensors: the others are put back too
            self._put_back()
            raise

    def _put_back(self) -> None:
        self.tracer.is_open = False
        for one in self.known.values():
            one.restore()
        for tensor, array in self.tracer.swapped:
            tensor._array = array
        self.tracer.swapped.clear()

    # Results ----------------------------------------------------------------------------------

    def _described(self, leaves: list[Any]) -> list[Output]:
        storages: dict[int, Any] = {}
        outputs = []
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                outputs.append(Output("object", place=leaf))
                continue
            if type(leaf) is not Tensor and id(leaf) not in self.known:
                raise CannotCapture(f"a result of class {type(leaf).__name__}")
            outputs.append(self._described_tensor(leaf, storages))
        return outputs

    def _described_tensor(self, leaf: Tensor, storages: dict[int, Any]) -> Output:
        if id(leaf) in self.known:
            return Output("input", place=self.known[id(leaf)])
        array = leaf._array
        if array.__class__ is TracedArray:
            known = self.by_storage.get(id(array.storage))
            if known is not None:
                return self._view(leaf, array, known)
            first = storages.setdefault(id(array.storage), leaf)
            if first is not leaf:
                raise CannotCapture("two results that share their memory")
        value = self.tracer.value_of(array)
        is_leaf = leaf.requires_grad and leaf.is_leaf
        return Output("value", value, requires_grad=leaf.requires_grad, is_leaf=is_leaf)

    def _view(self, leaf: Tensor, array: TracedArray, known: Known) -> Output:
        value = self.tracer.value_of(array)
        steps: list[Any] = []
        while value.call is not None:
            call = value.call
            if call.op is None or call.op.kind != "view":
                raise CannotCapture("a result that looks at memory which the function changed")
            steps.append((call, call.results.index(value)))
            (value,) = call.inputs
        steps.reverse()
        is_leaf = leaf.requires_grad and leaf.is_leaf
        return Output("view", None, known, leaf.requires_grad, steps, is_leaf)

    def _effects(self) -> tuple[list[Any], list[Any]]:
        """Writes to tensors from outside, and gradients stored in their `.grad`."""
        writes = [
            (one, self.tracer.value_of(one.traced)) for one in self.known.values() if one.written
        ]
        for one, _ in writes:
            for other in self.known.values():
                if other is not one and share_memory(one.array, other.array):
                    raise CannotCapture("a write to a tensor whose memory another one shares")
        stores = []
        for one in list(self.known.values()):
            grad = one.tensor._stored_grad
            if grad is not one.grad:
                if grad is not None and (grad._node is not None or id(grad) in self.known):
                    raise CannotCapture("a stored gradient that has a history")
                value = None if grad is None else self.tracer.value_of(grad._array)
                stores.append((one, value))
        return writes, stores

    def _settled(self, one: Output, numbers: dict[int, int]) -> Output:
        if one.kind in ("input", "view"):
            place = numbers[one.place.value.number]
            return Output(one.kind, None, place, one.requires_grad, one.steps, one.is_leaf)
        return one

    # Backward -----------------------------------------------------------------------------------

    def _backward(
        self, leaves: list[Any], outputs: list[Output]
    ) -> tuple[list[Any], list[Any], bool]:
        wanted = [one for one in self.known.values() if one.requires_grad]
        roots = []
        for number, (leaf, output) in enumerate(zip(leaves, outputs, strict=True)):
            if output.kind == "value" and output.has_history:
                roots.append((number, leaf))
        if not (roots and wanted):  # where recording is off, the function may switch it on
            return [], [], False
        tangents, pairs = [], []
        for number, leaf in roots:
            array = leaf._array
            value = self.tracer.new_value(array.shape, array.dtype, _dense(array))
            value.place = self.tracer.value_of(array).place
            tangents.append((number, value))
            pairs.append((edge_of(leaf), wrap(self.tracer.array_of(value))))
        edges = [edge_of(one.tensor) for one in wanted]
        try:
            made = run_pass(pairs, edges, retain_graph=False, create_graph=False)
        except CannotCapture:
            raise
        except Exception as error:
            if isinstance(error, RuntimeError) and self._is_used_up():
                return [], [], True
            raise CannotCapture(f"its backward raises {type(error).__name__}: {error}") from error
        gradients = [
            (one, self.tracer.value_of(g._array))
            for one, g in zip(wanted, made, strict=True)
            if g is not None
        ]
        return tangents, gradients, False

    def _is_used_up(self) -> bool:
        """Whether the function ran a backward pass itself."""
        return any(one.tensor._stored_grad is not one.grad for one in self.known.values())

    # Inputs ------------------------------------------------------------------------------------

    def _inputs(self) -> list[Input]:
        inputs = []
        owner = {id(one.grad): one for one in self.known.values() if one.grad is not None}
        place: dict[int, int] = {}
        for number, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                place.setdefault(id(leaf), number)
        for key, one in self.known.items():
            parameter = type(one.tensor) is not Tensor
            if key in self.world.tensors:
                kind: str = "held"
                where: Any = one.tensor
            elif key in place:
                kind, where = "argument", place[key]
            else:
                kind, where = "grad", owner[key].value.number
            inputs.append(Input(kind, one.value, where, one.requires_grad, parameter))
        numbers = {one.value.number: n for n, one in enumerate(inputs)}
        inputs = [
            Input(i.kind, i.value, numbers[i.place], i.requires_grad) if i.kind == "grad" else i
            for i in inputs
        ]
        return inputs + self._constants()

    def _constants(self) -> list[Input]:
        """Arrays that the function made itself; those that somebody else holds are no constants."""
        found = []
        # Its written history may hold tensors of the function's own.
        constants = self.tracer.constants
        keys = list(constants)
        for key in keys:
            array, _, value = constants.pop(key)
            owner = owner_of(array)
            spare = 2 + (owner is array)  # the names `array` and `owner`, and the argument
            held = sys.getrefcount(owner) > spare + (owner is not array)
            if array.ndim == 0 and is_fixed(array):
                held = False  # a number that the library remembers
            if held:
                raise CannotCapture(
                    f"a tensor of shape {array.shape} that the function finds in a place which "
                    "cannot be watched for changes; pass it as an argument"
                )
            found.append(Input("constant", value, array))
        return found


def _dense(array: Any) -> tuple[int, ...]:
    """Strides of a row-major array of this shape."""
    strides, step = [], array.itemsize
    for n in reversed(array.shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
