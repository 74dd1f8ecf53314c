"""`conj`, and negation as a view: what is put off, and done when somebody asks for it."""

from __future__ import annotations

from functools import cache
from typing import Any

from pullback.core.tensor import CONJUGATED, NEGATED, Tensor
from pullback.operators.declare import METHODS, Array, Namespace, method, view
from pullback.operators.deferred.tensor import OWN
from pullback.operators.pointwise.arithmetic import conj as conjugated
from pullback.operators.pointwise.arithmetic import is_complex, neg

FOUND_IN = {"torch": "_neg_view conj resolve_conj resolve_neg"}


# Their forwards are for arrays that are traced or have no data; tensors on memory get bits instead.
@view(
    input=lambda g: conjugated(g),
    strided=False,
    makes_layout=True,
    node="ConjBackward0",
    aten="_conj.default",
)
def _conj_view(xp: Namespace, input: Array) -> Array:
    return xp.conjugate(input)


@view(
    input=lambda g: neg(g),
    strided=False,
    makes_layout=True,
    node="NegViewBackward0",
    aten="_neg_view.default",
)
def _negative_view(xp: Namespace, input: Array) -> Array:
    return xp.negative(input)


OWN.update({_conj_view.op: CONJUGATED, _negative_view.op: NEGATED})  # type: ignore[attr-defined]  # a declared operator


@cache
def _load() -> None:
    """Let operators know that something may be put off."""
    from pullback.operators.deferred import calls

    calls.install()


def _on_memory(input: Any) -> bool:
    """Whether bits can be put off: not for other kinds, classes of users, and without data."""
    return isinstance(input, Tensor) and input._layout is None and not input._overrides


def conj(input: Any) -> Any:
    """The conjugate, a view of the same memory: `is_conj()` until `resolve_conj()` or arithmetic.

    What is real comes back as it is.

    Example:
        >>> import pullback as torch
        >>> z = torch.tensor([1 + 2j])
        >>> w = z.conj()
        >>> w, w.is_conj(), w.data_ptr() == z.data_ptr()
        (tensor([1.-2.j]), True, True)
    """
    if not _on_memory(input):
        return conjugated(input)
    if not is_complex(input):
        return input
    _load()
    return _conj_view(input)


METHODS["conj"] = conj


def _neg_view(input: Any) -> Any:
    """The negative, a view of the same memory: `is_neg()` until `resolve_neg()` or arithmetic."""
    if not _on_memory(input):
        return neg(input)
    _load()
    return _negative_view(input)


METHODS["_neg_view"] = _neg_view


def _bits(input: Any) -> int:
    while hasattr(input, "bdim"):  # a batch inside vmap
        input = input.value
    return int(input._bits)


@method
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, or a copy with the conjugation done that was put off.

    >>> import pullback as torch
    >>> y = torch.tensor([1 + 2j]).conj()
    >>> y.is_conj(), y.resolve_conj().is_conj()
    (True, False)
    """
    return input.clone() if _bits(input) & CONJUGATED else input


@method
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, or a copy with the negation done that was put off.

    >>> import pullback as torch
    >>> y = torch.tensor([1 + 2j]).conj().imag
    >>> y.is_neg(), y.resolve_neg()
    (True, tensor([-2.]))
    """
    return input.clone() if _bits(input) & NEGATED else input
