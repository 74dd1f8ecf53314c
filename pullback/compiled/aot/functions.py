"""`aot_function` and relatives: a function's joint graph, cut in two, each part by a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compiled.aot.entry import AotEntry, Compilers, joint_of
from pullback.compiled.capture.capture import capture
from pullback.compiled.frontend import CompiledFunction
from pullback.compiled.partition.partitioners import default_partition
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten
from pullback.nn.modules.module import Module

__all__ = [
    "aot_export_joint_simple",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "make_boxed_compiler",
    "make_boxed_func",
    "nop",
    "print_compile",
]


def nop(fx_g: Any, example_inputs: Any = None) -> Any:
    """The compiler that compiles nothing: the graph module itself."""
    return fx_g


def print_compile(fx_g: Any, example_inputs: Any = None) -> Any:
    """The same, after printing the code."""
    print(fx_g.code)
    return fx_g


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function of a list of arguments, which it may empty."""

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]  # torch's mark
    return boxed


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler whose functions take lists."""

    def compile_boxed(fx_g: Any, inputs: Any) -> Any:
        made = compiler(fx_g, inputs)
        return made if getattr(made, "_boxed_call", False) else make_boxed_func(made)

    return compile_boxed


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Callable[..., Any],
    bw_compiler: Callable[..., Any] | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: Any = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable[..., Any] | None = None,
    *,
    dynamic: bool = False,
    enable_log: bool = True,
) -> Any:
    """A function whose forward and backward are graphs, each compiled by a function of the user's.

    Compilers take `(graph_module, example_inputs)` and return a function of the graph's inputs.
    Each call is guarded: one that the graphs do not fit is traced anew. What depends on values
    raises.

    >>> import pullback as torch
    >>> from pullback._functorch.aot_autograd import aot_function
    >>> seen = []
    >>> def compiler(graph_module, example_inputs):
    ...     seen.append(sum(node.op == "call_function" for node in graph_module.graph.nodes))
    ...     return graph_module
    >>> f = aot_function(lambda x: (x.sin() * 2).sum(), compiler)
    >>> x = torch.zeros(3, requires_grad=True)
    >>> f(x).backward()
    >>> seen, x.grad
    ([3, 4], tensor([2., 2., 2.]))
    """
    _check(fw_compiler, bw_compiler, partition_fn)
    compilers = Compilers(
        fw_compiler, bw_compiler or fw_compiler, inference_compiler or fw_compiler, partition_fn,
        decompositions,
    )  # fmt: skip
    return _compiled(fn, compilers, dynamic=dynamic)


def _check(*compilers: Any) -> None:
    for one in compilers:
        if one is not None and not callable(one):
            raise TypeError(f"A compiler or partitioner is a function, not {type(one).__name__}.")


def _compiled(fn: Any, compilers: Compilers, *, dynamic: bool) -> CompiledFunction:
    return CompiledFunction(
        fn, compilers, fullgraph=True, dynamic=True if dynamic else None, options={},
        make=AotEntry,
    )  # fmt: skip


class AOTModule(Module):
    """A module whose calls run as compiled graphs; its parameters are the module's own."""

    def __init__(self, module: Module, compiled: CompiledFunction) -> None:
        super().__init__()
        self.orig_module = module
        self.__dict__["_compiled"] = compiled

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward, as graphs."""
        return self.__dict__["_compiled"](*args, **kwargs)


def aot_module(mod: Module, *args: Any, **kwargs: Any) -> AOTModule:
    """`aot_function` of a module: parameters and buffers are the leading inputs of its graphs.

    >>> import pullback as torch
    >>> from pullback._functorch.aot_autograd import aot_module, nop
    >>> mod = aot_module(torch.nn.Linear(2, 1), nop)
    >>> mod(torch.ones(3, 2)).sum().backward()
    >>> mod.orig_module.weight.grad
    tensor([[3., 3.]])
    """
    made = aot_function(mod, *args, **kwargs)
    return AOTModule(mod, _with_held_first(made))


def _with_held_first(made: CompiledFunction) -> CompiledFunction:
    from dataclasses import replace

    compilers = replace(made.backend, held_first=True)
    return _compiled(made.function, compilers, dynamic=made.dynamic is True)


def aot_module_simplified(
    mod: Module,
    args: Any,
    fw_compiler: Callable[..., Any],
    bw_compiler: Callable[..., Any] | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: Any = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable[..., Any] | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """A function of the module's arguments, compiled for `args` at once."""
    made: Any = aot_module(
        mod, fw_compiler, bw_compiler, partition_fn, decompositions,
        inference_compiler=inference_compiler,
    )  # fmt: skip
    compiled: CompiledFunction = made.__dict__["_compiled"]
    compiled.prepared(tuple(args), {})
    return compiled


def aot_export_joint_simple(
    func: Callable[..., Any],
    args: Any,
    *,
    trace_joint: bool,
    num_params_buffers: int = 0,
    decompositions: Any = None,
) -> Any:
    """The graph of a function, with its backward where `trace_joint` says so, and nothing else.

    What would need something around it is refused: writes to arguments, results that are arguments
    or look at them.

    >>> import pullback as torch
    >>> from pullback._functorch.aot_autograd import aot_export_joint_simple
    >>> x = torch.ones(2, requires_grad=True)
    >>> joint = aot_export_joint_simple(lambda x: (x * x,), (x,), trace_joint=True)
    >>> [node.name for node in joint.graph.nodes if node.op == "placeholder"]
    ['primals_1', 'tangents_1']
    """
    return _exported(func, args, decompositions, trace_joint=trace_joint).module


def _exported(func: Any, args: Any, decompositions: Any, *, trace_joint: bool) -> Any:
    captured = capture(func, tuple(args), {})
    leaves, _ = tree_flatten(tuple(args))
    _refuse_what_needs_more(captured, leaves, trace_joint=trace_joint)
    compilers = Compilers(nop, nop, nop, default_partition, decompositions)
    return joint_of(captured, compilers, backward=trace_joint)


def _refuse_what_needs_more(captured: Any, leaves: list[Any], *, trace_joint: bool) -> None:
    def named(place: int) -> str:
        one = captured.inputs[place]
        return f"argument {one.place}" if one.kind == "argument" else "a tensor that it holds"

    for place, _ in captured.writes:
        raise RuntimeError(f"The function writes to {named(place)}; a graph alone cannot do that.")
    for number, one in enumerate(captured.outputs):
        if one.kind in ("input", "view"):
            what = "is" if one.kind == "input" else "looks at the memory of"
            raise RuntimeError(
                f"Result {number} {what} {named(one.place)}; return a clone of it instead."
            )
    if trace_joint and not captured.gradients:
        needing = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        raise RuntimeError(
            f"trace_joint=True, but no result depends on an argument that requires a gradient "
            f"(arguments {needing})."
        )
