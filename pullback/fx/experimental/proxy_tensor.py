"""`make_fx`: the operators that a function calls below autograd, as a graph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

import numpy

import pullback
from pullback.core.device import CPU, META
from pullback.core.layout import strided
from pullback.core.listing import only_public as _only_public
from pullback.core.memory import meta
from pullback.core.mode import change, get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees import pytree
from pullback.fx._codegen import PyTreeInfo, _PyTreeCodeGen
from pullback.fx.experimental._symbols import Place, join, numbers_and_frame, points
from pullback.fx.experimental.symbolic_shapes import ShapeEnv
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node, has_side_effect
from pullback.fx.passes.shape_prop import _extract_tensor_metadata
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.dispatch.dispatch import caller_mode
from pullback.utils._python_dispatch import TorchDispatchMode

__all__ = ["make_fx"]

# What a function raises, or an operator in it, at a size that it does not take. Whatever else goes
# wrong at another size than the given one (a TypeError, an interrupt) is the user's to see.
_NOT_ALLOWED = (RuntimeError, ValueError, LookupError, ArithmeticError, AssertionError)


class _Recording(TorchDispatchMode):
    """Notes operator calls in a graph.

    A tensor is known by itself, and to those who made an alias of it for themselves by its array:
    of several aliases, `x` and `x.detach()`, that is the first.
    """

    def __init__(
        self, graph: Graph, root: Module, table: Mapping[Any, Any], *, notes_grad: bool = False
    ) -> None:
        """`notes_grad`: where recording is switched off and on is noted too."""
        self.graph, self.root, self.table = graph, root, table
        self.grad = self.grad_before = get_mode().grad if notes_grad else None
        self.known: dict[int, tuple[Any, Node]] = {}
        self.tensors: dict[int, tuple[Tensor, Node]] = {}

    def note(self, tensor: Tensor, node: Node, *, written: bool = False) -> None:
        """Whoever looks for a tensor finds a node; the last one where its memory was `written`."""
        self.tensors[id(tensor)] = (tensor, node)
        entry = (tensor._array, node)
        if written:
            self.known[id(tensor._array)] = entry
        else:
            self.known.setdefault(id(tensor._array), entry)

    def node_of(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        found = self.tensors.get(id(value)) or self.known.get(id(value._array))
        if found is None:
            self.note(value, self._view_of_known(value) or self._constant(value))
            found = self.tensors[id(value)]
        return found[1]

    # What functionalize hides ---------------------------------------------------------------------

    def stands_for(self, tensor: Tensor, other: Tensor) -> None:
        """A tensor that was made unseen has the values of another one."""
        self.note(tensor, self.node_of(other), written=True)

    def stored(self, target: Tensor, result: Tensor) -> None:
        """Values are written unseen: they are what the memory holds from now on.

        Where it is a part of a larger one, that is the old one with the part replaced. Other views
        are made anew when they are asked for.
        """
        self.node_of(target)  # a constant too is known then
        array, node = target._array, self.node_of(result)
        for name, constant in list(vars(self.root).items()):
            if isinstance(constant, Tensor) and _share(constant._array, array):
                setattr(self.root, name, constant.clone())
        whole, before = self._sharing(array)[0]
        for table in (self.known, self.tensors):
            gone = [key for key, (one, _) in table.items() if _share(_array_of(one), array)]
            for key in gone:
                del table[key]
        if (whole.shape, whole.strides) != (array.shape, array.strides):
            steps, start = _place(array, whole)
            scatter = pullback.ops.aten.as_strided_scatter.default
            given = (before, node, list(array.shape), steps, start)
            made = self.graph.call_function(scatter, given, name="as_strided_scatter")
            self.known[id(whole)] = (whole, made)
        self.note(target, node, written=True)

    def _sharing(self, array: Any) -> list[tuple[Any, Node]]:
        """What is known of the memory of an array, the largest parts first."""
        found = [one for one in self.known.values() if _share(one[0], array)]
        return sorted(found, key=lambda one: -one[0].nbytes)

    def _view_of_known(self, tensor: Tensor) -> Node | None:
        """A view that an operator made for itself (a transposed weight), as a node of its own."""
        array = tensor._array
        sharing = [one for one in self._sharing(array) if one[0].dtype == array.dtype]
        for known, node in sharing:
            turned = known.T
            same = (turned.shape, turned.strides) == (array.shape, array.strides)
            if same and known.ndim == 2 and _address(known) == _address(array):
                return self.graph.call_function(pullback.ops.aten.t.default, (node,), name="t")
        if not sharing:
            return None
        steps, start = _place(array, _owner(array))
        place = (sharing[0][1], list(array.shape), steps, start)
        target = pullback.ops.aten.as_strided.default
        return self.graph.call_function(target, place, name="as_strided")

    def _constant(self, tensor: Tensor) -> Node:
        brought: Tensor | None = getattr(tensor, "constant", None)  # what a fake one stands for
        tensor = tensor if brought is None else brought
        if isinstance(tensor._array, meta.MetaArray):
            raise NotImplementedError(
                f"make_fx: a tensor of shape {tuple(tensor.shape)} comes from nothing that the "
                "graph knows, and has no data to be a constant; use tracing_mode='real'."
            )
        number = 0
        kind = "_param_constant" if isinstance(tensor, Parameter) else "_tensor_constant"
        while hasattr(self.root, f"{kind}{number}"):
            number += 1
        name = f"{kind}{number}"
        setattr(self.root, name, tensor)
        node = self.graph.get_attr(name)
        node.meta["val"] = _seen(tensor)
        return node

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        caller = caller_mode()
        if caller is not None:
            self.switch_grad(caller.grad)
        if func in self.table:
            made = self._defined(self.table[func], args, kwargs)
            if made is not NotImplemented:
                return made
        if func._opname == "lift_fresh":
            return self._lifted(func, args[0])
        given, named = pytree.tree_map(self.node_of, (args, kwargs))
        result = func(*args, **kwargs)
        self._note_call(func, given, named, result)
        return result

    def _defined(self, definition: Any, args: Any, kwargs: Any) -> Any:
        """What an operator's definition gives; that it runs below autograd is not the user's."""
        noted, self.grad = self.grad, None
        try:
            with self:
                return definition(*args, **kwargs)
        finally:
            self.grad = noted

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Note a call that ran unseen, as this operator of these arguments."""
        given, named = pytree.tree_map(self.node_of, (tuple(args), dict(kwargs)))
        self._note_call(func, given, named, result)

    def _note_call(self, func: Any, given: Any, named: Any, result: Any) -> None:
        packet = getattr(func, "overloadpacket", func)
        node = self.graph.call_function(func, tuple(given), named, name=packet.__name__)
        self._note_results(result, node, written=_is_write(func))

    def switch_grad(self, grad: bool | None) -> None:
        """Note that what follows is recorded, or not."""
        if self.grad is None or grad is None or grad == self.grad:
            return
        self.grad = grad
        target = has_side_effect(import_module("pullback._C")._set_grad_enabled)
        self.graph.call_function(target, (grad,), name="_set_grad_enabled")

    def _lifted(self, func: Any, tensor: Tensor) -> Tensor:
        """A tensor of given numbers: the graph makes a new one of them in each call."""
        result: Tensor = func(tensor)
        numbers = self._constant(wrap(tensor._array.copy()))
        target = pullback.ops.aten.lift_fresh_copy.default
        node = self.graph.call_function(target, (numbers,), name="lift_fresh_copy")
        self._note_results(result, node)
        return result

    def _note_results(self, result: Any, node: Node, *, written: bool = False) -> None:
        import operator

        _describe(node, result)
        if isinstance(result, Tensor):
            self.note(result, node, written=written)
        elif isinstance(result, tuple | list):
            for at, one in enumerate(result):
                if isinstance(one, Tensor):
                    item = self.graph.call_function(operator.getitem, (node, at))
                    _describe(item, one)
                    self.note(one, item)


def _is_write(func: Any) -> bool:
    name: str = func._opname
    return name.endswith("_") and not name.endswith("__")


def get_proxy_mode() -> TorchDispatchMode | None:
    """What notes the calls of operators now, inside `make_fx`; None outside."""
    noting = [mode for mode in get_mode().dispatch if isinstance(mode, _Recording)]
    return noting[-1] if noting else None


def get_innermost_proxy_mode() -> TorchDispatchMode | None:
    """The same, under torch's other name."""
    return get_proxy_mode()


@contextmanager
def disable_proxy_modes_tracing() -> Iterator[TorchDispatchMode | None]:
    """Inside, calls are not noted in a graph; gives who noted them before, or None.

    >>> import pullback as torch
    >>> from pullback.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
    >>> def function(x):
    ...     with disable_proxy_modes_tracing():
    ...         torch.ones(1) + 1
    ...     return x + 1
    >>> [str(node.target) for node in make_fx(function)(torch.ones(1)).graph.nodes]
    ['x_1', 'aten.add.Tensor', 'output']
    """
    before = get_mode().dispatch
    noting = [mode for mode in before if isinstance(mode, _Recording)]
    change(dispatch=tuple(mode for mode in before if mode not in noting))
    try:
        yield noting[-1] if noting else None
    finally:
        change(dispatch=before)


def get_isolated_graphmodule(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    tracing_mode: str = "real",
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
) -> GraphModule:
    """The graph of a call, traced apart from a trace that may be going on.

    >>> import pullback as torch
    >>> from pullback.fx.experimental.proxy_tensor import get_isolated_graphmodule
    >>> made = get_isolated_graphmodule(torch.add, (torch.ones(2),), {"other": torch.ones(2)})
    >>> made([torch.ones(2), torch.zeros(2)])
    tensor([1., 1.])
    """
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))

    def wrapped(values: Any) -> Any:
        given, named = pytree.tree_unflatten(values, spec)
        return func(*given, **named)

    with disable_proxy_modes_tracing():
        return make_fx(wrapped, decomposition_table, tracing_mode)(leaves)


def _share(a: Any, b: Any) -> bool:
    """Whether two arrays look at one memory; all that have no data lie at the same address."""
    if isinstance(a, meta.MetaArray):
        return _owner(a) is _owner(b)
    return numpy.may_share_memory(a, b)


def _array_of(one: Any) -> Any:
    return one._array if isinstance(one, Tensor) else one


def _place(array: Any, whole: Any) -> tuple[list[int], int]:
    """Steps of an array, and where it begins in a larger one, both in elements."""
    steps = [stride // array.itemsize for stride in array.strides]
    return steps, (_address(array) - _address(whole)) // array.itemsize


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _owner(array: Any) -> Any:
    """The array whose memory it is."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    **options: Any,
) -> Callable[..., GraphModule]:
    """A function that runs `f` on its arguments and gives the operators called as a graph module.

    Control flow and sizes are those of the arguments given. With `tracing_mode="fake"` it runs
    without data; with "symbolic" the graph takes other sizes too, as long as the function would
    decide by them as it did. `node.meta["val"]` is what a node gave. With `pre_dispatch=True` the
    graph switches recording off and on where the function does.

    Example:
        >>> import pullback as torch
        >>> from pullback.fx.experimental.proxy_tensor import make_fx
        >>> made = make_fx(lambda x: x.sin() * 2)(torch.ones(2))
        >>> [str(node.target) for node in made.graph.nodes]
        ['x_1', 'aten.sin.default', 'aten.mul.Tensor', 'output']
        >>> made = make_fx(lambda x: x.reshape(-1, 2), tracing_mode="symbolic")(torch.ones(4))
        >>> made(torch.ones(10)).shape
        torch.Size([5, 2])
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(
            f"make_fx: tracing_mode is 'real', 'fake' or 'symbolic', got {tracing_mode!r}."
        )
    admit, notes_grad = (
        bool(options.get(name)) for name in ("_allow_non_fake_inputs", "pre_dispatch")
    )
    trace = _Tracing(f, decomposition_table or {}, admit, notes_grad)

    @functools.wraps(f)
    def wrapped(*args: Any) -> GraphModule:
        sizes = None
        if tracing_mode == "real":
            root, graph = trace.graph(args)
        elif tracing_mode == "fake":
            root, graph = trace.without_data(args)
        else:
            sizes = ShapeEnv()
            root, graph = trace.for_all_sizes(args, sizes)
        graph.eliminate_dead_code(lambda node: node.is_impure(impure_random=False))
        made = GraphModule(root, graph, getattr(f, "__name__", "GraphModule"))
        if sizes is not None:
            made.shape_env = sizes
        return made

    return wrapped


class _Tracing:
    """One function, traced at arguments."""

    def __init__(
        self, f: Callable[..., Any], table: Mapping[Any, Any], admit: bool, notes_grad: bool
    ) -> None:
        self.f, self.table, self.admit, self.notes_grad = f, table, admit, notes_grad

    def graph(self, args: Sequence[Any], inside: Any = None) -> tuple[Module, Graph]:
        """The operators that the function calls with these arguments, inside of a mode."""
        root, graph = Module(), Graph()
        mode = _Recording(graph, root, self.table, notes_grad=self.notes_grad)
        names = _names(self.f, len(args))
        flat, in_spec = pytree.tree_flatten(list(args))
        nested = any(not _is_leaf(one) for one in args)
        for at, (path, leaf) in enumerate(zip(_leaf_names(names, args), flat, strict=True)):
            node = graph.create_node("placeholder", f"{path}_{_number(nested, at)}")
            _describe(node, leaf)
            if isinstance(leaf, Tensor):
                mode.note(leaf, node)
        with inside or nullcontext(), mode:
            result = self.f(*args)
        out, out_spec = pytree.tree_flatten(result)
        returned = [mode.node_of(one) for one in out]
        mode.switch_grad(mode.grad_before)
        if nested:
            graph.set_codegen(_PyTreeCodeGen(PyTreeInfo(names, in_spec, out_spec)))
            graph.output(returned)
        else:
            graph.output(pytree.tree_unflatten(returned, out_spec))
        return root, graph

    def without_data(
        self, args: Sequence[Any], sizes: Mapping[Place, int] | None = None
    ) -> tuple[Module, Graph]:
        """The same on fake tensors; `sizes` of some dimensions may be others."""
        mode = _fake_tensors().FakeTensorMode(allow_non_fake_inputs=self.admit)
        leaves, spec = pytree.tree_flatten(list(args))
        fake = [
            _fake(mode, leaf, at, sizes or {}) if isinstance(leaf, Tensor) else leaf
            for at, leaf in enumerate(leaves)
        ]
        return self.graph(pytree.tree_unflatten(fake, spec), mode)

    def for_all_sizes(self, args: Sequence[Any], env: ShapeEnv) -> tuple[Module, Graph]:
        """A graph whose numbers are computed from the sizes of its arguments."""
        leaves = pytree.tree_flatten(list(args))[0]
        env.note([tuple(x.shape) if isinstance(x, Tensor) else None for x in leaves])
        given, places = env.var_to_val, env.var_to_sources
        first = self.without_data(args)
        numbers, frame = numbers_and_frame(first[1])
        held = tensors_held(*first)

        def traced(point: dict[str, int]) -> list[Any] | str:
            """The numbers of a trace at other sizes, or why there are none."""
            sizes = {place: point[name] for name in point for place in places[name]}
            try:
                other = self.without_data(args, sizes)
                others, other_frame = numbers_and_frame(other[1])
            except _NOT_ALLOWED as error:
                return f"{type(error).__name__}: {error}"
            except Exception as error:
                error.add_note(
                    f"while make_fx traced the function at the sizes {point}, to see whether they "
                    "may vary; tracing_mode='fake' traces at the sizes given alone"
                )
                raise
            if other_frame != frame:
                return "other operators are called"
            return others if same_held(held, tensors_held(*other)) else "other numbers are held"

        def all_traced(at: list[dict[str, int]]) -> list[tuple[dict[str, int], list[Any]]]:
            pairs = [(point, traced(point)) for point in at]
            return [(point, made) for point, made in pairs if not isinstance(made, str)]

        for name in list(places):  # those that the function does not let vary stay as they are
            size = given[name] * 3
            answer = traced({**given, name: size})
            if isinstance(answer, str):
                env.specialize(name, f"{answer} at size {size}")
        if not given:
            return first
        needed, more = points(given)
        found = [(dict(given), numbers), *all_traced(needed)]
        join(first[1], places, [*found, *all_traced(more)], len(found) - 1)
        return first


def tensors_held(root: Module, graph: Graph) -> list[Tensor]:
    """The constants of a graph, in order."""
    return [getattr(root, str(node.target)) for node in graph.nodes if node.op == "get_attr"]


def same_held(these: Sequence[Tensor], those: Sequence[Tensor]) -> bool:
    """Whether two graphs hold the same numbers; a table made for a size is another for others."""
    return len(these) == len(those) and all(
        a is b or _same_numbers(a._array, b._array) for a, b in zip(these, those, strict=True)
    )


def _same_numbers(a: Any, b: Any) -> bool:
    same = a.shape == b.shape and a.dtype == b.dtype
    return bool(same and (a.tobytes() == b.tobytes()))


def _describe(node: Node, value: Any) -> None:
    """What a node gives, in its `meta`: without data as "val", and of a tensor "tensor_meta"."""
    seen = node.meta["val"] = pytree.tree_map(_seen, value)
    if isinstance(seen, Tensor) and seen.layout is strided and not seen.is_nested:
        told = _extract_tensor_metadata(seen)
        node.meta["tensor_meta"] = told._replace(requires_grad=value.requires_grad)


def _seen(value: Any) -> Any:
    """What a graph tells of a value: a tensor without data or history."""
    if not isinstance(value, Tensor):
        return value
    # Inside a trace without data, gradients are on the device that has none.
    place = CPU if value.device is META else value.device
    return _fake_tensors().FakeTensorMode().from_tensor(wrap(value._array), place)


def _fake_tensors() -> Any:
    return import_module("pullback._subclasses.fake_tensor")  # under the name that torch has


def _fake(mode: Any, tensor: Tensor, at: int, sizes: Mapping[Place, int]) -> Any:
    """A fake tensor like one, where some sizes may be others."""
    shape = tuple(sizes.get((at, dim), size) for dim, size in enumerate(tensor.shape))
    if shape == tuple(tensor.shape):
        return mode.from_tensor(tensor)
    order = sorted(range(len(shape)), key=lambda dim: -tensor.stride(dim))
    array = meta.of(shape, tensor._array.dtype, order)
    return mode.from_tensor(wrap(array).requires_grad_(tensor.requires_grad), tensor.device)


def _number(nested: bool, at: int) -> int:
    return at + 1 if nested else 1


def _is_leaf(value: Any) -> bool:
    leaves, _ = pytree.tree_flatten(value)
    return len(leaves) == 1 and leaves[0] is value


def _names(f: Any, count: int) -> list[str]:
    """The names of the arguments, made up where the function has none."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return [f"arg{at}" for at in range(count)]
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (named + [f"arg{at}" for at in range(len(named), count)])[:count]


def _leaf_names(names: list[str], args: Sequence[Any]) -> list[str]:
    return [
        name for name, arg in zip(names, args, strict=True) for _ in pytree.tree_flatten(arg)[0]
    ]


__dir__ = _only_public(globals())
