"""Random tensors: what is drawn, from which stream, with which gradients."""

import copy
import math
import pickle
import threading

import numpy
import pytest

import pullback as torch
from pullback.operators.random import samplers


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def moments(x):
    values = numpy.asarray(x.detach().tolist())
    return values.mean(), values.std()


# Streams


def test_the_seed_determines_the_numbers():
    torch.manual_seed(3)
    first = torch.rand(5).tolist() + torch.randn(5).tolist()
    torch.manual_seed(3)
    assert torch.rand(5).tolist() + torch.randn(5).tolist() == first
    torch.manual_seed(4)
    assert torch.rand(5).tolist() != first[:5]


def test_seed_zero_gives_the_numbers_of_every_tutorial():
    def drawn(make):
        torch.manual_seed(0)
        return pytest.approx(make().tolist(), rel=1e-6)

    assert drawn(lambda: torch.rand(3)) == [0.49625659, 0.7682218, 0.08847743]
    assert drawn(lambda: torch.rand(2, dtype=torch.float64)) == [0.97005300, 0.70781986]
    assert drawn(lambda: torch.randn(4)) == [1.5409961, -0.2934289, -2.1787894, 0.5684313]
    assert drawn(lambda: torch.randn(32)[:3]) == [-1.1258398, -1.1523602, -0.2505786]
    assert drawn(lambda: torch.randint(0, 10, (5,))) == [4, 9, 3, 0, 3]
    assert drawn(lambda: torch.randperm(5)) == [4, 0, 1, 3, 2]


def test_a_permutation_is_the_same_by_loop_and_at_once(monkeypatch):
    expected = torch.randperm(3000, generator=torch.Generator().manual_seed(1)).tolist()
    monkeypatch.setattr(samplers, "_SHORT", 10**6)
    assert torch.randperm(3000, generator=torch.Generator().manual_seed(1)).tolist() == expected


def test_a_stream_is_the_same_in_small_and_large_draws():
    whole = torch.rand(5000, generator=torch.Generator().manual_seed(1)).tolist()
    generator = torch.Generator().manual_seed(1)
    parts = []
    for size in (1, 2, 620, 0, 10, 1, 624, 2000, 1742):
        parts += torch.rand(size, generator=generator).tolist()
    assert parts == whole


def test_generators_are_independent_of_each_other():
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    alone = torch.rand(3, generator=torch.Generator().manual_seed(1)).tolist()
    torch.rand(10, generator=b)
    torch.rand(10)
    assert torch.rand(3, generator=a).tolist() == alone


def test_states_round_trip():
    torch.rand(3)
    state = torch.get_rng_state()
    assert state.dtype is torch.uint8
    first = torch.randint(100, (3,)).tolist()
    torch.set_rng_state(state)
    assert torch.randint(100, (3,)).tolist() == first
    generator = torch.Generator().manual_seed(5)
    torch.rand(1, dtype=torch.float32, generator=generator)  # leaves half of a word unused
    twins = [
        generator.clone_state(),
        copy.copy(generator),
        copy.deepcopy(generator),
        pickle.loads(pickle.dumps(generator)),
        torch.Generator().set_state(generator.get_state()),
    ]
    expected = torch.rand(3, generator=generator).tolist()
    for twin in twins:
        assert twin.initial_seed() == 5
        assert torch.rand(3, generator=twin).tolist() == expected


def test_a_fork_leaves_the_stream_where_it_was():
    state = torch.get_rng_state().tolist()
    with torch.random.fork_rng():
        torch.rand(3)
    assert torch.get_rng_state().tolist() == state
    with torch.random.fork_rng(enabled=False):
        torch.rand(3)
    assert torch.get_rng_state().tolist() != state


def test_seeds():
    assert torch.manual_seed(7) is torch.default_generator
    assert torch.initial_seed() == 7
    assert torch.manual_seed(-1).initial_seed() == 2**64 - 1
    assert torch.manual_seed(torch.tensor(3)).initial_seed() == 3
    assert torch.seed() == torch.initial_seed()
    assert torch.Generator().initial_seed() == torch.Generator().initial_seed()
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="64 bits"):
            torch.Generator().manual_seed(wrong)
    with pytest.raises(RuntimeError, match="must be an int"):
        torch.Generator().manual_seed(1.5)


def test_wrong_states_and_generators():
    with pytest.raises(TypeError, match="uint8"):
        torch.set_rng_state(torch.zeros(56))
    with pytest.raises(RuntimeError, match="bytes"):
        torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(TypeError, match=r"torch\.Generator"):
        torch.rand(2, generator=3)
    with pytest.raises(RuntimeError, match="no tensor can be made"):
        torch.Generator("cuda")


def test_threads_share_a_stream_without_repeating_it():
    generator = torch.Generator().manual_seed(1)
    drawn = []

    def draw():
        options = {"dtype": torch.float64, "generator": generator}
        drawn.extend(tuple(torch.rand(4, **options).tolist()) for _ in range(50))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 200


# From a size


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_numbers_are_below_one(dtype):
    x = torch.rand(20_000, dtype=getattr(torch, dtype))
    assert x.min() >= 0
    assert x.max() < 1
    mean, std = moments(x)
    assert mean == pytest.approx(0.5, abs=0.01)
    assert std == pytest.approx(math.sqrt(1 / 12), abs=0.01)


def test_narrow_uniform_numbers_are_below_one():
    pytest.importorskip("ml_dtypes")
    assert max(torch.rand(20_000, dtype=torch.bfloat16).tolist()) < 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_normal_numbers(dtype):
    mean, std = moments(torch.randn(20_000, dtype=getattr(torch, dtype)))
    assert mean == pytest.approx(0, abs=0.03)
    assert std == pytest.approx(1, abs=0.03)


def test_complex_normal_numbers_have_variance_one():
    z = torch.randn(20_000, dtype=torch.complex64).numpy()
    assert (abs(z) ** 2).mean() == pytest.approx(1, abs=0.03)
    assert torch.rand(3, dtype=torch.complex128).dtype is torch.complex128


def test_integers_lie_between_their_bounds():
    x = torch.randint(-3, 4, (1000,))
    assert x.dtype is torch.int64
    assert sorted(set(x.tolist())) == list(range(-3, 4))
    assert torch.randint(2, (3,), dtype=torch.float32).dtype is torch.float32
    assert set(torch.randint(2, (100,), dtype=torch.bool).tolist()) == {True, False}
    assert torch.randint(high=5, size=(2,)).shape == (2,)
    assert torch.randint(low=0, high=5, size=(2,)).shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((5, 1, (2,)), {}, RuntimeError),
        ((0, (2,)), {}, RuntimeError),
        ((300, (2,)), {"dtype": torch.uint8}, RuntimeError),
        ((-1, 5, (2,)), {"dtype": torch.uint8}, RuntimeError),
        ((5, (2,)), {"dtype": torch.complex64}, RuntimeError),
        ((5, (2,)), {"requires_grad": True}, RuntimeError),
        ((5.0, (2,)), {}, TypeError),
        ((5, 2), {}, TypeError),
        ((5,), {}, TypeError),
        ((2**63, (2,)), {}, ValueError),
    ],
)
def test_impossible_integers(arguments, options, error):
    with pytest.raises(error):
        torch.randint(*arguments, **options)


def test_integers_that_a_float_cannot_tell_apart_warn():
    with pytest.warns(UserWarning, match="rounded"):
        torch.randint(2**25, (2,), dtype=torch.float32)


def test_permutations():
    assert sorted(torch.randperm(50).tolist()) == list(range(50))
    assert torch.randperm(0).shape == (0,)
    assert torch.randperm(5, dtype=torch.float32).dtype is torch.float32
    with pytest.raises(RuntimeError, match="negative"):
        torch.randperm(-1)
    with pytest.raises(RuntimeError, match="do not fit"):
        torch.randperm(300, dtype=torch.uint8)
    with pytest.raises(NotImplementedError):
        torch.randperm(5, dtype=torch.bool)


def test_continuous_numbers_need_a_continuous_dtype():
    for make in (torch.rand, torch.randn):
        with pytest.raises(NotImplementedError):
            make(2, dtype=torch.int32)


def test_like_keeps_size_dtype_and_order():
    x = torch.ones(2, 3, dtype=torch.float64).T
    for like in (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 5)):
        assert (like.shape, like.dtype, like.stride()) == (x.shape, x.dtype, x.stride())
    assert torch.randint_like(x, 2, 3).tolist() == [[2, 2]] * 3
    assert torch.rand_like(x, requires_grad=True).requires_grad
    with pytest.raises(NotImplementedError):
        torch.rand_like(torch.ones(2, dtype=torch.int32))


def test_out_and_generator():
    out = torch.empty(3)
    generator = torch.Generator().manual_seed(1)
    assert torch.rand(3, out=out, generator=generator) is out
    assert out.tolist() == torch.rand(3, generator=generator.manual_seed(1)).tolist()


# From parameters


def test_normal_takes_numbers_and_tensors():
    mean, std = torch.zeros(3, 1), torch.full((2,), 0.0)
    assert torch.normal(mean, std).shape == (3, 2)
    assert torch.normal(5.0, std).tolist() == [5, 5]
    assert torch.normal(mean, 0.0).shape == (3, 1)
    assert torch.normal(2.0, 0.0, (2,)).tolist() == [2, 2]
    with pytest.raises(TypeError, match="need a size"):
        torch.normal(0.0, 1.0)
    for wrong in (-1.0, float("nan"), torch.tensor([-1.0])):
        with pytest.raises(RuntimeError, match="std"):
            torch.normal(torch.zeros(1), wrong)


def test_draws_have_zero_gradients():
    mean = torch.zeros(3, 1, requires_grad=True)
    std = torch.ones(2, requires_grad=True)
    draws = torch.normal(mean, std)
    assert draws.grad_fn.name() == "NormalBackward3"
    for g in torch.autograd.grad(draws.sum(), (mean, std)):
        assert not g.any()
    p = torch.full((3,), 0.5, requires_grad=True)
    for draws in (torch.bernoulli(p), torch.poisson(p)):
        assert torch.autograd.grad(draws.sum(), p, create_graph=True)[0].tolist() == [0, 0, 0]


def test_bernoulli():
    assert torch.bernoulli(torch.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert torch.bernoulli(torch.zeros(2), 1.0).tolist() == [1, 1]
    assert torch.zeros(2).bernoulli().tolist() == [0, 0]
    mean, _ = moments(torch.bernoulli(torch.full((20_000,), 0.3)))
    assert mean == pytest.approx(0.3, abs=0.02)
    for wrong in (1.5, float("nan")):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            torch.bernoulli(torch.full((2,), wrong))
    with pytest.raises(NotImplementedError):
        torch.bernoulli(torch.ones(2, dtype=torch.int64))


def test_poisson_and_binomial():
    mean, std = moments(torch.poisson(torch.full((20_000,), 4.0)))
    assert mean == pytest.approx(4, abs=0.1)
    assert std == pytest.approx(2, abs=0.1)
    with pytest.raises(RuntimeError, match="negative"):
        torch.poisson(torch.tensor([-1.0]))
    mean, _ = moments(torch.binomial(torch.full((20_000,), 10.0), torch.full((20_000,), 0.3)))
    assert mean == pytest.approx(3, abs=0.1)
    with pytest.raises(ValueError, match="floating point"):
        torch.binomial(torch.ones(1, dtype=torch.int64), torch.ones(1))


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_follows_the_weights(replacement):
    weights = torch.tensor([[1.0, 2.0, 0.0, 1.0]]).expand(20_000, 4)
    drawn = torch.multinomial(weights, 1, replacement).numpy()
    shares = numpy.bincount(drawn.reshape(-1), minlength=4) / len(drawn)
    assert shares.tolist() == pytest.approx([0.25, 0.5, 0, 0.25], abs=0.02)


def test_multinomial_without_replacement_never_repeats():
    rows = torch.multinomial(torch.rand(100, 6) + 0.1, 6).tolist()
    assert all(sorted(row) == list(range(6)) for row in rows)


@pytest.mark.parametrize(
    ("weights", "count", "message"),
    [
        (torch.ones(4), 5, "without replacement"),
        (torch.ones(4), 0, "must be positive"),
        (torch.ones(1, 1, 1), 1, "one row or a matrix"),
        (torch.zeros(4), 1, "above zero"),
        (torch.tensor([1.0, float("nan")]), 1, "finite"),
        (torch.tensor([1.0, -1.0]), 1, "finite and not negative"),
        (torch.ones(4, dtype=torch.int64), 1, "floating point"),
    ],
)
def test_impossible_multinomials(weights, count, message):
    with pytest.raises(RuntimeError, match=message):
        torch.multinomial(weights, count)
    with pytest.raises(TypeError, match="must be int"):
        torch.multinomial(torch.ones(2), 1.0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_no_normal_numbers_are_there_in_every_dtype(dtype):
    """As in torch, which asks for the dtype when it draws the first one."""
    for draw in (
        lambda *size: torch.randn(*size, dtype=dtype),
        lambda *size: torch.randn_like(torch.ones(*size, dtype=dtype)),
        lambda *size: torch.ones(*size, dtype=dtype).normal_(),
        lambda *size: torch.normal(0.0, 1.0, size, dtype=dtype),
    ):
        assert (draw(0, 2).shape, draw(0, 2).dtype) == ((0, 2), dtype)
        with pytest.raises(NotImplementedError):
            draw(1, 2)
    with pytest.raises(NotImplementedError):
        torch.rand(0, dtype=dtype)
