"""What quantisable models hold works in floating point; quantising says why not."""

import pytest

import pullback as torch


def test_operations_as_a_layer_compute_in_floating_point():
    layer = torch.nn.quantized.FloatFunctional()
    x, y = torch.tensor([-3.0, 2.0]), torch.ones(2)
    assert layer.add(x, y).tolist() == [-2.0, 3.0]
    assert layer.add_relu(x, y).tolist() == [0.0, 3.0]
    assert layer.mul(x, y).tolist() == [-3.0, 2.0]
    assert layer.add_scalar(x, 1.0).tolist() == layer.add(x, y).tolist()
    assert layer.mul_scalar(x, 2.0).tolist() == [-6.0, 4.0]
    assert layer.cat([x, y]).tolist() == [-3.0, 2.0, 1.0, 1.0]
    assert layer.matmul(x, y).tolist() == -1.0
    with pytest.raises(RuntimeError, match="methods"):
        layer(x)


def test_what_observes_the_results_is_a_submodule():
    layer = torch.nn.quantized.FloatFunctional()
    layer.activation_post_process = torch.nn.ReLU()
    assert layer.add(torch.tensor([-3.0]), torch.ones(1)).tolist() == [0.0]


def test_stubs_are_the_identity_until_a_model_is_converted():
    stub = torch.ao.quantization.QuantStub("any")
    assert stub.qconfig == "any"
    x = torch.ones(2)
    assert stub(x) is x
    assert torch.quantization.DeQuantStub()(x) is x
    assert torch.ao.nn.quantized.FloatFunctional is torch.nn.quantized.FloatFunctional
    with pytest.raises(AttributeError, match="8-bit"):
        torch.ao.quantization.convert
