"""Losses as `torch.ops.aten` takes them: the reduction is a number there, 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback
from pullback.library.schema import parse_schema

__all__ = ["LOSSES", "REDUCTIONS"]

REDUCTIONS = ("none", "mean", "sum")
_WEIGHTED = "Tensor self, Tensor target, Tensor? weight=None, int reduction=1"
_IGNORING = f"{_WEIGHTED}, SymInt ignore_index=-100"
_SCHEMAS = (
    "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
    "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
    "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, "
    "Tensor? weight=None, int reduction=1) -> Tensor",
    f"binary_cross_entropy({_WEIGHTED}) -> Tensor",
    f"nll_loss({_IGNORING}) -> Tensor",
    f"nll_loss2d({_IGNORING}) -> Tensor",
    f"nll_loss_nd({_IGNORING}) -> Tensor",
    f"cross_entropy_loss({_IGNORING}, float label_smoothing=0.) -> Tensor",
)
# What nn.functional calls them.
_FUNCTIONS = {
    "cross_entropy_loss": "cross_entropy",
    "nll_loss2d": "nll_loss",
    "nll_loss_nd": "nll_loss",
}


def _run(name: str, schema: str) -> Callable[..., Any]:
    arguments = [argument.name for argument in parse_schema(schema).arguments]
    names = ["input" if one == "self" else one for one in arguments]

    def run(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        given |= {"input" if key == "self" else key: value for key, value in kwargs.items()}
        reduction = given.pop("reduction", 1)
        if reduction not in range(len(REDUCTIONS)):
            raise ValueError(f"{name}: {reduction} is no reduction; 0 is none, 1 mean, 2 sum.")
        function = getattr(pullback.nn.functional, _FUNCTIONS.get(name, name))
        return function(**given, reduction=REDUCTIONS[reduction])

    run.__name__ = run.__qualname__ = name
    return run


# By name: the schema, and what runs it.
LOSSES: dict[str, tuple[str, Callable[..., Any]]] = {
    schema.partition("(")[0]: (f"aten::{schema}", _run(schema.partition("(")[0], f"aten::{schema}"))
    for schema in _SCHEMAS
}
