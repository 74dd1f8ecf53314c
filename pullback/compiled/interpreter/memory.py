"""What a function asks about the memory and the past of tensors that stand for those from outside.

A stand-in has the shape, dtype and strides of its tensor, but begins at the start of memory of its
own and has no past. Whoever asks for more is answered only where the tensor answers as its stand-in
does, and that is guarded; whatever looks at the memory before or behind it is not followed.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter.words import words
from pullback.core.dtype import dtype
from pullback.core.tensor import Tensor

__all__ = ["ask"]

_PLACED = words("as_strided as_strided_ as_strided_scatter")


def ask(inner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Guard what a call depends on that stand-ins do not have."""
    fact = _FACTS.get(name)
    if fact is None and not _counts_from_the_start(name, args, kwargs):
        return
    for tensor in (*args, *kwargs.values()):
        if isinstance(tensor, Tensor):
            stands = [tensor] if name in _OF_ONE else _on_its_memory(inner, tensor)
            for stand in stands:
                _as_its_stand_in(inner, name, fact or _place, stand)
            if name == "_is_view":  # what is made of inference tensors never is
                ask(inner, "is_inference", (tensor,), {})


def _as_its_stand_in(inner: Any, name: str, fact: Any, stand: Tensor) -> None:
    if id(stand) not in inner.originals:
        return
    source, answer = inner.source(stand), fact(inner.originals[id(stand)])
    if source is None or answer:
        raise CannotCapture(f"{name} of a tensor from outside, which only the tensor itself knows")
    inner.guards.add("text", source, (fact, answer))


def _counts_from_the_start(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether it counts places, or whole larger elements, from the start of the memory."""
    if name in _PLACED:
        before = 4 if name == "as_strided_scatter" else 3  # arguments before the offset
        return kwargs.get("storage_offset") is not None or any(
            one is not None for one in args[before:]
        )
    if not name.startswith("view"):
        return False
    return "dtype" in kwargs or any(isinstance(one, dtype) for one in args[1:])


def _on_its_memory(inner: Any, tensor: Tensor) -> list[Tensor]:
    """The stand-ins whose memory a tensor is on, itself among them."""
    storage = getattr(tensor._array, "storage", None)
    if storage is None:
        return []
    stands = [one for one in inner.stands.values() if isinstance(one, Tensor)]
    return [one for one in stands if getattr(one._array, "storage", None) is storage]


def _place(tensor: Tensor) -> int:
    return int(tensor.storage_offset())


def _is_view(tensor: Tensor) -> bool:
    return tensor._is_view()


def _is_inference(tensor: Tensor) -> bool:
    return tensor.is_inference()


def _retains_grad(tensor: Tensor) -> bool:
    return bool(tensor.retains_grad)


_FACTS: dict[str, Any] = {
    "storage_offset": _place, "is_inference": _is_inference, "_is_view": _is_view,
    "retains_grad": _retains_grad,
}  # fmt: skip
_OF_ONE = words("_is_view retains_grad")  # and not of the memory
