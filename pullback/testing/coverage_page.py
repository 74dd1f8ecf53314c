"""Writes docs/coverage.md: every operator by every mode, and why a place is empty.

What an operator has (methods, in-place forms, `out=`) is looked up, what it can do is what the
tests run over it; the flags in coverage.py and the list of `out=` say what torch has, and so what
must not be empty. That torch's methods are all here is held by the list of its names (checking/).
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pullback
from pullback import operators
from pullback.core.home import is_ours
from pullback.core.tensor import Tensor
from pullback.library.builtin.overloads import has_overload_of_torch
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.testing.coverage import COVERAGE, Support
from pullback.testing.coverage_notes import OUT, OWN_TESTS
from pullback.testing.nested_samples import FORMS
from pullback.testing.nested_samples import TAKEN as TAKEN_NESTED
from pullback.testing.samples import SAMPLES, resolve
from pullback.testing.sparse_samples import LAYOUTS, TAKEN

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
YES = "yes"
COLUMNS = (
    *("grad", "gradgrad", "jvp", "vmap", "complex"),
    *("in-place", "method", "out=", "compared with torch", "compiled"),
)
# What a sample of an operator comes to in a compiled program.
WORDS = {
    "fused": "its loop is joined with its neighbours'",
    "lowered": "machine code of its own (a product, a movement of memory)",
    "opaque": "its eager kernel, called between native parts",
    "eager": "looks at values, so that the call runs eagerly",
}
REASONS = {
    "n": "torch has no derivative of it: the result is discrete, constant or random, or nobody "
    "wrote one",
    "1": "torch has the first derivative only",
    "f": "torch has no forward mode for it",
    "b": "torch does not batch it: its result's size depends on values, or it takes no tensor",
    "r": "torch takes no complex numbers",
    "i": "torch has no in-place form",
    "m": "in torch a function only",
    "o": "torch takes no `out=`",
    "t": "has tests of its own, named below the tables",
}
OWN = {name: path for path, (_, names) in OWN_TESTS.items() for name in names.split()}


class GapError(Exception):
    """An operator lacks what its flags promise."""


def has_method(name: str) -> bool:
    """Whether it is a method of tensors, with or without a function."""
    of_tensor = name.startswith("Tensor.")
    return of_tensor or ("." not in name and callable(getattr(Tensor, name, None)))


def has_inplace(name: str) -> bool:
    """Whether there is an in-place form: an underscore, or `inplace=` as in nn.functional."""
    space, _, bare = name.rpartition(".")
    if space in ("", "Tensor"):
        return not bare.endswith("__") and (bare.endswith("_") or hasattr(Tensor, f"{bare}_"))
    function: Any = resolve(pullback, name)
    twin = resolve(pullback, f"{name}_")
    return twin is not None or "inplace" in inspect.signature(function).parameters


def takes_out(name: str) -> bool:
    """Whether the function has a parameter `out`."""
    function: Any = resolve(pullback, name)
    op = getattr(function, "op", None)
    return bool(op.has_out if op else "out" in inspect.signature(function).parameters)


def derivative(modes: frozenset[str], mode: str) -> str:
    """The cell of a derivative of some sort."""
    if mode in modes:
        return YES
    if "grad" not in modes:
        return "n"
    return "1" if mode == "gradgrad" else "f"


def cells(name: str, support: Support, word: str = "t") -> Iterator[str]:
    """An operator's row: `yes`, or the letter of a reason, in each column; last the `word`."""
    modes = support.modes
    yield from (derivative(modes, mode) for mode in ("grad", "gradgrad", "jvp"))
    yield YES if "vmap" in modes else "b"
    yield YES if "complex" in modes else "r"
    yield YES if has_inplace(name) else "i"
    yield YES if has_method(name) else "m"
    if name in OUT and not takes_out(name):
        raise GapError(f"{name} lacks `out=`, which torch has.")
    yield YES if name in OUT else "o"
    if name not in SAMPLES and name not in OWN:
        raise GapError(f"{name} has no samples, and no tests of its own are named.")
    yield YES if name in SAMPLES else "t"
    yield word


def table(family: str, words: Mapping[str, str]) -> list[str]:
    """One family's rows."""
    rows = [f"| {' | '.join(['operator', *COLUMNS])} |", "|" + "---|" * (len(COLUMNS) + 1)]
    for name, support in COVERAGE.items():
        if support.family == family:
            rows.append(
                f"| {' | '.join([f'`{name}`', *cells(name, support, words.get(name, 't'))])} |"
            )
    return rows


def _by_kind(where: str, kinds: tuple[str, ...], taken: Mapping[str, Collection[str]]) -> list[str]:
    rows = [
        f"Programs of `{where}`; each `yes` is tested, with derivatives,",
        "and each empty place is a refusal by name.",
        "",
        f"| program | {' | '.join(kinds)} |",
        "|" + "---|" * (len(kinds) + 1),
    ]
    for name, those in taken.items():
        marks = [YES if kind in those else "" for kind in kinds]
        rows.append(f"| `{name}` | {' | '.join(marks)} |")
    return rows


def sparse_table() -> list[str]:
    """Which programs take a sparse matrix, by layout."""
    return _by_kind("pullback/testing/sparse_samples.py", LAYOUTS, TAKEN)


def nested_table() -> list[str]:
    """Which programs take nested tensors, by form."""
    return _by_kind("pullback/testing/nested_samples.py", FORMS, TAKEN_NESTED)


def classes_table() -> list[str]:
    """Which operators handlers below autograd get under torch's names, and which under ours."""
    for module in walk_packages(operators.__path__, "pullback.operators."):
        import_module(module.name)  # all declarations, whatever was loaded before
    declared = {
        key: has_overload_of_torch(key)
        for key, op in list(OPERATORS.items())
        if is_ours(op.forward, "operators")
        and not op.forward.__qualname__.startswith("_filler.")  # made when first drawn
    }
    listed = ", ".join(f"`{key}`" for key in sorted(declared) if not declared[key])
    return [
        "A class with a `__torch_dispatch__`, and a dispatch mode, gets every declared operator,",
        f"{sum(declared.values())} of {len(declared)} as an overload that torch has too "
        "(`aten.mul.Tensor`), the others in",
        "the namespace `pullback`: adjoints, and steps that torch does in one kernel.",
        "Compositions come as the operators that they consist of. A class with a",
        "`__torch_function__` gets every public function.",
        "",
        f"In the namespace `pullback`: {listed}.",
    ]


def kernels_table() -> list[str]:
    """The operators that have kernels besides their meaning, from the entries."""
    from pullback.operators.cuda import overrides

    load_all()
    overrides.load()
    lines = [
        "Besides its meaning, which is for all calls, an operator has these kernels, in the order",
        "in which they are asked. `pullback show NAME` has their conditions.",
        "",
        "| operator | on the host | on a CUDA device |",
        "|---|---|---|",
    ]
    for key, op in sorted(OPERATORS.items()):
        if op.kernels and is_ours(op.meaning, "operators"):
            cells = [", ".join(_named(op, on)) for on in ("host", "cuda")]
            lines.append(f"| `{key}` | {cells[0]} | {cells[1]} |")
    return lines


def _named(op: Any, on: str) -> Iterator[str]:
    for one in op.kernels:
        if one.on == on:
            yield one.name.replace("_", " ") + (" (machine code)" if one.machine_code else "")


def page(words: Mapping[str, str]) -> str:
    """The whole page; `words` are what operators come to in compiled programs, by name."""
    families = list(dict.fromkeys(support.family for support in COVERAGE.values()))
    lines = [
        "# Operators by mode",
        "",
        "Written by `python -m pullback.compiled.coverage` from the declarations and the",
        "tables of the tests; a test fails when it is out of date. `yes` is tested for every",
        "sample input of the operator. A letter says why a place is empty:",
        "",
        *(f"- `{letter}`: {reason}." for letter, reason in REASONS.items()),
        "",
        "In a compiled program on machine code an operator is one of these, by its best sample:",
        "",
        *(f"- `{word}`: {reason}." for word, reason in WORDS.items()),
        "",
        f"{len(COVERAGE)} operators in {len(families)} families.",
    ]
    for family in families:
        lines += ["", f"## {family}", "", *table(family, words)]
    lines += ["", "## Sparse tensors", "", *sparse_table()]
    lines += ["", "## Nested tensors", "", *nested_table()]
    lines += ["", "## Classes that override calls", "", *classes_table()]
    lines += ["", "## Kernels", "", *kernels_table()]
    lines += ["", "## Tests of their own", ""]
    for path, (reason, names) in OWN_TESTS.items():
        listed = ", ".join(f"`{name}`" for name in names.split())
        lines.append(f"- {listed}: {path}, since {reason}.")
    return "\n".join(lines) + "\n"


def written_words() -> dict[str, str]:
    """The words that stand on the page, by operator."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == len(COLUMNS) + 3 and cells[1].startswith("`"):
            found[cells[1].strip("`")] = cells[-2]
    return found
