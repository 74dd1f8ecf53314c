"""Torch's `functorch.compile`: ahead-of-time graphs, compilers and partitioners in one place."""

from pullback.compiled.aot.functions import (
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    make_boxed_func,
    nop,
    print_compile,
)
from pullback.compiled.partition import config
from pullback.compiled.partition.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)

__all__ = [
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "config",
    "default_partition",
    "make_boxed_compiler",
    "make_boxed_func",
    "min_cut_rematerialization_partition",
    "nop",
    "print_compile",
]
