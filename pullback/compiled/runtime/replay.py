"""The captured calls once more, as operators on tensors: gradients that can be differentiated."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.nodes import Rules
from pullback.compiled.capture.steps import Call, Value, live
from pullback.core.dtype import from_numpy_dtype
from pullback.core.tensor import Tensor, wrap

__all__ = ["again", "replayed"]


def replayed(
    captured: Captured, tensors: list[Any], gradients: list[Any], constants: dict[int, Any]
) -> tuple[Any, ...]:
    """The gradients of a captured call, computed by recorded operators.

    `constants`: arrays of inputs, by number, that the function made itself.
    """
    known: dict[int, Tensor] = {}
    for number, (one, tensor) in enumerate(zip(captured.inputs, tensors, strict=True)):
        if one.kind == "early":  # computed anew, so that it has a history
            continue
        known[one.value.number] = wrap(constants[number]) if number in constants else tensor
    for (_, value), g in zip(captured.tangents, gradients, strict=True):
        known[value.number] = g
    wanted = [value for _, value in captured.gradients]
    for call in live(captured.whole or captured.calls, wanted):
        if call.random:
            raise RuntimeError(
                f"double backward through a compiled function that draws random numbers "
                f"({call.name}) is not possible: they would be drawn anew. Call it without compile."
            )
        for value, tensor in zip(call.results, again(call, known), strict=True):
            known[value.number] = tensor
    return tuple(known[value.number] for value in wanted)


def again(call: Call, known: dict[int, Tensor]) -> list[Tensor]:
    """A captured call as an operator on tensors."""
    given = _tensors(call.kwargs, known)
    args = _tensors(call.args, known)
    if call.op is not None:
        made = call.op.function(**given)
    elif call.kernel.__class__ is Rules:
        made = call.kernel.on_tensors(*args, **given)
    elif call.name == "astype":
        made = args[0].to(from_numpy_dtype(args[1]))
    elif call.name == "part":
        made = args[0].contiguous().as_strided(given["shape"], given["strides"], given["offset"])
    elif call.name == "with_part":
        made = (
            args[0]
            .contiguous()
            .as_strided_scatter(args[1], args[1].shape, given["strides"], given["offset"])
        )
    elif call.name in ("laid_out", "copy"):
        made = args[0].clone()
    elif call.name == "summed":
        made = args[0].sum_to_size(args[2])
    elif call.name == "broadcast_to":
        made = args[0].expand(args[1])
    else:
        raise RuntimeError(
            f"double backward through a compiled function that calls numpy.{call.name} is not "
            "possible: nobody says how to differentiate that."
        )
    return [made] if call.single else list(made)


def _tensors(tree: Any, known: dict[int, Tensor]) -> Any:
    kind = tree.__class__
    if kind is Value:
        return known[tree.number]
    if kind is numpy.ndarray:
        return wrap(tree)
    if kind is dict:
        return {name: _tensors(one, known) for name, one in tree.items()}
    if kind is tuple or kind is list:
        return kind(_tensors(one, known) for one in tree)
    return tree
