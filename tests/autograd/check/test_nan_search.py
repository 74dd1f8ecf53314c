"""detect_nan() names the operator that makes the first NaN, and costs nothing when off."""

from __future__ import annotations

import threading

import numpy
import pytest

import pullback as torch
from pullback.autograd import Function, detect_nan
from pullback.autograd.check.nan_search import NanError
from pullback.engine import request as entry
from tests.leaves import double_leaf as leaf


def found(work, **options):
    with pytest.raises(NanError) as caught, detect_nan(**options):
        work()
    return caught.value


def test_it_names_the_operator_its_line_and_the_ranges():
    x = leaf(1.0, 2.0, 0.5)

    def work():
        y = x - 2
        z = y.log()  # this one
        return z * 2

    error = found(work)
    assert error.operator == "log"
    assert error.origin.source == "z = y.log()  # this one"
    lines = str(error).splitlines()
    assert lines[0].startswith("log made 2 NaN at test_nan_search.py:")
    assert lines[1] == "  from input: float64[3] from -1.5 to 0"
    assert lines[2].endswith("the first at index (0,)")


ONES = torch.ones(3)


@pytest.mark.parametrize(
    ("operator", "work"),
    [
        ("true_divide", lambda: (ONES * 0) / (ONES * 0)),
        ("sqrt", lambda: (ONES * -1).sqrt()),
        ("sqrt_", lambda: (ONES * -1).sqrt_()),
        ("sub", lambda: (ONES / 0) - (ONES / 0)),
        ("matmul", lambda: (ONES[None] / 0) @ (ONES[:, None] * 0)),
        ("softmax", lambda: torch.softmax(ONES / 0, 0)),
    ],
)
def test_operators_that_make_nan(operator, work):
    assert found(work).operator in (operator, f"_{operator}", "mm")


@pytest.fixture(params=["plain", "ordered", "recorded"])
def way(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")
    return request.param


def run(way, loss, x):
    if way == "recorded":
        return torch.autograd.grad(loss, x, create_graph=True)
    return loss.backward()


def test_a_backward_that_makes_nan_is_named_with_its_forward_line(way):
    x = leaf(0.0, 4.0)
    y = x.sqrt()  # forward
    loss = (y * torch.tensor([0.0, 1.0], dtype=torch.float64)).sum()
    error = found(lambda: run(way, loss, x))
    if way == "recorded":
        assert any("SqrtBackward0" in note for note in error.__notes__)
        return
    assert error.operator == "the backward of SqrtBackward0"
    assert error.node is y.grad_fn
    assert error.origin.source == "y = x.sqrt()  # forward"
    assert "gradient: float64[2] from 0 to 1" in str(error)
    assert "saved result: float64[2] from 0 to 2" in str(error)


def test_a_custom_backward_that_makes_nan_is_named():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return torch.from_numpy(numpy.full(g.shape, numpy.nan))

    x = leaf(1.0)
    error = found(lambda: Bad.apply(x).backward())
    assert error.operator == "the backward of BadBackward"


def test_masked_nan_inside_an_operator_are_no_nan():
    x = leaf(0.0, 1.0)
    with detect_nan():
        torch.where(x > 0, x, 0 * x).sum().backward()
        torch.special.xlogy(torch.zeros(2), torch.zeros(2))
        (x * 1e308 * 10).sum()
    assert x.grad.tolist() == [0.0, 1.0]


def test_nan_from_outside_are_passed_over():
    x = torch.tensor([float("nan"), 1.0], requires_grad=True)
    with detect_nan():
        y = (x * 2).exp().sum()
        y.backward()
    assert x.grad.isnan().tolist() == [True, False]


def test_infinities_are_searched_if_asked_for():
    x = leaf(0.0, 1.0)
    with detect_nan():
        x.log()
    error = found(lambda: x.log(), inf=True)
    assert "inf or NaN" in str(error)
    assert found(lambda: (x * 1000).exp(), inf=True).operator == "exp"


def test_other_threads_are_watched_for_what_leaves_no_flag():
    errors = []

    def work():
        x = torch.full((2, 2), float("inf"))
        try:
            torch.softmax(x, 0)
        except NanError as error:
            errors.append(error.operator)

    with detect_nan():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(30)
    assert errors in (["softmax"], ["_softmax"])


def test_nothing_is_left_when_it_is_over():
    product = torch.ones(1, 1, requires_grad=True) @ torch.ones(1, 1)
    mm_node = type(product.grad_fn)
    code, run = torch.softmax.__code__, vars(mm_node)["_run"]
    before = numpy.geterr()
    with detect_nan():
        with detect_nan(inf=True):
            pass
        torch.ones(1) * 2
        assert numpy.geterr()["invalid"] == "call"
    assert torch.softmax.__code__ is code
    assert vars(mm_node)["_run"] is run
    assert numpy.geterr() == before
    with pytest.raises(NanError), detect_nan():
        torch.tensor(-1.0).sqrt()
    assert torch.softmax.__code__ is code
    assert vars(mm_node)["_run"] is run
    assert torch.tensor(-1.0).sqrt().isnan()


def test_it_takes_a_bool():
    with pytest.raises(TypeError, match="bool"):
        detect_nan(inf=1)


def test_a_nan_that_came_of_an_infinity_names_who_made_that():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with pytest.raises(NanError) as caught, torch.autograd.detect_nan():
        (x**2).sqrt().sum().backward()
    assert caught.value.operator == "the backward of PowBackward0"
    assert "began in the backward of SqrtBackward0 at test_nan_search.py" in str(caught.value)


def test_an_infinity_of_the_forward_is_named_too():
    x = torch.tensor([0.0, 1.0])
    with torch.autograd.detect_nan():
        y = x.reciprocal()
        with pytest.raises(NanError, match="began in reciprocal at"):
            y - y


def test_infinities_that_were_given_began_nowhere():
    x = torch.tensor([float("inf"), 1.0])
    with pytest.raises(NanError) as caught, torch.autograd.detect_nan():
        x - x
    assert "began" not in str(caught.value)
