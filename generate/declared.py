"""What the families of operators declare: which functions users find where, and which methods.

A declared operator is found in its `space`, or at the top level where it is a method too. What else
a family offers, it says in `FOUND_IN`: public module -> words, each a name or `public=own`. A name
under "Tensor" is a method and nothing else.
"""

from __future__ import annotations

import functools
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pullback

FIRST = frozenset(sys.modules)  # what `import pullback` loads; before anything else is imported

from pullback import operators  # noqa: E402 (after the look at what is loaded)
from pullback.core.tensor import Tensor  # noqa: E402 (likewise)
from pullback.operators.attach import faces, methods  # noqa: E402 (likewise)
from pullback.operators.declare import METHODS, OPERATORS, Op  # noqa: E402 (likewise)
from pullback.operators.results import RESULTS  # noqa: E402 (likewise)

ROOT = "pullback.operators."
SPACES = ("torch", "nn.functional", "linalg", "special", "fft", "masked", "sparse")
_MACHINERY = ("arrays", "attach", "running", "dispatch", "writing")

Table = dict[str, list[str]]  # family -> words


def families() -> dict[str, ModuleType]:
    """Every family of operators, by its name: "reduce.sums"."""
    found = {}
    for info in pkgutil.walk_packages(operators.__path__, ROOT):
        name = info.name.removeprefix(ROOT)
        if "." in name and not info.ispkg and name.partition(".")[0] not in _MACHINERY:
            found[name] = import_module(info.name)
    return found


FAMILIES = families()
for _family in FAMILIES:
    methods.load(_family)


def is_first(family: str) -> bool:
    """Whether `import pullback` loads it."""
    return ROOT + family in FIRST


def _own_operators(module: ModuleType) -> Iterator[Op]:
    for op in OPERATORS.values():
        if op.forward.__module__ == module.__name__:
            yield op


def found_in(family: str) -> dict[str, dict[str, str]]:
    """Public module -> public name -> the family's own name for it."""
    module = FAMILIES[family]
    said: dict[str, str] = getattr(module, "FOUND_IN", {})
    if unknown := said.keys() - {*SPACES, "Tensor"}:
        raise SystemExit(f"{family}: FOUND_IN has {sorted(unknown)}; there are {SPACES}.")
    places = {space: dict(faces.pairs(said.get(space, ""))) for space in SPACES}
    for space, listed in places.items():
        for public, own in listed.items():
            if own not in vars(module) and not hasattr(Tensor, own):
                raise SystemExit(
                    f"{family}: FOUND_IN[{space!r}] lists {public}, and there is none."
                )
    for op in _own_operators(module):
        named = vars(module).get(op.name) is op.function  # kernels have names of their own
        if named and op.name not in said.get("Tensor", "").split() and (op.space or op.method):
            places[op.space or "torch"].setdefault(op.name, op.name)
    return {space: listed for space, listed in places.items() if listed}


PLACES = {family: found_in(family) for family in FAMILIES}


def _word(public: str, own: str) -> str:
    return public if public == own else f"{public}={own}"


def functions(space: str, *, first: bool | None = None) -> Table:
    """Family -> what is found of it in a public module; of the first or of the later families."""
    return {
        family: [_word(*pair) for pair in sorted(places[space].items())]
        for family, places in PLACES.items()
        if space in places and first in (None, is_first(family))
    }


@functools.cache
def aliases() -> dict[str, str]:
    """Other name of a method -> the method that it is; in-place forms come along."""
    return {
        public: own
        for places in PLACES.values()
        for public, own in places.get("torch", {}).items()
        if public != own and own in _all_methods() and not public.endswith("_")
    }


@functools.cache
def _all_methods() -> set[str]:
    return {name for family in FAMILIES for name in _plain_methods(family)}


def _plain_methods(family: str) -> set[str]:
    module = FAMILIES[family]
    own = list(_own_operators(module))
    names = {op.name for op in own if op.method} | {f"{op.name}_" for op in own if op.inplace}
    return names | {name for name, f in METHODS.items() if f.__module__ == module.__name__}


def later_methods() -> Table:
    """Family -> its methods of Tensor, for the families that load later."""
    table: Table = {}
    others = aliases()
    first = {name for family in FAMILIES if is_first(family) for name in _plain_methods(family)}
    for family in FAMILIES:
        if is_first(family):
            continue
        names = _plain_methods(family) - first
        names |= {
            other + end for other, own in others.items() for end in ("", "_") if own + end in names
        }
        mine = {name for name in names if _gives(family, name)}
        if mine:
            table[family] = sorted(mine)
    return table


def _gives(family: str, name: str) -> bool:
    """Whether loading this family is what gives Tensor the method: another may define it too."""
    function: Any = vars(Tensor)[name]
    home = getattr(function, "__module__", ROOT + family).removeprefix(ROOT)
    return home == family or home not in FAMILIES or name not in _with_aliases(home)


def _with_aliases(family: str) -> set[str]:
    names = _plain_methods(family)
    return names | {
        other + end for other, own in aliases().items() for end in ("", "_") if own + end in names
    }


@functools.cache
def results() -> Table:
    """Family -> the classes of its results that have names."""
    table: Table = {}
    for family, module in FAMILIES.items():
        here = {one.__name__ for one in vars(module).values() if _is_result(one)}
        here |= {op.name for op in _own_operators(module) if op.name in RESULTS}
        if here:
            table[family] = sorted(here)
    return table


def _is_result(value: Any) -> bool:
    return isinstance(value, type) and RESULTS.get(value.__name__) is value


__all__ = ["FAMILIES", "PLACES", "SPACES", "aliases", "functions", "later_methods", "results"]
assert pullback
