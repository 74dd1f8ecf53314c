"""Recurrent layers give one order of memory, whoever computes them: kernels, or operators.

What comes behind may draw random numbers in that order.
"""

import pytest

import pullback as torch

nn = torch.nn


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_strides_are_the_same_by_kernels_and_by_operators(kind, batch_first, bidirectional, turned):
    layer = kind(3, 4, 2, batch_first=batch_first, bidirectional=bidirectional)
    x = torch.randn(5, 6, 3)
    if turned:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    compiled = torch.compile(lambda x: layer(x)[0], options={"never_slower": False})
    for one in (compiled(x), torch.compile(lambda x: layer(x)[0], backend="python")(x)):
        assert one.stride() == layer(x)[0].stride()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_and_behind_layers_is_that_of_eager(kind):
    layer = kind(3, 4, 2, batch_first=True, dropout=0.5)
    x = torch.randn(5, 6, 3)

    def run(x):
        return nn.functional.dropout(layer(x)[0], 0.5)

    made = []
    for one in (run, torch.compile(run, options={"never_slower": False})):
        torch.manual_seed(1)
        made.append(one(x))
    torch.testing.assert_close(*made)
