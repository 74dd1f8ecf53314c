"""Sizes, strides, device and layout that a class of tensors tells itself, when it is asked.

`_make_wrapper_subclass(..., dispatch_sizes_strides_policy=, dispatch_device=, dispatch_layout=)`:
what users read of such tensors is what `__torch_dispatch__` answers for `aten.sym_size` and its
like. The class itself gets attributes that ask, for those of its tensors that were made so. What
operators compute with are the sizes that a tensor was made with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.overriding import DISPATCH, excluded
from pullback.core.ports import ports
from pullback.core.size import size_of
from pullback.core.tensor import Tensor
from pullback.operators.options import as_dim

__all__ = ["ask_class", "check_policy"]


def check_policy(policy: str | None) -> None:
    """Refuse what is no policy."""
    if policy not in (None, "sizes", "strides"):
        raise ValueError(
            f"dispatch_sizes_strides_policy must be 'sizes' or 'strides', got {policy!r}."
        )


def ask_class(made: Any, policy: str | None, *, device: bool, layout: bool) -> None:
    """Let a tensor's class tell what these name."""
    told = {
        *(("sizes", "strides") if policy == "sizes" else ("strides",) if policy else ()),
        *(("device",) if device else ()),
        *(("layout",) if layout else ()),
    }
    vars(made)["_told_by_class"] = frozenset(told)
    cls = type(made)
    if "_tells" not in vars(cls):
        cls._tells = True
        for name, (what, ask) in _ASKED.items():
            if getattr(cls, name) is getattr(Tensor, name):  # none of the class's own
                setattr(cls, name, _asking(name, what, ask))


def _asking(name: str, what: str, ask: Callable[..., Any]) -> Any:
    own: Any = vars(Tensor)[name]

    def tells(self: Any) -> bool:
        told = vars(self).get("_told_by_class", ())
        return what in told and not excluded.get() & DISPATCH

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tells(self):
            try:
                return ask(self, *args, **kwargs)
            except _NoAnswerError:
                pass
        before = excluded.get()
        try:
            excluded.set(before | DISPATCH)  # who is asked once is not asked again
            return own.__get__(self)(*args, **kwargs) if callable(own) else own.__get__(self)
        finally:
            excluded.set(before)

    if isinstance(own, property):
        return property(method)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = own.__doc__
    return method


class _NoAnswerError(Exception):
    """The class was asked and gave None: then it is what the tensor was made with."""


def _told(name: str, self: Any, space: str = "aten") -> Any:
    answer = ports.answered_below(name, self, space=space)
    if answer is None:
        raise _NoAnswerError
    return answer


def _dims(self: Any) -> int:
    try:
        return int(_told("dim", self))
    except _NoAnswerError:
        raise RuntimeError(
            f"dim: __torch_dispatch__ of {type(self).__name__} returned None for aten.dim, where "
            "only a number will do. Return self.dim() of what it wraps."
        ) from None


def _size(self: Any, dim: int | None = None) -> Any:
    if dim is None:
        return size_of(tuple(_told("sym_size", self)))
    at = as_dim(dim, _dims(self), "size")
    return tuple(_told("sym_size", self))[at]


def _stride(self: Any, dim: int | None = None) -> Any:
    strides = tuple(_told("sym_stride", self))
    return strides if dim is None else strides[as_dim(dim, len(strides), "stride")]


def _length(self: Any) -> int:
    if _dims(self) == 0:
        raise TypeError("len() of a 0-d tensor: it has no dimension to count.")
    return int(_told("sym_size", self)[0])


def _device(self: Any) -> Any:
    return _told("device", self, "prim")


# Attribute -> what it tells of, and how it is asked for.
_ASKED: dict[str, tuple[str, Callable[..., Any]]] = {
    "shape": ("sizes", _size),
    "size": ("sizes", _size),
    "dim": ("sizes", _dims),
    "ndimension": ("sizes", _dims),
    "ndim": ("sizes", _dims),
    "numel": ("sizes", lambda self: int(_told("sym_numel", self))),
    "nelement": ("sizes", lambda self: int(_told("sym_numel", self))),
    "storage_offset": ("sizes", lambda self: int(_told("sym_storage_offset", self))),
    "__len__": ("sizes", _length),
    "stride": ("strides", _stride),
    "is_contiguous": ("strides", lambda self, **_: bool(_told("is_contiguous", self))),
    "device": ("device", _device),
    "is_cpu": ("device", lambda self: _device(self).type == "cpu"),
    "is_cuda": ("device", lambda self: _device(self).type == "cuda"),
    "is_meta": ("device", lambda self: _device(self).type == "meta"),
    "layout": ("layout", lambda self: _told("layout", self, "prim")),
}
