"""Functions that take an operator's arguments in another form."""

from __future__ import annotations

import pytest

import pullback as torch
from pullback.operators.adapter import Adapter
from pullback.operators.writing.build import lines_of
from pullback.utils._python_dispatch import TorchDispatchMode


def leaf():
    return torch.arange(24.0, requires_grad=True)


def test_sizes_one_by_one_and_as_one_give_the_same_view():
    x = leaf()
    for view in (x.view(4, 6), x.view((4, 6)), x.view(size=(4, 6)), x.view(-1, 6), x.view([4, 6])):
        assert view.shape == (4, 6)
        assert view._base is x
        assert view.grad_fn.name() == "ViewBackward0"
        assert view.grad_fn.origin.function == (
            "test_sizes_one_by_one_and_as_one_give_the_same_view"
        )


@pytest.mark.parametrize("sizes", [(5, 5), (-1, -1), (4.0, 6), (4, "6"), (), (-1, 7)])
def test_sizes_that_do_not_fit_are_refused_in_both_forms_alike(sizes):
    x = leaf()
    for call in (lambda: x.view(*sizes), lambda: torch.ops.aten.view.default(x, sizes)):
        with pytest.raises((RuntimeError, TypeError)):
            call()


def test_memory_in_two_parts_is_refused():
    with pytest.raises(RuntimeError, match=r"Use reshape\(\) instead"):
        leaf().view(4, 6).t().view(24)
    assert leaf().view(4, 6).t().view(6, 2, 2).shape == (6, 2, 2)


def test_an_int_between_brackets_is_a_row_and_beyond_the_end_an_error():
    x = leaf().view(4, 6)
    assert x[1].grad_fn.name() == "SelectBackward0"
    assert x[-1].tolist() == x.tolist()[-1]
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        x[4]
    with pytest.raises(IndexError, match="0-d tensor"):
        x.sum()[0]
    (x[2] * 2).sum().backward()


def test_who_looks_on_sees_the_operator_with_its_own_arguments():
    seen = []

    class Looks(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), args[1:]))
            return func(*args, **(kwargs or {}))

    x = leaf()
    with Looks():
        x.view(4, 6)[1]
    assert seen == [("aten.view.default", ([4, 6],)), ("aten.select.int", (0, 1))]


def test_a_class_that_takes_calls_is_asked_as_the_method():
    asked = []

    class Asks(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(4).as_subclass(Asks)
    x.view(2, 2)[1]
    assert asked == [torch.Tensor.view, torch.Tensor.__getitem__]


def test_without_the_question_who_looks_on_it_is_the_operator_s_own_function():
    op = torch.select.op
    adapter = Adapter("$input, $index", ["$dim = 0"], "a0[$index, ...]")
    assert lines_of(op, watched=False, adapter=adapter) == lines_of(op, watched=False)


_WHOLE = (slice(None), slice(0, None), slice(None, 9), slice(None, None, 1), slice(0, 6, 1))
_PARTS = (slice(None, 3), slice(1, None), slice(None, -1), slice(None, None, 2), slice(True, 4))


@pytest.mark.parametrize("item", [*_WHOLE, *_PARTS])
def test_a_slice_that_leaves_nothing_out_is_no_step_of_the_history(item):
    x = leaf().view(4, 6)
    taken = x[1:, item]
    assert taken.tolist() == x.detach().numpy()[1:, item].tolist()
    steps = 0
    node = taken.grad_fn
    while node.name() == "SliceBackward0":
        steps, node = steps + 1, node.next_functions[0][0]
    assert steps == (1 if item in _WHOLE else 2)
    assert x[item].tolist() == x.detach().numpy()[item].tolist()


@pytest.mark.parametrize(
    "key", [slice(0.0, None), slice(None, "2"), slice(1, 1.5), slice(1, 2, 2.0)]
)
def test_ends_of_slices_that_are_no_whole_numbers_are_refused(key):
    x = leaf().view(4, 6)
    for call in (lambda: x[key], lambda: x[:, key], lambda: x[key, 1]):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("step", [0, -1])
def test_slices_do_not_run_backwards(step):
    x = leaf().view(4, 6)
    for call in (lambda: x[::step], lambda: x[:, ::step], lambda: x[:, 1::step]):
        with pytest.raises(ValueError, match="must be greater than zero"):
            call()


def test_a_slice_of_a_dimension_that_is_not_there_is_refused():
    with pytest.raises(IndexError, match="too many indices"):
        leaf()[:, 1:3]
    with pytest.raises(IndexError, match="too many indices"):
        leaf()[1, 2]
    with pytest.raises(IndexError, match="0-d tensor cannot be sliced"):
        leaf().sum()[1:]
