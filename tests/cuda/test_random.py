"""Random numbers on a device: what they are like, and states that tell all of them."""

import numpy
import pytest

import pullback as torch
from tests.cuda import stand_in

pytestmark = pytest.mark.usefixtures("library")

# Philox 4x32-10 of all zeros, of all ones and of digits of pi: the counters, the keys, the words.
KNOWN = [
    (0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
]


@pytest.mark.parametrize(("place", "seed", "words"), KNOWN)
def test_words_are_those_of_philox(library, place, seed, words):
    made = library.philox._words((seed, place, None), 1)
    assert made.get()[0].tolist() == list(words)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_numbers_are_uniform_and_normal(dtype):
    torch.manual_seed(3)
    kind = getattr(torch, dtype)
    x = torch.rand(20001, device="cuda", dtype=kind)
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.double().mean().item() - 0.5) < 0.01
    assert abs(x.double().var().item() - 1 / 12) < 0.005
    y = torch.randn(20001, device="cuda", dtype=kind)
    assert abs(y.double().mean().item()) < 0.03
    assert abs(y.double().var().item() - 1) < 0.04
    pairs = y.double()[:20000].reshape(-1, 2)
    assert abs((pairs[:, 0] * pairs[:, 1]).mean().item()) < 0.04


def test_a_seed_tells_every_number():
    drawn = []
    for _ in range(2):
        torch.manual_seed(11)
        drawn.append([torch.rand(5, device="cuda"), torch.randperm(7, device="cuda")])
    assert all(torch.equal(*pair) for pair in zip(*drawn, strict=True))
    assert not torch.equal(drawn[0][0], torch.rand(5, device="cuda"))


def test_a_state_brings_back_whatever_is_drawn_after_it():
    def draw():
        x = torch.empty(6, device="cuda")
        return [
            torch.rand(3, device="cuda"),
            torch.randn(5, device="cuda", dtype=torch.float64),
            torch.randint(0, 100, (4,), device="cuda"),
            torch.randperm(9, device="cuda"),
            x.clone().exponential_(),
            torch.nn.functional.dropout(torch.ones(50, device="cuda"), 0.5),
        ]

    torch.rand(3, device="cuda")
    state = torch.cuda.get_rng_state()
    assert state.dtype is torch.uint8
    assert state.shape == (16,)
    first = draw()
    torch.cuda.set_rng_state(state)
    assert all(torch.equal(*pair) for pair in zip(first, draw(), strict=True))
    torch.cuda.set_rng_state_all([state])
    assert torch.equal(first[0], torch.rand(3, device="cuda"))
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.cuda.set_rng_state(torch.zeros(7, dtype=torch.uint8))


def test_a_generator_has_seed_state_and_offset():
    g = torch.Generator("cuda").manual_seed(5)
    first = torch.rand(6, device="cuda", generator=g)
    state, offset = g.get_state(), g.get_offset()
    second = torch.rand(6, device="cuda", generator=g)
    g.set_state(state)
    assert torch.equal(second, torch.rand(6, device="cuda", generator=g))
    g.set_offset(offset)
    assert torch.equal(second, torch.rand(6, device="cuda", generator=g))
    g.manual_seed(5)
    assert torch.equal(first, torch.rand(6, device="cuda", generator=g))


@pytest.mark.parametrize("bounds", [(0, 10), (-5, 3), (0, 1 << 40), (-(1 << 62), 1 << 62)])
def test_integers_keep_to_their_bounds(bounds):
    torch.manual_seed(0)
    x = torch.randint(*bounds, (2000,), device="cuda").cpu()
    assert x.min() >= bounds[0]
    assert x.max() < bounds[1]
    middle = (bounds[0] + bounds[1] - 1) / 2
    spread = bounds[1] - bounds[0]
    assert abs(x.double().mean().item() - middle) < 0.05 * spread


def test_other_distributions_have_their_means():
    torch.manual_seed(1)
    x = torch.empty(20000, device="cuda", dtype=torch.float64)
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.02
    assert abs(x.geometric_(0.25).mean().item() - 4) < 0.15
    assert x.min().item() >= 1
    assert abs(x.log_normal_(0.0, 0.5).log().mean().item()) < 0.02
    assert abs(x.cauchy_(3.0).cpu().median().item() - 3) < 0.1
    assert abs(torch.bernoulli(torch.full_like(x, 0.3)).mean().item() - 0.3) < 0.02
    assert abs(torch.poisson(torch.full_like(x, 3.0)).mean().item() - 3) < 0.1
    assert abs(torch._standard_gamma(torch.full_like(x, 2.0)).mean().item() - 2) < 0.1
    assert abs(torch.normal(torch.full_like(x, 2.0), 0.1).mean().item() - 2) < 0.1


@pytest.mark.parametrize(
    "draw",
    [
        torch.poisson,
        torch.bernoulli,
        lambda x: torch.multinomial(x, 2),
        lambda x: torch.binomial(x * 10, x),
        lambda x: torch.normal(x, x),
        torch._sample_dirichlet,
        torch.nn.functional.gumbel_softmax,
        lambda x: torch.nn.functional.gumbel_softmax(x, hard=True),
        lambda x: torch.nn.functional.rrelu(-x, training=True),
        lambda x: torch.nn.functional.dropout(x, 0.5),
        lambda x: torch.nn.functional.alpha_dropout(x, 0.5, True),
        lambda x: torch.nn.functional.fractional_max_pool2d(x.expand(1, 1, 6, 5), 2, 3),
    ],
)
def test_operators_draw_by_the_state_of_the_device(draw):
    x = torch.full((5,), 0.4, device="cuda")
    torch.manual_seed(0)
    here = torch.get_rng_state()
    state = torch.cuda.get_rng_state()
    first = draw(x)
    assert first.is_cuda
    assert torch.equal(torch.get_rng_state(), here)
    assert not torch.equal(torch.cuda.get_rng_state(), state)
    torch.cuda.set_rng_state(state)
    assert torch.equal(draw(x), first)


def test_a_captured_draw_counts_from_where_the_replay_is(library):
    """As a graph does it, without the graph: places come from the device's memory."""
    from pullback.operators.cuda.drawing import Captured, stream_on

    torch.manual_seed(8)
    stream = stream_on(torch.device("cuda"))
    whole = torch.rand(24, device="cuda").cpu()
    torch.manual_seed(8)
    captured = Captured.now = Captured()
    try:
        torch.rand(8, device="cuda")
        with pytest.raises(RuntimeError, match="drawn on the host"):
            torch.randperm(3, device="cuda")
    finally:
        Captured.now = None
    stream.place = 2
    captured.end()
    assert stream.place == 0
    out = library.cupy.ndarray((8,), numpy.float32)
    for start in (0, 8, 16):
        first = stream.place
        captured.begin_replay()
        library.philox.uniform(out, (stream.seed, 0, stream.moved), 0.0, 1.0)
        assert torch.equal(torch.from_dlpack(_host(out)), whole[start : start + 8])
        assert stream.place == first + 2
    assert library.cupy is not stand_in.module or stand_in.transfers["to host"] > 0


def _host(array):
    return array.get()
