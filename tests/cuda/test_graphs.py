"""Captured work, replayed: steps, whole training, functions with gradients."""

import pytest

import pullback as torch
from tests.cuda.conftest import needs_device

pytestmark = needs_device


@pytest.fixture(autouse=True)
def _streams_end(device):
    yield
    torch.cuda.streams._end()


def warmed(step, times=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


def test_a_replay_reads_and_writes_the_memory_of_the_capture():
    x = torch.arange(4.0, device="cuda")
    warmed(lambda: torch.sin(x) * 2 + x.sum())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.sin(x) * 2 + x.sum()
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert torch.allclose(y, torch.sin(x) * 2 + x.sum())


def test_gradients_are_replayed_into_the_same_memory():
    w = torch.randn(64, 64, device="cuda", requires_grad=True)
    x = torch.randn(8, 64, device="cuda")

    def step():
        w.grad = None
        torch.nn.functional.gelu(x @ w).square().mean().backward()

    warmed(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    captured = w.grad
    x.copy_(torch.randn(8, 64, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    replayed = captured.clone()
    step()
    assert torch.allclose(replayed, w.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("optimizer_class", "options"),
    [("SGD", {"lr": 0.1}), ("Adam", {"capturable": True}), ("AdamW", {"capturable": True})],
)
def test_a_training_step_is_captured_whole(optimizer_class, options):
    torch.manual_seed(0)
    nets = [
        torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)).cuda()
        for _ in range(2)
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.randn(8, 16, device="cuda")
    target = torch.randint(0, 4, (8,), device="cuda")
    steps = []
    for net in nets:
        optimizer = getattr(torch.optim, optimizer_class)(net.parameters(), **options)

        def step(net=net, optimizer=optimizer):
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    warmed(steps[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = steps[0]()
    for _ in range(4):
        graph.replay()
    for _ in range(3 + 4):
        other = steps[1]()
    assert loss.item() == pytest.approx(other.item(), rel=1e-4)
    for one, two in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.allclose(one, two, rtol=1e-3, atol=1e-5)


def test_each_replay_draws_other_numbers():
    x = torch.ones(1000, device="cuda")
    warmed(lambda: torch.nn.functional.dropout(x, 0.5))
    state = torch.cuda.get_rng_state()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.nn.functional.dropout(x, 0.5)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    drawn = []
    for _ in range(3):
        graph.replay()
        drawn.append(y.clone())
    assert not torch.equal(drawn[0], drawn[1])
    torch.cuda.set_rng_state(state)
    for one in drawn:
        assert torch.equal(torch.nn.functional.dropout(x, 0.5), one)


def test_graphed_callables_have_gradients():
    net = torch.nn.Linear(8, 8).cuda()
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    expected = net(x).tanh()
    expected.sum().backward()
    wanted = net.weight.grad.clone()
    net.weight.grad = x.grad = None
    graphed = torch.cuda.make_graphed_callables(net, (torch.randn(4, 8, device="cuda"),))
    result = graphed(x).tanh()
    assert torch.allclose(result, expected, rtol=1e-4, atol=1e-6)
    result.sum().backward()
    assert torch.allclose(net.weight.grad, wanted, rtol=1e-4, atol=1e-6)


def test_the_default_stream_is_not_captured():
    with pytest.raises(RuntimeError, match="default stream"):
        torch.cuda.CUDAGraph().capture_begin()
