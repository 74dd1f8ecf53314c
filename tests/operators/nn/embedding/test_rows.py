"""Rows of a table: repeated numbers add up, padding does not, bags."""

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck

functional = torch.nn.functional


def table(rows=5, width=3):
    values = numpy.random.default_rng(0).standard_normal((rows, width))
    return torch.tensor(values, requires_grad=True)


def numbers(*values):
    return torch.tensor(values, dtype=torch.int64)


def test_rows_come_in_the_shape_of_the_numbers():
    weight = table()
    rows = functional.embedding(torch.tensor([[0, 2], [4, 4]]), weight)
    assert rows.shape == (2, 2, 3)
    assert torch.equal(rows[1, 0], weight[4])
    assert functional.embedding(torch.tensor(1), weight).shape == (3,)


def test_gradients_of_repeated_rows_add_up():
    weight = table()
    rows = functional.embedding(numbers(1, 1, 3), weight)
    (gradient,) = torch.autograd.grad(rows.sum(), weight)
    assert gradient[:, 0].tolist() == [0, 2, 0, 1, 0]


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": False}])
def test_derivatives_hold_but_for_padding(options):
    index = numbers(0, 2, 2, 4)
    assert gradcheck(lambda w: functional.embedding(index, w, **options), (table(),))
    assert gradgradcheck(lambda w: functional.embedding(index, w, **options), (table(),))


def test_padding_gets_no_gradient():
    weight = table()
    for padding in (1, -4):
        rows = functional.embedding(numbers(1, 1, 3), weight, padding_idx=padding)
        (gradient,) = torch.autograd.grad(rows.sum(), weight)
        assert gradient[:, 0].tolist() == [0, 0, 0, 1, 0]


def test_frequent_rows_may_count_less():
    weight = table()
    rows = functional.embedding(numbers(1, 1, 3), weight, scale_grad_by_freq=True)
    (gradient,) = torch.autograd.grad(rows.sum(), weight)
    assert gradient[:, 0].tolist() == [0, 1, 0, 1, 0]


def test_max_norm_shortens_the_rows_in_use_in_place():
    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0]])
    rows = functional.embedding(numbers(0, 1), weight, max_norm=1.0)
    numpy.testing.assert_allclose(rows.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    numpy.testing.assert_allclose(weight[0].numpy(), [0.6, 0.8], rtol=1e-5)
    assert weight[2].tolist() == [30, 40]
    assert weight._version == 1


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_reductions_of_their_rows(mode):
    weight = table()
    index = torch.tensor([[0, 2, 3], [4, 1, 2]])
    reduce = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[mode]
    expected = reduce(functional.embedding(index, weight), 1)
    bags = functional.embedding_bag(index, weight, mode=mode)
    numpy.testing.assert_allclose(bags.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    assert gradcheck(lambda w: functional.embedding_bag(index, w, mode=mode), (weight,))


def test_bags_start_at_offsets_and_may_be_empty():
    weight = torch.tensor([[1.0], [2.0], [4.0]])
    bags = functional.embedding_bag(numbers(0, 1, 2), weight, numbers(0, 2, 2), mode="sum")
    assert bags.tolist() == [[3], [0], [4]]
    last = functional.embedding_bag(
        numbers(0, 1, 2), weight, numbers(0, 2, 3), mode="mean", include_last_offset=True
    )
    assert last.tolist() == [[1.5], [4]]


def test_bags_weigh_their_rows_and_skip_padding():
    weight = torch.tensor([[1.0], [2.0], [4.0]])
    index = torch.tensor([[0, 1], [1, 2]])
    factors = torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
    bags = functional.embedding_bag(index, weight, mode="sum", per_sample_weights=factors)
    assert bags.tolist() == [[21], [4200]]
    padded = functional.embedding_bag(
        index, weight, mode="sum", per_sample_weights=factors, padding_idx=1
    )
    assert padded.tolist() == [[1], [4000]]
    assert functional.embedding_bag(index, weight, padding_idx=1).tolist() == [[1], [4]]


def test_one_hot_has_a_place_for_each_class():
    assert functional.one_hot(numbers(0, 2)).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert functional.one_hot(numbers(1), 4).tolist() == [[0, 1, 0, 0]]


REFUSED = [
    (IndexError, "out of bounds", lambda: functional.embedding(numbers(5), table())),
    (IndexError, "out of bounds", lambda: functional.embedding(numbers(-1), table())),
    (RuntimeError, "dtype", lambda: functional.embedding(torch.ones(2), table())),
    (RuntimeError, "matrix", lambda: functional.embedding(numbers(0), torch.ones(3))),
    (
        AssertionError,
        "padding_idx",
        lambda: functional.embedding(numbers(0), table(), padding_idx=7),
    ),
    (
        ValueError,
        "sparse",
        lambda: functional.embedding_bag(torch.eye(2).long(), table(), mode="max", sparse=True),
    ),
    (
        ValueError,
        "scale_grad_by_freq",
        lambda: functional.embedding_bag(
            torch.eye(2).long(), table(), mode="max", scale_grad_by_freq=True
        ),
    ),
    (ValueError, "mode", lambda: functional.embedding_bag(torch.eye(2).long(), table(), mode="x")),
    (ValueError, "offsets", lambda: functional.embedding_bag(numbers(0), table())),
    (
        RuntimeError,
        "begin with 0",
        lambda: functional.embedding_bag(numbers(0, 1), table(), numbers(1)),
    ),
    (RuntimeError, "smaller", lambda: functional.one_hot(numbers(3), 2)),
    (RuntimeError, "int64", lambda: functional.one_hot(torch.ones(2))),
]


@pytest.mark.parametrize(("kind", "words", "call"), REFUSED)
def test_misfits_are_refused(kind, words, call):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "bool"])
def test_indices_of_another_dtype_are_refused_in_words(dtype):
    table = torch.rand(3, 3)
    index = torch.tensor([0, 1], dtype=getattr(torch, dtype))
    for call in (
        lambda: torch.embedding_renorm_(table, index, 0.5, 2.0),
        lambda: torch.nn.functional.embedding(index, table, max_norm=0.5),
        lambda: table.clone().index_reduce_(0, index, table[:2], "amax"),
    ):
        with pytest.raises(RuntimeError, match="must have dtype int32 or int64"):
            call()


def test_bags_take_numbers_of_a_narrower_dtype_than_their_offsets():
    table = torch.rand(3, 3)
    numbers, starts = torch.tensor([0, 2]), torch.tensor([0, 1])
    expected = torch.nn.functional.embedding_bag(numbers, table, starts)
    narrow = torch.nn.functional.embedding_bag(numbers.to(torch.uint8), table, starts)
    assert narrow.tolist() == expected.tolist()


def test_rows_without_columns_have_gradients_without_columns():
    table = torch.ones(4, 0, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1, 1]), table).sum().backward()
    assert table.grad.shape == (4, 0)
