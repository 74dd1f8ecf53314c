"""Random numbers written in place."""

import functools
import math

import numpy
import pytest

import pullback as torch

FILLS = {
    "uniform_": "UniformBackward0",
    "normal_": "NormalBackward0",
    "exponential_": "ExponentialBackward0",
    "cauchy_": "CauchyBackward0",
    "log_normal_": "LogNormalBackward0",
    "bernoulli_": "BernoulliBackward2",
    "random_": "RandomBackward2",
    "geometric_": "GeometricBackward0",
}


def fill(x, name):
    return getattr(x, name)(0.5) if name == "geometric_" else getattr(x, name)()


@pytest.mark.parametrize("name", FILLS)
def test_fills_return_the_tensor_and_count_a_write(name):
    x = torch.zeros(5)
    assert fill(x, name) is x
    assert x._version == 1
    view = torch.zeros(3, 4).T[::2]
    fill(view, name)
    assert view._base._version == 1


@pytest.mark.parametrize("name", FILLS)
def test_fills_cut_the_gradient(name):
    leaf = torch.ones(3, requires_grad=True)
    x = leaf * 2
    fill(x, name)
    assert x.grad_fn.name() == FILLS[name]
    assert torch.autograd.grad(x.sum(), leaf)[0].tolist() == [0, 0, 0]


def test_fills_of_a_slice_cut_its_gradient_only():
    leaf = torch.ones(3, requires_grad=True)
    x = leaf * 2
    x[:1].uniform_()
    assert torch.autograd.grad(x.sum(), leaf)[0].tolist() == [0, 2, 2]


@pytest.mark.parametrize("name", FILLS)
def test_fills_refuse_leaves_and_overlaps(name):
    with pytest.raises(RuntimeError, match="leaf"):
        fill(torch.ones(2, requires_grad=True), name)
    with pytest.raises(RuntimeError, match="share one memory location"):
        fill(torch.ones(2).expand(3, 2), name)
    leaf = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        fill(leaf, name)
    assert leaf.requires_grad


def test_bounds_of_uniform():
    x = torch.zeros(10_000).uniform_(2, 3)
    assert x.min() >= 2
    assert x.max() < 3
    assert torch.zeros(2).uniform_(1, 1).tolist() == [1, 1]
    assert torch.zeros(2).uniform_(**{"from": 1.0, "to": 1.0}).tolist() == [1, 1]
    for wrong in ((2, 1), (0, math.inf), (0, math.nan)):
        with pytest.raises(RuntimeError, match="uniform_"):
            torch.zeros(2).uniform_(*wrong)
    with pytest.raises(RuntimeError, match="do not fit"):
        torch.zeros(2, dtype=torch.float16).uniform_(-1e10, 1e10)
    with pytest.raises(NotImplementedError):
        torch.zeros(2, dtype=torch.int32).uniform_()
    with pytest.raises(TypeError, match="takes"):
        torch.zeros(2).uniform_(0, 1, 2)


def test_moments():
    x = torch.empty(20_000, dtype=torch.float64)
    assert x.normal_(3, 2).mean().item() == pytest.approx(3, abs=0.05)
    assert x.std().item() == pytest.approx(2, abs=0.05)
    assert x.exponential_(4).mean().item() == pytest.approx(0.25, abs=0.01)
    assert x.geometric_(0.25).mean().item() == pytest.approx(4, abs=0.1)
    assert x.geometric_(0.25).min() == 1
    assert x.bernoulli_(0.2).mean().item() == pytest.approx(0.2, abs=0.02)
    assert x.log_normal_(0, 0.5).log().mean().item() == pytest.approx(0, abs=0.02)
    assert x.cauchy_(3, 1).median().item() == pytest.approx(3, abs=0.1)


def test_bernoulli_of_tensors_broadcasts():
    x = torch.zeros(2, 3).bernoulli_(torch.tensor([0.0, 1.0, 0.0]))
    assert x.tolist() == [[0, 1, 0]] * 2
    assert torch.zeros(2, dtype=torch.int32).bernoulli_(1.0).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="broadcast"):
        torch.zeros(3).bernoulli_(torch.ones(2))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        torch.zeros(3).bernoulli_(1.5)


def test_random_fills_what_the_dtype_tells_apart():
    assert torch.zeros(5000, dtype=torch.uint8).random_().max() == 255
    assert torch.zeros(5000, dtype=torch.int8).random_().min() >= 0
    assert set(torch.zeros(50, dtype=torch.bool).random_().tolist()) == {True, False}
    assert torch.zeros(500, dtype=torch.int64).random_().min() >= 0
    assert torch.zeros(500).random_().max() <= 2**24
    assert torch.zeros(100).random_(2, 4).unique().tolist() == [2, 3]
    assert torch.zeros(100).random_(2).unique().tolist() == [0, 1]
    for wrong in ((5, 5), (0,)):
        with pytest.raises(RuntimeError, match="random_"):
            torch.zeros(2).random_(*wrong)
    with pytest.raises(NotImplementedError):
        torch.zeros(2, dtype=torch.complex64).random_()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x.normal_(0, -1), RuntimeError),
        (lambda x: x.exponential_(0), RuntimeError),
        (lambda x: x.cauchy_(0, 0), RuntimeError),
        (lambda x: x.log_normal_(0, 0), RuntimeError),
        (lambda x: x.geometric_(1.0), RuntimeError),
        (lambda x: x.int().exponential_(), RuntimeError),
        (lambda x: x.int().cauchy_(), RuntimeError),
        (lambda x: x.int().normal_(), NotImplementedError),
        (lambda x: x.bool().geometric_(0.5), NotImplementedError),
    ],
)
def test_impossible_parameters_leave_the_tensor_alone(call, error):
    x = torch.zeros(3)
    with pytest.raises(error):
        call(x)
    assert x.tolist() == [0, 0, 0]
    assert x._version == 0


@pytest.mark.parametrize("name", FILLS)
def test_fills_follow_their_generator(name):
    draw = functools.partial(torch.Generator().manual_seed, 5)
    args = (0.5,) if name == "geometric_" else ()
    first = getattr(torch.zeros(8), name)(*args, generator=draw())
    again = getattr(torch.zeros(8), name)(*args, generator=draw())
    assert first.tolist() == again.tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_uniform_numbers_spread_over_the_dtypes_reach_and_no_further(dtype):
    most = torch.finfo(dtype).max
    for low, high in ((-most / 2, most / 2), (0, most), (-most, 0)):
        made = torch.empty(50, dtype=dtype).uniform_(low, high)
        assert made.isfinite().all()
        assert made.min() >= low
        assert made.max() <= high
    with pytest.raises(RuntimeError, match="further than"):
        torch.empty(2, dtype=dtype).uniform_(-most, most / 2)


@pytest.mark.parametrize("wrong", ["a", numpy.array(["a"]), numpy.array([1.0]), None, [1.0], 1j])
@pytest.mark.parametrize(
    "fill",
    ["uniform_", "normal_", "exponential_", "cauchy_", "log_normal_", "geometric_", "bernoulli_"],
)
def test_what_is_no_number_is_no_parameter(fill, wrong):
    """NumPy's own errors came through, or an array of one number was taken."""
    with pytest.raises(TypeError, match=fill):
        getattr(torch.zeros(2), fill)(wrong)


@pytest.mark.parametrize(("target", "p"), [((), (0,)), ((2,), (3,)), ((1,), (4,)), ((2,), (2, 2))])
def test_bernoulli_refuses_probabilities_that_do_not_broadcast_to_the_target(target, p):
    with pytest.raises(RuntimeError, match="broadcast"):
        torch.zeros(target).bernoulli_(torch.full(p, 0.5))
