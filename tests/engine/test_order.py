"""In which order nodes run, and that it is always the same (rows E-62 to E-68)."""

from __future__ import annotations

import warnings

import pytest

import pullback as torch
from pullback import _C
from pullback.autograd import Function, backward
from tests.leaves import double_leaf as leaf

pytestmark = pytest.mark.usefixtures("both_passes")


def watch(log, **tensors):
    for name, tensor in tensors.items():
        if tensor.is_leaf:
            tensor.register_post_accumulate_grad_hook(lambda _, name=name: log.append(name))
        else:
            tensor.grad_fn.register_prehook(lambda _, name=name: log.append(name))


class Nothing(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return None


def test_a_node_runs_once_when_all_have_delivered_even_nothing():
    """E-62"""
    x = leaf(2.0)
    y = x * 1
    log = []
    y.register_hook(lambda g: log.append(g.item()))
    (Nothing.apply(y) + y * 3 + y * 4).backward()
    assert log == [7]
    assert x.grad.item() == 7


def test_the_newest_node_runs_first_and_leaves_before_everything():
    """E-63"""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2
    b = a * y
    log = []
    watch(log, x=x, y=y, a=a, b=b)
    b.backward()
    assert log == ["b", "y", "a", "x"]


def test_several_roots_are_ordered_by_age_not_by_position():
    """E-64"""
    x = leaf(2.0)
    a, b, c = x * 2, x * 3, x * 4
    log = []
    watch(log, a=a, b=b, c=c)
    backward([b, a, c])
    assert log == ["c", "b", "a"]


def test_equal_numbers_run_in_a_fixed_order(monkeypatch):
    """E-65"""
    from pullback.core.sequence import numbering

    monkeypatch.setattr(numbering, "changed", False)
    orders = set()
    for _ in range(3):
        x = leaf(2.0)
        a, b, c = x * 2, x * 3, x * 4
        for t in (a, b, c):
            t.grad_fn._set_sequence_nr(10)
        log = []
        watch(log, a=a, b=b, c=c)
        (a + b + c).backward()
        orders.add(tuple(log))
        assert x.grad.item() == 9
    assert len(orders) == 1


def test_results_repeat_bit_by_bit():
    """E-67"""
    results = set()
    for _ in range(3):
        x = torch.linspace(0.1, 1.7, 9, requires_grad=True)
        y = x.sin() * 1.1
        for k in range(30):
            y = y + (x * (0.1 * k)).exp() * y.cos()
        y.sum().backward()
        results.add(x.grad.numpy().tobytes())
    assert len(results) == 1


def test_the_order_can_be_asked_for():
    """E-68"""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2
    b = a * y
    orders = []
    b.register_hook(lambda g: orders.append(_C._current_graph_task_execution_order()))
    with pytest.raises(RuntimeError, match="multithreading"):
        b.backward(retain_graph=True)
    with torch.autograd.set_multithreading_enabled(False):
        b.backward()
    assert [type(node).__name__ for node in orders[0]] == [
        "MulBackward0",
        "AccumulateGrad",
        "MulBackward0",
        "AccumulateGrad",
    ]
    assert orders[0][1].variable is y
    assert orders[0][3].variable is x
    with pytest.raises(RuntimeError, match="during a backward"):
        _C._current_graph_task_execution_order()


def test_a_hook_sees_the_grad_of_leaves_that_are_complete():
    """E-63: a leaf is served as soon as the last node that leads to it has run."""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2
    b = a * y
    c = b * x
    log = []

    def look(name):
        return lambda g: log.append((name, x.grad, y.grad and y.grad.item()))

    for name, tensor in (("a", a), ("b", b), ("c", c)):
        tensor.register_hook(look(name))
    c.backward()
    assert log == [("c", None, None), ("b", None, None), ("a", None, 8.0)]
    assert (x.grad.item(), y.grad.item()) == (24, 8)


def test_a_leaf_that_a_hook_resets_loses_what_had_arrived():
    """E-63"""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2

    def reset(g):
        assert y.grad.item() == 4
        y.grad = None

    a.register_hook(reset)
    (a * y).backward()
    assert y.grad is None
    assert x.grad.item() == 6


def test_unpack_hooks_and_functions_see_complete_leaves_too():
    """E-63"""
    x, y = leaf(2.0), leaf(3.0)
    seen = []

    class Looks(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(y.grad.item())
            return g * 2

    def unpack(t):
        seen.append(y.grad and y.grad.item())
        return t

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        square = x * x
        product = Looks.apply(square) * y
    product.backward()
    assert seen == [None, None, 8, 8, 8]


def test_a_nested_pass_adds_after_what_has_arrived():
    """E-63, E-142: the order of additions is the same in every pass, so every bit is."""
    totals = set()
    for _ in range(2):
        x, y = leaf(0.1), leaf(0.3)
        y.grad = torch.tensor([0.7], dtype=torch.float64)
        a = x * 1.1
        a.register_hook(lambda g, y=y: torch.enable_grad()(lambda: y * 1e-17)().backward())
        (a * y).backward()
        totals.add(y.grad.item())
    assert totals == {(0.7 + 0.1 * 1.1) + 1e-17}


def test_a_recorded_pass_shows_complete_leaves_too():
    """E-63, E-94"""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2
    seen = []

    def look(g):
        with torch.no_grad():
            seen.append(y.grad)

    a.register_hook(look)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (a * y).backward(create_graph=True)
    assert seen[0] is y.grad
    assert y.grad.requires_grad
    assert y.grad.item() == 4
    x.grad = y.grad = None


def test_leaves_of_passes_around_a_nested_one_are_seen():
    """E-63, E-138"""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2
    seen = []

    def nest(g):
        with torch.enable_grad():
            inner = leaf(1.0) * 2
        inner.register_hook(lambda g: seen.append((x.grad, y.grad.item())))
        inner.backward()

    a.register_hook(nest)
    (a * y).backward()
    assert seen == [(None, 4)]


def test_a_pass_inside_a_pass_runs_to_its_end_first():
    """E-66"""
    x, other = leaf(2.0), leaf(3.0)
    a = x * 2
    b = a * 3
    log = []
    watch(log, a=a, b=b)

    def nest(g):
        with torch.enable_grad():
            c = other * 2
            d = c * 3
        watch(log, c=c, d=d)
        d.backward()
        log.append("back")

    b.register_hook(nest)
    b.backward()
    assert log == ["d", "c", "back", "b", "a"]


@pytest.mark.parametrize("order", ["as made", "turned round", "mixed"])
def test_many_branches_run_newest_first_in_whatever_order_they_are_joined(order):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    places = list(range(40))
    branches = [x * (place + 1) for place in places]
    log = []
    for place, branch in enumerate(branches):
        branch.register_hook(lambda g, place=place: log.append(place))
    joined = {
        "as made": places,
        "turned round": places[::-1],
        "mixed": places[::3] + places[2::3] + places[1::3][::-1],
    }[order]
    first, last = joined[0], joined[-1]
    # And two more, for which the others have to wait.
    more = [branches[5] * 2, branches[first] + branches[last]]
    torch.stack([*(branches[place] for place in joined), *more]).sum().backward()
    assert log == places[::-1]
    expected = sum(range(1, 41)) + 2 * 6 + (first + 1) + (last + 1)
    assert x.grad.tolist() == [expected, expected]
