"""Tables of decompositions: each gives what its operator gives, and can be put in and taken out."""

import pytest
from pullback._decomp import (
    core_aten_decompositions,
    decomposition_table,
    get_decompositions,
    register_decomposition,
    remove_decompositions,
)

import pullback as torch

_aten = torch.ops.aten
x = torch.linspace(-4, 4, 12, dtype=torch.float64).reshape(3, 4)
y = torch.linspace(1, 3, 12, dtype=torch.float64).reshape(3, 4).flip(0)
share = torch.linspace(0, 1, 12, dtype=torch.float64).reshape(3, 4)
square, row, mask = x @ x.T, x[0], x > 1
batch = x.reshape(3, 2, 2)
whole = x.round()

_ARGUMENTS = {
    "elu": [(x,), (x, 0.5, 2.0, 3.0)],
    "celu": [(x,), (x, 0.5)],
    "softplus": [(x,), (x, 2.0, 3.0)],
    "leaky_relu": [(x,), (x, 0.3)],
    "hardtanh": [(x, -0.5, 2.0)],
    "glu": [(x,), (x.T, 0)],
    "logit": [(share,), (share, 0.1)],
    "sigmoid_backward": [(x, share), (x + 1j, share * 1j)],
    "tanh_backward": [(x, share), (x + 1j, share * 1j)],
    "silu_backward": [(y, x)],
    "threshold_backward": [(y, x, 0.5)],
    "gelu_backward": [(y, x)],
    "mse_loss": [(x, y, 0), (x, y, 1), (x, y, 2)],
    "smooth_l1_loss": [(x, y, 0, 0.5), (x, y), (x, y, 2, 0.0)],
    "huber_loss": [(x, y, 0, 2.0), (x, y)],
    "l1_loss": [(x, y, 0), (x, y), (x, y, 2)],
    "soft_margin_loss": [(x, y.sign(), 0), (x, y)],
    "binary_cross_entropy": [(share, share.flip(0)), (share, share, y, 0)],
    "addmm": [(square, x, x.T)],
    "addmv": [(row[:3], x, row)],
    "addr": [(x, row[:3], row)],
    "baddbmm": [(batch, batch, batch)],
    "addcmul": [(x, y, share)],
    "addcdiv": [(x, share, y)],
    "dot": [(row, row + 1)],
    "mv": [(x, row)],
    "lerp.Scalar": [(x, y, 0.3)],
    "lerp.Tensor": [(x, y, share)],
    "rsub.Tensor": [(x, y)],
    "rsub.Scalar": [(x, 2.0)],
    "trace": [(square,)],
    "heaviside": [(whole, y), (x * float("nan"), y), (whole.long(), y.long())],
    "xlogy.Tensor": [(whole, y), (whole, y * float("nan"))],
    "masked_fill.Scalar": [(x, mask, 2.0)],
    "masked_fill.Tensor": [(x, mask, torch.tensor(2.0, dtype=torch.float64))],
    "is_same_size": [(x, y), (x, row)],
    "native_layer_norm": [(x, [4], None, None, 1e-5), (x, [4], row, row + 1, 1e-5)],
    "_softmax": [(x, 1, False), (x, 0, False)],
    "_log_softmax": [(x, 1, False)],
}


@pytest.mark.parametrize("overload", list(decomposition_table), ids=str)
def test_a_decomposition_gives_what_its_operator_gives(overload):
    _, name, kind = str(overload).split(".")
    samples = _ARGUMENTS.get(name) or _ARGUMENTS.get(f"{name}.{kind}") or [(x,), (row[:0],)]
    for args in samples:
        made, expected = decomposition_table[overload](*args), overload(*args)
        torch.testing.assert_close(made, expected, equal_nan=True)


def test_factors_of_zero_do_not_read_what_they_scale():
    nan = torch.full((3, 3), float("nan"), dtype=torch.float64)
    table = get_decompositions([_aten.addmm.default])
    made = table[_aten.addmm.default](nan, x, x.T, beta=0, alpha=2)
    torch.testing.assert_close(made, 2 * x @ x.T)


def test_the_approximate_gelu_has_its_own_gradient():
    made = decomposition_table[_aten.gelu_backward.default](y, x, approximate="tanh")
    torch.testing.assert_close(made, _aten.gelu_backward(y, x, approximate="tanh"))


def test_tables_are_filled_asked_and_emptied():
    table = {}

    @register_decomposition([_aten.square, _aten.lerp.Scalar], table)
    def twice(*args):
        return args

    assert set(table) == {_aten.square.default, _aten.lerp.Scalar}
    with pytest.raises(RuntimeError, match="already"):
        register_decomposition(_aten.square, table)(twice)
    with pytest.raises(AssertionError):
        register_decomposition(3, table)(twice)
    with pytest.raises(AssertionError, match="post_autograd"):
        get_decompositions([_aten.square], type="other")
    remove_decompositions(table, [_aten.square, _aten.mm])
    assert set(table) == {_aten.lerp.Scalar}
    assert get_decompositions([_aten.mm]) == {}
    core = core_aten_decompositions()
    core.clear()
    assert decomposition_table
