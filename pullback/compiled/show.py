"""`pullback show NAME`: all that there is of one public name, in one place.

Of a declared operator: its meaning, its kernels with their conditions, its rules, how compiled
programs, devices and layouts have it, and the code that is written from it. Of a composition: its
source, and the operators that it calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import pullback
from pullback.core.home import home_of, is_ours
from pullback.operators.attach.every import load_all
from pullback.operators.choice import choice_source, is_choice
from pullback.operators.declare import OPERATORS, Op
from pullback.operators.dispatch.layers import code_of
from pullback.operators.formula.in_python import plain_function
from pullback.operators.writing.build import source_of
from pullback.operators.writing.nodes import node_class

__all__ = ["Unknown", "shown"]

# Where a name without a dot is looked for, in this order.
_PLACES = ("", "nn.functional", "Tensor", "linalg", "special", "fft")


class Unknown(LookupError):  # noqa: N818 (what the command says is no fault of the program)
    """There is no such name; names that are near."""


def shown(name: str) -> str:
    """The text for a name: `mul`, `nn.functional.gelu`, `Tensor.view`, `_conv`."""
    load_all()
    what = found(name)
    if isinstance(what, Op):
        form = [] if name in (what.name, _key(what)) else [f"# {name}: a form of {_key(what)}"]
        return "\n".join([*form, *_of_operator(what)])
    if what is not None:
        return "\n".join(_of_composition(name, what))
    near = sorted({known for known in list(OPERATORS) if name.rpartition(".")[2] in known})
    raise Unknown(*near[:8])


def found(name: str) -> Op | FunctionType | None:
    """The operator or the composition behind a name; None where there is no such."""
    function = _public(name)
    op = _operator(function)
    if op is None and isinstance(function, FunctionType) and is_ours(function):
        return function
    return op or OPERATORS.get(name) or OPERATORS.get(f"_{name}")


# Finding what a name means ------------------------------------------------------------------------


def _public(name: str) -> Any:
    parts = name.removeprefix("torch.").removeprefix("pullback.")
    for place in _PLACES:
        found: Any = pullback
        try:
            for part in [*place.split(".")] * bool(place) + parts.split("."):
                found = getattr(found, part)
        except AttributeError:
            continue
        return found.fget if isinstance(found, property) else found
    return None


def _operator(function: Any) -> Op | None:
    """The operator that a function is a form of: itself, in place, or behind a front."""
    op = getattr(function, "op", None)
    if isinstance(op, Op):
        return op
    scope = getattr(function, "__globals__", {})
    write = scope.get("build_now") or scope.get("write_now")
    if write is None or is_choice(function):
        return None
    written = write().__globals__.get("op")
    return written if isinstance(written, Op) else None


def _plain(function: Any) -> Any:
    """A composition without what stands before it."""
    return inspect.unwrap(function)


# What is said of it -------------------------------------------------------------------------------


def _of_composition(name: str, function: Any) -> Iterator[str]:
    plain = _plain(function)
    yield f"# {name}: a function of operators, {_where(plain)}"
    yield from _source(plain)
    listed = _operators_in(plain)
    if listed:
        yield f"\n# it calls, by way of its helpers: {', '.join(op.name for op in listed)}"
    for op in _parts(listed, name, plain):
        yield f"\n# {'-' * 96}"
        yield from _of_operator(op)


_FEW = 3


def _parts(listed: list[Op], name: str, function: Any) -> list[Op]:
    """The operators that are behind this name: `sum.full`, `_max_pool2d`, those of its room."""
    own = name.rpartition(".")[2].strip("_")
    named = [op for op in listed if op.name.strip("_").partition(".")[0] == own]
    room = home_of(function).rpartition(".")[0]
    beside = [op for op in listed if home_of(op.meaning).rpartition(".")[0] == room]
    return named or beside[:_FEW]


def _of_operator(op: Op) -> Iterator[str]:
    yield f"# {_key(op)}: {op.kind}, node {op.node_name}"
    yield f"# its meaning, declared at {_where(op.meaning)}"
    yield from _source(op.meaning)
    yield from _kernels(op)
    yield from _formula(op)
    yield from _rules(op)
    yield from _elsewhere(op)
    yield "\n# written on the first call"
    yield source_of(op).replace("def written(", f"def {op.name}(", 1)
    if op.rules:
        yield "\n# the rules, as its node runs them on arrays"
        yield inspect.getsource(node_class(op)._run)


def _kernels(op: Op) -> Iterator[str]:
    on_host = [one for one in op.kernels if one.on == "host"]
    if op.inline:
        yield f"\n# in line, before all kernels: {op.inline}"
    if not on_host:
        return
    yield "\n# kernels, in the order of choice; else the meaning"
    for one in on_host:
        how = ", machine code" if one.machine_code else ", may decline" if one.declines else ""
        yield f"#   {one.name}{how}: {_where(one.function)}"
        facts = "".join(f", {name}: {text}" for name, text in one.when.facts.items())
        yield f"#       when {one.when}{facts}"
    yield f"\n# the choice, as written\n{choice_source(op)}"


def _formula(op: Op) -> Iterator[str]:
    """The kernels that follow from a formula, and its derivatives."""
    if op.formula is None:
        return
    if op.formula.is_forward:
        yield "\n# kernels that its formula gives, of one dtype of float32 to complex128"
        yield from [f"#   {one.name}: when {one.when}" for one in op.formula.forms.values()]
    for tensor, backward in getattr(op.function, "adjoints", {}).items():
        how = "with the slope by hand" if tensor in op.formula.formula.slopes else "derived"
        yield f"\n# its gradient by {tensor}, {how}"
        yield plain_function(backward.op.name, backward.op.formula, lambda _, word: f"xp.{word}")


def _rules(op: Op) -> Iterator[str]:
    if op.rules:
        yield "\n# rules"
    for name, rule in op.rules.items():
        asked = ", ".join(inspect.signature(rule).parameters)
        yield f"#   {name}: {rule.__qualname__}({asked}), {_where(rule)}"
    for word, other in (("all at once", op.fused_backward), ("jvp", op.jvp), ("batch", op.batch)):
        if other is not None:
            yield f"#   {word}: {_where(other)}"


def _elsewhere(op: Op) -> Iterator[str]:
    yield f"\n# compiled programs: {_lowering(op)}"
    for line in _on_device(op):
        yield f"# on a CUDA device: {line}"
    layouts = [name for name, table in _layouts().items() if op.name in table]
    if layouts:
        yield f"# layouts of its own: {', '.join(layouts)}"
    yield f"# torch's overload: {'none' if op.aten == '' else op.aten or op.name}"


def _lowering(op: Op) -> str:
    from pullback.compiled.lower import program
    from pullback.compiled.lower.rules import RULES

    assert program  # loaded for the lowerings that it registers
    rule = RULES.get(_key(op))
    if rule is not None:
        return f"lowered by {_where(inspect.unwrap(rule))}"
    if op.kind == "view":
        return "a view, by its geometry"
    return "its loop derived from the meaning" if op.kind == "elementwise" else "its eager kernel"


def _on_device(op: Op) -> list[str]:
    """Kernels of a device, and helpers of the meaning that are another program there."""
    from pullback.operators.cuda import overrides
    from pullback.operators.cuda.kernel_overrides import override_of

    overrides.load()
    lines = [
        f"{one.name} when {one.when}, {_where(one.function)}"
        for one in op.kernels
        if one.on == "cuda"
    ]
    own = [one.function for one in op.kernels]
    for function in _functions_in(op.meaning):
        other = override_of(function)
        if other is not None and other not in own:
            lines.append(f"{_where(inspect.unwrap(other))} in place of {function.__qualname__}")
    return lines or ["the same kernels, on its array library"]


@cache
def _layouts() -> dict[str, Any]:
    from pullback.operators.nested import calls as nested
    from pullback.operators.sparse import calls as sparse

    return {"sparse": sparse.table(), "nested": {**nested.table(True), **nested.table(False)}}


# Words --------------------------------------------------------------------------------------------


def _key(op: Op) -> str:
    return f"{op.space}.{op.name}" if op.space else op.name


def _source(function: Any) -> Iterator[str]:
    try:
        yield inspect.getsource(function)
    except (OSError, TypeError):
        yield f"# made by {getattr(function, '__qualname__', function)}"


def _where(function: Any) -> str:
    """File and line, from the package on."""
    function = getattr(function, "func", function)
    if not isinstance(function, FunctionType):
        return str(getattr(function, "__name__", type(function).__name__))
    code = code_of(inspect.unwrap(function))
    file = code.co_filename.replace("\\", "/")
    return f"{file[file.rfind('/pullback/') + 1 :]}:{code.co_firstlineno}"


def _operators_in(function: Any) -> list[Op]:
    found: dict[str, Op] = {}
    for value in _reached(function, lambda one: not hasattr(one, "op")):
        op = getattr(value, "op", None)
        if isinstance(op, Op):
            found.setdefault(op.name, op)
    return list(found.values())


def _functions_in(function: Any) -> list[Any]:
    return [
        one
        for one in _reached(function, lambda one: not hasattr(one, "op"))
        if isinstance(one, FunctionType) and not hasattr(one, "op")
    ]


def _reached(function: Any, goes_on: Callable[[Any], bool]) -> list[Any]:
    """What a function names, and what those name in turn, in the order of first mention."""
    seen: dict[int, Any] = {}

    def visit(one: Any) -> None:
        if id(one) in seen:
            return
        seen[id(one)] = one
        if not isinstance(one, FunctionType) or not is_ours(one, "operators") or not goes_on(one):
            return
        for value in _named_by(_plain(one)):
            if isinstance(value, FunctionType):
                visit(value)
            elif isinstance(value, dict | tuple | list):
                for part in value.values() if isinstance(value, dict) else value:
                    if isinstance(part, FunctionType):
                        visit(part)

    visit(function)
    return list(seen.values())


def _named_by(function: Any) -> Iterator[Any]:
    def names(code: CodeType) -> Iterator[str]:
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from names(constant)

    for name in names(code_of(function)):
        if name in function.__globals__:
            yield function.__globals__[name]
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
