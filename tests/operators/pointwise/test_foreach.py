"""`_foreach_` functions: the operator on each tensor of a list, alone or with numbers and lists."""

import pytest

import pullback as torch


def tensors():
    return [torch.tensor([1.0, 2.0]), torch.tensor([[0.5]])]


def lists(values):
    return [value.tolist() for value in values]


def test_each_tensor_is_computed_as_the_operator_does():
    assert lists(torch._foreach_sqrt(tensors())) == lists([x.sqrt() for x in tensors()])
    assert lists(torch._foreach_norm(tensors(), 1)) == [3.0, 0.5]


@pytest.mark.parametrize("other", [2.0, [2.0, 2.0], torch.tensor(2.0)])
def test_a_number_a_list_or_a_scalar_tensor_stands_beside(other):
    assert lists(torch._foreach_mul(tensors(), other)) == [[2.0, 4.0], [[1.0]]]


def test_in_place_forms_write_and_give_the_list_back():
    mine = tensors()
    assert torch._foreach_add_(mine, tensors(), alpha=2) is mine
    assert lists(mine) == [[3.0, 6.0], [[1.5]]]
    torch._foreach_addcdiv_(mine, tensors(), tensors(), torch.tensor([1.0, 2.0]))
    assert lists(mine) == [[4.0, 7.0], [[3.5]]]
    torch._foreach_lerp_(mine, tensors(), weight=1.0)
    assert lists(mine) == lists(tensors())
    torch._foreach_zero_(mine)
    assert lists(mine) == [[0.0, 0.0], [[0.0]]]


def test_gradients_flow_through():
    x = torch.ones(2, requires_grad=True)
    torch._foreach_pow([x], 3.0)[0].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_lists_must_fit():
    for call, error, said in (
        (lambda: torch._foreach_add(tensors(), [1.0]), RuntimeError, "2 tensors, but 1 of them"),
        (lambda: torch._foreach_add(tensors(), torch.ones(2)), RuntimeError, "must be 0-d"),
        (lambda: torch._foreach_neg([]), RuntimeError, "list of tensors is empty"),
        (lambda: torch._foreach_neg(1), TypeError, "takes a list of tensors, got int"),
        (lambda: torch._foreach_neg([1]), TypeError, "takes a list of tensors, found int"),
    ):
        with pytest.raises(error, match=said):
            call()
