"""Every family against torch: densities, moments, entropies, quantiles, with their gradients."""

import warnings

import numpy
import pytest

import pullback
from tests.distributions.cases import ALL, instance, named

torch = pytest.importorskip("torch")

TOLERANCE = {"rtol": 1e-8, "atol": 1e-10}
# torch approximates Bessel functions to seven digits.
ROUGH = {"VonMises": {"rtol": 2e-6, "atol": 1e-7}}


@pytest.fixture(autouse=True)
def double_by_default():
    """torch's GeneralizedPareto compares with a number of the default dtype, which must fit."""
    for module in (pullback, torch):
        module.set_default_dtype(module.float64)
    yield
    for module in (pullback, torch):
        module.set_default_dtype(module.float32)


def array_of(tensor):
    return numpy.asarray(tensor.detach().numpy())


def assert_alike(ours, theirs, tolerance):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    numpy.testing.assert_allclose(array_of(ours), array_of(theirs), **tolerance)


def outcome(module, case, ask):
    """The result and its gradients, or the type of the error."""
    made, params = instance(module, case)
    value = module.tensor(case.value, requires_grad=not case.discrete)
    try:
        result = ask(made, value)
    except NotImplementedError:
        return NotImplementedError
    if not result.requires_grad:
        return [result]
    inputs = [t for t in (*params, value) if t.requires_grad]
    try:
        gradients = list(module.autograd.grad(result.sum(), inputs, allow_unused=True))
    except (NotImplementedError, RuntimeError):
        return [result]  # the order of an incomplete gamma function has no derivative
    if case.name == "Wishart scale_tril" and gradients[1] is not None:
        gradients[1] = gradients[1].tril()  # torch's cholesky_solve counts what it does not read
    return [result, *gradients]


def compare(case, ask, tolerance=None):
    ours, theirs = (outcome(module, case, ask) for module in (pullback, torch))
    if theirs is NotImplementedError or ours is NotImplementedError:
        assert ours is theirs
        return
    assert len(ours) == len(theirs)
    tolerance = tolerance or ROUGH.get(case.name, TOLERANCE)
    for one, other in zip(ours, theirs, strict=True):
        if one is None or other is None:
            given = other if one is None else one
            assert given is None or not array_of(given).any()
        else:
            assert_alike(one, other, tolerance)


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_log_prob_and_its_gradients_are_torchs(case):
    compare(case, lambda d, value: d.log_prob(value))


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_entropy_and_its_gradients_are_torchs(case):
    compare(case, lambda d, value: d.entropy())
    compare(case, lambda d, value: d.perplexity())


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_cdf_and_its_gradients_are_torchs(case):
    compare(case, lambda d, value: d.cdf(value))


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_icdf_and_its_gradients_are_torchs(case):
    compare(case, lambda d, value: d.icdf(value * 0 + 0.3))


@pytest.mark.parametrize("moment", ["mean", "variance", "stddev", "mode"])
@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_moments_and_their_gradients_are_torchs(case, moment):
    if case.name == "Kumaraswamy" and moment == "mode":
        pytest.skip("torch's is NaN for most concentrations; see test_laws.py for ours")
    compare(case, lambda d, value: getattr(d, moment))


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_shapes_and_printed_form_are_torchs(case):
    forms = []
    for module in (pullback, torch):
        made, _ = instance(module, case)
        expanded = made.expand((5, *made.batch_shape))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch finds draws of Wishart singular by rounding
            drawn, more = made.sample((4,)), expanded.sample((2,))
        forms.append(
            [
                repr(made),
                repr(made.arg_constraints),
                tuple(made.batch_shape),
                tuple(made.event_shape),
                made.has_rsample,
                made.has_enumerate_support,
                tuple(drawn.shape),
                str(drawn.dtype),
                repr(made.support),
                made.support.is_discrete,
                made.support.event_dim,
                repr(expanded),
                tuple(expanded.batch_shape),
                tuple(expanded.event_shape),
                tuple(more.shape),
                issubclass(type(made), module.distributions.ExponentialFamily),
            ]
        )
    assert forms[0] == forms[1]


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_expanded_distributions_have_torchs_densities(case):
    compare(case, lambda d, value: d.expand((5, *(d.batch_shape or (1,)))).log_prob(value))


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_enumerated_values_are_torchs(case):
    for expand in (True, False):
        compare(case, lambda d, value, expand=expand: d.enumerate_support(expand))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["Normal", "Laplace", "Uniform", "Exponential", "Cauchy", "Gumbel"]
)
def test_results_in_narrow_dtypes_have_torchs_dtype_and_nearly_its_value(name, dtype):
    case = next(case for case in ALL if case.name == name)
    results = []
    for module in (pullback, torch):
        kind = getattr(module, dtype)
        params = [module.tensor(p).to(kind) for p in case.params]
        made = case.make(module.distributions, *params)
        results.append(made.log_prob(module.tensor(case.value).to(kind)))
    ours, theirs = results
    assert str(ours.dtype) == str(theirs.dtype)
    numpy.testing.assert_allclose(
        ours.double().numpy(), theirs.double().numpy(), rtol=3e-2, atol=3e-2
    )


def second_derivatives(module, case):
    made, params = instance(module, case)
    value = module.tensor(case.value, requires_grad=not case.discrete)
    inputs = [t for t in (*params, value) if t.requires_grad]
    result = made.log_prob(value).sum()
    first = module.autograd.grad(result, inputs, create_graph=True, allow_unused=True)
    total = sum((g * g).sum() for g in first if g is not None)
    if not total.requires_grad:
        return [None] * len(inputs)
    return module.autograd.grad(total, inputs, allow_unused=True)


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_second_derivatives_of_log_prob_are_torchs(case):
    if case.name in ("VonMises", "Wishart scale_tril"):
        pytest.skip("first derivatives differ, see above")
    results = [second_derivatives(module, case) for module in (pullback, torch)]
    for ours, theirs in zip(*results, strict=True):
        if ours is None or theirs is None:
            given = theirs if ours is None else ours
            assert given is None or not array_of(given).any()
        else:
            assert_alike(ours, theirs, {"rtol": 1e-7, "atol": 1e-8})


def forward_derivative(module, case):
    """A directional derivative of log_prob, in forward mode."""
    arrays = [*case.params] if case.discrete else [*case.params, case.value]
    tensors = [module.tensor(array) for array in arrays]

    def log_prob(*given):
        params = given if case.discrete else given[:-1]
        value = module.tensor(case.value) if case.discrete else given[-1]
        made = case.make(module.distributions, *params)
        return made.log_prob(value)

    # Symmetric directions keep matrices symmetric.
    directions = [module.ones_like(tensor) * 0.01 for tensor in tensors]
    return module.func.jvp(log_prob, tuple(tensors), tuple(directions))[1]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_forward_mode_through_log_prob_is_torchs(case):
    if case.name == "Wishart scale_tril":
        pytest.skip("torch's cholesky_solve counts what it does not read")
    ours, theirs = (forward_derivative(module, case) for module in (pullback, torch))
    assert_alike(ours, theirs, ROUGH.get(case.name, {"rtol": 1e-7, "atol": 1e-9}))
