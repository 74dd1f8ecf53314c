"""How many digits sums keep: measures the cases, and writes docs/accuracy.md.

    python -m pullback.testing.accuracy docs/accuracy.md

The reference is the same call in float64 on the same numbers. An error is counted in units in the
last place: the largest difference, over the dtype's epsilon times the largest result.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

import pullback
from pullback.testing.accuracy_cases import BOUND, GROUPS, Case, cases_of

__all__ = ["PAGE", "errors", "inputs", "operators", "page", "results", "table"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
# Elements that the page is measured with: a sum of more would be beyond float16.
ELEMENTS = {"float32": 1_000_000, "float16": 10_000, "bfloat16": 10_000}

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
            made.append(numpy.asarray(0.1 + 0.9 * rng.random(shape, numpy.float32)))
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
    if case.group == "losses":  # means, whose gradients would be the smallest numbers of float16
        seed = seed * numpy.float32(1024)
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


# The page -----------------------------------------------------------------------------------------

COLUMNS = ("operator", "bound", *[f"{dtype}: {what}" for dtype in ELEMENTS
                                 for what in ("value", "gradients")])  # fmt: skip
_HEAD = f"""# Accuracy

A sum of a million float32 loses two digits if it is made one by one. Here no sum is: chains of at
most some hundred elements are added up by BLAS, NumPy or machine code, and their sums in double
precision, or with what rounding takes away ([how](architecture/operators.md#an-operator)). That
holds for every reduction, for the gradient of everything that was broadcast (biases, weights of
norms, numbers), for norms and for losses; for arrays in any layout, eager or compiled, on any
number of threads. It is about the CPU, and not about products of matrices, which are BLAS's, nor
about sums by index (`index_add`, embeddings), which are made in the order of the index, as torch's
are.

An error is the largest difference to the same call in float64 on the same numbers, in units in the
last place of the largest result (2^-23 of it in float32, 2^-10 in float16, 2^-7 in bfloat16). It
must be at most {BOUND:g}, which `tests/operators/test_accuracy.py` holds every row to, from a
thousand elements to half a million, and some of each kind to ten million. Two kinds have twice
that. Logarithms of sums of exponentials: the gradients are exponentials of a difference, in which
the result's own rounding counts. Norms of everything without weights: the gradients are what is
left of others, less their mean.

Each figure is the worst over layouts (all elements, over rows, along rows, transposed, strided,
images by channel), over random numbers between 0.1 and 1 and over numbers that are all equal, which
is the hardest case: every rounding goes the same way. {ELEMENTS["float32"]:,} elements in float32,
{ELEMENTS["float16"]:,} in half precision. `make accuracy` writes this page; the last digits of its
figures are those of the machine.
"""


def operators(group: str) -> dict[str, list[Case]]:
    """The cases of each operator: its ways to be called."""
    found: dict[str, list[Case]] = {}
    for case in cases_of(group):
        found.setdefault(case.name.partition(",")[0], []).append(case)
    return found


def table(group: str) -> Iterator[str]:
    """The rows of a group, measured."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for name, cases in operators(group).items():
        cells = [f"`{name}`" if name.isidentifier() else name, f"{cases[0].bound:g}"]
        for dtype, elements in ELEMENTS.items():
            measured = [errors(case, elements, dtype) for case in cases]
            worst = max(one[0] for one in measured), max(max(one[1:]) for one in measured)
            cells += [f"{one:.1f}" for one in worst]
        yield f"| {' | '.join(cells)} |"


def page() -> str:
    """The whole page."""
    tables = [f"## {one.capitalize()}\n\n" + "\n".join(table(one)) + "\n" for one in GROUPS]
    return "\n".join([_HEAD, *tables])


def main() -> None:
    """Write the page to the file that is named."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = page()
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
