"""All samples with every size at which another kernel takes over brought down to a few elements.

`python lowered.py 7 results.pickle` writes what the operators give then, "inline" what they give as
they are, "meaning" what they give without any kernel: their declared forwards alone. In a process
of its own: the code that is written on first use keeps the numbers.

The first two samples of each operator are tried at their edges, too (`pullback/testing/edges.py`).
"""

from __future__ import annotations

import ast
import importlib
import itertools
import pickle
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pullback as torch
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.testing import SAMPLES, SampleInput, resolve, samples_for, tensors_in
from pullback.testing.edges import edges_of

ROOT = Path(torch.__file__).parent / "operators"
# Rooms whose numbers are no choice among kernels for the samples: streams of random numbers are
# torch's, text is cut into lines, devices and tests of other files.
OTHER_ROOMS = ("cuda", "random", "writing", "running", "create", "tensor", "special")
# The first word of numbers that sizes are compared with, to choose a kernel.
WORDS = frozenset(
    (
        "ALONE",
        "AT",
        "BLOCK",
        "FEW",
        "LARGE",
        "LEAST",
        "LINES",
        "LONG",
        "MANY",
        "MULTIPLICATIONS",
        "PRODUCTS",
        "ROW",
        "ROWS",
        "SHORT",
        "SMALL",
        "SOME",
        "SORTED",
        "THICK",
        "THIN",
        "UNPACKED",
        "WIDE",
    )
)


# More of them, by their whole names.
NAMES = frozenset(
    ("PIECE", "_CHAIN", "_MOST_OF_MATRIX", "_MOST_POINTS", "_MOST_RUNS", "_POINTS", "_ROUNDS")
)


def compared_numbers() -> list[tuple[str, str]]:
    """Module and name of every number in capitals that something is compared with."""
    found = set()
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        if parts[1] in OTHER_ROOMS:
            continue
        module = ".".join(("pullback", *parts)).removesuffix(".__init__")
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare) and all(
                isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops
            ):
                sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
                found |= {(module, side) for side in sides if _is_name(side)}
    return sorted(found)


def _is_name(side: str) -> bool:
    last = side.rpartition(".")[2]
    return side.replace(".", "_").isidentifier() and len(last) > 1 and last.isupper()


def place_of(module: str, name: str) -> tuple[object, str, object]:
    """The module that holds a number, its name there and what it is."""
    holder: object = importlib.import_module(module)
    first, _, rest = name.partition(".")
    if rest:
        holder, first = getattr(holder, first, None), rest
    return holder, first, getattr(holder, first, None)


def chooses(name: str) -> bool:
    """Whether a number's name says that kernels are chosen by it."""
    last = name.rpartition(".")[2]
    return last in NAMES or last.lstrip("_").split("_")[0] in WORDS


def lower(to: int) -> None:
    """Bring every such number down."""
    for module, name in compared_numbers():
        holder, attribute, number = place_of(module, name)
        if chooses(name) and type(number) is int and number > to:
            setattr(holder, attribute, to)


def without_kernels() -> None:
    """Leave the operators their declared forwards alone; before any of them is called."""
    load_all()
    for op in OPERATORS.values():
        op.kernels = tuple([one for one in op.kernels if one.on != "host"])


def samples(name: str, dtype: torch.dtype) -> Iterator[tuple[str, SampleInput]]:
    """Every sample, as it is and at its edges, whose names it comes with.

    To keep the time short in two dtypes each: single beside double, and beside complex numbers.
    """
    for sample in samples_for(name, dtype) if dtype is not torch.complex128 else ():
        yield "", sample
    if dtype is not torch.float64:
        for sample in itertools.islice(samples_for(name, dtype), 2):
            yield from edges_of(sample)


def results(name: str, dtype: torch.dtype) -> list[tuple[str, object]]:
    """Values and gradients of every sample, as arrays; an error as its type."""
    found: list[tuple[str, object]] = []
    for edge, sample in samples(name, dtype):
        torch.manual_seed(0)
        try:
            made = list(tensors_in(sample.call(resolve(torch, name))))
            recorded = [one for one in made if one.requires_grad]
            inputs = sample.differentiable
            if recorded and inputs:
                ones = [torch.ones_like(one) for one in recorded]
                made += torch.autograd.grad(recorded, inputs, ones, allow_unused=True)
        except _ERRORS as error:
            found.append((edge, type(error).__name__))
            continue
        found.append((edge, [None if one is None else _array(one) for one in made]))
    return found


_ERRORS = (
    *(RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError),
    AssertionError,
)


def _array(tensor: torch.Tensor) -> object:
    return tensor.detach().resolve_conj().resolve_neg().to_dense().numpy().copy()


def main() -> None:
    """Write the results of all samples."""
    to, path = sys.argv[1:]
    warnings.simplefilter("ignore")
    if to == "meaning":
        without_kernels()
    elif to != "inline":
        lower(int(to))
    names = [name for name in SAMPLES if resolve(torch, name) is not None]
    made = {(name, d): results(name, getattr(torch, d)) for name in names for d in DTYPES}
    Path(path).write_bytes(pickle.dumps(made))


DTYPES = ("float32", "float64", "complex128")

if __name__ == "__main__":
    main()
