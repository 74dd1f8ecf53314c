"""Tensors that leave a worker and arrive at another, in a context that will lead gradients back."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.autograd.function import Function
from pullback.autograd.graph import get_gradient_edge
from pullback.core.arrays import OtherArray
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.distributed.autograd.contexts import Received, Sent
from pullback.operators.create.sizes import zeros

__all__ = ["Message", "landed", "receive", "send", "taken"]


class Message(NamedTuple):
    """Arrays in main memory, where each goes, which require grad, and the pair's number if any.

    Tensors that stand on no array, such as sparse ones, travel as tensors.
    """

    arrays: list[Any]
    devices: list[str]
    flags: list[bool]
    number: int | None


def taken(tensor: Tensor, *, copied: bool) -> Any:
    """A tensor's array, in main memory; the tensor itself where it has no plain array."""
    if isinstance(tensor._array, OtherArray):
        tensor = tensor.detach().cpu()
        return tensor.clone() if copied else tensor
    if tensor.device.type != "cpu":
        return tensor.detach().cpu()._array
    return tensor._array.copy() if copied else tensor._array


def landed(array: Any, device: str) -> Tensor:
    """A tensor from what has arrived, on its device."""
    made = array if isinstance(array, Tensor) else wrap(array)
    return made if device == "cpu" else made.to(device)


def send(agent: Any, context_id: int | None, tensors: list[Tensor], peer: Any) -> Message:
    """Take tensors out; in a context, remember where their gradients will go on."""
    devices = [agent.device_maps.there(peer.info.name, str(tensor.device)) for tensor in tensors]
    arrays = [taken(tensor, copied=peer.shares_memory) for tensor in tensors]
    flags = [tensor.requires_grad for tensor in tensors]
    context = agent.contexts.of(context_id)
    if context is None:
        return Message(arrays, devices, flags, None)
    context.known.add(peer.info.id)
    if not any(flags) or not get_mode().grad:
        return Message(arrays, devices, flags, None)
    number = agent.contexts.message_id()
    going = [one for one, flag in zip(tensors, flags, strict=True) if flag]
    edges = [get_gradient_edge(one) for one in going]
    with context.lock:
        context.sends[number] = Sent(edges, [str(one.device) for one in going], peer.info.id)
    return Message(arrays, devices, flags, number)


class _Receive(Function):
    """Where a graph ends on this worker: what is beyond is on another."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, *tensors: Tensor) -> Any:
        return tuple(wrap(tensor._array) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None,) * (len(grads) + 1)  # gradients are read off before they come here


def receive(agent: Any, context_id: int | None, message: Message, peer: Any) -> list[Tensor]:
    """Tensors from a message; in a context, with a history that ends at the peer."""
    made = [landed(*one) for one in zip(message.arrays, message.devices, strict=True)]
    context = agent.contexts.of(context_id)
    if context is not None:
        context.known.add(peer.info.id)
    if message.number is None or context is None:
        for tensor, flag in zip(made, message.flags, strict=True):
            if flag:
                tensor.requires_grad_()
        return made
    inner = [tensor for tensor, flag in zip(made, message.flags, strict=True) if flag]
    start = zeros(0, dtype=inner[0].dtype, requires_grad=True)
    outs = iter(_Receive.apply(start, *inner))
    result = [
        next(outs) if flag else tensor for tensor, flag in zip(made, message.flags, strict=True)
    ]
    edges, like = [], []
    for tensor, flag in zip(result, message.flags, strict=True):
        if flag:
            edges.append(get_gradient_edge(tensor))
            like.append((tuple(tensor.shape), tensor.dtype))
    with context.lock:
        context.receives[message.number] = Received(edges, like, peer.info.id)
    return result
