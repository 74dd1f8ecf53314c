"""Transforms: inverses, volumes, caches; constraints and the transforms to them."""

import gc
import weakref

import pytest

import pullback as torch

d = torch.distributions
c = d.constraints
F64 = torch.float64


def x(*shape):
    return torch.linspace(-1.3, 1.1, torch.Size(shape).numel(), dtype=F64).reshape(shape)


SCALAR = [
    d.AffineTransform(0.5, -2.0),
    d.ExpTransform(),
    d.ExpTransform().inv,
    d.PowerTransform(torch.tensor(2.5, dtype=F64)),
    d.SigmoidTransform(),
    d.SoftplusTransform(),
    d.TanhTransform(),
    d.CumulativeDistributionTransform(d.Normal(torch.tensor(0.1, dtype=F64), 1.5)),
    d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 3.0), d.ExpTransform().inv]),
]


@pytest.mark.parametrize("transform", SCALAR, ids=str)
def test_the_inverse_undoes_and_the_volume_is_the_derivative(transform):
    point = x(7) if transform.domain is c.real else x(7).exp()
    point.requires_grad_()
    y = transform(point)
    torch.testing.assert_close(transform.inv(y), point)
    (slope,) = torch.autograd.grad(y.sum(), point)
    torch.testing.assert_close(transform.log_abs_det_jacobian(point, y), slope.abs().log())
    torch.testing.assert_close(transform.inv.log_abs_det_jacobian(y, point), -slope.abs().log())
    assert bool((slope.sign() == transform.sign).all())


def test_the_volume_of_stick_breaking_is_a_determinant():
    transform = d.StickBreakingTransform()
    point = x(4)
    jacobian = torch.func.jacrev(lambda v: transform(v)[:-1])(point)
    expected = torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(transform.log_abs_det_jacobian(point, transform(point)), expected)
    torch.testing.assert_close(transform.inv(transform(point)), point)


def test_the_volume_of_correlations_is_a_determinant():
    transform = d.CorrCholeskyTransform()
    point = x(6)

    def below(v):
        return d.utils.tril_matrix_to_vec(transform(v), -1)

    expected = torch.linalg.slogdet(torch.func.jacrev(below)(point)).logabsdet
    torch.testing.assert_close(transform.log_abs_det_jacobian(point, transform(point)), expected)
    torch.testing.assert_close(transform.inv(transform(point)), point)


class Counted(d.ExpTransform):
    calls = 0

    def _call(self, x):
        type(self).calls += 1
        return super()._call(x)


def test_a_cache_remembers_the_last_pair_by_identity():
    Counted.calls = 0
    transform = Counted(cache_size=1)
    point = x(3)
    y = transform(point)
    assert transform(point) is y
    assert transform.inv(y) is point
    assert Counted.calls == 1
    transform(point.clone())
    assert Counted.calls == 2
    assert Counted().with_cache(0)._cache_size == 0
    assert Counted().with_cache()._cache_size == 1
    with pytest.raises(ValueError, match="cache_size"):
        Counted(cache_size=2)


def test_transforms_are_equal_by_parameters_and_have_no_hash():
    assert d.AffineTransform(0.0, 1.0) == d.AffineTransform(0.0, 1.0)
    assert d.AffineTransform(0.0, torch.ones(2)) == d.AffineTransform(0.0, torch.ones(2))
    assert d.AffineTransform(0.0, 1.0) != d.AffineTransform(0.0, 2.0)
    assert d.ExpTransform().inv == d.ExpTransform().inv
    assert d.ExpTransform() != d.TanhTransform()
    with pytest.raises(TypeError):
        hash(d.ExpTransform())


def test_a_transform_and_its_inverse_make_no_cycle():
    gc.collect()
    gc.disable()
    try:
        for make in (d.ExpTransform, lambda: d.ComposeTransform([d.ExpTransform()])):
            transform = make()
            inverse = transform.inv
            assert transform.inv is inverse
            assert inverse.inv is transform
            gone = weakref.ref(transform)
            del transform, inverse
            assert gone() is None
    finally:
        gc.enable()


def test_shapes_that_do_not_fit_are_refused():
    for wrong in (
        lambda: d.ReshapeTransform((2, 3), (5,)),
        lambda: d.ReshapeTransform((2, 3), (6,)).forward_shape((3, 2)),
        lambda: d.CorrCholeskyTransform().forward_shape((4,)),
        lambda: d.CorrCholeskyTransform().inverse_shape((2, 3)),
        lambda: d.StickBreakingTransform().forward_shape(()),
        lambda: d.IndependentTransform(d.ExpTransform(), 1)(torch.tensor(1.0)),
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform()),
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [5]),
        lambda: d.utils.tril_matrix_to_vec(torch.eye(3), 3),
    ):
        with pytest.raises(
            ValueError, match=r"(?i)shape|numbers|vectors|square|dimensions|transform|diagonals"
        ):
            wrong()


def test_a_flow_of_transforms_has_a_density_that_integrates_to_1():
    flow = d.TransformedDistribution(
        d.Normal(torch.zeros((), dtype=F64), 1.0),
        [d.AffineTransform(0.3, 0.5), d.TanhTransform(), d.AffineTransform(0.0, 2.0)],
    )
    points = torch.linspace(-1.99999, 1.99999, 20001, dtype=F64)
    total = torch.trapezoid(flow.log_prob(points).exp(), points)
    assert abs(float(total) - 1) < 1e-3


CONSTRAINTS = [
    c.real, c.positive, c.nonnegative, c.unit_interval, c.simplex, c.corr_cholesky,
    c.greater_than(2.0), c.less_than(-1.0), c.interval(-3.0, 5.0), c.half_open_interval(1.0, 2.0),
    c.independent(c.positive, 1), c.cat([c.positive, c.unit_interval], -1, [2, 4]),
    c.stack([c.positive] * 3 + [c.real] * 3, -1),
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
@pytest.mark.parametrize("registry", [d.biject_to, d.transform_to])
def test_registered_transforms_give_values_that_satisfy(constraint, registry):
    transform = registry(constraint)
    y = transform(x(2, 6))
    assert bool(constraint.check(y).all())
    if registry is d.biject_to:
        assert transform.bijective
        torch.testing.assert_close(transform.inv(y), x(2, 6))


@pytest.mark.parametrize(
    "constraint", [c.lower_cholesky, c.positive_definite, c.positive_semidefinite], ids=str
)
def test_matrices_have_transforms_that_are_no_bijections(constraint):
    assert bool(constraint.check(d.transform_to(constraint)(x(2, 3, 3))).all())
    with pytest.raises(NotImplementedError):
        d.biject_to(constraint)


def test_a_registry_takes_constraints_of_ones_own():
    class Even(c.Constraint):
        def check(self, value):
            return value % 2 == 0

    registry = d.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def _even(constraint):
        return d.AffineTransform(0.0, 2.0)

    assert bool(Even().check(registry(Even())(torch.tensor([1.0, 3.0]))).all())
    with pytest.raises(TypeError, match="constraint"):
        registry.register(int, _even)


def test_dependent_constraints_are_known_on_instances_only():
    assert c.is_dependent(d.Uniform.support)
    assert d.Uniform.support.event_dim == 0
    assert not c.is_dependent(d.Uniform(0.0, 1.0).support)
    with pytest.raises(ValueError, match="instances"):
        c.dependent.check(torch.ones(1))
    with pytest.raises(NotImplementedError):
        c.dependent.event_dim
    assert c.dependent(event_dim=2).event_dim == 2
