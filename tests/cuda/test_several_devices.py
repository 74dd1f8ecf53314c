"""Tensors on two devices: results stay where their inputs are, gradients find their way back.

On the stand-in alone, which refuses work on arrays of another device than the current one: CuPy's
results are on the current device, wherever its operands are.
"""

import sys

import pytest

import pullback as torch
from pullback.operators.cuda import found as finding
from tests.cuda import stand_in
from tests.cuda.stand_in import devices


@pytest.fixture(autouse=True)
def two():
    before = {name: sys.modules.get(name) for name in stand_in.MODULES}
    sys.modules.update(stand_in.MODULES)
    devices.current.count = 2
    finding.use(stand_in.module, stand_in.cupyx, 2)
    yield
    torch.cuda.streams._end()
    finding.forget()
    devices.current.count, devices.current.device = 1, 0
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module


def test_results_are_where_their_inputs_are():
    assert torch.cuda.device_count() == 2
    x = torch.arange(4.0, device="cuda:1")
    for y in (x * 2, x.exp().sum(), x[1:], x.reshape(2, 2) @ x.reshape(2, 2), torch.cat([x, x])):
        assert y.device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert torch.ones(2, device="cuda").device.index == 1
        assert (torch.ones(2, device="cuda:0") + 1).device.index == 0


def test_inputs_of_two_devices_are_refused():
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")


def test_writes_in_place_stay_there():
    x = torch.zeros(4, device="cuda:1")
    x += 1
    x.mul_(3).add_(torch.ones(4, device="cuda:1"))
    x[0] = 7
    x[1:].fill_(2)
    assert x.tolist() == [7, 2, 2, 2]
    assert x.device.index == 1


def test_gradients_cross_from_device_to_device_and_back():
    torch.manual_seed(0)
    w = torch.randn(3, 3, dtype=torch.float64)
    v = torch.randn(3, 3, dtype=torch.float64)

    def program(first, second):
        a = w.clone().to(first).requires_grad_()
        b = v.clone().to(second).requires_grad_()
        h = (a @ a).tanh() * a
        out = (h.to(second) @ b).sin() + b
        (out.sum() + out.to(first).exp().sum().to(second)).backward()
        return a.grad, b.grad

    expected = program("cpu", "cpu")
    found = program("cuda:0", "cuda:1")
    assert [one.device.index for one in found] == [0, 1]
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one.cpu(), other)
    again = program("cuda:1", "cuda:0")
    assert [one.device.index for one in again] == [1, 0]
    assert torch.cuda.current_device() == 0


def test_gradients_add_up_on_their_own_device():
    x = torch.ones(3, device="cuda:1", requires_grad=True)
    for _ in range(3):
        (x * x + x.exp().detach() * x).sum().backward()
    assert x.grad.device.index == 1
    assert torch.allclose(x.grad.cpu(), 3 * (2 + torch.exp(torch.ones(3))))


def test_a_model_over_two_devices_trains():
    first, second = torch.nn.Linear(4, 5).to("cuda:0"), torch.nn.Linear(5, 2).to("cuda:1")
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.1)
    x, target = torch.randn(6, 4, device="cuda:0"), torch.zeros(6, dtype=torch.int64).to("cuda:1")
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(second(first(x).relu().to("cuda:1")), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_each_device_has_its_own_memory_and_numbers():
    torch.cuda.reset_peak_memory_stats(1)
    before = torch.cuda.memory_allocated(1)
    x = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda:1")
    assert torch.cuda.memory_allocated(1) - before == 1 << 20
    del x
    assert torch.cuda.max_memory_allocated(1) - before == 1 << 20
    torch.cuda.manual_seed_all(3)
    states = torch.cuda.get_rng_state_all()
    assert len(states) == 2
    drawn = torch.rand(3, device="cuda:1")
    assert torch.equal(torch.cuda.get_rng_state(0), states[0])
    assert not torch.equal(torch.cuda.get_rng_state(1), states[1])
    torch.cuda.set_rng_state(states[1], "cuda:1")
    assert torch.equal(torch.rand(3, device="cuda:1"), drawn)


def test_transforms_work_there_too():
    x = torch.ones(3, device="cuda:1")
    assert torch.func.grad(lambda y: (y * y).sum())(x).device.index == 1
    assert torch.func.vmap(lambda y: y * 2)(x).device.index == 1
    _, tangent = torch.func.jvp(torch.sin, (x,), (x,))
    assert tangent.device.index == 1
