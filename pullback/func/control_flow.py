"""Control flow as functions: cond, while_loop, scan, associative_scan and map.

In eager they are Python's own branches and loops, and gradients flow through what ran. A compiled
function captures `scan` and `map` step by step, and compiles their body once; `cond`, with
gradients, and `while_loop`, without, are steps of the program that decide when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_map, tree_unflatten
from pullback.operators.shape.joining import stack

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """What `true_fn` or `false_fn` gives for the operands, as a number or one-element tensor says.

    >>> import pullback as torch
    >>> x = torch.tensor(2.0)
    >>> torch.cond(x > 1, lambda x: x.exp(), lambda x: x, (x,))
    tensor(7.3891)
    """
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError("cond(): both branches must be functions.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(
            f"cond(): the condition must be one number, got a tensor of shape {tuple(pred.shape)}."
        )
    if not isinstance(operands, tuple | list):
        raise RuntimeError(
            f"cond(): operands must be a tuple or list, got {type(operands).__name__}."
        )
    tracing = get_mode().tracing
    if tracing is not None and isinstance(pred, Tensor):
        return tracing.branch(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> Any:
    """The carried values after `body_fn` has run as long as `cond_fn` of them holds.

    >>> import pullback as torch
    >>> from pullback.func.control_flow import while_loop
    >>> while_loop(lambda n: n < 20, lambda n: (n * 3,), (torch.tensor(1),))
    (tensor(27),)
    """
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(
            f"while_loop(): carried values are a tuple or list, got "
            f"{type(carried_inputs).__name__}."
        )
    carried = tuple(carried_inputs)
    tracing = get_mode().tracing
    if tracing is not None:
        made: tuple[Any, ...] = tracing.loop(cond_fn, body_fn, carried)
        return made
    while bool(cond_fn(*carried)):
        made = body_fn(*carried)
        made = tuple(made) if isinstance(made, tuple | list) else (made,)
        if len(made) != len(carried):
            raise RuntimeError(
                f"while_loop(): the body returned {len(made)} values for {len(carried)}."
            )
        carried = made
    return carried


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` along a dimension: the last carry, and the ys stacked.

    >>> import pullback as torch
    >>> from pullback.func.control_flow import scan
    >>> scan(lambda c, x: (c + x, c * x), torch.tensor(0.0), torch.arange(4.0))
    (tensor(6.), tensor([0., 0., 2., 9.]))
    """
    steps = _slices("scan", xs, dim)
    carry = init
    made: list[Any] = []
    for x in reversed(steps) if reverse else steps:
        carry, y = combine_fn(carry, x)
        made.append(y)
    if reverse:
        made.reverse()
    return carry, _stacked(made, dim)


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Running combinations along a dimension; in order, which an associative function allows.

    >>> import pullback as torch
    >>> from pullback.func.control_flow import associative_scan
    >>> associative_scan(lambda a, b: a + b, torch.arange(4.0), 0)
    tensor([0., 1., 3., 6.])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"associative_scan(): combine_mode is 'pointwise' or 'generic', got {combine_mode!r}."
        )
    steps = _slices("associative_scan", xs, dim)
    if reverse:
        steps.reverse()
    made = steps[:1]
    for x in steps[1:]:
        made.append(combine_fn(made[-1], x))
    if reverse:
        made.reverse()
    return _stacked(made, dim)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` of each slice along the first dimension, stacked.

    >>> import pullback as torch
    >>> from pullback.func.control_flow import map
    >>> map(lambda x, y: x * y, torch.arange(3.0), torch.tensor(2.0))
    tensor([0., 2., 4.])
    """
    return _stacked([f(x, *args) for x in _slices("map", xs, 0)], 0)


def _slices(name: str, xs: Any, dim: int) -> list[Any]:
    leaves, spec = tree_flatten(xs)
    if not leaves or not all(isinstance(one, Tensor) and one.ndim for one in leaves):
        raise RuntimeError(f"{name}(): xs must be tensors with at least one dimension.")
    sizes = {one.shape[dim] for one in leaves}
    if len(sizes) != 1 or 0 in sizes:
        raise RuntimeError(
            f"{name}(): all xs must have the same size along dimension {dim}, and not 0; got "
            f"{sorted(sizes)}."
        )
    parts = [one.unbind(dim) for one in leaves]
    return [tree_unflatten(list(step), spec) for step in zip(*parts, strict=True)]


def _stacked(made: list[Any], dim: int) -> Any:
    return tree_map(lambda *steps: stack(steps, dim), made[0], *made[1:])
