"""How an error that nobody caught is printed: it ends at the user's line.

Frames of this package are left out, wherever they stand; the exception itself keeps them, for
debuggers and for who catches it. `PULLBACK_TRACEBACK=full` shows everything. For an unknown
argument the signature is printed too, since Python names the argument alone.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pullback.core.explain.absent import reason
from pullback.core.origin import internal

if TYPE_CHECKING:
    import inspect
    import traceback

__all__ = ["hint", "install", "lines_of", "wanted_whole"]


def wanted_whole() -> bool:
    """Whether the user wants to see frames of this package."""
    return os.environ.get("PULLBACK_TRACEBACK", "").lower() == "full"


def install() -> None:
    """Print uncaught errors so, unless somebody else has put a hook there already."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_in_thread

    if "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
        if shell is not None and not shell.custom_exceptions:
            shell.set_custom_exc((Exception,), _show_in_cell)


def _show_in_cell(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    """Print the error of a notebook's cell as the notebook does, without our frames."""
    shown, hidden = (trace, 0) if wanted_whole() else _without_ours(trace)
    before, context = error.__suppress_context__, error.__context__
    if hidden and context is not None and _without_ours(context.__traceback__)[0] is None:
        error.__suppress_context__ = True  # what the package caught itself
    try:
        shell.showtraceback((kind, error, shown), tb_offset=tb_offset)
    finally:
        error.__suppress_context__ = before
        sys.last_traceback = trace  # for debuggers
    for line in (hint(error), _note(hidden)):
        if line:
            print(line, file=sys.stderr)


def _without_ours(trace: TracebackType | None) -> tuple[TracebackType | None, int]:
    """A traceback without frames of this package, and how many those were."""
    kept: list[TracebackType] = []
    hidden = 0
    while trace is not None:
        if internal[trace.tb_frame.f_code.co_filename]:
            hidden += 1
        else:
            kept.append(trace)
        trace = trace.tb_next
    shown: TracebackType | None = None
    for one in reversed(kept):
        shown = TracebackType(shown, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return shown, hidden


def _note(hidden: int) -> str:
    frames = "frame" if hidden == 1 else "frames"
    told = f"({hidden} {frames} of pullback hidden; PULLBACK_TRACEBACK=full shows them)"
    return told if hidden else ""


def _print(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None, where: str = ""
) -> None:
    try:
        text = where + "".join(lines_of(error, trace))
    except Exception:
        sys.__excepthook__(kind, error, trace)
        return
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _print_in_thread(args: Any) -> None:
    if args.exc_type is SystemExit or args.exc_value is None:
        threading.__excepthook__(args)
        return
    name = args.thread.name if args.thread is not None else threading.get_ident()
    where = f"Exception in thread {name}:\n"
    _print(args.exc_type, args.exc_value, args.exc_traceback, where)


def lines_of(error: BaseException, trace: TracebackType | None) -> list[str]:
    """The printed traceback, with the hint for an unknown argument."""
    import traceback  # here and below: most programs never need it

    told = traceback.TracebackException(type(error), error, trace, compact=True)
    hidden = 0 if wanted_whole() else _hide(told)
    lines = list(told.format())
    said = any("Did you mean" in line for line in lines)  # by Python itself, from 3.12 on
    found = hint(error) or ("" if said else _near(error, trace))
    if found:
        lines.append(f"{found}\n")
    if hidden:
        lines.append(f"{_note(hidden)}\n")
    return lines


def _hide(told: traceback.TracebackException) -> int:
    """Take the package's frames out of an error and those it came from; how many went."""
    hidden, seen = 0, set()
    stack: list[Any] = [told]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if one.__context__ is not None and one.__cause__ is None and _is_ours(one.__context__):
            hidden += len(one.__context__.stack)  # what the package caught itself
            one.__context__ = None
        stack += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
        if one is told and _is_ours(one):
            continue  # an error of the package alone, as from its own command, is shown whole
        kept = [frame for frame in one.stack if not internal[frame.filename]]
        hidden += len(one.stack) - len(kept)
        one.stack[:] = kept
    return hidden


def _is_ours(told: traceback.TracebackException) -> bool:
    return all(internal[frame.filename] for frame in told.stack)


def _near(error: BaseException, trace: TracebackType | None) -> str:
    """What was meant, as Python's own printer says it, and `traceback` from 3.12 on."""
    import difflib

    name = getattr(error, "name", None)
    if not isinstance(name, str):
        return ""
    known: set[str] = set()
    if isinstance(error, AttributeError):
        known = set(dir(error.obj)) if error.obj is not None else set()
    elif isinstance(error, NameError):
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        frame = None if trace is None else trace.tb_frame
        if frame is not None:
            known = {*frame.f_locals, *frame.f_globals, *frame.f_builtins}
    found = difflib.get_close_matches(name, known, 1, 0.65)  # which finds SGD for SDG
    return f"Did you mean: {found[0]!r}?" if found else ""


# Unknown arguments ------------------------------------------------------------------------------

# What NumPy and others call an argument.
_OTHERS = {
    **dict.fromkeys(("axis", "axes", "dims"), "dim"),
    **dict.fromkeys(("prob", "rate"), "p"),
    "keepdims": "keepdim",
    "shape": "size",
    "learning_rate": "lr",
    "epsilon": "eps",
}
# The second form is of classes that check their arguments themselves, and show their signature.
_UNKNOWN = r"([\w.]+)\((\)|.*\):) got an unexpected keyword argument '(\w+)'"


def _absent_method(error: AttributeError) -> str:
    """Why a tensor has no method of that name, if it is one of torch's."""
    of_tensor = str(error).startswith("'Tensor' object")
    why = reason(f"Tensor.{error.name}") if of_tensor else None
    return f"{why[0].upper()}{why[1:]}." if why else ""


def hint(error: BaseException) -> str:
    """The signature of our function that was given an unknown argument, or why a name is absent."""
    if isinstance(error, AttributeError):
        return _absent_method(error)
    import difflib
    import inspect
    import re

    found = re.match(_UNKNOWN, str(error)) if type(error) is TypeError else None
    if found is None:
        return ""
    best: inspect.Signature | None = None
    near, likeness = "", 0.5
    for function in _functions_of(found[1].removesuffix(".__init__")):
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            continue
        best = best or signature
        for name in signature.parameters:
            alike = difflib.SequenceMatcher(None, found[3], name).ratio()
            if alike > likeness and name not in ("self", "args", "kwargs"):
                best, near, likeness = signature, name, alike
    if best is None:
        return ""
    other = _OTHERS.get(found[3], "")
    near = near or (other if other in best.parameters else "")
    meant = f"did you mean {near!r}? " if near else ""
    if found[2] != ")":  # the message has the signature
        return meant.rstrip()
    given = [one for one in best.parameters.values() if one.name != "self"]
    shown = ", ".join(map(_parameter, given))
    return f"{meant}The signature is {found[1].removesuffix('.__init__')}({shown})."


def _parameter(one: inspect.Parameter) -> str:
    text = str(one.replace(annotation=one.empty))
    return text.replace("<not given>", "None")


def _functions_of(name: str) -> list[Any]:
    """The public functions, methods and classes of that name."""
    package = sys.modules.get("pullback")
    if package is None:
        return []
    functional = package.nn.functional
    places = [package, functional, package.nn, package.Tensor, package.linalg, package.optim]
    found = [getattr(place, name, None) for place in places]
    return [one for one in found if callable(one)]
