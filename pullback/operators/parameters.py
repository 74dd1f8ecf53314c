"""What an operator's function takes besides the parameters of its declaration.

`out=`, NumPy's names, and places beyond the last that are not to be filled.
"""

from __future__ import annotations

from sys import modules

from pullback.core.home import home_of
from pullback.core.writer import theirs
from pullback.operators.declare import REQUIRED, Op

__all__ = ["added", "beyond", "operand_names", "optional_by_name"]


def beyond(op: Op, *, out: bool = True) -> list[str]:
    """The places after the last that may be filled: one more than numbers stood there once.

    The first is called as an operand is by NumPy: so that name costs a call nothing to look at.
    """
    keywords = [param for param in op.params if param.keyword_only]
    names = operand_names(op, out=out)
    has_more = keywords or names or added(op, out=out)
    if any(param.default is REQUIRED for param in keywords) or not has_more:
        return []
    first = theirs(next(reversed(names))) if names else "more"
    return [first, *(f"more{i}" for i, _ in enumerate(op.once_positional, 2))]


def added(op: Op, *, out: bool = True) -> list[str]:
    """Keywords that a function has besides the parameters of its declaration."""
    names = [*(["out"] if op.has_out and out else []), *op.spellings]
    others = [*operand_names(op, out=out)]
    by_place = all(param.default is not REQUIRED for param in op.params if param.keyword_only)
    return [*names, *(others[:-1] if by_place else others)]


def operand_names(op: Op, *, out: bool = True) -> dict[str, str]:
    """NumPy's names of operands; that of a method's target is never said."""
    target_too = out or _is_function(op)
    return {theirs: own for theirs, own in op.operand_names.items() if target_too or own != "input"}


def _is_function(op: Op) -> bool:
    """Whether torch may have the in-place form as a function too: `torch.sin_(t)`, not `add_`."""
    found = getattr(modules[home_of(op.forward)], "FOUND_IN", {}).get("torch", "")
    return len(op.inputs) == 1 or f"{op.name}_" in found.split()


def optional_by_name(op: Op, *, out: bool = True) -> list[str]:
    """Required parameters that may stay away, as they have other names, and those after them."""
    renamed = {*operand_names(op, out=out).values(), *op.spellings.values()}
    named = [place for place, param in enumerate(op.params) if param.name in renamed]
    following = op.params[min(named, default=len(op.params)) :]
    return [p.name for p in following if p.default is REQUIRED and not p.keyword_only]
