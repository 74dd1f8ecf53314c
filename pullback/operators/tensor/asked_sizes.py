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

    if isinstance(own, property):
        return property(lambda self: ask(self) if tells(self) else own.__get__(self))

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ask(self, *args, **kwargs) if tells(self) else own(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = own.__doc__
    return method


def _told(name: str, self: Any, space: str = "aten") -> Any:
    return ports.answered_below(name, self, space=space)


def _dims(self: Any) -> int:
    return int(_told("dim", self))


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
