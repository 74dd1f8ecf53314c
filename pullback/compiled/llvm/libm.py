"""Functions of the C library, asked element by element.

For few elements: there they take less time than leaving the program for an eager kernel, whose
vectors win from some thousand on (`lower/libm.py` decides).
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.values import LIBM
from pullback.compiled.llvm.emit import Emitter, vector_type

__all__ = ["asked", "function_lines"]


def asked(em: Emitter, name: str, elements: list[str], e: str) -> str:
    """What the library says of one element; in double, of which float is rounded once."""
    em.declared.add(f"declare double @{name}({', '.join(['double'] * len(elements))})")
    if e == "float":
        elements = [em.t(f"fpext float {one} to double") for one in elements]
    made = em.t(f"call double @{name}({', '.join(f'double {one}' for one in elements)})")
    return em.t(f"fptrunc double {made} to float") if e == "float" else made


def function_lines(name: str) -> Any:
    """The body of a function of whole vectors `%x` and, where it takes two, `%y`."""

    def lines(em: Emitter, e: str, w: int) -> list[str]:
        given = ["%x", "%y"][: LIBM[name]]
        kind = vector_type(e, w)
        if w == 1:
            em.raw(f"  ret {kind} {asked(em, name, given, e)}")
            return em.lines
        em.raw("entry:\n  br label %each")
        em.raw("each:\n  %k = phi i32 [ 0, %entry ], [ %next, %each ]")
        em.raw(f"  %sofar = phi {kind} [ poison, %entry ], [ %after, %each ]")
        elements = [em.t(f"extractelement {kind} {one}, i32 %k") for one in given]
        made = asked(em, name, elements, e)
        em.raw(f"  %after = insertelement {kind} %sofar, {e} {made}, i32 %k")
        em.raw("  %next = add i32 %k, 1")
        em.raw(f"  %more = icmp ult i32 %next, {w}")
        em.raw(f"  br i1 %more, label %each, label %end\nend:\n  ret {kind} %after")
        return em.lines

    return lines
