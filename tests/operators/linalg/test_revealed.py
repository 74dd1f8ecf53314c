"""The transpose of a linear layer's weight, which graph walks meet."""

import pytest

import pullback as torch
from pullback.nn import functional as F  # noqa: N812 (as everybody calls it)


def walk(node):
    return [node.name(), *(walk(following) for following, _ in node.next_functions if following)]


LEAF = ["torch::autograd::AccumulateGrad"]


def layer(biased):
    torch.manual_seed(0)
    x, w = (torch.randn(*size, requires_grad=True) for size in ((3, 2), (4, 2)))
    b = torch.randn(4, requires_grad=True) if biased else None
    return x, w, b


def test_the_graph_of_a_linear_layer_has_the_transpose_of_its_weight():
    x, w, b = layer(True)
    assert walk(F.linear(x, w, b).grad_fn) == ["AddmmBackward0", LEAF, LEAF, ["TBackward0", LEAF]]
    assert walk(F.linear(x, w).grad_fn) == ["MmBackward0", LEAF, ["TBackward0", LEAF]]
    assert walk(F.linear(x, w.detach()).sum().grad_fn)[0] == "SumBackward0"
    inner = walk(F.linear(F.linear(x, w, b), torch.ones(2, 4, requires_grad=True)).grad_fn)
    assert inner[1][0] == "AddmmBackward0"


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("create_graph", [True, False])
def test_gradients_are_the_same_after_a_look(biased, create_graph):
    def gradients(look):
        x, w, b = layer(biased)
        y = F.linear(x, w, b)
        if look:
            walk(y.grad_fn)
        inputs = [x, w] + ([b] if biased else [])
        made = torch.autograd.grad((y * y).sum(), inputs, create_graph=create_graph)
        if create_graph:
            return torch.autograd.grad(sum((g * g).sum() for g in made), inputs[:2])
        return made

    for one, other in zip(gradients(True), gradients(False), strict=True):
        assert torch.allclose(one, other)


def test_hooks_on_the_transpose_see_its_gradient():
    x, w, b = layer(True)
    y = F.linear(x, w, b)
    addmm = y.grad_fn
    transpose = addmm.next_functions[2][0]
    seen = []
    transpose.register_prehook(lambda grads: seen.append(tuple(grads[0].shape)))
    transpose.register_hook(lambda into, out: seen.append(tuple(into[0].shape)))
    addmm.register_hook(lambda into, out: seen.append([tuple(one.shape) for one in into[1:]]))
    y.sum().backward()
    assert seen == [[(3, 2), (2, 4)], (2, 4), (4, 2)]
    assert w.grad.shape == (4, 2)
    again = F.linear(x, w, b)
    walk(again.grad_fn)
    x.grad = w.grad = b.grad = None
    again.sum().backward()
    plain = torch.autograd.grad(F.linear(x, w, b).sum(), (x, w, b))
    for one, leaf in zip(plain, (x, w, b), strict=True):
        assert torch.allclose(one, leaf.grad)
