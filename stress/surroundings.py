"""Compiled functions against eager while everything around them changes.

A case is one row of each table of `places.py`: a place, a value in it, a way of reading it, the
code around that, what is returned, what is done besides, and changes made between the calls. The
same program is made twice, each in a world of its own: one runs eagerly, one is compiled. Results
and worlds must stay alike, call by call. A difference is cut down before it is shown. How many
cases were captured and hit is counted too: a compiler that refuses everything is right, and idle.
"""

from __future__ import annotations

import array
import ast
import builtins
import collections
import contextlib
import contextvars
import enum
import functools
import io
import itertools
import logging
import math
import os
import random
import re
import sys
import textwrap
import time
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy

import pullback as torch
from pullback import nn
from pullback.compiled.backends import is_available
from pullback.compiled.counting import counters
from stress.places import EFFECTS, HOLDERS, PREAMBLE, READINGS, RESULTS, STOPS, VALUES, WAYS, WORLD
from stress.report import Report

BACKENDS = ("eager", "eager", "python", "llvm") if is_available() else ("eager", "python")
_TANH = nn.Tanh.forward


class Case(NamedTuple):
    """One row of each table."""

    holder: str
    value: str
    reading: str
    way: str = "plainly"
    result: str = "return x * r"
    effect: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    grad: bool = False
    backend: str = "eager"

    @property
    def program(self) -> str:
        """The text of the function and of what is around it."""
        holder, value = HOLDERS[self.holder], VALUES[self.value]
        other = next(iter(value.others), value.text)
        body = _filled(self.reading, e=holder.reach)
        way = WAYS[self.way].replace("{body}", body)
        way = way.replace("{indented}", textwrap.indent(body, "    ") + "\n")
        way = way.replace("{twice}", textwrap.indent(body, "        ") + "\n")
        lines = "\n".join(filter(None, (way, self.effect, self.result)))
        x = f"X = torch.tensor([1.0, 2.0, 3.0], requires_grad={self.grad})"
        function = f"def f(x{holder.params}):\n" + textwrap.indent(lines, "    ")
        parts = (value.setup, x, function, holder.setup)
        text = _filled("\n".join(parts), v=value.text, n=other)
        return PREAMBLE + _needed(text) + _unescaped(text)

    @property
    def call(self) -> str:
        """How it is called."""
        return f"(X{HOLDERS[self.holder].given})"

    @property
    def steps(self) -> list[str]:
        """Statements that change things; an empty one is a call."""
        steps = ["", "", ""]
        for do, undo in self.changes:
            steps += [_unescaped(do), "", "", "", _unescaped(undo), "", ""]
        return steps

    def shown(self) -> str:
        """The case as a program to read."""
        calls = [step or f"f{self.call}" for step in self.steps]
        return f"{self.program}\n# {self.backend}: " + "; ".join(calls)


def _filled(text: str, **parts: str) -> str:
    for name, part in parts.items():
        text = text.replace("{" + name + "}", part)
    return text


def _unescaped(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")


@functools.cache
def _blocks() -> list[tuple[frozenset[str], str]]:
    """The world's statements, with the names that each defines."""
    found = []
    for node in ast.parse(WORLD).body:
        names = {
            one.id
            for one in ast.walk(node)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = {node.name}
        elif isinstance(node, ast.Import):
            names = {one.name for one in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            for name, value in zip(node.targets[0].elts, node.value.elts, strict=True):  # type: ignore[attr-defined]
                found.append((frozenset({name.id}), f"{name.id} = {ast.unparse(value)}"))  # type: ignore[attr-defined]
            continue
        elif isinstance(node, ast.Expr | ast.Assign) and not names:
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        found.append((frozenset(names), ast.unparse(node)))
    return found


def _needed(text: str) -> str:
    """What a program mentions of the common world, in its order."""
    wanted = set(re.findall(r"\w+", text))
    taken: set[int] = set()
    grown = True
    while grown:
        grown = False
        for number, (names, block) in enumerate(_blocks()):
            if number not in taken and names & wanted:
                taken.add(number)
                wanted |= set(re.findall(r"\w+", block))
                grown = True
    return "\n".join(_blocks()[n][1] for n in sorted(taken)) + "\n"


def drawn(luck: random.Random) -> Case:
    """A case by chance."""
    holder, value = luck.choice(list(HOLDERS)), luck.choice(list(VALUES))
    kinds = VALUES[value].kinds.split()
    kind = "any" if luck.random() < 0.15 else luck.choice(kinds)
    simple = luck.random() < 0.5  # so that changes are seen, not only effects
    way = "plainly" if luck.random() < 0.4 else luck.choice(list(WAYS))
    result = RESULTS[0] if simple else luck.choice(RESULTS)
    effect = "" if simple else luck.choice(EFFECTS)
    late = way.startswith(("in a hook", "in a backward", "in a checkpoint"))
    case = Case(
        holder,
        value,
        luck.choice(READINGS[kind]),
        way,
        result,
        effect,
        (),
        luck.random() < (0.9 if late else 0.2),
        luck.choice(BACKENDS),
    )
    if luck.random() < 0.3:
        case = case._replace(reading=f"{luck.choice(STOPS)}\n{case.reading}")
    found = changes(holder, value, luck)
    return case._replace(changes=tuple(luck.sample(found, min(2, len(found)))))


def changes(holder: str, value: str, luck: random.Random) -> list[tuple[str, str]]:
    """Ways to change what is at a place, and back."""
    place, what = HOLDERS[holder], VALUES[value]
    live = place.reach if place.live is None else place.live
    found = []
    for do, undo in place.changes:
        other = luck.choice(what.others)
        found.append(tuple(_filled(one, n=other, v=what.text) for one in (do, undo)))
    if live:
        found += [tuple(_filled(one, e=live) for one in pair) for pair in what.changes]
    return found  # type: ignore[return-value]


# Running -----------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What the calls of one world gave, and what became of it."""

    seen: list[Any]
    captured: bool
    hits: int


@contextlib.contextmanager
def _clean() -> Iterator[None]:
    """The process as every world finds it."""
    random.seed(0)
    numpy.random.seed(0)  # noqa: NPY002 (what programs of users draw from)
    torch.manual_seed(0)
    environment = dict(os.environ)
    os.environ.pop("STRESS_PLACE", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        for name in ("stress_place", "world"):
            sys.modules.pop(name, None)
        vars(builtins).pop("place_b", None)
        nn.Tanh.forward = _TANH  # type: ignore[method-assign]
        torch.set_default_dtype(torch.float32)


def outcome(case: Case, *, compiled: bool) -> Outcome:
    """Make the world of a case, and live in it."""
    with _clean():
        return contextvars.copy_context().run(_lived, case, compiled)


def _lived(case: Case, compiled: bool) -> Outcome:
    module = sys.modules["world"] = types.ModuleType("world")  # where dataclasses look
    world = vars(module)
    try:
        exec(compile(case.program, "<world>", "exec"), world)
    except (TypeError, ValueError, AttributeError) as error:
        raise Impossible from error
    function = world["f"]
    hits = counters["compile"]["hits"]
    if compiled:
        function = torch.compile(function, backend=case.backend)
    call = compile(f"__called__{case.call}", "<call>", "eval")
    seen: list[Any] = []
    kept: list[Any] = []
    for step in case.steps:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            if step:
                seen.append((step, _tried(exec, step, world)))
                seen.append(("world", _pictured_world(world)))
                continue
            world["__called__"] = function
            try:
                made = _tried(eval, call, world)
            finally:
                del world["__called__"]
        texts = [str(one.message) for one in told if str(one.message) == "here"]
        fresh = _is_plain(made) or all(made is not one for one in kept)
        seen.append(("call", _pictured(made, world), fresh, printed.getvalue(), texts))
        kept.append(made)
    seen.append(("world", _pictured_world(world)))
    seen.append(("results", [_pictured(one, world) for one in kept]))
    if not compiled:
        return Outcome(seen, captured=False, hits=0)
    quick = function.quick is not None
    captured = bool(function.entries or function.families.found)
    return Outcome(seen, captured, counters["compile"]["hits"] - hits + quick)


class Impossible(Exception):  # noqa: N818
    """A value that a place does not take."""


class Raised(NamedTuple):
    """An error that a call ended with."""

    kind: str
    text: str


def _tried(how: Any, code: Any, world: dict[str, Any]) -> Any:
    try:
        made = how(code, world)
    except Exception as error:
        return Raised(type(error).__name__, _placeless(str(error)))
    if isinstance(made, torch.Tensor) and made.requires_grad and made.dtype.is_floating_point:
        try:
            made.sum().backward()
        except Exception as error:
            return Raised(type(error).__name__, _placeless(str(error)))
    return made


# Pictures: what a value is, in a form that can be compared with another world's ------------------


def _pictured_world(world: dict[str, Any]) -> Any:
    names = [name for name in world if not name.startswith("__")]
    memo: dict[int, Any] = {}
    return [(name, _picture(world[name], memo, 0)) for name in names]


def _pictured(value: Any, world: dict[str, Any]) -> Any:
    """A result: what it has of the world is named, and functions and iterators are tried."""
    memo = {id(one): ("outside", name) for name, one in world.items() if not _is_plain(one)}
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        try:
            value = ("function", value())
        except Exception as error:
            return Raised(type(error).__name__, _placeless(str(error)))
    return _picture(value, memo, 0)


def _placeless(text: str) -> str:
    """A text without addresses, and without the class of a node behind a tensor."""
    text = re.sub(r"grad_fn=<\w+>", "grad_fn=<>", text)
    return re.sub("0x[0-9a-f]+", "0x", text)


def _is_plain(value: Any) -> bool:
    kinds = (str, bytes, int, float, complex, bool, type(None), slice, range, type(...), torch.Size)
    return isinstance(value, numpy.generic) or type(value) in kinds


def _picture(value: Any, memo: dict[int, Any], depth: int) -> Any:
    if isinstance(value, numpy.generic):
        return (type(value).__name__, value.item())
    if _is_plain(value) or isinstance(value, Raised):
        return (type(value).__name__, value)
    if id(value) in memo:
        return memo[id(value)]
    if depth > 8 or isinstance(value, types.ModuleType):
        return type(value).__name__
    memo[id(value)] = ("seen", len(memo))
    memo.setdefault(0, []).append(value)  # so that its id stays its own
    inner = functools.partial(_picture, memo=memo, depth=depth + 1)
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        own = {name: inner(one) for name, one in vars(value).items() if name[0] != "_"}
        facts = (str(value.dtype), tuple(value.shape), value.detach().tolist(), value.requires_grad)
        return (kind, *facts, value.is_leaf and inner(value.grad), own)
    if isinstance(value, numpy.ndarray):
        return (kind, str(value.dtype), value.shape, value.tolist())
    if isinstance(value, torch.Generator):
        return (kind, value.initial_seed(), value.get_state().tolist())
    if isinstance(value, enum.Enum):
        return (kind, value.name, _state(value, inner))
    for plain in (int, float, complex, str, bytes):
        if isinstance(value, plain):
            return (kind, plain.__pos__(value) if plain in (int, float, complex) else plain(value))
    if isinstance(value, types.MappingProxyType | dict):
        return (
            kind,
            [(inner(key), inner(one)) for key, one in value.items()],
            _state(value, inner),
        )
    if isinstance(value, set | frozenset):
        return (kind, sorted(repr(inner(one)) for one in value))
    if isinstance(value, list | tuple | collections.deque):
        return (kind, [inner(one) for one in value], _state(value, inner))
    if isinstance(value, bytearray | memoryview | array.array):
        return (kind, bytes(value))
    if isinstance(value, io.StringIO):
        return (kind, value.getvalue())
    if isinstance(value, BaseException):
        return (kind, _placeless(str(value)))
    if isinstance(value, type):
        plain = (
            {n: one for n, one in vars(value).items() if not n.startswith("__")}
            if value.__module__ == "world"
            else {}
        )
        return ("class", value.__name__, {n: inner(one) for n, one in plain.items()})
    if isinstance(value, types.FunctionType):
        return (kind, value.__name__, inner(value.__defaults__), inner(vars(value)))
    if isinstance(value, contextvars.ContextVar):
        return (kind, inner(value.get(None)))
    if isinstance(value, Iterator) and depth <= 2:  # of the world: looked at, and put back
        return kind
    if type(value).__module__ in ("weakref", "_weakref", "re") or kind == "RemovableHandle":
        return kind
    return (kind, _state(value, inner))


def _state(value: Any, inner: Any) -> Any:
    state = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        for name, found in vars(base).items():
            if isinstance(found, types.MemberDescriptorType) and hasattr(value, name):
                state.setdefault(name, found.__get__(value))
    for name in state:
        if name.endswith("hooks"):  # numbered through the whole process
            state[name] = list(state[name].values())
    return {name: inner(one) for name, one in state.items() if not name.startswith("__")}


def alike(one: Any, other: Any) -> bool:
    """Whether two pictures are the same but for rounding."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        signs = math.copysign(1, one) == math.copysign(1, other)
        return signs and math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-30)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(
            itertools.starmap(alike, zip(one, other, strict=True))
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, str) and one != other:
        return _rounded(one) == _rounded(other)
    return bool(one == other)


def _rounded(text: str) -> str:
    """A text whose numbers have four digits."""
    short = re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.3e}", text)
    return _placeless(short)


def difference(case: Case) -> tuple[str, Outcome] | tuple[None, Outcome]:
    """In what the compiled world is another one than the eager world; None if in nothing."""
    eager = outcome(case, compiled=False)
    compiled = outcome(case, compiled=True)
    for number, (a, b) in enumerate(zip(eager.seen, compiled.seen, strict=True)):
        if not alike(a, b):
            return f"step {number}: eager {_short(a, b)} compiled {_short(b, a)}", compiled
    return None, compiled


def _short(one: Any, other: Any) -> str:
    """The part that differs."""
    while (
        isinstance(one, tuple | list | dict)
        and isinstance(other, tuple | list | dict)
        and len(one) == len(other)
    ):
        if isinstance(one, dict) and isinstance(other, dict):
            one, other = list(one.items()), list(other.items())
        inside = [(a, b) for a, b in zip(one, other, strict=True) if not alike(a, b)]
        if not inside:
            break
        one, other = inside[0]
    text = repr(one)
    return text if len(text) < 200 else text[:197] + "..."


def cut_down(case: Case) -> Case:
    """The case with as little as shows the difference."""
    smaller: list[dict[str, Any]] = [
        {"backend": "eager"},
        {"grad": False},
        {"effect": ""},
        {"result": RESULTS[0]},
        {"way": "plainly"},
        {"changes": ()},
    ]
    smaller += [{"changes": (one,)} for one in case.changes]
    smaller += [
        {"value": "float", "reading": "r = {e}", "changes": case.changes},
        {"holder": "global"},
        {"value": "float", "holder": "global", "reading": "r = {e}", "changes": ()},
    ]
    for change in smaller:
        tried = case._replace(**change)
        try:
            if difference(tried)[0] is not None:
                case = tried
        except Exception:
            continue
    return case


def check(report: Report, case: Case, *, cut: bool = True) -> None:
    """One case, counted."""
    try:
        what, compiled = difference(case)
    except Impossible:
        report.counts["impossible"] += 1
        return
    report.counts["cases"] += 1
    report.counts["captured"] += compiled.captured
    report.counts["hit"] += compiled.captured and compiled.hits > 0
    report.counts["refused"] += not compiled.captured
    if what is not None:
        report.counts["differences"] += 1
        small = cut_down(case) if cut else case
        what = difference(small)[0] or what
        told = (small.holder, small.value, small.reading, small.effect, small.result, what)
        report.found(" | ".join(map(str, told)), small.shown())


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Cases for as long as there is time."""
    report = Report("surroundings", seed)
    logging.getLogger("stress").addHandler(logging.NullHandler())
    logging.getLogger("stress").propagate = False
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end and (calls is None or number < calls):
        case = drawn(random.Random(f"{seed}:{number}"))
        number += 1
        check(report, case)
    return report
