"""Laws of every operator: the series that func.jet gives are those of nested jvp, to order 5."""

import itertools

import numpy
import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.func import jet, jvp
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in

ORDER = 5
# Backward and forward mode refuse.
NO_DERIVATIVE = {"floor_divide", "heaviside", "geqrf", "linalg.ldl_factor", "linalg.ldl_factor_ex"}
NAMES = [n for n in SAMPLES if n not in NO_DERIVATIVE and resolve(torch, n) is not None]


def _calls(name, dtype=torch.float64, most=100):
    """Functions of the differentiable tensors of each smooth sample, and a point."""
    function = resolve(torch, name)
    for sample in samples_for(name, dtype):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        at = [n for n, v in enumerate(leaves) if isinstance(v, Tensor) and v.requires_grad]
        if not sample.smooth or sample.layout != "contiguous" or not at:
            continue
        fixed = [v.detach() if isinstance(v, Tensor) else v for v in leaves]

        def call(*values, at=at, fixed=fixed, spec=spec):
            inside = list(fixed)
            for number, value in zip(at, values, strict=True):
                inside[number] = value
            first, rest, kwargs = tree_unflatten(inside, spec)
            results = tensors_in(function(first, *rest, **kwargs))
            return tuple(one for one in results if one.dtype.is_differentiable)

        point = tuple(fixed[number].clone() for number in at)
        if sum(one.numel() for one in point) > most:
            continue
        outputs = call(*point)
        if outputs and all(one.numel() for one in (*point, *outputs)):
            yield call, point


def _terms(rng, one, order):
    made = rng.standard_normal((order, *one.shape)) * 0.3
    if one.dtype.is_complex:
        made = made + 1j * rng.standard_normal(made.shape) * 0.3
    return list(torch.tensor(made, dtype=one.dtype).unbind(0))


def nested(call, point, series):
    """Derivatives along the path, each order by one more jvp: 2 ** order runs."""
    one = torch.tensor(1.0, dtype=torch.float64)

    def along(t):
        moved = []
        for value, terms in zip(point, series, strict=True):
            power, total = t, value
            for number, term in enumerate(terms, 1):
                total = total + term * power
                power = power * t / (number + 1)
            moved.append(total)
        return call(*moved)

    made = []
    for _ in series[0]:
        along = lambda t, inner=along: jvp(inner, (t,), (one,))[1]  # noqa: E731 (a chain of them)
        made.append(along(torch.tensor(0.0, dtype=torch.float64)))
    return made


def _close(a, b):
    a, b = (numpy.asarray(one.resolve_conj().resolve_neg()._array) for one in (a, b))
    scale = numpy.abs(b[numpy.isfinite(b)]).max(initial=1.0)
    same = a.shape == b.shape and a.dtype == b.dtype
    return same and numpy.allclose(a, b, rtol=1e-6, atol=1e-9 * scale, equal_nan=True)


def _holds(name, dtype, orders=ORDER):
    rng = numpy.random.default_rng(0)
    for call, point in itertools.islice(_calls(name, dtype), 1):
        series = [_terms(rng, one, orders) for one in point]
        wanted = nested(call, point, series)
        output, derivatives = jet(call, point, series)
        for number, one in enumerate(output):
            assert _close(one, call(*point)[number])
            for order in range(orders):
                assert _close(derivatives[number][order], wanted[order][number]), order + 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:vmap runs")
def test_jet_equals_nested_jvp(name):
    _holds(name, torch.float64)


COMPLEX = [n for n in NAMES if next(samples_for(n, torch.complex128), None) is not None]


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:vmap runs")
def test_jet_of_complex_numbers_equals_nested_jvp(name):
    _holds(name, torch.complex128, orders=3)
