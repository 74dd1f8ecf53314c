"""The node at the end of a composite goes by the name that torch has for the whole."""

import pullback as torch
from pullback.operators.running.naming import shown_as


def test_the_last_node_is_shown_by_the_name_of_the_whole():
    x = torch.randn(3, requires_grad=True)
    loss = torch.nn.functional.huber_loss(x, torch.zeros(3))
    assert type(loss.grad_fn).__name__ == "HuberLossBackward0"
    assert loss.grad_fn.name() == "HuberLossBackward0"


def test_a_name_does_not_change_the_gradient_nor_other_nodes():
    x = torch.arange(3.0).requires_grad_()
    (plain,) = torch.autograd.grad((x * x).sum(), x)
    (named,) = torch.autograd.grad(shown_as("Whole", (x * x).sum()), x)
    assert named.equal(plain)
    assert type((x * x).sum().grad_fn).__name__ == "SumBackward0"


def test_what_has_no_history_stays_as_it_is():
    x = torch.ones(2)
    assert shown_as("Whole", x) is x
    leaf = torch.ones(2, requires_grad=True)
    assert shown_as("Whole", leaf).is_leaf
