"""Compilers to give to `aot_function`: those that show a graph, and those that script it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pullback
from pullback._decomp import get_decompositions  # type: ignore[import-not-found]
from pullback.compiled.aot.functions import (
    aot_function,
    aot_module,
    make_boxed_compiler,
    nop,
    print_compile,
)
from pullback.compiled.aot.naming import get_aot_graph_name as get_graph_being_compiled
from pullback.compiled.partition.partitioners import min_cut_rematerialization_partition
from pullback.nn.modules.module import Module

__all__ = [
    "debug_compile",
    "default_decompositions",
    "get_graph_being_compiled",
    "memory_efficient_fusion",
    "nnc_jit",
    "nop",
    "print_compile",
    "simple_ts_compile",
    "ts_compile",
]

_aten: Any = pullback.ops.aten

# Activations and their gradients, which fuse once they are arithmetic.
_NAMES = (
    *("elu", "gelu_backward", "hardsigmoid", "hardswish", "hardtanh", "is_same_size", "leaky_relu"),
    *("masked_fill", "sigmoid_backward", "silu_backward", "tanh_backward", "threshold_backward"),
)
default_decompositions = get_decompositions(getattr(_aten, name) for name in _NAMES)


@make_boxed_compiler
def ts_compile(fx_g: Any, inps: Sequence[Any]) -> Any:
    """Script a graph; scripts run as the Python that they are."""
    return pullback.jit.script(fx_g)


simple_ts_compile = ts_compile


def debug_compile(fx_g: Any, inps: Sequence[Any]) -> Any:
    """Print a graph's code and the inputs it is compiled for, then script it."""
    print(fx_g.code)
    print([(tuple(one.shape), one.stride(), one.dtype) for one in inps])
    return ts_compile(fx_g, inps)


def nnc_jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose forward and backward are scripted graphs.

    >>> import pullback as torch
    >>> from pullback.functorch.compile import nnc_jit
    >>> x = torch.ones(2, requires_grad=True)
    >>> nnc_jit(lambda x: (x * 3).sum())(x).backward()
    >>> x.grad
    tensor([3., 3.])
    """
    made: Callable[..., Any] = aot_function(f, simple_ts_compile)
    return made


def memory_efficient_fusion(fn: Any, **kwargs: Any) -> Any:
    """The same of a function or module, cut so that little is kept from forward to backward.

    Operators stay whole unless `decompositions=` says otherwise: scripts do not fuse, so taking
    them apart would only cost.
    """
    options = {
        "fw_compiler": ts_compile,
        "bw_compiler": ts_compile,
        "partition_fn": min_cut_rematerialization_partition,
        **kwargs,
    }
    return (aot_module if isinstance(fn, Module) else aot_function)(fn, **options)
