"""Small facts of the core that `make mutate` found nobody to notice."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import pullback as torch
from pullback.core import errors, passes, sequence
from pullback.core.node import node_and_number
from tests.leaves import leaf


def test_a_view_whose_base_got_a_history_since_is_no_leaf_to_requires_grad():
    base = torch.zeros(2)
    view = base[0]
    base.add_(leaf())
    with pytest.raises(RuntimeError):
        view.requires_grad_(False)
    assert view.requires_grad
    assert view.grad_fn is not None


def test_next_functions_show_what_torch_has_two_steps_on_too():
    """A linear layer's node takes the form of torch's before somebody looks at where it leads."""
    layer = torch.nn.Linear(2, 2)
    node = (layer(torch.ones(1, 2)) * 2).grad_fn
    ((inner, _),) = [pair for pair in node.next_functions if pair[0] is not None]
    assert any(type(node_and_number(edge)[0]).__name__ == "TBackward0" for edge in inner._edges)
    assert [type(one).__name__ for one, _ in inner.next_functions if one is not None] == [
        "AccumulateGrad",
        "TBackward0",
    ]


def test_out_of_several_results_must_have_as_many():
    x = torch.arange(4.0)
    for count in (1, 3):
        with pytest.raises(RuntimeError, match=f"out has {count} tensors for 2 results"):
            torch.split_copy(x, 2, out=tuple(torch.empty(2) for _ in range(count)))
    halves = torch.empty(2), torch.empty(2)
    torch.split_copy(x, 2, out=halves)
    assert [half.tolist() for half in halves] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="out takes a tuple"):
        torch.split_copy(x, 2, out=torch.empty(2))


def test_numbers_of_the_root_are_told_where_its_gradient_does_not_fit():
    engine = torch.autograd.Variable._execution_engine
    y = leaf() * 2
    with pytest.raises(RuntimeError, match="MulBackward0"):
        engine.run_backward((y,), (torch.ones(3),), False, False, (), True, accumulate_grad=True)
    engine.run_backward((y,), (torch.ones(4, 2),), False, False, (), True, accumulate_grad=True)


def test_sums_over_no_dims_are_views_of_the_shape():
    from pullback.engine.fitting import summed

    g = np.arange(6).reshape(2, 3, 1)  # integers: neither few sums nor half precision
    assert summed(g, (), (2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_room_of_the_package_is_the_module_itself_and_what_is_in_it():
    from pullback.core.home import is_in_package

    assert is_in_package("pullback.nn", "nn")
    assert is_in_package("pullback.nn.modules", "optim", "nn")
    assert is_in_package("pullback")
    assert not is_in_package("pullback.nnx", "nn")
    assert not is_in_package("pullbacks.nn")


def test_a_pass_that_served_leaves_early_is_freed_without_the_collector():
    """What serves them knows the request, and the request knows it."""
    x = leaf()
    y = x * 2
    seen = []

    def look(g):
        seen.append((x.grad, weakref.ref(passes.running.get())))

    y.register_hook(look)
    gc.collect()
    gc.disable()
    try:
        (y * y).sum().backward()
        # A second root takes the slow path.
        z = x * 2
        z.register_hook(look)
        torch.autograd.backward([(z * z).sum(), z.sum()])
        assert [request() for _, request in seen] == [None, None]
    finally:
        gc.enable()


def test_grad_fn_itself_shows_what_torch_has():
    node = torch.nn.Linear(2, 2)(torch.ones(1, 2)).grad_fn
    assert any(type(node_and_number(edge)[0]).__name__ == "TBackward0" for edge in node._edges)


def test_a_retained_gradient_counts_as_a_hook():
    y = leaf() * 2
    assert y.grad_fn._cold is None
    y.retain_grad()
    assert y.grad_fn._cold.has_hooks


def test_numbers_that_users_give_nodes_order_them_when_there_are_threads():
    def other():
        (leaf() * 2).grad_fn._sequence_nr()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert sequence.numbered(5) < sequence.numbered(4) < 0
    assert [sequence.shown(sequence.numbered(one)) for one in (0, 5)] == [0, 5]
    assert sequence.numbered(5) < sequence.numbered(4) - 2**20  # whatever thread has which


def test_limits_of_integers_are_plain_ints():
    for name in ("uint8", "int8", "int64"):
        limits = torch.iinfo(getattr(torch, name))
        assert type(limits.min) is type(limits.max) is int


def test_options_that_are_no_bools_are_refused_by_name():
    with pytest.raises(TypeError, match="argument `keepdim` must be bool, got str"):
        raise errors.not_a_bool("sum", "keepdim", "yes")
