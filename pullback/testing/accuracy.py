"""How many digits sums keep: measures the cases, and writes docs/accuracy.md.

    python -m pullback.testing.accuracy docs/accuracy.md

The reference is the same call in float64 on the same numbers. An error is counted in units in the
last place: the largest difference, over the dtype's epsilon times the largest result.
"""

from __future__ import annotations

from typing import Any

import numpy

import pullback
from pullback.testing.accuracy_cases import Case

__all__ = ["errors", "inputs", "results"]

EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def inputs(case: Case, elements: int, *, equal: bool) -> list[Any]:
    """Arrays of float32, numbers between 0.1 and 1 or all the same; classes are whole numbers."""
    rng = numpy.random.default_rng(0)
    made: list[Any] = []
    for shape in case.shapes(elements):
        if shape is None:
            made.append(rng.integers(0, case.classes, len(made[0])))
        elif equal:
            made.append(numpy.full(shape, 0.1, numpy.float32))
        else:
            made.append(0.1 + 0.9 * rng.random(shape, numpy.float32))
    return made


def results(case: Case, arrays: list[Any], dtype: str, library: Any = pullback) -> list[Any]:
    """The value and the gradients, as arrays of float64; by `library`, computed in `dtype`."""
    wanted = getattr(library, dtype)
    tensors = [library.from_numpy(numpy.array(one)) for one in arrays]
    tensors = [one.to(wanted) if one.is_floating_point() else one for one in tensors]
    leaves = [tensors[number].requires_grad_() for number in case.needs]
    value = case.call(library, *tensors)
    rng = numpy.random.default_rng(1)
    is_equal = all(one.min() == one.max() for one in arrays if one.dtype.kind == "f" and one.size)
    shape = tuple(value.shape)
    seed = numpy.full(shape, 0.1, "f") if is_equal else 0.1 + 0.9 * rng.random(shape, numpy.float32)
    value.backward(library.from_numpy(numpy.array(seed)).to(wanted))
    double = library.float64
    given = [value.detach(), *[one.grad for one in leaves]]
    return [one.detach().to(double).numpy() for one in given]


def errors(case: Case, elements: int, dtype: str, library: Any = pullback) -> list[float]:
    """The errors of the value and of each gradient: the worse of random and of equal numbers."""
    worst: list[float] = []
    for equal in (False, True) if case.equal else (False,):
        arrays = inputs(case, elements, equal=equal)
        if dtype in ("float16", "bfloat16"):  # numbers that the dtype has
            kind = getattr(pullback, dtype)
            arrays = [
                pullback.from_numpy(one).to(kind).to(pullback.float32).numpy()
                if one.dtype.kind == "f" else one for one in arrays
            ]  # fmt: skip
        exact = results(case, arrays, "float64")
        made = results(case, arrays, dtype, library)
        found = [
            float(abs(one - other).max() / max(abs(other).max(), 1e-300)) / EPSILON[dtype]
            for one, other in zip(made, exact, strict=True)
        ]
        worst = [max(pair) for pair in zip(found, worst or found, strict=True)]
    return worst
