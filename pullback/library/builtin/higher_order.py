"""`torch.ops.higher_order`: control flow under the names, and with the flat arguments, of graphs.

The functions themselves are in func/control_flow.py; these take and give lists of tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "associative_scan": _associative_scan, "cond": _cond, "map_impl": _map, "scan": _scan,
    "while_loop": _while_loop,
}  # fmt: skip
_OPERATORS = {name: HigherOrderOperator(name, one) for name, one in _FUNCTIONS.items()}


def higher_order(name: str) -> Any:
    """The operator of a name, or None."""
    return _OPERATORS.get(name)
