"""`view_copy`, `slice_copy` and their kin: what a view shows, in memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.layout import contiguous_format
from pullback.operators.declare import OPERAND_NAMES, REQUIRED
from pullback.operators.options import missing, numpy_named, numpy_spelled, operand
from pullback.operators.pointwise.complex import view_as_complex, view_as_real
from pullback.operators.running.inplace import check_out_dtype, write_out
from pullback.operators.running.naming import shown_as
from pullback.operators.running.writes import check_outs
from pullback.operators.shape.joining import split, split_with_sizes, unbind
from pullback.operators.shape.reshaping import (
    alias,
    as_strided,
    clone,
    diagonal,
    expand,
    permute,
    select,
    slice_along,
    squeeze,
    t,
    transpose,
    unfold,
    unsqueeze,
)
from pullback.operators.shape.views import _view

FOUND_IN = {
    "torch": """
        alias_copy as_strided_copy diagonal_copy expand_copy permute_copy select_copy
        slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
        unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy
        view_copy
    """
}


# Of views that have no public function of their own, which would show one.
_EXAMPLES = {
    "alias_copy": """

    >>> import pullback as torch
    >>> x = torch.zeros(2)
    >>> y = torch.alias_copy(x)
    >>> y.data_ptr() == x.data_ptr()
    False
    """,
    "slice_copy": """

    >>> import pullback as torch
    >>> torch.slice_copy(torch.arange(6), 0, 1, 6, 2)
    tensor([1, 3, 5])
    """,
}


def _copying(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @numpy_named
    def copy(input: Any = REQUIRED, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if input is REQUIRED:
            others = {one: kwargs.pop(one) for one in OPERAND_NAMES["input"] if one in kwargs}
            input = operand(name, "input", input, **others)
        if input is REQUIRED:
            raise missing(name, "input")
        seen = function(input, *args, **kwargs)
        if out is None:
            return tuple(map(_copied, seen)) if isinstance(seen, tuple) else _copied(seen)
        if not isinstance(seen, tuple):
            check_out_dtype(name, out, seen._array)
            write_out(name, out, seen._array)
            return out
        check_outs(name, out, [one._array for one in seen])
        for target, one in zip(out, seen, strict=True):
            write_out(name, target, one._array)
        return None

    copy.__name__ = copy.__qualname__ = name
    copy.__module__ = __name__
    copy.__doc__ = f"What `{name.removesuffix('_copy')}` shows, in memory of its own."
    copy.__doc__ += _EXAMPLES.get(name, "")
    return copy


def _copied(seen: Any) -> Any:
    """A copy, which torch shows as one step together with the view that it is a copy of."""
    node = seen.grad_fn
    copied = clone(seen, memory_format=contiguous_format)
    return shown_as(f"{type(node).__name__}_copy", copied)


@numpy_spelled
def _slice(
    input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    return slice_along(input, dim, start, end, step)


alias_copy = _copying("alias_copy", alias)
as_strided_copy = _copying("as_strided_copy", as_strided)
diagonal_copy = _copying("diagonal_copy", diagonal)
expand_copy = _copying("expand_copy", expand)
permute_copy = _copying("permute_copy", permute)
select_copy = _copying("select_copy", select)
slice_copy = _copying("slice_copy", _slice)
split_copy = _copying("split_copy", split)
split_with_sizes_copy = _copying("split_with_sizes_copy", split_with_sizes)
squeeze_copy = _copying("squeeze_copy", squeeze)
t_copy = _copying("t_copy", t)
transpose_copy = _copying("transpose_copy", transpose)
unbind_copy = _copying("unbind_copy", unbind)
unfold_copy = _copying("unfold_copy", unfold)
unsqueeze_copy = _copying("unsqueeze_copy", unsqueeze)
view_as_complex_copy = _copying("view_as_complex_copy", view_as_complex)
view_as_real_copy = _copying("view_as_real_copy", view_as_real)
view_copy = _copying("view_copy", _view)
