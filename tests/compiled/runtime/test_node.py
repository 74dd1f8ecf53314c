"""The node of a compiled call: what it keeps of the tensors around it, and asks of them."""

import pytest
from pullback._dynamo import explain

import pullback as torch


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def gradients(module):
    return [None if p.grad is None else p.grad.tolist() for p in module.parameters()]


def test_gradients_accumulate_between_a_call_and_its_backward():
    results = []
    for compiled in (False, True):
        module = net()
        module(torch.ones(3, 4)).sum().backward()  # so that there are gradients when it is captured
        run = torch.compile(module) if compiled else module
        for _ in range(2):
            first, second = run(torch.ones(3, 4)), run(torch.full((3, 4), 0.5))
            first.square().sum().backward()
            second.square().sum().backward()
        results.append(torch.cat([p.grad.reshape(-1) for p in module.parameters()]))
    assert torch.allclose(*results, rtol=1e-5)


def test_a_program_that_looks_at_no_gradient_serves_calls_with_and_without():
    module = net()
    compiled = torch.compile(module)
    for step in range(4):
        if step % 2:
            module.zero_grad()
        compiled(torch.ones(3, 4)).sum().backward()
    assert len(vars(compiled)["_compiled"].entries) == 1


def test_a_parameter_that_is_frozen_between_calls_gets_no_gradient():
    results = []
    for compiled in (False, True):
        module = net()
        run = torch.compile(module) if compiled else module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        seen = []
        for step in range(6):
            module[0].bias.requires_grad_(step < 2)
            loss = run(torch.ones(3, 4)).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += [loss.item(), module[0].bias.grad is None]
        results.append(seen)
    assert results[1] == pytest.approx(results[0], rel=1e-5)


def test_a_write_to_what_the_backward_does_not_read_is_allowed():
    module, x = net(), torch.ones(3, 4)
    out = torch.compile(module)(x)
    with torch.no_grad():
        module[0].weight.add_(1)  # `x` needs no gradient
    out.sum().backward()
    expected = net()
    expected(x).sum().backward()
    assert torch.allclose(module[0].weight.grad, expected[0].weight.grad, rtol=1e-5)


def test_a_write_to_what_the_backward_reads_is_refused():
    module, x = net(), torch.ones(3, 4)
    out = torch.compile(module)(x)
    with torch.no_grad():
        module[2].weight.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        out.sum().backward()


def test_explain_takes_a_module():
    assert explain(net())(torch.ones(3, 4)).graph_count == 1
