"""gradcheck over functions of sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.layout import sparse_coo
from pullback.core.tensor import Tensor
from pullback.operators.sparse.array import pattern_of
from pullback.operators.sparse.layouts import full_pattern
from pullback.operators.sparse.primitives import at_places, from_values

__all__ = ["as_sparse_gradcheck"]


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """A gradcheck that takes functions with sparse inputs and outputs.

    It checks the function of the inputs' values, and of the dense form of the outputs. With
    `masked=False` inputs are varied in all elements, specified or not.

    >>> import pullback as torch
    >>> gradcheck = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
    >>> gradcheck(lambda x: torch.sparse.mm(x, x), x, masked=True)
    True
    """

    def checked(func: Callable[..., Any], inputs: Any, **options: Any) -> bool:
        masked = options.pop("masked", False)
        given = inputs if isinstance(inputs, tuple | list) else (inputs,)
        rebuild: list[Any] = []
        flat: list[Any] = []
        for one in given:
            made, values = _values_and_back(one, masked=masked)
            rebuild.append(made)
            flat.append(values)

        def of_values(*values: Any) -> Any:
            made = func(*(back(v) for back, v in zip(rebuild, values, strict=True)))
            several = made if isinstance(made, tuple | list) else (made,)
            dense = tuple(_dense(one) for one in several)
            return dense if isinstance(made, tuple | list) else dense[0]

        return gradcheck(of_values, tuple(flat), **options)

    return checked


def _dense(x: Any) -> Any:
    return x.to_dense() if isinstance(x, Tensor) and x._layout is not None else x


def _values_and_back(x: Any, *, masked: bool) -> tuple[Callable[[Any], Any], Any]:
    """A dense tensor to vary, and what makes the sparse input of it again."""
    if not isinstance(x, Tensor) or x._layout is None or not x.requires_grad:
        return (lambda value: value), x
    own = x.detach()
    own = own.coalesce() if own._layout is sparse_coo else own
    pattern = pattern_of(own) if masked else full_pattern(pattern_of(own))
    values = at_places(own, pattern).clone().requires_grad_()
    return (lambda value: from_values(value, pattern)), values
