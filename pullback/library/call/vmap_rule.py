"""A user's operator under vmap: by its registered rule, or example by example."""

from __future__ import annotations

import warnings
from typing import Any

from pullback.autograd.function.vmap import VmapInfo
from pullback.core import origin
from pullback.core.mode import current, get_mode
from pullback.core.tensor import Tensor
from pullback.library.call import returns
from pullback.library.call.binding import split
from pullback.library.call.executing import least
from pullback.library.registry import Operator
from pullback.operators.shape.joining import stack
from pullback.operators.shape.reshaping import select
from pullback.transforms.batched import batched, is_batched_at
from pullback.transforms.vmap_level import loop_warnings_enabled


def apply(operator: Operator, values: list[Any], level: Any) -> Any:
    """Run an operator on tensors batched at `level`; the rule runs with that level removed."""
    kernel = operator.kernels.get("FuncTorchBatched")
    if kernel is not None:
        args, kwargs = split(operator.schema, values)
        return kernel.function(*args, **kwargs)
    pairs = [_taken_apart(value, level) for value in values]
    inner = [value for value, _ in pairs]
    dims = [dim for _, dim in pairs]
    before = get_mode()
    try:
        current.set(level.below(before))
        if operator.vmap_rule is None:
            output, out_dims = _each(operator, inner, dims, level.size)
        else:
            output, out_dims = _by_rule(operator, inner, dims, level)
    finally:
        current.set(before)
    return _hidden(output, out_dims, level)


def _taken_apart(value: Any, level: Any) -> tuple[Any, Any]:
    """A value without the wrapper of this level, and its hidden dimension."""
    if value.__class__ is list:
        parts = [_taken_apart(one, level) for one in value]
        return [one for one, _ in parts], [dim for _, dim in parts]
    if is_batched_at(value, level):
        return value.value, value.bdim
    return value, None


def _by_rule(operator: Operator, values: list[Any], dims: list[Any], level: Any) -> Any:
    args, kwargs = split(operator.schema, values)
    passed = max(least(operator, values), _last_batched(dims[: len(args)]))
    info = VmapInfo(level.size, level.randomness)
    assert operator.vmap_rule is not None
    in_dims = tuple(dims[:passed])
    returned = operator.vmap_rule.function(info, in_dims, *args[:passed], **kwargs)
    if not isinstance(returned, tuple) or len(returned) != 2:
        got = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else _kind(returned)
        raise RuntimeError(
            f"The vmap rule of {operator.qualname} must return two values, (output, out_dims), but "
            f"returned {got}."
        )
    output, out_dims = returned
    return output, _spread(operator, out_dims, output)


def _last_batched(dims: list[Any]) -> int:
    return max(
        (i + 1 for i, dim in enumerate(dims) if any(d is not None for d in returns.flat(dim))),
        default=0,
    )


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _spread(operator: Operator, dims: Any, output: Any) -> Any:
    """One dim (or None) for every output: one stands for all that are below it."""
    if not isinstance(output, tuple | list):
        if dims is not None and not isinstance(dims, int):
            raise _mismatch(operator, dims, output)
        return dims
    if dims is None or isinstance(dims, int):
        return [_spread(operator, dims, one) for one in output]
    if not isinstance(dims, tuple | list) or len(dims) != len(output):
        raise _mismatch(operator, dims, output)
    return [_spread(operator, dim, one) for dim, one in zip(dims, output, strict=True)]


def _mismatch(operator: Operator, dims: Any, output: Any) -> RuntimeError:
    return RuntimeError(
        f"The vmap rule of {operator.qualname} returned out_dims of structure {_text(dims)} for an "
        f"output of structure {_text(output)}; out_dims needs one int or None for each value of "
        "the output, or a single one for all."
    )


def _text(tree: Any) -> str:
    if isinstance(tree, tuple | list):
        inside = ", ".join(_text(one) for one in tree)
        return f"({inside})" if isinstance(tree, tuple) else f"[{inside}]"
    return "*" if isinstance(tree, Tensor) else repr(tree)


def _hidden(output: Any, dims: Any, level: Any) -> Any:
    if isinstance(output, tuple | list):
        made = [_hidden(one, dim, level) for one, dim in zip(output, dims, strict=True)]
        return tuple(made) if isinstance(output, tuple) else made
    if dims is None or not isinstance(output, Tensor):
        return output
    return batched(output, dims % max(output.ndim, 1), level)


# Without a rule -----------------------------------------------------------------------------------


def _each(operator: Operator, values: list[Any], dims: list[Any], size: int) -> Any:
    """Run the operator on one example after another and stack what they give."""
    if operator.schema.is_mutable or operator.schema.is_view:
        what = "writes to an argument" if operator.schema.is_mutable else "returns a view"
        raise RuntimeError(
            f"vmap: {operator.qualname} {what} and has no vmap rule, so it cannot run example by "
            "example. Give it one with register_vmap."
        )
    if loop_warnings_enabled() or not operator.warned_of_loop:
        operator.warned_of_loop = True
        warnings.warn(
            f"vmap runs {operator.qualname} in a loop over the examples, as it has no rule for "
            "whole batches; that is slow. Give it one with register_vmap.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    if size == 0:
        raise RuntimeError(
            f"vmap: {operator.qualname} has no vmap rule, and a batch without examples does not "
            "tell the shape of its result. Give it one with register_vmap."
        )
    runs = []
    for number in range(size):
        one = [_example(value, dim, number) for value, dim in zip(values, dims, strict=True)]
        args, kwargs = split(operator.schema, one)
        runs.append(operator.overload(*args, **kwargs))
    columns = [_stacked(operator, column) for column in zip(*map(returns.flat, runs), strict=True)]
    output = returns.rebuilt(runs[0], columns)
    return output, _spread_zeros(output)


def _example(value: Any, dim: Any, number: int) -> Any:
    if isinstance(dim, list):
        return [_example(one, d, number) for one, d in zip(value, dim, strict=True)]
    return value if dim is None else select(value, dim, number)


def _stacked(operator: Operator, column: Any) -> Any:
    if isinstance(column[0], Tensor):
        return stack(list(column))
    if any(value != column[0] for value in column):
        raise RuntimeError(
            f"vmap: {operator.qualname} returned numbers that differ between the examples "
            f"({column[0]!r} and others), and a number cannot stand for a batch. Return a tensor."
        )
    return column[0]


def _spread_zeros(output: Any) -> Any:
    if isinstance(output, tuple | list):
        return [_spread_zeros(one) for one in output]
    return 0 if isinstance(output, Tensor) else None
