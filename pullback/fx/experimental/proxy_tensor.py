"""`make_fx`: the operators that a function calls below autograd, as a graph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy

import pullback
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.fx._codegen import PyTreeInfo, _PyTreeCodeGen
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node
from pullback.nn.modules.module import Module
from pullback.utils._python_dispatch import TorchDispatchMode

__all__ = ["make_fx"]


class _Recording(TorchDispatchMode):
    """Notes operator calls in a graph. Tensors are known by their arrays, which aliases share."""

    def __init__(self, graph: Graph, root: Module, table: Mapping[Any, Any]) -> None:
        self.graph, self.root, self.table = graph, root, table
        self.known: dict[int, tuple[Any, Node]] = {}

    def note(self, tensor: Tensor, node: Node) -> None:
        self.known[id(tensor._array)] = (tensor._array, node)

    def node_of(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        found = self.known.get(id(value._array))
        if found is None:
            self.note(value, self._view_of_known(value) or self._constant(value))
            found = self.known[id(value._array)]
        return found[1]

    def _view_of_known(self, tensor: Tensor) -> Node | None:
        """A view that an operator made for itself (a transposed weight), as a node of its own."""
        array = tensor._array
        sharing = [
            (known, node)
            for known, node in self.known.values()
            if known.dtype == array.dtype and numpy.may_share_memory(known, array)
        ]
        for known, node in sharing:
            turned = known.T
            same = (turned.shape, turned.strides) == (array.shape, array.strides)
            if same and known.ndim == 2 and _address(known) == _address(array):
                return self.graph.call_function(pullback.ops.aten.t.default, (node,), name="t")
        if not sharing:
            return None
        steps = [stride // array.itemsize for stride in array.strides]
        start = (_address(array) - _address(_owner(array))) // array.itemsize
        place = (sharing[0][1], list(array.shape), steps, start)
        target = pullback.ops.aten.as_strided.default
        return self.graph.call_function(target, place, name="as_strided")

    def _constant(self, tensor: Tensor) -> Node:
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        name = f"_tensor_constant{number}"
        setattr(self.root, name, tensor)
        return self.graph.get_attr(name)

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in self.table:
            with self:
                return self.table[func](*args, **kwargs)
        given, named = pytree.tree_map(self.node_of, (args, kwargs))
        result = func(*args, **kwargs)
        packet = getattr(func, "overloadpacket", func)
        node = self.graph.call_function(func, tuple(given), named, name=packet.__name__)
        self._note_results(result, node)
        return result

    def _note_results(self, result: Any, node: Node) -> None:
        import operator

        if isinstance(result, Tensor):
            self.note(result, node)
        elif isinstance(result, tuple | list):
            for at, one in enumerate(result):
                if isinstance(one, Tensor):
                    self.note(one, self.graph.call_function(operator.getitem, (node, at)))


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

    Control flow and sizes are those of the arguments given; only `tracing_mode="real"` is known.

    Example:
        >>> import pullback as torch
        >>> from pullback.fx.experimental.proxy_tensor import make_fx
        >>> made = make_fx(lambda x: x.sin() * 2)(torch.ones(2))
        >>> [str(node.target) for node in made.graph.nodes]
        ['x_1', 'aten.sin.default', 'aten.mul.Tensor', 'output']
    """
    if tracing_mode != "real":
        raise NotImplementedError(
            f"make_fx: tracing_mode={tracing_mode!r} is not supported, only 'real' is: sizes are "
            "those of the arguments."
        )

    @functools.wraps(f)
    def wrapped(*args: Any) -> GraphModule:
        root, graph = Module(), Graph()
        mode = _Recording(graph, root, decomposition_table or {})
        names = _names(f, len(args))
        flat, in_spec = pytree.tree_flatten(list(args))
        nested = any(not _is_leaf(one) for one in args)
        for at, (path, leaf) in enumerate(zip(_leaf_names(names, args), flat, strict=True)):
            node = graph.create_node("placeholder", f"{path}_{_number(nested, at)}")
            if isinstance(leaf, Tensor):
                mode.note(leaf, node)
        with mode:
            result = f(*args)
        out, out_spec = pytree.tree_flatten(result)
        returned = [mode.node_of(one) for one in out]
        if nested:
            graph.set_codegen(_PyTreeCodeGen(PyTreeInfo(names, in_spec, out_spec)))
            graph.output(returned)
        else:
            graph.output(pytree.tree_unflatten(returned, out_spec))
        graph.eliminate_dead_code(lambda node: node.is_impure(impure_random=False))
        return GraphModule(root, graph, getattr(f, "__name__", "GraphModule"))

    return wrapped


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


def _leaf_names(names: list[str], args: tuple[Any, ...]) -> list[str]:
    return [
        name for name, arg in zip(names, args, strict=True) for _ in pytree.tree_flatten(arg)[0]
    ]


__dir__ = _only_public(globals())
