"""Writes, on an operator's first call, the function that one would write by hand.

The written function is a fast path for the plain case: tensors on NumPy arrays of one dtype,
grad mode on or off and nothing else active. Whatever differs (numbers beyond float32 and float64,
mixed dtypes, transforms, hooks, `out=`, subclasses that take over) leaves it for `interpret.call`.
The code object is put into the function that users already hold, so nothing needs to be swapped.
`pullback show NAME` prints what was written.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any

import numpy

from pullback.core import arrays, errors
from pullback.core.explain import cause
from pullback.core.explain.birth import Birth, Ended, make_birth
from pullback.core.mode import Dual, Hooked, Mapped, current, get_mode
from pullback.core.node import Leaf, Output
from pullback.core.overriding import BAIL_OUTS
from pullback.core.ports import ports
from pullback.core.process.first_use import first_use
from pullback.core.saved import pack_plainly
from pullback.core.version import INFERENCE_CELL, bump, shorten
from pullback.core.view import NOWHERE, USUAL, CreationMeta, View, attach
from pullback.operators.arrays.threads import setting
from pullback.operators.declare import REQUIRED, Op, stub
from pullback.operators.dispatch.observers import Unwatched, observed, observers
from pullback.operators.options import NORMALISE, TYPED, UNFILLED, numbers_between, respelled
from pullback.operators.running import inplace, interpret, overlap
from pullback.operators.writing.adapter import Adapter
from pullback.operators.writing.adapter import stub as adapter_stub
from pullback.operators.writing.call import (
    arguments,
    everything,
    rare_form,
    rare_lines,
    signature_of,
    watched_lines,
)
from pullback.operators.writing.common import COMMON
from pullback.operators.writing.inplace import inplace_lines_of
from pullback.operators.writing.layers import code_of, put
from pullback.operators.writing.nodes import blank_nodes, node_class, rewrite_nodes
from pullback.operators.writing.out_form import with_out_lines
from pullback.operators.writing.record import (
    as_array_lines,
    recorded_lines,
    several_lines,
    viewed_lines,
)
from pullback.operators.writing.sequence import (
    gives_sequence,
    parts_line,
    sequence_line,
    sequence_node,
    takes_sequence,
)
from pullback.operators.writing.specialise import array_call, float_call
from pullback.operators.writing.steps import (
    array_lines,
    computed_lines,
    fits,
    forward_call,
    has_fast_path,
    mixed_lines,
    mode_lines,
    normalised_lines,
    not_plain,
    other_arrays,
    takes_mixed,
)
from pullback.operators.writing.writer import block, define, indented, named


def build(
    function: Any,
    op: Op,
    called: str,
    *,
    inplace: bool = False,
    adapter: Adapter | None = None,
    sign: bool = False,
    **other: Any,
) -> Any:
    """Write an operator's function, or its in-place form, and put the code into `function`.

    With a `adapter` it takes its arguments in another form; as a `sign`, operands alone.

    `other` are names that mean something else in this function, such as its way out of the fast
    path. This is the one place where code is swapped, once for each function: whoever holds it
    (a method, a from-import) holds what was written.
    """
    with first_use:  # re-entrant: a rule that is tried out here may call other operators
        if code_of(function) not in (stub.__code__, adapter_stub.__code__):
            return function  # another thread was faster
        write: Any = inplace_lines_of if inplace else lines_of
        if adapter is not None:
            write = partial(adapted_lines_of, adapter)
        elif sign:
            write = partial(lines_of, sign=True)
        own = function.__globals__
        scope = {**own, **scope_of(op), "called": called, **other}
        scope["forms"] = Forms(op, called, own)
        scope["unwatched"] = Unwatched(lambda: _unwatched(function, write(op, watched=False)))
        title = called if adapter is None else f"{called}, as {function.__name__}"
        made = define(write(op, watched=True), scope, title)
        _built.append((function, op, called, write))
        # What can fail is over; an interrupt between these lines leaves a stub that builds again.
        own.update(scope)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        put(function, made.__code__)
        return function


# Whatever was written, in order: for `rewrite`.
_built: list[tuple[Any, Op, str, Any]] = []


def rewrite() -> None:
    """Write everything anew: lines ask for types, or for large arrays, that did not."""
    with first_use:
        plainly.cache_clear()
        for function, op, called, write in _built:
            own = function.__globals__
            own["unwatched"] = Unwatched(partial(_again, function, op, write))
            own["forms"] = Forms(op, called, own)
            put(function, define(write(op, watched=True), own, called).__code__)


def split_large() -> None:
    """Have lines and nodes ask for large arrays: several threads may work on one."""
    with first_use:
        if not setting.splits:
            setting.splits = True
            rewrite()
            rewrite_nodes()


def _again(function: Any, op: Op, write: Any) -> Any:
    return _unwatched(function, write(op, watched=False))


def written_elsewhere(op: Op, names: dict[str, Any]) -> Any:
    """The function for arrays of another library, for which `names` mean something else."""
    scope = {**scope_of(op), "called": op.name, **names, "elsewhere": interpret.call}
    scope["forms"] = _StepByStep(op, scope)
    return define(lines_of(op, watched=False), scope, f"{op.name}, elsewhere")


class _StepByStep(dict[Any, Any]):
    """In place of forms, for arrays of another library: whatever is unusual goes step by step."""

    def __init__(self, op: Op, scope: dict[str, Any]) -> None:
        bail_out = [f"return call(op, {everything(op, out=False)})"]
        form = block(f"def unusual(mode, {arguments(op)})", bail_out)
        self.by_mode = define(form, scope, f"{op.name}, elsewhere, unusual")
        rare = rare_form(op, [f"return call(op, {everything(op)})"], watched=False)
        self["unwatched"] = define(rare, scope, f"{op.name}, elsewhere, rarely")

    def __missing__(self, kind: Any) -> Any:
        return self.by_mode


class Forms(dict[Any, Any]):
    """The forms of a function for what is unusual, each written when it is first needed.

    By the class of the mode: saved-tensor hooks, vmap, forward mode, and whatever else goes step by
    step. By name: what is asked before the mode, and `out=`.
    """

    __slots__ = ("called", "op", "scope")

    def __init__(self, op: Op, called: str, scope: dict[str, Any]) -> None:
        self.op = op
        self.called = called
        self.scope = scope  # of the function

    def __missing__(self, kind: Any) -> Any:
        with first_use:
            made = self.get(kind)
            if made is None:
                made = self[kind] = self._written(kind, {**self.scope})
            return made

    def _written(self, kind: Any, scope: dict[str, Any]) -> Any:
        op = self.op
        if kind is Mapped:
            return ports.mapped(op, scope, plainly(op))
        if kind is Dual:
            return ports.dual(op, scope, plainly(op))
        if kind in ("rare", "unwatched", "sign"):
            watched, sign = kind != "unwatched", kind == "sign"
            lines = rare_form(op, with_out_lines(op), watched=watched, sign=sign)
            return define(lines, scope, f"{self.called}, rarely")
        if kind is Hooked:
            from pullback.operators.writing.hooked import hooked_lines_of  # few programs have hooks

            scope |= {"pack": pack_plainly, "plainly": plainly(op)}
            return define(hooked_lines_of(op), scope, f"{self.called}, with hooks")
        bail_out = [f"return call(op, {everything(op, out=False)})"]
        return define(block(f"def unusual(mode, {arguments(op)})", bail_out), scope, self.called)


def forms_of(op: Op) -> Any:
    """The forms of an operator's own function."""
    own = op.function.__globals__
    if "forms" not in own:
        own["build_now"]()
    return own["forms"]


@cache  # an operator and its sign have one
def plainly(op: Op) -> Any:
    """The fast path, in a mode that it is given: the usual one below an unusual one.

    None where an operator has none. It takes all parameters by place. Whatever leaves it
    goes below a level, too.
    """
    if takes_sequence(op) or gives_sequence(op):
        body = _sequence_line(op, below=True)
    elif has_fast_path(op):
        body = _fast_path(op, below=True)
    else:
        return None
    lines = block(f"def plainly(mode, {arguments(op)})", body)
    # The user called the function whose form calls this.
    lines = [line.replace("getframe(1)", "getframe(3)") for line in lines]
    scope = {**scope_of(op), "called": op.name, "call": below_level, "elsewhere": below_level}
    return define(lines, scope, f"{op.name}, below")


def below_level(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call in the mode below the innermost level, of vmap or of forward mode."""
    mode = get_mode()
    below = getattr(mode, "below", None)
    if below is None:  # hooks, which those who take the call are to see
        return interpret.call(op, args, kwargs)
    try:
        current.set(below)
        return op.function(*args, **kwargs)
    finally:
        current.set(mode)


def _unwatched(function: Any, lines: list[str]) -> Any:
    """The same function without the question who looks on."""
    made = define(lines, function.__globals__, f"{function.__name__}, watched")
    made.__name__ = function.__name__
    return made


def scope_of(op: Op) -> dict[str, Any]:
    """What the written code calls by name."""
    direct, floats = array_call(op), float_call(op)
    beside = getattr(op.forward, "__globals__", {})  # what the declaration can name, `usual` can
    return {
        **{name: beside[name] for name in re.findall(r"\w+", op.inline) if name in beside},
        **COMMON,
        "op": op,
        "observers": observers,
        "Hooked": Hooked,
        "before_write": inplace.before_write,
        "observed": observed,
        "call": interpret.call,
        "elsewhere": interpret.elsewhere,
        "call_inplace": inplace.call_inplace,
        "check_fit": inplace.check_fit,
        "old_value": inplace.old_value,
        "rebase": inplace.rebase,
        "check_apart": overlap.check_apart,
        "check_writable": overlap.check_writable,
        "check_history_can_change": inplace.check_history_can_change,
        "errors": errors,
        "INFERENCE_CELL": INFERENCE_CELL,
        "bump": bump,
        "shorten": shorten,
        "adopt": cause.adopt,
        "ended": cause.ended,
        "ended_at": cause.ended_at,
        "Birth": Birth,
        "Ended": Ended,
        "born": make_birth,
        "MULTI_OUTPUT": CreationMeta.MULTI_OUTPUT_NODE,
        "NOWHERE": NOWHERE,
        "SPECIAL": (Leaf, View),
        "explained": interpret.explained,
        "respelled": respelled,
        "numbers_between": numbers_between,
        "UNFILLED": UNFILLED,
        "REQUIRED": REQUIRED,
        "USUAL": USUAL,
        "NO_GRAD_VIEW": CreationMeta.NO_GRAD_MODE,
        "INFERENCE_VIEW": CreationMeta.INFERENCE_MODE,
        "Output": Output,
        "Leaf": Leaf,
        "attach": attach,
        "asarray": arrays.as_array,
        "host_array": numpy.ndarray,  # whatever `ndarray` is where lines are written for a device
        "array": numpy.array,
        "SCALARS": arrays.SCALARS,
        "numpy": numpy,
        "forward": op.forward,
        "into": op.out_kernel,
        "ufunc": getattr(numpy, direct) if direct else None,
        "of_floats": getattr(numpy, floats) if floats else None,
        "fits": fits(op),
        "BAIL_OUTS": BAIL_OUTS,
        "LOOSE": arrays.LOOSE,
        "brought": interpret.brought,
        "REFUSALS": interpret.REFUSALS,
        "blank_nodes": blank_nodes(node_class(op)) if op.rules else None,
        **{typed.check.__name__: typed.check for typed in TYPED.values()},
        **{f"as_{kind}": check for kind, check in NORMALISE.items()},
        **{f"default_{p.name}": p.default for p in op.params if p.default is not REQUIRED},
    }


def source_of(op: Op) -> str:
    """The Python source of the operator's function."""
    return named(lines_of(op))[0]


def lines_of(op: Op, *, watched: bool = True, sign: bool = False) -> list[str]:
    """The operator's function; its first line asks who looks on.

    Of a `sign` Python's own `x + y` knows no options, so it does not matter how they are given.
    """
    head = f"def written({signature_of(op, out=not sign, sign=sign)})"
    lines = rare_lines(op, watched=watched, sign=sign)
    if takes_sequence(op) or gives_sequence(op):
        return block(head, [*lines, *_sequence_line(op)])
    if not has_fast_path(op):
        return block(head, [*lines, f"return call(op, {everything(op, out=False)})"])
    return block(head, [*lines, *_fast_path(op)])


def adapted_lines_of(adapter: Adapter, op: Op, *, watched: bool = True) -> list[str]:
    """The same with arguments in another form; who looks on sees them in the operator's."""
    if not watched:
        return lines_of(op, watched=False)
    return block(
        f"def written({adapter.parameters})",
        [*adapter.lines, *watched_lines(op, out=False), *_fast_path(op, adapter=adapter)],
    )


def _fast_path(op: Op, *, below: bool = False, adapter: Adapter | None = None) -> list[str]:
    """From the arguments to the result; `below` a vmap level the mode is known."""
    bail_out = f"return call(op, {everything(op, out=False)})"
    mixed = takes_mixed(op)
    lines = array_lines(op, bail_out, mixed=mixed)
    if arrays.LIBRARIES:
        other = f"return elsewhere(op, {everything(op, out=False)})"
        lines += block(f"if {other_arrays(op)}", [other])
    lines += ["plain = fast.plain"] if below else mode_lines(op)
    unusual = not_plain(op, mixed=mixed)
    lines += block(f"if {' or '.join(unusual)}", [bail_out]) if unusual else []
    lines += mixed_lines(op, bail_out) if mixed else []
    lines += normalised_lines(op) if adapter is None or not adapter.is_normal else []
    lines += computed_lines(op, "" if adapter is None else adapter.inline)
    if len(op.outputs) > 1:
        return lines + several_lines(op)
    made = ["result = next(blanks)", "result._array, result._node = r, None"]
    if op.kind == "view":
        return [*lines, "result = next(blanks)", "result._array = r", *viewed_lines(op)]
    lines += as_array_lines("r")
    if array_call(op) is None and len(op.inputs) > 1:  # the first has data; another may have none
        lines += indented(block("if type(r) is not ndarray", [bail_out]))
    return [*lines, *made, *recorded_lines(op)]


def _sequence_line(op: Op, *, below: bool = False) -> list[str]:
    bail_out = f"return call(op, {everything(op, out=False)})"
    start = ["plain = fast.plain"] if below else mode_lines(op)
    if takes_sequence(op):
        node = sequence_node(op, "tuple(edges)", "r")
        call = forward_call(op)[0].replace("a0", "arrays", 1)
        return [*start, *sequence_line(op, bail_out, call, node)]
    node = sequence_node(op, "(edge,)", "a0")
    return [*start, *parts_line(op, bail_out, normalised_lines(op), forward_call(op)[0], node)]


ports.fill(build=build, split_large=split_large)
