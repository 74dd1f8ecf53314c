"""Torch's place for ahead-of-time graphs; they are in compiled/aot."""

from pullback.compiled.aot.functions import (
    AOTModule,
    aot_export_joint_simple,
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    make_boxed_func,
    nop,
    print_compile,
)
from pullback.compiled.aot.naming import get_aot_compilation_context, get_aot_graph_name
from pullback.compiled.partition.partitioners import default_partition

from ._exporting import aot_export_module

__all__ = [
    "AOTModule",
    "aot_export_joint_simple",
    "aot_export_module",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "compiled_function",
    "compiled_module",
    "default_partition",
    "get_aot_compilation_context",
    "get_aot_graph_name",
    "get_graph_being_compiled",
    "make_boxed_compiler",
    "make_boxed_func",
    "nop",
    "print_compile",
]

compiled_function, compiled_module = aot_function, aot_module  # their older names
get_graph_being_compiled = get_aot_graph_name
