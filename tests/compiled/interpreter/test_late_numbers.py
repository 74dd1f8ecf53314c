"""Numbers that vary are carried along, or pinned, wherever Python's operators meet them."""

import itertools
import operator

import numpy
import pytest

import pullback as torch

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge,
    divmod, max, min, operator.is_,
]  # fmt: skip
OTHERS = [2, 2.0, 2.5, True, 2j, numpy.float64(2.5), numpy.float32(2), numpy.int64(2)]
CONTAINERS = [
    lambda other, n: (other, 1) < (n, 1),
    lambda other, n: [(other,)] == [(n,)],
    lambda other, n: {"a": other} == {"a": n},
    lambda other, n: sorted([(other, 0), (n, 1)])[0][1],
    lambda other, n: other in [n, 7],
    lambda other, n: n in (other, 7),
    lambda other, n: [7, n, 9].index(other) if n == other else -1,
    lambda other, n: sum([n, other]),
    lambda other, n: max([other, n]),
    lambda other, n: max(((other, 0), (n, 1)))[1],
    lambda other, n: f"{n}" == f"{other}",
    lambda other, n: {n: 1.0}.get(other, 2.0),
    lambda other, n: float(n) + other,
    lambda other, n: round(n / 3, 1) * other,
    lambda other, n: abs(-n) ** 0.5 + other,
]


def counted(wrap, compute, start, step):
    state = {"n": start}

    @wrap
    def run(x):
        state["n"] += step
        made = compute(state["n"])
        if isinstance(made, tuple):
            made = made[0] - made[1]
        return x * complex(made).real, made * 1

    return [[one.tolist() if isinstance(one, torch.Tensor) else one for one in run(torch.ones(2))]
            for _ in range(5)]  # fmt: skip


def compare(compute, start, step):
    def outcome(wrap):
        try:
            return counted(wrap, compute, start, step)
        except TypeError as error:
            return type(error)

    expected = outcome(lambda run: run)
    assert outcome(lambda run: torch.compile(run, backend="python")) == expected


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: f"{type(one).__name__} {one}")
@pytest.mark.parametrize("function", OPERATORS, ids=lambda one: one.__name__)
def test_operators_of_a_number_that_each_call_writes(function, other):
    for start, step in ((0, 1), (0.5, 0.5)):
        compare(lambda n: function(other, n), start, step)
        compare(lambda n: function(n, other), start, step)


@pytest.mark.parametrize("number", range(len(CONTAINERS)))
@pytest.mark.parametrize("start", [0, 0.5])
def test_containers_with_a_number_that_each_call_writes(number, start):
    for other in (2, 2.5, 1.5):
        compare(lambda n, other=other: CONTAINERS[number](other, n), start, 1)


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%", "**", "<", "==", ">="])
def test_in_place_and_written_operators(sign):
    for left, right in itertools.permutations(["n", "2.5"]):
        expression = eval(f"lambda n: {left} {sign} {right}")
        compare(expression, 0, 1)


def test_floats_divided_by_a_size_that_varies():
    run = torch.compile(lambda x: x * (1.0 / x.shape[0]) + (True + x.shape[0]) * 0.5)
    for size in (3, 4, 5, 7, 9):
        assert torch.equal(run(torch.ones(size)), torch.ones(size) / size + (1 + size) * 0.5)
