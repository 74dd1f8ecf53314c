"""Elementwise words as LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable

from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.emit import ELEMENTS, Emitter, vector_type

__all__ = ["WORDS"]

_FLOATING = ("float", "double")


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
    how = "sgt" if v.op == "maximum" else "slt"
    return em.select(em.compare(how, a[1], a[0], e, w), a[1], a[0], e, w)


def _where(em: Emitter, v: Val, a: list[str], w: int) -> str:
    return em.select(a[0], a[1], a[2], ELEMENTS[v.dtype], w)


_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_BITS = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}


def _comparison(em: Emitter, v: Val, a: list[str], w: int) -> str:
    e = ELEMENTS[v.ins[-1].dtype]
    how = _ORDERED if e in _FLOATING else _BITS if e == "i1" else _SIGNED
    return em.compare(how[v.op], a[0], a[1], e, w)


def _negation(em: Emitter, v: Val, a: list[str], w: int) -> str:
    return em.binary("xor", a[0], em.number(1, "i1", w), "i1", w)


def _bitwise(em: Emitter, v: Val, a: list[str], w: int) -> str:
    return em.binary(v.op, a[0], a[1], ELEMENTS[v.dtype], w)


_CASTS = {
    ("f4", "f8"): "fpext", ("f8", "f4"): "fptrunc",
    ("b1", "f4"): "uitofp", ("b1", "f8"): "uitofp", ("b1", "i8"): "zext", ("b1", "i4"): "zext",
    ("i8", "f4"): "sitofp", ("i8", "f8"): "sitofp", ("i4", "f4"): "sitofp", ("i4", "f8"): "sitofp",
    ("i4", "i8"): "sext", ("i8", "i4"): "trunc",
}  # fmt: skip


def _cast(em: Emitter, v: Val, a: list[str], w: int) -> str:
    source = v.ins[0].dtype
    how = _CASTS[source, v.dtype]
    e, to = vector_type(ELEMENTS[source], w), vector_type(ELEMENTS[v.dtype], w)
    return em.t(f"{how} {e} {a[0]} to {to}")


def can_cast(source: str, to: str) -> bool:
    """Whether there is an instruction for it that gives what NumPy gives."""
    return source == to or (source, to) in _CASTS


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
}
