"""Nodes of the backward graph: what they carry, how they point at one another.

An edge is one reference: to a node, or, for a node of several outputs, to one `Output` of it.
Everything that the engine reads in its loop is a slot; what is rare (hooks, metadata) hides behind
the one slot `_cold`. Sequence numbers count down, so that `heapq` pops the newest node first;
leaves and outputs answer 0 and 1 there, which tells them from nodes with the comparison the engine
makes anyway. All of it begins with an underscore: the node of a custom Function is the `ctx` on
which users store `shape`, `dtype`, `sizes`, `op` and whatever else they like.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from pullback.core import errors, sequence, unlinking
from pullback.core.hooks import HookTable, RemovableHandle, leaf_hooks_in_use
from pullback.core.mode import exactly_traced
from pullback.core.origin import Origin
from pullback.core.ports import ports

if TYPE_CHECKING:
    import numpy

    from pullback.core.tensor import Tensor

_new = object.__new__

LEAF_SEQ = 0
OUTPUT_SEQ = 1
LARGEST_SEQUENCE_NUMBER = 2**64 - 1

next_sequence_number = sequence.next_sequence_number


class Cold:
    """What few nodes have. Hook tables are dicts by handle id, or None."""

    __slots__ = ("metadata", "post_hooks", "pre_hooks", "retained", "tensor_hooks")

    def __init__(self) -> None:
        self.metadata: dict[str, Any] | None = None
        # output number -> hooks of the tensor that is that output
        self.tensor_hooks: dict[int, OrderedDict[int, Any]] | None = None
        # output number -> weak reference to the tensor that retains its gradient
        self.retained: dict[int, weakref.ref[Tensor]] | None = None
        self.pre_hooks: OrderedDict[int, Any] | None = None
        self.post_hooks: OrderedDict[int, Any] | None = None

    @property
    def has_hooks(self) -> bool:
        """Whether the engine must stop by here."""
        return bool(self.tensor_hooks or self.retained or self.pre_hooks or self.post_hooks)


# What the nodes of custom Functions have instead of None: the engine stops by there, hooks or not.
QUIET = Cold()


class InputMetadata(NamedTuple):
    """What a node knows of a tensor whose gradient it receives."""

    shape: tuple[int, ...]
    dtype: Any
    device: Any
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


class Node:
    """One backward step; `tensor.grad_fn` gives the one that made the tensor.

    >>> import pullback as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> node = (x * 2).sum().grad_fn
    >>> node.name(), node.next_functions[0][0].name()
    ('SumBackward0', 'MulBackward0')
    """

    __slots__ = ("__weakref__", "_cold")

    # Leaf and View, which stand in a tensor's `_node` slot too, say True: resolve them first.
    _special: ClassVar[bool] = False
    # Shape and dtype of each gradient that arrives, in a node of several outputs.
    _g_sizes: tuple[Any, ...] | None = None
    # Whether a user wrote its backward: then it runs even when no gradient arrives, and what it
    # returns may be seen by others.
    _by_user: ClassVar[bool] = False
    # Whether it stands where a tensor entered a function transform, which sees a leaf there.
    _enters: ClassVar[bool] = False
    # What a node does before somebody looks at where it leads; None: it is what it seems.
    _shows: ClassVar[Callable[[Any], None] | None] = None
    # What runs a pass that begins there without the engine; None: nothing does.
    _run_alone: ClassVar[Callable[[Any], bool] | None] = None
    # Shown by `name()` in front of the class name of the nodes that torch wrote by hand.
    _prefix: ClassVar[str] = ""

    _seq: int
    _edges: tuple[Edge | None, ...]
    _cold: Cold | None
    # Of the gradient that arrives.
    _g_shape: tuple[int, ...]
    _g_dtype: numpy.dtype[Any]

    def name(self) -> str:
        """The operator's name as torch spells it, e.g. `MulBackward0`."""
        return self._prefix + type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    def _repr_html_(self) -> str:
        """In Jupyter: the graph from here on, drawn."""
        return ports.drawn(self)

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each differentiable input, the node its gradient goes to and the slot there."""
        if self._shows is not None:
            self._shows()
        found = tuple([node_and_number(edge) for edge in self._edges])
        for node, _ in found:
            if node is not None and node._shows is not None:
                node._shows()
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own notes; anomaly mode writes here too."""
        cold = self._warm()
        if cold.metadata is None:
            cold.metadata = {}
        return cold.metadata

    @property
    def requires_grad(self) -> bool:
        """Always True: what needs no gradient has no node."""
        return True

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        sizes = self._g_sizes or ((self._g_shape, self._g_dtype),)
        return tuple(
            InputMetadata(shape, *ports.describe_metadata(dtype, self)) for shape, dtype in sizes
        )

    def _output(self, number: int) -> Edge:
        """Where the gradient of one output goes."""
        if self._g_sizes is None:
            return self
        return Output(self, number, *self._g_sizes[number])

    @property
    def origin(self) -> Origin | None:
        """The line of the user's program that made this node."""
        return self._origin

    @property
    def _origin(self) -> Origin | None:
        return None

    def _sequence_nr(self) -> int:
        return LARGEST_SEQUENCE_NUMBER

    def _set_sequence_nr(self, number: int) -> None:
        raise errors.fixed_sequence_number(self.name())

    def _warm(self) -> Cold:
        if self._cold is None or self._cold is QUIET:
            self._cold = Cold()
        return self._cold

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after this node ran.

        It may return new grad_inputs.
        """
        cold = self._warm()
        if cold.post_hooks is None:
            cold.post_hooks = HookTable()
        return RemovableHandle.add(cold.post_hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before this node runs; it may return new grad_outputs."""
        cold = self._warm()
        if cold.pre_hooks is None:
            cold.pre_hooks = HookTable()
        return RemovableHandle.add(cold.pre_hooks, fn)

    def _register_hook_dict(self, tensor: Tensor) -> None:
        """Let the hooks in `tensor._backward_hooks` see the gradient of the output that it is."""
        hooks = tensor._backward_hooks
        if hooks is None:
            raise RuntimeError("_register_hook_dict() needs a tensor that has hooks already.")
        cold = self._warm()
        if cold.tensor_hooks is None:
            cold.tensor_hooks = {}
        cold.tensor_hooks[tensor.output_nr] = hooks

    def _tensor_hooks(self, output_nr: int) -> OrderedDict[int, Any]:
        """The table for hooks of the tensor that is output `output_nr` of this node."""
        cold = self._warm()
        if cold.tensor_hooks is None:
            cold.tensor_hooks = {}
        return cold.tensor_hooks.setdefault(output_nr, HookTable())

    def __reduce__(self) -> Any:
        raise errors.node_not_copied(self.name())


class BuiltIn(type):
    """The class of built-in node classes: calling one is an error; `new(cls)` makes a node."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse."""
        raise errors.node_made_by_hand(cls.__name__)


class OperatorNode(Node):
    """A node made by an operator.

    Subclasses, built from declarations, add slots for saved values.
    """

    __slots__ = ("_code", "_edges", "_g_dtype", "_g_shape", "_lasti", "_seq")

    _code: Any
    _lasti: int

    if unlinking.NEEDED:
        __del__ = unlinking.unlink

    @property
    def _origin(self) -> Origin | None:
        return None if self._code is None else Origin(self._code, self._lasti)

    def _sequence_nr(self) -> int:
        return int(sequence.shown(self._seq))

    def _set_sequence_nr(self, number: int) -> None:
        self._seq = sequence.numbered(number)
        sequence.numbering.changed = True

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients for `edges` (None: not wanted) from the output's gradient; arrays."""
        raise NotImplementedError

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """As `_run`, on tensors, recording what it does."""
        raise NotImplementedError

    def _steps(self) -> list[str]:
        """What a program behind the node does, a line for each step; of most nodes nothing."""
        return []

    def _release(self, freed: Any) -> None:
        """Forget the saved values; `freed` remembers who did it. Nodes that save override this."""


def run_tensors(node: Any, g: Any, edges: tuple[Any, ...]) -> Any:
    """A node's gradients as tensors, which somebody may write down instead of running it."""
    exact = exactly_traced()
    return node._run_tensors(g, edges) if exact is None else exact.node(node, g, edges)


class NotImplementedNode(OperatorNode, metaclass=BuiltIn):
    """The node of an operator that has no derivative: the forward runs, backward refuses."""

    __slots__ = ("_op",)

    _op: str

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Refuse."""
        raise errors.no_derivative(self._op, self._origin)

    _run_tensors = _run


NotImplementedNode.__name__ = NotImplementedNode.__qualname__ = "NotImplemented"


class Output:
    """One output of a node of several: where that output's gradient goes."""

    __slots__ = ("_g_dtype", "_g_shape", "node", "nr")

    _special: ClassVar[bool] = False
    _enters: ClassVar[bool] = False
    _seq: ClassVar[int] = OUTPUT_SEQ

    def __init__(
        self, node: Node, nr: int, shape: tuple[int, ...], dtype: numpy.dtype[Any]
    ) -> None:
        self.node = node
        self.nr = nr
        self._g_shape = shape
        self._g_dtype = dtype

    @property
    def _cold(self) -> Cold | None:
        """The node's."""
        return self.node._cold


Edge: TypeAlias = Node | Output


def node_and_number(edge: Edge | None) -> tuple[Node | None, int]:
    """An edge as torch shows it."""
    if edge is None:
        return (None, 0)
    if isinstance(edge, Output):
        return (edge.node, edge.nr)
    return (edge, 0) if edge._seq <= LEAF_SEQ else (None, 0)  # the rest leads nowhere


class AccumulateGrad(Node, metaclass=BuiltIn):
    """Adds what arrives to a leaf's `.grad`. The leaf knows it weakly, it holds the leaf."""

    __slots__ = ("_g_dtype", "_g_shape", "variable")

    _seq: ClassVar[int] = LEAF_SEQ  # type: ignore[misc]  # a constant where operator nodes have a slot
    _edges: ClassVar[tuple[()]] = ()  # type: ignore[misc]  # the graph ends here
    _prefix: ClassVar[str] = "torch::autograd::"

    variable: Tensor

    def __call__(self, *gradients: Any, **unsupported: Any) -> tuple[()]:
        """The node as a function: adds to the leaf's `.grad`, without hooks."""
        return ports.accumulate_by_call(self, *gradients, **unsupported)

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn((), grad_outputs)` after each accumulation."""
        leaf_hooks_in_use[id(self.variable)] = self.variable
        return super().register_hook(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before each accumulation; it may return new grad_outputs."""
        leaf_hooks_in_use[id(self.variable)] = self.variable
        return super().register_prehook(fn)

    @property
    def lock(self) -> Any:
        """Guards the leaf's `.grad`. One of a few: a lock each would cost more than the node."""
        return LOCKS[(id(self.variable) >> 5) % LOCK_COUNT]

    @staticmethod
    def first(leaf: Tensor) -> AccumulateGrad:
        """The accumulator of a tensor that nobody knows yet, and that becomes a leaf with it."""
        node = _new(AccumulateGrad)
        node.variable = leaf
        array = leaf._array
        node._g_shape = array.shape
        node._g_dtype = array.dtype
        node._cold = None
        leaf._node = Leaf(node)
        return node

    @staticmethod
    def of(leaf: Tensor) -> AccumulateGrad:
        """The accumulator of a leaf that requires grad, made when first needed."""
        place = leaf._node
        if place.__class__ is Leaf:
            known: AccumulateGrad | None = place()
            if known is not None:
                return known
        # A leaf on its own loses its accumulator with every graph: each line costs each operator.
        node = _new(AccumulateGrad)
        node.variable = leaf
        array = leaf._array
        node._g_shape = array.shape
        node._g_dtype = array.dtype
        node._cold = None
        try:
            # A `with` costs three times as much. Inside the `try`: an interrupt may follow at once.
            _making_accumulator.acquire()
            place = leaf._node
            mark = place if place.__class__ is Leaf else place.node
            before: AccumulateGrad | None = mark()
            if before is not None:
                return before
            if mark is place:
                leaf._node = Leaf(node)
            else:  # a view that is a leaf
                place.node = Leaf(node)
        finally:
            _making_accumulator.release()
        return node


# Re-entrant: a finaliser or signal handler may come to a leaf while this thread holds its lock.
_making_accumulator = threading.RLock()
LOCK_COUNT = 61
LOCKS = [threading.RLock() for _ in range(LOCK_COUNT)]


def _renew_locks() -> None:
    """In a forked child, where nobody is left to release what other threads held."""
    global _making_accumulator
    _making_accumulator = threading.RLock()
    LOCKS[:] = [threading.RLock() for _ in LOCKS]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Leaf(weakref.ref):  # type: ignore[type-arg]  # of an AccumulateGrad
    """Stands in the `_node` slot of a leaf that requires grad.

    Calling it gives the accumulator, or None where no graph keeps one alive.
    """

    __slots__ = ()

    _special: ClassVar[bool] = True
    # As views have them: something is behind it, and where that is, should the mark be empty.
    node: ClassVar[bool] = True
    # What was asked of the gradient that arrives there is asked of the accumulator.
    _cold: ClassVar[None] = None
    edge: ClassVar[Callable[[Tensor], AccumulateGrad]] = staticmethod(AccumulateGrad.of)


class _NoAccumulator:
    """What a new leaf's mark refers to; dead at once."""


def new_leaf_mark() -> Leaf:
    """The mark of a leaf that has no accumulator yet."""
    return Leaf(_NoAccumulator())


def walk(roots: Iterator[Edge | None]) -> Iterator[Node]:
    """Every node reachable from `roots`, once, parents before what they first lead to."""
    seen: set[Node] = set()
    stack: list[Edge | None] = list(roots)
    while stack:
        edge = stack.pop()
        node = edge.node if isinstance(edge, Output) else edge
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(reversed(node._edges))
