"""`Graph`: a program as a list of nodes, which can be changed and written out as Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pullback
from pullback.core.listing import only_public as _only_public
from pullback.fx._codegen import CodeGen, PythonCode, PyTreeInfo, _PyTreeCodeGen, _PyTreeInfo
from pullback.fx._names import Namespace, node_name
from pullback.fx.node import Node, Target, map_arg

__all__ = ["CodeGen", "Graph", "PyTreeInfo", "PythonCode", "_PyTreeCodeGen", "_PyTreeInfo"]

_Namespace = Namespace


class _NodeList:
    """The nodes of a graph in order; nodes may be added and erased while one goes through it."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node: Node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


_node_list = _NodeList


class _InsertPoint:
    """Where new nodes go, for the time of a `with` block or until another place is set."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A program as a list of nodes: inputs, calls, and an output.

    >>> import pullback as torch
    >>> from pullback import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> node = graph.output(graph.call_function(torch.relu, (x,)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._names = Namespace()
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._owners = 0
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> Any:
        """The module whose attributes the graph's targets name."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> Any:
        """The nodes, in the order in which they run."""
        return _NodeList(self)

    @property
    def _graph_namespace(self) -> Namespace:
        return self._names

    def output_node(self) -> Node:
        """The node that gives the output."""
        node = self._root._prev
        if node.op != "output":
            raise StopIteration("The graph has no output yet.")
        return node

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind; `target` narrows it to calls of one function, method or module."""
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes(op='call_function') needs the function, as `target`.")
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    # ------------------------------------------------------------------ making nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node at the place where nodes are being put."""
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args).__name__}.")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs).__name__}.")
        node = Node(self, "", op, target, args, kwargs, type_expr)
        node.name = self._names.create_name(node_name(target) if name is None else name, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self._owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input of the graph."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the graph's module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a submodule."""
        owner = self._owning_module
        if owner is not None:
            owner.get_submodule(module_name)  # which says what is missing
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the graph gives."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda one: one) -> Node:
        """A copy of another graph's node; `arg_transform` says which nodes stand for its inputs."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copy another graph's nodes to here; what it gives. `val_map` has what is here already."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda one: val_map[one])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda one: val_map[one])
        return None

    # ------------------------------------------------------------------ places

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go right before `n` (None: to the beginning)."""
        if n is None:
            return self.inserting_after(self._root)
        self._own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go right after `n` (None: to the end), in the order in which they are made."""
        if n is None:
            return self.inserting_before(self._root)
        self._own(n)
        last = n

        def insert(node: Node) -> None:
            nonlocal last
            last.append(node)
            last = node

        return _InsertPoint(self, insert)

    def _own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError(f"{node.name} is a node of another graph.")

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"{to_erase.name} is still used by {', '.join(map(str, to_erase.users))}; replace "
                "those uses first, by `replace_all_uses_with`."
            )
        self._own(to_erase)
        if to_erase._erased:
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        to_erase.args, to_erase.kwargs = (), {}
        self._names.forget(to_erase)
        self._len -= 1

    def _replaced(self, old: Node, new: Node, user: Node) -> None:
        for hook in getattr(self._owning_module, "_replace_hooks", ()):
            hook(old=old, new=new.name, user=user)

    # ------------------------------------------------------------------ the whole

    def eliminate_dead_code(
        self,
        is_impure_node: Callable[[Node], bool] | None = None,
        *,
        verify_node_names: bool = True,
    ) -> bool:
        """Erase calls whose results nobody uses and that do nothing else; whether any was."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._len < before

    def lint(self) -> None:
        """Check that the graph is in order: names, inputs before their users, targets there."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for one in node._input_nodes:
                if one.graph is not self:
                    raise RuntimeError(f"{node.name} takes {one.name}, a node of another graph.")
                if one not in seen:
                    raise RuntimeError(f"{node.name} takes {one.name} before that was computed.")
            if node.name in names:
                raise RuntimeError(f"Two nodes are called {node.name}.")
            seen.add(node)
            names.add(node.name)
            self._check_target(node)

    def _check_target(self, node: Node) -> None:
        if node.op == "call_function" and not callable(node.target):
            raise ValueError(f"{node.name}: the target {node.target!r} cannot be called.")
        if node.op != "call_function" and not isinstance(node.target, str):
            raise ValueError(f"{node.name}: the target {node.target!r} is no name.")
        if self._owning_module is None or node.op not in ("get_attr", "call_module"):
            return
        place = self._owning_module
        for part in str(node.target).split("."):
            if not hasattr(place, part):
                raise RuntimeError(
                    f"{node.name}: the module of this graph has no {node.target} ({part} is "
                    f"missing in {type(place).__name__})."
                )
            place = getattr(place, part)
        if node.op == "call_module" and not isinstance(place, pullback.nn.Module):
            raise RuntimeError(f"{node.name}: {node.target} is no module.")

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """The forward as Python source, with the globals that it needs."""
        return self._codegen.write(self, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another `CodeGen` write the code."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Pass the written lines through a transformer, from the next `recompile` on.

        `make_transformer` gets the present one (or None). The result, used as a context, takes the
        transformer away again.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return _Restored(self._codegen, before)

    def process_inputs(self, *args: Any) -> Any:
        """What a caller passes, as the values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The output, as a caller gets it."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [
            (node.op, node.name, str(node.target), str(node.args), str(node.kwargs))
            for node in self.nodes
        ]
        widths = [max(len(row[at]) for row in rows) for at in range(5)]
        rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]  # text like the other rows
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())

    def __str__(self) -> str:
        inputs: list[str] = []
        returned = [""]
        lines = [node.format_node(None, returned) for node in self.nodes]
        text = f"graph({', '.join(inputs)}){returned[0]}:"
        return "\n    ".join([text, *(line for line in lines if line)])

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        if memo is not None:
            memo[id(self)] = copied
        found = copied.graph_copy(self, {}, return_output_node=True)
        if found is not None:
            result, old = found
            made = copied.output(result, old.type)
            made.meta = dict(old.meta)
        copied._codegen = self._codegen
        return copied


class _Restored:
    """Takes a transformer of code away again."""

    def __init__(self, codegen: CodeGen, before: Any) -> None:
        self.codegen, self.before = codegen, before

    def __enter__(self) -> _Restored:
        return self

    def __exit__(self, *error: object) -> None:
        self.codegen._body_transformer = self.before


__dir__ = _only_public(globals())
