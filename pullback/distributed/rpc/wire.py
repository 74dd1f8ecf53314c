"""Arguments and results on their way: pickled, with tensors taken out for autograd to see.

References are written as the number of their value. Between workers that are threads functions
travel as they are; between processes by their name, which the other must know as well.
"""

from __future__ import annotations

import io
import pickle
import types
from typing import Any, NamedTuple

from pullback.core.tensor import Tensor
from pullback.distributed.rpc.agent import Agent, Peer
from pullback.distributed.rpc.rref import RRef

__all__ = ["Packed", "pack", "unpack"]


class Packed(NamedTuple):
    """A value as bytes, and what travels beside them as it is."""

    data: bytes
    others: list[Any]


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, agent: Agent, peer: Peer, *, answers: bool) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self.others: list[Any] = []
        self.lent: list[RRef] = []
        self._agent, self._peer, self._answers = agent, peer, answers

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            self.tensors.append(obj)
            return ("tensor", len(self.tensors) - 1)
        if isinstance(obj, RRef):
            return self._reference(obj)
        if self._peer.shares_memory and isinstance(obj, types.FunctionType):
            self.others.append(obj)
            return ("other", len(self.others) - 1)
        return None

    def _reference(self, rref: RRef) -> Any:
        if rref._owner == self._peer.info and not self._answers:
            self.lent.append(rref)  # held by the asker until the owner, who is asked, has answered
            return ("lent", rref._owner.id, rref._number)
        return ("reference", *rref._handed_on(self._agent))


class _Unpacker(pickle.Unpickler):
    def __init__(self, packed: Packed, tensors: list[Any], agent: Agent) -> None:
        super().__init__(io.BytesIO(packed.data))
        self._tensors, self._others, self._agent = tensors, packed.others, agent

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        if kind == "tensor":
            return self._tensors[rest[0]]
        if kind == "other":
            return self._others[rest[0]]
        owner, number = rest
        if kind == "lent":
            self._agent.kept.hold(number)
        return RRef._of(self._agent, self._agent.find(owner).info, number)


def pack(
    value: Any, agent: Agent, peer: Peer, *, answers: bool = False
) -> tuple[Packed, list[Tensor], list[RRef]]:
    """A value packed for a peer, its tensors, and references to hold until that has answered."""
    file = io.BytesIO()
    packer = _Packer(file, agent, peer, answers=answers)
    try:
        packer.dump(value)
    except (pickle.PicklingError, AttributeError) as error:
        raise type(error)(
            f"rpc to {peer.info.name!r}: {error}. Between processes functions and classes travel "
            "by name: define them at the top of a module that every worker has."
        ) from error
    return Packed(file.getvalue(), packer.others), packer.tensors, packer.lent


def unpack(packed: Packed, tensors: list[Any], agent: Agent) -> Any:
    """The value again, with these tensors in it."""
    return _Unpacker(packed, tensors, agent).load()
