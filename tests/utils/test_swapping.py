"""swap_tensors, and graphs that knew the tensors before."""

import weakref

import pytest

import pullback as torch
from pullback.utils import swap_tensors


@pytest.fixture
def converting_by_swaps():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.usefixtures("converting_by_swaps")
def test_a_module_is_converted_while_a_graph_has_its_parameters():
    module = torch.nn.Linear(2, 3)
    weight, result = module.weight, module(torch.ones(2, 2))
    module.double()
    assert module.weight is weight
    assert weight.dtype is torch.float64
    with pytest.raises(RuntimeError, match="swap_tensors"):
        result.sum().backward()
    module(torch.ones(2, 2).double()).sum().backward()
    assert torch.equal(weight.grad, torch.full((3, 2), 2.0).double())


@pytest.mark.usefixtures("converting_by_swaps")
def test_state_is_loaded_while_a_graph_has_the_parameters():
    module = torch.nn.Linear(2, 3)
    result = module(torch.ones(2, 2))
    result.sum().backward()
    module.load_state_dict({name: one * 2 for name, one in module.state_dict().items()})
    module(torch.ones(2, 2)).sum().backward()
    assert torch.equal(module.bias.grad, torch.full((3,), 2.0))


@pytest.mark.filterwarnings("ignore:.*create_graph")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_graph_never_adds_to_what_took_a_leafs_place(create_graph):
    a, b = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    result = (a * 2).sum()
    swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="another tensor in the place of a leaf"):
        result.backward(create_graph=create_graph)
    assert a.grad is b.grad is None
    (a * 3 + b).sum().backward()
    assert a.grad.tolist() == [3, 3]
    assert b.grad.tolist() == [1, 1]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_graph_never_computes_with_what_took_a_saved_tensors_place(requires_grad):
    """It did, silently: zeros in the place of ones."""
    x = torch.ones(2, requires_grad=requires_grad)
    leaf = torch.ones(2, requires_grad=True)
    result = (leaf * x).sum()
    swap_tensors(x, torch.zeros(2))
    with pytest.raises(RuntimeError, match="swap_tensors"):
        torch.autograd.grad(result, leaf)


def test_hooks_go_where_their_tensor_goes():
    seen = []
    a, b = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    a.register_hook(lambda g: g * 5)
    a.register_post_accumulate_grad_hook(seen.append)
    swap_tensors(a, b)
    (a + b).sum().backward()
    assert a.grad.tolist() == [1, 1]
    assert b.grad.tolist() == [5, 5]
    assert [one is b for one in seen] == [True]


def test_a_tensor_that_something_refers_to_weakly_stays():
    a, b = torch.ones(2), torch.zeros(2)
    kept = weakref.ref(a)
    with pytest.raises(RuntimeError, match="weakly"):
        swap_tensors(a, b)
    assert kept() is a
