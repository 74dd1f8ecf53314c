"""Modules whose sizes come with their first input."""

import copy
import gc
import pickle
import weakref

import pytest

import pullback as torch
from pullback import nn
from pullback.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


def test_what_is_not_initialised_can_be_moved_and_no_more():
    weight = UninitializedParameter()
    assert repr(weight) == "<UninitializedParameter>"
    assert weight.to(torch.float64).dtype == torch.float64
    assert is_lazy(copy.deepcopy(weight))
    assert is_lazy(pickle.loads(pickle.dumps(weight)))
    for use in (lambda w: w + 1, lambda w: torch.ones(1) + w, lambda w: w.numel(), len):
        with pytest.raises(ValueError, match="Call the lazy module once"):
            use(weight)
    with pytest.raises(RuntimeError, match="no shape"):
        weight.shape
    weight.materialize((2, 3), dtype=torch.float64)
    assert type(weight) is nn.Parameter
    assert weight.requires_grad
    assert weight.shape == (2, 3)
    assert weight.dtype == torch.float64


def test_buffers_become_plain_tensors():
    buffer = UninitializedBuffer(dtype=torch.int64)
    buffer.materialize((2,))
    assert type(buffer) is torch.Tensor
    assert not buffer.requires_grad


def test_a_lazy_model_is_converted_copied_and_then_called():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    model = copy.deepcopy(pickle.loads(pickle.dumps(model))).double()
    out = model(torch.ones(2, 3, 5, 5, dtype=torch.float64))
    assert out.shape == (2, 2)
    assert [type(one) for one in model] == [nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    assert {one.dtype for one in model.parameters()} == {torch.float64}
    assert not any(one._forward_pre_hooks for one in model)
    out.sum().backward()
    assert all(one.grad is not None for one in model.parameters())


def test_a_lazy_module_of_ones_own():
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = UninitializedParameter()

        def initialize_parameters(self, x):
            if self.has_uninitialized_params():
                self.factor.materialize(x.shape[-1:])
                nn.init.ones_(self.factor)

        def forward(self, x):
            return x * self.factor

    scale = Scale()
    assert scale(torch.full((2, 3), 2.0)).sum().item() == 12.0
    assert not scale.has_uninitialized_params()


def test_lazy_modules_go_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        layer = nn.LazyLinear(2)
        mark = weakref.ref(layer)
        del layer
        assert mark() is None
    finally:
        gc.enable()


def test_a_loaded_lazy_layer_learns_its_size_from_the_first_input():
    saved = nn.Linear(5, 3).state_dict()
    layer = nn.LazyLinear(3)
    layer.load_state_dict(saved)
    layer(torch.ones(2, 5))
    assert layer.in_features == 5
    other = nn.LazyLinear(3)
    other.load_state_dict(saved)
    with pytest.raises(AssertionError, match="5 features"):
        other(torch.ones(2, 4))
