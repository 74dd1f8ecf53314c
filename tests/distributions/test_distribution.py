"""Shapes, expansion, validation, printed forms and paths: what the base class does for families."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref

import pytest

import pullback as torch
from tests.distributions.cases import ALL, instance, named

d = torch.distributions


@pytest.fixture
def no_default_left_behind():
    before = d.Distribution._validate_args
    yield
    d.Distribution._validate_args = before


def run(program, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", program], check=True, capture_output=True, text=True
    )
    return done.stdout


# Shapes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_expanding_keeps_class_events_and_validation(case):
    made, _ = instance(torch, case)
    made._validate_args = False
    expanded = made.expand(torch.Size((3, *made.batch_shape)))
    assert type(expanded) is type(made)
    assert expanded.batch_shape == (3, *made.batch_shape)
    assert expanded.event_shape == made.event_shape
    assert expanded._validate_args is False
    drawn = made.sample()
    torch.testing.assert_close(
        expanded.log_prob(drawn), made.log_prob(drawn).expand(expanded.batch_shape)
    )
    again = expanded.expand((2, *expanded.batch_shape))
    assert again.sample((5,)).shape == (5, 2, 3, *made.batch_shape, *made.event_shape)


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_batches_without_elements_are_drawn_and_have_densities(case):
    made, _ = instance(torch, case)
    batch = (0, *(made.batch_shape or (1,)))
    empty = made.expand(batch)
    drawn = empty.sample([3])
    assert drawn.shape == (3, *batch, *made.event_shape)
    assert empty.log_prob(drawn).shape == (3, *batch)


def test_expanding_copies_no_parameters():
    made = d.Normal(torch.zeros(2), torch.ones(2))
    assert made.expand((4, 2)).loc.data_ptr() == made.loc.data_ptr()


def test_a_subclass_with_its_own_init_must_define_expand():
    class Shifted(d.Normal):
        def __init__(self, shift):
            super().__init__(shift, 1.0)

    with pytest.raises(NotImplementedError, match="Shifted"):
        Shifted(0.0).expand((2,))

    class Renamed(d.Normal):
        pass

    assert isinstance(Renamed(0.0, 1.0).expand((2,)), Renamed)

    class Wider(Shifted):
        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Wider, _instance)
            return super().expand(batch_shape, _instance=new)

    assert Wider(0.0).expand((2,)).batch_shape == (2,)


def test_a_distribution_of_ones_own_needs_what_it_uses_only():
    class Coin(d.Distribution):
        arg_constraints = {}  # noqa: RUF012
        support = d.constraints.boolean

        def log_prob(self, value):
            self._validate_sample(value)
            return torch.full_like(value, 0.5).log()

    coin = Coin()
    assert repr(coin) == "Coin()"
    assert abs(float(coin.log_prob(torch.tensor(1.0)).exp()) - 0.5) < 1e-6
    with pytest.raises(ValueError, match="Boolean"):
        coin.log_prob(torch.tensor(0.3))
    for ask in ("mean", "mode", "variance"):
        with pytest.raises(NotImplementedError, match="Coin"):
            getattr(coin, ask)
    for ask in (coin.rsample, coin.entropy, coin.enumerate_support):
        with pytest.raises(NotImplementedError, match="Coin"):
            ask()
    with pytest.raises(NotImplementedError):
        d.Distribution(validate_args=False).support


def test_a_distribution_without_constraints_says_that_it_checks_nothing():
    with pytest.warns(UserWarning, match="arg_constraints"):
        d.Distribution()


# Validation ------------------------------------------------------------------------------------

WRONG = {
    "Normal": lambda **o: d.Normal(0.0, -1.0, **o),
    "Normal nan": lambda **o: d.Normal(float("nan"), 1.0, **o),
    "Uniform": lambda **o: d.Uniform(1.0, 0.0, **o),
    "Bernoulli": lambda **o: d.Bernoulli(1.5, **o),
    "Categorical": lambda **o: d.Categorical(torch.tensor([-1.0, 3.0]), **o),
    "Dirichlet": lambda **o: d.Dirichlet(torch.tensor([0.0, 3.0]), **o),
    "Geometric": lambda **o: d.Geometric(0.0, **o),
    "Gamma": lambda **o: d.Gamma(1.0, 0.0, **o),
    "LogNormal": lambda **o: d.LogNormal(0.0, 0.0, **o),
    "MultivariateNormal": lambda **o: d.MultivariateNormal(
        torch.zeros(2), scale_tril=-torch.eye(2), **o
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parameters_are_refused_unless_told_not_to(name, no_default_left_behind):
    with pytest.raises(ValueError, match="must"):
        WRONG[name]()
    WRONG[name](validate_args=False)
    d.Distribution.set_default_validate_args(False)
    if name not in ("LogNormal",):
        WRONG[name]()
    with pytest.raises(ValueError, match="must"):
        WRONG[name](validate_args=True)


def test_values_are_checked_for_kind_shape_and_support():
    made = d.Exponential(torch.ones(3))
    for value, reason in [
        (1.0, "tensor"),
        (torch.ones(2), "broadcast"),
        (torch.tensor([-1.0, 1.0, 1.0]), "GreaterThanEq"),
    ]:
        with pytest.raises(ValueError, match=reason):
            made.log_prob(value)
    with pytest.raises(ValueError, match="event shape"):
        d.Dirichlet(torch.ones(3)).log_prob(torch.ones(2) / 2)
    unchecked = d.Exponential(torch.ones(3), validate_args=False)
    assert unchecked.log_prob(torch.tensor([-1.0, 1.0, 1.0])).tolist() == [1.0, -1.0, -1.0]


def test_only_true_and_false_say_whether_to_validate():
    with pytest.raises(ValueError, match="True or False"):
        d.Distribution.set_default_validate_args(3)


def test_nothing_is_checked_in_optimised_python():
    program = "import pullback as t; t.distributions.Normal(0.0, -1.0); print('made')"
    assert run(program, "-O").strip() == "made"


@pytest.mark.parametrize("family", [d.Bernoulli, d.Geometric, d.Categorical, d.OneHotCategorical])
def test_exactly_one_of_probs_and_logits_is_wanted(family):
    for given in ({}, {"probs": torch.ones(2) / 2, "logits": torch.ones(2)}):
        with pytest.raises(ValueError, match="probs or logits"):
            family(**given)


def test_parameters_are_numbers_or_tensors():
    with pytest.raises(ValueError, match="number or a tensor"):
        d.Normal("a", 1.0)
    assert d.Normal(0, 1).loc.dtype is torch.float32


def test_validation_looks_at_all_examples_of_a_vmap():
    def log_prob(scale, value):
        return d.Normal(0.0, scale).log_prob(value)

    values = torch.tensor([0.5, 1.0])
    mapped = torch.vmap(log_prob)(torch.tensor([1.0, 2.0]), values)
    torch.testing.assert_close(mapped, d.Normal(0.0, torch.tensor([1.0, 2.0])).log_prob(values))
    with pytest.raises(ValueError, match="scale"):
        torch.vmap(log_prob)(torch.tensor([1.0, -2.0]), values)


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "Dirichlet", "StudentT", "Laplace"])
def test_rsample_and_its_gradient_work_under_vmap(name):
    made = {
        "Normal": lambda a: d.Normal(a, a),
        "Gamma": lambda a: d.Gamma(a, a),
        "Beta": lambda a: d.Beta(a, a),
        "Dirichlet": lambda a: d.Dirichlet(a),
        "StudentT": lambda a: d.StudentT(a),
        "Laplace": lambda a: d.Laplace(a, a),
    }[name]
    gradient = torch.func.grad(lambda a: made(a).rsample().square().sum())
    mapped = torch.vmap(gradient, randomness="different")(torch.rand(5, 3) + 0.5)
    assert mapped.shape == (5, 3)
    assert bool(mapped.isfinite().all())
    assert len(set(mapped.flatten().tolist())) > 10


# Attributes and life ---------------------------------------------------------------------------


def test_lazy_attributes_are_computed_once_and_with_history():
    probs = torch.tensor(0.3, requires_grad=True)
    made = d.Bernoulli(probs)
    assert repr(made) == "Bernoulli(probs: 0.30000001192092896)"
    with torch.no_grad():
        logits = made.logits
    assert made.logits is logits
    assert logits.requires_grad
    assert "logits" in repr(made)
    assert isinstance(d.Bernoulli.logits, property)


@pytest.mark.parametrize("case", ALL, ids=named(ALL))
def test_distributions_are_copied_and_pickled(case):
    params = [torch.tensor(p) for p in case.params]
    made = case.make(d, *params)
    value = torch.tensor(case.value)
    expected = made.log_prob(value)
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        torch.testing.assert_close(other.log_prob(value), expected)


def test_no_distribution_is_left_to_the_collector():
    gc.collect()
    gc.disable()
    try:
        for case in ALL:
            made, _ = instance(torch, case)
            made.log_prob(torch.tensor(case.value)).sum()
            made.expand((3, *made.batch_shape)).sample()
            gone = weakref.ref(made)
            del made
            assert gone() is None, case.name
    finally:
        gc.enable()


def test_importing_pullback_loads_no_distributions():
    program = "import sys, pullback; print([m for m in sys.modules if 'distributions' in m])"
    assert run(program).strip() == "[]"


def test_torchs_paths_lead_to_the_families():
    program = """
import pullback.distributions.normal, pullback.distributions.kl
from pullback.distributions.studentT import StudentT
from pullback.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from pullback.distributions.multivariate_normal import _batch_mahalanobis
from pullback.distributions.utils import _standard_normal, _sum_rightmost
import pullback as torch
print(torch.distributions.normal.Normal is torch.distributions.Normal)
print(torch.distributions.half_normal.__name__)
"""
    assert run(program).split() == ["True", "pullback.distributions.continuous.half_normal"]


def test_sample_n_is_an_old_name():
    with pytest.warns(FutureWarning, match="sample"):
        assert d.Normal(torch.zeros(3), 1.0).sample_n(2).shape == (2, 3)


def test_straight_through_draws_pass_gradients_to_probabilities():
    probs = torch.tensor([0.2, 0.8], requires_grad=True)
    drawn = d.OneHotCategoricalStraightThrough(probs).rsample()
    assert sorted(drawn.tolist()) == [0.0, 1.0]
    (gradient,) = torch.autograd.grad((drawn * torch.tensor([1.0, 2.0])).sum(), probs)
    torch.testing.assert_close(gradient, torch.tensor([-0.8, 0.2]))


def test_exponential_families_get_their_entropy_from_the_normalizer():
    for name in ("Normal", "Gamma", "Exponential", "Bernoulli", "ContinuousBernoulli logits"):
        made, _ = instance(torch, next(case for case in ALL if case.name == name))
        generic = d.ExponentialFamily.entropy(made)
        torch.testing.assert_close(generic, made.entropy(), rtol=1e-6, atol=1e-7)
