"""Control flow under the names that graphs have for it."""

import pytest

import pullback as torch
from pullback.torch_names.functorch.experimental import control_flow

ops = torch.ops.higher_order


def test_each_is_one_object_with_a_name():
    assert ops.cond is ops.cond
    assert ops.cond.name() == "cond"
    assert "higher_order.cond" in repr(ops.cond)
    with pytest.raises(AttributeError):
        _ = ops.no_such_operator


@pytest.mark.parametrize("holds", [True, False])
def test_cond_takes_one_branch(holds):
    x = torch.ones(2, requires_grad=True)
    made = ops.cond(torch.tensor(holds), lambda x: x * 3, lambda x: x - 1, (x,))
    made.sum().backward()
    assert x.grad.tolist() == [3.0 if holds else 1.0] * 2
    assert control_flow.cond is torch.cond


def test_while_loop_hands_values_on():
    made = ops.while_loop(
        lambda i, x, step: i < 3,
        lambda i, x, step: (i + 1, x + step),
        (torch.tensor(0), torch.ones(2)),
        (torch.tensor(2.0),),
    )
    assert [one.tolist() for one in made] == [3, [7.0, 7.0]]


def test_scan_gives_carries_and_steps_with_gradients():
    x = torch.arange(4.0).requires_grad_()
    carry, ys = ops.scan(
        lambda c, x, k: [c + x * k, c * x], [torch.tensor(0.0)], [x], [torch.tensor(2.0)]
    )
    assert carry.item() == 12
    assert ys.tolist() == [0.0, 0.0, 4.0, 18.0]
    (carry + ys.sum()).backward()
    c, z = torch.tensor(0.0), torch.arange(4.0).requires_grad_()
    total = torch.tensor(0.0)
    for one in z:
        total = total + c * one
        c = c + one * 2
    (c + total).backward()
    assert x.grad.tolist() == z.grad.tolist()


def test_associative_scan_and_map_with_gradients():
    x = torch.arange(1.0, 5.0).requires_grad_()
    (products,) = ops.associative_scan(lambda a, b: [a * b], [x])
    assert products.tolist() == [1.0, 2.0, 6.0, 24.0]
    (doubled,) = ops.map_impl(lambda x, k: [x * k], [x], [torch.tensor(2.0)])
    assert doubled.tolist() == [2.0, 4.0, 6.0, 8.0]
    (products.sum() + doubled.sum()).backward()
    assert x.grad.tolist() == [35.0, 18.0, 12.0, 8.0]


def test_functions_as_steps_of_a_graph():
    x = torch.tensor([2.0], requires_grad=True)
    assert ops.wrap(lambda a, b: a * b, x, 3).item() == 6
    assert ops.invoke_subgraph(lambda a: (a + 1,), "same", x)[0].item() == 3
    assert ops.strict_mode(lambda a: a * 2, (x,)).item() == 4
    assert not ops.wrap_with_set_grad_enabled(False, lambda a: a * 2, x).requires_grad
    with torch.no_grad():
        assert ops.wrap_with_set_grad_enabled(True, lambda a: a * 2, x).requires_grad


def test_what_a_checkpoint_keeps_is_computed_again():
    runs = []

    def function(x):
        runs.append(x)
        return x.sin().exp()

    x = torch.tensor([2.0], requires_grad=True)
    made = ops.tag_activation_checkpoint(function, x, use_reentrant=False)
    made.backward()
    assert len(runs) == 2
    assert torch.allclose(x.grad, x.detach().cos() * x.detach().sin().exp())


def test_products_of_small_integers_in_larger_ones():
    a = torch.full((2, 2), 100, dtype=torch.int8)
    made = ops.out_dtype(torch.ops.aten.mm.default, torch.int32, a, a)
    assert made.dtype == torch.int32
    assert made[0, 0] == 20000
