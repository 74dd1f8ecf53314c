"""Writing the values of a tensor into one that is on another kind of device."""

import pytest

import pullback as torch

pytestmark = pytest.mark.usefixtures("library")


def test_copies_go_both_ways_broadcast_and_cast():
    there = torch.zeros(2, 3, device="cuda")
    there.copy_(torch.tensor([1, 2, 3]))
    assert there.is_cuda
    assert there.cpu().tolist() == [[1.0, 2.0, 3.0]] * 2
    here = torch.zeros(3, 2, dtype=torch.float64)
    assert here.T.copy_(there).tolist() == [[1.0, 2.0, 3.0]] * 2
    with pytest.raises(RuntimeError, match=r"\(4,\) cannot be broadcast to \(2, 3\)"):
        there.copy_(torch.zeros(4))


def test_a_state_of_the_host_loads_into_a_module_on_a_device():
    state = torch.nn.Linear(3, 2).state_dict()
    module = torch.nn.Linear(3, 2).cuda()
    module.load_state_dict(state)
    assert module.weight.is_cuda
    assert torch.equal(module.weight.detach().cpu(), state["weight"])


@pytest.mark.parametrize(("source", "target"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_gradients_go_back_to_where_the_source_is(source, target):
    x = torch.tensor([1.0, 2.0], device=source, requires_grad=True)
    y = torch.zeros(3, 2, device=target).copy_(x) * 2
    y.sum().backward()
    assert x.grad.device == x.device
    assert x.grad.tolist() == [6.0, 6.0]
