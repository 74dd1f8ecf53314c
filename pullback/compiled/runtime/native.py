"""The native entry: one C function for all programs, that checks tensors, makes results and runs.

A program is a table that the function is bound to. It reads a tensor's array by offset, compares
dtype, rank, sizes and strides with what the program was made for, takes the data pointers, makes
the results through NumPy's C table, and calls the program. On any difference it answers None, and
Python looks for the reason. A second form of it takes arrays themselves, and gives arrays.

A large program runs without the interpreter's lock. Another thread may then give a tensor another
array, so the entry itself holds those that are read until it has the lock again.

Offsets are found in the running interpreter and tried on a known tensor first; any surprise
(another NumPy, another interpreter) leaves the way through ctypes, which asks nothing of memory
layouts.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

import numpy

from pullback.compiled.llvm.machine import Code
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import UNWRITTEN

__all__ = ["address_of", "bound", "fastcall", "is_usable", "loads", "written_out"]

_METH_FASTCALL = 0x0080
_NEW_FROM_DESCR = 94  # its place in NumPy's table of functions, fixed by its ABI
_ROW = 7  # words for each tensor read: argument (or -1), tensor, type, dtype, rank, sizes, strides
_RESULT = 5  # words for each result: dtype, rank, sizes, slot, strides (or none)
_OWN = 12  # words of a program's own, before those of `_ADDRESSES`

# ruff: noqa: E501 (LLVM has no line breaks)
_TEXT = """
define ptr @entry(ptr %self, ptr %args, i64 %nargs) {
entry:
  %D = getelementptr i8, ptr %self, i64 32
  %n_in = i64 of %D at word 0
  %in = ptr of %D at word 1
  %n_out = i64 of %D at word 2
  %out = ptr of %D at word 3
  %B = ptr of %D at word 4
  %fn = ptr of %D at word 5
  %big = i64 of %D at word 6
  %want_args = i64 of %D at word 7
  %flag = ptr of %D at word 8
  %places = ptr of %D at word 9
  %held = ptr of %D at word 10
  %fault = ptr of %D at word 11
  %isbig = icmp ne i64 %big, 0
{addresses}
  %args_fit = icmp eq i64 %nargs, %want_args
  br i1 %args_fit, label %take, label %miss
take:
  %was = atomicrmw xchg ptr %flag, i64 1 acquire, align 8
  %free_now = icmp eq i64 %was, 0
  br i1 %free_now, label %begin, label %miss
begin:
  %some_in = icmp sgt i64 %n_in, 0
  br i1 %some_in, label %inputs, label %made
inputs:
  %k = phi i64 [ 0, %begin ], [ %k1, %fine ]
  %ro = mul i64 %k, {row_bytes}
  %row = getelementptr i8, ptr %in, i64 %ro
  %source = load i64, ptr %row
  %is_arg = icmp sge i64 %source, 0
  br i1 %is_arg, label %of_args, label %of_table
of_args:
  %ap = getelementptr ptr, ptr %args, i64 %source
  %ta0 = load ptr, ptr %ap
  br label %have
of_table:
  %ta1 = ptr of %row at word 1
  br label %have
have:
  %t = phi ptr [ %ta0, %of_args ], [ %ta1, %of_table ]
  %tt = ptr of %t at 8
  %want_type = ptr of %row at word 2
  %ok0 = icmp eq ptr %tt, %want_type
  br i1 %ok0, label %c1, label %give_up
c1:
{array_of_argument}
  %ty = ptr of %a at 8
  %ok1 = icmp eq ptr %ty, %at_ndarray
  br i1 %ok1, label %c2, label %give_up
c2:
  %descr = ptr of %a at 56
  %want = ptr of %row at word 3
  %ok2 = icmp eq ptr %descr, %want
  br i1 %ok2, label %c3, label %give_up
c3:
  %nd = i32 of %a at 24
  %n64 = i64 of %row at word 4
  %nd64 = sext i32 %nd to i64
  %ok3 = icmp eq i64 %nd64, %n64
  br i1 %ok3, label %c4, label %give_up
c4:
  %dims = ptr of %a at 32
  %strides = ptr of %a at 40
  %wdims = ptr of %row at word 5
  %wstr = ptr of %row at word 6
  %scalar = icmp eq i64 %n64, 0
  br i1 %scalar, label %fine, label %dim
dim:
  %j = phi i64 [ 0, %c4 ], [ %j1, %dimok ]
  %g1 = getelementptr i64, ptr %dims, i64 %j
  %v1 = load i64, ptr %g1
  %g2 = getelementptr i64, ptr %wdims, i64 %j
  %v2 = load i64, ptr %g2
  %e1 = icmp eq i64 %v1, %v2
  br i1 %e1, label %dim2, label %give_up
dim2:
  %g3 = getelementptr i64, ptr %strides, i64 %j
  %v3 = load i64, ptr %g3
  %g4 = getelementptr i64, ptr %wstr, i64 %j
  %v4 = load i64, ptr %g4
  %e2 = icmp eq i64 %v3, %v4
  br i1 %e2, label %dimok, label %give_up
dimok:
  %j1 = add i64 %j, 1
  %jm = icmp slt i64 %j1, %n64
  br i1 %jm, label %dim, label %fine
fine:
  %x = ptr of %a at 16
  %pk = getelementptr i64, ptr %places, i64 %k
  %place = load i64, ptr %pk
  %bk = getelementptr ptr, ptr %B, i64 %place
  store ptr %x, ptr %bk
  %hk = getelementptr ptr, ptr %held, i64 %k
  store ptr %a, ptr %hk
  %k1 = add i64 %k, 1
  %km = icmp slt i64 %k1, %n_in
  br i1 %km, label %inputs, label %made
made:
  %holds = and i1 %isbig, %some_in
  br i1 %holds, label %hold, label %make
hold:
  %h = phi i64 [ 0, %made ], [ %h1, %hold ]
  %hp = getelementptr ptr, ptr %held, i64 %h
  %ha = load ptr, ptr %hp
  call void %at_incref(ptr %ha)
  %h1 = add i64 %h, 1
  %hm = icmp slt i64 %h1, %n_in
  br i1 %hm, label %hold, label %make
make:
  %tup = call ptr %at_tuple_new(i64 %n_out)
  %no_tup = icmp eq ptr %tup, null
  br i1 %no_tup, label %fail, label %start
start:
  %some = icmp sgt i64 %n_out, 0
  br i1 %some, label %outs, label %go
outs:
  %o = phi i64 [ 0, %start ], [ %o1, %out_done ]
  %oo = mul i64 %o, {result_bytes}
  %orow = getelementptr i8, ptr %out, i64 %oo
  %od = load ptr, ptr %orow
  %on64 = i64 of %orow at word 1
  %on = trunc i64 %on64 to i32
  %odims = ptr of %orow at word 2
  %oslot = i64 of %orow at word 3
  %ostrides = ptr of %orow at word 4
  call void %at_incref(ptr %od)
  %arr = call ptr %at_new_from_descr(ptr %at_ndarray, ptr %od, i32 %on, ptr %odims, ptr %ostrides, ptr null, i32 0, ptr null)
  %no_arr = icmp eq ptr %arr, null
  br i1 %no_arr, label %drop, label %have_arr
have_arr:
  %ax = ptr of %arr at 16
  %bo = getelementptr ptr, ptr %B, i64 %oslot
  store ptr %ax, ptr %bo
{wrapped_result}
  %ti0 = mul i64 %o, 8
  %ti1 = add i64 %ti0, {tuple_items}
  %ti = getelementptr i8, ptr %tup, i64 %ti1
  store ptr %{result}, ptr %ti
  %o1 = add i64 %o, 1
  %om = icmp slt i64 %o1, %n_out
  br i1 %om, label %outs, label %go
go:
  br i1 %isbig, label %free, label %locked
free:
  %state = call ptr %at_save()
  call void %fn(ptr %B)
  call void %at_restore(ptr %state)
  br label %look
locked:
  call void %fn(ptr %B)
  br label %look
look:
  %found = load i64, ptr %fault
  %faulty = icmp ne i64 %found, 0
  br i1 %faulty, label %decline, label %end
decline:
  store i64 0, ptr %fault
  call void %at_decref(ptr %tup)
  call void %at_incref(ptr %at_none)
  br label %end
{dropped_array}drop:
  call void %at_decref(ptr %tup)
  br label %fail
fail:
  br label %end
end:
  %answer = phi ptr [ %tup, %look ], [ %at_none, %decline ], [ null, %fail ]
  br i1 %holds, label %let_go, label %leave
let_go:
  %l = phi i64 [ 0, %end ], [ %l1, %let_go ]
  %lp = getelementptr ptr, ptr %held, i64 %l
  %la = load ptr, ptr %lp
  call void %at_decref(ptr %la)
  %l1 = add i64 %l, 1
  %lm = icmp slt i64 %l1, %n_in
  br i1 %lm, label %let_go, label %leave
leave:
  store atomic i64 0, ptr %flag release, align 8
  ret ptr %answer
give_up:
  store atomic i64 0, ptr %flag release, align 8
  br label %miss
miss:
  call void %at_incref(ptr %at_none)
  ret ptr %at_none
}
"""

# What differs between tensors and arrays: where an argument's array is, and what a result is.
_OF_TENSORS = {
    "array_of_argument": """
  %a = ptr of %t at {off_array}
""",
    "wrapped_result": """
  %ten = call ptr %at_alloc(ptr %at_tensor, i64 0)
  %no_ten = icmp eq ptr %ten, null
  br i1 %no_ten, label %drop_arr, label %out_done
out_done:
  %s1 = getelementptr i8, ptr %ten, i64 {off_array}
  store ptr %arr, ptr %s1
  %s2 = getelementptr i8, ptr %ten, i64 {off_node}
  store ptr %at_none, ptr %s2
  call void %at_incref(ptr %at_none)
  %s3 = getelementptr i8, ptr %ten, i64 {off_cell}
  store ptr %at_cell, ptr %s3
  call void %at_incref(ptr %at_cell)
""",
    "dropped_array": """
drop_arr:
  call void %at_decref(ptr %arr)
  br label %drop
""",
    "result": "ten",
}
_OF_ARRAYS = {
    "array_of_argument": "  %a = getelementptr i8, ptr %t, i64 0",
    "wrapped_result": "  br label %out_done\nout_done:",
    "dropped_array": "",
    "result": "arr",
}


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


def address_of(name: str) -> int:
    """Where a function of Python's C interface begins."""
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


def _numpy_function(place: int) -> int:
    multiarray: Any = import_module("numpy._core._multiarray_umath")

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(multiarray._ARRAY_API, None)
    return int(ctypes.c_void_p.from_address(table + place * 8).value or 0)


def _slot_offsets() -> dict[str, int]:
    """Where a tensor keeps its three slots: looked for, not assumed."""
    tensor = new(Tensor)
    marks = {"array": numpy.empty(1), "node": [1], "cell": [2]}
    tensor._array, tensor._node, tensor._cell = marks["array"], marks["node"], marks["cell"]
    words = (ctypes.c_void_p * (Tensor.__basicsize__ // 8)).from_address(id(tensor))
    found = {}
    for name, one in marks.items():
        places = [place for place, word in enumerate(words) if word == id(one) and place > 1]
        if len(places) != 1:
            raise LookupError(name)
        found[name] = places[0] * 8
    tensor._node, tensor._cell = None, UNWRITTEN
    return found


def _check_array_layout() -> None:
    """The fields of an array stand where NumPy's header has them."""
    array = numpy.arange(6.0).reshape(2, 3).T
    at = id(array)
    word = ctypes.c_void_p.from_address
    sizes = (ctypes.c_ssize_t * 2).from_address(word(at + 32).value or 0)
    strides = (ctypes.c_ssize_t * 2).from_address(word(at + 40).value or 0)
    agrees = (
        word(at + 8).value == id(numpy.ndarray)
        and word(at + 16).value == array.__array_interface__["data"][0]
        and ctypes.c_int.from_address(at + 24).value == 2
        and tuple(sizes) == array.shape
        and tuple(strides) == array.strides
        and word(at + 56).value == id(array.dtype)
    )
    if not agrees:
        raise LookupError("array")


@cache
def _addresses() -> dict[str, int]:
    """What the entry calls and compares with, in this process.

    It reads them from the words that it is bound to: so its text is the same in every process, and
    its code is kept on disk. To compile anything takes LLVM 27 MB.
    """
    return {
        "ndarray": id(numpy.ndarray), "tensor": id(Tensor), "none": id(None),
        "cell": id(UNWRITTEN), "tuple_new": address_of("PyTuple_New"),
        "incref": address_of("Py_IncRef"), "decref": address_of("Py_DecRef"),
        "alloc": address_of("PyType_GenericAlloc"), "save": address_of("PyEval_SaveThread"),
        "restore": address_of("PyEval_RestoreThread"),
        "new_from_descr": _numpy_function(_NEW_FROM_DESCR),
    }  # fmt: skip


def loads(names: Iterable[str], first: int) -> str:
    """Lines that read addresses from the words `%D`, the first of them at a place."""
    return "\n".join(
        f"  %at_{name} = ptr of %D at word {place}" for place, name in enumerate(names, first)
    )


_FIELD = re.compile(r"^  %(\w+) = (\w+) of %(\w+) at (word )?(\d+)$", re.MULTILINE)


def written_out(text: str) -> str:
    """LLVM of a text in which `%x = ptr of %y at 16` reads a field of what `%y` points to."""

    def read(match: re.Match[str]) -> str:
        name, kind, of, by_words, place = match.groups()
        unit = "i64" if by_words else "i8"
        return (
            f"  %{name}_field = getelementptr {unit}, ptr %{of}, i64 {place}\n"
            f"  %{name} = load {kind}, ptr %{name}_field"
        )

    return _FIELD.sub(read, text)


@cache
def _entry(*, of_arrays: bool) -> tuple[Any, int]:
    """The compiled function and its address."""
    offsets = _slot_offsets()
    _check_array_layout()
    given = {
        **(_OF_ARRAYS if of_arrays else _OF_TENSORS),
        "addresses": loads(_addresses(), _OWN),
        "off_array": offsets["array"], "off_node": offsets["node"], "off_cell": offsets["cell"],
        "row_bytes": _ROW * 8, "result_bytes": _RESULT * 8,
        "tuple_items": tuple.__basicsize__,  # 3.14 keeps the hash before them
    }  # fmt: skip
    text = _TEXT
    for name, value in given.items():
        text = text.replace("{" + name + "}", str(value))
    code = Code(written_out(text))
    return code, code.address("entry")


@cache
def is_usable() -> bool:
    """Whether the entry works here: tried once on a known tensor."""
    # "t": built without the lock, where objects lie differently in memory.
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", ""):
        return False
    try:
        return _tried()
    except (LookupError, OSError, AttributeError, ImportError, ValueError):
        return False


def _tried() -> bool:
    """A program that adds two tensors, through the entry."""
    text = """
define void @program(ptr %B) {
  %a0 = load ptr, ptr %B
  %p1 = getelementptr ptr, ptr %B, i64 1
  %a1 = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %B, i64 2
  %a2 = load ptr, ptr %p2
  %x = load double, ptr %a0
  %y = load double, ptr %a1
  %z = fadd double %x, %y
  store double %z, ptr %a2
  ret void
}
"""
    code = Code(text)
    held = wrap(numpy.array([2.5]))
    table = numpy.zeros(4, numpy.uint64)
    run = bound(
        tensors=[(0, None, held), (-1, held, held)],
        places=[0, 1],
        results=[((1,), numpy.dtype(numpy.float64), 2, None),
                 ((2, 3), numpy.dtype(numpy.float64), 3, (8, 16))],
        table=table, address=code.address("program"), arguments=1, is_large=False, keep=[code],
    )  # fmt: skip
    made, columns = run(wrap(numpy.array([4.0])))
    if columns._array.strides != (8, 16) or columns._array.shape != (2, 3):
        return False
    if not columns._array.flags.f_contiguous or columns._array.flags.c_contiguous:
        return False
    fits = type(made) is Tensor and made._node is None and made._cell is UNWRITTEN
    refused = run(wrap(numpy.array([4.0, 1.0]))) is None and run(1) is None and run() is None
    return fits and refused and float(made._array[0]) == 6.5


def bound(
    *,
    tensors: list[Any],
    places: list[int],
    results: list[Any],
    table: Any,
    address: int,
    arguments: int,
    is_large: bool,
    keep: list[Any],
    of_arrays: bool = False,
    geometries: list[int] | None = None,
    fault: int | None = None,
) -> Any:
    """A callable: tensors in, a tuple of tensors out; None where something differs.

    `tensors` are (argument's number or -1, the tensor or None, an example), `places` their slots
    in the table, `results` (shape, dtype, slot, strides unless by rows). It keeps alive all
    that its table points to. `of_arrays`: arrays in their place, all of them arguments.
    `geometries`: where sizes and strides of each tensor, and sizes of each result, stand, if the
    caller keeps them. `fault`: where a word is that the program sets if it cannot go on; the answer
    is then None, too.
    """
    kept_by_caller = iter(geometries or ())
    kept: list[Any] = [*keep, table]

    def words(values: Any) -> int:
        array = numpy.array(list(values) or [0], numpy.int64)
        kept.append(array)
        return int(array.__array_interface__["data"][0])

    def geometry(values: Any) -> int:
        return words(values) if geometries is None else next(kept_by_caller)

    rows: list[int] = []
    for source, tensor, example in tensors:
        array = example if of_arrays else example._array
        kept.append((tensor, array.dtype, type(example)))
        rows += [source, 0 if tensor is None else id(tensor), id(type(example)), id(array.dtype),
                 array.ndim, geometry(array.shape), geometry(array.strides)]  # fmt: skip
    made: list[int] = []
    for shape, dtype, slot, strides in results:
        kept.append(dtype)
        order = 0 if strides is None else words(strides)
        made += [id(dtype), len(shape), geometry(shape), slot, order]
    flag = words([0])
    data = [len(tensors), words(rows), len(results), words(made),
            int(table.__array_interface__["data"][0]), address, int(is_large), arguments, flag,
            words(places), words([0] * len(tensors)), words([0]) if fault is None else fault,
            *_addresses().values()]  # fmt: skip
    code, entry = _entry(of_arrays=of_arrays)
    return fastcall(entry, [*kept, code], numpy.array(data, numpy.int64).tobytes())


class _Words(bytes):
    """What a function is bound to: numbers that its code reads, and what must live as long.

    Python looks at the method's entry once more when it frees the function, before it lets go of
    this: so all that the function needs hangs on it, and on nothing beside the function.
    """

    kept: list[Any]


def fastcall(address: int, keep: list[Any], words: bytes = b"") -> Any:
    """A built-in function at an address, bound to some words; it keeps alive all that is given."""
    method = _Method(b"compiled", address, _METH_FASTCALL, None)
    bound_to = _Words(words)
    bound_to.kept = [*keep, method]
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(method), bound_to, None)
