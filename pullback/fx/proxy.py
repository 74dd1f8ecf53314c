"""Proxies: stand for values while a program is traced, and note what is done to them."""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.layout import layout, memory_format
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import getframe, internal
from pullback.core.tensor import Tensor
from pullback.fx._names import qualified_name
from pullback.fx.graph import Graph
from pullback.fx.node import Node, Target, map_aggregate
from pullback.operators.dispatch.asking import WATCH

__all__ = [
    *("Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope"),
    *("ScopeContextManager", "TraceError", "TracerBase"),
]

base_types = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout)


class TraceError(ValueError):
    """A program did something with a traced value that cannot be recorded."""


class Scope:
    """The module that is being traced: its path and its class.

    Args:
        module_path: Path of the module in the traced one.
        module_type: Class of the module.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Says which module is being traced, for the time of a `with` block.

    Args:
        scope: Scope to change, and to restore at the end.
        current_scope: What it is inside the block.
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = Scope(scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path = self._before.module_path
        self._scope.module_type = self._before.module_type


def _user_frame() -> FrameType | None:
    frame: FrameType | None = getframe(1)
    while frame is not None and internal[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def _where() -> str:
    frame = _user_frame()
    return "" if frame is None else f" at {frame.f_code.co_filename}:{frame.f_lineno}"


class TracerBase:
    """What a proxy needs of who traces: nodes, arguments, and what to do where values are asked."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: dict[str, Any]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node of the graph being made."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:
        """A node for a call with traced arguments, and what stands for its value."""
        given = tuple(self.create_arg(one) for one in args)
        named = {key: self.create_arg(one) for key, one in kwargs.items()}
        node = self.create_node(kind, target, given, named, name, type_expr)
        made = proxy_factory_fn(node) if proxy_factory_fn is not None else self.proxy(node)
        if self.record_stack_traces:
            import traceback

            node.stack_trace = "".join(traceback.format_stack(_user_frame()))
        return made

    def create_arg(self, a: Any) -> Any:
        """A value as a node's argument."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(one) for one in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(one) for one in a]
        if isinstance(a, dict):
            for key in a:
                if isinstance(key, Proxy | Node):
                    raise RuntimeError("A traced value cannot be a key of a dict.")
            return {key: self.create_arg(one) for key, one in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(one) for one in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(one) for one in (a.start, a.stop, a.step)))
        if isinstance(a, base_types) or a is None or a is ... or hasattr(a, "_schema"):
            return a
        raise NotImplementedError(f"A {type(a).__name__} cannot be an argument of a node: {a!r}.")

    def to_bool(self, obj: Proxy) -> bool:
        """Called where a traced value decides: `if`, `while`, `and`."""
        raise TraceError(
            f"{obj.node.name} decides about control flow{_where()}, but its value is not known "
            "while a program is traced; use torch.where, or make the module a leaf."
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called where a traced value is iterated over; `a, b = x` is all that is known."""
        frame = _user_frame()
        if frame is not None:
            found = _unpacks(frame)
            if found is not None:
                return (operator.getitem(obj, at) for at in range(found))
        raise TraceError(
            f"{obj.node.name} is iterated over{_where()}, but its length is not known while a "
            "program is traced; take its items by index, or make the module a leaf."
        )

    def keys(self, obj: Proxy) -> Any:
        """Called for `**x`."""
        return Attribute(obj, "keys")()


def _unpacks(frame: FrameType) -> int | None:
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.arg if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class GraphAppendingTracer(TracerBase):
    """Puts what is done to its proxies at the end of a graph.

    Args:
        graph: Graph to append to.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}


class Proxy:
    """Stands for a value: every operation on it becomes a node.

    >>> from pullback import fx
    >>> graph = fx.Graph()
    >>> x = fx.Proxy(graph.placeholder("x"))
    >>> (x + 1).relu().node
    relu
    """

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        WATCH.begin(("proxy", id(self)))  # functions ask while there is somebody to be asked
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __del__(self) -> None:
        WATCH.end(("proxy", id(self)))

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.tracer.create_proxy("call_function", _deepcopied, (self,), {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and (message := _asserted(_user_frame())) is not None:
            from pullback.fx._asserting import _assert

            self.tracer.create_proxy("call_function", _assert, (self, message), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """For `**x`."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            f"len() of {self.node.name} is not known while a program is traced{_where()}; to "
            "record the call, say torch.fx.wrap('len') at the top of the module."
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """A function of the package was called with a proxy."""
        kwargs = kwargs or {}
        tracer = _tracer_of(args, kwargs)
        if is_method(orig_method, args):
            name = _method_name(orig_method)
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _deepcopied(value: Any) -> Any:
    import copy

    return copy.deepcopy(value)


def _tracer_of(args: Any, kwargs: Any) -> TracerBase:
    found: dict[TracerBase, None] = {}

    def look(value: Any) -> Any:
        if isinstance(value, Proxy):
            found[value.tracer] = None
        return value

    map_aggregate((args, kwargs), look)
    if len(found) > 1:
        raise RuntimeError("Proxies of different traces are mixed in one call.")
    return next(iter(found))


def is_method(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call is noted as that of a method: `tensor.add(proxy)`, `tensor + proxy`.

    Many functions and methods are one object here, so it goes by the first argument.
    """
    if not args or isinstance(args[0], Proxy) or not isinstance(args[0], Tensor):
        return qualified_name(function).startswith("torch.Tensor.")
    return _method_name(function) != ""


def _method_name(function: Any) -> str:
    name = getattr(function, "__name__", "")
    if getattr(Tensor, name, None) is function:
        return str(name)
    return next((key for key, value in list(vars(Tensor).items()) if value is function), "")


def _asserted(frame: FrameType | None) -> str | None:
    """The message of the `assert` that a frame is at, or None."""
    if frame is None:
        return None
    instructions = [one for one in dis.get_instructions(frame.f_code) if one.opname != "NOT_TAKEN"]
    at = next((n for n, one in enumerate(instructions) if one.offset == frame.f_lasti), None)
    if at is None:
        return None
    if instructions[at].opname in ("COMPARE_OP", "TO_BOOL"):  # from 3.13 on these ask for the truth
        at += 1
    jump, loaded, following = (*instructions[at : at + 3], None, None, None)[:3]
    if jump is None or "POP_JUMP" not in jump.opname or loaded is None or following is None:
        return None
    if loaded.opname != "LOAD_ASSERTION_ERROR" and loaded.argrepr != "AssertionError":
        return None
    return str(following.argval) if following.opname == "LOAD_CONST" else ""


class Attribute(Proxy):
    """An attribute of a proxy; becomes a node when it is used, or a method call when called.

    Args:
        attr: Name of the attribute.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        WATCH.begin(("proxy", id(self)))
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]  # made when asked for
        """The node that reads the attribute."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter; what is known of it beforehand is not traced.

    Args:
        tracer: Tracer that records.
        node: Node of the graph.
        name: Path of the parameter in the module.
        param: The parameter.
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, dim: int | None = None) -> Any:
        """The parameter's shape, or one number of it."""
        return self.param.size() if dim is None else self.param.size(dim)

    def dim(self) -> int:
        """How many dimensions it has."""
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return int(self.param.ndim)

    def numel(self) -> int:
        """How many elements it has."""
        return int(self.param.numel())

    def nelement(self) -> int:
        """How many elements it has."""
        return int(self.param.numel())


# Python's operators ------------------------------------------------------------------------------

_BOTH = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul"
_ONE_WAY = "getitem eq ne lt gt le ge pos neg invert"


def _sign(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    target = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Any:
        given = (args[0], self) if reflected else (self, *args)
        return self.tracer.create_proxy("call_function", target, given, {})

    method.__name__ = f"__{'r' if reflected else ''}{name.strip('_')}__"
    return method


for _name in f"{_BOTH} {_ONE_WAY}".split():
    setattr(Proxy, f"__{_name.strip('_')}__", _sign(_name))
for _name in _BOTH.split():
    setattr(Proxy, f"__r{_name.strip('_')}__", _sign(_name, reflected=True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # `==` is traced, identity is not

__dir__ = _only_public(globals(), "base_types")
