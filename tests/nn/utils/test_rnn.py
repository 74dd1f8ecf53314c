"""Sequences of different lengths, packed and padded."""

import gc
import weakref

import pytest

import pullback as torch
from pullback import nn
from pullback.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
)


def test_packing_takes_the_elements_of_each_time_together():
    packed = pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6])])
    assert packed.data.tolist() == [1, 4, 6, 2, 5, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert [one.tolist() for one in unpack_sequence(packed)] == [[1, 2, 3], [4, 5], [6]]


def test_any_order_is_sorted_and_comes_back():
    given = [torch.tensor([6.0]), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0])]
    packed = pack_sequence(given, enforce_sorted=False)
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == [1, 3, 2]
    assert padded.tolist() == pad_sequence(given, batch_first=True).tolist()


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_a_packed_batch_gives_what_each_sequence_gives_alone(kind):
    torch.manual_seed(0)
    layer = kind(2, 3, num_layers=2, bidirectional=True).double()
    sequences = [torch.randn(n, 2).double() for n in (2, 4, 1)]
    out, last = layer(pack_sequence(sequences, enforce_sorted=False))
    rows = unpack_sequence(out)
    for number, sequence in enumerate(sequences):
        alone, state = layer(sequence)
        assert torch.allclose(rows[number], alone)
        got, wanted = (one if kind is nn.LSTM else (one,) for one in (last, state))
        for some, other in zip(got, wanted, strict=True):
            assert torch.allclose(some[:, number], other)


def test_derivatives_pass_packed_layers():
    layer = nn.LSTM(2, 3, proj_size=2, bidirectional=True).double()

    def run(x):
        out, (hidden, cell) = layer(pack_padded_sequence(x, [3, 1]))
        return out.data, hidden, cell

    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x,))


def test_packed_layers_leave_nothing_to_the_collector():
    layer = nn.GRU(2, 3)
    gc.collect()
    gc.disable()
    try:
        packed = pack_padded_sequence(torch.ones(3, 2, 2), [3, 1])
        out, last = layer(packed)
        mark = weakref.ref(out.data)
        (out.data.sum() + last.sum()).backward()
        del out, last, packed
        assert mark() is None
    finally:
        gc.enable()


def test_packed_sequences_need_sizes_on_the_host():
    with pytest.raises(ValueError, match="CPU"):
        PackedSequence(torch.ones(1), torch.ones(1, dtype=torch.int64, device="meta"))


def test_a_length_beyond_the_input_is_refused():
    with pytest.raises(RuntimeError, match="more than the 3 times"):
        pack_padded_sequence(torch.ones(3, 1), [4])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("lengths", [[4], [1, 1], [3, 3]])
def test_packed_sequences_of_one_length_are_a_batch(kind, lengths):
    layer = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(lengths[0], len(lengths), 3)
    packed, last = layer(pack_padded_sequence(x, lengths))
    out, ended = layer(x)
    assert torch.equal(pad_packed_sequence(packed)[0], out)
    assert torch.equal(last[0] if kind == "LSTM" else last, ended[0] if kind == "LSTM" else ended)
