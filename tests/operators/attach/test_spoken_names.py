"""Errors, help and signatures use the names that users write."""

import inspect

import pytest

import pullback as torch


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x @ x, "matmul (@): shapes (2, 3) and (2, 3)"),
        (lambda x: x @ torch.ones(2), "matmul (@): shapes (2, 3) and (2,)"),
        (lambda x: torch.ones(2) @ torch.ones(3), "matmul (@): "),
        (lambda x: torch.ones(2, 2, 3) @ torch.ones(2, 2, 3), "matmul (@): "),
        (lambda x: torch.matmul(x, x), "matmul: shapes"),
        (lambda x: x.matmul(x), "matmul: shapes"),
        (lambda x: torch.mm(x, x), "mm: shapes"),
        (lambda x: x.reshape(4, 2), "reshape: shape '[4, 2]'"),
        (lambda x: torch.reshape(x, (4, 2)), "reshape: shape '[4, 2]'"),
        (lambda x: x.t().reshape(4, 2), "reshape: shape '[4, 2]'"),
        (lambda x: x.view(4, 2), "view: shape '[4, 2]'"),
    ],
)
def test_errors_name_what_was_called(call, name):
    with pytest.raises(RuntimeError) as raised:
        call(torch.ones(2, 3))
    assert str(raised.value).startswith(name)


@pytest.mark.parametrize(
    "name", ["view", "reshape", "expand", "unflatten", "type", "new", "polygamma", "resize_"]
)
def test_methods_carry_their_own_name(name):
    method = getattr(torch.Tensor, name)
    assert method.__name__ == name
    assert method.__qualname__ == name


def test_recurrent_modules_show_their_arguments():
    sizes = ["input_size", "hidden_size", "num_layers"]
    rest = ["bias", "batch_first", "dropout", "bidirectional"]
    expected = {
        torch.nn.LSTM: [*sizes, *rest, "proj_size", "device", "dtype"],
        torch.nn.GRU: [*sizes, *rest, "device", "dtype"],
        torch.nn.RNN: [*sizes, "nonlinearity", *rest, "device", "dtype"],
    }
    for cls, names in expected.items():
        assert list(inspect.signature(cls).parameters) == names
