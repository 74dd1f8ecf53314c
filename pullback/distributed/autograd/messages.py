"""Tensors that leave a worker and arrive at another, in a context that will lead gradients back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.autograd.function import Function
from pullback.autograd.graph import get_gradient_edge
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.distributed.autograd.contexts import Received, Sent

__all__ = ["Message", "receive", "send"]


@dataclass
class Message:
    """Copies of tensors, which of them require grad, and the number of the pair if they connect."""

    arrays: list[Any]
    flags: list[bool]
    number: int | None


def send(agent: Any, context_id: int | None, tensors: list[Tensor], peer: int) -> Message:
    """Take tensors out; in a context, remember where their gradients will go on."""
    arrays = [tensor._array.copy() for tensor in tensors]
    flags = [tensor.requires_grad for tensor in tensors]
    if context_id is None:
        return Message(arrays, flags, None)
    context = agent.contexts.of(context_id)
    context.known.add(peer)
    if not any(flags) or not get_mode().grad:
        return Message(arrays, flags, None)
    number = agent.contexts.message_id()
    edges = [get_gradient_edge(one) for one, flag in zip(tensors, flags, strict=True) if flag]
    with context.lock:
        context.sends[number] = Sent(edges, peer)
    return Message(arrays, flags, number)


class _Receive(Function):
    """Where a graph ends on this worker: what is beyond is on another."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, *tensors: Tensor) -> Any:
        return tuple(wrap(tensor._array) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None,) * (len(grads) + 1)  # gradients are read off before they come here


def receive(agent: Any, context_id: int | None, message: Message, peer: int) -> list[Tensor]:
    """Tensors from a message; in a context, with a history that ends at the peer."""
    made = [wrap(array) for array in message.arrays]
    if context_id is not None:
        agent.contexts.of(context_id).known.add(peer)
    if message.number is None or context_id is None:
        for tensor, flag in zip(made, message.flags, strict=True):
            if flag:
                tensor.requires_grad_()
        return made
    inner = [tensor for tensor, flag in zip(made, message.flags, strict=True) if flag]
    start = wrap(inner[0]._array[..., :0].copy() if inner[0].ndim else inner[0]._array.copy())
    start.requires_grad_()
    outs = iter(_Receive.apply(start, *inner))
    result = [
        next(outs) if flag else tensor for tensor, flag in zip(made, message.flags, strict=True)
    ]
    context = agent.contexts.of(context_id)
    edges, like = [], []
    for tensor, flag in zip(result, message.flags, strict=True):
        if flag:
            edges.append(get_gradient_edge(tensor))
            like.append((tuple(tensor.shape), tensor.dtype))
    with context.lock:
        context.receives[message.number] = Received(edges, like, peer)
    return result
