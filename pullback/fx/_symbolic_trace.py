"""`Tracer` and `symbolic_trace`: run a program on proxies, and keep what it did as a graph."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from pullback.core.home import is_ours
from pullback.core.origin import getframe
from pullback.core.tensor import Tensor
from pullback.fx._patching import Patches, recording, usual
from pullback.fx._root_args import PH, PHBase, PHWithMeta, RootArguments, annotations_of
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.node import Node
from pullback.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from pullback.nn.modules.container import Sequential
from pullback.nn.modules.module import Module, from_tables
from pullback.nn.parameter import Parameter
from pullback.operators.dispatch.asking import WATCH

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "current_tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]


class _Running(threading.local):
    """The tracers of this thread, the innermost last, with the nodes of their parameters."""

    def __init__(self) -> None:
        self.tracers: list[tuple[Tracer, dict[str, Any]]] = []


_running = _Running()
# (id of a module's globals, name) -> (the globals, name): functions that `wrap` was called for.
_wrapped: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
_wrapped_methods: list[tuple[type, str]] = []


def is_fx_tracing() -> bool:
    """Whether this thread traces a program."""
    return bool(_running.tracers)


is_fx_symbolic_tracing = is_fx_tracing


def current_tracer() -> Tracer | None:
    """The tracer whose program this thread runs, the innermost if there are several."""
    return _running.tracers[-1][0] if _running.tracers else None


class ProxyableClassMeta(type):
    """The metaclass of classes whose making is recorded when an argument is traced.

    >>> import pullback as torch
    >>> from pullback import fx
    >>> class Pair(metaclass=fx.ProxyableClassMeta):
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> traced = fx.symbolic_trace(lambda x, y: Pair(x, y).left + 1)
    >>> traced(torch.tensor(1.0), torch.tensor(2.0))
    tensor(2.)
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance, whose attributes may be proxies."""
        return super().__call__(*args, **kwargs)


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Let a function of this module be one node in graphs, instead of what it does.

    To be called at the top of a module: with a name, or as a decorator.

    Example:
        >>> from pullback import fx
        >>> @fx.wrap
        ... def twice(x):
        ...     return x + x
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"wrap() takes a function of this module or a name, got {type(fn_or_name).__name__}."
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError(
            "wrap() must be called at the top of a module, not in a function."
        )
    _wrapped[id(frame.f_globals), name] = (frame.f_globals, name)
    return fn_or_name


class Tracer(TracerBase):
    """Traces a module or function; subclasses say which modules stay whole, and more.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> class Whole(fx.Tracer):
        ...     def is_leaf_module(self, m, qualname):
        ...         return True
        >>> model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU()))
        >>> [node.op for node in Whole().trace(model).nodes]
        ['placeholder', 'call_module', 'output']
    """

    _constants: ClassVar[str] = "_tensor_constant"

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_modules = list(autowrap_modules)
        self._autowrap_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: dict[str, Any] = {}
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.tensor_attrs: dict[int, str] = {}

    # ------------------------------------------------------------------ to be overridden

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is one node; those of torch.nn are, save Sequential."""
        return is_ours(type(m), "nn", "ao.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The name of a module in the root, as in `named_modules`."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError(f"{type(mod).__name__} is not a submodule of what is traced.")
            return path
        for name, one in self.root.named_modules():
            if one is mod:
                return name
        raise NameError(f"{type(mod).__name__} is not a submodule of what is traced.")

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A module was called: a node if it is a leaf, else what is inside of it."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            times = self.num_calls.get(path, 0)
            self.num_calls[path] = times + 1
            key = path if times == 0 else f"{path}@{times}"
            self.module_stack[key] = (path, scope.module_type)
            try:
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """An attribute of a module was read: parameters become nodes."""
        found: Any = None
        if isinstance(attr_val, Parameter):
            found = self._attribute_proxy(
                attr_val, self.root.named_parameters(), parameter_proxy_cache
            )
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self._attribute_proxy(
                attr_val, self.root.named_buffers(), parameter_proxy_cache
            )
        return attr_val if found is None else found

    def _attribute_proxy(self, value: Any, named: Any, cache: dict[str, Any]) -> Any:
        name = _path_of(value, named)
        if name is None:
            return None
        if name not in cache:
            make = functools.partial(ParameterProxy, self, name=name, param=value)
            constant = self.param_shapes_constant and isinstance(value, Parameter)
            cache[name] = self.create_proxy(
                "get_attr", name, (), {}, proxy_factory_fn=make if constant else None
            )
        return cache[name]

    # ------------------------------------------------------------------ arguments

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """A node, with the module it comes from noted."""
        node = super().create_node(*args, **kwargs)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    def create_arg(self, a: Any) -> Any:
        """A value as a node's argument; tensors are found or put in the root module."""
        if isinstance(a, Proxy):  # first: one may say that it is a tensor
            return a.node
        if isinstance(a, Parameter):
            path = _path_of(a, self.root.named_parameters())
            if path is None:
                raise NameError("A parameter that is used is not one of the module that is traced.")
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Tensor):
            path = _path_of(a, self.root.named_buffers()) or self._constant_name(a)
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            path = _path_of(a, self.root.named_modules())
            if path is not None:
                return self.create_node("get_attr", path, (), {})
        if type(type(a)) is ProxyableClassMeta:
            made = tuple(self.create_arg(one) for one in vars(a).values())
            return self.create_node("call_function", type(a), made, {})
        return super().create_arg(a)

    def _constant_name(self, tensor: Tensor) -> str:
        known = self.tensor_attrs.get(id(tensor))
        if known is None:
            known = self.get_fresh_qualname(self._constants)
            self.tensor_attrs[id(tensor)] = known
            setattr(self.root, known, tensor)
        return known

    def get_fresh_qualname(self, prefix: str) -> str:
        """An attribute of the root that is not there yet."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function to be run and what it is called with: a proxy for each argument."""
        return RootArguments(self, root_fn, is_module, concrete_args).made()

    def _proxy_placeholder(self, name: str, default: tuple[Any, ...], kind: Any) -> Any:
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    # ------------------------------------------------------------------ the trace

    def trace(self, root: Module | Callable[..., Any], concrete_args: Any = None) -> Graph:
        """The graph of a module's forward or of a function."""
        if isinstance(root, Module):
            self.root = root
            self.root_module_name = type(root)._get_name(root)
            forward = getattr(type(root), self.traced_func_name)
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            if not callable(root):
                found = type(root).__name__
                raise AssertionError(f"A module or function is needed, got {found}.")
            self.root, forward = Module(), root
            self.submodule_paths = None
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        self.tensor_attrs = _tensors_of(self.root)
        running = _running.tracers
        running.append((self, {}))
        WATCH.begin(self)
        try:
            run, args = self.create_args_for_root(forward, isinstance(root, Module), concrete_args)
            with Patches() as patches:
                self._patch(patches, forward)
                result = self.create_arg(run(*args))
            kind = annotations_of(forward).get("return")
            self.create_node("output", "output", (result,), {}, type_expr=kind)
        finally:
            WATCH.end(self)
            running.pop()
            self.submodule_paths = None
        return self.graph

    def _patch(self, patches: Patches, forward: Any) -> None:
        """While the program runs: modules, their attributes and wrapped functions are recorded."""
        patches.attribute(Module, "__getattr__", _read)
        patches.attribute(Module, "__call__", _called)
        for scope, name in _wrapped.values():
            if name in scope or hasattr(builtins, name):
                patches.item(scope, name, recording)
        scopes = [vars(module) for module in self._autowrap_modules]
        function = inspect.unwrap(forward) if callable(forward) else forward
        if isinstance(function, FunctionType):
            scopes.append(function.__globals__)
        for scope in scopes:
            for name, value in usual(scope):
                if id(value) in self._autowrap_ids and not name.startswith("_"):
                    patches.item(scope, name, recording)


_usual_call, _usual_getattr = Module.__call__, from_tables


@functools.wraps(_usual_getattr)
def _read(module: Module, name: str) -> Any:
    value = _usual_getattr(module, name)
    if not _running.tracers:
        return value
    tracer, nodes = _running.tracers[-1]
    return tracer.getattr(name, value, nodes)


@functools.wraps(_usual_call)
def _called(module: Module, *args: Any, **kwargs: Any) -> Any:
    if not _running.tracers:
        return _usual_call(module, *args, **kwargs)
    tracer, _ = _running.tracers[-1]
    return tracer.call_module(module, functools.partial(_usual_call, module), args, kwargs)


def _path_of(value: Any, named: Iterable[tuple[str, Any]]) -> str | None:
    return next((name for name, one in named if one is value), None)


def _tensors_of(root: Module) -> dict[int, str]:
    """Tensors that are plain attributes of a module or its submodules, by identity."""
    found: dict[int, str] = {}
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                found[id(value)] = f"{path}.{name}" if path else name
    return found


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: Any = None) -> GraphModule:
    """Run a module or function on proxies and give it back as a graph module.

    `concrete_args` are arguments that keep their values, by name; `fx.PH` in them is traced.

    Example:
        >>> import pullback as torch
        >>> from pullback import fx
        >>> traced = fx.symbolic_trace(lambda x, y: torch.add(x, y).relu())
        >>> traced(torch.tensor([1.0]), torch.tensor([-3.0]))
        tensor([0.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
