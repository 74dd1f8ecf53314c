"""Libraries that say how their operators are exported can be imported; exporting says why not."""

import pytest

import pullback as torch


def test_what_is_registered_can_be_taken_back():
    torch.onnx.register_custom_op_symbolic("mine::twice", lambda g, x: x, 11)
    assert ("mine::twice", 11) in torch.onnx._symbolics
    torch.onnx.unregister_custom_op_symbolic("mine::twice", 11)
    assert torch.onnx._symbolics == {}
    with pytest.raises(ValueError, match="namespace::name"):
        torch.onnx.register_custom_op_symbolic("twice", lambda g, x: x, 11)


def test_arguments_are_described_on_the_function():
    from pullback.onnx.symbolic_helper import parse_args

    @parse_args("v", "f")
    def symbolic(g, x, factor):
        return x

    assert symbolic._arg_descriptors == ("v", "f")
    assert symbolic(None, 3, 2.0) == 3


def test_exporting_says_why_not():
    assert torch.onnx.is_in_onnx_export() is False
    with pytest.raises(AttributeError, match="no other runtime"):
        torch.onnx.export
    from pullback.onnx import symbolic_opset11

    with pytest.raises(AttributeError, match="no other runtime"):
        symbolic_opset11.nonzero
