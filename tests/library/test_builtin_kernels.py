"""Kernels of users for operators that are there already."""

import gc
import threading
import warnings

import pytest

import pullback as torch
from pullback.core.mode import fast
from pullback.core.process import warning_once
from pullback.library.low_level import _scoped_library


@pytest.fixture
def lib():
    with _scoped_library("aten", "IMPL") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield made
    assert fast.plain is not None, "operators are back on their fast path"


X = torch.tensor([1.0, 2.0])


def test_a_kernel_takes_the_place_of_the_built_in_one(lib):
    lib.impl("sum", lambda x: x, "CPU")
    i = torch.tensor([1, 2])
    for made in (torch.sum(i), i.sum(), torch.ops.aten.sum(i), torch.ops.aten.sum.default(i)):
        assert made.tolist() == [1, 2]
    assert i.sum(0).item() == 3  # another overload


def test_it_is_warned_of_once(monkeypatch):
    monkeypatch.setattr(warning_once, "_given", set())
    with _scoped_library("aten", "IMPL") as lib:
        with pytest.warns(UserWarning, match="takes the place"):
            lib.impl("neg", lambda x: x, "CPU")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lib.impl("abs", lambda x: x, "CPU")


def test_the_built_in_kernel_comes_back_when_the_library_goes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lib = torch.library.Library("aten", "IMPL")
        lib.impl("neg", lambda x: x * 10, "CPU")
        assert (-X).tolist() == [10.0, 20.0]
        del lib
        gc.collect()
    assert (-X).tolist() == [-1.0, -2.0]
    assert fast.plain is not None


def test_of_several_kernels_the_last_one_counts_while_it_lives(lib):
    lib.impl("neg", lambda x: x * 10, "CPU")
    with _scoped_library("aten", "IMPL") as inner:
        inner.impl("neg", lambda x: x * 100, "CPU")
        assert (-X).tolist() == [100.0, 200.0]
    assert (-X).tolist() == [10.0, 20.0]


def test_history_is_the_operators_own_and_backward_meets_the_kernel(lib):
    lib.impl("neg", lambda x: x * 10, "CPU")
    y = X.clone().requires_grad_()
    made = -y
    assert type(made.grad_fn).__name__ == "NegBackward0"
    assert torch.autograd.grad(made.sum(), y)[0].tolist() == [10.0, 10.0]


def test_a_kernel_above_autograd_is_differentiated_itself(lib):
    lib.impl("neg", lambda x: x * 7, "AutogradCPU")
    y = X.clone().requires_grad_()
    made = -y
    assert type(made.grad_fn).__name__ == "MulBackward0"
    assert torch.autograd.grad(made.sum(), y)[0].tolist() == [7.0, 7.0]


@pytest.mark.parametrize("key", ["CompositeImplicitAutograd", "CompositeExplicitAutograd", "CUDA"])
def test_what_a_built_in_kernel_outranks_changes_nothing(lib, key):
    lib.impl("neg", lambda x: x * 7, key)
    assert (-X).tolist() == [-1.0, -2.0]
    assert fast.plain is not None


def test_in_place_forms_and_out_are_overloads_of_their_own(lib):
    lib.impl("mul.Tensor", lambda a, b: a + b, "CPU")
    assert (X * X).tolist() == [2.0, 4.0]
    assert (X * 3).tolist() == [4.0, 5.0]
    assert X.clone().mul_(X).tolist() == [1.0, 4.0]
    assert torch.mul(X, X, out=torch.empty(2)).tolist() == [1.0, 4.0]
    lib.impl("mul_.Tensor", lambda a, b: a.add_(b), "CPU")
    y = X.clone()
    assert y.mul_(X) is y
    assert y.tolist() == [2.0, 4.0]


def test_inside_a_kernel_its_operator_is_the_built_in_one(lib):
    lib.impl("abs", lambda x: torch.ops.aten.abs.default(x) * 2, "CPU")
    lib.impl("neg", lambda x: abs(x) + 1, "CPU")
    assert abs(-X).tolist() == [6.0, 10.0]


def test_what_is_made_of_other_operators_is_refused(lib):
    with pytest.raises(NotImplementedError, match="made of other operators"):
        lib.impl("matmul", lambda a, b: a, "CPU")
    assert fast.plain is not None


def test_other_threads_and_vmap_meet_it_too(lib):
    lib.impl("neg", lambda x: x * 10, "CPU")
    made = []
    thread = threading.Thread(target=lambda: made.append((-X).tolist()))
    thread.start()
    thread.join()
    assert made == [[10.0, 20.0]]
    assert torch.vmap(torch.neg)(X).tolist() == [10.0, 20.0]
