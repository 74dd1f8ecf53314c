"""Transforms against torch: values, inverses, volumes, gradients, constraints, printed forms."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

ROW = [0.3, -0.8, 1.2]
MATRIX = [[0.3, -0.8, 1.2], [0.1, 0.4, -0.6], [0.9, -0.2, 0.7]]

TRANSFORMS = {
    "abs": (lambda d, t: d.AbsTransform(), ROW),
    "affine": (lambda d, t: d.AffineTransform(t([0.1, 0.2, 0.3]), t(-2.0)), ROW),
    "affine numbers": (lambda d, t: d.AffineTransform(1.5, -2.0), ROW),
    "affine events": (
        lambda d, t: d.AffineTransform(t(0.5), t([1.0, -2.0, 3.0]), event_dim=1),
        MATRIX,
    ),
    "cat": (lambda d, t: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2]), ROW),
    "cat last": (
        lambda d, t: d.CatTransform([d.ExpTransform(), d.TanhTransform()], -1, [1, 2]),
        MATRIX,
    ),
    "compose": (
        lambda d, t: d.ComposeTransform([d.SigmoidTransform(), d.PowerTransform(t(2.0))]),
        ROW,
    ),
    "compose events": (
        lambda d, t: d.ComposeTransform(
            [d.AffineTransform(t(0.5), t(2.0)), d.StickBreakingTransform()]
        ),
        MATRIX,
    ),
    "correlations": (lambda d, t: d.CorrCholeskyTransform(), [MATRIX[0], MATRIX[1]]),
    "cdf": (lambda d, t: d.CumulativeDistributionTransform(d.Normal(t(0.5), t(2.0))), ROW),
    "exp": (lambda d, t: d.ExpTransform(), ROW),
    "exp inverse": (lambda d, t: d.ExpTransform().inv, [0.3, 0.8, 1.2]),
    "identity": (lambda d, t: d.identity_transform, ROW),
    "independent": (lambda d, t: d.IndependentTransform(d.ExpTransform(), 1), MATRIX),
    "lower cholesky": (lambda d, t: d.LowerCholeskyTransform(), MATRIX),
    "positive definite": (lambda d, t: d.PositiveDefiniteTransform(), MATRIX),
    "power": (lambda d, t: d.PowerTransform(t([0.5, 2.0, -1.0])), [0.3, 0.8, 1.2]),
    "reshape": (lambda d, t: d.ReshapeTransform((3, 3), (9,)), MATRIX),
    "sigmoid": (lambda d, t: d.SigmoidTransform(), [0.3, -40.0, 50.0]),
    "softmax": (lambda d, t: d.SoftmaxTransform(), MATRIX),
    "softplus": (lambda d, t: d.SoftplusTransform(), ROW),
    "stack": (
        lambda d, t: d.StackTransform(
            [d.ExpTransform(), d.TanhTransform(), d.SigmoidTransform()], 1
        ),
        MATRIX,
    ),
    "stick breaking": (lambda d, t: d.StickBreakingTransform(), MATRIX),
    "tanh": (lambda d, t: d.TanhTransform(), [0.3, -5.0, 2.0]),
}


def attempt(ask):
    """The result, or which error there is instead."""
    try:
        return ask()
    except (NotImplementedError, ValueError) as error:
        return type(error)


def close(ours, theirs):
    if isinstance(theirs, type):
        assert ours is theirs
        return
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    numpy.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-11
    )


def run(module, name):
    make, start = TRANSFORMS[name]
    transform = make(module.distributions, lambda v: module.tensor(v, dtype=module.float64))
    x = module.tensor(start, dtype=module.float64, requires_grad=True)
    y = transform(x)
    target = y.detach().clone().requires_grad_()
    back = attempt(lambda: transform.inv(target))
    volume = attempt(lambda: transform.log_abs_det_jacobian(x, y))
    results = [y, back, volume, *module.autograd.grad(y.sin().sum(), x, retain_graph=True)]
    if not isinstance(back, type):
        results += module.autograd.grad(back.sin().sum(), target)
    if not isinstance(volume, type) and volume.requires_grad:
        results += module.autograd.grad(volume.sum(), x)
    return results


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_inverses_volumes_and_gradients_are_torchs(name):
    ours, theirs = (run(module, name) for module in (pullback, torch))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_what_a_transform_says_of_itself_is_torchs(name):
    said = []
    for module in (pullback, torch):
        make, start = TRANSFORMS[name]
        double = lambda v, m=module: m.tensor(v, dtype=m.float64)  # noqa: E731 (called at once)
        transform, again = (make(module.distributions, double) for _ in range(2))
        shape = tuple(numpy.shape(start))
        sign = attempt(lambda t=transform: t.sign)
        said.append(
            [
                repr(transform),
                repr(transform.inv),
                repr(transform.domain),
                repr(transform.codomain),
                attempt(lambda t=transform: t.event_dim),
                transform.bijective,
                numpy.asarray(sign).tolist() if not isinstance(sign, type) else sign,
                tuple(transform.forward_shape(shape)),
                tuple(transform.inverse_shape(transform.forward_shape(shape))),
                transform == again,
                transform.inv == again.inv,
                transform.inv.inv is transform,
                repr(attempt(lambda t=transform: t.with_cache(1))),
            ]
        )
    assert said[0] == said[1]


CONSTRAINTS = [
    "boolean", "corr_cholesky", "lower_cholesky", "lower_triangular", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_semidefinite", "positive_definite",
    "positive_integer", "real", "real_vector", "simplex", "square", "symmetric", "unit_interval",
]  # fmt: skip
MADE = {
    "greater_than": lambda c: c.greater_than(0.5),
    "greater_than_eq": lambda c: c.greater_than_eq(0.5),
    "less_than": lambda c: c.less_than(0.5),
    "interval": lambda c: c.interval(-0.5, 1),
    "half_open_interval": lambda c: c.half_open_interval(-0.5, 1),
    "integer_interval": lambda c: c.integer_interval(0, 1),
    "independent": lambda c: c.independent(c.positive, 1),
    "multinomial": lambda c: c.multinomial(2),
    "cat": lambda c: c.cat([c.positive, c.unit_interval], -1, [1, 2]),
    "stack": lambda c: c.stack([c.positive, c.unit_interval, c.boolean], -1),
    "mixture": lambda c: c.MixtureSameFamilyConstraint(c.positive),
    **{name: lambda c, name=name: getattr(c, name) for name in CONSTRAINTS},
}
VALUES = [
    numpy.eye(3),
    numpy.array(MATRIX),
    numpy.tril(MATRIX),
    numpy.array(MATRIX) @ numpy.array(MATRIX).T,
    -numpy.eye(3),
    numpy.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [numpy.nan, 1.0, 2.0]]),
    numpy.ones((2, 3, 3)),
]


@pytest.mark.parametrize("name", MADE)
def test_constraints_check_and_print_as_torchs(name):
    ours, theirs = (MADE[name](m.distributions.constraints) for m in (pullback, torch))
    assert repr(ours) == repr(theirs)
    assert (ours.is_discrete, ours.event_dim) == (theirs.is_discrete, theirs.event_dim)
    for value in VALUES:
        checked = [c.check(m.tensor(value)) for c, m in ((ours, pullback), (theirs, torch))]
        assert tuple(checked[0].shape) == tuple(checked[1].shape)
        assert checked[0].tolist() == checked[1].tolist(), value


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", MADE)
def test_registries_give_torchs_transforms(name, registry):
    given = []
    for module in (pullback, torch):
        constraint = MADE[name](module.distributions.constraints)
        given.append(repr(attempt(lambda: getattr(module.distributions, registry)(constraint))))  # noqa: B023 (called at once)
    assert given[0] == given[1]


UTILS = {
    "numbers": lambda m, u: u.broadcast_all(1, 2.5),
    "mixed": lambda m, u: u.broadcast_all(m.ones(2, 1, dtype=m.float64), 2, m.zeros(3)),
    "logits": lambda m, u: [u.probs_to_logits(m.tensor([0.0, 0.2, 1.0]), b) for b in (True, False)],
    "probs": lambda m, u: [u.logits_to_probs(m.tensor([0.0, 0.2, 1.0]), b) for b in (True, False)],
    "clamp": lambda m, u: [u.clamp_probs(m.tensor([0.0, 0.2, 1.0], dtype=m.float64))],
    "to vec": lambda m, u: [u.tril_matrix_to_vec(m.tensor(MATRIX), k) for k in (-3, -1, 0, 1, 2)],
    "to matrix": lambda m, u: [u.vec_to_tril_matrix(m.arange(6.0).view(2, 3), k) for k in (-1, 0)],
}  # fmt: skip


@pytest.mark.parametrize("name", UTILS)
def test_helpers_give_torchs_results(name):
    ours, theirs = (UTILS[name](m, m.distributions.utils) for m in (pullback, torch))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert tuple(one.shape) == tuple(other.shape)
        assert str(one.dtype) == str(other.dtype)
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


def test_every_public_name_of_torch_is_there():
    theirs = torch.distributions
    for path in ("", "constraints", "transforms", "kl", "utils", "constraint_registry"):
        there = getattr(theirs, path) if path else theirs
        here = getattr(pullback.distributions, path) if path else pullback.distributions
        assert set(there.__all__) <= set(here.__all__), path
