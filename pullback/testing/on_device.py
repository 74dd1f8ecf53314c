"""Operators on a device against the host: the same samples, forward and backward, and who waits.

`check` is what `tests/cuda` asserts of every operator, and what `docs/coverage-cuda.md` is written
from (`python -m pullback.testing.cuda_page`).
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy

from pullback.core.dtype import dtype as Dtype  # noqa: N812 (an argument is called `dtype`)
from pullback.core.dtype import float64
from pullback.core.tensor import Tensor, wrap
from pullback.testing.samples import SAMPLES, SampleInput, resolve, samples_for, tensors_in

__all__ = ["NAMES", "Outcome", "check", "is_tensors", "unasked_by_cupy"]

# No tensor comes out of these.
_OTHERS = {"broadcast_shapes"}
# No two calls agree on values.
_RANDOM = {"bernoulli", "poisson"}
# Their results are on the host by their very meaning.
_TO_HOST = {"Tensor.cpu"}


def _names() -> list[str]:
    import pullback

    return [name for name in SAMPLES if name not in _OTHERS and resolve(pullback, name) is not None]


NAMES = _names()


@dataclass
class Outcome:
    """What became of an operator's samples."""

    name: str
    forward: int = 0
    backward: int = 0
    waits: int = 0  # calls that waited for the device, to look at values
    failures: list[str] = field(default_factory=list)


def check(
    name: str,
    dtype: Dtype = float64,
    *,
    device: str = "cuda",
    most: int | None = None,
    unasked: Callable[[], AbstractContextManager[Any]] = nullcontext,
    asked_error: type[BaseException] = (),  # type: ignore[assignment]  # a tuple of none
) -> Outcome:
    """Run the samples of an operator on a device and compare with the host.

    Inside `unasked()` a look at values raises `asked_error`; such calls are counted and repeated.
    """
    import pullback

    function, outcome = resolve(pullback, name), Outcome(name)
    assert function is not None
    pairs = zip(samples_for(name, dtype), samples_for(name, dtype), strict=True)
    for here, there in itertools.islice(pairs, most):
        try:
            _check_one(function, outcome, here, _moved(there, device), (unasked, asked_error))
        except Exception as error:  # whatever goes wrong is the finding
            first = str(error).partition("\n")[0]
            outcome.failures.append(f"{type(error).__name__}: {first} on {here!r}")
    return outcome


@contextmanager
def unasked_by_cupy() -> Iterator[None]:
    """Inside, CuPy raises `cupyx.DeviceSynchronized` where it would wait for the device."""
    cupyx = importlib.import_module("cupyx")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it may miss some, and will go one day
        with cupyx.allow_synchronize(False):
            yield


def is_tensors(value: Any) -> bool:
    """Whether there is a tensor among arguments."""
    return next(tensors_in(value), None) is not None


def _moved(sample: SampleInput, device: str) -> SampleInput:
    def moved(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().to(device).requires_grad_(value.requires_grad)
        if type(value) in (tuple, list):
            return type(value)(moved(one) for one in value)
        return value

    kwargs = {name: moved(one) for name, one in sample.kwargs.items()}
    if not is_tensors((sample.input, sample.args, list(kwargs.values()))):
        kwargs["device"] = device
    return SampleInput(moved(sample.input), tuple(map(moved, sample.args)), kwargs, sample.layout)


def _check_one(
    function: Any, outcome: Outcome, here: SampleInput, there: SampleInput, watching: Any
) -> None:
    try:
        expected = list(tensors_in(here.call(function)))
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
        return  # not for this dtype
    results = list(tensors_in(_unasked(outcome, watching, lambda: there.call(function))))
    if len(results) != len(expected):
        raise AssertionError(f"{len(results)} results, not {len(expected)}")
    for one, other in zip(results, expected, strict=True):
        _compare(outcome.name, "result", one, other)
    outcome.forward += 1
    roots = [i for i, one in enumerate(expected) if one.requires_grad]
    if not roots or not here.differentiable:
        return
    weights = [_weights(expected[i], i) for i in roots]
    try:
        wanted = _gradients([expected[i] for i in roots], here.differentiable, weights)
    except NotImplementedError:
        return  # it has no derivative anywhere
    placed = [one.to(results[roots[0]].device) for one in weights]
    found = _unasked(
        outcome,
        watching,
        lambda: _gradients([results[i] for i in roots], there.differentiable, placed),
        again=False,
    )
    for one, other in zip(found, wanted, strict=True):
        if (one is None) != (other is None):
            raise AssertionError("a gradient is missing")
        if one is not None:
            _compare(outcome.name, "gradient", one, other)
    outcome.backward += 1


def _unasked(
    outcome: Outcome, watching: Any, call: Callable[[], Any], *, again: bool = True
) -> Any:
    unasked, asked_error = watching
    try:
        with unasked():
            return call()
    except asked_error:
        outcome.waits += 1
        return call()


def _gradients(roots: list[Any], inputs: list[Any], weights: list[Any]) -> Any:
    from pullback.autograd import grad

    return grad(roots, inputs, weights, retain_graph=True, allow_unused=True)


def _weights(like: Tensor, seed: int) -> Any:
    random = numpy.random.default_rng(seed)
    values: Any = random.normal(size=tuple(like.shape))
    if like.dtype.is_complex:
        values = values + 1j * random.normal(size=tuple(like.shape))
    return wrap(numpy.asarray(values).astype(like.dtype.numpy))


def _compare(name: str, what: str, one: Any, other: Any) -> None:
    if one.device.type == "cpu" and name not in _TO_HOST:
        raise AssertionError(f"a {what} is on the host")
    if one.dtype is not other.dtype or one.shape != other.shape:
        found, wanted = (one.dtype, tuple(one.shape)), (other.dtype, tuple(other.shape))
        raise AssertionError(f"a {what} is {found}, not {wanted}")
    if name in _RANDOM:
        return
    have, want = (side.detach().cpu().resolve_conj().resolve_neg().numpy() for side in (one, other))
    if want.dtype.kind in "biu":
        if not (have == want).all():
            raise AssertionError(f"a {what} differs")
        return
    near = 1e-6 if want.dtype.char in "dD" else 2e-3
    if not numpy.allclose(have, want, rtol=near, atol=near, equal_nan=True):
        worst = float(numpy.nanmax(numpy.abs(have - want)))
        raise AssertionError(f"a {what} differs by {worst:.2e}")
