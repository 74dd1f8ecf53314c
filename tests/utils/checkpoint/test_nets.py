"""Random networks give the same gradients checkpointed as plain: exactly the same numbers."""

import gc
import random
import tracemalloc

import numpy
import pytest

import pullback as torch
from pullback.utils.checkpoint import checkpoint, checkpoint_sequential, set_checkpoint_early_stop

functional = torch.nn.functional


def linear(weight):
    return lambda t: functional.linear(t, weight)


def normalised(weight):
    return lambda t: functional.layer_norm(t, (t.shape[-1],), weight[0])


def dropped(_):
    return lambda t: functional.dropout(t, 0.4)


def written(weight):
    def step(t):
        t = t * 1
        t.mul_(weight[0]).add_(1)
        t[..., 0] = t[..., 1] * 2
        return t.relu_() + t.sum(-1, keepdim=True).sigmoid()

    return step


def attention(weight):
    def step(t):
        scores = (t @ t.transpose(-1, -2)).softmax(-1)
        return scores @ t + weight[1]

    return step


def branched(weight):
    def step(t):
        a, b = t.chunk(2, -1)
        return torch.cat([a.tanh() * weight[0, :2], functional.gelu(b)], -1)

    return step


def extreme(_):
    return lambda t: t - t.max(-1, keepdim=True).values.exp() * 0.01


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t * 0.1

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * t * 0.2


def squared(_):
    return Squared.apply


KINDS = (linear, normalised, dropped, written, attention, branched, extreme, squared)


def grouped(steps, numbers, variant, depth=0):
    """The steps in random groups; some groups are checkpointed, with groups inside."""

    def run(t):
        for step in steps:
            t = step(t)
        return t

    if len(steps) < 2 or depth > 2:
        return run
    cuts = sorted(numbers.sample(range(1, len(steps)), k=min(len(steps) - 1, 2)))
    parts = [
        grouped(steps[a:b], numbers, variant, depth + 1)
        for a, b in zip([0, *cuts], [*cuts, len(steps)], strict=True)
    ]
    wrapped = [numbers.random() < 0.7 for _ in parts]

    def in_parts(t):
        for part, kept in zip(parts, wrapped, strict=True):
            t = variant(part, t) if kept else part(t)
        return t

    return in_parts


def gradients(seed, variant, passes=1):
    numbers = random.Random(seed)
    source = numpy.random.default_rng(seed)
    weights = [torch.tensor(source.standard_normal((4, 4)), requires_grad=True) for _ in range(9)]
    x = torch.tensor(source.standard_normal((3, 4)), requires_grad=True)
    steps = [numbers.choice(KINDS)(weight) for weight in weights]
    net = grouped(steps, numbers, variant)
    torch.manual_seed(seed)
    out = net(x)
    after = torch.rand(2).tolist()
    for number in range(passes):
        out.sum().backward(retain_graph=number < passes - 1)
    given = [None if t.grad is None else t.grad.numpy().copy() for t in (x, *weights)]
    return out.detach().numpy(), given, after


def plain(function, t):
    return function(t)


VARIANTS = {
    "non-reentrant": lambda f, t: checkpoint(f, t, use_reentrant=False),
    "without early stop": lambda f, t: checkpoint(f, t, use_reentrant=False, early_stop=False),
    "without check": lambda f, t: checkpoint(f, t, use_reentrant=False, determinism_check="none"),
    "reentrant": lambda f, t: checkpoint(f, t, use_reentrant=True),
}


# Inside a reentrant checkpoint another one runs without grad mode, and warns; as in torch.
@pytest.mark.filterwarnings("ignore:checkpoint.use_reentrant=True")
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("seed", range(25))
def test_gradients_are_identical(variant, seed):
    """G-65, G-67, G-89: with dropout, writes, custom Functions, and checkpoints in checkpoints."""
    out, given, drawn = gradients(seed, variant)
    expected_out, expected, expected_drawn = gradients(seed, plain)
    numpy.testing.assert_array_equal(out, expected_out)
    assert drawn == expected_drawn
    for ours, theirs in zip(given, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            # Sums over re-run parts may be added in another order.
            numpy.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_a_retained_graph_gives_the_same_again(seed):
    """G-74."""
    _, once, _ = gradients(seed, VARIANTS["non-reentrant"])
    _, twice, _ = gradients(seed, VARIANTS["non-reentrant"], passes=2)
    for a, b in zip(once, twice, strict=True):
        if a is not None:
            numpy.testing.assert_allclose(2 * a, b, rtol=1e-12)


@pytest.mark.parametrize("reentrant", [True, False])
def test_sequential_gives_the_same(reentrant):
    """G-102."""
    source = numpy.random.default_rng(0)
    weights = [torch.tensor(source.standard_normal((4, 4)), requires_grad=True) for _ in range(7)]
    x = torch.tensor(source.standard_normal((3, 4)), requires_grad=True)
    steps = [kind(weight) for kind, weight in zip(KINDS, weights, strict=False)]
    results = []
    for segments in (1, 2, 3, 7):
        torch.manual_seed(3)
        checkpoint_sequential(steps, segments, x, use_reentrant=reentrant).sum().backward()
        results.append([t.grad.tolist() for t in (x, weights[0])])
        for t in (x, *weights):
            t.grad = None
    assert all(one == results[0] for one in results)


# Memory ------------------------------------------------------------------------------------------


def peak(step):
    gc.collect()
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        step()
        return tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()


def test_a_deep_net_needs_less_than_half_of_the_memory():
    """G-65: 24 layers in 6 parts."""
    weights = [torch.randn(64, 64).mul_(0.1).requires_grad_() for _ in range(24)]
    x = torch.randn(4096, 64)

    def layers(start, end):
        def run(t):
            for weight in weights[start:end]:
                t = functional.linear(t.relu(), weight)
            return t

        return run

    def step(size):
        t = x
        for start in range(0, 24 - size, size):
            t = checkpoint(layers(start, start + size), t, use_reentrant=False)
        t = layers(24 - size, 24)(t)
        t.sum().backward()
        for weight in weights:
            weight.grad = None

    step(4)
    assert peak(lambda: step(4)) <= 0.45 * peak(lambda: step(24))


def test_memory_is_flat_without_the_collector():
    """No cycle is left, whatever the variant."""
    weights = [torch.randn(8, 8).requires_grad_() for _ in range(4)]

    def step():
        t = torch.randn(16, 8).requires_grad_()
        inner = lambda u: checkpoint(linear(weights[1]), u.sin(), use_reentrant=False)  # noqa: E731 (kept by name)
        t = checkpoint(lambda u: inner(functional.linear(u, weights[0])), t, use_reentrant=False)
        t = checkpoint(linear(weights[2]), t, use_reentrant=True)
        with set_checkpoint_early_stop(False):
            t = checkpoint(linear(weights[3]), t, use_reentrant=False)
        t.sum().backward()
        for weight in weights:
            weight.grad = None

    step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(20):
            step()
        assert len(gc.get_objects()) - before < 20
    finally:
        gc.enable()
