"""Elementwise words as LLVM instructions."""

from __future__ import annotations

import platform
from collections.abc import Callable

from pullback.compiled.ir.values import BYTES, HALVES, Val
from pullback.compiled.llvm.emit import ELEMENTS, Emitter, vector_type

__all__ = ["WORDS"]

_FLOATING = ("float", "double")
_UNSIGNED = ("b1", "u1")


def _arithmetic(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    word = f"f{v.op} contract" if e in _FLOATING else v.op
    return em.binary(word, a[0], a[1], e, w)


def _negative(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    if e in _FLOATING:
        return em.neg(a[0], e, w)
    return em.binary("sub", em.number(0, e, w), a[0], e, w)


def _intrinsic(name: str) -> Callable[[Emitter, Val, list[str], int], str]:
    return lambda em, v, a, w: em.intrinsic(name, a, ELEMENTS[v.dtype], w)


def _absolute(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    if e in _FLOATING:
        return em.abs(a[0], e, w)
    if v.dtype in _UNSIGNED:
        return a[0]
    negative = em.compare("slt", a[0], em.number(0, e, w), e, w)
    return em.select(negative, _negative(em, v, a, w), a[0], e, w)


def _sign(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    one = em.intrinsic("copysign", (em.number(1, e, w), a[0]), e, w)
    # Zeros and NaN are their own signs.
    moved = em.compare("one", a[0], em.number(0, e, w), e, w)
    return em.select(moved, one, a[0], e, w)


def _inverse_root(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    return em.div(em.number(1, e, w), em.intrinsic("sqrt", a, e, w), e, w)


def _inverse(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    return em.div(em.number(1, e, w), a[0], e, w)


def _power(em: Emitter, v: Val, a: list[str], w: int) -> str:
    """A whole power by products."""
    e, n, x = ELEMENTS[v.dtype], abs(v.attr), a[0]
    made = None
    while n:
        if n & 1:
            made = x if made is None else em.mul(made, x, e, w)
        n >>= 1
        if n:
            x = em.mul(x, x, e, w)
    made = em.number(1, e, w) if made is None else made
    return em.div(em.number(1, e, w), made, e, w) if v.attr < 0 else made


def _larger(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    if e in _FLOATING:
        return em.combine("max" if v.op == "maximum" else "min", a[0], a[1], e, w)
    how = "gt" if v.op == "maximum" else "lt"
    how = f"u{how}" if v.dtype in _UNSIGNED else f"s{how}"
    return em.select(em.compare(how, a[1], a[0], e, w), a[1], a[0], e, w)


def _where(em: Emitter, v: Val, a: list[str], w: int) -> str:
    return em.select(a[0], a[1], a[2], ELEMENTS[v.dtype], w)


_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_BITS = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}


def _comparison(em: Emitter, v: Val, a: list[str], w: int) -> str:
    dtype = v.ins[-1].dtype
    e = ELEMENTS[dtype]
    how = _ORDERED if e in _FLOATING else _BITS if dtype in _UNSIGNED else _SIGNED
    return em.compare(how[v.op], a[0], a[1], e, w)


def _negation(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.dtype]
    return em.binary("xor", a[0], em.number(1 if e == "i1" else -1, e, w), e, w)


def _bitwise(em: Emitter, v: Val, a: list[str], w: int) -> str:
    return em.binary(v.op, a[0], a[1], ELEMENTS[v.dtype], w)


_WHOLE = ("b1", "u1", "i1", "i2", "i4", "i8")
# Numbers that have no place in a whole number give what the processor gives, in NumPy as here.
_CUTS = platform.machine() in ("x86_64", "AMD64")


def _from_half(em: Emitter, x: str, source: str, w: int) -> str:
    """In single."""
    if source == "h2":
        half = em.bits(x, "i16", "half", w)
        return em.t(f"fpext {vector_type('half', w)} {half} to {vector_type('float', w)}")
    wide = em.t(f"zext {vector_type('i16', w)} {x} to {vector_type('i32', w)}")
    return em.bits(em.binary("shl", wide, em.number(16, "i32", w), "i32", w), "i32", "float", w)


def _to_half(em: Emitter, x: str, to: str, w: int) -> str:
    """Rounded to the nearest, of two the even one; by hand, as instructions for it drop digits."""
    if to == "h2":
        half = em.t(f"fptrunc {vector_type('float', w)} {x} to {vector_type('half', w)}")
        return em.bits(half, "half", "i16", w)
    bits = em.bits(x, "float", "i32", w)
    last = em.binary("lshr", bits, em.number(16, "i32", w), "i32", w)
    last = em.binary("and", last, em.number(1, "i32", w), "i32", w)
    more = em.binary("add", last, em.number(0x7FFF, "i32", w), "i32", w)
    rounded = em.binary("lshr", em.binary("add", bits, more, "i32", w),
                        em.number(16, "i32", w), "i32", w)  # fmt: skip
    sign = em.binary("and", bits, em.number(-(2**31), "i32", w), "i32", w)
    sign = em.binary("lshr", sign, em.number(16, "i32", w), "i32", w)
    none = em.binary("or", sign, em.number(0x7FC0, "i32", w), "i32", w)
    known = em.compare("ord", x, x, "float", w)
    made = em.select(known, rounded, none, "i32", w)
    return em.t(f"trunc {vector_type('i32', w)} {made} to {vector_type('i16', w)}")


def _cast(em: Emitter, v: Val, a: list[str], w: int) -> str:
    source, to = v.ins[0].dtype, v.dtype
    if source in HALVES:
        return _from_half(em, a[0], source, w)
    if to in HALVES:
        return _to_half(em, a[0], to, w)
    e, kind = ELEMENTS[source], vector_type(ELEMENTS[to], w)
    given = f"{vector_type(e, w)} {a[0]} to {kind}"
    if to == "b1":
        return em.compare("une" if e in _FLOATING else "ne", a[0], em.number(0, e, w), e, w)
    if e in _FLOATING and to[0] == "f":
        return em.t(f"{'fpext' if to == 'f8' else 'fptrunc'} {given}")
    if e in _FLOATING:
        return _cut(em, a[0], e, to, w)
    if to[0] == "f":
        return em.t(f"{'uitofp' if source in _UNSIGNED else 'sitofp'} {given}")
    wider = BYTES[to] - (0 if source == "b1" else BYTES[source])
    if wider == 0:
        return a[0]
    word = "trunc" if wider < 0 else "zext" if source in _UNSIGNED else "sext"
    return em.t(f"{word} {given}")


def _cut(em: Emitter, x: str, e: str, to: str, w: int) -> str:
    """A number without its fraction; what is too large, or none, is the lowest there is."""
    bits = 64 if to == "i8" else 32
    kind = f"i{bits}"
    fits = em.compare("olt", em.abs(x, e, w), em.number(2.0 ** (bits - 1), e, w), e, w)
    safe = em.select(fits, x, em.number(0, e, w), e, w)
    whole = em.t(f"fptosi {vector_type(e, w)} {safe} to {vector_type(kind, w)}")
    made = em.select(fits, whole, em.number(-(2 ** (bits - 1)), kind, w), kind, w)
    if to in ("i8", "i4"):
        return made
    return em.t(f"trunc {vector_type(kind, w)} {made} to {vector_type(ELEMENTS[to], w)}")


def can_cast(source: str, to: str) -> bool:
    """Whether there are instructions for it that give what NumPy gives."""
    if source == to or (source, to) in (("h2", "f4"), ("w2", "f4"), ("f4", "h2"), ("f4", "w2")):
        return True
    if source[0] == "f" and to in _WHOLE and to != "b1":
        return _CUTS
    return source in BYTES and to in BYTES


def _divided(em: Emitter, v: Val, a: list[str], w: int) -> str:
    """Whole numbers divided by one that is neither 0 nor -1, rounded down; or what is left."""
    e = ELEMENTS[v.dtype]
    x, y = a
    if v.dtype in _UNSIGNED:
        return em.binary("udiv" if v.op == "floordiv" else "urem", x, y, e, w)
    quotient, rest = (em.binary(word, x, y, e, w) for word in ("sdiv", "srem"))
    zero = em.number(0, e, w)
    some = em.compare("ne", rest, zero, e, w)
    apart = em.compare("slt", em.binary("xor", rest, y, e, w), zero, e, w)
    wrong = em.binary("and", some, apart, "i1", w)
    if v.op == "remainder":
        return em.select(wrong, em.binary("add", rest, y, e, w), rest, e, w)
    less = em.binary("sub", quotient, em.number(1, e, w), e, w)
    return em.select(wrong, less, quotient, e, w)


def _quotient(em: Emitter, v: Val, a: list[str], w: int) -> str:
    return em.div(a[0], a[1], ELEMENTS[v.dtype], w)


WORDS: dict[str, Callable[[Emitter, Val, list[str], int], str]] = {
    **dict.fromkeys(("add", "sub", "mul"), _arithmetic),
    **dict.fromkeys(_ORDERED, _comparison),
    **dict.fromkeys(("maximum", "minimum"), _larger),
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    "div": _quotient,
    "neg": _negative,
    "copy": lambda em, v, a, w: a[0],
    "abs": _absolute,
    "sign": _sign,
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "rint": _intrinsic("roundeven"),
    "copysign": _intrinsic("copysign"),
    "rsqrt": _inverse_root,
    "recip": _inverse,
    "powi": _power,
    "where": _where,
    "not": _negation,
    "cast": _cast,
    **dict.fromkeys(("floordiv", "remainder"), _divided),
}
