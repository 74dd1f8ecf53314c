"""Wrappers: sizes that their class tells, and gradients of them from a user's backward."""

from typing import ClassVar

import pytest

import pullback as torch
from pullback.utils._pytree import tree_map


class Wrapped(torch.Tensor):
    """Computes with what it wraps, and writes down what it is asked."""

    asked: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner, **options):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, **options
        )
        made.inner = inner
        return made

    def __repr__(self):
        return f"Wrapped({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(str(func))
        opened = tree_map(lambda t: t.inner if isinstance(t, cls) else t, (args, kwargs or {}))
        made = func(*opened[0], **opened[1])
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, made)


class Telling(Wrapped):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(str(func))
        return {
            "aten.sym_size.default": (7, 8),
            "aten.sym_stride.default": (80, 10),
            "aten.dim.default": 2,
            "aten.sym_numel.default": 56,
            "aten.sym_storage_offset.default": 3,
            "aten.is_contiguous.default": False,
            "prim.device.default": torch.device("meta"),
            "prim.layout.default": torch.sparse_coo,
        }[str(func)]


def test_a_class_tells_sizes_and_strides_where_it_wants_to():
    """B-81: dispatch_sizes_strides_policy"""
    x = Telling(torch.ones(2, 3), dispatch_sizes_strides_policy="sizes")
    assert x.shape == x.size() == (7, 8)
    assert x.size(1) == 8
    assert (x.stride(), x.stride(1)) == ((80, 10), 10)
    assert (x.dim(), x.ndim, x.numel(), len(x), x.storage_offset()) == (2, 2, 56, 7, 3)
    assert not x.is_contiguous()
    assert x.device.type == "cpu"
    strides = Telling(torch.ones(2, 3), dispatch_sizes_strides_policy="strides")
    assert (strides.shape, strides.stride()) == ((2, 3), (80, 10))
    usual = Telling(torch.ones(2, 3))
    assert (usual.shape, usual.stride()) == ((2, 3), (3, 1))
    with pytest.raises(ValueError, match="'sizes' or 'strides'"):
        Telling(torch.ones(2), dispatch_sizes_strides_policy="both")


def test_a_class_tells_device_and_layout_where_it_wants_to():
    x = Telling(torch.ones(2), dispatch_device=True, dispatch_layout=True)
    assert x.device == torch.device("meta")
    assert not x.is_cpu
    assert x.layout is torch.sparse_coo
    assert x.shape == (2,)


class ToWrapped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2 if isinstance(g, Wrapped) else Wrapped(g.detach() * 2)


def test_a_backward_of_a_user_may_return_a_wrapper():
    x = torch.ones(2, requires_grad=True)
    Wrapped.asked.clear()
    ToWrapped.apply(x * 3).sum().backward()
    assert repr(x.grad) == "Wrapped(tensor([6., 6.]))"
    assert Wrapped.asked == ["aten.mul.Tensor", "aten.detach.default"]
    ToWrapped.apply(x).sum().backward()
    assert repr(x.grad) == "Wrapped(tensor([8., 8.]))"
    y = torch.ones(2, requires_grad=True)
    (ToWrapped.apply(y).sum() + (y * 2).sum()).backward()
    assert repr(y.grad) == "Wrapped(tensor([4., 4.]))"
    (g,) = torch.autograd.grad(ToWrapped.apply(y.exp()).sum(), y)
    assert isinstance(g, Wrapped)
