"""Streams and events, and backward passes over several of them."""

import pytest

import pullback as torch
from tests.cuda.conftest import needs_device

pytestmark = needs_device


@pytest.fixture(autouse=True)
def _streams_end(device):
    yield
    torch.cuda.streams._end()


def test_streams_wait_for_one_another():
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.ones(1 << 20, device="cuda")
    one.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(one):
        assert torch.cuda.current_stream() == one
        for _ in range(50):
            x.mul_(1.0001)
    other.wait_stream(one)
    with torch.cuda.stream(other):
        y = x.clone()
    torch.cuda.current_stream().wait_stream(other)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert y[0].item() == pytest.approx(1.0001**50, rel=1e-4)


def test_events_measure_and_order():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    torch.ones(1 << 22, device="cuda").exp()
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0


def test_nodes_run_on_the_stream_of_their_forward():  # E-156, B-96
    seen = []

    class Noting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(torch.cuda.current_stream())
            return g * 2

    side = torch.cuda.Stream()
    x = torch.ones(1 << 20, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = Noting.apply(x * 3).exp()
    torch.cuda.current_stream().wait_stream(side)
    before = torch.cuda.current_stream()
    y.sum().backward()
    assert torch.cuda.current_stream() == before
    assert seen == [side]
    expected = 6 * torch.exp(torch.tensor(6.0))
    assert torch.allclose(x.grad, expected.cuda().expand(1 << 20), rtol=1e-5)


def test_gradients_of_two_streams_are_summed_after_both():  # B-97, E-157, E-158
    x = torch.ones(1 << 22, device="cuda", requires_grad=True)
    parts = []
    for factor in (2.0, 3.0):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x
            for _ in range(20):
                y = y * 1.0
            parts.append((y * factor).sum())
        torch.cuda.current_stream().wait_stream(side)
    for _ in range(5):
        x.grad = None
        (parts[0] + parts[1]).backward(retain_graph=True)
        assert (x.grad == 5).all()


def test_memory_that_another_stream_reads_is_kept():
    side = torch.cuda.Stream()
    x = torch.ones(1 << 22, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        total = x.sum()
    x.record_stream(side)
    del x
    torch.zeros(1 << 22, device="cuda")
    side.synchronize()
    assert total.item() == 1 << 22
