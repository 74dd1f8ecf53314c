"""Rules written out as lines give what the rules give, and only where that can be told."""

import linecache

import numpy as np
import pytest

import pullback as torch
from pullback.core.writer import named
from pullback.operators.declare import elementwise
from pullback.operators.linalg import products
from pullback.operators.pointwise import arithmetic, extrema, trigonometry
from pullback.operators.pointwise import exponentials as pointwise
from pullback.operators.reduce import sums as reduction
from pullback.operators.writing.inline import inlined


def lines_of(function, name, *, tensors=False):
    op = function.op
    found = inlined(op, next(p for p in op.params if p.name == name), "t")
    if found is None:
        return None
    return named(found.tensor_lines if tensors else found.array_lines)[0].splitlines()


def test_a_product_rule_becomes_one_line_without_the_conjugate():
    assert lines_of(arithmetic.mul, "input") == ["t0 = g * other"]


def test_on_tensors_the_operator_is_called_itself():
    assert lines_of(arithmetic.mul, "input", tensors=True) == ["t0 = tc0(g, other)"]


def test_a_matrix_rule_transposes_in_line():
    assert lines_of(products.mm, "input") == ["t0 = tc0(mat2)", "t1 = tc1(g, t0)"]


def test_a_rule_that_asks_for_shapes_is_called():
    assert lines_of(reduction._sum_full, "input") is None


def test_a_rule_that_branches_on_values_is_called():
    @elementwise(input=lambda g, input: g if input else -g, name="_branching", method=False)
    def branching(xp, input: "Array"):  # noqa: F821 (declarations read annotations as text)
        return input

    assert lines_of(branching, "input") is None


def test_a_rule_is_taken_at_the_usual_value_of_its_options():
    op = arithmetic.add.op
    found = inlined(op, op.params[1], "t")
    assert (found.array_lines, found.result, list(found.usual)) == ([], "g", ["alpha"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
@pytest.mark.parametrize(
    "function",
    [
        arithmetic.mul,
        arithmetic.true_divide,
        lambda a, b: arithmetic.add(a, b, alpha=3),
        lambda a, b: pointwise.sigmoid(a) * trigonometry.tanh(b),
        lambda a, b: products.mm(a, b),
        lambda a, b: a * 2 - 3 * b,
    ],
)
def test_written_lines_agree_with_the_rules(function, dtype):
    draw = np.random.default_rng(0)
    values = draw.standard_normal((2, 3, 3)) + 1j * draw.standard_normal((2, 3, 3))
    a, b = torch.tensor(values if dtype.is_complex else values.real, dtype=dtype)
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    if dtype is not torch.float32:
        torch.autograd.gradcheck(function, (a, b))
        torch.autograd.gradgradcheck(function, (a, b))
    y = function(a, b)
    once = torch.autograd.grad(y, (a, b), torch.ones_like(y), retain_graph=True)
    again = torch.autograd.grad(y, (a, b), torch.ones_like(y), create_graph=True)
    assert all(torch.equal(p, q) and p.dtype is q.dtype for p, q in zip(once, again, strict=True))


def test_the_absolute_value_of_a_complex_number_keeps_its_rule():
    z = torch.tensor([3 + 4j, -1j], requires_grad=True)
    z.abs().sum().backward()
    assert torch.allclose(z.grad, torch.tensor([0.6 + 0.8j, -1j]))


def test_tracebacks_and_debuggers_see_the_written_lines():
    y = torch.ones(2, requires_grad=True) * 2
    torch.einsum("i,j->ij", y, y)  # whose node has the same name
    written = type(y.grad_fn)._run.__code__.co_filename
    assert written == "<pullback mul: MulBackward0._run>"
    assert "g * other" in "".join(linecache.getlines(written))


def test_maximum_shares_ties_after_inlining_too():
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([1.0, 1.0], requires_grad=True)
    extrema.maximum(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 1.0]
    assert b.grad.tolist() == [0.5, 0.0]
