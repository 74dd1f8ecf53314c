"""Iterators of `itertools` in compiled functions walk as Python's own do."""

import itertools
import operator

import pytest

import pullback as torch

PROGRAMS = {
    "pairwise": lambda x: [a * 2 + b for a, b in itertools.pairwise(x.unbind())],
    "pairwise of one": lambda x: [x, *[a + b for a, b in itertools.pairwise([x])]],
    "accumulate": lambda x: list(itertools.accumulate(x.unbind())),
    "accumulate by a function": lambda x: list(
        itertools.accumulate(x.unbind(), operator.mul, initial=2.0)
    )[1:],
    "accumulate of nothing": lambda x: [x, *itertools.accumulate([])],
    "starmap": lambda x: list(itertools.starmap(operator.mul, [(x, 2), (x, x)])),
    "zip_longest": lambda x: [
        a * (3 if b is None else b) for a, b in itertools.zip_longest(x.unbind(), [1, 2])
    ],
    "zip_longest of nothing": lambda x: [x, *itertools.zip_longest([], [])],
    "takewhile": lambda x: [x * n for n in itertools.takewhile(lambda n: n < 3, range(9))],
    "repeat": lambda x: [a * n for a, n in zip(x.unbind(), itertools.repeat(3))],
    "repeat some times": lambda x: [x * n for n in itertools.repeat(5, 2)],
    "count": lambda x: [a * n for a, n in zip(x.unbind(), itertools.count(2, 3))],
    "combinations": lambda x: [a + 2 * b for a, b in itertools.combinations(x.unbind(), 2)],
    "combinations of none": lambda x: [x, *[x * len(c) for c in itertools.combinations([1], 0)]],
    "permutations": lambda x: [a + 2 * b for a, b in itertools.permutations(x.unbind(), 2)],
    "all permutations": lambda x: [x * a + b for a, b in itertools.permutations([2, 3])],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_iterators_walk_as_pythons_do(name):
    function = PROGRAMS[name]
    compiled = torch.compile(function, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4)
        wanted, made = function(x), compiled(x)
        assert len(made) == len(wanted)
        for one, other in zip(made, wanted, strict=True):
            assert torch.allclose(one, other)


def test_a_function_that_a_transform_gives_back_in_a_tuple_is_called():
    def pulled(x, g):
        _, pull = torch.func.vjp(lambda x: x.softmax(-1), x)
        return pull(g)[0]

    x, g = torch.randn(3, 4), torch.randn(3, 4)
    assert torch.allclose(torch.compile(pulled, fullgraph=True)(x, g), pulled(x, g))


def test_a_generator_without_end_is_not_walked_to_be_no_number():
    def endless():
        while True:
            yield 1.0

    def used(x, kind):
        try:
            return x * kind(endless())
        except TypeError:
            return x * 2

    f = torch.compile(used, backend="eager")
    for kind in (float, int, round, abs, float):
        assert f(torch.ones(1), kind).item() == 2
