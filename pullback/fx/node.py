"""`Node`: one step of a graph, its arguments and who uses it."""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback.core.listing import only_public as _only_public
from pullback.fx._names import RESERVED, qualified_name
from pullback.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from pullback.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
Argument = Any
Target = Callable[..., Any] | str

_side_effects: set[Any] = {operator.setitem}


def has_side_effect(fn: Any) -> Any:
    """Say that calls of a function must stay in a graph even if nobody uses their results.

    >>> from pullback import fx
    >>> @fx.has_side_effect
    ... def note(x):
    ...     print(x)
    """
    _side_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Every leaf of nested tuples, lists, dicts and slices through `fn`, into immutable copies.

    Args:
        a: Nested value.
        fn: Function of one leaf.

    >>> from pullback.fx.node import map_aggregate
    >>> map_aggregate((1, [2, {"a": 3}]), lambda x: x + 1)
    (2, [3, {'a': 4}])
    """
    if isinstance(a, tuple):
        items = [map_aggregate(one, fn) for one in a]
        if hasattr(a, "_fields"):
            return type(a)(*items)
        return tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(one, fn) for one in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(one, fn) for key, one in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(one, fn) for one in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """As `map_aggregate`, for the nodes in it only.

    >>> from pullback import fx
    >>> x = fx.Graph().placeholder("x")
    >>> fx.map_arg((x, [1, x]), lambda node: node.name.upper())
    ('X', [1, 'X'])
    """
    return map_aggregate(a, lambda one: fn(one) if isinstance(one, Node) else one)


class Node:
    """One step of a graph: an input, an attribute, a call, or the output.

    >>> import pullback as torch
    >>> from pullback import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> y.op, y.args, list(x.users)
    ('call_function', (x,), [relu])
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"A node's op is one of {', '.join(OPS)}, not {op!r}.")
        if op == "call_function":
            if not callable(target):
                raise ValueError(f"call_function needs a callable target, got {target!r}.")
        elif not isinstance(target, str):
            raise ValueError(f"{op} needs the name of its target, got {target!r}.")
        self.graph, self.name, self.op, self.target, self.type = (
            graph,
            name,
            op,
            target,
            return_type,
        )
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._prev = self._next = self
        self._erased = False
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._update(args, kwargs)

    # ------------------------------------------------------------------ arguments

    @property
    def args(self) -> tuple[Any, ...]:
        """Arguments by position; assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._update(tuple(a), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Arguments by name; assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._update(self._args, dict(k))

    def _update(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        found: dict[Node, None] = {}

        def noted(node: Node) -> Node:
            found[node] = None
            return node

        new_args, new_kwargs = map_arg(args, noted), map_arg(kwargs, noted)
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = new_args, new_kwargs, found
        for node in found:
            node.users.setdefault(self)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace the argument at a position."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put an argument before the one at a position."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"{self.name} has {len(self._args)} arguments, {idx} is too far.")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace an argument by name, or add it."""
        self.kwargs = {**self._kwargs, key: arg}

    # ------------------------------------------------------------------ place

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` to right before this node."""
        if self.graph is not x.graph:
            raise AssertionError("A node can be moved within its own graph only.")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` to right after this node."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        node = self._next
        while node.op != "root":
            if node is other:
                return True
            node = node._next
        return False

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # ------------------------------------------------------------------ uses

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let every user take `replace_with` instead; returns the users changed."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("propagate_meta needs a replacement without meta of its own.")
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Take `new_input` wherever `old_input` is an argument."""
        self.graph._replaced(old_input, new_input, self)

        def other(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update(map_arg(self._args, other), map_arg(self._kwargs, other))

    @property
    def stack_trace(self) -> str | None:
        """Where in the traced program the node comes from, if that was recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does more than give a result, so that it must stay even if unused."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            schema = getattr(self.target, "_schema", None)
            mutates = bool(getattr(schema, "is_mutable", False))
            drawn = impure_random and getattr(self.target, "__name__", "") in _RANDOM
            return self.target in _side_effects or mutates or drawn
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("A graph without its module cannot tell what modules do.")
            module = owner.get_submodule(str(self.target))
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Arguments by name with the defaults filled in, or None where that is not known."""
        from pullback.fx import operator_schemas

        named = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return operator_schemas.normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, named
            )
        if self.op == "call_module":
            return operator_schemas.normalize_module(
                root, str(self.target), self.args, self.kwargs, named
            )
        return None

    # ------------------------------------------------------------------ text

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.graph._names.forget(self)
            self.name = self.graph._names.create_name(candidate, self)

    def _take_name(self, name: str) -> None:
        """Have just this name, were it that of a builtin: a step that has it gets another."""
        names = self.graph._names
        holder = names.holder(name)
        if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
            return self._rename(name)
        if holder is not None and getattr(holder, "op", "placeholder") == "placeholder":
            return self._rename(name)
        names.forget(self, frees=True)
        if holder is not None:
            names.forget(holder)
            holder.name = names.create_name(name, holder)
        names.associate_name_with_obj(name, self)
        self.name = name
        return None

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _pretty_print_target(self, target: Any) -> str:
        return target if isinstance(target, str) else qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """One line that says what the node does; names of inputs and the type are collected."""
        kind = "" if self.type is None else f": {_type_text(self.type)} "
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}{kind.rstrip()}")
                return None
            default = f"(default={self.args[0]!r})" if self.args else ""
            uses = f"{kind[2:]}{self._uses()}"
            return f"%{self.name} : {uses} = placeholder[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : {kind[2:]}{self._uses()} = get_attr[target={self.target}]"
        if self.op == "output":
            if self.type is not None and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {_type_text(self.type)}"
            return f"return {self.args[0]}"
        return (
            f"%{self.name} : {kind[2:]}{self._uses()} = "
            f"{self.op}[target={self._pretty_print_target(self.target)}]"
            f"(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"
        )

    def _uses(self) -> str:
        return f"[num_users={len(self.users)}]"


_NAMES = """
    bernoulli dropout dropout_ multinomial normal poisson rand rand_like randint randint_like randn
    randn_like randperm rrelu
"""
_RANDOM = frozenset(_NAMES.split())


def _type_text(kind: Any) -> str:
    return (
        qualified_name(kind)
        if hasattr(kind, "__module__") and isinstance(kind, type)
        else str(kind)
    )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(map(_shown, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(one)}" for key, one in value.items()) + "}"
    return f"%{value}" if isinstance(value, Node) else str(value)


__dir__ = _only_public(globals(), "Argument Target")
