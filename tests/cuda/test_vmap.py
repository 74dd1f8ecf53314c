"""vmap over tensors of a device: its forms were written for NumPy's arrays before."""

import pytest

import pullback as torch
from pullback.operators.writing.build import plainly

X = torch.arange(12.0).reshape(3, 4) + 1


def mapped(x):
    def one(row):
        return (row * 2 + row[0]).sin() * row.sum() - torch.stack([row[1:3].exp()] * 2).sum()

    return torch.func.vmap(one)(x)


def gradients(x):
    return torch.func.vmap(torch.func.grad(lambda row: (row * row[0]).sin().sum()))(x)


EXPECTED = {function: function(X) for function in (mapped, gradients)}
WRITTEN = plainly(torch.mul.op)


@pytest.mark.parametrize("function", EXPECTED)
def test_a_map_on_a_device_is_that_on_the_host(library, function):
    found = function(X.to("cuda"))
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), EXPECTED[function])
    torch.testing.assert_close(function(X), EXPECTED[function])


def test_lines_below_a_level_are_written_anew_when_devices_come(library):
    assert plainly(torch.mul.op) is not WRITTEN
