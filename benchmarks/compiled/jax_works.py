"""The works in jax: gradients by `jax.grad` and `jax.jit`, on the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.program import Program

__all__ = ["JAX"]

JAX: dict[str, Callable[[ModuleType], Program]] = {}


def jax_work(
    *names: str,
) -> Callable[[Callable[[ModuleType], Program]], Callable[[ModuleType], Program]]:
    """Register the jax form of works."""

    def register(build: Callable[[ModuleType], Program]) -> Callable[[ModuleType], Program]:
        for name in names:
            JAX[f"compiled-{name}"] = build
        return build

    return register


class Answer:
    """An array that is asked as a tensor is."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def detach(self) -> Answer:
        """Itself."""
        return self

    def numpy(self) -> Any:
        """As NumPy's."""
        return np.asarray(self.array)


def _program(jax: ModuleType, function: Any, inputs: list[Any]) -> Program:
    """A compiled function of arrays, timed until its results are there."""
    called = jax.jit(function)

    def run(nothing: None) -> Any:
        return jax.block_until_ready(called(*inputs))

    def answer(made: Any) -> list[Any]:
        return [Answer(one) for one in (made if isinstance(made, tuple | list) else (made,))]

    return Program(run=run, answer=answer, together=True)


def _gradient(jax: ModuleType, function: Any, inputs: list[Any]) -> Program:
    given = [jax.numpy.asarray(one) for one in inputs]
    return _program(jax, jax.grad(function, argnums=tuple(range(len(given)))), given)


def _chain_inputs(dtype: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(10), rng.uniform(0.9, 1.0, 10), 0.1 * rng.standard_normal(10)]
    return [value.astype(dtype) for value in values]


def _chain(x: Any, w: Any, b: Any) -> Any:
    for _ in range(500):
        x = x * w + b
    return x.sum()


@jax_work("chain-f64", "chain-style")
def chain_f64(jax: ModuleType) -> Program:
    """1000 small operators."""
    return _gradient(jax, _chain, _chain_inputs(np.float64))


@jax_work("chain-f32")
def chain_f32(jax: ModuleType) -> Program:
    """The same in single precision."""
    return _gradient(jax, _chain, _chain_inputs(np.float32))


@jax_work("mixed", "mixed-style")
def mixed(jax: ModuleType) -> Program:
    """1000 operators of several sorts."""
    np_ = jax.numpy

    def function(x: Any, w: Any, b: Any) -> Any:
        for _ in range(100):
            x = x * w + b
            x = (np_.tanh(x) + np_.exp(b)) / (w + 2.0)
            x = np_.sin(x) - x * 0.5
            x = np_.log(x * x + 1.0)
        return x.sum()

    return _gradient(jax, function, _chain_inputs(np.float64))


@jax_work("rosenbrock")
def rosenbrock(jax: ModuleType) -> Program:
    """100 scalars."""

    def function(x: Any) -> Any:
        parts = [x[n] for n in range(100)]
        return sum(100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2 for a, b in pairwise(parts))

    return _gradient(jax, function, [np.random.default_rng(3).standard_normal(100)])


def _layer_norm(jax: ModuleType, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    square = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(square + 1e-5)


@jax_work("large")
def large(jax: ModuleType) -> Program:
    """Memory traffic."""
    x = np.random.default_rng(6).standard_normal((4096, 1024), dtype=np.float32)

    def function(x: Any) -> Any:
        y = jax.nn.gelu(_layer_norm(jax, x), approximate=False)
        return jax.nn.log_softmax(jax.numpy.tanh(y * 1.5 + x), -1).mean()

    return _gradient(jax, function, [x])


def _kernel(jax: ModuleType, function: Any) -> Program:
    rng = np.random.default_rng(7)
    given = [jax.numpy.asarray(rng.standard_normal((4096, 1024), dtype=np.float32))
             for _ in range(2)]  # fmt: skip
    return _program(jax, lambda x, g: jax.vjp(function, x)[1](g)[0], given)


@jax_work("softmax")
def softmax(jax: ModuleType) -> Program:
    """One kernel."""
    return _kernel(jax, lambda x: jax.nn.softmax(x, -1))


@jax_work("layer-norm")
def layer_norm(jax: ModuleType) -> Program:
    """One kernel."""
    return _kernel(jax, lambda x: _layer_norm(jax, x))


@jax_work("gelu")
def gelu(jax: ModuleType) -> Program:
    """One kernel."""
    return _kernel(jax, lambda x: jax.nn.gelu(x, approximate=False))


@jax_work("mlp-style")
def mlp_style(jax: ModuleType) -> Program:
    """Mostly BLAS."""
    np_ = jax.numpy
    rng = np.random.default_rng(10)
    sizes = [784, 512, 512, 10]
    leaves: list[Any] = []
    for inputs, outputs in pairwise(sizes):
        scale = float(inputs) ** -0.5
        leaves.append((rng.standard_normal((outputs, inputs)) * scale).astype(np.float32))
        leaves.append(np.zeros(outputs, np.float32))
    x = np_.asarray(rng.standard_normal((128, 784), dtype=np.float32))
    labels = np_.asarray(rng.integers(0, 10, 128))

    def function(*leaves: Any) -> Any:
        y = x
        for n in range(0, 4, 2):
            y = jax.nn.relu(y @ leaves[n].T + leaves[n + 1])
        y = jax.nn.log_softmax(y @ leaves[4].T + leaves[5])
        return -y[np_.arange(128), labels].mean()

    return _gradient(jax, function, leaves)


@jax_work("gmm", "gmm-style")
def gmm(jax: ModuleType) -> Program:
    """The Gaussian mixture of ADBench."""
    np_ = jax.numpy
    n, d, k = 1000, 10, 25
    rng = np.random.default_rng(8)
    x = np_.asarray(rng.standard_normal((n, d)))
    inputs = [rng.standard_normal(size) * 0.5 for size in ((k,), (k, d), (k, d), (k, d, d))]
    lower = np_.asarray(np.tril(np.ones((d, d)), -1))
    logsumexp = jax.scipy.special.logsumexp

    def objective(alphas: Any, means: Any, logs: Any, factors: Any) -> Any:
        diagonal = np_.exp(logs)
        centred = x[:, None, :] - means[None]
        scaled = diagonal[None] * centred
        scaled = scaled + np_.einsum("kij,nkj->nki", factors * lower, centred)
        inner = alphas + logs.sum(1) - 0.5 * (scaled * scaled).sum(-1)
        total = logsumexp(inner, 1).sum() - n * logsumexp(alphas, 0)
        penalty = 0.5 * ((diagonal**2).sum() + ((factors * lower) ** 2).sum()) - logs.sum()
        return total - penalty

    return _gradient(jax, objective, inputs)


def _small_network(jax: ModuleType) -> Any:
    rng = np.random.default_rng(11)
    x = jax.numpy.asarray(rng.standard_normal((16, 4)))
    theta = jax.numpy.asarray(rng.standard_normal(50) * 0.5)

    def loss_of(theta: Any) -> Any:
        first, second = theta[:32].reshape(4, 8), theta[32:48].reshape(8, 2)
        y = jax.numpy.tanh(x @ first) @ second + theta[48:]
        return (y * y).mean()

    return loss_of, theta


@jax_work("hvp")
def hvp(jax: ModuleType) -> Program:
    """Reverse over reverse."""
    loss_of, theta = _small_network(jax)
    ones = jax.numpy.ones(50)
    return _program(jax, lambda t, v: jax.vjp(jax.grad(loss_of), t)[1](v)[0], [theta, ones])


@jax_work("hessian")
def hessian(jax: ModuleType) -> Program:
    """Forward over reverse, mapped."""
    loss_of, theta = _small_network(jax)
    return _program(jax, jax.hessian(loss_of), [theta])
