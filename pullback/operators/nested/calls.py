"""What functions are of nested tensors: the table behind every public function's call.

A function that is not in it says so, with its name, the layout and what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy

from pullback.core import overriding
from pullback.core.explain import layout_errors as errors
from pullback.core.home import is_ours
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.core.view import edge_of
from pullback.operators.attach.dunders import DUNDERS
from pullback.operators.declare import Op
from pullback.operators.dispatch.dispatch import is_default
from pullback.operators.nested.array import form_of, is_nested
from pullback.operators.nested.form import Shapes
from pullback.operators.nested.parts import unbind
from pullback.operators.nested.pointwise import COMPOSED, on_values, pointwise
from pullback.operators.nested.primitives import values_of
from pullback.operators.running import layouts
from pullback.operators.running.inplace import check_history_can_change

__all__ = ["answer"]

# Functions that know any tensor: of its history, or of what is the same for every kind.
_NAMES = """
    backward register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ detach
    detach_ is_complex is_floating_point is_signed is_inference is_conj is_neg is_same_size numel
    get_device data_ptr is_tensor is_nonzero element_size dim __len__ __iter__ __hash__ is_storage
    nelement ndimension
"""
_OF_ANY = frozenset(_NAMES.split())
_DUNDERS = frozenset(DUNDERS.values())
# Modules whose functions take any tensor that has a history.
_FREE = ("autograd", "engine")
# Methods without a form out of place, which write to values.
_NAMES = """
    zero_ fill_ normal_ uniform_ bernoulli_ exponential_ random_ log_normal_ cauchy_ geometric_
    apply_
"""
_WRITES = frozenset(_NAMES.split())


def answer(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], called: str = ""
) -> Any:
    """A public function's call with a nested tensor among its arguments."""
    name = (called or func.__name__).partition(".")[0].removesuffix("_method")
    name = name if name.startswith("__") else name.removeprefix("_")
    x = _first(args, kwargs)
    if x is None or name in _OF_ANY or is_ours(func, *_FREE):
        return _plainly(func, args, kwargs)
    out = kwargs.pop("out", None) if "out" in kwargs else None
    if out is not None:
        return _into(name, out, answer(func, args, kwargs))
    if name in _WRITES:
        return _written(func, *args, **kwargs)
    if kwargs.pop("inplace", False):
        return replace(x, name, answer(func, args, kwargs))
    own = table(isinstance(form_of(x), Shapes))
    if name in own:
        return _marked(own[name](func, *args, **kwargs), x)
    if _is_pointwise(func):
        return pointwise(func, args, kwargs)
    if name.endswith("_") and not name.endswith("__"):
        plain = getattr(Tensor, name[:-1], None)
        if plain is not None and is_nested(args[0]):
            return replace(args[0], name, answer(plain, args, kwargs))
    raise errors.not_taken_nested(name.strip("_"), x.layout)


def _marked(made: Any, x: Any) -> Any:
    """Results that stand on the memory of `x` know whose views they are."""
    if isinstance(made, tuple):
        for one in made:
            _marked(one, x)
    elif made is not x and isinstance(made, Tensor) and is_nested(made) and _on_memory_of(x, made):
        vars(made)["_viewed"] = vars(x).get("_viewed", x)
    return made


def _on_memory_of(x: Any, made: Any) -> bool:
    return bool(numpy.may_share_memory(made._array.values, x._array.values))


def _handle(op: Op, called: str, bound: dict[str, Any], out: Any) -> tuple[bool, Any]:
    """The same from below, where functions do not ask: in passes of the engine."""
    x = _first((*bound.values(), out), {})
    if x is None or is_ours(op.forward, "operators.nested"):
        return False, None
    args = tuple(bound[param.name] for param in op.inputs)
    options = {
        param.name: bound[param.name]
        for param in op.params
        if not param.is_tensor and not is_default(bound[param.name], param.default)
    }
    made = answer(op.function, args, options)
    if called != op.name and called.endswith("_"):
        return True, replace(args[0], called, made)
    return True, made if out is None else _into(op.name, out, made)


layouts.HANDLERS.append(_handle)


def _first(args: Any, kwargs: dict[str, Any]) -> Any:
    for one in (*args, *kwargs.values()):
        if isinstance(one, Tensor) and is_nested(one):
            return one
        if isinstance(one, tuple | list):
            found = _first(one, {})
            if found is not None:
                return found
    return None


def _is_pointwise(func: Any) -> bool:
    op = getattr(func, "op", None)
    return (
        func.__name__ in COMPOSED
        or func in _DUNDERS
        or (op is not None and op.kind == "elementwise")
    )


def _plainly(func: Any, args: Any, kwargs: Any) -> Any:
    before = overriding.excluded.get()
    try:
        overriding.excluded.set(before | overriding.FUNCTIONS)
        return func(*args, **kwargs)
    finally:
        overriding.excluded.set(before)


# In place ----------------------------------------------------------------------------------------


def _checked(target: Any, called: str, *, tracked: bool) -> None:
    mode = get_mode()
    if target.is_inference() and not mode.inference:
        raise RuntimeError(f"{called}: an inference tensor cannot be changed outside of its mode.")
    if tracked and mode.grad:
        check_history_can_change(called, target)


def replace(target: Any, called: str, made: Any) -> Any:
    """Put a result, with its history, in the place of a nested tensor."""
    if not is_nested(made) or not _fits(form_of(made), made, target):
        raise RuntimeError(
            f"{called}: the result has shape {tuple(made._array.shape)}, which does not go into a "
            f"nested tensor of shape {tuple(target._array.shape)}."
        )
    if made.dtype is not target.dtype:
        if made.is_complex() and not target.is_complex():
            raise RuntimeError(f"{called}: {made.dtype} does not go into {target.dtype}.")
        made = made.to(target.dtype)
    base = vars(target).get("_viewed", target)
    tracked = target.requires_grad or made.requires_grad or base.requires_grad
    _checked(target, called, tracked=tracked)
    if tracked and base is not target and get_mode().grad:
        raise errors.not_taken_nested(called, target.layout, " that are views, with history")
    target._array.become(made._array)
    bump(target, called)
    if made.requires_grad:
        target._node = edge_of(made)
    return target


def _fits(form: Any, made: Any, target: Any) -> bool:
    """Whether a result has components of a target's sizes."""
    if isinstance(form, Shapes):
        own = form_of(target)
        return isinstance(own, Shapes) and own.sizes == form.sizes
    return bool(made._array.values.shape == target._array.values.shape)


def _written(func: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    _checked(target, func.__name__, tracked=target.requires_grad)
    if target.requires_grad and get_mode().grad:
        raise errors.not_taken_nested(func.__name__, target.layout, " with history")
    form, values = form_of(target), values_of(target).detach()
    if form.is_filled(target._array.values) or not isinstance(form, Shapes):
        func(values, *args, **kwargs)
        return target
    for one in unbind(target.detach()):
        func(one, *args, **kwargs)
    return target


def _copy(func: Any, target: Any, src: Any, non_blocking: bool = False) -> Any:
    if not is_nested(target) or not is_nested(src):
        raise errors.not_taken_nested("copy_", "torch.jagged", " together with dense ones")
    made = src.clone() if src.dtype is target.dtype else src.to(target.dtype)
    own, other = form_of(target), form_of(made)
    fits = (
        own.sizes == other.sizes
        if isinstance(own, Shapes)
        else own.dim == other.dim and own.rows.same_lengths(other.rows)
    )
    if not fits:
        raise RuntimeError(
            f"copy_: components of shape {tuple(src._array.shape)} do not fit those of shape "
            f"{tuple(target._array.shape)}."
        )
    return replace(target, "copy_", made)


def _into(name: str, out: Any, made: Any) -> Any:
    if out.requires_grad or made.requires_grad:
        raise RuntimeError(f"{name}: out= does not go with gradients; leave it away.")
    if is_nested(out) is not is_nested(made):
        raise errors.not_taken_nested(f"{name} with a dense out=", made.layout)
    return replace(out, name, made) if is_nested(out) else out.copy_(made)


def _equal(func: Any, input: Any, other: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether components have the same shapes and elements."""
    if not (is_nested(input) and is_nested(other)) or input.layout is not other.layout:
        return False
    sides = list(zip(unbind(input), unbind(other), strict=False))
    return len(input) == len(other) and all(
        a.shape == b.shape and func(a, b, *args, **kwargs) for a, b in sides
    )


# The tables --------------------------------------------------------------------------------------


@cache
def table(strided: bool) -> dict[str, Callable[..., Any]]:
    """The functions that stand for public ones, by name."""
    from pullback.operators.nested import parts, shape

    both: dict[str, Callable[..., Any]] = {
        "copy_": _copy,
        "equal": _equal,
        "allclose": _equal,
        "unbind": lambda func, x, dim=0: parts.unbind(x, dim),
        "contiguous": lambda func, x, *args, **kwargs: parts.contiguous(x),
        "to_padded_tensor": lambda func, *args, **kwargs: parts.to_padded_tensor(*args, **kwargs),
        "view_as": shape.view_as,
        "reshape_as": shape.view_as,
        "values": lambda func, x: values_of(x),
    }
    if strided:
        from pullback.operators.nested.strided import TABLE

        return {**both, **TABLE}
    return {**both, **_jagged()}


def _jagged() -> dict[str, Callable[..., Any]]:
    from pullback.operators.nested import products, reduce, shape

    return {
        **reduce.REDUCTIONS,
        "norm": reduce.norm_of_all,
        "vector_norm": reduce.norm_of_all,
        "softmax": reduce.softmax,
        "log_softmax": reduce.log_softmax,
        "layer_norm": reduce.layer_norm,
        "rms_norm": reduce.layer_norm,
        "linear": products.linear,
        "embedding": products.embedding,
        "matmul": products.matmul,
        "__matmul__": products.matmul,
        "__rmatmul__": lambda func, a, b: products.matmul(func, b, a),
        "bmm": products.matmul,
        "scaled_dot_product_attention": products.scaled_dot_product_attention,
        "transpose": shape.transpose,
        "swapaxes": shape.transpose,
        "swapdims": shape.transpose,
        "permute": shape.permute,
        "movedim": shape.movedim,
        "moveaxis": shape.movedim,
        "unsqueeze": shape.unsqueeze,
        "squeeze": shape.squeeze,
        "unflatten": shape.unflatten,
        "flatten": shape.flatten,
        "reshape": shape.reshape,
        "view": shape.reshape,
        "unsafe_view": shape.reshape,
        "expand": shape.expand,
        "expand_as": shape.expand_as,
        "select": shape.select,
        "narrow": shape.narrow,
        "split": shape.split,
        "split_with_sizes": shape.split,
        "chunk": shape.chunk,
        "cat": shape.cat,
        "concat": shape.cat,
        "concatenate": shape.cat,
        "stack": shape.stack,
        "__getitem__": shape.getitem,
        "nan_to_num": on_values,
    }
