"""Elementwise functions of nested tensors: on values, dense operands laid out as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.explain import layout_errors as errors
from pullback.core.tensor import Tensor
from pullback.operators.nested.array import form_of, is_nested
from pullback.operators.nested.form import Jagged, Shapes
from pullback.operators.nested.parts import filled, from_padded, of_components, unbind
from pullback.operators.nested.primitives import from_values, repeated, values_of
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import movedim, squeeze

__all__ = ["COMPOSED", "on_values", "pointwise"]

# Compositions that work element by element; declared operators say so themselves.
_NAMES = """
    alpha_dropout bernoulli celu clamp clamp_max clamp_min clip clone div divide dropout elu
    float_power gelu hardshrink hardsigmoid hardswish hardtanh isclose leaky_relu lerp logsigmoid
    masked_fill mish nan_to_num ones_like positive pow rand_like randn_like relu relu6 rrelu selu
    silu softplus softshrink softsign square sub tanhshrink threshold to type type_as where
    zeros_like full_like empty_like bfloat16 bool byte char cpu double float half int long short
    true_divide conj real imag resolve_conj resolve_neg native_dropout cdouble cfloat
    randint_like addcmul addcdiv sigmoid tanh logical_not logical_and logical_or logical_xor
    to_copy to_fixed conj_physical astype alias
    feature_dropout
"""
COMPOSED = frozenset(_NAMES.split())


def pointwise(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function element by element: nested operands of one form, dense ones broadcast."""
    nested = [one for one in (*args, *kwargs.values()) if is_nested(one)]
    forms = [form_of(one) for one in nested]
    if any(form.layout is not forms[0].layout for form in forms):
        raise errors.not_taken_nested(_name(func), "both kinds", " together")
    if isinstance(forms[0], Shapes):
        return _of_shapes(func, args, kwargs, forms)
    form, args, kwargs = _of_one_form(func, args, kwargs, nested)
    count = _rows(args, kwargs)
    laid = [_laid(func, one, form, nested[0], count) for one in args]
    named = {name: _laid(func, one, form, nested[0], count) for name, one in kwargs.items()}
    return wrapped(func(*laid, **named), form, behind=nested)


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", func))


def _rows(args: Any, kwargs: Any) -> int:
    first = next(one for one in (*args, *kwargs.values()) if is_nested(one))
    return int(first._array.values.shape[form_of(first).axis])


def wrapped(made: Any, form: Any, behind: Any = ()) -> Any:
    """Results on values as nested tensors; the last step goes by the name of the function."""
    if isinstance(made, tuple | list):
        parts = [wrapped(one, form, behind) for one in made]
        return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
    if not isinstance(made, Tensor):
        return made
    for one in behind:
        if is_nested(one) and made._array is one._array.values:
            return one  # nothing was done: `x.to(x.dtype)` is `x`
    node = made.grad_fn
    out = from_values(made, form)
    return out if node is None else shown_as(node.name(), out)


def _of_one_form(func: Any, args: Any, kwargs: Any, nested: list[Any]) -> Any:
    """Operands in the form of the first; without holes where theirs differ."""
    form = form_of(nested[0])
    for one in nested[1:]:
        other = form_of(one)
        if other.dim != form.dim or not form.rows.same_lengths(other.rows):
            raise _do_not_fit(func, nested[0], one)
    if all(form_of(one).rows is form.rows for one in nested):
        return form, args, kwargs
    return (
        Jagged(form.rows.packed, form.dim),
        tuple(filled(one) if is_nested(one) else one for one in args),
        {name: filled(one) if is_nested(one) else one for name, one in kwargs.items()},
    )


def _do_not_fit(func: Any, x: Any, other: Any) -> RuntimeError:
    shapes = [tuple(one._array.shape) for one in (x, other)]
    return RuntimeError(
        f"{_name(func)}: a nested tensor of shape {shapes[0]} and a tensor of shape {shapes[1]} do "
        "not fit. Nested tensors need components of the same lengths along the same dimension; "
        "dense ones size 1 where the other is ragged."
    )


def _laid(func: Any, one: Any, form: Jagged, x: Any, count: int) -> Any:
    """An operand as it stands beside values."""
    if not isinstance(one, Tensor):
        return one
    if is_nested(one):
        if one._array.ndim != x._array.ndim:
            raise _do_not_fit(func, x, one)
        return values_of(one)
    ndim = x._array.ndim
    shape = one._array.shape
    if len(shape) > ndim:
        raise _do_not_fit(func, x, one)
    behind = ndim - form.dim  # so many dimensions from the ragged one to the end
    if len(shape) < behind:
        return one
    if len(shape) < ndim or shape[0] == 1:
        if shape[-behind] != 1:
            raise _do_not_fit(func, x, one)
        return one if len(shape) < ndim else squeeze(one, 0)
    if shape[0] != form.count:
        raise _do_not_fit(func, x, one)
    if shape[form.dim] == 1:
        rows = repeated(squeeze(one, form.dim), form.rows, count)
        return movedim(rows, 0, form.axis) if form.axis else rows
    if shape[form.dim] == form.rows.longest:
        return from_padded(one, form, count)
    raise _do_not_fit(func, x, one)


# The strided layout -------------------------------------------------------------------------------


def _of_shapes(func: Any, args: Any, kwargs: Any, forms: list[Shapes]) -> Any:
    form = forms[0]
    everything = (*args, *kwargs.values())
    nested = [one for one in everything if is_nested(one)]
    alike = all(other.is_same(form) for other in forms)
    alike = alike and form.covers(nested[0]._array.values)
    dense = [one for one in everything if isinstance(one, Tensor) and not is_nested(one)]
    if alike and all(one.ndim == 0 for one in dense):
        laid = [values_of(one) if is_nested(one) else one for one in args]
        named = {name: values_of(v) if is_nested(v) else v for name, v in kwargs.items()}
        return wrapped(func(*laid, **named), form, behind=nested)
    if any(other.count != form.count for other in forms):
        raise _do_not_fit(func, nested[0], nested[1])
    ndim = nested[0]._array.ndim
    taken = [_each(one, form.count, ndim) for one in args]
    named_parts = {name: _each(one, form.count, ndim) for name, one in kwargs.items()}
    made = [
        func(*(part[i] for part in taken), **{name: part[i] for name, part in named_parts.items()})
        for i in range(form.count)
    ]
    return shown_as(_node_name(made), of_components(made))


def _node_name(made: list[Any]) -> str:
    node = made[0].grad_fn if made else None
    return "NestedTensorFromTensorListBackward0" if node is None else str(node.name())


def _each(one: Any, count: int, ndim: int) -> Any:
    """What an operand is for each component."""
    if is_nested(one):
        return unbind(one)
    if not isinstance(one, Tensor) or one.ndim < ndim:
        return [one] * count
    return one.unbind(0) if one.shape[0] == count else [squeeze(one, 0)] * count


def on_values(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of a jagged operand's values alone, whose rows stay where they are."""
    return wrapped(func(values_of(x), *args, **kwargs), form_of(x))
