"""A memory budget on a device: what is put out goes to the host, and comes back bit for bit."""

import pytest

import pullback as torch

functional = torch.nn.functional


def nets():
    layers = [one for _ in range(6) for one in (torch.nn.Linear(16, 16), torch.nn.GELU())]
    chain = torch.nn.Sequential(*layers).cuda()
    x = torch.randn(32, 16).cuda()
    yield chain, lambda: chain(x).square().mean()
    convolve = torch.nn.ModuleList(torch.nn.Conv2d(2, 2, 3, padding=1) for _ in range(4)).cuda()
    image = torch.randn(2, 2, 6, 6).cuda()

    def skipping():
        y = image
        for one in convolve:
            y = y + functional.relu(one(y), inplace=True)
            y.mul_(0.5)
        return y.square().mean()

    yield convolve, skipping


@pytest.mark.parametrize("spill", [True, False])
def test_bounds_are_kept_with_the_same_bits(library, spill):
    torch.manual_seed(0)
    for net, loss in nets():

        def step(budget, net=net, loss=loss):
            net.zero_grad()
            with budget:
                made = loss()
            made.backward()
            return [made.tolist(), *(one.grad.tolist() for one in net.parameters())]

        whole = torch.autograd.graph.memory_budget("1 GiB")
        wanted = step(whole)
        for share in (0.8, 0.6, 0.5):
            budget = torch.autograd.graph.memory_budget(int(share * whole.last.saved), spill=spill)
            assert all(step(budget) == wanted for _ in range(3))
            assert all(one.peak <= one.bound for one in budget.steps)
            assert all(one.calls or one.spilled for one in budget.steps)


def test_what_is_put_out_is_on_the_host(library):
    """Random numbers are not computed again, so there is one way alone."""
    torch.manual_seed(0)
    x = torch.randn(1000).cuda().requires_grad_()

    def step(budget):
        x.grad = None
        torch.manual_seed(1)
        with budget:
            y = x
            for _ in range(6):
                y = y * torch.rand(1000, device="cuda")
            made = y.sum()
        made.backward()
        return x.grad.tolist()

    whole = torch.autograd.graph.memory_budget("1 GiB")
    wanted = step(whole)
    budget = torch.autograd.graph.memory_budget(whole.last.saved // 2)
    assert step(budget) == step(budget) == wanted
    assert budget.last.spilled
    assert budget.last.peak <= budget.bound
