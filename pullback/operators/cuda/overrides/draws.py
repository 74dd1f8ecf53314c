"""Operators that draw: by the device's own numbers, or on the host from a seed that those tell."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.core.device import CPU
from pullback.core.ports import ports
from pullback.core.tensor import device_of
from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import replace

__all__ = ["enter"]


def _stream(array: Any, generator: Any) -> Any:
    from pullback.operators.cuda.drawing import stream_on

    return stream_on(device_of(array), generator)


def _bernoulli(xp: Any, input: Any, p: float | None = None, *, generator: Any = None) -> Any:
    """Probabilities are not looked at: what is above 1 counts as 1."""
    from pullback.operators.random.draws import check_p
    from pullback.operators.random.tensors import needs

    result = xp.cupy.ndarray(input.shape, input.dtype)
    if p is None:
        needs("bernoulli", input.dtype, "fV")
    else:
        check_p("bernoulli", p)
    _stream(result, generator).bernoulli(result, input if p is None else p)
    return result


def _normal_array(shape: Any, dtype: Any, mean: Any, std: Any, generator: Any) -> Any:
    from pullback.operators.random.tensors import needs

    needs("normal", dtype, "fcV")
    array = found.cupy.ndarray(shape, dtype)
    _stream(array, generator).normal(array)
    array *= std
    array += mean
    return array


def _drawn_on_host(function: Any) -> Any:
    """The host's kernel on arguments that are brought there, with a generator for this call."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        import numpy

        from pullback.operators.cuda.drawing import host_seed
        from pullback.operators.random.generator import Generator

        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        first = next(one for one in given.values() if type(one) in LIBRARIES)
        seed = host_seed(_stream(first, given.get("generator")), function.__name__)
        for name, one in given.items():
            if type(one) in LIBRARIES:
                given[name] = ports.placed(one, CPU)
        if "xp" in given:
            given["xp"] = numpy
        given["generator"] = Generator().manual_seed(seed)
        return ports.placed(numpy.asarray(function(*bound.args, **bound.kwargs)), device_of(first))

    return call


def enter() -> None:
    """Into the table."""
    from pullback.operators.random import draws, gamma

    replace({draws.bernoulli: _bernoulli, draws._normal_array: _normal_array})
    on_host: tuple[Any, ...] = draws.poisson, draws._binomial, draws._multinomial
    for one in (*on_host, gamma._standard_gamma, gamma._sample_dirichlet):
        replace({one: _drawn_on_host(one.op.meaning)})
