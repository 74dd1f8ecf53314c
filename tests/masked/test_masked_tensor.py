"""Tensors with a mask of their own: what counts, what does not, and the gradients of both."""

import math

import pytest

import pullback as torch
from pullback.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

MASK = torch.tensor([[True, False, True], [False, True, True]])


def data():
    return torch.arange(6.0).reshape(2, 3) - 2.5


def masked(**options):
    return masked_tensor(data(), MASK, **options)


def shown(value):
    """Data where it counts, None elsewhere."""
    flat = zip(
        value.get_data().reshape(-1).tolist(), value.get_mask().reshape(-1).tolist(), strict=True
    )
    return [one if counts else None for one, counts in flat]


def test_elementwise_operators_keep_the_mask():
    result = (masked().abs() * 2 + 1).clamp(0, 4)
    assert is_masked_tensor(result)
    assert shown(result) == [4.0, None, 2.0, None, 4.0, 4.0]


def test_two_masks_must_agree():
    assert shown(masked() + masked()) == [-5.0, None, -1.0, None, 3.0, 5.0]
    with pytest.raises(ValueError, match="masks of the operands differ"):
        masked() + masked_tensor(data(), ~MASK)


def test_a_tensor_without_a_mask_counts_everywhere():
    assert shown(torch.ones(3) + masked()) == [-1.5, None, 0.5, None, 2.5, 3.5]


def test_reductions_leave_out_what_does_not_count():
    x = masked()
    assert shown(x.sum()) == [1.0]
    assert shown(x.mean(1)) == [-1.5, 2.0]
    assert shown(x.amax(0)) == [-2.5, 1.5, 2.5]
    assert shown(x.prod(dim=1, keepdim=True)) == [1.25, 3.75]
    assert shown(torch.sum(x, 0)) == [-2.5, 1.5, 2.0]
    assert x.var(1, unbiased=False).get_data().tolist() == pytest.approx([1.0, 0.25])
    assert shown((x > 0).all(1)) == [False, True]
    assert shown((x > 0).any()) == [True]


def test_a_reduction_of_nothing_does_not_count():
    x = masked_tensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[False, False]] * 2))
    assert x.sum(1).get_mask().tolist() == [False, False]
    assert repr(x.mean()) == "MaskedTensor(--, False)"


def test_shapes_change_for_data_and_mask():
    x = masked()
    assert shown(x.t()[2]) == [-0.5, 2.5]
    assert shown(torch.cat([x, x])[2:]) == shown(x)
    assert [shown(row) for row in x.unbind()] == [[-2.5, None, -0.5], [None, 1.5, 2.5]]
    assert shown(x.reshape(3, 2)[:, 1]) == [None, None, 2.5]


def test_where_takes_the_counting_of_either_side():
    x, y = masked(), masked_tensor(data() * 10, ~MASK)
    assert shown(torch.where(MASK, x, y)) == [-2.5, -15.0, -0.5, 5.0, 1.5, 2.5]
    assert shown(torch.where(~MASK, x, y)) == [None] * 6


def test_softmax_is_over_what_counts():
    rows = masked().softmax(1).to_tensor(0)
    assert rows.sum(1).tolist() == pytest.approx([1, 1])
    assert rows[0, 1] == 0


def test_writes_go_to_the_data_of_a_copy():
    source = data()
    x = masked_tensor(source, MASK)
    x.mul_(2).add_(1)
    assert shown(x) == [-4.0, None, 0.0, None, 4.0, 6.0]
    assert source.tolist() == data().tolist()
    assert x.eq_(0).get_data()[0, 2] == 1


def test_gradients_have_the_mask_and_their_values_do_not_know_what_it_hides():
    x = masked_tensor(torch.tensor([4.0, -1.0, 9.0]), torch.tensor([True, False, True]), True)
    x.sqrt().sum().backward()
    assert is_masked_tensor(x.grad)
    assert shown(x.grad) == [0.25, None, pytest.approx(1 / 6)]


def test_gradients_of_reductions_and_products():
    for function, expected in (
        (lambda x: (x * x).mean(), [-1.25, None, -0.25, None, 0.75, 1.25]),
        (lambda x: x.amax(1).sum(), [0.0, None, 1.0, None, 0.0, 1.0]),
        (lambda x: (x / x.detach()).sum(), [-0.4, None, -2.0, None, 1 / 1.5, 0.4]),
        (lambda x: x.t()[2].sum(), [0.0, None, 1.0, None, 0.0, 1.0]),
    ):
        x = masked(requires_grad=True)
        function(x).backward()
        got = x.grad.get_data().reshape(-1).tolist()
        for one, value in zip(got, expected, strict=True):
            assert value is None or one == pytest.approx(value)


def test_the_gradient_that_where_spoils_is_right():
    """exp overflows in the branch that is not taken, which gives NaN without a mask."""
    x = torch.tensor([-1.0, 0.0, 1000.0])
    small = x < 1
    first = masked_tensor(x, small, requires_grad=True)
    torch.where(small, first.exp(), masked_tensor(torch.ones(3), ~small)).sum().backward()
    assert shown(first.grad) == [pytest.approx(math.exp(-1)), 1.0, None]


def test_second_derivatives():
    x = masked(requires_grad=True)
    (g,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    g.sum().backward()
    assert shown(x.grad) == [-15.0, None, -3.0, None, 9.0, 15.0]


def test_as_masked_tensor_is_a_step_in_the_graph():
    leaf = data().requires_grad_()
    as_masked_tensor(leaf * 1, MASK).exp().sum().backward()
    assert leaf.grad.to_tensor(0)[0].tolist() == pytest.approx([math.exp(-2.5), 0, math.exp(-0.5)])
    with pytest.warns(UserWarning, match="not recommended"):
        assert not masked_tensor(leaf, MASK).requires_grad


def test_get_data_and_to_tensor_are_differentiable():
    x = masked(requires_grad=True)
    (x.to_tensor(7.0) * 2).sum().backward()
    assert shown(x.grad) == [2.0, None, 2.0, None, 2.0, 2.0]


def test_sparse_data_has_sparse_masks():
    place = torch.tensor([[0, 1, 1], [2, 0, 2]])
    values = torch.sparse_coo_tensor(place, torch.tensor([3.0, 0.0, 5.0]), (2, 4))
    mask = torch.sparse_coo_tensor(place, torch.tensor([True, False, True]), (2, 4))
    x = masked_tensor(values, mask)
    assert x.is_sparse_coo()
    assert not x.is_sparse_csr()
    assert shown(x.sum()) == [8.0]
    assert shown(x.to_dense()[1]) == [None, None, 5.0, None]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (([1.0], MASK), TypeError, "data must be a tensor"),
        ((data(), MASK.float()), TypeError, "dtype torch.bool"),
        ((data(), MASK[0]), ValueError, "both need the same"),
        ((data().to(torch.complex64), MASK), TypeError, "only real ones"),
        ((masked(), MASK), TypeError, "without a mask"),
        ((data().to_sparse(), MASK), TypeError, "layout"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, words):
    with pytest.raises(error, match=words):
        MaskedTensor(*given)


def test_operators_without_a_rule_say_what_to_use():
    with pytest.raises(TypeError, match=r"mm: there is no rule for tensors with a mask.*get_data"):
        masked() @ masked().t()
    with pytest.raises(TypeError, match="cannot take values that have one"):
        torch.ones(2, 3).add_(masked())


def test_numbers_are_read_from_single_elements():
    assert masked()[0, 0].item() == -2.5
    assert float(masked().sum()) == 1.0
    assert len(masked()) == 2


@pytest.mark.parametrize("convert", ["to_sparse", "to_sparse_coo", "to_sparse_csr"])
def test_sparse_layouts_hold_what_counts(convert):
    data, mask = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([[True, False], [True, True]])
    x = torch.masked.masked_tensor(data, mask, requires_grad=True)
    made = getattr(x, convert)()
    assert getattr(made, convert)() is made
    assert made.layout is made.get_data().layout is made.get_mask().layout
    assert made.get_data().values().tolist() == [1, 0, 4]
    back = made.to_dense()
    assert torch.equal(back.get_mask(), mask)
    assert back.to_tensor(9).tolist() == [[1, 9], [0, 4]]
    (back * back).sum().backward()
    assert x.grad.to_tensor(0).tolist() == [[2, 0], [0, 8]]


@pytest.mark.parametrize("layout", ["csc", "bsr", "bsc"])
def test_layouts_that_torch_does_not_mask_are_refused(layout):
    size = (1, 1) if layout.startswith("bs") else None
    wanted = getattr(torch, f"sparse_{layout}")
    data = torch.eye(2).to_sparse(layout=wanted, blocksize=size)
    mask = torch.eye(2).bool().to_sparse(layout=wanted, blocksize=size)
    with pytest.raises(TypeError, match=f"sparse_{layout}"):
        torch.masked.masked_tensor(data, mask)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_mask_has_the_indices_of_its_data(layout):
    data = torch.eye(2).to_sparse(layout=layout)
    other = torch.eye(2).flip(0).bool().to_sparse(layout=layout)
    with pytest.raises(ValueError, match="same indices"):
        torch.masked.masked_tensor(data, other)
    whole = torch.ones(2, 2).bool().to_sparse(layout=layout)
    assert torch.masked.masked_tensor(data, whole).get_mask() is not None
