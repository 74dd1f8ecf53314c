"""A recurrent layer as one node: values and derivatives are those of its steps."""

import gc

import numpy
import pytest

import pullback as torch
from pullback.nn.base import fused
from pullback.nn.base.fused import Layer, is_usual
from pullback.nn.base.recurrent import step_by_step

KINDS = {"RNN": {}, "RNN relu": {"nonlinearity": "relu"}, "GRU": {}, "LSTM": {}}
KINDS["LSTM projected"] = {"proj_size": 2}
SHAPES = [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False}]


def layer_of(kind, options, dtype=torch.float64):
    torch.manual_seed(0)
    return getattr(torch.nn, kind.split()[0])(3, 4, dtype=dtype, **options, **KINDS[kind])


def results(layer, x):
    out, last = layer(x)
    return [getattr(out, "data", out), *(last if isinstance(last, tuple) else (last,))]


def inputs(*, packed, dtype=torch.float64):
    torch.manual_seed(1)
    x = torch.randn(5, 3, 3, dtype=dtype, requires_grad=True)
    if not packed:
        return x, x
    return x, torch.nn.utils.rnn.pack_padded_sequence(x, [5, 3, 1])


def loss_of(layer, x):
    made = results(layer, x)
    return sum((one * one.cos()).sum() for one in made)


def by_steps(monkeypatch):
    monkeypatch.setattr("pullback.nn.base.recurrent_layers.is_usual", lambda tensors: False)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_both_orders_of_derivatives_are_those_of_the_steps(
    kind, options, packed, monkeypatch
):
    layer = layer_of(kind, options)

    def everything():
        x, given = inputs(packed=packed)
        wanted = [x, *layer.parameters()]
        made = [one.detach() for one in results(layer, given)]
        first = torch.autograd.grad(loss_of(layer, given), wanted, retain_graph=True)
        recorded = torch.autograd.grad(loss_of(layer, given), wanted, create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in recorded), wanted)
        return [*made, *first, *(g.detach() for g in recorded), *second]

    fused_ones = everything()
    by_steps(monkeypatch)
    for ours, theirs in zip(fused_ones, everything(), strict=True):
        numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_the_usual_call_is_one_node(kind):
    out, _ = layer_of(kind, {})(inputs(packed=False)[1])
    assert out.grad_fn.name() == "LayerBackward"


@pytest.mark.parametrize("kind", KINDS)
def test_numeric_derivatives_hold(kind):
    layer = layer_of(kind, {})
    x = inputs(packed=False)[0]
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], (x,))


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_tangents_batches_and_jacobians_go_by_the_steps(kind):
    layer = layer_of(kind, {})
    x = inputs(packed=False)[0].detach()
    value, tangent = torch.func.jvp(lambda x: layer(x)[0], (x,), (torch.ones_like(x),))
    jacobian = torch.func.jacrev(lambda x: layer(x)[0])(x)
    numpy.testing.assert_allclose(
        tangent.detach().numpy(), jacobian.sum((-3, -2, -1)).detach().numpy(), rtol=1e-9, atol=1e-12
    )
    x.requires_grad_()
    out = layer(x)[0].sum((0, 1))
    batched = torch.autograd.grad(out, x, torch.eye(4, dtype=x.dtype), is_grads_batched=True)[0]
    numpy.testing.assert_allclose(
        batched.detach().numpy(), jacobian.sum((0, 1)).detach().numpy(), rtol=1e-9, atol=1e-12
    )
    assert value.shape == (5, 3, 4)


def test_outputs_may_be_changed_in_place():
    layer = layer_of("LSTM", {})
    x = inputs(packed=False)[0]
    out, (hidden, cell) = layer(x)
    expected = torch.autograd.grad((out * 2).sum() + hidden.sum() + cell.sum(), x)[0]
    out, (hidden, cell) = layer(x)
    out.mul_(2)
    got = torch.autograd.grad(out.sum() + hidden.sum() + cell.sum(), x)[0]
    numpy.testing.assert_allclose(got.numpy(), expected.numpy())


def test_a_second_backward_needs_the_graph_to_be_kept():
    layer = layer_of("GRU", {})
    out = layer(inputs(packed=False)[0])[0].sum()
    out.backward()
    with pytest.raises(RuntimeError):
        out.backward()


def test_weights_changed_in_place_are_noticed():
    layer = layer_of("LSTM", {})
    out = layer(inputs(packed=False)[0])[0].sum()
    with torch.no_grad():
        layer.weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError):
        out.backward()


def test_no_cycles_are_left():
    layer = layer_of("LSTM", {})
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            loss_of(layer, inputs(packed=False)[0]).backward()
        assert not [one for one in gc.get_objects() if type(one).__name__ == "LayerBackward"]
    finally:
        gc.enable()


def test_half_precision_and_empty_batches_go_by_the_steps():
    layer = layer_of("GRU", {}, dtype=torch.float16)
    out, _ = layer(torch.ones(2, 1, 3, dtype=torch.float16))
    assert out.dtype is torch.float16
    assert layer_of("GRU", {})(torch.ones(2, 0, 3, dtype=torch.float64))[0].shape == (2, 0, 4)
    assert not is_usual([torch.ones(0)])


def test_steps_give_what_the_node_gives():
    assert issubclass(Layer, torch.autograd.Function)
    assert fused.Layer is Layer
    x = inputs(packed=False)[0].detach()
    layer = layer_of("GRU", {})
    weights = [*layer.all_weights[0], None]
    start = torch.zeros(3, 4, dtype=x.dtype)
    out, last = step_by_step("GRU", None, False, x, start, None, *weights)
    numpy.testing.assert_allclose(out.detach().numpy(), layer(x)[0].detach().numpy(), rtol=1e-12)
    numpy.testing.assert_allclose(last.detach().numpy(), out[-1].detach().numpy())
