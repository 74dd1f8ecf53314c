"""`torch.ops.higher_order`: control flow under the names, and with the flat arguments, of graphs.

The functions themselves are in func/control_flow.py; these take and give lists of tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback
from pullback.core.tensor import Tensor
from pullback.func import control_flow

__all__ = ["HigherOrderOperator", "higher_order"]


class HigherOrderOperator:
    """An operator that takes functions."""

    namespace = "higher_order"

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = self.__name__ = name
        self._function = function
        self.__doc__ = function.__doc__

    def name(self) -> str:
        """What it is called."""
        return self._name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run it."""
        return self._function(*args, **kwargs)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<HigherOrderOperator(op='higher_order.{self._name}')>"


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """One of two functions of the operands, by a truth value."""
    return control_flow.cond(pred, true_fn, false_fn, tuple(operands))


def _while_loop(
    cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()
) -> tuple[Any, ...]:
    """Values handed on as long as a condition of them holds."""
    more = tuple(additional_inputs)
    made = control_flow.while_loop(
        lambda *carried: cond_fn(*carried, *more),
        lambda *carried: body_fn(*carried, *more),
        tuple(carried_inputs),
    )
    return tuple(made)


def _scan(combine_fn: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> tuple[Any, ...]:
    """Carries, then what each step gave, stacked along the first dimension."""
    count, more = len(init), tuple(additional_inputs)

    def step(carry: Any, x: Any) -> Any:
        made = combine_fn(*carry, *x, *more)
        return list(made[:count]), list(made[count:])

    carry, ys = control_flow.scan(step, list(init), list(xs))
    return (*carry, *ys)


def _associative_scan(combine_fn: Any, xs: Any, additional_inputs: Any = ()) -> tuple[Any, ...]:
    """Running combinations along the first dimension."""
    more = tuple(additional_inputs)

    def combined(a: Any, b: Any) -> Any:
        return list(combine_fn(*a, *b, *more))

    return tuple(control_flow.associative_scan(combined, list(xs), 0))


def _map(f: Any, xs: Any, pos_args: Any = ()) -> tuple[Any, ...]:
    """A function of each slice along the first dimension, stacked."""
    made = control_flow.map(lambda x, *more: list(f(*x, *more)), list(xs), *pos_args)
    return tuple(made)


def _wrap(wrapped_fn: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of the arguments, as one step of a graph."""
    return wrapped_fn(*args, **kwargs)


def _invoke_subgraph(subgraph: Any, identifier: Any, *operands: Any) -> Any:
    """The same; graphs that are called with one identifier are one."""
    return subgraph(*operands)


def _with_recording(enable_grad: bool, wrapped_func: Any, *args: Any, **kwargs: Any) -> Any:
    """A function with recording on or off."""
    with pullback.set_grad_enabled(enable_grad):
        return wrapped_func(*args, **kwargs)


def _checkpointed(gmod: Any, *args: Any, **kwargs: Any) -> Any:
    """A function whose inner values backward computes once more."""
    options = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug"}
    chosen = {name: one for name, one in kwargs.items() if name in options}
    more = {name: one for name, one in kwargs.items() if name not in options}
    checkpoint = pullback.utils.checkpoint.checkpoint
    return checkpoint(gmod, *args, **{"use_reentrant": False, **chosen}, **more)


def _strict_mode(callable: Any, operands: Any) -> Any:
    """A function of the operands."""
    return callable(*operands)


def _out_dtype(op: Any, output_dtype: Any, *args: Any) -> Any:
    """An operator computed in, and giving, another dtype."""
    cast = (one.to(output_dtype) if isinstance(one, Tensor) else one for one in args)
    return op(*cast)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "associative_scan": _associative_scan, "cond": _cond, "map_impl": _map, "scan": _scan,
    "invoke_subgraph": _invoke_subgraph, "out_dtype": _out_dtype, "strict_mode": _strict_mode,
    "tag_activation_checkpoint": _checkpointed, "while_loop": _while_loop, "wrap": _wrap,
    "wrap_with_set_grad_enabled": _with_recording,
}  # fmt: skip
_OPERATORS = {name: HigherOrderOperator(name, one) for name, one in _FUNCTIONS.items()}


def higher_order(name: str) -> Any:
    """The operator of a name, or None."""
    return _OPERATORS.get(name)
