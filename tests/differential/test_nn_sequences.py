"""Recurrent and transformer layers, and helpers around parameters, next to torch's."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

R = numpy.random.default_rng(0)

RECURRENT = [
    ("RNN", (3, 4), {}),
    ("RNN", (3, 4, 2, "relu"), {"bias": False}),
    ("RNN", (3, 4), {"nonlinearity": "relu", "bidirectional": True}),
    ("LSTM", (3, 4), {}),
    ("LSTM", (3, 4, 2), {"bidirectional": True, "batch_first": True}),
    ("LSTM", (3, 4, 2), {"proj_size": 2, "bias": False}),
    ("GRU", (3, 4), {"batch_first": True}),
    ("GRU", (3, 4, 3), {"bidirectional": True}),
]
CELLS = [
    ("RNNCell", (3, 4), {}),
    ("RNNCell", (3, 4), {"nonlinearity": "relu", "bias": False}),
    ("LSTMCell", (3, 4), {}),
    ("GRUCell", (3, 4, False), {}),
]
TRANSFORMERS = [
    ("TransformerEncoderLayer", (6, 2, 8), {}),
    ("TransformerEncoderLayer", (6, 2, 8), {"norm_first": True, "batch_first": True}),
    ("TransformerEncoderLayer", (6, 3, 8), {"activation": "gelu", "bias": False}),
    ("TransformerDecoderLayer", (6, 2, 8), {}),
    ("TransformerDecoderLayer", (6, 2, 8), {"norm_first": True}),
    ("Transformer", (6, 2, 2, 1, 8), {}),
    ("Transformer", (6, 2, 1, 2, 8), {"batch_first": True, "norm_first": True}),
]


def pair(name, args, options):
    theirs = getattr(torch.nn, name)(*args, **options).double().eval()
    ours = getattr(pullback.nn, name)(*args, **options).double().eval()
    state = {k: pullback.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(state)
    return ours, theirs


def flat(outcome):
    if isinstance(outcome, tuple | list):
        return [leaf for one in outcome for leaf in flat(one)]
    return [outcome]


def compare(ours, theirs, *arrays, call=lambda module, *tensors: module(*tensors)):
    sides = []
    for lib, module in ((pullback, ours), (torch, theirs)):
        tensors = [lib.tensor(array, requires_grad=True) for array in arrays]
        out = flat(call(module, *tensors))
        sum((one * one).sum() for one in out).backward()
        sides.append([*out, *(t.grad for t in tensors), *(p.grad for p in module.parameters())])
    for a, b in zip(*sides, strict=True):
        numpy.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("name", "args", "options"), RECURRENT)
@pytest.mark.parametrize("states", [False, True])
def test_recurrent_layers_are_torchs(name, args, options, states):
    ours, theirs = pair(name, args, options)
    x = R.standard_normal((5, 2, 3))
    if not states:
        compare(ours, theirs, x)
        compare(*pair(name, args, options), x[:, 0])
        return
    count = ours.num_layers * (2 if ours.bidirectional else 1)
    batch = 5 if ours.batch_first else 2
    h = R.standard_normal((count, batch, ours.proj_size or 4))
    c = R.standard_normal((count, batch, 4))
    if name == "LSTM":
        compare(ours, theirs, x, h, c, call=lambda m, x, h, c: m(x, (h, c)))
    else:
        compare(ours, theirs, x, h)


@pytest.mark.parametrize(("name", "args", "options"), CELLS)
def test_cells_are_torchs(name, args, options):
    compare(*pair(name, args, options), R.standard_normal((2, 3)))
    compare(*pair(name, args, options), R.standard_normal(3))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(("name", "args", "options"), TRANSFORMERS)
@pytest.mark.parametrize("training", [False, True])
def test_transformers_are_torchs(name, args, options, training):
    ours, theirs = pair(name, args, {"dropout": 0.0, **options})
    ours.train(training)
    theirs.train(training)
    x, y = R.standard_normal((4, 4, 6)), R.standard_normal((4, 4, 6))
    if name == "TransformerEncoderLayer":
        compare(ours, theirs, x)
    else:
        compare(ours, theirs, x, y)


def test_masks_of_transformers_are_torchs():
    ours, theirs = pair("TransformerEncoderLayer", (6, 2, 8), {"dropout": 0.0})
    mask_of = "generate_square_subsequent_mask"
    masks = {
        lib: getattr(lib.nn.Transformer, mask_of)(4, dtype=lib.float64) for lib in (pullback, torch)
    }
    assert masks[pullback].tolist() == masks[torch].tolist()

    def call(module, x):
        lib = pullback if module is ours else torch
        padding = lib.tensor([[False, False, False, True]] * 2)
        return module(x, masks[lib], lib.zeros(2, 4, dtype=lib.float64).masked_fill(padding, -1e9))

    compare(ours, theirs, R.standard_normal((4, 2, 6)), call=call)


def test_stacks_are_copies():
    layer = pullback.nn.TransformerEncoderLayer(6, 2, 8)
    stack = pullback.nn.TransformerEncoder(layer, 2, pullback.nn.LayerNorm(6))
    assert stack.layers[0].linear1.weight is not stack.layers[1].linear1.weight
    assert stack(pullback.zeros(3, 1, 6)).shape == (3, 1, 6)


ERRORS = [
    lambda nn, lib: nn.RNN(3, 4, nonlinearity="some"),
    lambda nn, lib: nn.GRU(3, 4, proj_size=2),
    lambda nn, lib: nn.LSTM(3, 4, proj_size=5),
    lambda nn, lib: nn.LSTM(3, 0),
    lambda nn, lib: nn.LSTM(3, 4, dropout=2),
    lambda nn, lib: nn.TransformerEncoderLayer(6, 2, activation="some"),
    lambda nn, lib: nn.LSTM(3, 4)(lib.zeros(3)),
    lambda nn, lib: nn.LSTMCell(3, 4)(lib.zeros(1, 2, 3)),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_have_torchs_type(number):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (its type is what is asked for)
        ERRORS[number](torch.nn, torch)
    with pytest.raises(Exception) as ours:  # noqa: PT011 (two libraries, two sentences)
        ERRORS[number](pullback.nn, pullback)
    assert type(ours.value).__name__ == type(theirs.value).__name__


# nn.utils ----------------------------------------------------------------------------------------


def gradients(lib):
    made = []
    for shape in ((3, 4), (5,), ()):
        tensor = lib.zeros(shape, dtype=lib.float64, requires_grad=True)
        tensor.grad = lib.tensor(numpy.random.default_rng(len(shape)).standard_normal(shape) * 3)
        made.append(tensor)
    made.append(lib.zeros(2, requires_grad=True))
    return made


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("most", [1.0, 100.0])
def test_clipping_is_torchs(order, most):
    sides = []
    for lib in (pullback, torch):
        tensors = gradients(lib)
        total = lib.nn.utils.clip_grad_norm_(tensors, most, order)
        sides.append([total.item(), *(t.grad.tolist() for t in tensors[:3])])
        lib.nn.utils.clip_grad_value_(iter(tensors), 0.1)
        sides[-1] += [t.grad.tolist() for t in tensors[:3]]
    for a, b in zip(*sides, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-9)


def test_parameters_go_to_a_vector_and_back():
    net = pullback.nn.Linear(2, 3)
    vector = pullback.nn.utils.parameters_to_vector(net.parameters())
    assert vector.tolist() == [*net.weight.flatten().tolist(), *net.bias.tolist()]
    pullback.nn.utils.vector_to_parameters(pullback.arange(9.0), net.parameters())
    assert net.bias.tolist() == [6.0, 7.0, 8.0]
    with pytest.raises(TypeError):
        pullback.nn.utils.vector_to_parameters([1.0], net.parameters())
    bad = pullback.zeros(1, requires_grad=True)
    bad.grad = pullback.tensor([float("nan")])
    with pytest.raises(RuntimeError, match="nan"):
        pullback.nn.utils.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)
