"""functionalize: the same function, whose operators change nothing in place (T-108, F-106)."""

import pytest

import pullback as torch
from pullback.func import functionalize, grad, hessian, jvp, vmap
from pullback.utils._python_dispatch import TorchDispatchMode

tensor = torch.tensor


class Log(TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func).split(".")[1])
        return func(*args, **(kwargs or {}))


def writes(x):
    y = x.clone()
    y.add_(1)
    part = y[0]
    part.mul_(2)
    y[1:] = 5.0
    y.index_put_((tensor([2]),), tensor([7.0]))
    return y.view(-1) * x.sum()


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


VIEWS = {"select", "slice", "view", "as_strided", "alias", "expand", "permute", "unsqueeze"}


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_what_watches_operators_sees_no_writes(remove):
    """T-108"""
    x = tensor([1.0, 2.0, 3.0])
    with Log() as log:
        made = functionalize(writes, remove=remove)(x)
    assert same(made, writes(x))
    assert not [name for name in log.names if name.endswith("_")]
    assert {"add", "mul", "fill", "index_put"} <= set(log.names)
    assert bool(VIEWS & set(log.names)) == (remove == "mutations")


def test_without_it_writes_are_seen():
    """T-108: or the test above could not fail."""
    with Log() as log:
        writes(torch.ones(3))
    assert "add_" in log.names


def test_arguments_are_written_at_the_end():
    """T-108"""
    seen = []
    value = tensor([1.0, 2.0])

    def f(v):
        v.add_(1)
        seen.append(value.tolist())
        return v, v * 2

    with Log() as log:
        first, second = functionalize(f)(value)
    assert seen == [[1, 2]]
    assert first is value
    assert value.tolist() == [2, 3]
    assert second.tolist() == [4, 6]
    assert log.names[-1] == "copy_"
    with pytest.raises(RuntimeError, match="mutations_and_views"):
        functionalize(f, remove="views")


def test_functionalize_nests_with_other_transforms():
    """T-39, T-108"""
    x = tensor([1.0, 2.0, 3.0])
    batch = torch.stack([x, 2 * x])

    def total(v):
        return writes(v * 1).sum()

    for f in (functionalize(total), functionalize(functionalize(total))):
        assert same(grad(f)(x), grad(total)(x))
        assert same(jvp(f, (x,), (x,))[1], jvp(total, (x,), (x,))[1])
        assert same(vmap(f)(batch), vmap(total)(batch))
        assert same(hessian(f)(x), hessian(total)(x))
    assert same(functionalize(grad(total))(x), grad(total)(x))
    assert same(functionalize(vmap(total))(batch), vmap(total)(batch))
    assert same(functionalize(vmap(grad(total)))(batch), vmap(grad(total))(batch))
    leaf = x.clone().requires_grad_()
    functionalize(total)(leaf).backward()
    assert same(leaf.grad, grad(total)(x))


def test_random_numbers_and_factories_work_inside():
    """T-108"""

    def f(v):
        noise = torch.zeros(3).normal_()
        return torch.nn.functional.dropout(v + noise + torch.rand(3), 0.5)

    torch.manual_seed(0)
    made = functionalize(f)(torch.ones(3))
    torch.manual_seed(0)
    assert same(made, f(torch.ones(3)))


def test_level_is_closed_after_an_exception():
    """T-39"""

    def fails(v):
        raise KeyError

    with pytest.raises(KeyError):
        functionalize(fails)(torch.ones(2))
    with Log() as log:
        torch.ones(2).add_(1)
    assert "add_" in log.names


class Doubles(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(v):
        return v * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_custom_function_is_refused():
    """F-106"""
    with pytest.raises(RuntimeError, match="functionalize: Doubles"):
        functionalize(Doubles.apply)(torch.ones(2))
    with pytest.raises(RuntimeError, match="inside functionalize"):
        functionalize(lambda v: v.requires_grad_())(torch.ones(2))
