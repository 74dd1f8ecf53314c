"""What stands in an exported module in place of functions that serve a whole process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy

from pullback.compiled.capture.kernels import laid_out
from pullback.operators.arrays import native, threads

__all__ = ["KERNEL_OVERRIDES", "Operator", "apart", "given", "turns"]


def given(name: str, array: Any, dtype: Any, shape: tuple[int, ...], strides: Any) -> Any:
    """An argument as the program was captured with it: its memory in that order, in elements."""
    if not isinstance(array, numpy.ndarray) or array.dtype != dtype or array.shape != shape:
        got = f"{array.dtype}{list(array.shape)}" if isinstance(array, numpy.ndarray) else array
        raise ValueError(f"{name} must be an array {dtype}{list(shape)}, got {got}.")
    if 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) < array.size:
        if array.strides != tuple(s * array.itemsize for s in strides):
            raise ValueError(f"{name} must be an array with strides {strides}, in elements.")
        return array
    # Kernels ask which dtype it is, and that of an array from a file is equal to it, not the same.
    return laid_out(array.view(numpy.ndarray).view(dtype), strides)


def apart(results: list[Any], others: list[Any]) -> list[Any]:
    """Results that share no memory with other arrays, nor with one another."""
    made: list[Any] = []
    for one in results:
        shared = any(numpy.may_share_memory(one, other) for other in [*others, *made])
        made.append(one.copy("K") if shared or not one.flags.writeable else one)
    return made


def turns(test: Any, body: Any, of_test: list[Any], of_body: list[Any], *now: Any) -> Any:
    """What a body makes of values, again and again while a test of them holds.

    `of_test` and `of_body` are what each of the two takes besides.
    """
    while test(*now, *of_test)[0].item():
        now = tuple(body(*now, *of_body))
    return now


class Operator:
    """An operator as a value: called with arrays, or by its `op.forward` with their namespace."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward, self.op = forward, self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Its results on NumPy's arrays."""
        return self.forward(numpy, *args, **kwargs)


def each(function: Callable[[Any], Any], pieces: Iterable[Any]) -> None:
    """Call `function` with each of the pieces."""
    for piece in pieces:
        function(piece)


def in_order(function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
    """The results for each of the pieces."""
    return map(function, pieces)


def one_thread() -> int:
    """How many threads a kernel may use."""
    return 1


def no_machine_code(formula: str, arrays: Any, *options: Any) -> None:
    """What finds kernels in machine code: an exported module has none."""
    return


# Pieces are the same whatever the number of threads, so one gives the same bits.
KERNEL_OVERRIDES: dict[Any, Any] = {
    threads.each: each,
    threads.in_order: in_order,
    threads.count: one_thread,
    native.by_machine_code: no_machine_code,
    native.kernel_of: no_machine_code,
}
