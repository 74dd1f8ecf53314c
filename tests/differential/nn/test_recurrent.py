"""Recurrent layers on padded and packed sequences, next to torch's."""

import numpy
import pytest

import pullback
from tests.differential.nn.sides import (
    LIBRARIES,
    close,
    compare,
    given,
    numbers,
    pair,
    random,
    same_outcome,
)

torch = pytest.importorskip("torch")

KINDS = {
    "RNN": {},
    "RNN relu": {"nonlinearity": "relu"},
    "GRU": {},
    "LSTM": {},
    "LSTM projected": {"proj_size": 2},
}
SHAPES = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"batch_first": True, "bias": False, "bidirectional": True},
]


def made(kind, options):
    name = kind.split()[0]
    return pair(lambda library: getattr(library.nn, name)(3, 4, **options, **KINDS[kind]))


def state_arrays(kind, options, batch):
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    hidden = random(count, batch, KINDS[kind].get("proj_size", 4), seed=3)
    cell = random(count, batch, 4, seed=4)
    return (hidden, cell) if kind.startswith("LSTM") else (hidden,)


def state_of(states):
    return states[0] if len(states) == 1 else tuple(states)


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("lengths", "enforce_sorted"),
    [
        ([5, 3, 3, 1], True),
        ([3, 1, 5, 3], False),
        *(
            (lengths, is_sorted)
            for lengths in ([5], [1], [1, 1], [3, 3])
            for is_sorted in (True, False)
        ),
    ],
)
def test_packed_sequences(kind, options, lengths, enforce_sorted):
    first = options.get("batch_first", False)
    batch, longest = len(lengths), max(lengths)
    x = random(batch, longest, 3) if first else random(longest, batch, 3)

    def run(library, module, x, *states):
        packed = library.nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=first, enforce_sorted=enforce_sorted
        )
        out, last = module(packed, state_of(states) if states else None)
        padded, counts = library.nn.utils.rnn.pad_packed_sequence(out, batch_first=first)
        return padded, counts, out.data, last

    modules = made(kind, options)
    compare(modules, run, [x])
    compare(modules, run, [x, *state_arrays(kind, options, batch)])


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_single_sequences(kind, options):
    modules = made(kind, options)
    first = options.get("batch_first", False)
    x = random(2, 5, 3) if first else random(5, 2, 3)
    states = state_arrays(kind, options, 2)

    def run(library, module, x, *states):
        return module(x, state_of(states))

    compare(modules, run, [x, *states])
    single = [one[:, 0] for one in states]
    compare(modules, run, [x[0] if first else x[:, 0], *single])


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_flat_weights_and_their_names(kind):
    ours, theirs = made(kind, {"num_layers": 2, "bidirectional": True})
    assert ours._all_weights == theirs._all_weights
    assert ours._flat_weights_names == theirs._flat_weights_names
    close(ours._flat_weights, theirs._flat_weights)
    close(ours.all_weights, theirs.all_weights)
    permutation = numpy.array([1, 0])
    states = [random(4, 2, 4, seed=n) for n in range(2 if kind == "LSTM" else 1)]
    moved = [
        module.permute_hidden(
            state_of([given(library, one) for one in states]), given(library, permutation)
        )
        for library, module in zip(LIBRARIES, (ours, theirs), strict=True)
    ]
    close(*moved)


@pytest.mark.parametrize("cell", ["RNNCell", "GRUCell", "LSTMCell"])
@pytest.mark.parametrize("batched", [True, False])
def test_cells(cell, batched):
    modules = pair(lambda library: getattr(library.nn, cell)(3, 4))
    count = 2 if cell == "LSTMCell" else 1
    arrays = [random(2, 3), *(random(2, 4, seed=n + 1) for n in range(count))]
    if not batched:
        arrays = [one[0] for one in arrays]

    def run(library, module, x, *states):
        return module(x), module(x, state_of(states))

    compare(modules, run, arrays)


WRONG = [
    lambda t: t.nn.RNN(3, 4)(t.ones(5, 2, 4)),
    lambda t: t.nn.RNN(3, 4)(t.ones(5, 2, 3), t.ones(1, 3, 4)),
    lambda t: t.nn.LSTM(3, 4)(t.ones(5, 2, 3), (t.ones(2, 4), t.ones(2, 4))),
    lambda t: t.nn.GRU(3, 4)(t.ones(5, 3), t.ones(1, 1, 4)),
    lambda t: t.nn.RNN(3, 4)(t.ones(5, 2, 3, 1)),
    lambda t: t.nn.RNN(3, 4)(t.ones(5, 2, 3).double()),
    lambda t: t.nn.RNNCell(3, 4)(t.ones(2, 3), t.ones(3, 4)),
    lambda t: t.nn.RNNCell(3, 4)(t.ones(2, 2)),
    lambda t: t.nn.GRUCell(3, 4)(t.ones(2, 3), t.ones(2, 5)),
    lambda t: t.nn.LSTMCell(3, 4)(t.ones(2, 3), (t.ones(3, 4), t.ones(3, 4))),
    lambda t: t.nn.RNN(3, 4, proj_size=2),
    lambda t: t.nn.LSTM(3, 4, proj_size=4),
    lambda t: t.nn.RNN(3.0, 4),
    lambda t: t.nn.RNN(3, 4, dropout=2),
    lambda t: t.nn.RNN(3, 0),
    lambda t: t.nn.RNNBase("X", 3, 4),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_does_not_fit_is_refused_as_torch_does(number):
    same_outcome(WRONG[number])


# Packing ------------------------------------------------------------------------------------------


def sequences(library, lengths, rest=(2,)):
    return [given(library, random(n, *rest, seed=n)) for n in lengths]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_pad_sequence(first, side):
    def run(t):
        return t.nn.utils.rnn.pad_sequence(
            sequences(t, [2, 4, 1]), batch_first=first, padding_value=-1.0, padding_side=side
        )

    close(*(run(library) for library in LIBRARIES))


def test_pack_and_unpack():
    def run(t):
        rnn = t.nn.utils.rnn
        packed = rnn.pack_sequence(sequences(t, [1, 4, 2]), enforce_sorted=False)
        padded, lengths = rnn.pad_packed_sequence(packed, True, 0.5, 6)
        return (
            tuple(packed),
            padded,
            lengths,
            rnn.unpack_sequence(packed),
            rnn.unpad_sequence(padded, lengths, batch_first=True),
            rnn.invert_permutation(packed.sorted_indices),
        )

    close(*(run(library) for library in LIBRARIES))


def test_padding_and_packing_pass_gradients():
    def run(library):
        x = given(library, random(4, 3, 2), grad=True)
        rnn = library.nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, [4, 2, 1])
        weights = given(library, random(*packed.data.shape, seed=5))
        padded, _ = rnn.pad_packed_sequence(packed._replace(data=packed.data * weights))
        return library.autograd.grad((padded * padded).sum(), x)

    close(*(run(library) for library in LIBRARIES))


REFUSED = [
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [1, 2]),
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [2, 0]),
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [2]),
    lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(0, 2), [2, 1]),
    lambda t: t.nn.utils.rnn.pad_packed_sequence(
        t.nn.utils.rnn.pack_sequence([t.ones(3)]), total_length=2
    ),
    lambda t: t.nn.utils.rnn.pad_sequence([]),
    lambda t: t.nn.utils.rnn.pad_sequence(3),
    lambda t: t.nn.utils.rnn.pad_sequence([t.ones(1)], padding_side="up"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_packed_is_refused_as_torch_does(number):
    same_outcome(REFUSED[number])


def test_packed_sequences_convert_and_compare():
    packed = pullback.nn.utils.rnn.pack_sequence([pullback.tensor([1.0, 2.0])])
    assert packed.double().data.dtype == pullback.float64
    assert packed.to(pullback.float32) is packed
    assert not packed.is_cuda
    assert numbers(packed.long().data).tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["LSTM", "LSTM projected", "GRU", "RNN"])
@pytest.mark.parametrize("shape", [{}, {"num_layers": 2, "bidirectional": True}])
@pytest.mark.parametrize("lengths", [None, [5, 3], [5, 5]])
@pytest.mark.filterwarnings("ignore:LSTM with projections")  # torch's, of its other kernels
def test_an_lstm_over_equal_lengths_runs_in_autocasts_dtype(kind, shape, lengths):
    name, options = kind.split()[0], KINDS[kind] | shape
    ours, theirs = pair(lambda t: getattr(t.nn, name)(3, 4, **options), double=False)
    found = []
    for library, module in ((pullback, ours), (torch, theirs)):
        x = given(library, random(5, 2, 3).astype("f"), grad=True)
        with library.autocast("cpu", dtype=library.bfloat16):
            whole = library.nn.utils.rnn.pack_padded_sequence(x, lengths) if lengths else x
            out, last = module(whole)
        out = out.data if lengths else out
        last = last if isinstance(last, tuple) else (last,)
        out.float().sum().backward()
        results = [out, *last, x.grad, module.weight_hh_l0.grad]
        found.append([(str(one.dtype).split(".")[-1], one.detach().float()) for one in results])
    for (my_dtype, mine), (dtype, wanted) in zip(*found, strict=True):
        assert my_dtype == dtype
        numpy.testing.assert_allclose(mine.numpy(), wanted.numpy(), rtol=0.05, atol=0.02)
