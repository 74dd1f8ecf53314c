"""Writes the choice among an operator's kernels: one function, in which nothing is left of them.

    def sum(xp, input, dim=None, keepdim=False, *, dtype=None):
        if dim is None and dtype is None and xp is numpy and (input_size := input.size) <= 1024:
            ...
                return input.dot(SHORT32[input_size])
        return meaning(xp, input, dim, keepdim, dtype=dtype)

Neighbours ask what they share once; a kernel of a single expression stands in line. The function is
the operator's `forward`, written when it is first called. While somebody wants to know which kernel
runs (`notes`), it calls functions that say so, and at no other time.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy

from pullback.core.home import home_of
from pullback.core.process.first_use import first_use
from pullback.core.writer import block, define, named, theirs
from pullback.operators.conditions import FACTS
from pullback.operators.kernels import Kernel
from pullback.operators.order import names_asked

__all__ = [
    *("choice_among", "choice_of", "choice_source"),
    *("chooses_for", "inline_text", "is_choice", "notes", "rewrite_choices"),
    *("rewritten_by", "written"),
]

_FACT = re.compile(rf"(?<![\w.$])([^\W\d]\w*)_({'|'.join(FACTS)})\b")
_Pending = list[tuple[Kernel, list[str]]]


class _Notes:
    """Who is told of each kernel that runs: functions of (operator, kernel or None: meaning)."""

    def __init__(self) -> None:
        self.to: tuple[Callable[[Any, Kernel | None], None], ...] = ()

    def tell(self, whom: Callable[[Any, Kernel | None], None]) -> None:
        """From now on."""
        with first_use:
            self.to = (*self.to, whom)
            rewrite_choices()

    def forget(self, whom: Callable[[Any, Kernel | None], None]) -> None:
        """No longer."""
        with first_use:
            self.to = tuple([one for one in self.to if one != whom])
            rewrite_choices()

    def ran(self, op: Any, kernel: Any) -> None:
        """A kernel of this operator runs, of its entries or of its formula."""
        for one in self.to:
            one(op, kernel)

    def around(self, op: Any, kernel: Kernel | None, function: Any) -> Any:
        """The function of a kernel, or the meaning: it says that it runs, unless it declined."""
        waits = kernel is not None and (kernel.declines or kernel.tries)

        def noted(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs) if waits else None
            if made is not None or not waits:
                self.ran(op, kernel)
            return made if waits else function(*args, **kwargs)

        return noted if self.to else function


notes = _Notes()
_written: list[Callable[[], None]] = []  # what writes each function again


def rewrite_choices() -> None:
    """Write all of them again: entries have changed, or who is told of them."""
    for again in [*_written]:
        again()


def rewritten_by(again: Callable[[], None]) -> None:
    """Have `again` called, too, whenever choices are written again."""
    _written.append(again)


def _unwritten(*args: Any, **kwargs: Any) -> Any:
    return write_now()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821 (in its scope)


def choice_of(op: Any) -> FunctionType:
    """The function that chooses among the operator's kernels on the host."""
    return choice_among(op, lambda: [one for one in op.kernels if one.on == "host"], op.meaning)


def choice_among(op: Any, kernels: Callable[[], Sequence[Kernel]], meaning: Any) -> FunctionType:
    """The same of other kernels, and of `meaning` where none of them is for the call."""
    scope: dict[str, Any] = {"__name__": home_of(op.meaning), "chooses_for": op}
    made = FunctionType(_unwritten.__code__, scope, op.meaning.__name__)
    made.__qualname__, made.__module__ = op.meaning.__qualname__, op.meaning.__module__
    made.__doc__, made.__wrapped__ = op.meaning.__doc__, op.meaning  # type: ignore[attr-defined]  # inspect's name

    def write() -> Any:
        with first_use:
            if made.__code__ is _unwritten.__code__:
                again()
                _written.append(again)
        return made

    def again() -> None:
        lines, names = choice_lines(op, kernels(), noted=bool(notes.to))
        scope.update(names, meaning=notes.around(op, None, meaning))
        chosen = define(lines, scope, f"{op.name}, among its kernels")
        made.__defaults__, made.__kwdefaults__ = chosen.__defaults__, chosen.__kwdefaults__
        made.__code__ = chosen.__code__

    scope["write_now"] = write
    return made


def is_choice(function: Any) -> bool:
    """Whether a function was made here."""
    return type(function) is FunctionType and "chooses_for" in function.__globals__


def chooses_for(function: Any) -> Any:
    """The operator among whose kernels a function chooses; None of other functions."""
    return function.__globals__["chooses_for"] if is_choice(function) else None


def written(function: Any) -> Any:
    """The same function, whose code is written by now."""
    return function.__globals__["write_now"]() if is_choice(function) else function


def choice_source(op: Any) -> str:
    """The text of the choice, for who wants to read it."""
    on_host = [one for one in op.kernels if one.on == "host"]
    return named(choice_lines(op, on_host)[0])[0].replace("def chosen", f"def {op.name}", 1)


def choice_lines(
    op: Any, kernels: Sequence[Kernel], *, noted: bool = False
) -> tuple[list[str], dict[str, Any]]:
    """The lines of the function, and what they name."""
    writer = _Writer(op, kernels, noted=noted)
    lines = writer.tree([(one, [*one.when.questions]) for one in kernels], set())
    lines = [*_without_needless(lines), f"return meaning({', '.join(['xp', *_passed(op)])})"]
    return block(f"def chosen({_signature(op)})", lines), writer.scope


def _without_needless(lines: list[str]) -> list[str]:
    """The lines without names for facts that are asked for once."""
    text = "\n".join(lines)
    for name, value in set(re.findall(r"\((\w+) := ([^()]+)\)", text)):
        if len(re.findall(rf"(?<![\w.]){name}\b", text)) == 1:
            text = text.replace(f"({name} := {value})", _enclosed(value))
    return text.split("\n")


def _enclosed(value: str) -> str:
    """An expression as a part of another one."""
    return value if re.fullmatch(r"[$\w.]+(\[[^\[\]]*\])?", value) else f"({value})"


def inline_text(op: Any) -> str:
    """The kernel that stands in the operator's own function, or the choice: an expression there.

    What it names is entered beside the choice, where `build.scope_of` looks for it.
    """
    for kernel in op.kernels:
        if kernel.inline:
            break
    else:
        return ""
    writer = _Writer(op, [kernel], noted=False)
    questions, *_ = writer.condition(kernel.when.questions, set())
    made = writer.expression(kernel)
    if made is None or {*kernel.params} - {*writer.params, "xp"}:
        raise TypeError(f"{op.name}: {kernel.name} cannot stand in line.")
    op.forward.__globals__.update(writer.scope)
    asked = _without_needless([" and ".join(questions)])[0]
    asked = asked.replace("xp is numpy", "ndarray is host_array")
    text = f"{made} if {asked} else forward(xp, {', '.join(_passed(op))})"
    for number, param in enumerate(op.inputs):
        text = re.sub(rf"\$({param.name}\b)(?!=)", f"a{number}", text)
    return re.sub(r"(?<![\w.])xp\b", "numpy", text)


def _signature(op: Any) -> str:
    defaults = {name.removeprefix("default_"): f"={name}" for name in _defaults(op)}
    parts = [param.local + defaults.get(param.name, "") for param in op.params]
    first = len(op.positional)
    return ", ".join(["xp", *parts[:first], *(["*"] if parts[first:] else []), *parts[first:]])


def _defaults(op: Any) -> dict[str, Any]:
    parameters = inspect.signature(op.meaning).parameters.values()
    return {f"default_{p.name}": p.default for p in parameters if p.default is not p.empty}


def _passed(op: Any) -> list[str]:
    return [f"{p.name}={p.local}" if p.keyword_only else p.local for p in op.params]


class _Writer:
    """One function that is being written, and what its lines name so far."""

    def __init__(self, op: Any, kernels: Sequence[Kernel], *, noted: bool) -> None:
        self.op, self.notes = op, noted
        self.params = {param.name for param in op.params}
        self.optional = {param.name for param in op.inputs if param.kind == "optional"}
        self.scope: dict[str, Any] = {"numpy": numpy, **_defaults(op)}
        self.facts: dict[str, str] = {}
        for one in kernels:
            self.scope |= one.when.scope
            self.facts |= one.when.facts
        self.numbers = {id(one): number for number, one in enumerate(kernels)}

    def tree(self, pending: _Pending, known: set[str]) -> list[str]:
        """The kernels in their order, each behind what it still has to ask."""
        lines: list[str] = []
        pending, known = [*pending], {*known}
        while pending:
            kernel, questions = pending.pop(0)
            if not questions:
                lines += self.run(kernel, known)
                if not kernel.declines and not kernel.tries:
                    if pending:
                        raise TypeError(f"{self.op.name}: nothing is left for {pending[0][0]}.")
                    return lines
                continue
            together, shared = [(kernel, questions)], questions
            while pending and (both := [one for one in shared if one in pending[0][1]]):
                shared = both
                together.append(pending.pop(0))
            asked = shared if len(together) > 1 else questions
            texts, inside, after = self.condition(asked, known)
            rest = [(one, [q for q in its if q not in asked]) for one, its in together]
            lines += block(f"if {' and '.join(texts)}", self.tree(rest, inside))
            known = after
        return lines

    def condition(
        self, asked: Sequence[str], known: set[str]
    ) -> tuple[list[str], set[str], set[str]]:
        """Its parts, and the facts that are known inside and after it."""
        texts: list[str] = []
        after, inside = {*known}, {*known}
        for number, question in enumerate(asked):
            written: list[tuple[int, str, str]] = []  # from right to left they stay where they are
            for name, place, sure in names_asked(question):
                if name in inside or not self.is_fact(name):
                    continue
                value = self.value(name, inside)
                if sure == "perhaps":  # passed over, it would be no name afterwards
                    written.append((place, name, _enclosed(value)))
                    continue
                written.append((place, name, f"({name} := {value})"))
                inside.add(name)
                if sure == "always" and not number:
                    after.add(name)  # the first question is always asked
            text = question
            for place, name, value in sorted(written, reverse=True):
                text = text[:place] + value + text[place + len(name) :]
            texts.append(self.marked(text))
        return texts, inside, after

    def is_fact(self, name: str) -> bool:
        """Whether a name is one of the family's facts, or of a tensor that is always there."""
        return name in self.facts or bool(self.facts_in(name))

    def facts_in(self, text: str) -> list[str]:
        """The facts that a text asks for, those of the family first."""
        of_tensors = [one[0] for one in _FACT.finditer(text)
                      if one[1] in self.params and one[1] not in self.optional]  # fmt: skip
        own = [one for one in self.facts if re.search(rf"(?<![\w.$]){one}\b", text)]
        return [*own, *of_tensors]

    def value(self, fact: str, known: set[str]) -> str:
        """What a fact stands for, as text, where these are known."""
        if fact not in self.facts:
            owner, _, what = fact.rpartition("_")
            return f"{theirs(owner)}.{what}"
        text = self.facts[fact]
        for one in sorted({*self.facts_in(text)} - known):
            value = _enclosed(self.value(one, known))
            text = re.sub(rf"(?<![\w.]){one}\b", value, text)
        return self.marked(text)

    def marked(self, text: str) -> str:
        """Text about parameters and facts, with parameters marked as not ours to name."""

        def mark(found: re.Match[str]) -> str:
            name = found[0]
            if name in self.params:
                return theirs(name)
            owner, _, fact = name.rpartition("_")
            return f"{theirs(owner)}.{fact}" if owner in self.optional and fact in FACTS else name

        return re.sub(r"""'[^']*'|(?<![\w.$'"])[^\W\d]\w*""", mark, text)

    def run(self, kernel: Kernel, known: set[str]) -> list[str]:
        """The lines that run a kernel, with the facts that it asks for."""
        lines: list[str] = []
        for name in kernel.params:
            if name == "xp" or name in self.params or name in known:
                continue
            lines.append(f"{name} = {self.value(name, known)}")
        made = None if self.notes else self.expression(kernel)
        if made is None:
            called = f"kernel_{self.numbers[id(kernel)]}_{kernel.name}"
            self.scope[called] = notes.around(self.op, kernel, kernel.function)
            made = f"{called}({', '.join(map(self.marked, kernel.params))})"
        run = [f"return {made}"]
        if kernel.declines:
            run = [f"made = {made}", *block("if made is not None", ["return made"])]
        if kernel.tries:
            run = [*block("try", run), *block("except ValueError", ["pass"])]
        return [*lines, *run]

    def expression(self, kernel: Kernel) -> str | None:
        """A kernel that is one expression, as text; None where it has to be called."""
        function = kernel.function
        if function.__closure__ or function.__defaults__ or kernel.declines:
            return None
        tree = _single_expression(function)
        if tree is None:
            return None
        names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)} - {*kernel.params}
        theirs_now = {name: function.__globals__[name] for name in names
                      if name in function.__globals__}  # fmt: skip
        if any(self.scope.get(name, value) is not value for name, value in theirs_now.items()):
            return None
        self.scope |= theirs_now
        return self.marked(ast.unparse(tree))


def _single_expression(function: Any) -> ast.expr | None:
    """What a function of one `return` returns; None of others, and where no source is kept."""
    try:
        (tree,) = ast.parse(textwrap.dedent(_source_of(function))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return None
    body = tree.body if isinstance(tree, ast.FunctionDef) else []
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]  # its docstring
    simple = len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None
    if not simple or any(isinstance(one, ast.Lambda | ast.comprehension | ast.NamedExpr)
                         for one in ast.walk(tree)):  # fmt: skip
        return None
    made: ast.expr = body[0].value  # type: ignore[attr-defined]  # a Return's
    return made


def _source_of(function: FunctionType) -> str:
    """Its lines, as far as code was made of them.

    `inspect` reads them token by token to find the last, which took a tenth of the first call of a
    compiled net.
    """
    code = function.__code__
    last = max((end or 0 for _, end, _, _ in code.co_positions()), default=0)
    lines = linecache.getlines(code.co_filename, function.__globals__)[:last]
    if not lines[code.co_firstlineno - 1 :]:  # a Python that was told to keep no positions
        return inspect.getsource(function)
    return "".join(lines[code.co_firstlineno - 1 :])
