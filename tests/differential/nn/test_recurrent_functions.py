"""`torch.lstm`, its siblings and their cells: given weights, all layers and directions."""

import numpy
import pytest

torch = pytest.importorskip("torch")

import pullback

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _inputs(lib, name, layers, directions, *, bias):
    random = numpy.random.default_rng(0)

    def draw(*shape):
        made = lib.from_numpy(random.standard_normal(shape).astype("float32") / 2)
        return made.requires_grad_()

    rows = 4 * GATES[name]
    weights = []
    for layer in range(layers):
        for _ in range(directions):
            weights += [draw(rows, 4 * directions if layer else 3), draw(rows, 4)]
            weights += [draw(rows), draw(rows)] if bias else []
    states = [draw(layers * directions, 2, 4) for _ in range(2)]
    return draw(5, 2, 3), tuple(states) if name == "lstm" else states[0], weights


def _both(call):
    for got, expected in zip(call(pullback), call(torch), strict=True):
        numpy.testing.assert_allclose(
            got.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-6
        )


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("both_ways", [True, False])
def test_layers(name, bias, both_ways):
    def call(lib):
        x, hx, weights = _inputs(lib, name, 2, 1 + both_ways, bias=bias)
        options = (bias, 2, 0.0, False, both_ways)
        made = getattr(lib, name)(x, hx, weights, *options, False)
        gradients = lib.autograd.grad(made[0].square().sum(), [x, *weights])
        first = getattr(lib, name)(x.transpose(0, 1), hx, weights, *options, True)
        packed = lib.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
        rest = getattr(lib, name)(packed.data, packed.batch_sizes, hx, weights, *options)
        return [*made, *gradients, *first, *rest]

    _both(call)


@pytest.mark.parametrize("name", GATES)
def test_cells(name):
    def call(lib):
        x, hx, weights = _inputs(lib, name, 1, 1, bias=True)
        first = [one[0] for one in hx] if name == "lstm" else hx[0]
        made = getattr(lib, f"{name}_cell")(x[0], first, *weights)
        bare = getattr(lib._VF, f"{name}_cell")(x[0], first, *weights[:2])
        return [*(made if name == "lstm" else [made]), *(bare if name == "lstm" else [bare])]

    _both(call)
