"""Array functions in parts, on several threads: the same results, to the last bit."""

import inspect

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import large as module
from pullback.operators.arrays.large import LARGE, add_large, is_elementwise, large
from pullback.operators.arrays.threads import setting
from pullback.operators.declare import OPERATORS
from pullback.operators.writing import build
from pullback.operators.writing.nodes import node_class

ROWS, COLUMNS = 700, 800  # more than LARGE in all, and no power of two


@pytest.fixture
def threads_of():
    before, products = setting.count, torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(products)
    setting.count = before


def numbers(*shape, dtype="f"):
    made = numpy.random.default_rng(0).standard_normal(shape) * 3
    return made.astype(dtype)


def operands():
    x = numbers(ROWS, COLUMNS)
    flipped = numbers(COLUMNS, ROWS).T
    return {
        "one": (numpy.tanh, x),
        "two": (numpy.multiply, x, x + 1),
        "a number": (numpy.add, x, numpy.array(1.5, "f")),
        "a number first": (numpy.subtract, numpy.array(1.5, "f"), x),
        "a Python number": (numpy.multiply, x, 2.5),
        "a row": (numpy.add, x, x[3].copy()),
        "a column": (numpy.divide, x, x[:, 5:6].copy()),
        "a row of one dimension more": (numpy.add, x, x[None, 3:4].copy()),
        "one that is larger": (numpy.add, x[:1].copy(), x),
        "one number, repeated": (numpy.multiply, numpy.broadcast_to(x[0, 0], x.shape), x),
        "nothing but one number": (numpy.multiply, numpy.broadcast_to(x[0, 0], x.shape), x[0, :1]),
        "another order": (numpy.add, flipped, flipped),
        "two orders": (numpy.multiply, x, flipped),
        "every other": (numpy.exp, numbers(ROWS, 2 * COLUMNS)[:, ::2]),
        "a comparison": (numpy.less, x, x[::-1].copy()),
        "few rows": (numpy.exp, x.reshape(1, -1)),
        "double": (numpy.sin, x.astype("d")),
        "mixed": (numpy.add, x, x.astype("d")),
        "whole numbers": (numpy.floor_divide, (x * 99).astype("l"), (x * 7).astype("l") | 1),
        "complex": (numpy.multiply, x + 1j, x - 2j),
        "half": (numpy.multiply, x.astype("e"), x.astype("e")),
    }


@pytest.mark.parametrize("name", operands())
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_give_what_the_whole_gives(name, threads, threads_of):
    threads_of(threads)
    ufunc, *given = operands()[name]
    with numpy.errstate(all="ignore"):
        expected, made = ufunc(*given), large(ufunc, *given)
    assert (made.shape, made.dtype, made.strides) == (
        expected.shape,
        expected.dtype,
        expected.strides,
    )
    assert made.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["two", "a number", "a row", "a column", "two orders"])
def test_parts_are_written_in_place(name, threads_of):
    threads_of(2)
    ufunc, *given = operands()[name]
    expected = ufunc(*given)
    target = given[0]
    assert large(ufunc, *given, out=target) is target
    assert target.tobytes() == expected.tobytes()


def test_what_is_read_and_written_is_not_cut(threads_of):
    threads_of(2)
    memory = numbers(ROWS * COLUMNS + 1)
    expected = memory[1:] + memory[:-1]
    large(numpy.add, memory[1:], memory[:-1], out=memory[1:])
    assert memory[1:].tobytes() == expected.tobytes()


def test_sums_of_gradients_of_any_size(threads_of):
    threads_of(2)
    for shape in ((3,), (ROWS, COLUMNS)):
        a, b = numbers(*shape), numbers(*shape) + 1
        expected = a + b
        assert add_large(a, b, a) is a
        assert a.tobytes() == expected.tobytes()


def test_only_elementwise_functions_are_cut():
    assert is_elementwise(numpy.add)
    assert not is_elementwise(numpy.matmul)
    assert not is_elementwise(numpy.frexp)
    assert not is_elementwise(numpy.sum)


def step(x, w):
    y = (x * 1.5 + w).tanh() * x
    y = torch.exp(-y) / (x * x + 2.0) - w.sqrt()
    g = torch.autograd.grad(y, [x, w], torch.ones_like(y))
    with torch.no_grad():
        y.mul_(0.5).add_(w).sub_(x)
    return [one.detach().numpy().tobytes() for one in (y, *g)]


def test_operators_and_their_gradients_do_not_depend_on_the_number_of_threads(
    threads_of, monkeypatch
):
    x = torch.tensor(numbers(ROWS, COLUMNS), requires_grad=True)
    w = torch.tensor(numpy.abs(numbers(ROWS, COLUMNS)) + 1, requires_grad=True)
    threads_of(1)
    expected = step(x, w)
    cut, each = [], module.each
    monkeypatch.setattr(module, "each", lambda work, parts: (cut.append(parts), each(work, parts)))
    for threads in (2, 3):
        threads_of(threads)
        assert step(x, w) == expected
    assert len(cut) > 20
    threads_of(1)
    cut.clear()
    assert step(x, w) == expected
    assert not cut


def test_lines_ask_for_the_size_once_several_threads_are_wanted(threads_of, monkeypatch):
    op = OPERATORS["mul"]
    monkeypatch.setattr(setting, "splits", False)
    assert "LARGE" not in build.source_of(op)
    torch.mul(torch.ones(2, requires_grad=True), 2)
    threads_of(2)
    assert setting.splits
    assert "LARGE" in build.source_of(op)
    assert "LARGE" in inspect.getsource(node_class(op)._run)
    assert "LARGE" not in build.source_of(torch.softmax.op)


def test_large_tensors_of_other_kinds_are_computed_as_ever(threads_of):
    threads_of(2)
    meta = torch.ones(ROWS, COLUMNS, device="meta", requires_grad=True)
    assert (meta * meta).shape == (ROWS, COLUMNS)
    x = torch.eye(ROWS).to_sparse().requires_grad_()
    assert ((x * 2).to_dense() == 2 * torch.eye(ROWS)).all()
    many = torch.ones(2, LARGE)
    made = torch.vmap(torch.exp)(many)
    assert (made == torch.exp(many)).all()
