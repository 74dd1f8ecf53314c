"""Torch's place for ahead-of-time graphs; they are in compiled/aot."""

from pullback.compiled.aot.functions import (
    AOTModule,
    aot_export_joint_simple,
    aot_export_module,
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    make_boxed_func,
    nop,
    print_compile,
)
from pullback.compiled.partition.partitioners import default_partition

__all__ = [
    "AOTModule",
    "aot_export_joint_simple",
    "aot_export_module",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "default_partition",
    "make_boxed_compiler",
    "make_boxed_func",
    "nop",
    "print_compile",
]
