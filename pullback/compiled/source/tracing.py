"""The operators of a backward pass as a graph, in torch's words, each with the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import Any

from numpy.lib.array_utils import byte_bounds

import pullback
from pullback.compiled.source.given import Given
from pullback.compiled.source.words import SPELLED, in_words
from pullback.core.origin import Origin, here
from pullback.core.passes import evaluating
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.engine.ownership import ALONE
from pullback.func import functionalize
from pullback.fx.experimental.proxy_tensor import _Recording
from pullback.fx.graph import Graph
from pullback.fx.node import Node
from pullback.library.builtin.schema import torchs_schemas
from pullback.nn.modules.module import Module
from pullback.operators.arrays.strides import root

__all__ = ["Spelled", "trace"]


class Spelled:
    """A function of torch's, by the text that names it; what a node calls."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.__name__ = text.rpartition(".")[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A graph in words is text, and not run."""
        raise TypeError(f"{self.text} is called by the text alone.")


class _Lined(Graph):
    """A graph whose nodes know the user's line, and whether it is the way back through it."""

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """A node, with `meta["line"]` and `meta["is_backward"]`."""
        node = super().create_node(*args, **kwargs)
        passed: Any = evaluating.get()
        line: Origin | None = here(2) if passed is None else passed._origin
        node.meta.update(line=line, is_backward=passed is not None)
        return node


class _Known:
    """Tensors, by identity."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}

    def update(self, values: Iterable[Any]) -> None:
        """Add the tensors among values."""
        self._held |= {id(one): one for one in values if isinstance(one, Tensor)}

    def __contains__(self, tensor: Tensor) -> bool:
        return id(tensor) in self._held


class _Words(_Recording):
    """Notes operator calls, with those that torch does not have in its words."""

    finds_makers = True  # `given` tells constants from what was computed unseen

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.constants = _Known()  # tensors that are the same whatever the arguments are
        self.given = Given()

    def stored(self, target: Tensor, result: Tensor) -> None:
        """As where writes are replaced; a tensor of given numbers is kept as it was before."""
        self.node_of(target)
        given = [name for name, one in vars(self.root).items()
                 if isinstance(one, Tensor) and one in self.given]  # fmt: skip
        before = dict(vars(self.root))
        super().stored(target, result)
        after = vars(self.root)
        self.constants.update(after[name] for name in given if after[name] is not before[name])

    def _lifted(self, func: Any, tensor: Tensor) -> Tensor:
        """A tensor of given numbers."""
        before = len(vars(self.root))
        result = super()._lifted(func, tensor)
        self.constants.update(list(vars(self.root).values())[before:])
        return result

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func.namespace == "aten" and _is_torchs(func):
            return super().__torch_dispatch__(func, types, args, kwargs)
        name = func._opname
        if name in SPELLED:
            text, given, named = SPELLED[name](*args, **kwargs)
            result = func(*args, **kwargs)
            given, named = pytree.tree_map(self.node_of, (given, named))
            node = self.graph.call_function(Spelled(text), tuple(given), named)
            self._note_results(result, node)
            return result
        function = in_words(name)
        if function is None:
            raise _no_words(func)
        with self:
            try:
                return function(*args, **kwargs)
            except NotImplementedError:
                raise _no_words(func) from None

    def _view_of_known(self, tensor: Tensor) -> Node | None:
        """A view that was made unseen, from what is known of its memory, whatever lies there."""
        array = tensor._array
        sharing = [one for one in self._sharing(array) if one[0].dtype == array.dtype]
        for known, node in sharing:
            if _geometry(known) == _geometry(array):
                return node
            if known.ndim == 2 and _geometry(known.T) == _geometry(array):
                return self._call("t", node)
            if known.flags.c_contiguous:
                first, last = (byte_bounds(one) for one in (known, array))
                if first[0] <= last[0] and last[1] <= first[1]:
                    steps = [stride // array.itemsize for stride in array.strides]
                    start = (_start(array) - _start(known)) // array.itemsize
                    return self._call("as_strided", node, list(array.shape), steps, start)
        if all(node.op == "get_attr" for _, node in sharing):
            return None  # a value of its own
        raise NotImplementedError(
            f"source(): a view of shape {tuple(tensor.shape)} has no words in torch: it depends on "
            "how a tensor lies in memory."
        )

    def _call(self, name: str, *args: Any) -> Node:
        target = getattr(pullback.ops.aten, name).default
        return self.graph.call_function(target, args, name=name)


def _geometry(array: Any) -> tuple[Any, ...]:
    return _start(array), array.shape, array.strides


def _start(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _is_torchs(func: Any) -> bool:
    """Whether torch has the operator too; most of ours have a namespace of their own."""
    return f"{func._opname}.{func._overloadname}" in torchs_schemas()


def _no_words(func: Any) -> NotImplementedError:
    passed: Any = evaluating.get()
    line = here() if passed is None else passed._origin
    of = "" if passed is None else f" of {type(passed).name(passed)}"
    where = "" if line is None else f", for {line}: {line.source}"
    return NotImplementedError(
        f"source(): the backward{of} calls {func._opname}, which has no words in torch{where}. "
        "compiled.export.to_python writes any function as a module on NumPy."
    )


def trace(
    function: Callable[..., Any], args: list[Tensor], names: list[str], known: Iterable[Any]
) -> Graph:
    """What `function(*args)` calls, without writes; `names` are those of the arguments.

    Tensors that it finds elsewhere become `get_attr` nodes: those that the program holds, or that
    look at arrays that are `known`. Another one was computed unseen, and is no constant; numbers
    are what they were.
    """
    known = list(known)
    graph, root_module = _Lined(), Module()
    mode = _Words(graph, root_module, {})
    copies = [one.clone() for one in args]
    for name, tensor in zip(names, copies, strict=True):
        node = graph.create_node("placeholder", name)
        node.meta.update(val=tensor, line=None)
        mode.note(tensor, node)
    try:
        with mode, mode.given:
            result = functionalize(function)(*copies)
    except RuntimeError as error:
        if isinstance(error, NotImplementedError):
            raise
        function(*(one.clone() for one in args))  # which may say so itself
        raise NotImplementedError(
            f"source(): a write in place cannot be replaced: {error}"
        ) from None
    leaves, spec = pytree.tree_flatten(result)
    graph.output(pytree.tree_unflatten([mode.node_of(one) for one in leaves], spec))
    _check_memory(graph)
    mode.known.clear()
    mode.tensors.clear()
    there = {id(root(one)) for one in known}
    for node in graph.nodes:
        if node.op == "get_attr":
            tensor = getattr(root_module, node.target)
            is_there = not tensor.ndim or id(root(tensor._array)) in there or tensor in mode.given
            is_there = is_there or tensor in mode.constants
            # Made here and written to unseen, or made unseen.
            if not is_there and (mode.given.knows(tensor) or _is_ours(tensor)):
                raise NotImplementedError(
                    f"source(): a tensor of shape {tuple(tensor.shape)} was computed unseen, for "
                    f"{node.meta['line']}: {getattr(node.meta['line'], 'source', '')}."
                )
            node.meta["val"] = tensor
            del tensor
    return graph


def _is_ours(tensor: Tensor) -> bool:
    """Whether nobody but the trace holds a tensor, so that it was made by what was traced.

    Beside the name here: the caller's, and the module that stands for the graph's attributes.
    """
    if getrefcount(tensor) > ALONE + 2:
        return False
    array = tensor._array
    owner = root(array)
    held = getrefcount(owner)
    return held <= (ALONE + 2 if owner is array else ALONE + 1)


def _check_memory(graph: Graph) -> None:
    """Refuse what depends on how a tensor lies in memory: the text makes such contiguous."""
    for node in graph.nodes:
        name = getattr(node.target, "_opname", "")
        if name.startswith("as_strided"):
            value = node.args[0].meta.get("val")
            if name == "as_strided_scatter":  # replaced unseen: it is like what it was
                node.meta.setdefault("val", value)
            if value is not None and not value.is_contiguous():
                raise NotImplementedError(
                    f"source(): {name} of a tensor that is not contiguous has no words in torch, "
                    f"for {node.meta['line']}."
                )
