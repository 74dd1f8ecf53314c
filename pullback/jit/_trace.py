"""`trace`: a program as it ran on example inputs, with its control flow fixed."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pullback
from pullback.autograd.function import Function
from pullback.autograd.grad_mode import no_grad
from pullback.core.origin import stacklevel
from pullback.core.overriding import FUNCTIONS
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.core.writer import block, define, define_once, theirs
from pullback.fx._symbolic_trace import Tracer, current_tracer
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule, _frozen, _thawed
from pullback.fx.node import Node
from pullback.fx.proxy import Attribute, Proxy
from pullback.jit._script import RecursiveScriptModule, ScriptFunction, converted, of_kind
from pullback.nn.modules.module import Module

__all__ = [
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "is_tracing",
    "script_if_tracing",
    "trace",
    "trace_module",
]


class TracerWarning(Warning):
    """Something of a traced program is fixed that may depend on its inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Warnings of the library's own code are not shown."""


class TracingCheckError(Exception):
    """A traced program does not give what the original does."""


_tracing: ContextVar[bool] = ContextVar("pullback_jit_tracing", default=False)


def is_tracing() -> bool:
    """Whether a program is being traced by `jit.trace`."""
    return _tracing.get()


def _fixed(what: str) -> None:
    warnings.warn(
        f"{what}, so its value is fixed in the traced program: for other inputs that may be wrong.",
        TracerWarning,
        stacklevel=stacklevel(),
    )


class _Known(Proxy):
    """A proxy that has a value too: what Python asks of it is answered, with a warning."""

    # It claims to be a Tensor, so it says as tensors do that its class overrides calls.
    _overrides = FUNCTIONS

    def __init__(self, node: Node, tracer: Any, value: Any) -> None:
        super().__init__(node, tracer)
        self.__dict__["value"] = value

    @property  # type: ignore[misc]  # so that isinstance(x, Tensor) holds
    def __class__(self) -> Any:
        return Tensor if isinstance(self.value, Tensor) else _Known

    def __getattr__(self, k: str) -> Any:
        found = getattr(self.value, k)
        traced = isinstance(found, Tensor | tuple)
        if traced or not (callable(found) or isinstance(self.value, Tensor)):
            return self.tracer.create_proxy("call_function", getattr, (self, k), {})
        # What kind of tensor it is (ndim, dtype) is no part of a program.
        return Attribute(self, k) if callable(found) else found

    # A size that Python does more with than arithmetic is the number that it is.

    def __hash__(self) -> int:
        if not isinstance(self.value, int):
            return id(self)
        _fixed(f"{self.node.name} is looked up")
        return hash(self.value)

    def __format__(self, spec: str) -> str:
        if isinstance(self.value, Tensor):
            return super().__format__(spec)
        _fixed(f"{self.node.name} is written as text")
        return format(self.value, spec)

    def __str__(self) -> str:
        return super().__str__() if isinstance(self.value, Tensor) else format(self, "")

    def __bool__(self) -> bool:
        _fixed(f"{self.node.name} is used as a Python bool")
        return bool(self.value)

    def __int__(self) -> int:
        _fixed(f"{self.node.name} is used as a Python int")
        return int(self.value)

    def __index__(self) -> int:
        _fixed(f"{self.node.name} is used as a Python int")
        return int(self.value)

    def __float__(self) -> float:
        _fixed(f"{self.node.name} is used as a Python float")
        return float(self.value)

    def __len__(self) -> int:
        _fixed(f"len() of {self.node.name} is taken")
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.value, Tensor):
            _fixed(f"{self.node.name} is iterated over")
        return (operator.getitem(self, at) for at in range(len(self.value)))

    def __contains__(self, item: Any) -> bool:
        _fixed(f"{self.node.name} is searched")
        return item in self.value


class _KnownTracer(Tracer):
    """Traces, and computes at the same time."""

    proxy_buffer_attributes = True

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Node, Any] = {}

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        given = tuple(self.create_arg(one) for one in args)
        named = {key: self.create_arg(one) for key, one in kwargs.items()}
        node = self.create_node(kind, target, given, named, name, type_expr)
        if kind == "placeholder":
            value = self.values[node] = self.examples.pop(0)
        else:
            real_args, real_kwargs = pytree.tree_map(_value, (args, kwargs))
            value = self.values[node] = self._run(kind, target, real_args, real_kwargs)
            if kind == "call_method" and target in _ABOUT:
                return value
        return _Known(node, self, value)

    def value_of(self, node: Node) -> Any:
        """What a node gave; a constant is asked for when it is returned as it is."""
        if node not in self.values and node.op == "get_attr":
            self.values[node] = self._run("get_attr", node.target, (), {})
        return self.values[node]

    examples: list[Any]

    is_running = False

    def _run(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a step gives for the examples; what it calls itself is no step."""
        before, self.is_running = self.is_running, True
        try:
            return self._result(kind, target, args, kwargs)
        finally:
            self.is_running = before

    def _result(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        if kind == "get_attr":
            return functools.reduce(getattr, target.split("."), self.root)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if kind == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        return target(*args, **kwargs)

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a module is what is inside of it, also of one that is made meanwhile."""
        if self.is_running or m not in (self.submodule_paths or ()):
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Parameters and buffers become nodes, save within a step, which computes."""
        if self.is_running:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def _patch(self, patches: Any, forward: Any) -> None:
        super()._patch(patches, forward)
        patches.attribute(Function, "apply", classmethod(_applied))
        for name in _DRAWING:
            getattr(pullback, name)  # loads it
            patches.item(vars(pullback), name, _drawn)


# These are in place for all threads while one traces: each asks what its own thread does.


def _here() -> _KnownTracer | None:
    """The tracer of this thread, if it is one that computes and is not inside a step."""
    tracer = current_tracer()
    return tracer if type(tracer) is _KnownTracer and not tracer.is_running else None


def _drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that draws, as a step: each call of the program draws anew."""

    @functools.wraps(function)
    def draw(*args: Any, **kwargs: Any) -> Any:
        tracer = _here()
        if tracer is None or kwargs.get("generator") is not None:
            return function(*args, **kwargs)
        return tracer.create_proxy("call_function", function, args, kwargs)

    return draw


def _applied(function: Any, *args: Any, **kwargs: Any) -> Any:
    """A custom Function is one step of the program, with its own backward."""
    tracer = _here()
    if tracer is not None and any(
        isinstance(one, Proxy) for one in pytree.tree_leaves((args, kwargs))
    ):
        return tracer.create_proxy("call_function", _Applied(function), args, kwargs)
    return _usual_apply(function, *args, **kwargs)


class _Applied:
    """The call of a custom Function, as what a node does."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function.apply(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _Applied, (self.function,)

    def __str__(self) -> str:
        return f"{self.__name__}_apply"


_DRAWING = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like",
            "normal", "bernoulli", "poisson", "multinomial")  # fmt: skip
_usual_apply = vars(Function)["apply"].__func__
# Methods that tell what kind of tensor it is: their answers are Python's.
_ABOUT = frozenset(
    [
        *("dim", "ndimension", "element_size", "get_device", "type"),
        *("is_complex", "is_contiguous", "is_floating_point", "is_signed"),
    ]
)


def _value(one: Any) -> Any:
    while isinstance(one, Attribute):
        one = one.tracer.create_proxy("call_function", getattr, (one.root, one.attr), {})
    return one.value if type(one) is _Known else one


def _graph_of(root: Module, function: Callable[..., Any], examples: tuple[Any, ...]) -> Graph:
    """The graph of a function on its examples; what it gives must be tensors."""
    tracer = _KnownTracer()
    tracer.examples = list(examples)
    before = _tracing.get()
    try:
        _tracing.set(True)
        graph = _traced(tracer, root, function)
    finally:
        _tracing.set(before)
    leaves = pytree.tree_leaves(graph.output_node().args[0])
    if not leaves or not all(
        isinstance(one, Node) and isinstance(tracer.value_of(one), Tensor | tuple | list | dict)
        for one in leaves
    ):
        raise RuntimeError("A traced program gives tensors, or tuples, lists and dicts of tensors.")
    return graph


def _traced(tracer: _KnownTracer, root: Module, function: Callable[..., Any]) -> Graph:
    count = len(tracer.examples)
    names = [f"arg{at}" for at in range(count)]
    try:
        import inspect

        known = [p for p in inspect.signature(function).parameters.values() if p.kind < 2]
        names[: len(known)] = [p.name for p in known][:count]
    except (TypeError, ValueError):
        pass
    given = ", ".join(map(theirs, names))
    lines = block(f"def forward({', '.join(['self', *map(theirs, names)])})",
                  [f"return function({given})"])  # fmt: skip
    forward = define(lines, {"function": function}, "traced call")
    holder = type("Holder", (type(root),), {"forward": forward})
    before = root.__class__
    root.__class__ = holder
    try:
        return tracer.trace(root)
    finally:
        root.__class__ = before


class TracedModule(RecursiveScriptModule):
    """A module whose methods replay what they did on example inputs."""

    _graphs: dict[str, Graph]

    def __reduce__(self) -> Any:
        own = {"_graphs", *self._graphs}
        state = {name: value for name, value in self.__dict__.items() if name not in own}
        graphs = {name: _frozen(graph) for name, graph in self._graphs.items()}
        return _replayed, (self._original, state, graphs)

    @property
    def code(self) -> str:
        """The source of forward, as it was traced."""
        return str(self._graphs["forward"].python_code("self").src) if self._graphs else ""


class TopLevelTracedModule(TracedModule):
    """What `trace` gives for a module."""


def _bind(traced: Any, name: str, graph: Graph) -> None:
    """Let a method of a traced module run a graph, with the module's own attributes."""
    traced.__dict__.setdefault("_graphs", {})[name] = graph
    written = graph.python_code("self")
    run = define_once(written.src, dict(written.globals), f"traced {name}", "forward", ours=False)
    object.__setattr__(traced, name, functools.partial(_run, run, _Weak(traced)))


class _Weak:
    """A module known by who holds it: no cycle from a module to its own method."""

    def __init__(self, module: Any) -> None:
        import weakref

        self.ref = weakref.ref(module)


def _run(run: Callable[..., Any], holder: _Weak, *args: Any, **kwargs: Any) -> Any:
    return run(holder.ref(), *args, **kwargs)


def _replayed(original: type, state: dict[str, Any], graphs: dict[str, Any]) -> Any:
    traced: Any = object.__new__(of_kind(TopLevelTracedModule, original))
    traced.__dict__.update(state)
    for name, frozen in graphs.items():
        _bind(traced, name, _thawed(frozen))
    return traced


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Run a function or module on example inputs and keep what it did as a program.

    Sizes stay those of later inputs; what Python decides by a value is fixed, with a
    TracerWarning. With `check_trace` the program and the original are compared on the examples.

    Example:
        >>> import pullback as torch
        >>> traced = torch.jit.trace(lambda x: x.view(x.shape[0], -1) * 2, torch.ones(2, 3))
        >>> traced(torch.ones(4, 1, 5)).shape
        torch.Size([4, 5])
    """
    if isinstance(func, ScriptFunction | TracedModule):
        return func
    if example_kwarg_inputs is not None:
        import inspect

        target = func.forward if isinstance(func, Module) else func
        bound = inspect.signature(target).bind(**example_kwarg_inputs)
        bound.apply_defaults()
        example_inputs = bound.args
    if example_inputs is None:
        raise RuntimeError("trace() needs example inputs, or example_kwarg_inputs.")
    examples = _as_tuple(example_inputs)
    if isinstance(func, Module):
        inputs = {"forward": examples}
        return trace_module(func, inputs, optimize, check_trace, check_inputs, check_tolerance)
    root = Module()
    graph = _graph_of(root, func, examples)
    module = GraphModule(root, graph, "traced")
    made = ScriptFunction(module, module.code)
    made.name = made.__name__ = getattr(func, "__name__", "forward").strip("<>")
    if check_trace:
        for given in _checked_inputs(examples, check_inputs):
            _check(func, made, given, check_tolerance)
    return made


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    **options: Any,
) -> Any:
    """As `trace`, for several methods of a module: `inputs` has examples for each, by name."""
    if not isinstance(mod, Module):
        raise AttributeError("trace_module() takes a module; trace() functions.")
    if not isinstance(inputs, dict):
        raise AttributeError("trace_module() takes a dict of methods and inputs.")
    traced = converted(mod, TopLevelTracedModule)
    graphs = {}
    for name, example in inputs.items():
        method = getattr(type(mod), name)
        plain = functools.partial(method, traced)
        functools.update_wrapper(plain, getattr(mod, name))
        graphs[name] = _graph_of(traced, plain, _as_tuple(example))
    for name, graph in graphs.items():
        _bind(traced, name, graph)
        if check_trace:
            extra = (
                [one[name] for one in check_inputs or () if name in one] if check_inputs else None
            )
            for given in _checked_inputs(_as_tuple(inputs[name]), extra):
                _check(getattr(mod, name), getattr(traced, name), given, check_tolerance)
    return traced


def _as_tuple(examples: Any) -> tuple[Any, ...]:
    return tuple(examples) if isinstance(examples, tuple | list) else (examples,)


def _checked_inputs(examples: tuple[Any, ...], further: Any) -> list[tuple[Any, ...]]:
    return [examples, *(_as_tuple(one) for one in further or ())]


def _check(original: Any, traced: Any, given: tuple[Any, ...], tolerance: float) -> None:
    """Compare a traced program with the original, from the same random state."""
    state = pullback.get_rng_state()
    with no_grad():
        wanted = pytree.tree_leaves(original(*_copied(given)))
        pullback.set_rng_state(state)
        found = pytree.tree_leaves(traced(*_copied(given)))
    same = len(wanted) == len(found) and all(
        pullback.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        for a, b in zip(wanted, found, strict=False)
        if isinstance(a, Tensor)
    )
    if not same:
        warnings.warn(
            "The traced program does not give what the original gives for the same inputs.",
            TracerWarning,
            stacklevel=stacklevel(),
        )


def _copied(given: tuple[Any, ...]) -> tuple[Any, ...]:
    copied: tuple[Any, ...] = pytree.tree_map(
        lambda one: one.detach().clone() if isinstance(one, Tensor) else one, given
    )
    return copied


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function to be compiled when a program that calls it is traced; it stays Python.

    >>> import pullback as torch
    >>> @torch.jit.script_if_tracing
    ... def double(x):
    ...     return x * 2 if x.sum() > 0 else x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    return fn


_script_if_tracing = script_if_tracing
