"""Writes, on an operator's first call, the function that one would write by hand.

The written function is a fast path for the plain case: tensors on NumPy arrays of one dtype,
grad mode on or off and nothing else active. Whatever differs (numbers beyond float32 and float64,
mixed dtypes, transforms, hooks, `out=`, subclasses that take over) leaves it for `interpret.call`.
The code object is put into the function that users already hold, so nothing needs to be swapped.
`pullback show NAME` prints what was written.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy

from pullback.core import arrays
from pullback.core.mode import Dual, Hooked, Mapped, current, get_mode
from pullback.core.ports import ports
from pullback.core.process.first_use import first_use
from pullback.core.saved import pack_plainly
from pullback.core.writer import block, define, named, theirs
from pullback.operators.adapter import Adapter
from pullback.operators.adapter import stub as adapter_stub
from pullback.operators.arrays.threads import setting
from pullback.operators.declare import REQUIRED, Op, stub
from pullback.operators.dispatch.layers import code_of, put
from pullback.operators.dispatch.observers import Unwatched, observers
from pullback.operators.options import NORMALISE, TYPED, UNFILLED
from pullback.operators.running import inplace, interpret, overlap
from pullback.operators.running.on_arrays import array_call, float_call
from pullback.operators.writing import record, steps
from pullback.operators.writing.call import arguments, everything, rare_lines, signature_of
from pullback.operators.writing.inplace import inplace_lines_of
from pullback.operators.writing.names import COMMON
from pullback.operators.writing.nodes import blank_nodes, node_class, rewrite_nodes
from pullback.operators.writing.rare import rare_form
from pullback.operators.writing.sequence import gives_sequence, sequence_lines, takes_sequence


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

    def write(*, watched: bool) -> list[str]:
        if inplace:
            return inplace_lines_of(op, watched=watched)
        return lines_of(op, watched=watched, sign=sign, adapter=adapter)

    def unwatched() -> Any:
        made = define(write(watched=False), own, f"{function.__name__}, watched")
        made.__name__ = function.__name__
        return made

    with first_use:  # re-entrant: a rule that is tried out here may call other operators
        unwritten = code_of(function)
        if unwritten not in (stub.__code__, adapter_stub.__code__):
            return function  # another thread was faster
        own = function.__globals__
        scope = {**own, **scope_of(op), "called": called, **other}
        scope["forms"] = Forms(op, own, out=not inplace)
        scope["unwatched"] = Unwatched(unwatched)
        title = called if adapter is None else f"{called}, as {function.__name__}"
        made = define(write(watched=True), scope, title)
        _built[function] = unwritten
        # What can fail is over; an interrupt between these lines leaves a stub that builds again.
        own.update(scope)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        put(function, made.__code__)
        return function


_built: dict[Any, Any] = {}  # whatever was written, with the code that writes it


def rewrite() -> None:
    """Have everything written anew: lines ask for types, or for large arrays, that did not."""
    with first_use:
        plainly.cache_clear()
        for function, unwritten in _built.items():
            put(function, unwritten)


def split_large() -> None:
    """Have lines and nodes ask for large arrays: several threads may work on one."""
    with first_use:
        if not setting.splits:
            setting.splits = True
            rewrite()
            rewrite_nodes()


def written_elsewhere(op: Op, names: dict[str, Any]) -> Any:
    """The function for arrays of another library, for which `names` mean something else.

    Whatever is unusual goes step by step.
    """
    scope = {**scope_of(op), "called": op.name, **names, "elsewhere": interpret.call}
    scope["forms"] = Forms(op, scope, elsewhere=True)
    return define(lines_of(op, watched=False), scope, f"{op.name}, elsewhere")


class Forms(dict[Any, Any]):
    """The forms of a function for what is unusual, each made when it is first needed.

    By the class of the mode: saved-tensor hooks, vmap, forward mode, and whatever else goes step by
    step. By name: what is asked before the mode, and `out=`.
    """

    __slots__ = ("elsewhere", "op", "out", "scope")

    def __init__(
        self, op: Op, scope: dict[str, Any], *, out: bool = True, elsewhere: bool = False
    ) -> None:
        self.op, self.scope, self.out, self.elsewhere = op, scope, out, elsewhere

    def __missing__(self, kind: Any) -> Any:
        with first_use:
            made = self.get(kind)
            if made is None:
                made = self[kind] = self._made(kind)
            return made

    def _made(self, kind: Any) -> Any:
        op, scope = self.op, self.scope
        if type(kind) is str:
            return rare_form(op, scope, kind, out=self.out)
        if not self.elsewhere:
            if kind is Mapped:
                return ports.mapped(op, {**scope}, plainly(op))
            if kind is Dual:
                return ports.dual(op, {**scope}, plainly(op))
            if kind is Hooked:
                scope = {**scope, "pack": pack_plainly, "plainly": plainly(op)}
                return define(hooked_lines_of(op), scope, f"{op.name}, with hooks")
        bail_out = [f"return call(op, {everything(op)})"]
        return define(block(f"def unusual(mode, {arguments(op)})", bail_out), {**scope}, op.name)


def forms_of(op: Op) -> Any:
    """The forms of an operator's own function."""
    own = op.function.__globals__
    if code_of(op.function) is stub.__code__:
        own["build_now"]()
    return own["forms"]


@cache  # an operator and its sign have one
def plainly(op: Op) -> Any:
    """The fast path, in a mode that it is given: the usual one below an unusual one.

    None where an operator has none. It takes all parameters by place. Whatever leaves it
    goes below a level, too.
    """
    body = body_of(op, below=True)
    if body is None:
        return None
    lines = block(f"def plainly(mode, {arguments(op)})", body)
    scope = {**scope_of(op), "called": op.name, "call": below_level, "elsewhere": below_level}
    # The user called the function whose form calls this.
    return define(record.called_from(3, lines), scope, f"{op.name}, below")


def below_level(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call in the mode below the innermost level, of vmap or of forward mode, or below hooks."""
    mode: Any = get_mode()
    below = mode.usual if mode.__class__ is Hooked else getattr(mode, "below", None)
    if below is None:
        return interpret.call(op, args, kwargs)
    try:
        current.set(below)
        return op.function(*args, **kwargs)
    finally:
        current.set(mode)


_CALLED: tuple[Any, ...] = (
    *(interpret.call, interpret.elsewhere, interpret.brought, interpret.explained),
    *(inplace.call_inplace, inplace.check_fit, inplace.kept_values, inplace.rebase),
    *(inplace.check_history_can_change, overlap.check_apart, overlap.check_writable),
    *(typed.check for typed in TYPED.values()),
)


def scope_of(op: Op) -> dict[str, Any]:
    """What the written code calls by name."""
    direct, floats = array_call(op), float_call(op)
    # What the declaration can name, and what kernels in line do, `usual` can.
    beside = [getattr(one, "__globals__", {}) for one in (op.meaning, op.forward)]
    named = re.findall(r"\w+", op.inline)
    return {
        **{name: one[name] for one in beside for name in named if name in one},
        **COMMON,
        **{function.__name__: function for function in _CALLED},
        **{f"as_{kind}": check for kind, check in NORMALISE.items()},
        **{f"default_{p.name}": p.default for p in op.params if p.default is not REQUIRED},
        "op": op,
        "observers": observers,
        "before_write": inplace.before_write,
        "UNFILLED": UNFILLED,
        "REQUIRED": REQUIRED,
        "REFUSALS": interpret.REFUSALS,
        "forward": op.forward,
        "into": op.out_kernel,
        "ufunc": getattr(numpy, direct) if direct else None,
        "of_floats": getattr(numpy, floats) if floats else None,
        "fits": steps.fits(op),
        "blank_nodes": blank_nodes(node_class(op)) if op.rules else None,
    }


@cache
def recorder_of(op: Op) -> Any:
    """The function that gives an operator's result its node; None for those that need more."""
    lines = record.recorder_lines(op) if steps.has_fast_path(op) else None
    return None if lines is None else define(lines, scope_of(op), f"record {op.name}")


def source_of(op: Op) -> str:
    """The Python source of the operator's function."""
    return named(lines_of(op))[0]


def lines_of(
    op: Op, *, watched: bool = True, sign: bool = False, adapter: Adapter | None = None
) -> list[str]:
    """The operator's function; its first line asks who looks on.

    Of a `sign` Python's own `x + y` knows no options, so it does not matter how they are given.
    With a `adapter` who looks on sees arguments in the operator's form.
    """
    step_by_step = [f"return call(op, {everything(op)})"]
    if adapter is not None and watched:
        lines = [*adapter.lines, *rare_lines(op, watched=True, sign=True)]
        return block(
            f"def written({adapter.parameters})", [*lines, *_fast_path(op, adapter=adapter)]
        )
    lines = rare_lines(op, watched=watched, sign=sign)
    head = f"def written({signature_of(op, out=not sign, sign=sign)})"
    return block(head, [*lines, *(body_of(op) or step_by_step)])


def body_of(op: Op, *, below: bool = False) -> list[str] | None:
    """From the arguments to the result; None where that goes step by step."""
    if takes_sequence(op) or gives_sequence(op):
        return [*_mode_lines(op, below=below), *sequence_lines(op)]
    return _fast_path(op, below=below) if steps.has_fast_path(op) else None


def _mode_lines(op: Op, *, below: bool) -> list[str]:
    """Read the mode; in an unusual one the call has a form of its own. `below` one it is known."""
    if below:
        return ["plain = fast.plain"]
    form = f"return forms[mode.__class__](mode, {arguments(op)})"
    return [*steps.MODE_LINES, *block(f"if {steps.UNUSUAL_MODE}", [form])]


def hooked_lines_of(op: Op) -> list[str]:
    """The form for a mode of class `Hooked`; what keeps no tensors runs as without hooks."""
    unhooked = f"return plainly(mode.usual, {arguments(op)})"
    bail_out = f"return call(op, {everything(op)})"
    lines = block("if fast.plain is None", [bail_out])
    if not steps.saves_tensors(op):
        return block(f"def hooked(mode, {arguments(op)})", [*lines, unhooked])
    lines += block("if not mode.grad", [unhooked])
    if any(param.name == "dtype" for param in op.params):  # whole numbers have no history
        lines += block(f"if {theirs('dtype')} is not None", [bail_out])
    lines += ["hooks, mode = mode, mode.usual", *_fast_path(op, below=True, hooked=True)]
    # The user called the function that calls this.
    return block(f"def hooked(mode, {arguments(op)})", record.called_from(2, lines))


def _fast_path(
    op: Op, *, below: bool = False, adapter: Adapter | None = None, hooked: bool = False
) -> list[str]:
    bail_out = f"return call(op, {everything(op)})"
    mixed = steps.takes_mixed(op)
    lines = steps.array_lines(op, bail_out, mixed=mixed)
    if arrays.LIBRARIES:
        lines += block(f"if {steps.other_arrays(op)}", [f"return elsewhere(op, {everything(op)})"])
    lines += _mode_lines(op, below=below)
    unusual = steps.not_plain(op, mixed=mixed)
    lines += block(f"if {' or '.join(unusual)}", [bail_out]) if unusual else []
    lines += steps.mixed_lines(op, bail_out) if mixed else []
    lines += steps.normalised_lines(op) if adapter is None or not adapter.is_normal else []
    lines += (
        [*record.edge_lines(op), *record.nowhere_lines(op), *record.packed_inputs(op)]
        if hooked
        else []
    )
    lines += steps.computed_lines(op, "" if adapter is None else adapter.inline)
    view = op.kind == "view"
    return lines + (record.viewed_lines(op) if view else record.recorded_lines(op, hooked=hooked))


ports.fill(build=build, recorder_of=recorder_of, split_large=split_large)
