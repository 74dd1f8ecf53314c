"""Steps of optimizers: one launch for each parameter.

In operators a step of Adam is a dozen launches, and a model has hundreds of parameters: the host
would take longer than the device takes for forward and backward. Numbers are double, and the
corrections of averages that began at zero are worked out by each thread from the count of steps,
which is the host's or, for steps that a graph replays, the device's own.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.operators.cuda.launch import Kernels
from pullback.operators.cuda.stored import head_of

__all__ = ["Updates"]

_SOURCE = """
extern "C" __global__ void pb_adam(
        S* x, const S* grad, S* means, S* squares, S* largest, const float* counted, long long n,
        double count, double lr, double beta1, double beta2, double eps, double decay,
        int decoupled, int turned) {
    double step = counted ? (double)*counted + 1 : count;
    double root = sqrt(1 - pow(beta2, step));
    A rate = (A)(lr * root / (1 - pow(beta1, step))), least = (A)(eps * root);
    A keep1 = (A)beta1, keep2 = (A)beta2, take1 = (A)(1 - beta1), take2 = (A)(1 - beta2);
    A pull = (A)(decoupled ? 1 - lr * decay : decay);
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        A value = ld(x[i]), g = ld(grad[i]);
        if (turned) g = -g;
        if (decoupled) value *= pull;
        else if (decay != 0) g += value * pull;
        A mean = ld(means[i]) * keep1 + g * take1;
        A square = ld(squares[i]) * keep2 + g * g * take2;
        means[i] = st(mean);
        squares[i] = st(square);
        if (largest) {
            A most = ld(largest[i]);
            square = square != square || square > most ? square : most;
            largest[i] = st(square); }
        x[i] = st(value - mean / (sqrt(square) + least) * rate); } }
extern "C" __global__ void pb_sgd(
        S* x, const S* grad, S* buffer, long long n, double lr, double momentum, double taken,
        double decay, int nesterov, int turned) {
    A rate = (A)lr, keep = (A)momentum, take = (A)taken, pull = (A)decay;
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        A value = ld(x[i]), g = ld(grad[i]);
        if (turned) g = -g;
        if (decay != 0) g += value * pull;
        if (buffer) {
            A moving = ld(buffer[i]) * keep + g * take;
            buffer[i] = st(moving);
            g = nesterov ? g + moving * keep : moving; }
        x[i] = st(value - g * rate); } }
extern "C" __global__ void pb_count(float* counted) { *counted += 1; }
"""
_NAMES = ("adam", "sgd", "count")
_NULL = numpy.uint64(0)
_THREADS = 256
_MOST_BLOCKS = 132 * 8  # eight for each multiprocessor of a large device: more only begin later


class Updates:
    """The kernels, for arrays in order of one dtype, single or double."""

    def __init__(self, cupy: Any) -> None:
        self._kernel = Kernels(cupy, lambda kind: head_of(kind) + _SOURCE, _NAMES)
        self.is_there = hasattr(cupy, "RawModule")

    def adam(
        self, x: Any, g: Any, mean: Any, square: Any, largest: Any, count: Any,
        lr: float, betas: tuple[float, float], eps: float, decay: float, *,
        decoupled: bool, turned: bool,
    ) -> None:  # fmt: skip
        """A step; `count` is that of this step, or an array on the device with that before it."""
        kind = x.dtype.char
        on_device = not isinstance(count, float)
        arrays = x, g, mean, square, _NULL if largest is None else largest
        numbers = 0.0 if on_device else count, lr, *betas, eps, decay
        flags = numpy.int32(decoupled and decay != 0), numpy.int32(turned)
        given = *arrays, count if on_device else _NULL, x.size, *map(float, numbers), *flags
        self._run("adam", kind, x.size, given)
        if on_device:
            self._kernel("count", kind)((1,), (1,), (count,))

    def sgd(
        self, x: Any, g: Any, buffer: Any, lr: float, momentum: float, taken: float,
        decay: float, *, nesterov: bool, turned: bool,
    ) -> None:  # fmt: skip
        """A step; `buffer` is None without momentum."""
        numbers = map(float, (lr, momentum, taken, decay))
        flags = numpy.int32(nesterov), numpy.int32(turned)
        given = x, g, _NULL if buffer is None else buffer, x.size, *numbers, *flags
        self._run("sgd", x.dtype.char, x.size, given)

    def _run(self, name: str, kind: str, size: int, given: tuple[Any, ...]) -> None:
        blocks = min(-(-size // _THREADS), _MOST_BLOCKS)
        self._kernel(name, kind)((blocks,), (_THREADS,), given)
