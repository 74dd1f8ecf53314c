"""What differs from one version of CPython to the next: each one's instructions, translated.

The interpreter knows one set of instructions (instructions.py). `decode` writes a function's
bytecode in it: most instructions have a name and a meaning that stay, some have had several names,
some do the work of two. A version is a table of those that need a word, and all else is as it is
written. An instruction that nobody knows ends the capture, so a version that nobody has looked at
runs everything eagerly; `SUPPORTED` says which are known.

Where a version leaves a choice, the meaning here is this:

- NULL lies above or below the function that is called, as CPython has it; CALL takes either.
- FOR_ITER and SEND take what they walk off the stack when it ends, and go on behind the
  instructions that would do so (`SKIPPED`), which therefore never run.
- A slot of a frame, whether its variable is local, a cell or free, has one name. A variable that is
  free in a function and local in a comprehension of its own has two slots: the local one's name
  starts with a point.
- Handlers that a generator or a `yield from` has of its own are left out, as `frames.Walk` does
  what they do.
"""

from __future__ import annotations

import dis
import opcode
import operator
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

from pullback.compiled.capture.reasons import CannotCapture

__all__ = ["BINARY", "COMPARE", "DROPPED", "REFUSED", "SKIPPED", "SUPPORTED", "TABLE", "decode"]

VERSION = sys.version_info[:2]
# `dis` knows more than its types say: names with an underscore are silenced where they are used.

SYMBOLS = {"+": "add", "&": "and_", "//": "floordiv", "<<": "lshift", "@": "matmul", "*": "mul",
           "%": "mod", "|": "or_", "**": "pow", ">>": "rshift", "-": "sub", "/": "truediv",
           "^": "xor"}  # fmt: skip


def _operator(text: str) -> Callable[[Any, Any], Any]:
    if text.endswith("="):
        return getattr(operator, "i" + SYMBOLS[text[:-1]].rstrip("_"))  # type: ignore[no-any-return]  # by name
    return getattr(operator, SYMBOLS[text])  # type: ignore[no-any-return]  # by name


# By the argument of BINARY_OP.
BINARY = [_operator(text) for _, text in dis._nb_ops if text.rstrip("=") in SYMBOLS]  # type: ignore[attr-defined]
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
           ">": operator.gt, ">=": operator.ge}  # fmt: skip


# Instructions that do nothing for an interpreter that is not CPython's.
DROPPED = frozenset(
    {"NOP", "RESUME", "PRECALL", "CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "NOT_TAKEN"}
)

# Those that FOR_ITER and SEND jump over, and those of handlers that are left out.
SKIPPED = frozenset({"END_FOR", "END_SEND", "CLEANUP_THROW"})

# Those that end the capture: coroutines, exception groups, class bodies, templates; and those that
# no code object holds as it is written (the compiler's, a debugger's, the specialiser's).
_REFUSED = """
    GET_AITER GET_ANEXT GET_AWAITABLE BEFORE_ASYNC_WITH END_ASYNC_FOR ASYNC_GEN_WRAP
    CHECK_EG_MATCH PREP_RERAISE_STAR
    LOAD_BUILD_CLASS LOAD_LOCALS LOAD_CLASSDEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF
    STORE_NAME DELETE_NAME SETUP_ANNOTATIONS IMPORT_STAR PRINT_EXPR
    BUILD_TEMPLATE BUILD_INTERPOLATION
    JUMP_NO_INTERRUPT JUMP_IF_FALSE JUMP_IF_TRUE POP_BLOCK SETUP_CLEANUP SETUP_FINALLY SETUP_WITH
    LOAD_SUPER_METHOD LOAD_ZERO_SUPER_ATTR LOAD_ZERO_SUPER_METHOD STORE_FAST_MAYBE_NULL
    ANNOTATIONS_PLACEHOLDER RESERVED INTERPRETER_EXIT ENTER_EXECUTOR EXIT_INIT_CHECK
"""
REFUSED = frozenset(_REFUSED.split())


class Part(NamedTuple):
    """An instruction of the interpreter's: its name, its argument, and what that stands for."""

    name: str
    arg: Any = None
    value: Any = None


Read = Any  # a dis.Instruction: of those that a row reads, each has a number for its argument
Row = Callable[[CodeType, Read], list[Part]]


# Ways to write a row of a table -----------------------------------------------------------------


def _as(*names: str) -> Row:
    """The same under another name, or one of several instructions after the other."""

    def row(code: CodeType, one: Read) -> list[Part]:
        return [Part(name, one.arg, one.argval) for name in names]

    return row


def _exactly(*parts: Part) -> Row:
    return lambda code, one: list(parts)


def _slot(code: CodeType, index: int) -> str:
    name: str = code._varname_from_oparg(index)  # type: ignore[attr-defined]
    first_free = code.co_nlocals + len(set(code.co_cellvars) - set(code.co_varnames))
    return f".{name}" if index < first_free and name in code.co_freevars else name


def _of_slot(name: str) -> Row:
    return lambda code, one: [Part(name, one.arg, _slot(code, one.arg))]


def _of_two_slots(first: str, second: str) -> Row:
    def row(code: CodeType, one: Read) -> list[Part]:
        high, low = divmod(one.arg, 16)
        return [Part(first, high, _slot(code, high)), Part(second, low, _slot(code, low))]

    return row


def _with_null(code: CodeType, one: Read) -> list[Part]:
    """A load whose lowest bit asks for NULL as well, for a call of what is loaded."""
    load = Part(one.opname, one.arg, one.argval)
    return [load, Part("PUSH_NULL")] if one.arg & 1 else [load]


def _under_it(code: CodeType, one: Read) -> list[Part]:
    """The same, with NULL below."""
    return _with_null(code, one)[::-1]


def _constant(value: Callable[[Read], Any]) -> Row:
    return lambda code, one: [Part("LOAD_CONST", None, value(one))]


# Rows that say more than that -------------------------------------------------------------------

_INTRINSICS = {
    "INTRINSIC_UNARY_POSITIVE": "UNARY_POSITIVE",
    "INTRINSIC_LIST_TO_TUPLE": "LIST_TO_TUPLE",
}
_LEFT_TO_WALK = "INTRINSIC_STOPITERATION_ERROR"


def _intrinsic(code: CodeType, one: Read) -> list[Part]:
    return [Part(_INTRINSICS.get(one.argrepr, one.argrepr))]


def _formatted(code: CodeType, one: Read) -> list[Part]:
    """FORMAT_VALUE: 1 to 3 convert, 4 says that what is below the top is formatted by the top."""
    convert = [Part("CONVERT_VALUE", one.arg & 3)] if one.arg & 3 else []
    if not one.arg & 4:
        return [*convert, Part("FORMAT_SIMPLE")]
    swap = [Part("SWAP", 2)] if convert else []
    return [*swap, *convert, *swap, Part("FORMAT_WITH_SPEC")]


def _function(code: CodeType, one: Read) -> list[Part]:
    """MAKE_FUNCTION with flags: what it takes lies in this order under the code."""
    flags = [flag for flag in (8, 4, 2, 1) if one.arg & flag]
    return [Part("MAKE_FUNCTION"), *[Part("SET_FUNCTION_ATTRIBUTE", flag) for flag in flags]]


def _special(code: CodeType, one: Read) -> list[Part]:
    return [Part("LOAD_SPECIAL", one.arg, one.argrepr), Part("PUSH_NULL")]


def _compared(code: CodeType, one: Read) -> list[Part]:
    compare = Part("COMPARE_OP", one.arg, one.argval)
    return [compare, Part("TO_BOOL")] if one.arg & 16 else [compare]


def _binary(code: CodeType, one: Read) -> list[Part]:
    is_item = one.argrepr == "[]"
    return [Part("BINARY_SUBSCR")] if is_item else [Part("BINARY_OP", one.arg, one.argval)]


# The tables -------------------------------------------------------------------------------------

_ALWAYS: dict[str, Row] = {
    **{name: _of_slot(name) for name in ("LOAD_FAST", "STORE_FAST", "DELETE_FAST", "MAKE_CELL",
                                         "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF")},
    "LOAD_CLOSURE": _of_slot("LOAD_FAST"),  # the cell is what the slot holds
    "JUMP_FORWARD": _as("JUMP"), "JUMP_BACKWARD": _as("JUMP"),
    "JUMP_BACKWARD_NO_INTERRUPT": _as("JUMP"),
    "WITH_EXCEPT_START": _exactly(Part("WITH_EXCEPT_START", 4)),
}  # fmt: skip
_ONLY_11: dict[str, Row] = {
    f"POP_JUMP_{way}_IF_{what}": _as(f"POP_JUMP_IF_{what}")
    for way in ("FORWARD", "BACKWARD") for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
}  # fmt: skip
_UNTIL_12: dict[str, Row] = {
    "LOAD_GLOBAL": _under_it,
    "FORMAT_VALUE": _formatted,
    "MAKE_FUNCTION": _function,
}
_UNTIL_13: dict[str, Row] = {
    "LOAD_METHOD": _as("LOAD_ATTR", "PUSH_NULL"),
    "LOAD_ASSERTION_ERROR": _constant(lambda one: AssertionError),
}

_FROM_12: dict[str, Row] = {
    "LOAD_ATTR": _with_null,
    "LOAD_SUPER_ATTR": _with_null,
    "LOAD_FAST_CHECK": _of_slot("LOAD_FAST"),
    "LOAD_FAST_AND_CLEAR": _of_slot("LOAD_FAST_AND_CLEAR"),
    "RETURN_CONST": _as("LOAD_CONST", "RETURN_VALUE"),
    "BINARY_SLICE": _exactly(Part("BUILD_SLICE", 2), Part("BINARY_SUBSCR")),
    "STORE_SLICE": _exactly(Part("BUILD_SLICE", 2), Part("STORE_SUBSCR")),
    "CALL_INTRINSIC_1": _intrinsic, "CALL_INTRINSIC_2": _intrinsic,
}  # fmt: skip
_FROM_13: dict[str, Row] = {
    "LOAD_GLOBAL": _with_null,
    "COMPARE_OP": _compared,
    "LOAD_FAST_LOAD_FAST": _of_two_slots("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": _of_two_slots("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": _of_two_slots("STORE_FAST", "STORE_FAST"),
}
_FROM_14: dict[str, Row] = {
    "BINARY_OP": _binary,
    "LOAD_FAST_BORROW": _of_slot("LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _of_two_slots("LOAD_FAST", "LOAD_FAST"),
    "LOAD_SMALL_INT": _constant(lambda one: one.arg),
    "LOAD_COMMON_CONSTANT": _constant(lambda one: opcode._common_constants[one.arg]),  # type: ignore[attr-defined]
    "LOAD_SPECIAL": _special,
    "CALL_FUNCTION_EX": _exactly(Part("CALL_FUNCTION_EX", 1)),
    "WITH_EXCEPT_START": _exactly(Part("WITH_EXCEPT_START", 5)),
    "POP_ITER": _as("POP_TOP"),
}


class Version(NamedTuple):
    """A version of CPython: its table, and what lies behind the end of a loop."""

    rows: dict[str, Row]
    after_loop: tuple[str, ...]
    after_send: tuple[str, ...]


_11 = _ALWAYS | _UNTIL_12 | _UNTIL_13 | _ONLY_11
_12 = _ALWAYS | _UNTIL_12 | _UNTIL_13 | _FROM_12
_13 = _ALWAYS | _UNTIL_13 | _FROM_12 | _FROM_13
_14 = _ALWAYS | _FROM_12 | _FROM_13 | _FROM_14
KNOWN = {
    (3, 11): Version(_11, after_loop=(), after_send=()),
    (3, 12): Version(_12, after_loop=("END_FOR",), after_send=("END_SEND",)),
    (3, 13): Version(_13, after_loop=("END_FOR", "POP_TOP"), after_send=("END_SEND",)),
    (3, 14): Version(_14, after_loop=("END_FOR", "POP_ITER"), after_send=("END_SEND",)),
}
SUPPORTED = VERSION in KNOWN and sys.implementation.name == "cpython"
_HERE = KNOWN.get(VERSION, Version({}, (), ()))
TABLE = _HERE.rows


# Decoding ---------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One instruction."""

    name: str
    arg: Any
    value: Any  # what the argument stands for
    target: int | None  # of a jump: the number of the instruction
    offset: int


class Handler(NamedTuple):
    """What becomes of an exception at an instruction."""

    target: int
    depth: int
    lasti: bool


def decode(code: CodeType) -> tuple[list[Step], list[Handler | None]]:
    """The instructions of a code object, and what handles exceptions at each."""
    listing = [one for one in dis.get_instructions(code) if one.opname != "CACHE"]
    places = {one.offset: n for n, one in enumerate(listing)}
    translated = [_translated(code, one) for one in listing]
    starts = [0]
    for parts in translated:
        starts.append(starts[-1] + len(parts))
    program = []
    for one, parts in zip(listing, translated, strict=True):
        target = None
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            target = starts[_behind_the_end(one, listing, places[one.argval])]
        program += [Step(*part, target, one.offset) for part in parts]
    return program, _handlers(code, listing, places, starts)


def _translated(code: CodeType, one: dis.Instruction) -> list[Part]:
    if one.opname in DROPPED:
        return []
    row = _HERE.rows.get(one.opname)
    return [Part(one.opname, one.arg, one.argval)] if row is None else row(code, one)


def _behind_the_end(one: dis.Instruction, listing: list[dis.Instruction], place: int) -> int:
    """Where a jump goes: at the end of a walk, behind what takes it off the stack."""
    ends = {"FOR_ITER": _HERE.after_loop, "SEND": _HERE.after_send}.get(one.opname, ())
    found = tuple([other.opname for other in listing[place : place + len(ends)]])
    if found != ends:
        raise CannotCapture(f"{one.opname} that ends at {' '.join(found)}")
    return place + len(ends)


def _handlers(code: CodeType, listing: list[dis.Instruction], places: dict[int, int],
              starts: list[int]) -> list[Handler | None]:  # fmt: skip
    entries: list[Any] = [None] * len(listing)
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        for n, one in enumerate(listing):
            if entry.start <= one.offset < entry.end:
                entries[n] = entry
    handlers: list[Handler | None] = [None] * starts[-1]
    for n, entry in enumerate(entries):
        while entry is not None and _is_left_to_walk(listing[places[entry.target]]):
            outer = entries[places[entry.target]]
            entry = None if outer is entry else outer
        if entry is not None:
            handler = Handler(starts[places[entry.target]], entry.depth, entry.lasti)
            handlers[starts[n] : starts[n + 1]] = [handler] * (starts[n + 1] - starts[n])
    return handlers


def _is_left_to_walk(target: dis.Instruction) -> bool:
    return target.opname == "CLEANUP_THROW" or target.argrepr == _LEFT_TO_WALK
