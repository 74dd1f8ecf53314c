"""Versions compare as torch's do, with versions, tuples and strings that are none."""

import itertools
import operator

import pytest

from pullback.torch_version import TorchVersion

torch = pytest.importorskip("torch")
theirs = torch.torch_version.TorchVersion

SPELLED = [
    "1.0",
    "1.0.0",
    "1.0a2",
    "1.0.dev1",
    "1.0.post2",
    "1.10.1",
    "2.13.0+cpu",
    "2.13.0",
    "v2.0",
]
OTHERS = [*SPELLED, (1, 0), (1, 10, 1), (2, 13), [2, 13, 0], "parrot", "", (1, "x"), 3, None]


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name):
    compare = getattr(operator, name)
    for one, other in itertools.product(SPELLED, OTHERS):
        assert outcome(compare, TorchVersion(one), other) == outcome(compare, theirs(one), other)


def outcome(compare, one, other):
    try:
        return compare(one, other)
    except TypeError:
        return TypeError
