"""Options of algorithms: as defaults of groups, and the checks that all algorithms make."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor

__all__ = ["arguments", "betas_below_one", "learning_rate", "not_negative", "real_and_dense"]


def arguments(scope: dict[str, Any], names: str) -> dict[str, Any]:
    """What a function was given, from its locals: defaults of groups, which keep this order."""
    return {name: scope[name] for name in names.split()}


def learning_rate(lr: Any, *, foreach: bool | None = False, capturable: bool = True) -> None:
    """A number, or a tensor of one element, that is not negative."""
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError(
                "With foreach=True and capturable=False lr has to be a number, not a tensor."
            )
        if lr.numel() != 1:
            raise ValueError(f"lr as a tensor has one element; this one has {lr.numel()}.")
    if not lr >= 0:
        raise ValueError(f"lr (the learning rate) cannot be negative; it is {lr}.")


def not_negative(**options: Any) -> None:
    """Options that count from zero up."""
    for name, value in options.items():
        if not value >= 0:
            raise ValueError(f"{name} cannot be negative; it is {value}.")


def betas_below_one(betas: Any) -> None:
    """Decay rates of averages: from 0 up to, but not including, 1."""
    for place, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ValueError(f"betas[{place}] must be at least 0 and below 1; it is {beta}.")


def real_and_dense(g: Any, name: str) -> Any:
    """The gradient, for algorithms that take no other."""
    if g.is_complex():
        raise RuntimeError(f"{name} cannot step complex parameters.")
    if g.is_sparse:
        raise RuntimeError(f"{name} cannot take sparse gradients.")
    return g
