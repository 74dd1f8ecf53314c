"""Torch's `functorch.compile`: ahead-of-time graphs, compilers and partitioners in one place."""

from pullback._functorch.compilers import (  # type: ignore[import-not-found]
    debug_compile,
    default_decompositions,
    memory_efficient_fusion,
    nnc_jit,
    ts_compile,
)
from pullback.compiled.aot.functions import (
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    make_boxed_func,
    nop,
    print_compile,
)
from pullback.compiled.aot.naming import get_aot_compilation_context, get_aot_graph_name
from pullback.compiled.partition import config
from pullback.compiled.partition.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)

__all__ = [
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "compiled_function",
    "compiled_module",
    "config",
    "debug_compile",
    "default_decompositions",
    "default_partition",
    "get_aot_compilation_context",
    "get_aot_graph_name",
    "get_graph_being_compiled",
    "make_boxed_compiler",
    "make_boxed_func",
    "memory_efficient_fusion",
    "min_cut_rematerialization_partition",
    "nnc_jit",
    "nop",
    "print_compile",
    "ts_compile",
]

compiled_function, compiled_module = aot_function, aot_module  # their older names
get_graph_being_compiled = get_aot_graph_name
